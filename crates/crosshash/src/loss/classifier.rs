//! The auxiliary loss: a softmax classifier on the features below the hash layer.
//!
//! JCCH, the term weighted by mu, "(multilabel) softmax loss". The paper does not define it; as in
//! SCDH, the target is the uniform distribution over the item's labels:
//!
//! ```text
//! L_1 = 1/n sum_i 1/|Y_i| sum_{s in Y_i} -log softmax_s(z_i)
//! ```

use burn_tensor::{Tensor, activation::log_softmax};

/// The classifier loss of logits, n x C, against shares `y / |Y_i|`, n x C.
pub(crate) fn classifier(logits: Tensor<2>, shares: Tensor<2>) -> Tensor<1> {
    let n = logits.dims()[0] as f64;
    (log_softmax(logits, 1) * shares).sum().neg() / n
}

#[cfg(test)]
mod tests {
    use super::super::tests::{agrees, plain, random, stays_finite};
    use super::*;

    const C: usize = 4;
    const SHARES: [f64; 12] =
        [0.5, 0.0, 0.5, 0.0, 0.0, 1.0, 0.0, 0.0, 0.25, 0.25, 0.25, 0.25];

    fn twin(z: &[f64]) -> f64 {
        let mut sum = 0.0;
        for (z, y) in z.chunks_exact(C).zip(SHARES.chunks_exact(C)) {
            let all: f64 = z.iter().map(|z| z.exp()).sum();
            sum -= z.iter().zip(y).map(|(z, y)| y * (z.exp() / all).ln()).sum::<f64>();
        }
        sum / 3.0
    }

    #[test]
    fn matches_the_reference_in_value_and_gradient() {
        agrees(&random(7, 3, C, 3.0), C, |z| classifier(z, plain(&SHARES, C)), twin);
    }

    #[test]
    fn finite_at_extreme_scales() {
        let shares =
            || Tensor::<2>::ones([3, C], &burn_tensor::Device::flex().autodiff()) * 0.25;
        stays_finite(C, |z| classifier(z, shares()));
    }
}
