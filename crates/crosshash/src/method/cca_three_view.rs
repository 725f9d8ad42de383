//! CCA with labels as a third view (Gong, Ke, Isard and Lazebnik, *A Multi-View Embedding Space
//! for Modeling Internet Images, Tags, and their Semantics*, IJCV 2014).
//!
//! ```text
//! max  sum_{a,b} w_a^T C_ab w_b   subject to  sum_a w_a^T C_aa w_a = 1,   a, b in {x, y, labels}
//! h = sgn((x - mean_x) W_x)
//! ```
//!
//! The third view is the 0/1 row of labels; it is dropped after training, so unseen items are encoded
//! without labels. Differences from the paper: ridge as in `cca.rs`; any number of modalities in addition
//! to the labels; directions are not scaled by powers of their eigenvalues, which does not change signs.

use super::closed_form::{self, Linear, Solution, towers};
use super::modality_data::pairs;
use super::views::{View, covariance, directions, ridged};
use super::{Begun, Entry, Method, MethodInfo, ModalityData, cca};
use crate::Result;
use crate::config::Config;
use crate::data::{Sparse, Training};
use crate::tower::Batch;

/// Three-view CCA.
pub(super) const ENTRY: Entry = Entry {
    info: MethodInfo {
        name: "cca-3v",
        title: "CCA with labels as a third view",
        paper: "Gong, Ke, Isard, Lazebnik: A Multi-View Embedding Space, IJCV",
        year: 2014,
        labels: true,
        ..cca::INFO
    },
    sections: cca::SECTIONS,
    search: cca::SEARCH,
    build: |sections| Ok(Box::new(CcaThreeView(sections.read()?))),
};

#[derive(Debug)]
struct CcaThreeView(cca::Settings);

impl Method for CcaThreeView {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        let ridge = self.0.ridge;
        closed_form::begin(config, training, |items| {
            let pairs = pairs(ENTRY.info.name, training, items)?;
            let config = config.clone();
            Ok(Box::new(move |items, progress| {
                let found = solve(&config, ridge, items, &pairs)?;
                let loss = f64::NAN;
                let solution = || Solution { towers: towers(&config, items, found), loss };
                Ok(progress(1, 1).then(solution))
            }))
        })
    }
}

fn solve(
    config: &Config,
    ridge: f64,
    items: &[ModalityData],
    pairs: &[Vec<usize>],
) -> Result<Vec<Linear>> {
    let mut views: Vec<View> = items
        .iter()
        .zip(pairs)
        .map(|(items, chosen)| View::of(items, chosen))
        .collect::<Result<_>>()?;
    views.push(labels(&items[0], &pairs[0])?);
    let block = |a: usize, b: usize| covariance(&views[a], &views[b], None);
    let own = |view: &View| ridged(covariance(view, view, None), ridge);
    // At most as many directions as the narrowest modality has features; further ones are not correlated.
    let most = views[..items.len()].iter().map(View::used).min().unwrap_or(0);
    let own = views.iter().map(own).collect();
    let found = directions(block, own, config.bits().get().min(most.max(1)))?;
    let sides = found.weights.into_iter().zip(&views).take(items.len());
    Ok(sides.map(|(weights, view)| Linear { weights, mean: view.mean() }).collect())
}

/// The labels of some items as a view.
pub(super) fn labels(items: &ModalityData, chosen: &[usize]) -> Result<View> {
    let mut rows = Sparse::new(items.labels.classes());
    for &item in chosen {
        let row = (0_u32..).zip((0..items.labels.classes()).map(|_| 0.0_f32));
        let mut cells: Vec<(u32, f32)> = row.collect();
        items.labels.indices(item).for_each(|label| cells[label].1 = 1.0);
        cells.retain(|cell| cell.1 > 0.0);
        rows.push(&mut cells)?;
    }
    Ok(View::new(items.labels.classes(), Batch::Sparse(rows)))
}
