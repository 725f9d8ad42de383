//! Methods in closed form: one epoch, whose result is a tower per modality, linear on the prepared
//! rows.
//!
//! ```text
//! h = sgn((x - mean) W)          a linear tower with bias -mean W
//! ```
//!
//! If there are fewer directions than bits (narrow features), the directions are mapped to the bits by one
//! random projection for all modalities, `W R`, R of N(0, 1), the same for every seed.

use crosshash_codes::Bits;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::{Begun, ModalityData};
use crate::Result;
use crate::algebra::Matrix;
use crate::config::Config;
use crate::data::Training;
use crate::model::{ModalityModel, Model};
use crate::tower::{self, Shape, Tower, normal};
use crate::train::{Callback, Epoch, Step, ValidationSet};

/// Reports the steps that are done and their total; returns whether to continue.
pub(super) type Progress<'a> = dyn FnMut(usize, usize) -> bool + 'a;

/// The result of a solver: a tower for every modality, and the value of its objective (NaN if it has
/// none).
pub(super) struct Solution {
    pub(super) towers: Vec<Tower>,
    pub(super) loss: f64,
}

/// From training items to towers; may replace the preparation of items. `None` if it was stopped.
pub(super) type Solve =
    Box<dyn Fn(&mut [ModalityData], &mut Progress<'_>) -> Result<Option<Solution>> + Send>;

/// A method in closed form, prepared.
pub(crate) struct ClosedForm {
    modalities: Vec<ModalityData>,
    solve: Solve,
    towers: Vec<Tower>,
    pub(super) unified: bool, // database items have one code for all modalities
}

/// Prepares the modalities and the solver.
pub(super) fn begin(
    config: &Config,
    training: &Training<'_>,
    solver: impl FnOnce(&[ModalityData]) -> Result<Solve>,
) -> Result<Begun> {
    let modalities = ModalityData::every(config, training)?;
    let solve = solver(&modalities)?;
    Ok(Begun::ClosedForm(ClosedForm {
        modalities,
        solve,
        towers: Vec::new(),
        unified: false,
    }))
}

impl ClosedForm {
    /// The data of every modality.
    pub(crate) fn modalities(&self) -> Vec<&ModalityData> {
        self.modalities.iter().collect()
    }

    /// Solves; `None` if the callback stopped it.
    pub(crate) fn solve(
        &mut self,
        config: &Config,
        validation: Option<&ValidationSet>,
        callback: &mut dyn Callback,
    ) -> Result<Option<Epoch>> {
        let row = |loss| Epoch {
            epoch: 1,
            learning_rate: 0.0,
            loss,
            terms: Vec::new(),
            validation: None,
        };
        let so_far = || row(f64::NAN);
        let mut progress = |done: usize, all: usize| {
            let step = Step { epoch: 1, done, all, batch: 1, items: done, so_far: &so_far };
            callback.step(&step).is_continue()
        };
        let found = (self.solve)(&mut self.modalities, &mut progress)?;
        let Some(Solution { towers, loss }) = found else { return Ok(None) };
        let validation = match validation.filter(|_| config.method().codes) {
            Some(set) => {
                let towers: Vec<_> = self.modalities.iter().zip(&towers).collect();
                Some(set.validate(config.bits(), &towers)?)
            }
            None => None,
        };
        self.towers = towers;
        Ok(Some(Epoch { validation, ..row(loss) }))
    }

    pub(crate) fn into_model(self, labels: Vec<String>) -> Result<Model> {
        let width = self.towers.first().map_or(0, |tower| tower.shape().bits);
        let modalities = self.modalities.into_iter().zip(self.towers);
        let modalities = modalities.map(|(data, tower)| ModalityModel::new(data, tower));
        let model = Model::new(Bits::new(width)?, labels, modalities.collect(), Vec::new());
        Ok(model.unified(self.unified))
    }
}

/// A linear map of one modality: directions as columns, and the mean that is subtracted first.
pub(super) struct Linear {
    pub(super) weights: Matrix,
    pub(super) mean: Vec<f64>,
}

/// Linear towers of the configured number of bits.
pub(super) fn towers(
    config: &Config,
    modalities: &[ModalityData],
    found: Vec<Linear>,
) -> Vec<Tower> {
    let bits = config.bits().get();
    let directions = found.iter().map(|one| one.weights.columns).min().unwrap_or(0);
    let projection = (directions < bits).then(|| {
        // The same for all seeds: methods in closed form do not depend on the seed.
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        let values = normal(directions * bits, 1.0, &mut rng);
        Matrix { columns: bits, values: values.into_iter().map(f64::from).collect() }
    });
    let one = |(data, Linear { weights, mean }): (&ModalityData, Linear)| {
        let weights = match &projection {
            Some(projection) => weights.first_columns(directions).matmul(projection),
            None => weights.first_columns(bits),
        };
        linear(data, &Linear { weights, mean })
    };
    modalities.iter().zip(found).map(one).collect()
}

/// The linear tower of one modality.
pub(super) fn linear(data: &ModalityData, Linear { weights, mean }: &Linear) -> Tower {
    let columns = weights.columns;
    let shape = Shape {
        width: data.preparation.width(),
        sparse: data.preparation.is_sparse(),
        hidden: 0,
        bits: columns,
        classes: 0,
        ..Shape::default()
    };
    let mean = Matrix { columns: mean.len(), values: mean.clone() };
    let bias = mean.matmul(weights);
    #[expect(clippy::cast_possible_truncation, reason = "towers are single precision")]
    let matrix = |name: &'static str, values: &[f64], sign: f64| tower::Matrix {
        name: name.into(),
        columns,
        velocity: vec![0.0; values.len()],
        values: values.iter().map(|x| (sign * x) as f32).collect(),
    };
    let matrices = vec![
        matrix("heads.weight", &weights.values, 1.0),
        matrix("heads.bias", &bias.values, -1.0),
    ];
    let device = crate::device::learning();
    Tower::from_matrices(shape, matrices, &device).expect("sizes made here")
}
