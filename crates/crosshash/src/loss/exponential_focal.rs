//! Exponential focal loss and its quantisation term (CMHH).
//!
//! Cao, Liu, Long and Wang, *Cross-Modal Hamming Hashing*, ECCV 2018. With p = e^(-beta d) as the
//! probability that two items are similar and d_ij = (r/2) (1 - cos(f_i, g_j)) in place of the Hamming distance:
//!
//! ```text
//! L = 1/(n m) sum_ij w_ij [S_ij (1 - p_ij)^gamma beta d_ij - (1 - S_ij) p_ij^gamma log(1 - p_ij)],   S_ij in {0, 1}
//! Q = 1/n sum_i (1 - p_i)^gamma beta d_i,   d_i = (r/2) (1 - cos(|f_i|, 1))
//! ```
//!
//! w_ij is the inverse frequency of the similar or the dissimilar pairs of the two batches, scaled to mean 1.
//! 1 - p is at least 1e-6. Departure: means instead of sums.

use burn_tensor::Tensor;

use super::unit_rows;

/// Lower bound of 1 - p, whose logarithm is taken.
const LEAST: f64 = 1e-6;

/// Rate of the exponential and exponent of the focus.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Focus {
    /// Factor of the distance.
    pub(crate) beta: f64,
    /// Exponent of the weight of easy pairs.
    pub(crate) gamma: f64,
}

/// The loss of two batches; `similar` is 1 or 0, n x m.
pub(crate) fn exponential_focal(
    f: Tensor<2>,
    g: Tensor<2>,
    similar: Tensor<2>,
    focus: Focus,
) -> Tensor<1> {
    let Focus { gamma, .. } = focus;
    let half = f.dims()[1] as f64 / 2.0;
    let cosines = unit_rows(f).matmul(unit_rows(g).transpose());
    let (scaled, p) = distances(cosines, half, focus);
    let apart = (p.clone().neg() + 1.0).clamp_min(LEAST);
    let dissimilar = similar.clone().neg() + 1.0;
    let near = apart.clone().powf_scalar(gamma) * scaled;
    let far = (p.powf_scalar(gamma) * apart.log()).neg();
    let [pull, push] = [&similar, &dissimilar].map(balanced);
    (pull * near + push * far).mean()
}

/// The quantisation term of a batch.
pub(crate) fn exponential_quantisation(f: Tensor<2>, focus: Focus) -> Tensor<1> {
    let r = f.dims()[1] as f64;
    let cosines = unit_rows(f.abs()).sum_dim(1) / r.sqrt();
    let (scaled, p) = distances(cosines, r / 2.0, focus);
    let apart = (p.neg() + 1.0).clamp_min(LEAST);
    (apart.powf_scalar(focus.gamma) * scaled).mean()
}

/// beta d and p = e^(-beta d) of cosines.
fn distances(cosines: Tensor<2>, half: f64, focus: Focus) -> (Tensor<2>, Tensor<2>) {
    let scaled = (cosines.neg() + 1.0).clamp_min(0.0) * (half * focus.beta);
    (scaled.clone(), scaled.neg().exp())
}

/// Marks of pairs, each divided by twice their share, so that both kinds weigh the same and the mean weight
/// is 1 where both occur.
fn balanced(marks: &Tensor<2>) -> Tensor<2> {
    let share: f64 = marks.clone().mean().into_scalar();
    if share > 0.0 { marks.clone() / (2.0 * share) } else { marks.clone() }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{agrees, plain, random, stays_finite};
    use super::*;

    const R: usize = 4;
    const S: [f64; 6] = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]; // 3 x 2
    const FOCUS: Focus = Focus { beta: 0.7, gamma: 2.0 };

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
                    let d = R as f64 / 2.0 * (1.0 - cosine(f, g));
                    let p = (-FOCUS.beta * d).exp();
                    // Two of six pairs are similar.
                    sum += if S[i * 2 + j] > 0.0 {
                        6.0 / 4.0 * (1.0 - p).powi(2) * FOCUS.beta * d
                    } else {
                        -6.0 / 8.0 * p.powi(2) * (1.0 - p).ln()
                    };
                }
            }
            sum / 6.0
        };
        let term = |f| exponential_focal(f, plain(&g, R), plain(&S, 2), FOCUS);
        agrees(&random(5, 3, R, 2.0), R, term, twin);
    }

    #[test]
    fn quantisation_matches_the_reference() {
        let twin = |f: &[f64]| {
            let one = |f: &[f64]| {
                let absolute: Vec<f64> = f.iter().map(|x| x.abs()).collect();
                let d = R as f64 / 2.0 * (1.0 - cosine(&absolute, &[1.0; R]));
                (1.0 - (-FOCUS.beta * d).exp()).powi(2) * FOCUS.beta * d
            };
            f.chunks_exact(R).map(one).sum::<f64>() / 3.0
        };
        agrees(&random(6, 3, R, 2.0), R, |f| exponential_quantisation(f, FOCUS), twin);
    }

    #[test]
    fn finite_at_extreme_scales() {
        let marks =
            |x: f32| Tensor::<2>::ones([3, 3], &burn_tensor::Device::flex().autodiff()) * x;
        for x in [0.0, 1.0] {
            stays_finite(R, |f| exponential_focal(f.clone(), f.clone(), marks(x), FOCUS));
        }
        stays_finite(R, |f| exponential_quantisation(f, FOCUS));
    }
}
