//! Barnes-Hut t-SNE by the crate `bhtsne` (cargo feature `tsne`), made deterministic.

use bhtsne::Neighbor;
use rayon::prelude::*;

use super::Options;
use crate::{Error, Result};

/// Accuracy of the approximation; smaller is more accurate.
const THETA: f32 = 0.5;

/// Two-dimensional positions of all rows, from the initial positions `start`.
pub(super) fn places(
    rows: &[f32],
    width: usize,
    start: Vec<f32>,
    options: &Options,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<f32>> {
    let points: Vec<&[f32]> = rows.chunks_exact(width).collect();
    let suits = |perplexity: f32| (points.len() as f32) > 3.0 * perplexity + 2.0;
    let mut perplexity = options.perplexity;
    while options.fewer && perplexity > 3.0 && !suits(perplexity) {
        perplexity /= 2.0;
    }
    if !(perplexity >= 1.0 && suits(perplexity)) {
        return Err(Error::content(format!(
            "perplexity {perplexity} does not suit {} points: it must be 1 or more, and below a \
             third of the points; use more items or a smaller perplexity",
            points.len()
        )));
    }
    let near = neighbours(&points, perplexity);
    // On one thread, because the crate sums forces in a thread-dependent order.
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let alone =
        alone.map_err(|err| Error::content(format!("failed to start a thread: {err}")))?;
    Ok(alone.install(|| {
        let mut tsne: bhtsne::tSNE<'_, f32, &[f32]> = bhtsne::tSNE::new(&points);
        tsne.perplexity(perplexity)
            .epochs(options.iterations)
            .initial_embedding(start)
            .epoch_callback(|epoch, _| progress(epoch))
            .barnes_hut_with_neighbors(THETA, &near);
        tsne.embedding()
    }))
}

/// The nearest points of each point (three times the perplexity), by distance and then by index. The
/// crate would use a randomised tree.
fn neighbours(points: &[&[f32]], perplexity: f32) -> Vec<Vec<Neighbor<f32>>> {
    #[expect(clippy::cast_possible_truncation, reason = "below the number of points")]
    #[expect(clippy::cast_sign_loss, reason = "positive")]
    let count = (3.0 * perplexity) as usize;
    let of = |(i, a): (usize, &&[f32])| {
        let others = points.iter().enumerate().filter(|(j, _)| *j != i);
        let mut all: Vec<Neighbor<f32>> = others
            .map(|(index, b)| {
                let square = a.iter().zip(*b).map(|(x, y)| (x - y).powi(2)).sum::<f32>();
                Neighbor { index, distance: square.sqrt() }
            })
            .collect();
        let order = |a: &Neighbor<f32>, b: &Neighbor<f32>| {
            a.distance.total_cmp(&b.distance).then(a.index.cmp(&b.index))
        };
        all.select_nth_unstable_by(count, order);
        all.truncate(count);
        all.sort_unstable_by(order);
        all
    };
    points.par_iter().enumerate().map(of).collect()
}
