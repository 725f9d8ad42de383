//! CMHH: cross-modal Hamming hashing (Cao, Liu, Long and Wang, *Cross-Modal Hamming Hashing*, ECCV 2018).
//!
//! ```text
//! L = sum_{m <= m'} mean_ij w_ij [S_ij (1 - p_ij)^gamma beta d_ij - (1 - S_ij) p_ij^gamma log(1 - p_ij)]
//!   + lambda sum_m mean_i (1 - p_i)^gamma beta d_i,     p = e^(-beta d), S_ij in {0, 1}
//! ```
//!
//! over the items of a batch (`loss/exponential_focal.rs`). f = tanh of the outputs; codes are their signs.
//!
//! Differences from the paper: towers on features instead of AlexNet and a text network; S from labels in
//! the batch. The default of beta is 8 / r: equal to the paper's 0.5 at 16 bits, and e^-4 as the probability of two
//! unrelated codes at every length. With 0.5 at 64 bits that probability is e^-16: dissimilar items do not
//! repel each other before they are almost equal, and the codes of all items become the same. Items of one
//! modality are compared, too (m = m'), without which the codes of a modality are held apart only by the other.

use burn_tensor::Tensor;
use crosshash_codes::Labels;
use serde::{Deserialize, Serialize};

use super::batchwise::{BatchLoss, BatchObjective, number, similar, sum};
use super::range::{LEARNING_RATE, Range};
use super::{Begun, Entry, Method, MethodInfo, dcmh};
use crate::Result;
use crate::config::{Config, Settings as _, check};
use crate::data::Training;
use crate::loss::{Focus, exponential_focal, exponential_quantisation};
use crate::train::Terms;

/// Default of beta, times the bits of a code.
const BETA_BITS: f64 = 8.0;

/// The section `[cmhh]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Rate of the exponential; by default 8 divided by the bits of a code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) beta: Option<f64>,
    /// Exponent of the focus on hard pairs.
    pub(crate) gamma: f64,
    /// Weight of the quantisation.
    pub(crate) lambda: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { beta: None, gamma: 2.0, lambda: 0.1 }
    }
}

impl crate::config::Settings for Settings {
    const SECTION: &'static str = "cmhh";

    fn check(&self) -> Result<()> {
        if let Some(beta) = self.beta {
            check::positive("cmhh.beta", beta)?;
        }
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
        let f: Vec<Tensor<2>> = outputs.iter().map(|f| f.clone().tanh()).collect();
        let mut parts = Vec::new();
        for a in 0..f.len() {
            let bits = f[a].dims()[1] as f64;
            let beta = self.0.beta.unwrap_or(BETA_BITS / bits);
            let focus = Focus { beta, gamma: self.0.gamma };
            let quantisation = exponential_quantisation(f[a].clone(), focus);
            terms.mean("quantisation", number(&quantisation));
            parts.push(quantisation * self.0.lambda);
            for b in a..f.len() {
                let s = similar(&labels[a], &labels[b], [1.0, 0.0], &f[a].device());
                let focal = exponential_focal(f[a].clone(), f[b].clone(), s, focus);
                terms.mean("focal", number(&focal));
                parts.push(focal);
            }
        }
        sum(parts)
    }
}
