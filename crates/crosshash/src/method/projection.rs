//! Signs of random projections (Charikar 2002): the baseline that learns nothing.
//!
//! ```text
//! h = sgn(x R_m),   R_m of independent N(0, 1), one matrix per modality
//! ```
//!
//! Within a modality near rows get near codes; across modalities codes have nothing to do with
//! each other, and retrieval is at chance. Rows are prepared as for the towers.

use crosshash_codes::Bits;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use crate::data::{Analysis, Features, Training};
use crate::encode::Encoder;
use crate::model::outputs;
use crate::prepare::{Normalise, Preparation};
use crate::tower::{Matrix, Shape, Tower, normal};
use crate::{Error, Result};

/// Random projections of some modalities.
pub struct Projection {
    bits: Bits,
    sides: Vec<(String, Preparation, Tower)>,
}

impl Projection {
    /// Draws one projection per modality.
    pub fn new(
        bits: Bits,
        training: &Training<'_>,
        analysis: &dyn Fn(&str) -> Analysis,
        seed: u64,
    ) -> Result<Projection> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let device = burn::tensor::Device::flex().autodiff();
        let mut sides = Vec::new();
        for name in training.modalities() {
            let preparation =
                Preparation::fit(training, name, Normalise::Standard, &analysis(name))?;
            let (width, columns) = (preparation.width(), bits.get());
            let shape = Shape {
                width,
                sparse: preparation.is_sparse(),
                hidden: 0,
                bits: columns,
                classes: 0,
            };
            let matrix = |name, values: Vec<f32>| Matrix {
                name,
                columns,
                velocity: vec![0.0; values.len()],
                values,
            };
            let weight = matrix("heads.weight", normal(width * columns, 1.0, &mut rng));
            let bias = matrix("heads.bias", vec![0.0; columns]);
            let tower = Tower::from_matrices(shape, vec![weight, bias], &device)
                .ok_or_else(|| Error::content("a projection of another size"))?;
            sides.push((name.to_owned(), preparation, tower));
        }
        Ok(Projection { bits, sides })
    }
}

impl Encoder for Projection {
    fn bits(&self) -> Bits {
        self.bits
    }

    fn modalities(&self) -> Vec<&str> {
        self.sides.iter().map(|side| side.0.as_str()).collect()
    }

    fn outputs(
        &self,
        modality: &str,
        features: Features,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<f32>> {
        let found = self.sides.iter().find(|side| side.0 == modality);
        let (_, preparation, tower) =
            found.ok_or_else(|| Error::unknown("modality", modality, self.modalities()))?;
        let rows = preparation.rows(features)?;
        let all: Vec<usize> = (0..rows.len()).collect();
        outputs(tower, &rows, &all, progress)
    }
}
