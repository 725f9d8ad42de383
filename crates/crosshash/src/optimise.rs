//! Stochastic gradient descent with momentum and weight decay, in one parallel pass.
//!
//! ```text
//! v <- m v + g + w p          (no dampening, decay coupled: PyTorch's and the paper's SGD)
//! p <- p - eta v
//! ```
//!
//! The optimiser of the tensor library makes several passes over every array. A step is limited by
//! memory bandwidth, so value, velocity and gradient are read once and written once.
//!
//! A row without gradient follows `(p, v) <- A (p, v)` with
//! `A = [[1 - eta w, -eta m], [w, m]]`, so k idle steps are one product with `A^k`
//! ([`Sgd::idle`]): rows of a sparse layer are brought up to date when they are next used.
//!
//! Also here: Adam (`optimise/adam.rs`), learning rate schedules (`optimise/schedule.rs`) and averaged
//! weights (`optimise/average.rs`).

mod adam;
mod average;
mod schedule;

pub(crate) use adam::{Adam, Moments};
pub(crate) use average::Average;
pub(crate) use schedule::schedule;
pub(crate) use schedule::{cosine, held};

use burn_tensor::{Device, Gradients, Tensor, TensorData};
use rayon::prelude::*;

/// Values per parallel block.
const BLOCK: usize = 1 << 15;

/// Settings of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sgd {
    /// Learning rate, eta.
    pub(crate) rate: f32,
    /// Momentum, m.
    pub(crate) momentum: f32,
    /// Weight decay, w.
    pub(crate) decay: f32,
}

impl Sgd {
    /// One step on a slice of an array.
    pub(crate) fn update(self, value: &mut [f32], velocity: &mut [f32], gradient: &[f32]) {
        let Sgd { rate, momentum, decay } = self;
        for ((p, v), g) in value.iter_mut().zip(velocity).zip(gradient) {
            *v = momentum * *v + (g + decay * *p);
            *p -= rate * *v;
        }
    }

    /// Completes a step on a slice whose velocity already contains `m v + g`.
    pub(crate) fn follow(self, value: &mut [f32], velocity: &mut [f32]) {
        let Sgd { rate, decay, .. } = self;
        for (p, v) in value.iter_mut().zip(velocity) {
            *v += decay * *p;
            *p -= rate * *v;
        }
    }

    /// `A^k`: the effect of `steps` steps without gradient on (value, velocity).
    pub(crate) fn idle(self, steps: u32) -> [[f64; 2]; 2] {
        let (eta, m, w) =
            (f64::from(self.rate), f64::from(self.momentum), f64::from(self.decay));
        let mut base = [[1.0 - eta * w, -eta * m], [w, m]];
        let mut power = [[1.0, 0.0], [0.0, 1.0]];
        let mut left = steps;
        while left > 0 {
            if left & 1 == 1 {
                power = product(power, base);
            }
            base = product(base, base);
            left >>= 1;
        }
        power
    }
}

fn product(a: [[f64; 2]; 2], b: [[f64; 2]; 2]) -> [[f64; 2]; 2] {
    let cell = |i: usize, j: usize| a[i][0] * b[0][j] + a[i][1] * b[1][j];
    [[cell(0, 0), cell(0, 1)], [cell(1, 0), cell(1, 1)]]
}

/// A trainable matrix with its velocity.
#[derive(Debug)]
pub(crate) struct Param {
    leaf: Tensor<2>,
    velocity: Vec<f32>,
    device: Device,
}

impl Param {
    /// A matrix with zero velocity.
    pub(crate) fn new(values: Vec<f32>, columns: usize, device: &Device) -> Param {
        let velocity = vec![0.0; values.len()];
        Param::resume(values, velocity, columns, device)
    }

    /// A matrix with the given velocity.
    pub(crate) fn resume(
        values: Vec<f32>,
        velocity: Vec<f32>,
        columns: usize,
        device: &Device,
    ) -> Param {
        assert_eq!(values.len(), velocity.len(), "one velocity per value");
        let shape = [values.len() / columns, columns];
        let leaf = Tensor::from_data(TensorData::new(values, shape), device).require_grad();
        Param { leaf, velocity, device: device.clone() }
    }

