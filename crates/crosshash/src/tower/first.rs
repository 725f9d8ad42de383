//! First layer on dense rows, without a gradient matrix.
//!
//! ```text
//! forward    Z = X W + b
//! backward   V <- m V + X^T dL/dZ                  one product, accumulated into the velocity
//!            V <- V + w W,   W <- W - eta V         while the rows are still in the cache
//! ```
//!
//! The first layer contains nearly all weights of a tower, and its inputs need no gradient. As in
//! `sparse.rs`, its outputs are a leaf of the graph; the gradient of the leaf is accumulated into
//! the velocity in the step of [`Sgd`]. This avoids allocating, writing and reading a gradient
//! matrix. `dense.rs` is the same layer in the tensor library, for any device.

use burn_tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;

use super::Matrix;
use crate::gemm::{Factor, accumulate};
use crate::optimise::{Sgd, floats};

/// Inputs per parallel block of the update.
const INPUTS: usize = 256;

#[derive(Debug)]
pub(super) struct FirstLayer {
    columns: usize,
    value: Vec<f32>, // inputs x columns
    velocity: Vec<f32>,
    bias: Vec<f32>,
    bias_velocity: Vec<f32>,
}

impl FirstLayer {
    /// Creates a layer from weights (rows of `columns`) and a bias of 0.
    pub(super) fn new(weights: Vec<f32>, columns: usize) -> FirstLayer {
        FirstLayer {
            columns,
            velocity: vec![0.0; weights.len()],
            value: weights,
            bias: vec![0.0; columns],
            bias_velocity: vec![0.0; columns],
        }
    }

    pub(super) fn resume(weight: Matrix, bias: Matrix) -> FirstLayer {
        FirstLayer {
            columns: weight.columns,
            value: weight.values,
            velocity: weight.velocity,
            bias: bias.values,
            bias_velocity: bias.velocity,
        }
    }

    /// Outputs for some rows, n x columns, without gradients.
    pub(super) fn forward(&self, rows: &[f32], device: &Device) -> Tensor<2> {
        let width = self.value.len() / self.columns;
        let n = rows.len() / width;
        let mut out = self.bias.repeat(n);
        let (x, w) = (Factor::whole(rows, width), Factor::whole(&self.value, self.columns));
        accumulate(&mut out, 1.0, x, w, true);
        Tensor::from_data(TensorData::new(out, [n, self.columns]), device)
    }

    /// One optimiser step with the gradient of the outputs for these rows.
    pub(super) fn step(&mut self, rows: &[f32], gradient: Tensor<2>, sgd: Sgd) {
        let (columns, width) = (self.columns, self.value.len() / self.columns);
        let dz = floats(gradient);
        let block = INPUTS * columns;
        let weights = self.value.par_chunks_mut(block);
        let weights = weights.zip(self.velocity.par_chunks_mut(block)).enumerate();
        weights.for_each(|(k, (p, v))| {
            let inputs = p.len() / columns;
            let x = Factor::columns(rows, width, k * INPUTS, inputs).transposed();
            accumulate(v, sgd.momentum, x, Factor::whole(&dz, columns), false);
            sgd.follow(p, v);
        });
        let mut sum = vec![0.0_f32; columns];
        for dz in dz.chunks_exact(columns) {
            sum.iter_mut().zip(dz).for_each(|(s, d)| *s += d);
        }
        sgd.update(&mut self.bias, &mut self.bias_velocity, &sum);
    }

    /// Whether all weights are finite.
    pub(super) fn is_finite(&self) -> bool {
        self.value.par_iter().all(|x| x.is_finite())
            && self.bias.iter().all(|x| x.is_finite())
    }

    /// Weights and bias.
    pub(super) fn matrices(&self, names: [&'static str; 2], moving: bool) -> Vec<Matrix> {
        let columns = self.columns;
        let matrix = |name: &'static str, values: &[f32], velocity: &[f32]| Matrix {
            name: name.into(),
            columns,
            values: values.to_vec(),
            velocity: if moving { velocity.to_vec() } else { Vec::new() },
        };
        vec![
            matrix(names[0], &self.value, &self.velocity),
            matrix(names[1], &self.bias, &self.bias_velocity),
        ]
    }
}
