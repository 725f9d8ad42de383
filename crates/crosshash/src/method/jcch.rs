//! JCCH: joint cluster unary loss (Zhang, Li and Zhang, *Joint Cluster Unary Loss for Efficient
//! Cross-Modal Hashing*, 2019).
//!
//! ```text
//! L = sum_m ( L_u^m + mu L_1^m + alpha_m L_q^m ) + beta sum_{m < m'} L_pair^{m m'}
//! ```
//!
//! One set of centres is shared by all modalities, two or any number; with one modality and
//! beta 0 this is SCDH. Departures: every term is a mean over the items of the batch; one alpha
//! per modality; the pair term counts the pairs that are in the batch, per two modalities, and
//! is absent where there are none.

use burn::tensor::{Int, Tensor};

use super::{About, Fitting, Learning, Method};
use crate::Result;
use crate::config::Run;
use crate::data::{Analysis, Training};
use crate::loss::{classifier, pair, quantisation, unary};
use crate::train::Trainer;

/// JCCH.
pub(super) struct Jcch;

impl Method for Jcch {
    fn about(&self) -> About {
        ABOUT
    }

    fn tunes(&self) -> bool {
        true
    }

    fn begin<'r>(
        &self,
        run: &'r Run,
        training: &Training<'_>,
        analysis: &dyn Fn(&str) -> Analysis,
    ) -> Result<Box<dyn Fitting<'r> + 'r>> {
        Ok(Box::new(Trainer::new(run, training, analysis)?))
    }
}

pub(super) const ABOUT: About = About {
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
};

/// What the terms are weighed by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// Attraction to the centres.
    pub lambda: f64,
    /// Classifier.
    pub mu: f64,
    /// Pairs.
    pub beta: f64,
}

/// One modality's part of a batch.
pub struct Part {
    /// Outputs of the hash layer, n x bits.
    pub hash: Tensor<2>,
    /// Outputs of the classifier, n x C.
    pub logits: Tensor<2>,
    /// Weights of the classification term, n x C.
    pub q: Tensor<2>,
    /// Weights of the attraction term, n x C.
    pub u: Tensor<2>,
    /// `y / |Y_i|`, n x C.
    pub shares: Tensor<2>,
    /// Weight of the quantisation term.
    pub alpha: f64,
}

/// Rows of two parts that are pairs.
pub struct Pairs {
    /// The two parts, by number.
    pub parts: [usize; 2],
    /// Their rows, one pair after the other; none if all rows are, in order.
    pub rows: Option<[Tensor<1, Int>; 2]>,
}

/// The terms of one part, unweighted.
pub struct Terms {
    /// `sum q (-log p)`.
    pub classification: Tensor<1>,
    /// `sum u d`.
    pub attraction: Tensor<1>,
    /// The classifier's.
    pub classifier: Tensor<1>,
    /// The quantisation loss.
    pub quantisation: Tensor<1>,
}

/// The loss with its terms.
pub struct Loss {
    /// What is minimised.
    pub total: Tensor<1>,
    /// By part.
    pub terms: Vec<Terms>,
    /// The pair term, if there are pairs.
    pub pair: Option<Tensor<1>>,
}

/// The objective over the parts of a batch; `None` if there are no parts.
pub fn objective(
    parts: Vec<Part>,
    pairs: &[Pairs],
    centres: &Tensor<2>,
    weights: Weights,
) -> Option<Loss> {
    let mut total: Option<Tensor<1>> = None;
    let mut add = |term: Tensor<1>| {
        total = Some(match total.take() {
            None => term,
            Some(sum) => sum + term,
        });
    };
    let mut both: Option<Tensor<1>> = None;
    for Pairs { parts: [a, b], rows } in pairs {
        let (f, g) = (parts[*a].hash.clone(), parts[*b].hash.clone());
        let (f, g) = match rows {
            None => (f, g),
            Some([at_f, at_g]) => (f.select(0, at_f.clone()), g.select(0, at_g.clone())),
        };
        let term = pair(f, g);
        both = Some(match both {
            None => term,
            Some(sum) => sum + term,
        });
    }
    let mut terms = Vec::new();
    for Part { hash, logits, q, u, shares, alpha } in parts {
        let unary = unary(hash.clone(), centres.clone(), q, u);
        let classifier = classifier(logits, shares);
        let quantisation = quantisation(hash);
        add(unary.classification.clone()
            + unary.attraction.clone() * weights.lambda
            + classifier.clone() * weights.mu
            + quantisation.clone() * alpha);
        terms.push(Terms {
            classification: unary.classification,
            attraction: unary.attraction,
            classifier,
            quantisation,
        });
    }
    if let Some(pair) = both.clone().filter(|_| weights.beta > 0.0) {
        add(pair * weights.beta);
    }
    Some(Loss { total: total?, terms, pair: both })
}
