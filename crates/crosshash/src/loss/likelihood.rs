//! Negative log-likelihood of pairwise similarities, of a batch against all items of another
//! modality.
//!
//! Jiang and Li, *Deep Cross-Modal Hashing*, CVPR 2017, first term of the objective:
//!
//! ```text
//! J_1 = sum_ij ( log(1 + e^theta_ij) - S_ij theta_ij ),   theta_ij = 1/2 <f_i, g_j>
//! dJ_1/df_i = 1/2 sum_j ( sigma(theta_ij) - S_ij ) g_j
//! ```
//!
//! S_ij is 1 if the items share a label, else 0. Computed in blocks of the other modality's items, so
//! that neither S nor theta is stored (`pairwise.rs`).

use burn_tensor::{Tensor, TensorData};
use crosshash_codes::Labels;

use super::pairwise::sums;
use super::softplus;
use crate::optimise::floats;

/// Scale and offset of theta.
const SCALE: [f32; 2] = [0.5, 0.0];

/// `J_1` of a batch `f` (rows of `bits`, with `own` labels) against `g`, and its gradient by `f`.
///
/// # Panics
/// If the numbers of rows and labels do not match.
pub(crate) fn likelihood(
    f: &[f32],
    own: &Labels,
    g: &[f32],
    other: &Labels,
    bits: usize,
) -> (f64, Vec<f32>) {
    let found = sums(f, own, g, other, bits, SCALE);
    (found.value, found.rows)
}

/// `J_1 / (n m)` of a batch of outputs of a graph against n fixed outputs `g` of m items.
pub(crate) fn likelihood_term(
    f: Tensor<2>,
    own: &Labels,
    g: &[f32],
    other: &Labels,
) -> Tensor<1> {
    let [n, width] = f.dims();
    let values = floats(f.clone().inner());
    let (value, slopes) = likelihood(&values, own, g, other, width);
    let scale = 1.0 / (n.max(1) * other.len().max(1)) as f64;
    let linear: f64 =
        values.iter().zip(&slopes).map(|(x, s)| f64::from(*x) * f64::from(*s)).sum();
    let slopes = Tensor::from_data(TensorData::new(slopes, [n, width]), &f.device());
    // A linear function with the value and the gradient of the loss.
    ((f * slopes).sum() + (value - linear)) * scale
}

/// What SSAH's published code has in place of the likelihood, as a mean over pairs:
/// `1/2 (S theta - log(1 + e^theta))^2`, S 0.999 for similar pairs.
pub(crate) fn squared_likelihood(
    f: Tensor<2>,
    g: Tensor<2>,
    similar: Tensor<2>,
) -> Tensor<1> {
    let theta = f.matmul(g.transpose()) * 0.5;
    (similar * 0.999 * theta.clone() - softplus(theta)).square().mean() * 0.5
}

#[cfg(test)]
mod tests {
    use super::super::pairwise::BLOCK;
    use super::*;

    fn rows(n: usize, bits: usize, scale: f32) -> Vec<f32> {
        (0..n * bits).map(|k| scale * (k as f32 * 0.77).sin()).collect()
    }

    fn labels(n: usize, classes: usize, step: usize) -> Labels {
        let one = |i: usize| vec![u32::try_from((i * step) % classes).unwrap()];
        Labels::from_indices(classes, (0..n).map(one)).unwrap()
    }

    /// Reference implementation with plain loops.
    fn plain(f: &[f64], own: &Labels, g: &[f32], other: &Labels, bits: usize) -> f64 {
        let mut sum = 0.0;
        for i in 0..own.len() {
            for j in 0..other.len() {
                let inner: f64 =
                    (0..bits).map(|k| f[i * bits + k] * f64::from(g[j * bits + k])).sum();
                let theta = 0.5 * inner;
                let similar = own.shared(i, other, j) > 0;
                sum += theta.exp().ln_1p() - if similar { theta } else { 0.0 };
            }
        }
        sum
    }

    #[test]
    fn matches_the_formula_and_its_gradient() {
        for (n, m, bits, classes) in [(3, 5, 4, 3), (2, BLOCK + 7, 8, 130)] {
            let (f, g) = (rows(n, bits, 1.0), rows(m, bits, 0.8));
            let (own, other) = (labels(n, classes, 1), labels(m, classes, 2));
            let (value, gradient) = likelihood(&f, &own, &g, &other, bits);
            let wide: Vec<f64> = f.iter().map(|&x| f64::from(x)).collect();
            let wanted = plain(&wide, &own, &g, &other, bits);
            assert!((value - wanted).abs() < 1e-5 * wanted.abs(), "{value} for {wanted}");
            for k in 0..f.len() {
                let shifted = |by: f64| {
                    let mut f = wide.clone();
                    f[k] += by;
                    plain(&f, &own, &g, &other, bits)
                };
                let slope = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
                let off = (f64::from(gradient[k]) - slope).abs();
                assert!(
                    off < 1e-4 * (1.0 + slope.abs()),
                    "{k}: {} for {slope}",
                    gradient[k]
                );
            }
        }
    }

    #[test]
    fn the_term_of_a_graph_has_the_same_value_and_gradient() {
        let (n, m, bits) = (3, 5, 4);
        let (f, g) = (rows(n, bits, 1.0), rows(m, bits, 0.8));
        let (own, other) = (labels(n, 3, 1), labels(m, 3, 2));
        let (value, gradient) = likelihood(&f, &own, &g, &other, bits);
        let data = TensorData::new(f, [n, bits]);
        let at = Tensor::<2>::from_data(data, &burn_tensor::Device::flex().autodiff());
        let at = at.require_grad();
        let term = likelihood_term(at.clone(), &own, &g, &other);
        let grads = term.clone().backward();
        let found: f32 = term.into_scalar();
        assert!((f64::from(found) - value / 15.0).abs() < 1e-5);
        for (a, b) in floats(at.grad(&grads).unwrap()).iter().zip(gradient) {
            assert!((a - b / 15.0).abs() < 1e-6, "{a} {b}");
        }
    }

    #[test]
    fn the_squared_form_matches_its_formula() {
        use super::super::tests::{agrees, plain, random};
        let g = random(2, 2, 3, 1.0);
        let similar = [1.0, 0.0, 0.0, 1.0];
        let twin = |f: &[f64]| {
            let mut sum = 0.0;
            for i in 0..2 {
                for j in 0..2 {
                    let inner: f64 = (0..3).map(|k| f[i * 3 + k] * g[j * 3 + k]).sum();
                    let theta = 0.5 * inner;
                    let off = 0.999 * similar[i * 2 + j] * theta - theta.exp().ln_1p();
                    sum += 0.5 * off * off;
                }
            }
            sum / 4.0
        };
        let term = |f| squared_likelihood(f, plain(&g, 3), plain(&similar, 2));
        agrees(&random(3, 2, 3, 1.0), 3, term, twin);
    }

    #[test]
    fn stays_finite_at_extreme_scales() {
        let (f, g) = (rows(2, 4, 1e4), rows(3, 4, 1e4));
        let (value, gradient) = likelihood(&f, &labels(2, 3, 1), &g, &labels(3, 3, 1), 4);
        assert!(value.is_finite() && gradient.iter().all(|x| x.is_finite()), "{value}");
    }
}
