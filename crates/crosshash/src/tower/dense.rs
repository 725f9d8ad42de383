//! Dense layer `x W + b` in the tensor library; used for all layers after the first.

use burn_tensor::{Device, Gradients, Tensor};

use super::Matrix;
use crate::optimise::{Param, Sgd};

#[derive(Debug)]
pub(super) struct DenseLayer {
    weight: Param, // inputs x outputs
    bias: Param,   // 1 x outputs
}

impl DenseLayer {
    /// Creates a layer from weights (rows of `columns`) and a bias of 0.
    pub(super) fn new(weights: Vec<f32>, columns: usize, device: &Device) -> DenseLayer {
        DenseLayer {
            weight: Param::new(weights, columns, device),
            bias: Param::new(vec![0.0; columns], columns, device),
        }
    }

    pub(super) fn resume(weight: Matrix, bias: Matrix, device: &Device) -> DenseLayer {
        let param = |m: Matrix| Param::resume(m.values, m.velocity, m.columns, device);
        DenseLayer { weight: param(weight), bias: param(bias) }
    }

    pub(super) fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        x.matmul(self.weight.leaf()) + self.bias.leaf()
    }

    /// The first `columns` outputs, without gradients.
    pub(super) fn apply(&self, x: Tensor<2>, columns: usize) -> Tensor<2> {
        let columns = columns.min(self.weight.shape()[1]);
        let part = |param: &Param| param.leaf().inner().narrow(1, 0, columns);
        x.matmul(part(&self.weight)) + part(&self.bias)
    }

    pub(super) fn step(&mut self, grads: &mut Gradients, sgd: Sgd) {
        self.weight.step(grads, sgd);
        self.bias.step(grads, sgd);
    }

    /// Whether all weights are finite.
    pub(super) fn is_finite(&self) -> bool {
        [&self.weight, &self.bias]
            .iter()
            .all(|param| param.values().iter().all(|x| x.is_finite()))
    }

    pub(super) fn matrices(&self, names: [&'static str; 2], moving: bool) -> Vec<Matrix> {
        let matrix = |(name, param): (&'static str, &Param)| Matrix {
            name: name.into(),
            columns: param.shape()[1],
            values: param.values(),
            velocity: if moving { param.velocity().to_vec() } else { Vec::new() },
        };
        names.into_iter().zip([&self.weight, &self.bias]).map(matrix).collect()
    }
}
