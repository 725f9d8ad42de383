//! Methods that learn all at once: one epoch, whose result is a tower per modality, linear on
//! the prepared rows.
//!
//! ```text
//! h = sgn((x - mean) W)          a linear tower with bias -mean W
//! ```
//!
//! Where there are fewer directions than bits (features of few numbers), the directions are
//! spread over the bits by one random projection for all modalities, `W R`, R of N(0, 1), the same
//! for every seed.

use burn::tensor::Device;
use crosshash_codes::Bits;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::{Fitting, Items, validate};
use crate::Result;
use crate::algebra::Matrix;
use crate::config::Run;
use crate::data::{Analysis, Training};
use crate::model::{Model, Side};
use crate::tower::{self, Shape, Tower, normal};
use crate::train::{Epoch, Step, Trainer, Watch};

/// Hears how much of how much is done; answers whether to go on.
pub(super) type Tell<'a> = dyn FnMut(usize, usize) -> bool + 'a;

/// What a solver gives: a tower for every modality, and what it minimised, if anything.
pub(super) struct Solved {
    pub(super) towers: Vec<Tower>,
    pub(super) loss: f64,
}

/// From training items to towers; may replace how items are prepared. `None` if it was stopped.
pub(super) type Solve<'r> =
    Box<dyn Fn(&mut [Items], &mut Tell<'_>) -> Result<Option<Solved>> + 'r>;

/// A training of one epoch.
pub(super) struct Once<'r> {
    run: &'r Run,
    labels: Vec<String>,
    items: Vec<Items>,
    solve: Solve<'r>,
    towers: Vec<Tower>,
    history: Vec<Epoch>,
}

impl<'r> Once<'r> {
    pub(super) fn begin(
        run: &'r Run,
        training: &Training<'_>,
        analysis: &dyn Fn(&str) -> Analysis,
        solver: impl FnOnce(&[Items]) -> Result<Solve<'r>>,
    ) -> Result<Box<dyn Fitting<'r> + 'r>> {
        let items = Items::every(run, training, analysis)?;
        let solve = solver(&items)?;
        let labels = training.label_names().to_vec();
        let (towers, history) = (Vec::new(), Vec::new());
        Ok(Box::new(Once { run, labels, items, solve, towers, history }))
    }
}

impl<'r> Fitting<'r> for Once<'r> {
    fn history(&self) -> &[Epoch] {
        &self.history
    }

    fn best_epoch(&self) -> Option<usize> {
        self.is_done().then_some(1)
    }

    fn is_done(&self) -> bool {
        !self.history.is_empty()
    }

    fn epoch(&mut self, watch: &mut Watch<'_>) -> Result<Option<&Epoch>> {
        if self.is_done() {
            return Ok(self.history.last());
        }
        let row = |loss| Epoch { loss, ..Epoch::numbered(1, 0.0) };
        let so_far = || row(f64::NAN);
        let mut tell = |done: usize, all: usize| {
            watch(&Step { done, all, batch: 1, items: done, so_far: &so_far }).is_continue()
        };
        let Some(Solved { towers, loss }) = (self.solve)(&mut self.items, &mut tell)?
        else {
            return Ok(None);
        };
        let map = match self.run.method.about().codes {
            true => validate(self.run.bits, self.items.iter().zip(&towers))?,
            false => None,
        };
        self.towers = towers;
        self.history.push(Epoch { map, ..row(loss) });
        Ok(self.history.last())
    }

    fn finish(mut self: Box<Self>) -> Result<Model> {
        if !self.is_done() {
            self.epoch(&mut crate::train::unwatched)?;
        }
        let width = self.towers.first().map_or(0, |tower| tower.shape().bits);
        let sides = self.items.into_iter().zip(self.towers).map(|(items, tower)| {
            let Items { name, origin, preparation, .. } = items;
            Side { name, origin, preparation, tower }
        });
        Ok(Model::new(Bits::new(width)?, self.labels, sides.collect(), Vec::new()))
    }

    fn trainer(&mut self) -> Option<&mut Trainer<'r>> {
        None
    }
}

/// What is known of one modality: directions as columns, and the mean that is taken off first.
pub(super) struct Linear {
    pub(super) weights: Matrix,
    pub(super) mean: Vec<f64>,
}

/// Linear towers of as many bits as are asked for.
pub(super) fn towers(run: &Run, items: &[Items], found: Vec<Linear>) -> Vec<Tower> {
    let bits = run.bits.get();
    let directions = found.iter().map(|one| one.weights.columns).min().unwrap_or(0);
    let spread = (directions < bits).then(|| {
        // One draw for all seeds: methods in closed form do not depend on the seed.
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        let values = normal(directions * bits, 1.0, &mut rng);
        Matrix { columns: bits, values: values.into_iter().map(f64::from).collect() }
    });
    let one = |(items, Linear { weights, mean }): (&Items, Linear)| {
        let weights = match &spread {
            Some(spread) => weights.first_columns(directions).times(spread),
            None => weights.first_columns(bits),
        };
        linear(items, &Linear { weights, mean })
    };
    items.iter().zip(found).map(one).collect()
}

/// The linear tower of one modality.
pub(super) fn linear(items: &Items, Linear { weights, mean }: &Linear) -> Tower {
    let columns = weights.columns;
    let shape = Shape {
        width: items.preparation.width(),
        sparse: items.preparation.is_sparse(),
        hidden: 0,
        bits: columns,
        classes: 0,
    };
    let mean = Matrix { columns: mean.len(), values: mean.clone() };
    let bias = mean.times(weights);
    #[expect(clippy::cast_possible_truncation, reason = "towers are single precision")]
    let matrix = |name, values: &[f64], sign: f64| tower::Matrix {
        name,
        columns,
        velocity: vec![0.0; values.len()],
        values: values.iter().map(|x| (sign * x) as f32).collect(),
    };
    let matrices = vec![
        matrix("heads.weight", &weights.values, 1.0),
        matrix("heads.bias", &bias.values, -1.0),
    ];
    let device = Device::flex().autodiff();
    Tower::from_matrices(shape, matrices, &device).expect("sizes made here")
}
