//! Loss terms, one file each, with equation and gradient test. Terms do not depend on methods.
//!
//! Every term takes the outputs of towers (tensors with gradients) and returns a mean over the batch,
//! so that step sizes do not depend on the batch size.

mod adversarial;
mod balance;
mod classifier;
mod cosine_likelihood;
mod cosine_margin;
mod decorrelation;
mod exponential_focal;
mod gradient;
mod instance;
mod likelihood;
mod pair;
mod pairwise;
mod quantisation;
mod queue;
mod tight_unary;
mod triplet;
mod unary;

pub(crate) use adversarial::{judged, least_squares};
pub(crate) use balance::balance;
pub(crate) use classifier::classifier;
pub(crate) use cosine_likelihood::{cosine_likelihood, queue_likelihood};
pub(crate) use cosine_margin::{cosine_margin, cosine_quantisation};
pub(crate) use decorrelation::decorrelation;
pub(crate) use exponential_focal::{Focus, exponential_focal, exponential_quantisation};
pub(crate) use gradient::{
    reversed, signs, straight_through, straight_through_sign, towards_signs,
};
pub(crate) use instance::{QueuedColumns, instance};
pub(crate) use likelihood::{likelihood, likelihood_term, squared_likelihood};
pub(crate) use pair::pair;
pub(crate) use quantisation::quantisation;
pub(crate) use queue::OutputQueue;
pub(crate) use tight_unary::tight_unary;
pub(crate) use triplet::{Triplets, triplet};
pub(crate) use unary::unary;

use burn_tensor::{Tensor, activation::log_sigmoid};

/// Lower bound of squares, which keeps square roots differentiable.
const TINY: f64 = 1e-12;
/// Lower bound of the length by which outputs are divided. The gradient of a direction is the inverse of the
/// length: without a bound, one output near 0 (an item without any feature, e.g. a text without known words,
/// before the first step) would have a gradient that destroys the tower.
const SHORT: f64 = 1e-2;

/// The Euclidean length of each row, n x 1; at least [`SHORT`].
fn lengths(rows: Tensor<2>) -> Tensor<2> {
    rows.square().sum_dim(1).clamp_min(SHORT * SHORT).sqrt()
}

/// Each row divided by its length; shorter rows than [`SHORT`] are divided by that.
fn unit_rows(rows: Tensor<2>) -> Tensor<2> {
    rows.clone() / lengths(rows)
}

/// `log(1 + e^x)`.
fn softplus<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    log_sigmoid(x.neg()).neg()
}

/// `log sum_j e^z_ij`, n x 1.
fn log_sum_exp(z: Tensor<2>) -> Tensor<2> {
    let largest = z.clone().detach().max_dim(1);
    (z - largest.clone()).exp().sum_dim(1).log() + largest
}

/// Shared by the tests of all terms: f64 tensors and central differences.
#[cfg(test)]
mod tests {
    use burn_tensor::{DType, Device, Tensor, TensorData};
    use rand::{RngExt as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;

    /// Random values between -scale and scale.
    pub(super) fn random(seed: u64, rows: usize, columns: usize, scale: f64) -> Vec<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        (0..rows * columns).map(|_| rng.random_range(-scale..scale)).collect()
    }

    /// A double precision tensor, with gradient.
    pub(super) fn leaf(values: &[f64], columns: usize) -> Tensor<2> {
        plain(values, columns).require_grad()
    }

    /// A double precision tensor.
    pub(super) fn plain(values: &[f64], columns: usize) -> Tensor<2> {
        let data = TensorData::new(values.to_vec(), [values.len() / columns, columns]);
        Tensor::from_data(data, (&Device::flex().autodiff(), DType::F64))
    }

    pub(super) fn value(tensor: &Tensor<1>) -> f64 {
        tensor.clone().into_scalar()
    }

    /// Compares value and gradient of `term` at `x` with a reference, by central differences.
    pub(super) fn agrees(
        x: &[f64],
        columns: usize,
        term: impl Fn(Tensor<2>) -> Tensor<1>,
        twin: impl Fn(&[f64]) -> f64,
    ) {
        const H: f64 = 1e-6;
        let at = leaf(x, columns);
        let loss = term(at.clone());
        assert!((value(&loss) - twin(x)).abs() < 1e-9, "{} and {}", value(&loss), twin(x));
        let grads = loss.backward();
        let gradient: Vec<f64> =
            at.grad(&grads).unwrap().into_data().as_slice::<f64>().unwrap().to_vec();
        for k in 0..x.len() {
            let shifted = |d: f64| {
                let mut x = x.to_vec();
                x[k] += d;
                twin(&x)
            };
            let slope = (shifted(H) - shifted(-H)) / (2.0 * H);
            assert!((gradient[k] - slope).abs() < 1e-7, "{k}: {} {slope}", gradient[k]);
        }
    }

    /// Checks that the gradient of a row is at most `limit` long, however short the row is. (It would be the
    /// inverse of its length otherwise.)
    pub(super) fn is_bounded_at_zero(
        columns: usize,
        limit: f64,
        term: impl Fn(Tensor<2>) -> Tensor<1>,
    ) {
        for scale in [0.0, 1e-9, 1e-6, 1e-3] {
            let x: Vec<f64> =
                random(9, 3, columns, 1.0).iter().map(|x| x * scale).collect();
            let at = leaf(&x, columns);
            let gradient = at.grad(&term(at.clone()).backward()).unwrap().into_data();
            for row in gradient.as_slice::<f64>().unwrap().chunks_exact(columns) {
                let length = row.iter().map(|g| g * g).sum::<f64>().sqrt();
                assert!(length <= limit, "scale {scale}: gradient of length {length}");
            }
        }
    }

    /// Checks that value and gradient are finite in single precision at extreme scales.
    pub(super) fn stays_finite(columns: usize, term: impl Fn(Tensor<2>) -> Tensor<1>) {
        for scale in [0.0, 1e-20, 1e-6, 1.0, 1e4, 1e8, 1e12] {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "single precision is tested"
            )]
            let x: Vec<f32> =
                random(9, 3, columns, 1.0).iter().map(|x| (x * scale) as f32).collect();
            let data = TensorData::new(x, [3, columns]);
            let at =
                Tensor::<2>::from_data(data, &Device::flex().autodiff()).require_grad();
            let loss = term(at.clone());
            let grads = loss.backward();
            let gradient = at.grad(&grads).unwrap().into_data();
            let finite = gradient.as_slice::<f32>().unwrap().iter().all(|g| g.is_finite());
            let loss: f32 = loss.into_scalar();
            assert!(loss.is_finite() && finite, "at scale {scale}: {loss}");
        }
    }
}
