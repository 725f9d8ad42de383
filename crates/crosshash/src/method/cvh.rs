//! CVH: cross-view hashing (Kumar and Udupa, *Learning Hash Functions for Cross-View Similarity
//! Search*, IJCAI 2011).
//!
//! ```text
//! min  sum_k tr A_k^T X_k^T L' X_k A_k  -  2 sum_{k<l} tr A_k^T X_k^T W X_l A_l
//! L' = 2 L + (K - 1) D,   L = D - W,   subject to  sum_k A_k^T X_k^T X_k A_k = I
//! ```
//!
//! The mean Hamming distance over all pairs of views, weighted by the similarity W of items and
//! relaxed. Two methods:
//!
//! - `cvh-pairs`: W = I, only the pairs are similar. With two views it is CCA. This is what published tables
//!   call CVH. Their common toolbox (BMC-SDNU) is wrong: it multiplies by C_yy instead of its inverse, and its
//!   demo does not centre features.
//! - `cvh`: W is the cosine of label vectors, W = Y' Y'^T with rows of Y' of length 1, scaled to mean degree
//!   1; it is not computed explicitly. Without labels, W = I.
//!
//! Differences from the paper: ridge and additional bits as in `cca.rs`; at most as many directions as labels or features
//! of the narrowest modality; threshold 0.

use super::cca_three_view::labels;
use super::closed_form::{self, Linear, Solution, towers};
use super::modality_data::pairs;
use super::views::{Directions, View, covariance, directions, moment, ridged};
use super::{Begun, Entry, Method, MethodInfo, ModalityData, cca};
use crate::Result;
use crate::algebra::Matrix;
use crate::config::Config;
use crate::data::Training;

/// CVH with the similarity of labels.
pub(super) const LABELS: Entry = Entry {
    info: MethodInfo {
        name: "cvh",
        title: "cross-view spectral hashing, similarity of labels",
        paper: "Kumar, Udupa: Learning Hash Functions for Cross-View Similarity Search, IJCAI",
        year: 2011,
        ..cca::INFO
    },
    sections: cca::SECTIONS,
    search: cca::SEARCH,
    build: |sections| Ok(Box::new(Cvh { settings: sections.read()?, labels: true })),
};

/// CVH as in published tables: only pairs are similar.
pub(super) const PAIRS: Entry = Entry {
    info: MethodInfo {
        name: "cvh-pairs",
        title: "cross-view spectral hashing, similarity of pairs (CVH of published tables)",
        ..LABELS.info
    },
    build: |sections| Ok(Box::new(Cvh { settings: sections.read()?, labels: false })),
    ..LABELS
};

#[derive(Debug)]
struct Cvh {
    settings: cca::Settings,
    labels: bool,
}

impl Method for Cvh {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        let (ridge, by_labels) = (self.settings.ridge, self.labels);
        closed_form::begin(config, training, |items| {
            let pairs = pairs(config.method().name, training, items)?;
            let config = config.clone();
            Ok(Box::new(move |items, progress| {
                let views: Vec<View> = items
                    .iter()
                    .zip(&pairs)
                    .map(|(items, chosen)| View::of(items, chosen))
                    .collect::<Result<_>>()?;
                let similarity = if by_labels {
                    Similarity::of(&items[0], &pairs[0])?
                } else {
                    Similarity { factor: None }
                };
                let own = |view: &View| ridged(covariance(view, view, None), ridge);
                let own: Vec<Matrix> = views.iter().map(own).collect();
                // W has at most as many directions as there are labels or features of the
                // narrowest modality; further ones are noise.
                let widths = views.iter().map(View::used);
                let most = widths.chain([similarity.labels()]).min().unwrap_or(0).max(1);
                let count = config.bits().get().min(most);
                let found = solve(&views, own, &similarity, ridge, count)?;
                let sides = found.weights.into_iter().zip(&views);
                let linear =
                    sides.map(|(weights, view)| Linear { weights, mean: view.mean() });
                let towers = towers(&config, items, linear.collect());
                let loss = -found.values.iter().sum::<f64>();
                Ok(progress(1, 1).then_some(Solution { towers, loss }))
            }))
        })
    }
}

/// W as a product of label rows with themselves, or the identity.
struct Similarity {
    /// Rows of length 1 and the degrees of items, scaled to mean degree 1; none for W = I.
    factor: Option<(View, Vec<f64>, f64)>,
}

