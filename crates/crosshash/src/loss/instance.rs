//! The instance loss: InfoNCE over the pairs of a batch, with several positives per row.
//!
//! van den Oord et al., *Representation Learning with Contrastive Predictive Coding*, 2018, in
//! the symmetric form of CLIP (Radford et al., 2021). With `z_ij = cos(f_i, g_j) / tau` and the
//! positives `P_i` of row i,
//!
//! ```text
//! l(f, g) = 1/n sum_i ( log sum_j e^z_ij - log sum_{j in P_i} e^z_ij )
//! L_inst  = ( l(f, g) + l(g, f) ) / 2
//! ```
//!
//! The logarithm is taken of the sum over the positives: one close positive suffices. With one
//! positive per row this is the usual cross-entropy. The positives of the columns are
//! those of the rows, transposed.
//!
//! A queue of earlier outputs of the other modality adds columns without gradients, as negatives or
//! positives, for small batches. Departures: rows without a positive are excluded from the mean; lengths are `max(|f|, 0.01)`.

use burn_tensor::{Bool, Tensor};

use super::{log_sum_exp, unit_rows};

/// Logit of excluded columns.
const MASKED: f32 = -1e30;

/// Earlier outputs of one modality, as further columns.
#[derive(Debug, Clone)]
pub(crate) struct QueuedColumns {
    /// The outputs, k x r.
    pub(crate) outputs: Tensor<2>,
    /// 1 where a column is a positive of a row, else 0; n x k.
    pub(crate) positives: Tensor<2>,
}

/// The instance loss of outputs `f`, n x r, and `g`, m x r, of two modalities.
///
/// `positives` is n x m, 1 for matching pairs and 0 for others. `queues` are earlier
/// outputs of g's modality (columns for the rows of `f`) and of f's (for the rows of `g`).
pub(crate) fn instance(
    f: Tensor<2>,
    g: Tensor<2>,
    positives: Tensor<2>,
    temperature: f64,
    queues: [Option<QueuedColumns>; 2],
) -> Tensor<1> {
    let (f, g) = (unit_rows(f), unit_rows(g));
    let cosines = f.clone().matmul(g.clone().transpose());
    let [of_g, of_f] = queues;
    let rows = one_way(cosines.clone(), positives.clone(), f, of_g, temperature);
    let columns = one_way(cosines.transpose(), positives.transpose(), g, of_f, temperature);
    (rows + columns) / 2.0
}

/// `l(f, g)` from the cosines of a batch and those with a queue.
fn one_way(
    cosines: Tensor<2>,
    positives: Tensor<2>,
    rows: Tensor<2>,
    queue: Option<QueuedColumns>,
    temperature: f64,
) -> Tensor<1> {
    let (cosines, positives) = match queue {
        None => (cosines, positives),
        Some(queue) => {
            let columns = unit_rows(queue.outputs.detach()).transpose();
            (
                Tensor::cat(vec![cosines, rows.matmul(columns)], 1),
                Tensor::cat(vec![positives, queue.positives], 1),
            )
        }
    };
    let z = cosines / temperature;
    let others: Tensor<2, Bool> = positives.clone().lower_elem(0.5);
    // Rows without a positive would give the logarithm of 0: their weight is 0.
    let counted = positives.max_dim(1).greater_elem(0.5).float().cast(z.dtype());
    let n = counted.clone().sum().clamp_min(1.0);
    let every = log_sum_exp(z.clone());
    let positive = log_sum_exp(z.mask_fill(others, MASKED));
    ((every - positive) * counted).sum() / n
}

#[cfg(test)]
mod tests {
    use super::super::tests::{
        agrees, is_bounded_at_zero, plain, random, stays_finite, value,
    };
    use super::*;

    const R: usize = 4;
    const TAU: f64 = 0.2;
    /// 3 rows, 4 columns; the second row has two positives, the third none.
    const POSITIVES: [f64; 12] = [1., 0., 0., 0., 0., 1., 1., 0., 0., 0., 0., 0.];
    /// Of a queue of 2 for the rows of f: the third row finds its positive there.
    const IN_QUEUE: [f64; 6] = [0., 0., 0., 0., 0., 1.];

    fn cosine(a: &[f64], b: &[f64]) -> f64 {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
    }

