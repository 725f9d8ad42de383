//! Decorrelation of bits (PRDH, the term J_4).
//!
//! Yang et al., *Pairwise Relationship Guided Deep Hashing for Cross-Modal Retrieval*, AAAI 2017:
//!
//! ```text
//! C_ab = 1/T sum_m (u_am - mu_a)(u_bm - mu_b),   J_4 = 1/2 ( |C|_F^2 - |diag C|^2 )
//! dJ_4/du_am = (2/T) sum_{b != a} C_ab (u_bm - mu_b)
//! ```
//!
//! over the T items of a batch. A public port builds C from the mean of centred codes, which is 0 for
//! all codes, so that its J_4 is always 0.

use burn_tensor::Tensor;

/// J_4 of a batch of outputs, T x r.
pub(crate) fn decorrelation(outputs: Tensor<2>) -> Tensor<1> {
    let n = outputs.dims()[0] as f64;
    let centred = outputs.clone() - outputs.mean_dim(0);
    let covariance = centred.clone().transpose().matmul(centred.clone()) / n;
    let variances = centred.square().mean_dim(0);
    (covariance.square().sum() - variances.square().sum()) * 0.5
}

#[cfg(test)]
mod tests {
    use super::super::tests::{agrees, plain, random, value};
    use super::*;

    const R: usize = 3;

    fn twin(u: &[f64]) -> f64 {
        let n = u.len() / R;
        let mean = |k: usize| (0..n).map(|i| u[i * R + k]).sum::<f64>() / n as f64;
        let covariance = |a: usize, b: usize| {
            let one = |i: usize| (u[i * R + a] - mean(a)) * (u[i * R + b] - mean(b));
            (0..n).map(one).sum::<f64>() / n as f64
        };
        let pairs = (0..R * R).map(|k| (k / R, k % R)).filter(|(a, b)| a != b);
        0.5 * pairs.map(|(a, b)| covariance(a, b).powi(2)).sum::<f64>()
    }

    #[test]
    fn matches_the_reference_in_value_and_gradient() {
        agrees(&random(8, 5, R, 1.5), R, decorrelation, twin);
    }

    #[test]
    fn positive_for_correlated_bits_and_zero_for_uncorrelated_ones() {
        let equal = [1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0];
        assert!((value(&decorrelation(plain(&equal, R))) - 3.0).abs() < 1e-12);
        let all: Vec<f64> = (0..8_u8)
            .flat_map(|code| [0, 1, 2].map(|k| f64::from(code >> k & 1) * 2.0 - 1.0))
            .collect();
        assert!(value(&decorrelation(plain(&all, R))).abs() < 1e-12);
    }
}
