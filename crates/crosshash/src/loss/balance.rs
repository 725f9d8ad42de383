//! The balance loss: every bit should split the items in halves, and bits should be uncorrelated.
//!
//! As in spectral hashing (Weiss et al., 2008: `B^T 1 = 0`, `B^T B = n I`), relaxed to a penalty
//! on the outputs of a batch. With rows scaled to length sqrt(r), `x_i = sqrt(r) f_i / |f_i|`,
//!
//! ```text
//! m_k    = 1/n sum_i x_ik
//! v_kl   = 1/n sum_i (x_ik - m_k)(x_il - m_l)
//! L_mean = 1/r sum_k m_k^2                        0: all bits are balanced
//! L_cov  = 1/r sum_{k != l} v_kl^2                0: bits are not correlated
//! ```
//!
//! Neither part depends on the scale of f. A mean over the batch is a biased estimate of small
//! means: with independent balanced bits `L_mean` is 1/n and `L_cov` is (r - 1)/n, not 0.
//! Departure: lengths are `sqrt(max(|f|^2, 1e-12))`.

use burn_tensor::Tensor;

use super::unit_rows;

/// The two parts.
pub(crate) struct Balance {
    /// `L_mean`.
    pub(crate) mean: Tensor<1>,
    /// `L_cov`.
    pub(crate) correlation: Tensor<1>,
}

/// The balance loss of a batch of outputs of one modality, n x r.
pub(crate) fn balance(outputs: Tensor<2>) -> Balance {
    let [n, r] = outputs.dims();
    let x = unit_rows(outputs) * (r as f64).sqrt();
    let mean = x.clone().mean_dim(0);
    let centred = x - mean.clone();
    let covariance = centred.clone().transpose().matmul(centred.clone()) / n as f64;
    let variances = centred.square().mean_dim(0);
    let off_diagonal = covariance.square().sum() - variances.square().sum();
    Balance { mean: mean.square().mean(), correlation: off_diagonal / r as f64 }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{agrees, plain, random, stays_finite, value};
    use super::*;

    const R: usize = 4;

    fn twin(f: &[f64]) -> [f64; 2] {
        let n = f.len() / R;
        let scaled = |i: usize, k: usize| {
            let row = &f[i * R..][..R];
            row[k] * 2.0 / row.iter().map(|x| x * x).sum::<f64>().sqrt()
        };
        let mean = |k: usize| (0..n).map(|i| scaled(i, k)).sum::<f64>() / n as f64;
        let mut parts = [0.0; 2];
        for k in 0..R {
            parts[0] += mean(k).powi(2) / R as f64;
            for l in (0..R).filter(|&l| l != k) {
                let product =
                    |i: usize| (scaled(i, k) - mean(k)) * (scaled(i, l) - mean(l));
                let v = (0..n).map(product).sum::<f64>() / n as f64;
                parts[1] += v * v / R as f64;
            }
        }
        parts
    }

    #[test]
    fn matches_the_reference_in_value_and_gradient() {
        let f = random(31, 5, R, 2.0);
        agrees(&f, R, |f| balance(f).mean, |f| twin(f)[0]);
        agrees(&f, R, |f| balance(f).correlation, |f| twin(f)[1]);
    }

    #[test]
    fn zero_for_a_hadamard_matrix_at_any_scale() {
        let rows =
            [[1., 1., 1., 1.], [1., -1., 1., -1.], [1., 1., -1., -1.], [1., -1., -1., 1.]];
        // Each row and its negation.
        let both: Vec<f64> = [3.0, -0.1]
            .iter()
            .flat_map(|scale| rows.as_flattened().iter().map(move |x| x * scale))
            .collect();
        let found = balance(plain(&both, R));
        assert!(value(&found.mean).abs() < 1e-12);
        assert!(value(&found.correlation).abs() < 1e-12);
    }

    #[test]
    fn finite_at_extreme_scales() {
        stays_finite(R, |f| {
            let found = balance(f);
            found.mean + found.correlation
        });
    }
}
