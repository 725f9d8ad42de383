//! The loss of JCCH over the parts of a batch: the sum of its terms.

use burn_tensor::{Int, Tensor};

use crate::loss::{classifier, pair, quantisation, tight_unary, unary};

/// The weights of the terms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Weights {
    /// The unary term as a whole.
    pub(crate) unary: f64,
    /// Whether the labels of an item are excluded from its softmax (`loss/tight_unary.rs`).
    pub(crate) tight: bool,
    /// Attraction to the centres.
    pub(crate) lambda: f64,
    /// Classifier.
    pub(crate) mu: f64,
    /// Pairs.
    pub(crate) beta: f64,
}

/// The part of a batch that belongs to one modality.
pub(crate) struct Part {
    /// Outputs of the hash layer, n x bits.
    pub(crate) hash: Tensor<2>,
    /// What the terms of labels need; `None` without labels.
    pub(crate) labelled: Option<LabelledPart>,
    /// Weight of the quantisation term.
    pub(crate) alpha: f64,
}

/// The inputs of the terms that need labels.
pub(crate) struct LabelledPart {
    /// Outputs of the classifier, n x C.
    pub(crate) logits: Tensor<2>,
    /// Weights of the classification term, n x C.
    pub(crate) q: Tensor<2>,
    /// Weights of the attraction term, n x C.
    pub(crate) u: Tensor<2>,
    /// Targets of the classifier: `y / |Y_i|`, or `y` if labels are summed; n x C.
    pub(crate) shares: Tensor<2>,
}

/// Rows of two parts that are pairs.
pub(crate) struct Pairs {
    /// The two parts, by number.
    pub(crate) parts: [usize; 2],
    /// The rows of the pairs; `None` if all rows are pairs, in order.
    pub(crate) rows: Option<[Tensor<1, Int>; 2]>,
}

/// The terms of one part, unweighted.
pub(crate) struct PartTerms {
    /// The terms of labels, if there are labels.
    pub(crate) labelled: Option<LabelledTerms>,
    /// The quantisation loss.
    pub(crate) quantisation: Tensor<1>,
}

/// The terms that need labels, unweighted.
pub(crate) struct LabelledTerms {
    /// `sum q (-log p)`.
    pub(crate) classification: Tensor<1>,
    /// `sum u d`.
    pub(crate) attraction: Tensor<1>,
    /// The classifier loss.
    pub(crate) classifier: Tensor<1>,
}

/// The loss with its terms.
pub(crate) struct Loss {
    /// The weighted sum.
    pub(crate) total: Tensor<1>,
    /// By part.
    pub(crate) terms: Vec<PartTerms>,
    /// The pair term, if there are pairs.
    pub(crate) pair: Option<Tensor<1>>,
}

/// The loss over the parts of a batch; `None` if there are no parts.
pub(crate) fn loss(
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
    for Part { hash, labelled, alpha } in parts {
        let labelled = labelled.map(|part| label_terms(&hash, part, centres, weights));
        let quantisation = quantisation(hash);
        add(match &labelled {
            None => quantisation.clone() * alpha,
            Some(terms) => {
                (terms.classification.clone() + terms.attraction.clone() * weights.lambda)
                    * weights.unary
                    + terms.classifier.clone() * weights.mu
                    + quantisation.clone() * alpha
            }
        });
        terms.push(PartTerms { labelled, quantisation });
    }
    if let Some(pair) = both.clone().filter(|_| weights.beta > 0.0) {
        add(pair * weights.beta);
    }
    Some(Loss { total: total?, terms, pair: both })
}

fn label_terms(
    hash: &Tensor<2>,
    LabelledPart { logits, q, u, shares }: LabelledPart,
    centres: &Tensor<2>,
    weights: Weights,
) -> LabelledTerms {
    let unary = if weights.tight {
        let labels = shares.clone().greater_elem(0.0).float();
        tight_unary(hash.clone(), centres.clone(), labels, q, u)
    } else {
        unary(hash.clone(), centres.clone(), q, u)
    };
    LabelledTerms {
        classification: unary.classification,
        attraction: unary.attraction,
        classifier: classifier(logits, shares),
    }
}