    /// Reference of one direction with plain loops; `positive` selects the positives of a row.
    fn one_way_twin(
        rows: &[f64],
        columns: &[f64],
        positive: impl Fn(usize, usize) -> bool,
    ) -> f64 {
        let (mut sum, mut counted) = (0.0, 0);
        for (i, f) in rows.chunks_exact(R).enumerate() {
            let (mut all, mut own) = (0.0, 0.0);
            for (j, g) in columns.chunks_exact(R).enumerate() {
                let e = (cosine(f, g) / TAU).exp();
                all += e;
                own += if positive(i, j) { e } else { 0.0 };
            }
            if own > 0.0 {
                sum += (all / own).ln();
                counted += 1;
            }
        }
        sum / f64::from(counted)
    }

    fn twin(f: &[f64], g: &[f64], queue: Option<&[f64]>) -> f64 {
        let columns = [g, queue.unwrap_or_default()].concat();
        let of_f = one_way_twin(f, &columns, |i, j| match j.checked_sub(4) {
            None => POSITIVES[i * 4 + j] > 0.0,
            Some(k) => IN_QUEUE[i * 2 + k] > 0.0,
        });
        let of_g = one_way_twin(g, f, |j, i| POSITIVES[i * 4 + j] > 0.0);
        (of_f + of_g) / 2.0
    }

    fn term(f: Tensor<2>, g: Tensor<2>, queue: Option<&[f64]>) -> Tensor<1> {
        let queue = queue.map(|outputs| QueuedColumns {
            outputs: plain(outputs, R),
            positives: plain(&IN_QUEUE, 2),
        });
        instance(f, g, plain(&POSITIVES, 4), TAU, [queue, None])
    }

    #[test]
    fn matches_the_reference_in_value_and_gradient() {
        let (f, g) = (random(11, 3, R, 2.0), random(12, 4, R, 1.0));
        let queued = random(13, 2, R, 1.0);
        for queue in [None, Some(&queued[..])] {
            agrees(&f, R, |f| term(f, plain(&g, R), queue), |f| twin(f, &g, queue));
            agrees(&g, R, |g| term(plain(&f, R), g, queue), |g| twin(&f, g, queue));
        }
    }

    #[test]
    fn one_positive_per_row_is_the_cross_entropy() {
        let (f, g) = (random(14, 3, R, 1.0), random(15, 3, R, 1.0));
        let pairs = [1., 0., 0., 0., 1., 0., 0., 0., 1.];
        let found =
            instance(plain(&f, R), plain(&g, R), plain(&pairs, 3), 1.0, [None, None]);
        let row = |i: usize| &f[i * R..][..R];
        let column = |j: usize| &g[j * R..][..R];
        let mut wanted = 0.0;
        for i in 0..3 {
            let along = |z: &dyn Fn(usize) -> f64| (0..3).map(|j| z(j).exp()).sum::<f64>();
            let own = cosine(row(i), column(i));
            wanted += along(&|j| cosine(row(i), column(j))).ln() - own;
            wanted += along(&|j| cosine(row(j), column(i))).ln() - own;
        }
        assert!((value(&found) - wanted / 6.0).abs() < 1e-12);
    }

    #[test]
    fn queued_outputs_have_no_gradient() {
        let outputs = super::super::tests::leaf(&random(16, 2, R, 1.0), R);
        let queue =
            QueuedColumns { outputs: outputs.clone(), positives: plain(&IN_QUEUE, 2) };
        let f = super::super::tests::leaf(&random(17, 3, R, 1.0), R);
        let g = plain(&random(18, 4, R, 1.0), R);
        let loss = instance(f, g, plain(&POSITIVES, 4), TAU, [Some(queue), None]);
        assert!(outputs.grad(&loss.backward()).is_none());
    }

    #[test]
    fn short_outputs_have_bounded_gradients() {
        let g = random(19, 3, R, 1.0);
        let pairs = [1., 0., 0., 0., 1., 0., 0., 0., 1.];
        let term = |f| instance(f, plain(&g, R), plain(&pairs, 3), 0.1, [None, None]);
        // 1 / (length tau), twice at most for a row and its column, a mean over 3 rows.
        is_bounded_at_zero(R, 2.0 / (0.01 * 0.1 * 3.0), term);
    }

    #[test]
    fn finite_at_extreme_scales_and_without_positives() {
        let device = burn_tensor::Device::flex().autodiff();
        let other = || Tensor::<2>::ones([3, R], &device);
        for positives in
            [Tensor::<2>::ones([3, 3], &device), Tensor::zeros([3, 3], &device)]
        {
            stays_finite(R, |f| {
                instance(f, other(), positives.clone(), 0.02, [None, None])
            });
        }
    }
}
