//! PCA sign: signs of principal components (as in Gong and Lazebnik, CVPR 2011, "PCA-direct";
//! Hotelling 1933).
//!
//! ```text
//! C = 1/n sum_i (x_i - mean)(x_i - mean)^T,   W = its r largest eigenvectors,   h = sgn((x - mean) W)
//! ```
//!
//! If all modalities have the same width, they may be in one space (embeddings of one model): then C is
//! pooled over them, each centred separately, and codes can be compared across modalities. Otherwise each
//! has its own C, and cross-modal retrieval is at chance. Additional bits as in `closed_form.rs`.

use super::closed_form::{self, Linear, Solution, towers};
use super::views::{View, covariance};
use super::{Begun, Entry, Learning, Method, MethodInfo, ModalityData, cca};
use crate::Result;
use crate::algebra::{Matrix, largest};
use crate::config::Config;
use crate::data::Training;

/// PCA sign.
pub(super) const ENTRY: Entry = Entry {
    info: MethodInfo {
        name: "pca-sign",
        title: "signs of principal components",
        paper: "Hotelling: Analysis of a complex of statistical variables, J. Educ. Psychology",
        year: 1933,
        pairs: false,
        learning: Learning::Statistics,
        ..cca::INFO
    },
    sections: &[],
    search: &[],
    build: |_| Ok(Box::new(Pca)),
};

#[derive(Debug)]
struct Pca;

impl Method for Pca {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        closed_form::begin(config, training, |_| {
            let config = config.clone();
            Ok(Box::new(move |items, progress| {
                let found = components(items, config.bits().get())?;
                let loss = f64::NAN;
                Ok(progress(1, 1)
                    .then(|| Solution { towers: towers(&config, items, found), loss }))
            }))
        })
    }
}

/// Whether all modalities have the same width and form, and thus may be in one space.
pub(super) fn one_space(items: &[ModalityData]) -> bool {
    let form =
        |items: &ModalityData| (items.preparation.width(), items.preparation.is_sparse());
    items.len() > 1 && items.iter().all(|other| form(other) == form(&items[0]))
}

/// The principal components of every modality, or of all in one space.
pub(super) fn components(items: &[ModalityData], count: usize) -> Result<Vec<Linear>> {
    let all = |items: &ModalityData| (0..items.rows.len()).collect::<Vec<_>>();
    let views: Vec<View> =
        items.iter().map(|items| View::of(items, &all(items))).collect::<Result<_>>()?;
    let own: Vec<Matrix> = views.iter().map(|view| covariance(view, view, None)).collect();
    let weights: Vec<Matrix> = if one_space(items) {
        let mut pooled = Matrix::zeros(own[0].rows(), own[0].rows());
        own.iter().for_each(|own| pooled.add_block(0, 0, own, 1.0));
        vec![largest(&pooled, count).vectors; items.len()]
    } else {
        own.iter().map(|own| largest(own, count).vectors).collect()
    };
    let one = |(weights, view): (Matrix, &View)| Linear { weights, mean: view.mean() };
    Ok(weights.into_iter().zip(&views).map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tower::Batch;

    #[test]
    fn first_component_has_the_largest_variance() {
        // by hand: C = [[5, 3], [3, 5]], eigenvectors (1, 1) and (1, -1)
        let rows = vec![3.0, 1.0, 1.0, 3.0, -3.0, -1.0, -1.0, -3.0];
        let view = View::new(2, Batch::Dense(rows));
        let found = largest(&covariance(&view, &view, None), 2);
        assert!((found.values[0] - 8.0).abs() < 1e-12, "{:?}", found.values);
        assert!((found.values[1] - 2.0).abs() < 1e-12);
        let half = 0.5_f64.sqrt();
        assert!((found.vectors.at(0, 0) - half).abs() < 1e-12);
        assert!((found.vectors.at(1, 0) - half).abs() < 1e-12);
    }
}
