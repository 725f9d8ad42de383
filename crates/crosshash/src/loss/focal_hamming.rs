//! Exponential focal loss of Hamming distances and its quantisation term (CMHH).
//!
//! Cao, Liu, Long and Wang, *Cross-Modal Hamming Hashing*, ECCV 2018. With the distance
//! `d_ij = r/2 (1 - cos(f_i, g_j))` and the probability of similarity `p = e^(-beta d)`:
//!
//! ```text
//! L = 1/(n m) sum_ij w_ij [ -S_ij (1 - p_ij)^gamma log p_ij - (1 - S_ij) p_ij^gamma log(1 - p_ij) ]
//! Q = 1/n sum_i (1 - p_i)^gamma (-log p_i),   p_i = e^(-beta d(|f_i|, 1))
//! ```
//!
//! w weighs similar and dissimilar pairs by their inverse frequency in the batch. Departures: means
//! instead of sums; `1 - p >= 1e-6`, so that logarithms stay finite.

use burn_tensor::Tensor;

use super::cosine_margin::cosine_to_ones;
use super::unit_rows;

/// Lower bound of `1 - p`.
const LEAST: f64 = 1e-6;

/// Settings of the loss.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Focus {
    /// Decay of the probability with the distance.
    pub(crate) beta: f64,
    /// Exponent of the focus on hard pairs.
    pub(crate) gamma: f64,
}

/// The loss of two batches; `similar` is 1 or 0 and `weights` the weights of pairs, n x m.
pub(crate) fn focal_hamming(
    f: Tensor<2>,
    g: Tensor<2>,
    similar: Tensor<2>,
    weights: Tensor<2>,
    focus: Focus,
) -> Tensor<1> {
    let cosines = unit_rows(f.clone()).matmul(unit_rows(g).transpose());
    let decay = exponent(cosines, f.dims()[1], focus.beta);
    let apart = not_similar(decay.clone());
    let pulled = apart.clone().powf_scalar(focus.gamma) * decay.clone();
    let pushed = (decay * -focus.gamma).exp() * apart.log().neg();
    let other = similar.clone().neg() + 1.0;
    (weights * (similar * pulled + other * pushed)).mean()
}

/// The quantisation term of a batch.
pub(crate) fn focal_quantisation(f: Tensor<2>, focus: Focus) -> Tensor<1> {
    let r = f.dims()[1];
    let decay = exponent(cosine_to_ones(f), r, focus.beta);
    (not_similar(decay.clone()).powf_scalar(focus.gamma) * decay).mean()
}

/// `beta d`, `-log p`, from cosines.
fn exponent(cosines: Tensor<2>, r: usize, beta: f64) -> Tensor<2> {
    (cosines.neg() + 1.0).clamp_min(0.0) * (0.5 * beta * r as f64)
}

/// `1 - p`.
fn not_similar(decay: Tensor<2>) -> Tensor<2> {
    (decay.neg().exp().neg() + 1.0).clamp_min(LEAST)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{agrees, plain, random, stays_finite};
    use super::*;

    const R: usize = 4;
    const FOCUS: Focus = Focus { beta: 0.5, gamma: 2.0 };
    const S: [f64; 6] = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0]; // 3 x 2
    const W: [f64; 6] = [0.5, 2.0, 1.5, 0.7, 1.0, 1.2];

    fn distance(a: &[f64], b: &[f64]) -> f64 {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        0.5 * R as f64 * (1.0 - dot(a, b) / (dot(a, a) * dot(b, b)).sqrt())
    }

    #[test]
    fn matches_the_reference_in_value_and_gradient() {
        let g = random(4, 2, R, 1.0);
        let twin = |f: &[f64]| {
            let mut sum = 0.0;
            for (i, f) in f.chunks_exact(R).enumerate() {
                for (j, g) in g.chunks_exact(R).enumerate() {
                    let p = (-0.5 * distance(f, g)).exp();
                    let (s, w) = (S[i * 2 + j], W[i * 2 + j]);
                    sum -= w * s * (1.0 - p).powi(2) * p.ln();
                    sum -= w * (1.0 - s) * p.powi(2) * (1.0 - p).ln();
                }
            }
            sum / 6.0
        };
        let term = |f| focal_hamming(f, plain(&g, R), plain(&S, 2), plain(&W, 2), FOCUS);
        agrees(&random(5, 3, R, 2.0), R, term, twin);
    }

    #[test]
    fn quantisation_matches_the_reference() {
        let twin = |f: &[f64]| {
            let one = |f: &[f64]| {
                let absolute: Vec<f64> = f.iter().map(|x| x.abs()).collect();
                let decay = 0.5 * distance(&absolute, &[1.0; R]);
                (1.0 - (-decay).exp()).powi(2) * decay
            };
            f.chunks_exact(R).map(one).sum::<f64>() / 3.0
        };
        agrees(&random(6, 3, R, 2.0), R, |f| focal_quantisation(f, FOCUS), twin);
    }

    #[test]
    fn finite_at_extreme_scales() {
        let ones = || Tensor::<2>::ones([3, 3], &burn_tensor::Device::flex().autodiff());
        let zeros = || ones() * 0.0;
        stays_finite(R, |f| focal_hamming(f.clone(), f.clone(), ones(), ones(), FOCUS));
        stays_finite(R, |f| focal_hamming(f.clone(), f.clone(), zeros(), ones(), FOCUS));
        stays_finite(R, |f| focal_quantisation(f, FOCUS));
    }
}