    /// The matrix as a leaf of the graph.
    pub(crate) fn leaf(&self) -> Tensor<2> {
        self.leaf.clone()
    }

    /// Rows and columns.
    pub(crate) fn shape(&self) -> [usize; 2] {
        self.leaf.dims()
    }

    /// A copy of the values, by rows.
    pub(crate) fn values(&self) -> Vec<f32> {
        floats(self.leaf.clone().inner())
    }

    /// The velocity, by rows.
    pub(crate) fn velocity(&self) -> &[f32] {
        &self.velocity
    }

    /// One step with the gradient of a backward pass; no step if the matrix was not used.
    pub(crate) fn step(&mut self, grads: &mut Gradients, sgd: Sgd) {
        let Some(gradient) = self.leaf.grad_remove(grads) else { return };
        let gradient = gradient.into_data();
        self.follow(gradient.as_slice().expect("single precision"), sgd);
    }

    /// Removes and returns the gradient of this matrix from a backward pass, by rows.
    pub(crate) fn gradient(&self, grads: &mut Gradients) -> Option<Vec<f32>> {
        self.leaf.grad_remove(grads).map(floats)
    }

    /// One step with a gradient, by rows.
    pub(crate) fn follow(&mut self, gradient: &[f32], sgd: Sgd) {
        assert_eq!(gradient.len(), self.velocity.len(), "one gradient per value");
        // After the backward pass the values are not shared, so they are not copied.
        let empty = Tensor::empty([1, 1], &self.device);
        let leaf = std::mem::replace(&mut self.leaf, empty);
        let mut data = leaf.inner().into_data();
        let values: &mut [f32] = data.as_mut_slice().expect("single precision");
        values
            .par_chunks_mut(BLOCK)
            .zip(self.velocity.par_chunks_mut(BLOCK))
            .zip(gradient.par_chunks(BLOCK))
            .for_each(|((p, v), g)| sgd.update(p, v, g));
        self.leaf = Tensor::from_data(data, &self.device).require_grad();
    }
}

/// The values of a tensor, by rows.
pub(crate) fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().as_slice().expect("single precision").to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SGD: Sgd = Sgd { rate: 0.1, momentum: 0.9, decay: 0.01 };

    #[test]
    fn steps_match_the_formula() {
        let device = Device::flex().autodiff();
        let start: Vec<f32> = (0..70_000).map(|k| (k as f32 * 0.37).sin()).collect();
        let mut param = Param::new(start.clone(), 7, &device);
        let (mut p, mut v) = (start, vec![0.0_f32; 70_000]);
        for _ in 0..3 {
            // d/dp of the sum of squares is 2 p
            let mut grads = param.leaf().square().sum().backward();
            param.step(&mut grads, SGD);
            for k in 0..p.len() {
                let g = 2.0 * p[k];
                v[k] = 0.9 * v[k] + g + 0.01 * p[k];
                p[k] -= 0.1 * v[k];
            }
        }
        let values = param.values();
        for k in 0..p.len() {
            assert!((values[k] - p[k]).abs() < 1e-5);
            assert!((param.velocity()[k] - v[k]).abs() < 1e-5);
        }
    }

    #[test]
    fn idle_matches_steps_without_gradient() {
        let (mut p, mut v) = ([0.7_f32], [-1.3_f32]);
        let (p0, v0) = (f64::from(p[0]), f64::from(v[0]));
        for steps in 1..40 {
            SGD.update(&mut p, &mut v, &[0.0]);
            let a = SGD.idle(steps);
            assert!((a[0][0] * p0 + a[0][1] * v0 - f64::from(p[0])).abs() < 1e-5);
            assert!((a[1][0] * p0 + a[1][1] * v0 - f64::from(v[0])).abs() < 1e-5);
        }
    }
}
