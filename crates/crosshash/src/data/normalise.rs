//! Normalisation of dense features, fitted on training items only.
//!
//! ```text
//! standardise   (x_j - mean_j) / sd_j     (sd_j = 1 if a feature is constant)
//! unit length   x / |x|                   (a row of zeros is unchanged)
//! ```
//!
//! Means and deviations are those of the training rows (divided by n), computed in one pass in double
//! precision (Welford), block by block, so that the rows may be larger than memory.

use serde::{Deserialize, Serialize};

use super::{Training, View};
use crate::{Error, Result};

/// Rows read at a time.
const BLOCK: usize = 256;

/// Normalisation of a row. It is saved with a model and can be applied to any item.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normaliser {
    /// None.
    None,
    /// Every feature to mean 0 and deviation 1.
    Standard(Standardiser),
    /// Every row to length 1.
    UnitLength,
}

impl Normaliser {
    /// Normalises a row in place.
    pub fn apply(&self, row: &mut [f32]) {
        match self {
            Normaliser::None => {}
            Normaliser::Standard(standardiser) => standardiser.apply(row),
            Normaliser::UnitLength => {
                let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
                if length > 0.0 {
                    row.iter_mut().for_each(|x| *x /= length);
                }
            }
        }
    }
}

/// Means and deviations of the features of one modality over its training items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standardiser {
    mean: Vec<f32>,
    sd: Vec<f32>,
}

impl Standardiser {
    /// Computes means and deviations of the training items.
    pub fn fit(training: &Training<'_>, modality: &str) -> Result<Standardiser> {
        let view = training.train(modality)?;
        let Some(width) = view.width().filter(|_| !view.is_empty()) else {
            return Err(Error::content(format!(
                "modality {modality} has no dense training features to standardise"
            )));
        };
        let (mean, m2) = moments(&view, width)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "features are single precision"
        )]
        let single = |x: f64| x as f32;
        let sd = |m2: &f64| match (m2 / view.len() as f64).sqrt() {
            sd if sd > 1e-12 => single(sd),
            _ => 1.0,
        };
        Ok(Standardiser {
            mean: mean.iter().copied().map(single).collect(),
            sd: m2.iter().map(sd).collect(),
        })
    }

    /// Normalises a row in place.
    pub fn apply(&self, row: &mut [f32]) {
        assert_eq!(row.len(), self.mean.len(), "the row has the wrong width");
        for (x, (mean, sd)) in row.iter_mut().zip(self.mean.iter().zip(&self.sd)) {
            *x = (*x - mean) / sd;
        }
    }

    /// The means.
    pub fn mean(&self) -> &[f32] {
        &self.mean
    }

    /// The deviations.
    pub fn sd(&self) -> &[f32] {
        &self.sd
    }
}

/// Mean and sum of squared deviations of every column.
fn moments(view: &View<'_>, width: usize) -> Result<(Vec<f64>, Vec<f64>)> {
    let (mut mean, mut m2) = (vec![0.0; width], vec![0.0; width]);
    let mut seen = 0.0;
    let positions: Vec<usize> = (0..view.len()).collect();
    let mut buffer = vec![0.0; BLOCK * width];
    for block in positions.chunks(BLOCK) {
        let rows = &mut buffer[..block.len() * width];
        view.read(block, rows)?;
        for row in rows.chunks_exact(width) {
            seen += 1.0;
            for (k, &x) in row.iter().enumerate() {
                let off = f64::from(x) - mean[k];
                mean[k] += off / seen;
                m2[k] += off * (f64::from(x) - mean[k]);
            }
        }
    }
    Ok((mean, m2))
}
