//! JCCH: joint cluster unary loss (Zhang, Li and Zhang, *Joint Cluster Unary Loss for Efficient
//! Cross-Modal Hashing*, ICMR 2019), and JCCH-B, its ablation with the basic coefficients.
//!
//! ```text
//! L = sum_m ( L_u^m + mu L_1^m + alpha_m L_q^m ) + beta sum_{m < m'} L_pair^{m m'}
//! JCCH-B:  q_is = 1/|Y_i|,   u_is = 1
//! ```
//!
//! One set of centres is shared by all modalities, two or any number; with one modality and beta 0
//! this is SCDH. Differences from the paper: every term is a mean over the items of the batch; one alpha per modality
//! (`alpha.rs`); the pair term uses the pairs in the batch, for every two modalities, and is absent if
//! there are none.

mod alpha;
#[cfg(test)]
mod golden_tests;
mod loss;
mod modality;
mod objective;
mod pair_keys;
pub(super) mod sampler;
#[cfg(test)]
mod sampler_tests;

pub(crate) use objective::JcchObjective;

use serde::{Deserialize, Serialize};

use super::jcch_plus::Plus;
use super::range::{LEARNING_RATE, Range};
use super::{Begun, Entry, Learning, Method, MethodInfo};
use crate::config::{Config, Settings as _, check};
use crate::data::Training;
use crate::supervise::{Kind, Scale};
use crate::{Error, Result};

/// JCCH.
pub(super) const JCCH: Entry = Entry {
    info: INFO,
    sections: SECTIONS,
    search: SEARCH,
    build: |sections| {
        Ok(Box::new(Jcch { settings: sections.read()?, coefficients: Kind::Auto }))
    },
};

/// JCCH-B.
pub(super) const JCCH_B: Entry = Entry {
    info: MethodInfo { name: "jcch-b", title: "JCCH with q = 1/|Y|, u = 1", ..INFO },
    sections: SECTIONS,
    search: SEARCH,
    build: |sections| {
        Ok(Box::new(Jcch { settings: sections.read()?, coefficients: Kind::Scul }))
    },
};

pub(super) const SECTIONS: &[&str] = &[Settings::SECTION];
pub(super) const SEARCH: &[Range] = &[
    LEARNING_RATE,
    Range::log("jcch.lambda", 0.0002, 0.05),
    Range::log("jcch.mu", 0.03, 3.0),
    Range::log("jcch.beta", 0.03, 3.0),
    Range::choice("jcch.classifier", &["mean", "sum"]),
];

pub(super) const INFO: MethodInfo = MethodInfo {
    name: "jcch",
    title: "joint cluster unary loss, coefficients of the improved bound",
    paper: "Zhang, Li, Zhang: Joint Cluster Unary Loss for Efficient Cross-Modal Hashing, ICMR",
    year: 2019,
    cost: "O(n (towers + r C))",
    pairs: false,
    single: false,
    labels: true,
    learning: Learning::Epochs,
    seeded: true,
    codes: true,
    networks: true,
    rotates: false,
    steps: 3000,
    on_features: "",
};

/// The section `[jcch]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Weight of the attraction to the centres.
    pub(crate) lambda: f64,
    /// Weight of the classifier.
    pub(crate) mu: f64,
    /// Whether the classifier loss of an item is the mean over its labels or their sum.
    pub(crate) classifier: Reduction,
    /// Weight of the pair term, if there are pairs.
    pub(crate) beta: f64,
    /// Weight of the quantisation loss; default: controlled to reach `quantisation_target`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) alpha: Option<f64>,
    /// The target of the quantisation loss.
    pub(crate) quantisation_target: f64,
    /// One weight for all modalities, controlled by their mean quantisation loss.
    pub(crate) alpha_tied: bool,
    /// Learning rate of the centres; default `learning_rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) learning_rate_centres: Option<f64>,
    /// Weight decay of the centres; default `weight_decay`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) weight_decay_centres: Option<f64>,
    /// auto, exact, anchors, graded, scul, balanced or uniform; default: that of the method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) coefficients: Option<Kind>,
    /// Number of anchors that the coefficients are estimated from; default: all items if possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) anchors: Option<usize>,
    /// Scale of the coefficients: paper, or mean-one (mean q = 1).
    pub(crate) scale: Scale,
}

/// How the losses of the labels of an item are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reduction {
    /// Their mean: an item of many labels weighs as much as one of a single label.
    Mean,
    /// Their sum, as in the unary term, whose coefficients of an item sum to about |Y_i|.
    Sum,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            lambda: 0.002,
            mu: 0.1,
            classifier: Reduction::Mean,
            // By validation: 0.3 on emoji and on the notes of IAPR TC-12, 2 on its German captions
            // (`docs/training.md`).
            beta: 0.3,
            alpha: None,
            quantisation_target: 0.15,
            alpha_tied: false,
            learning_rate_centres: None,
            weight_decay_centres: None,
            coefficients: None,
            anchors: None,
            scale: Scale::Paper,
        }
    }
}

impl crate::config::Settings for Settings {
    const SECTION: &'static str = "jcch";

    fn check(&self) -> Result<()> {
        for (key, value) in [
            ("jcch.lambda", self.lambda),
            ("jcch.mu", self.mu),
            ("jcch.beta", self.beta),
            ("jcch.alpha", self.alpha.unwrap_or(0.0)),
            ("jcch.weight_decay_centres", self.weight_decay_centres.unwrap_or(0.0)),
        ] {
            check::not_negative(key, value)?;
        }
        if let Some(rate) = self.learning_rate_centres {
            check::positive("jcch.learning_rate_centres", rate)?;
        }
        if self.anchors == Some(0) {
            return check::fail("jcch.anchors", 0, "at least 1");
        }
        if !(0.0 < self.quantisation_target && self.quantisation_target < 0.9) {
            let value = self.quantisation_target;
            return check::fail("jcch.quantisation_target", value, "above 0 and below 0.9");
        }
        Ok(())
    }
}

/// JCCH with its settings.
#[derive(Debug, Clone)]
pub(super) struct Jcch {
    pub(super) settings: Settings,
    pub(super) coefficients: Kind, // default
}

impl Method for Jcch {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        Ok(Begun::Gradient(Box::new(self.objective(config, training)?)))
    }
}

impl Jcch {
    pub(super) fn objective(
        &self,
        config: &Config,
        training: &Training<'_>,
    ) -> Result<JcchObjective> {
        self.objective_with(config, training, None)
    }

    /// Prepares a training with the terms of JCCH+.
    pub(super) fn objective_with(
        &self,
        config: &Config,
        training: &Training<'_>,
        plus: Option<&Plus>,
    ) -> Result<JcchObjective> {
        let mut settings = self.settings.clone();
        settings.coefficients.get_or_insert(self.coefficients);
        JcchObjective::new(config, settings, training, plus)
    }
}

/// The error of arrays that do not belong to this training.
fn misfit(what: &str) -> Error {
    Error::content(format!("the size of {what} differs from the configuration"))
}
