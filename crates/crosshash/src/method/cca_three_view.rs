//! CCA with labels as a third view (Gong, Ke, Isard and Lazebnik, *A Multi-View Embedding Space
//! for Modeling Internet Images, Tags, and their Semantics*, IJCV 2014).
//!
//! ```text
//! max  sum_{a,b} w_a^T C_ab w_b   subject to  sum_a w_a^T C_aa w_a = 1,   a, b in {x, y, labels}
//! h = sgn((x - mean_x) W_x)
//! ```
//!
//! The third view is the 0/1 row of labels; it is dropped after learning, so unseen items are
//! coded without labels. This is what makes CCA competitive. Departures: ridge as in `cca.rs`; any
//! number of modalities beside the labels; no scaling of directions by powers of their
//! eigenvalues, which does not change signs.

use super::items::pairs;
use super::once::{Linear, Once, Solved, towers};
use super::views::{View, covariance, directions, ridged};
use super::{About, Fitting, Items, Method, cca};
use crate::Result;
use crate::config::Run;
use crate::data::{Analysis, Sparse, Training};
use crate::tower::Batch;

/// Three-view CCA.
pub(super) struct CcaThreeView;

impl Method for CcaThreeView {
    fn about(&self) -> About {
        About {
            name: "cca-3v",
            title: "CCA with labels as a third view",
            paper: "Gong, Ke, Isard, Lazebnik: A Multi-View Embedding Space, IJCV",
            year: 2014,
            labels: true,
            ..cca::ABOUT
        }
    }

    fn begin<'r>(
        &self,
        run: &'r Run,
        training: &Training<'_>,
        analysis: &dyn Fn(&str) -> Analysis,
    ) -> Result<Box<dyn Fitting<'r> + 'r>> {
        Once::begin(run, training, analysis, |items| {
            let pairs = pairs(self.name(), training, items)?;
            Ok(Box::new(move |items, tell| {
                let found = solve(run, items, &pairs)?;
                let loss = f64::NAN;
                Ok(tell(1, 1).then(|| Solved { towers: towers(run, items, found), loss }))
            }))
        })
    }
}

fn solve(run: &Run, items: &[Items], pairs: &[Vec<usize>]) -> Result<Vec<Linear>> {
    let mut views: Vec<View> = items
        .iter()
        .zip(pairs)
        .map(|(items, chosen)| View::of(items, chosen))
        .collect::<Result<_>>()?;
    views.push(labels(&items[0], &pairs[0])?);
    let block = |a: usize, b: usize| covariance(&views[a], &views[b], None);
    let own = |view: &View| ridged(covariance(view, view, None), run.raw.cca.ridge);
    let found = directions(block, views.iter().map(own).collect(), run.bits.get())?;
    let sides = found.weights.into_iter().zip(&views).take(items.len());
    Ok(sides.map(|(weights, view)| Linear { weights, mean: view.mean() }).collect())
}

/// The labels of some items as a view.
pub(super) fn labels(items: &Items, chosen: &[usize]) -> Result<View> {
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
