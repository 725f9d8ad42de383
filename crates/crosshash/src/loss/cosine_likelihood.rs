//! Negative log-likelihood of pairwise similarities on cosines, in a batch and against a queue.
//!
//! DCMH's pairwise term (`likelihood.rs`) with bounded logits, so that it can be combined with the
//! other terms (methods.md 16.3 no. 2). With a trainable scale kappa and offset b,
//!
//! ```text
//! theta_ij = kappa cos(f_i, g_j) + b
//! L        = 1/(n m) sum_ij ( log(1 + e^theta_ij) - S_ij theta_ij )
//! ```
//!
//! S_ij is 1 if the items share a label, else 0. In a batch, both sides have
//! gradients ([`cosine_likelihood`]). Against a queue of m recent outputs of the other modality
//! ([`queue_likelihood`]), only f, kappa and b have; the sums and their gradients
//!
//! ```text
//! dL/dcos_ij = kappa (sigma(theta_ij) - S_ij) / (n m)
//! dL/dkappa  = sum_ij cos_ij (sigma(theta_ij) - S_ij) / (n m),    dL/db likewise without cos
//! ```
//!
//! are computed together in blocks of the queue; neither S nor theta is stored (`pairwise.rs`). Departure:
//! lengths are `max(|f|, 0.01)`.

use burn_tensor::{Tensor, TensorData};
use crosshash_codes::Labels;

use super::pairwise::sums;
use super::{OutputQueue, softplus, unit_rows};
use crate::optimise::floats;

/// The term over the outputs `f`, n x r, and `g`, m x r, of two modalities; `similar` is S, n x
/// m, and `scale` is 1 x 2: kappa and b.
pub(crate) fn cosine_likelihood(
    f: Tensor<2>,
    g: Tensor<2>,
    similar: Tensor<2>,
    scale: Tensor<2>,
) -> Tensor<1> {
    let cosines = unit_rows(f).matmul(unit_rows(g).transpose());
    let theta = cosines * scale.clone().narrow(1, 0, 1) + scale.narrow(1, 1, 1);
    (softplus(theta.clone()) - similar * theta).mean()
}

/// The term over outputs `f`, n x r, with labels `own`, against a queue of the other modality,
/// whose slots have the labels `other`; `scale` is 1 x 2: kappa and b. An empty queue gives 0.
///
/// # Panics
/// If the numbers of rows and labels do not match.
pub(crate) fn queue_likelihood(
    f: Tensor<2>,
    own: &Labels,
    queue: &OutputQueue,
    other: &Labels,
    scale: Tensor<2>,
) -> Tensor<1> {
    let [n, bits] = f.dims();
    assert_eq!(n, own.len(), "one row of labels per row of outputs");
    assert_eq!(queue.len(), other.len(), "one row of labels per slot");
    let unit = unit_rows(f);
    let rows = floats(unit.clone().inner());
    let at = floats(scale.clone().inner());
    let sums = sums(&rows, own, queue.outputs(), other, bits, [at[0], at[1]]);
    // A linear function of f and the scale with the value and gradients of the term.
    let device = unit.device();
    let weight = 1.0 / (n * queue.len()).max(1) as f64;
    let slopes = Tensor::from_data(TensorData::new(sums.rows, [n, bits]), &device);
    #[expect(clippy::cast_possible_truncation, reason = "training is in f32")]
    let by_scale = [sums.kappa as f32, sums.offset as f32];
    let by_scale = Tensor::<2>::from_data([by_scale], &device);
    let linear = (unit * slopes).sum() + (scale * by_scale).sum();
    let constant = linear.clone().detach();
    (linear - constant + sums.value) * weight
}

#[cfg(test)]
mod tests {
    use burn_tensor::Device;

    use super::super::pairwise::BLOCK;
    use super::super::tests::{agrees, plain, random, stays_finite};
    use super::*;

    const R: usize = 4;

    fn labels(n: usize, classes: usize, step: usize) -> Labels {
        let one = |i: usize| vec![u32::try_from((i * step) % classes).unwrap()];
        Labels::from_indices(classes, (0..n).map(one)).unwrap()
    }

    fn similar(own: &Labels, other: &Labels) -> Vec<f64> {
        let cell = |i: usize, j: usize| f64::from(u8::from(own.shared(i, other, j) > 0));
        (0..own.len()).flat_map(|i| (0..other.len()).map(move |j| cell(i, j))).collect()
    }

    fn twin(f: &[f64], g: &[f64], s: &[f64], scale: &[f64]) -> f64 {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
        let (mut sum, m) = (0.0, g.len() / R);
        for (i, f) in f.chunks_exact(R).enumerate() {
            for (j, g) in g.chunks_exact(R).enumerate() {
                let cosine = dot(f, g) / (dot(f, f) * dot(g, g)).sqrt();
                let theta = scale[0] * cosine + scale[1];
                sum += theta.exp().ln_1p() - s[i * m + j] * theta;
            }
        }
        sum / s.len() as f64
    }

