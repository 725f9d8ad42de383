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
//! that neither S nor theta is stored. Departures: `log(1 + e^theta)` as `max(theta, 0) + log(1 + e^-|theta|)`,
//! which stays finite; logarithms of a row are combined into the logarithm of a product; the
//! exponential is a polynomial (relative error below 1e-5, near 0 below 3e-7) that the compiler
//! vectorises.

use burn_tensor::{Tensor, TensorData};
use crosshash_codes::Labels;
use rayon::prelude::*;

use super::softplus;
use crate::gemm::{Factor, accumulate};
use crate::optimise::floats;

/// Items of the other modality per block.
const BLOCK: usize = 512;

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
    assert_eq!(f.len(), own.len() * bits, "one row of labels per row of outputs");
    assert_eq!(g.len(), other.len() * bits, "one row of labels per row of outputs");
    // Blocks depend only on the number of items, so the sums do not depend on the threads.
    let parts: Vec<(f64, Vec<f32>)> = g
        .par_chunks(BLOCK * bits)
        .enumerate()
        .map(|(k, block)| against(f, own, block, other, k * BLOCK, bits))
        .collect();
    let mut gradient = vec![0.0_f32; f.len()];
    let mut sum = 0.0;
    for (part, slope) in parts {
        sum += part;
        gradient.iter_mut().zip(slope).for_each(|(g, s)| *g += s);
    }
    (sum, gradient)
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

/// Value and gradient of one block, whose items start at `from`.
fn against(
    f: &[f32],
    own: &Labels,
    block: &[f32],
    other: &Labels,
    from: usize,
    bits: usize,
) -> (f64, Vec<f32>) {
    let (n, m) = (own.len(), block.len() / bits);
    let mut theta = vec![0.0_f32; n * m];
    let (rows, columns) = (Factor::whole(f, bits), Factor::whole(block, bits));
    accumulate(&mut theta, 0.0, rows, columns.transposed(), false);
    let mut sum = 0.0;
    let mut similar = vec![0.0_f32; m];
    for (i, row) in theta.chunks_exact_mut(m).enumerate() {
        share(own.row(i), other, from, &mut similar);
        sum += slopes(row, &similar);
    }
    let mut gradient = vec![0.0_f32; f.len()];
    let theta = Factor::whole(&theta, m);
    accumulate(&mut gradient, 0.0, theta, Factor::whole(block, bits), false);
    (sum, gradient)
}

/// 1 for every item from `from` on that shares a label with a row of labels, else 0.
pub(super) fn share(row: &[u64], other: &Labels, from: usize, out: &mut [f32]) {
    let stride = other.stride();
    let words = &other.words()[from * stride..][..out.len() * stride];
    match *row {
        [word] => {
            let items = out.iter_mut().zip(words);
            items.for_each(|(s, other)| *s = f32::from(u8::from(word & other != 0)));
        }
        _ => {
            for (s, words) in out.iter_mut().zip(words.chunks_exact(stride)) {
                let both = row.iter().zip(words).fold(0, |all, (a, b)| all | (a & b));
                *s = f32::from(u8::from(both != 0));
            }
        }
    }
}

/// Likelihood of one row of `<f, g>`; replaces each value by half its derivative by theta.
fn slopes(row: &mut [f32], similar: &[f32]) -> f64 {
    let mut sum = 0.0;
    for (row, similar) in row.chunks_mut(64).zip(similar.chunks(64)) {
        let (mut product, mut linear) = ([1.0_f32; 4], [0.0_f32; 4]);
        for (row, similar) in row.chunks_mut(4).zip(similar.chunks(4)) {
            for (k, (x, s)) in row.iter_mut().zip(similar).enumerate() {
                let theta = 0.5 * *x;
                let small = exponential(-theta.abs());
                product[k] *= 1.0 + small; // at most 2^16
                linear[k] += theta.max(0.0) - s * theta;
                let sigma = if theta >= 0.0 { 1.0 } else { small } / (1.0 + small);
                *x = 0.5 * (sigma - s);
            }
        }
        let all: f64 = product.iter().map(|&p| f64::from(p)).product();
        sum += all.ln() + linear.iter().map(|&x| f64::from(x)).sum::<f64>();
    }
    sum
}

/// `e^x` for x <= 0, by `2^(k + r)` and a polynomial in r, |r| <= 1/2.
#[inline]
pub(super) fn exponential(x: f32) -> f32 {
    use std::f32::consts::{LN_2, LOG2_E};
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to a whole number
    let power = (x * LOG2_E).max(-126.0);
    let shifted = power + ROUND;
    let r = power - (shifted - ROUND);
    // Minimax on [-1/2, 1/2].
    let mut value = 1.535_336_2e-4_f32;
    for c in [1.339_887_4e-3, 9.618_437e-3, 5.550_332_4e-2, 0.240_226_48, LN_2, 1.0] {
        value = value * r + c;
    }
    // The low bits of `shifted` are k; multiplying by 2^k is adding k to the exponent.
    f32::from_bits(value.to_bits().wrapping_add(shifted.to_bits() << 23))
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn exponential_is_accurate() {
        for k in 0..2000 {
            let x = -0.043 * k as f32;
            let (found, wanted) = (exponential(x), x.exp());
            let off = (found - wanted).abs();
            assert!(off <= 3e-7 * (1.0 - x) * wanted + 1e-37, "e^{x}: {found}");
        }
    }
}
