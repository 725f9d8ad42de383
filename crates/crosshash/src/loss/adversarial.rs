//! Losses of discriminators and of the networks that they judge.
//!
//! ```text
//! cross-entropy   1/n sum_i ( log(1 + e^z_i) - t z_i )     z logit, t 1 for real, 0 for fake
//! least squares   1/n sum_i ( d_i - t )^2                  LSGAN (Mao et al., ICCV 2017)
//! ```
//!
//! Departure: the cross-entropy is computed from logits, so that it stays finite.

use burn_tensor::Tensor;

use super::softplus;

/// Cross-entropy of logits against one target for all.
pub(crate) fn judged(logits: Tensor<2>, target: f64) -> Tensor<1> {
    (softplus(logits.clone()) - logits * target).mean()
}

/// Least squares of outputs against one target for all.
pub(crate) fn least_squares(outputs: Tensor<2>, target: f64) -> Tensor<1> {
    (outputs - target).square().mean()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{agrees, random, stays_finite};
    use super::*;

    #[test]
    fn match_their_formulas() {
        let z = random(3, 4, 1, 3.0);
        for target in [0.0, 1.0, 0.9] {
            let mean = |one: &dyn Fn(f64) -> f64, z: &[f64]| {
                z.iter().map(|&z| one(z)).sum::<f64>() / z.len() as f64
            };
            let sigma = |z: f64| 1.0 / (1.0 + (-z).exp());
            let entropy =
                |z: f64| -target * sigma(z).ln() - (1.0 - target) * sigma(-z).ln();
            agrees(&z, 1, |x| judged(x, target), |z| mean(&entropy, z));
            let square = |z: f64| (z - target).powi(2);
            agrees(&z, 1, |x| least_squares(x, target), |z| mean(&square, z));
        }
    }

    #[test]
    fn cross_entropy_is_finite_at_extreme_scales() {
        stays_finite(1, |z| judged(z, 1.0));
        stays_finite(1, |z| judged(z, 0.0));
    }
}