    #[test]
    fn in_a_batch_matches_the_reference_in_value_and_gradient() {
        let (f, g) = (random(41, 3, R, 2.0), random(42, 5, R, 1.0));
        let (s, scale) = (similar(&labels(3, 3, 1), &labels(5, 3, 2)), [8.0, -2.0]);
        let (s_, k_) = (|| plain(&s, 5), || plain(&scale, 2));
        let term = cosine_likelihood;
        agrees(&f, R, |f| term(f, plain(&g, R), s_(), k_()), |f| twin(f, &g, &s, &scale));
        agrees(&g, R, |g| term(plain(&f, R), g, s_(), k_()), |g| twin(&f, g, &s, &scale));
        agrees(
            &scale,
            2,
            |k| term(plain(&f, R), plain(&g, R), s_(), k),
            |k| twin(&f, &g, &s, k),
        );
    }

    #[test]
    fn against_a_queue_matches_the_reference_in_value_and_gradient() {
        let device = Device::flex().autodiff();
        #[expect(clippy::cast_possible_truncation, reason = "single precision is tested")]
        let narrow = |x: &[f64]| -> Vec<f32> { x.iter().map(|&x| x as f32).collect() };
        for (n, m, classes) in [(3, 5, 3), (2, BLOCK + 7, 130)] {
            let (f, g) = (random(43, n, R, 2.0), random(44, m, R, 1.0));
            let (own, other) = (labels(n, classes, 1), labels(m, classes, 2));
            let (s, scale) = (similar(&own, &other), [6.0, -1.5]);
            let mut queue = OutputQueue::new(R, m);
            queue.push(&narrow(&g), &(0..m).collect::<Vec<_>>());
            let leaf = |values: &[f64], columns: usize| {
                let shape = [values.len() / columns, columns];
                Tensor::<2>::from_data(TensorData::new(narrow(values), shape), &device)
                    .require_grad()
            };
            let (at, k) = (leaf(&f, R), leaf(&scale, 2));
            let loss = queue_likelihood(at.clone(), &own, &queue, &other, k.clone());
            let found: f32 = loss.clone().into_scalar();
            let wanted = twin(&f, &g, &s, &scale);
            assert!((f64::from(found) - wanted).abs() < 1e-5, "{found} for {wanted}");
            let grads = loss.backward();
            let check = |gradient: Vec<f32>, x: &[f64], twin: &dyn Fn(&[f64]) -> f64| {
                for (cell, found) in gradient.into_iter().enumerate() {
                    let shifted = |d: f64| {
                        let mut x = x.to_vec();
                        x[cell] += d;
                        twin(&x)
                    };
                    let slope = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
                    let off = (f64::from(found) - slope).abs();
                    assert!(
                        off < 1e-5 * (1.0 + slope.abs()),
                        "{cell}: {found} for {slope}"
                    );
                }
            };
            check(floats(at.grad(&grads).unwrap()), &f, &|f| twin(f, &g, &s, &scale));
            check(floats(k.grad(&grads).unwrap()), &scale, &|k| twin(&f, &g, &s, k));
        }
    }

    #[test]
    fn an_empty_queue_gives_zero() {
        let queue = OutputQueue::new(R, 8);
        let device = Device::flex().autodiff();
        let f = Tensor::<2>::ones([2, R], &device).require_grad();
        let scale = Tensor::<2>::from_data([[8.0, -2.0]], &device);
        let none = Labels::from_indices(3, Vec::<Vec<u32>>::new()).unwrap();
        let loss = queue_likelihood(f.clone(), &labels(2, 3, 1), &queue, &none, scale);
        let value: f32 = loss.clone().into_scalar();
        assert_eq!(value, 0.0);
        let gradient = floats(f.grad(&loss.backward()).unwrap());
        assert!(gradient.iter().all(|&x| x == 0.0));
    }

    #[test]
    fn finite_at_extreme_scales() {
        let device = Device::flex().autodiff();
        let mut queue = OutputQueue::new(R, 8);
        queue.push(&[1.0; 3 * R], &[0, 1, 2]);
        for scale in [[8.0, -2.0], [1e6, 0.0], [0.0, -1e6]] {
            let scale = || Tensor::<2>::from_data([scale], &device);
            let (own, other) = (labels(3, 3, 1), labels(3, 3, 1));
            stays_finite(R, |f| queue_likelihood(f, &own, &queue, &other, scale()));
            stays_finite(R, |f| {
                let (g, s) = (Tensor::ones([3, R], &device), Tensor::ones([3, 3], &device));
                cosine_likelihood(f, g, s, scale())
            });
        }
    }
}
