//! The tight unary loss: classification by distance to the centres, without competition between the
//! labels of an item.
//!
//! The bound of the JCCH paper also holds without the positives in the denominator of the softmax
//! (methods.md 16.3 no. 1):
//!
//! ```text
//! d_ij   = |f_i - c_j|                            Euclidean, not squared
//! l(i,s) = log( 1 + sum_{t not in Y_i} e^(d_is - d_it) )
//! L_u    = 1/n sum_i sum_{s in Y_i} [ q_is l(i,s) + lambda u_is d_is ]
//! ```
//!
//! It differs from `unary.rs` only in `l`; see there for shapes and departures. An item with all
//! labels has no negatives, and `l` is 0.

use burn_tensor::Tensor;

use super::unary::{Unary, distances};
use super::{log_sum_exp, softplus};

/// Logit of excluded centres.
const MASKED: f32 = -1e30;

/// The tight unary loss of a batch of outputs, n x r; `labels` is n x C, 1 where s is a label of
/// i and 0 elsewhere.
pub(crate) fn tight_unary(
    outputs: Tensor<2>,
    centres: Tensor<2>,
    labels: Tensor<2>,
    q: Tensor<2>,
    u: Tensor<2>,
) -> Unary {
    let n = outputs.dims()[0] as f64;
    let d = distances(outputs, centres);
    let own = labels.greater_elem(0.5);
    let negatives = log_sum_exp(d.clone().neg().mask_fill(own, MASKED));
    let classification = (softplus(d.clone() + negatives) * q).sum() / n;
    let attraction = (d * u).sum() / n;
    Unary { classification, attraction }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{agrees, plain, random, stays_finite, value};
    use super::super::unary;
    use super::*;

    const R: usize = 3;
    const C: usize = 4;
    const LAMBDA: f64 = 0.3;
    /// 5 items; the last has every label.
    const LABELS: [f64; 20] =
        [1., 0., 1., 0., 0., 1., 0., 0., 1., 1., 1., 0., 0., 0., 0., 1., 1., 1., 1., 1.];

    fn weights() -> (Vec<f64>, Vec<f64>) {
        let q = LABELS.iter().enumerate().map(|(k, y)| y * (1.0 + 0.1 * k as f64));
        let u = LABELS.iter().enumerate().map(|(k, y)| y * (3.0 - 0.1 * k as f64));
        (q.collect(), u.collect())
    }

    fn twin(f: &[f64], c: &[f64]) -> f64 {
        let (q, u) = weights();
        let n = f.len() / R;
        let mut sum = 0.0;
        for i in 0..n {
            let distance = |j: usize| {
                let square = |k: usize| (f[i * R + k] - c[j * R + k]).powi(2);
                (0..R).map(square).sum::<f64>().sqrt()
            };
            for s in (0..C).filter(|s| LABELS[i * C + s] > 0.0) {
                let others = (0..C).filter(|t| LABELS[i * C + t] == 0.0);
                let rest: f64 = others.map(|t| (distance(s) - distance(t)).exp()).sum();
                sum += q[i * C + s] * rest.ln_1p() + LAMBDA * u[i * C + s] * distance(s);
            }
        }
        sum / n as f64
    }

    fn term(f: Tensor<2>, c: Tensor<2>) -> Tensor<1> {
        let (q, u) = weights();
        let found = tight_unary(f, c, plain(&LABELS, C), plain(&q, C), plain(&u, C));
        found.classification + found.attraction * LAMBDA
    }

    #[test]
    fn matches_the_reference_in_value_and_gradient() {
        let (f, c) = (random(21, 5, R, 2.0), random(22, C, R, 1.0));
        agrees(&f, R, |f| term(f, plain(&c, R)), |f| twin(f, &c));
        agrees(&c, R, |c| term(plain(&f, R), c), |c| twin(&f, c));
    }

    #[test]
    fn equals_the_unary_loss_where_items_have_one_label() {
        let (f, c) = (random(23, 4, R, 2.0), random(24, C, R, 1.0));
        let one: Vec<f64> = (0..16).map(|k| f64::from(u8::from(k / C == k % C))).collect();
        let y = || plain(&one, C);
        let tight = tight_unary(plain(&f, R), plain(&c, R), y(), y(), y());
        let loose = unary::unary(plain(&f, R), plain(&c, R), y(), y());
        let off = value(&tight.classification) - value(&loose.classification);
        assert!(off.abs() < 1e-12, "{off}");
    }

    #[test]
    fn finite_at_extreme_scales_and_on_a_centre() {
        let device = burn_tensor::Device::flex().autodiff();
        let ones =
            |rows: usize, columns: usize| Tensor::<2>::ones([rows, columns], &device);
        for labels in [ones(3, C), ones(3, C) * 0.0] {
            stays_finite(R, |f| {
                let centres = ones(C, R) * 0.0;
                let found = tight_unary(f, centres, labels.clone(), ones(3, C), ones(3, C));
                found.classification + found.attraction
            });
        }
    }
}
