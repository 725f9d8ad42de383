//! The unary loss: classification by distance to the centres, and attraction to them.
//!
//! JCCH (*Joint Cluster Unary Loss for Efficient Cross-Modal Hashing*), the unary upper bound
//! `L_u` with the coefficients of Algorithm 1:
//!
//! ```text
//! d_ij = |f_i - c_j|                              Euclidean, not squared
//! L_u  = 1/n sum_i sum_{s in Y_i} [ q_is (-log softmax_s(-d_i)) + lambda u_is d_is ]
//! ```
//!
//! | paper | here | shape |
//! |---|---|---|
//! | F | `outputs` | n x r |
//! | C | `centres` | C x r |
//! | q, u | `q`, `u` | n x C, 0 where s is not a label of i |
//!
//! Departures: a mean over the batch, not a sum; `d = sqrt(max(d^2, 1e-12))`, so the gradient is
//! 0 instead of 0/0 where an output equals its centre. All distances are computed with one matrix
//! product,
//! `d^2 = |f|^2 + |c|^2 - 2 f.c`.

use burn_tensor::{Tensor, activation::log_softmax};

use super::TINY;

/// The two parts, each a mean over the batch; lambda is not in `attraction`.
pub(crate) struct Unary {
    /// `sum q_is (-log p_is)`.
    pub(crate) classification: Tensor<1>,
    /// `sum u_is d_is`.
    pub(crate) attraction: Tensor<1>,
}

/// The unary loss of a batch of outputs.
pub(crate) fn unary(
    outputs: Tensor<2>,
    centres: Tensor<2>,
    q: Tensor<2>,
    u: Tensor<2>,
) -> Unary {
    let n = outputs.dims()[0] as f64;
    let d = distances(outputs, centres);
    let classification = (log_softmax(d.clone().neg(), 1) * q).sum().neg() / n;
    let attraction = (d * u).sum() / n;
    Unary { classification, attraction }
}

/// Euclidean distances of every output to every centre, n x C.
pub(super) fn distances(outputs: Tensor<2>, centres: Tensor<2>) -> Tensor<2> {
    let f2 = outputs.clone().square().sum_dim(1); // n x 1
    let c2 = centres.clone().square().sum_dim(1).transpose(); // 1 x C
    let products = outputs.matmul(centres.transpose()); // n x C
    (f2 + c2 - products * 2.0).clamp_min(TINY).sqrt()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{agrees, plain, random, stays_finite};
    use super::*;

    const R: usize = 3;
    const C: usize = 4;
    const LAMBDA: f64 = 0.3;

    /// 5 items, each with labels 0 and 2 or 1 and 3, in other weights.
    fn weights() -> (Vec<f64>, Vec<f64>) {
        let on = |i: usize, s: usize| f64::from(u8::from((i + s).is_multiple_of(2)));
        let each = |f: fn(usize, usize) -> f64| {
            (0..5 * C).map(|k| f(k / C, k % C) * on(k / C, k % C)).collect()
        };
        (each(|i, s| 1.0 + 0.1 * (i + s) as f64), each(|i, s| 2.0 - 0.2 * (i * s) as f64))
    }

    fn twin(f: &[f64], c: &[f64]) -> f64 {
        let (q, u) = weights();
        let n = f.len() / R;
        let mut sum = 0.0;
        for i in 0..n {
            let d: Vec<f64> = (0..C)
                .map(|j| {
                    (0..R)
                        .map(|k| (f[i * R + k] - c[j * R + k]).powi(2))
                        .sum::<f64>()
                        .sqrt()
                })
                .collect();
            let all: f64 = d.iter().map(|d| (-d).exp()).sum();
            for s in 0..C {
                let p = (-d[s]).exp() / all;
                sum += q[i * C + s] * -p.ln() + LAMBDA * u[i * C + s] * d[s];
            }
        }
        sum / n as f64
    }

    fn term(f: Tensor<2>, c: Tensor<2>) -> Tensor<1> {
        let (q, u) = weights();
        let unary = unary(f, c, plain(&q, C), plain(&u, C));
        unary.classification + unary.attraction * LAMBDA
    }

    #[test]
    fn matches_the_reference_in_value_and_gradient() {
        let (f, c) = (random(1, 5, R, 2.0), random(2, C, R, 1.0));
        agrees(&f, R, |f| term(f, plain(&c, R)), |f| twin(f, &c));
        agrees(&c, R, |c| term(plain(&f, R), c), |c| twin(&f, c));
    }

    #[test]
    fn finite_at_extreme_scales_and_on_a_centre() {
        let ones = |rows: usize, columns: usize| {
            Tensor::<2>::ones([rows, columns], &burn_tensor::Device::flex().autodiff())
        };
        stays_finite(R, |f| {
            let unary = unary(f, ones(C, R) * 0.0, ones(3, C), ones(3, C));
            unary.classification + unary.attraction
        });
    }
}
