//! The final step of a gradient training: a shift per modality and one rotation of all outputs
//! (`rotation.rs`), which validation accepts or rejects.

use crosshash_codes::eval::health;
use crosshash_codes::{Bits, Codes};
use serde::{Deserialize, Serialize};

use super::ValidationSet;
use crate::Result;
use crate::method::ModalityData;
use crate::model::outputs;
use crate::rotation::{Rotation, Steps};
use crate::tower::Tower;

/// Training items of a modality that the rotation is fitted on, at most.
const ITEMS: usize = 5000;
/// Iterations of ITQ.
const ITERATIONS: usize = 30;
/// Scores that differ by less are equal; the entropy of the bits then decides.
const EQUAL: f64 = 0.005;

/// Which rotation follows training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RotationChoice {
    /// The one that validation prefers, or none.
    #[serde(rename = "auto")]
    Auto,
    /// None.
    #[serde(rename = "none")]
    None,
    /// Subtracts the mean of every modality.
    #[serde(rename = "mean")]
    Mean,
    /// Rotates by ITQ.
    #[serde(rename = "itq")]
    Itq,
    /// Both.
    #[serde(rename = "mean+itq")]
    MeanItq,
}

impl RotationChoice {
    fn candidates(self) -> Vec<Steps> {
        match self {
            RotationChoice::Auto => Steps::ALL.to_vec(),
            RotationChoice::None => Vec::new(),
            RotationChoice::Mean => vec![Steps::Mean],
            RotationChoice::Itq => vec![Steps::Itq],
            RotationChoice::MeanItq => vec![Steps::MeanItq],
        }
    }
}

/// The rotation to apply to these towers; `None` to leave them as they are.
pub(super) fn choose(
    choice: RotationChoice,
    bits: Bits,
    seed: u64,
    validation: Option<&ValidationSet>,
    towers: &[(&ModalityData, &Tower)],
) -> Result<Option<(Steps, Rotation)>> {
    let candidates = choice.candidates();
    if candidates.is_empty() || (choice == RotationChoice::Auto && validation.is_none()) {
        return Ok(None);
    }
    let mut real = Vec::new();
    for (data, tower) in towers {
        let step = data.rows.len().div_ceil(ITEMS).max(1);
        let items: Vec<usize> = (0..data.rows.len()).step_by(step).collect();
        real.push(outputs(tower, &data.rows, &items, &|_| {})?);
    }
    let fit = |steps| Rotation::fit(&real, bits.get(), steps, ITERATIONS, seed);
    let Some(validation) = validation.filter(|_| choice == RotationChoice::Auto) else {
        return Ok(candidates.first().map(|&steps| (steps, fit(steps))));
    };
    let mut best = (validation.validate(bits, towers)?.score, entropy(bits, &real)?);
    let mut chosen = None;
    for steps in candidates {
        let rotation = fit(steps);
        let rotated: Vec<Tower> = towers
            .iter()
            .enumerate()
            .filter_map(|(m, (_, tower))| rotation.folded(m, tower))
            .collect();
        let pairs: Vec<_> = towers.iter().map(|(data, _)| *data).zip(&rotated).collect();
        let mut turned = real.clone();
        turned.iter_mut().enumerate().for_each(|(m, rows)| rotation.apply(m, rows));
        let found = (validation.validate(bits, &pairs)?.score, entropy(bits, &turned)?);
        let better = found.0 > best.0 + EQUAL
            || (found.0 > best.0 - EQUAL && found.1 > best.1 + EQUAL);
        if better {
            best = found;
            chosen = Some((steps, rotation));
        }
    }
    Ok(chosen)
}

/// The mean entropy of a bit over all modalities.
fn entropy(bits: Bits, outputs: &[Vec<f32>]) -> Result<f64> {
    let mut sum = 0.0;
    for rows in outputs {
        sum += health(&Codes::from_signs(bits, rows)?).bit_entropy;
    }
    Ok(sum / outputs.len().max(1) as f64)
}