impl Similarity {
    fn of(items: &ModalityData, chosen: &[usize]) -> Result<Similarity> {
        if items.labels.classes() == 0 {
            return Ok(Similarity { factor: None });
        }
        let view = labels(items, chosen)?;
        let n = chosen.len();
        // 1/|Y_i|^(1/2) makes rows of length 1; degrees are Y' (Y'^T 1).
        let lengths: Vec<f64> =
            chosen.iter().map(|&i| 1.0 / (items.labels.count(i) as f64).sqrt()).collect();
        let sums = view.sum(Some(&lengths));
        let degree = |(k, &item): (usize, &usize)| {
            lengths[k] * items.labels.indices(item).map(|label| sums[label]).sum::<f64>()
        };
        let degrees: Vec<f64> = chosen.iter().enumerate().map(degree).collect();
        let scale = n as f64 / degrees.iter().sum::<f64>();
        let degrees = degrees.into_iter().map(|d| d * scale).collect();
        Ok(Similarity { factor: Some((view.scaled(&lengths), degrees, scale)) })
    }

    /// Number of labels that occur.
    fn labels(&self) -> usize {
        self.factor.as_ref().map_or(usize::MAX, |(labels, ..)| labels.used())
    }

    /// `1/n X_a^T D X_b`, centred.
    fn degrees(&self, a: &View, b: &View) -> Matrix {
        let weights = self.factor.as_ref().map(|(_, degrees, _)| &degrees[..]);
        covariance(a, b, weights)
    }

    /// `1/n X_a^T W X_b`, centred.
    fn weighted(&self, a: &View, b: &View) -> Matrix {
        let Some((labels, _, scale)) = &self.factor else { return covariance(a, b, None) };
        let half = |view: &View| {
            let mut half = moment(labels, view, None);
            let (sums, mean) = (labels.sum(None), view.mean());
            for l in 0..half.rows() {
                let row = half.row_mut(l).iter_mut().zip(&mean);
                row.for_each(|(x, m)| *x -= sums[l] * m);
            }
            half
        };
        let mut out = half(a).transpose_matmul(&half(b));
        let scale = scale / a.len() as f64;
        out.values.iter_mut().for_each(|x| *x *= scale);
        out
    }
}

fn solve(
    views: &[View],
    own: Vec<Matrix>,
    similarity: &Similarity,
    ridge: f64,
    count: usize,
) -> Result<Directions> {
    let n_views = views.len() as f64;
    let block = |a: usize, b: usize| {
        let weighted = similarity.weighted(&views[a], &views[b]);
        if a != b {
            return weighted;
        }
        // -(2 (D - W) + (K - 1) D). D has the ridge of the constraint: without it a direction in
        // which nothing varies would cost nothing, and come before those that separate labels.
        let degrees = ridged(similarity.degrees(&views[a], &views[a]), ridge);
        Matrix::from_fn(degrees.rows(), degrees.columns, |i, j| {
            2.0 * weighted.at(i, j) - (n_views + 1.0) * degrees.at(i, j)
        })
    };
    directions(block, own, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::cca::tests::{Case, case};

    #[test]
    fn equals_cca_without_labels() {
        let Case { views, own, correlations } = case();
        let similarity = Similarity { factor: None };
        let found =
            solve(&views, own.to_vec(), &similarity, 0.0, correlations.len()).unwrap();
        for (found, rho) in found.values.iter().zip(&correlations) {
            // X^T X is without its ridge on the left, with it on the right
            assert!((found - (rho - 1.0)).abs() < 1e-3, "{found} for {rho} - 1");
        }
        let cxy = covariance(&views[0], &views[1], None);
        let [cxx, cyy] = own;
        let ([wx, _], _) = cca::canonical(cxx, cyy, &cxy, 2).unwrap();
        for k in 0..2 {
            let column = |m: &Matrix| (0..m.rows()).map(|i| m.at(i, k)).collect::<Vec<_>>();
            let (a, b) = (column(&wx), column(&found.weights[0]));
            let dot =
                |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
            let cosine = dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt();
            assert!(cosine.abs() > 1.0 - 1e-4, "direction {k}: {cosine}");
        }
    }
}
