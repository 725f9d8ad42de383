//! The pair loss: outputs of paired items should have the same direction.
//!
//! JCCH, the term weighted by beta, over the pairs (f_i, g_i) of a batch:
//!
//! ```text
//! L_pair = 1/n sum_i ( 1 - f_i.g_i / (|f_i| |g_i|) )
//! ```
//!
//! Departure: lengths are `max(|f|, 0.01)`.

use burn_tensor::Tensor;

use super::lengths;

/// The pair loss of outputs of two modalities, n x r each; rows are pairs.
pub(crate) fn pair(f: Tensor<2>, g: Tensor<2>) -> Tensor<1> {
    let dot = (f.clone() * g.clone()).sum_dim(1);
    let cosine = dot / lengths(f) / lengths(g);
    cosine.mean().neg() + 1.0
}

#[cfg(test)]
mod tests {
    use super::super::tests::{agrees, is_bounded_at_zero, plain, random, stays_finite};
    use super::*;

    const R: usize = 5;

    fn twin(f: &[f64], g: &[f64]) -> f64 {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        let rows = f.chunks_exact(R).zip(g.chunks_exact(R));
        let one =
            |(f, g): (&[f64], &[f64])| 1.0 - dot(f, g) / (dot(f, f) * dot(g, g)).sqrt();
        rows.map(one).sum::<f64>() / (f.len() / R) as f64
    }

    #[test]
    fn matches_the_reference_in_value_and_gradient() {
        let (f, g) = (random(5, 3, R, 2.0), random(6, 3, R, 1.0));
        agrees(&f, R, |f| pair(f, plain(&g, R)), |f| twin(f, &g));
        agrees(&g, R, |g| pair(plain(&f, R), g), |g| twin(&f, g));
    }

    #[test]
    fn finite_at_extreme_scales() {
        let other = || Tensor::<2>::ones([3, R], &burn_tensor::Device::flex().autodiff());
        stays_finite(R, |f| pair(f, other()));
    }

    #[test]
    fn short_outputs_have_bounded_gradients() {
        let g = random(23, 3, R, 1.0);
        is_bounded_at_zero(R, 1.0 / (0.01 * 3.0) + 1e-9, |f| pair(f, plain(&g, R)));
    }
}
