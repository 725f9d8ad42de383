//! JCCH+DCMH: DCMH that starts from JCCH (Zhang, Li and Zhang 2019, section on convergence).
//!
//! ```text
//! 1. JCCH for `dcmh.warm` epochs (10)            2. the towers are carried over, without
//! 3. F, G <- outputs of all training pairs          centres and classifiers
//! 4. B = sgn(F + G), then DCMH for the other epochs (`dcmh.rs`)
//! ```
//!
//! `epochs` counts both phases. Departures: the paper does not give DCMH's rate after the start
//! (`dcmh.rate`; 0.003, a hundredth of what DCMH takes from the start, keeps what was learnt);
//! JCCH's rate falls within its own epochs; outputs are scaled once so that their mean square is 1,
//! the length that DCMH pulls to, because JCCH's are as long as its centres (this changes no code);
//! the best epoch by validation may be one of JCCH's.

use super::dcmh::{self, Pairwise};
use super::items::pairs;
use super::{About, Fitting, Items, Method, jcch};
use crate::config::{RawRun, Run};
use crate::data::{Analysis, Training};
use crate::model::{Model, outputs};
use crate::tower::{Matrix, Tower};
use crate::train::{Epoch, Trainer, Watch};
use crate::{Error, Result};

/// JCCH+DCMH.
pub(super) struct JcchDcmh;

impl Method for JcchDcmh {
    fn about(&self) -> About {
        About {
            name: "jcch+dcmh",
            title: "DCMH after ten epochs of JCCH",
            paper: jcch::ABOUT.paper,
            year: jcch::ABOUT.year,
            cost: "O(n (towers + r C)), then O(n towers + n^2 r)",
            ..dcmh::ABOUT
        }
    }

    fn begin<'r>(
        &self,
        run: &'r Run,
        training: &Training<'_>,
        analysis: &dyn Fn(&str) -> Analysis,
    ) -> Result<Box<dyn Fitting<'r> + 'r>> {
        let (epochs, warm) = (run.raw.epochs, run.raw.dcmh.warm);
        let first = run.first.as_deref().filter(|_| epochs > warm).ok_or_else(|| {
            Error::content(format!(
                "epochs = {epochs}, dcmh.warm = {warm}: jcch+dcmh needs at least one epoch of \
                 each, and epochs counts both"
            ))
        })?;
        let trainer = Trainer::new(first, training, analysis)?;
        let pairs = pairs(self.name(), training, trainer.items())?;
        let labels = training.label_names().to_vec();
        Ok(Box::new(Chained { run, pairs, labels, phase: Phase::First(Box::new(trainer)) }))
    }

    fn first(&self, raw: &RawRun) -> Option<RawRun> {
        let epochs = raw.dcmh.warm;
        Some(RawRun { method: jcch::ABOUT.name.into(), epochs, ..raw.clone() })
    }
}

/// One training after the other.
struct Chained<'r> {
    run: &'r Run,
    pairs: Vec<Vec<usize>>,
    labels: Vec<String>,
    phase: Phase<'r>,
}

enum Phase<'r> {
    First(Box<Trainer<'r>>),
    Second(Box<Pairwise<'r>>),
    Between,
}

impl<'r> Chained<'r> {
    /// Carries the towers over.
    fn cross(&mut self, trainer: Trainer<'r>) -> Result<Pairwise<'r>> {
        let (history, best) = (trainer.history().to_vec(), trainer.best_epoch());
        let (mut items, mut towers) = (Vec::new(), Vec::new());
        let pairs = std::mem::take(&mut self.pairs);
        for ((side, tower), pairs) in trainer.into_sides()?.into_iter().zip(&pairs) {
            towers.push(carried(&side, &tower, pairs)?);
            items.push(side);
        }
        let labels = std::mem::take(&mut self.labels);
        Pairwise::new(self.run, labels, items, pairs, towers, history, best)
    }
}

impl<'r> Fitting<'r> for Chained<'r> {
    fn history(&self) -> &[Epoch] {
        match &self.phase {
            Phase::First(trainer) => trainer.history(),
            Phase::Second(pairwise) => pairwise.history(),
            Phase::Between => &[],
        }
    }

    fn best_epoch(&self) -> Option<usize> {
        match &self.phase {
            Phase::First(trainer) => trainer.best_epoch(),
            Phase::Second(pairwise) => pairwise.best_epoch(),
            Phase::Between => None,
        }
    }

    fn is_done(&self) -> bool {
        matches!(&self.phase, Phase::Second(pairwise) if pairwise.is_done())
    }

    fn epoch(&mut self, watch: &mut Watch<'_>) -> Result<Option<&Epoch>> {
        let over = matches!(&self.phase, Phase::First(trainer) if trainer.is_done());
        let phase = std::mem::replace(&mut self.phase, Phase::Between);
        self.phase = match phase {
            Phase::First(trainer) if over => Phase::Second(Box::new(self.cross(*trainer)?)),
            other => other,
        };
        match &mut self.phase {
            Phase::First(trainer) => trainer.epoch(watch),
            Phase::Second(pairwise) => pairwise.epoch(watch),
            Phase::Between => Ok(None),
        }
    }

    fn finish(self: Box<Self>) -> Result<Model> {
        match self.phase {
            Phase::First(trainer) => trainer.finish(),
            Phase::Second(pairwise) => pairwise.finish(),
            Phase::Between => {
                Err(Error::content("the training stopped between its phases"))
            }
        }
    }

    fn trainer(&mut self) -> Option<&mut Trainer<'r>> {
        None
    }
}

/// A tower without its classifier, whose outputs have mean square 1 over the pairs; codes are
/// the same.
fn carried(items: &Items, tower: &Tower, pairs: &[usize]) -> Result<Tower> {
    let shape = tower.shape();
    let found = outputs(tower, &items.rows, pairs, &|_| {})?;
    let squares: f64 = found.iter().map(|&x| f64::from(x).powi(2)).sum();
    let size = (squares / found.len() as f64).sqrt().max(1e-6);
    #[expect(clippy::cast_possible_truncation, reason = "towers are single precision")]
    let scale = (1.0 / size) as f32;
    let heads = |matrix: Matrix| {
        if !matrix.name.starts_with("heads") {
            return Matrix { velocity: vec![0.0; matrix.values.len()], ..matrix };
        }
        let rows = matrix.values.chunks_exact(matrix.columns);
        let values: Vec<f32> =
            rows.flat_map(|row| row[..shape.bits].iter().map(|x| x * scale)).collect();
        let velocity = vec![0.0; values.len()];
        Matrix { name: matrix.name, columns: shape.bits, values, velocity }
    };
    let matrices = tower.matrices(true).into_iter().map(heads).collect();
    let shape = crate::tower::Shape { classes: 0, ..shape };
    Tower::from_matrices(shape, matrices, &crate::device::learning())
        .ok_or_else(|| Error::content("a tower of another size"))
}
