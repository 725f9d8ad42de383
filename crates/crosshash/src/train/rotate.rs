//! The final step of a gradient training: a shift per modality and one rotation of all outputs
//! (`rotation.rs`), which validation accepts or rejects.

use crosshash_codes::eval::health;
use crosshash_codes::{Bits, Codes};
use serde::{Deserialize, Serialize};

use super::ValidationSet;
use crate::Result;
use crate::config::Config;
use crate::method::ModalityData;
use crate::model::outputs;
use crate::rotation::{Rotation, Steps};
use crate::tower::Tower;

/// Training items of a modality that the rotation is fitted on, at most.
const ITEMS: usize = 5000;
/// Iterations of ITQ.
const ITERATIONS: usize = 30;
/// Entropy of a bit, as a mean, from which on codes use their bits well.
const GOOD_ENTROPY: f64 = 0.9;
/// Codes that use their bits well are preferred if they cost at most this much of the score.
const COST: f64 = 0.01;

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
    /// Subtracts half of the mean of every modality.
    #[serde(rename = "half-mean")]
    HalfMean,
    /// Subtracts half of the mean and rotates by ITQ.
    #[serde(rename = "half-mean+itq")]
    HalfMeanItq,
}

impl RotationChoice {
    /// All choices of one rotation, with their names.
    const NAMED: [(RotationChoice, &str); 5] = [
        (RotationChoice::Mean, "mean"),
        (RotationChoice::Itq, "itq"),
        (RotationChoice::MeanItq, "mean+itq"),
        (RotationChoice::HalfMean, "half-mean"),
        (RotationChoice::HalfMeanItq, "half-mean+itq"),
    ];

    /// The choice of these steps, or of none.
    pub(super) fn of(steps: Option<Steps>) -> RotationChoice {
        let is = |(_, name): &&(_, &str)| steps.is_some_and(|steps| steps.name == *name);
        let found = RotationChoice::NAMED.iter().find(is);
        found.map_or(RotationChoice::None, |(choice, _)| *choice)
    }

    /// Its steps; `None` for none and for a choice by validation.
    pub(super) fn steps(self) -> Option<Steps> {
        let (_, name) = RotationChoice::NAMED.iter().find(|(choice, _)| *choice == self)?;
        Steps::ALL.into_iter().find(|steps| steps.name == *name)
    }

    fn candidates(self) -> Vec<Steps> {
        match self {
            RotationChoice::Auto => Steps::ALL.to_vec(),
            one => one.steps().into_iter().collect(),
        }
    }
}

/// The rotation to apply to these towers; `None` to leave them as they are.
pub(super) fn choose(
    config: &Config,
    validation: Option<&ValidationSet>,
    towers: &[(&ModalityData, &Tower)],
) -> Result<Option<(Steps, Rotation)>> {
    let (choice, bits, seed) = (config.rotation(), config.bits(), config.seed());
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
    let score = validation.validate(bits, towers)?.score;
    let mut tried = vec![Tried { score, entropy: entropy(bits, &real)?, rotation: None }];
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
        let (score, entropy) =
            (validation.validate(bits, &pairs)?.score, entropy(bits, &turned)?);
        tried.push(Tried { score, entropy, rotation: Some((steps, rotation)) });
    }
    Ok(best(tried).rotation)
}

/// A candidate and its validation.
struct Tried {
    score: f64,
    entropy: f64,
    rotation: Option<(Steps, Rotation)>,
}

/// The candidate of the best score; one that uses its bits well, if it costs little. The first of equals.
fn best(tried: Vec<Tried>) -> Tried {
    let top = tried.iter().map(|one| one.score).fold(f64::NEG_INFINITY, f64::max);
    let rank = |one: &Tried| {
        let preferred = one.entropy >= GOOD_ENTROPY && one.score >= top - COST;
        (preferred, one.score)
    };
    let better = |a: &Tried, b: &Tried| {
        let ((p, x), (q, y)) = (rank(a), rank(b));
        p.cmp(&q).then(x.total_cmp(&y)).is_gt()
    };
    let mut all = tried.into_iter();
    let first = all.next().expect("the outputs as they are");
    all.fold(first, |best, one| if better(&one, &best) { one } else { best })
}

/// The mean entropy of a bit over all modalities.
fn entropy(bits: Bits, outputs: &[Vec<f32>]) -> Result<f64> {
    let mut sum = 0.0;
    for rows in outputs {
        sum += health(&Codes::from_signs(bits, rows)?).bit_entropy;
    }
    Ok(sum / outputs.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_use_their_bits_are_preferred_if_they_cost_little() {
        let choose = |all: &[(f64, f64)]| {
            let tried = all.iter().enumerate().map(|(k, &(score, entropy))| {
                let outputs = [vec![1.0; 4]];
                let rotation = Rotation::fit(&outputs, 2, Steps::ALL[k], 1, 0);
                Tried { score, entropy, rotation: Some((Steps::ALL[k], rotation)) }
            });
            best(tried.collect()).rotation.map(|(steps, _)| steps.name)
        };
        let names = Steps::ALL.map(|steps| Some(steps.name));
        assert_eq!(choose(&[(0.60, 0.7), (0.598, 0.95), (0.599, 0.92)]), names[2]);
        assert_eq!(choose(&[(0.60, 0.7), (0.58, 0.95)]), names[0]);
        assert_eq!(choose(&[(0.60, 0.7), (0.60, 0.7)]), names[0]);
        assert_eq!(choose(&[(0.60, 0.95), (0.62, 0.5), (0.618, 0.9)]), names[2]);
    }
}
