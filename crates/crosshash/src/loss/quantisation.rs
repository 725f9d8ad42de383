//! The quantisation loss: deviation of the absolute values of an output from being equal.
//!
//! SCDH and JCCH, `l_q` with p = 3 and q = 1.5 (Hoelder conjugates), with the absolute value
//! that SCDH writes and JCCH drops (the literal form would drive every bit to +1):
//!
//! ```text
//! l_q(f) = 1 - 1^T|f| / ( |1|_q |f|_p ) = 1 - m1 / m3,
//! m1 = mean_k |f_k|,   m3 = (mean_k |f_k|^3)^(1/3)
//! L_q    = 1/n sum_i l_q(f_i)
//! ```
//!
//! It is 0 iff all |f_k| are equal, and does not depend on the scale of f. Therefore each row is
//! divided by its largest entry (as a constant), which changes neither value nor gradient and keeps
//! the cubes finite.

use burn_tensor::Tensor;

use super::TINY;

/// The quantisation loss of a batch of outputs, n x r.
pub(crate) fn quantisation(outputs: Tensor<2>) -> Tensor<1> {
    let size = outputs.abs();
    let largest = size.clone().detach().max_dim(1).clamp_min(TINY);
    let size = size / largest;
    let m1 = size.clone().mean_dim(1);
    let m3 =
        (size.clone().square() * size).mean_dim(1).clamp_min(TINY).powf_scalar(1.0 / 3.0);
    (m1 / m3).mean().neg() + 1.0
}

#[cfg(test)]
mod tests {
    use super::super::tests::{agrees, leaf, random, stays_finite, value};
    use super::*;

    const R: usize = 6;

    fn twin(f: &[f64]) -> f64 {
        let one = |f: &[f64]| {
            let norm_q = (R as f64).powf(1.0 / 1.5);
            let norm_p = f.iter().map(|x| x.abs().powi(3)).sum::<f64>().powf(1.0 / 3.0);
            1.0 - f.iter().map(|x| x.abs()).sum::<f64>() / (norm_q * norm_p)
        };
        f.chunks_exact(R).map(one).sum::<f64>() / (f.len() / R) as f64
    }

    #[test]
    fn matches_the_reference_in_value_and_gradient() {
        agrees(&random(3, 4, R, 2.0), R, quantisation, twin);
    }

    #[test]
    fn zero_iff_all_magnitudes_are_equal_at_any_scale() {
        let signs = [2.0, -2.0, 2.0, -2.0, -2.0, 2.0];
        assert!(value(&quantisation(leaf(&signs, R))).abs() < 1e-12);
        let one = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        let worst = 1.0 - (R as f64).powf(-2.0 / 3.0);
        assert!((value(&quantisation(leaf(&one, R))) - worst).abs() < 1e-12);
        let (f, more) = (random(4, 1, R, 1.0), 1e9);
        let scaled: Vec<f64> = f.iter().map(|x| -more * x).collect();
        let (a, b) = (quantisation(leaf(&f, R)), quantisation(leaf(&scaled, R)));
        assert!((value(&a) - value(&b)).abs() < 1e-12);
    }

    #[test]
    fn finite_at_extreme_scales() {
        stays_finite(R, quantisation);
    }
}
