//! Centred sign bits: the signs of single features, a simple baseline for embeddings.
//!
//! ```text
//! h_k = sgn(x_{j_k} - mean_{j_k}),   j_1 .. j_r the features of the largest variance
//! ```
//!
//! If all modalities have the same width (and thus may be in one space), the features are selected
//! together, by the sum of their variances, and codes can be compared across modalities; otherwise
//! cross-modal retrieval is at chance. Common practice without a paper (binary quantisation of
//! embeddings). Additional bits as in `closed_form.rs`.

use super::closed_form::{self, Linear, Solution, towers};
use super::pca::one_space;
use super::views::View;
use super::{Begun, Entry, Learning, Method, MethodInfo, cca};
use crate::Result;
use crate::algebra::Matrix;
use crate::config::Config;
use crate::data::Training;

/// Centred sign bits.
pub(super) const ENTRY: Entry = Entry {
    info: MethodInfo {
        name: "sign",
        title: "signs of the widest centred features",
        paper: "folklore: binary quantisation of embeddings",
        year: 2000,
        cost: "O(n d), once",
        pairs: false,
        learning: Learning::Statistics,
        ..cca::INFO
    },
    sections: &[],
    search: &[],
    build: |_| Ok(Box::new(Sign)),
};

#[derive(Debug)]
struct Sign;

impl Method for Sign {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        closed_form::begin(config, training, |_| {
            let config = config.clone();
            Ok(Box::new(move |items, progress| {
                let (mut means, mut variances) = (Vec::new(), Vec::new());
                for side in &*items {
                    let all: Vec<usize> = (0..side.rows.len()).collect();
                    let view = View::of(side, &all)?;
                    variances.push(view.variance());
                    means.push(view.mean());
                }
                if one_space(items) {
                    let sum = |j: usize| variances.iter().map(|v| v[j]).sum();
                    let pooled: Vec<f64> = (0..variances[0].len()).map(sum).collect();
                    variances.iter_mut().for_each(|v| v.clone_from(&pooled));
                }
                let sides = variances.iter().zip(means);
                let found = sides.map(|(variance, mean)| {
                    let weights = widest(variance, config.bits().get());
                    Linear { weights, mean }
                });
                let (found, loss) = (found.collect(), f64::NAN);
                Ok(progress(1, 1)
                    .then(|| Solution { towers: towers(&config, items, found), loss }))
            }))
        })
    }
}

/// A matrix that selects the features of the largest variance, one per column.
fn widest(variance: &[f64], count: usize) -> Matrix {
    let mut order: Vec<usize> = (0..variance.len()).collect();
    order.sort_by(|&a, &b| variance[b].total_cmp(&variance[a]).then(a.cmp(&b)));
    order.truncate(count);
    let mut out = Matrix::zeros(variance.len(), order.len());
    order.iter().enumerate().for_each(|(k, &j)| out.row_mut(j)[k] = 1.0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_of_largest_variance_are_selected() {
        let picked = widest(&[0.5, 2.0, 1.0], 2);
        assert_eq!(picked.values, [0.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
    }
}
