//! CMHH: cross-modal Hamming hashing (Cao, Liu, Long and Wang, *Cross-Modal Hamming Hashing*, ECCV
//! 2018).
//!
//! ```text
//! L = sum_{m < m'} mean_ij w_ij focal(S_ij, d_ij) + lambda sum_m mean_i focal(1, d(|f_i|, 1))
//! ```
//!
//! over the items of a batch, with distances d = r/2 (1 - cos) and the probability e^(-beta d) that a
//! pair is similar (`loss/focal_hamming.rs`). f = tanh of the outputs; codes are their signs.
//!
//! Differences from the paper: towers on features; S from labels in the batch; w are inverse frequencies
//! of similar and dissimilar pairs in the batch, with mean 1. There is no public code of the authors.

use burn_tensor::Tensor;
use crosshash_codes::Labels;
use serde::{Deserialize, Serialize};

use super::batchwise::{BatchLoss, BatchObjective, number, similar, sum};
use super::range::{LEARNING_RATE, Range};
use super::{Begun, Entry, Method, MethodInfo, dcmh};
use crate::Result;
use crate::config::{Config, Settings as _, check};
use crate::data::Training;
use crate::loss::{Focus, focal_hamming, focal_quantisation};
use crate::train::Terms;

/// The section `[cmhh]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Decay of the probability with the distance.
    pub(crate) beta: f64,
    /// Exponent of the focus on hard pairs.
    pub(crate) gamma: f64,
    /// Weight of the quantisation.
    pub(crate) lambda: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { beta: 0.5, gamma: 2.0, lambda: 0.01 }
    }
}

impl crate::config::Settings for Settings {
    const SECTION: &'static str = "cmhh";

    fn check(&self) -> Result<()> {
        check::positive("cmhh.beta", self.beta)?;
        check::not_negative("cmhh.gamma", self.gamma)?;
        check::not_negative("cmhh.lambda", self.lambda)
    }
}

/// CMHH.
pub(super) const ENTRY: Entry = Entry {
    info: MethodInfo {
        name: "cmhh",
        title: "exponential focal loss of Hamming distances",
        paper: "Cao, Liu, Long, Wang: Cross-Modal Hamming Hashing, ECCV",
        year: 2018,
        cost: "O(n (towers + batch r))",
        pairs: false,
        ..dcmh::INFO
    },
    sections: &[Settings::SECTION],
    search: &[
        LEARNING_RATE,
        Range::log("cmhh.beta", 0.05, 1.0),
        Range::linear("cmhh.gamma", 0.0, 3.0),
        Range::log("cmhh.lambda", 0.001, 1.0),
    ],
    build: |sections| Ok(Box::new(Cmhh(sections.read()?))),
};

#[derive(Debug, Clone)]
struct Cmhh(Settings);

impl Method for Cmhh {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        let new = BatchObjective::new(config, training, &[], Box::new(self.clone()))?;
        Ok(Begun::Gradient(Box::new(new)))
    }
}

impl BatchLoss for Cmhh {
    fn loss(
        &self,
        outputs: &[Tensor<2>],
        labels: &[Labels],
        _: &[Tensor<2>],
        terms: &mut Terms,
    ) -> Option<Tensor<1>> {
        let Settings { beta, gamma, lambda } = self.0;
        let focus = Focus { beta, gamma };
        let f: Vec<Tensor<2>> = outputs.iter().map(|f| f.clone().tanh()).collect();
        let mut parts = Vec::new();
        for a in 0..f.len() {
            let quantisation = focal_quantisation(f[a].clone(), focus);
            terms.mean("quantisation", number(&quantisation));
            parts.push(quantisation * lambda);
            for b in a + 1..f.len() {
                let s = similar(&labels[a], &labels[b], [1.0, 0.0], &f[a].device());
                let w = frequencies(&s);
                let focal = focal_hamming(f[a].clone(), f[b].clone(), s, w, focus);
                terms.mean("focal", number(&focal));
                parts.push(focal);
            }
        }
        sum(parts)
    }
}

/// Weights by which similar and dissimilar pairs have the same sum, with mean 1.
fn frequencies(similar: &Tensor<2>) -> Tensor<2> {
    let share = f64::from(similar.clone().mean().into_scalar::<f32>());
    let weight = |share: f64| if share > 0.0 && share < 1.0 { 0.5 / share } else { 1.0 };
    let (yes, no) = (weight(share), weight(1.0 - share));
    similar.clone() * (yes - no) + no
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimise::floats;

    #[test]
    fn weights_balance_pairs() {
        let device = burn_tensor::Device::flex();
        let s = Tensor::<2>::from_data([[1.0, 0.0], [0.0, 0.0]], &device);
        let w = floats(frequencies(&s));
        assert!(
            (w[0] - 2.0).abs() < 1e-6 && (w[1..].iter().sum::<f32>() - 2.0).abs() < 1e-6
        );
        let all = Tensor::<2>::from_data([[1.0, 1.0]], &device);
        assert_eq!(floats(frequencies(&all)), [1.0, 1.0]);
    }
}
