//! Cosine max-margin loss and its quantisation term (CHN).
//!
//! Cao, Long, Wang and Zhu, *Correlation Hashing Network for Efficient Cross-Modal Retrieval*, BMVC
//! 2017 (arXiv:1602.06697):
//!
//! ```text
//! L = 1/(n m) sum_ij max(0, delta - S_ij cos(f_i, g_j))^2,   S_ij in {-1, 1}
//! Q = 1/n sum_i max(0, delta - cos(|f_i|, 1))
//! ```
//!
//! A public port takes the cosine of f instead of |f| in Q, which rewards codes of only ones, and squares
//! before the maximum, which penalises pairs beyond the margin. Departure: means instead of sums.

use burn_tensor::{Tensor, activation::relu};

use super::unit_rows;

/// The loss of two batches; `similar` is 1 or -1, n x m.
pub(crate) fn cosine_margin(
    f: Tensor<2>,
    g: Tensor<2>,
    similar: Tensor<2>,
    delta: f64,
) -> Tensor<1> {
    let cosines = unit_rows(f).matmul(unit_rows(g).transpose());
    relu((similar * cosines).neg() + delta).square().mean()
}

/// The quantisation term of a batch.
pub(crate) fn cosine_quantisation(f: Tensor<2>, delta: f64) -> Tensor<1> {
    relu(cosine_to_ones(f).neg() + delta).mean()
}

/// `cos(|f_i|, 1)`, n x 1.
fn cosine_to_ones(f: Tensor<2>) -> Tensor<2> {
    let r = f.dims()[1] as f64;
    unit_rows(f.abs()).sum_dim(1) / r.sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{agrees, plain, random, stays_finite};
    use super::*;

    const R: usize = 4;
    const S: [f64; 6] = [1.0, -1.0, -1.0, 1.0, 1.0, -1.0]; // 3 x 2

    fn cosine(a: &[f64], b: &[f64]) -> f64 {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
    }

    #[test]
    fn matches_the_reference_in_value_and_gradient() {
        let g = random(4, 2, R, 1.0);
        let twin = |f: &[f64]| {
            let mut sum = 0.0;
            for (i, f) in f.chunks_exact(R).enumerate() {
                for (j, g) in g.chunks_exact(R).enumerate() {
                    sum += (0.8 - S[i * 2 + j] * cosine(f, g)).max(0.0).powi(2);
                }
            }
            sum / 6.0
        };
        let term = |f| cosine_margin(f, plain(&g, R), plain(&S, 2), 0.8);
        agrees(&random(5, 3, R, 2.0), R, term, twin);
    }

    #[test]
    fn quantisation_matches_the_reference() {
        let twin = |f: &[f64]| {
            let one = |f: &[f64]| {
                let absolute: Vec<f64> = f.iter().map(|x| x.abs()).collect();
                (0.97 - cosine(&absolute, &[1.0; R])).max(0.0)
            };
            f.chunks_exact(R).map(one).sum::<f64>() / 3.0
        };
        agrees(&random(6, 3, R, 2.0), R, |f| cosine_quantisation(f, 0.97), twin);
        // 0 at codes, whatever their signs.
        let code = plain(&[1.0, -1.0, -1.0, 1.0], R);
        let found: f64 = cosine_quantisation(code, 0.97).into_scalar();
        assert!(found == 0.0, "{found}");
    }

    #[test]
    fn finite_at_extreme_scales() {
        let ones = || Tensor::<2>::ones([3, 3], &burn_tensor::Device::flex().autodiff());
        stays_finite(R, |f| cosine_margin(f.clone(), f.clone(), ones(), 0.8));
        stays_finite(R, |f| cosine_quantisation(f, 0.8));
    }
}
