//! JCCH+: JCCH with instance-aware terms, to find single items and not only groups.
//!
//! ```text
//! L = sum_m ( w_u L_u^m + mu L_1^m + alpha_m L_q^m + w_b L_balance^m )
//!   + sum_{m < m'} ( beta L_pair + w_i L_instance + w_s L_similarity )
//! ```
//!
//! `L_u` is the unary term of JCCH or its tight form (`loss/tight_unary.rs`); `L_instance` is InfoNCE
//! with several positives (`loss/instance.rs`): every item of the batch whose text contains all words of
//! a query text is a positive; `L_similarity` is the pair likelihood on cosines against a queue
//! (`loss/cosine_likelihood.rs`). Texts are weighted by tf-idf, extended by character n-grams, scaled to
//! the norm of dense features, and truncated to a few random words in a share of the steps, as users type.
//! The learning rate follows a cosine. After training, a shift per modality and one rotation of all
//! outputs are applied if validation improves (`rotation.rs`).
//!
//! Without labels, the unary, classifier and similarity terms are absent, and only pairs are used.
//! Cost: O(n (towers + r C + r queue)); no n x n object.

mod terms;

pub(crate) use terms::{Extra, PairInputs};

use serde::{Deserialize, Serialize};

use super::jcch::{self, Jcch};
use super::modality_data::TextOptions;
use super::range::{LEARNING_RATE, Range};
use super::{Begun, Entry, Method, MethodInfo};
use crate::Result;
use crate::config::{Config, Settings as _, check};
use crate::data::{TextAugmentation, Training};
use crate::supervise::Kind;

/// JCCH+.
pub(super) const ENTRY: Entry = Entry {
    info: MethodInfo {
        name: "jcch+",
        title: "JCCH with instance, similarity and text terms: finds items, not only groups",
        cost: "O(n (towers + r C + r queue))",
        labels: false,
        rotates: true,
        ..jcch::INFO
    },
    sections: &[jcch::Settings::SECTION, Plus::SECTION],
    search: &[
        LEARNING_RATE,
        Range::log("jcch.lambda", 0.0002, 0.05),
        Range::log("plus.instance", 0.2, 5.0),
        Range::log("plus.similarity", 0.3, 10.0),
    ],
    build: |sections| {
        // The instance term replaces most of the pair term.
        let defaults =
            jcch::Settings { lambda: 0.02, beta: 0.1, ..jcch::Settings::default() };
        let settings = sections.read_or(defaults)?;
        let jcch = Jcch { settings, coefficients: Kind::Auto };
        Ok(Box::new(JcchPlus { jcch, plus: sections.read()? }))
    },
};

/// The section `[plus]`: what JCCH+ adds to JCCH.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plus {
    /// Weight of the unary term.
    pub(crate) unary: f64,
    /// Whether the labels of an item are excluded from its softmax in the unary term.
    pub(crate) tight: bool,
    /// Weight of the instance term.
    pub(crate) instance: f64,
    /// Earlier outputs per modality that the instance term compares with, for small batches; 0 for none.
    pub(crate) instance_queue: usize,
    /// Temperature of the instance term.
    pub(crate) temperature: f64,
    /// Weight of the similarity term.
    pub(crate) similarity: f64,
    /// Outputs in the queue of the similarity term, per modality; 0 for none.
    pub(crate) queue: usize,
    /// Largest weight of the quantisation loss: beside terms on angles, a large weight dominates.
    pub(crate) max_alpha: f64,
    /// Weight of the balance and decorrelation of bits.
    pub(crate) balance: f64,
    /// Share of the training texts that are truncated to a few random words in a step.
    pub(crate) truncate: f64,
    /// Maximum number of words of a truncated text.
    pub(crate) max_words: usize,
    /// Probability that a word of another text is dropped.
    pub(crate) word_dropout: f64,
    /// Dropout of the hidden layers.
    pub(crate) dropout: f64,
    /// Decay of the moving average of the weights; 0 for none.
    pub(crate) average: f64,
    /// Share of the signs in the outputs that the instance and similarity terms compare in the last epochs.
    pub(crate) binarise: f64,
    /// Share of the epochs, the last ones, in which outputs are moved towards their signs; 0 for none.
    pub(crate) binarise_epochs: f64,
    /// Weights words by tf-idf, unless the manifest specifies other weights.
    pub(crate) tf_idf: bool,
    /// Adds character n-grams of words to the terms of texts.
    pub(crate) ngrams: bool,
    /// Scales texts to the norm of dense features.
    pub(crate) scale_text: bool,
}

impl Default for Plus {
    fn default() -> Plus {
        Plus {
            unary: 1.0,
            tight: false,
            instance: 2.0,
            instance_queue: 0,
            temperature: 0.1,
            similarity: 3.0,
            queue: 4096,
            max_alpha: 10.0,
            balance: 0.0,
            truncate: 0.5,
            max_words: 3,
            word_dropout: 0.0,
            dropout: 0.0,
            average: 0.0,
            binarise: 0.5,
            binarise_epochs: 0.0,
            tf_idf: true,
            ngrams: true,
            scale_text: true,
        }
    }
}

impl crate::config::Settings for Plus {
    const SECTION: &'static str = "plus";

    fn check(&self) -> Result<()> {
        for (key, value) in [
            ("plus.unary", self.unary),
            ("plus.instance", self.instance),
            ("plus.similarity", self.similarity),
            ("plus.balance", self.balance),
        ] {
            check::not_negative(key, value)?;
        }
        check::positive("plus.temperature", self.temperature)?;
        check::positive("plus.max_alpha", self.max_alpha)?;
        check::at_least_one("plus.max_words", self.max_words)?;
        check::at_most("plus.queue", self.queue, 1 << 20)?;
        check::at_most("plus.instance_queue", self.instance_queue, 1 << 20)?;
        if !(0.0..=1.0).contains(&self.truncate) {
            return check::fail("plus.truncate", self.truncate, "0 to 1");
        }
        check::share("plus.word_dropout", self.word_dropout)?;
        check::share("plus.dropout", self.dropout)?;
        check::share("plus.binarise", self.binarise)?;
        check::share("plus.binarise_epochs", self.binarise_epochs)?;
        check::share("plus.average", self.average)
    }
}

impl Plus {
    /// Options for texts.
    pub(crate) fn text(&self) -> TextOptions {
        TextOptions { tf_idf: self.tf_idf, ngrams: self.ngrams, scale: self.scale_text }
    }

    /// The first epoch, of this many, in which outputs are moved towards their signs; `epochs` if there is none.
    pub(crate) fn first_binarised(&self, epochs: usize) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "at most the number of epochs")]
        #[expect(clippy::cast_sign_loss, reason = "not negative, as checked")]
        let last = (self.binarise_epochs * epochs as f64).round() as usize;
        epochs.saturating_sub(last)
    }

    /// The augmentation of texts, if any.
    pub(crate) fn augmentation(&self) -> Option<TextAugmentation> {
        let any = self.truncate > 0.0 || self.word_dropout > 0.0 || self.instance > 0.0;
        any.then_some(TextAugmentation {
            truncate: self.truncate,
            max_words: self.max_words,
            dropout: self.word_dropout,
        })
    }
}

#[derive(Debug)]
struct JcchPlus {
    jcch: Jcch,
    plus: Plus,
}

impl Method for JcchPlus {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        let objective = self.jcch.objective_with(config, training, Some(&self.plus))?;
        Ok(Begun::Gradient(Box::new(objective)))
    }
}
