//! CHN: correlation hashing network (Cao, Long, Wang and Zhu, *Correlation Hashing Network for Efficient
//! Cross-Modal Retrieval*, BMVC 2017, arXiv:1602.06697).
//!
//! ```text
//! L = sum_{m < m'} mean_ij max(0, delta - S_ij cos(f_i, g_j))^2
//!   + lambda sum_m mean_i max(0, delta - cos(|f_i|, 1)),      S_ij in {-1, 1}
//! ```
//!
//! over the items of a batch (`loss/cosine_margin.rs`, with the faults of a public port). f = tanh of
//! the outputs; codes are their signs.
//!
//! Differences from the paper: towers on features instead of AlexNet and a text network; S from labels
//! in the batch, where the paper draws pairs; defaults delta 0.8 and lambda 0.01.

use burn_tensor::Tensor;
use crosshash_codes::Labels;
use serde::{Deserialize, Serialize};

use super::batchwise::{BatchLoss, BatchObjective, number, similar, sum};
use super::range::{LEARNING_RATE, Range};
use super::{Begun, Entry, Method, MethodInfo, dcmh};
use crate::Result;
use crate::config::{Config, Settings as _, check};
use crate::data::Training;
use crate::loss::{cosine_margin, cosine_quantisation};
use crate::train::Terms;

/// The section `[chn]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Margin of cosines.
    pub(crate) delta: f64,
    /// Weight of the quantisation.
    pub(crate) lambda: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { delta: 0.8, lambda: 0.01 }
    }
}

impl crate::config::Settings for Settings {
    const SECTION: &'static str = "chn";

    fn check(&self) -> Result<()> {
        if !(self.delta > 0.0 && self.delta <= 1.0) {
            return check::fail("chn.delta", self.delta, "above 0 and at most 1");
        }
        check::not_negative("chn.lambda", self.lambda)
    }
}

/// CHN.
pub(super) const ENTRY: Entry = Entry {
    info: MethodInfo {
        name: "chn",
        title: "cosine margin between modalities",
        paper: "Cao, Long, Wang, Zhu: Correlation Hashing Network, BMVC",
        year: 2017,
        cost: "O(n (towers + batch r))",
        pairs: false,
        ..dcmh::INFO
    },
    sections: &[Settings::SECTION],
    search: &[
        LEARNING_RATE,
        Range::linear("chn.delta", 0.3, 1.0),
        Range::log("chn.lambda", 0.001, 1.0),
    ],
    build: |sections| Ok(Box::new(Chn(sections.read()?))),
};

#[derive(Debug, Clone)]
struct Chn(Settings);

impl Method for Chn {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        let new = BatchObjective::new(config, training, &[], Box::new(self.clone()))?;
        Ok(Begun::Gradient(Box::new(new)))
    }
}

impl BatchLoss for Chn {
    fn loss(
        &self,
        outputs: &[Tensor<2>],
        labels: &[Labels],
        _: &[Tensor<2>],
        terms: &mut Terms,
    ) -> Option<Tensor<1>> {
        let Settings { delta, lambda } = self.0;
        let f: Vec<Tensor<2>> = outputs.iter().map(|f| f.clone().tanh()).collect();
        let mut parts = Vec::new();
        for a in 0..f.len() {
            let quantisation = cosine_quantisation(f[a].clone(), delta);
            terms.mean("quantisation", number(&quantisation));
            parts.push(quantisation * lambda);
            for b in a + 1..f.len() {
                let s = similar(&labels[a], &labels[b], [1.0, -1.0], &f[a].device());
                let margin = cosine_margin(f[a].clone(), f[b].clone(), s, delta);
                terms.mean("margin", number(&margin));
                parts.push(margin);
            }
        }
        sum(parts)
    }
}
