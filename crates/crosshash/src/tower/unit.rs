//! Activations of hidden units.
//!
//! ```text
//! relu    h = max(0, a)
//! tanh    h = tanh(a)
//! gated   [ a | z ] = x W + b,   h = 1[softmax(z) >= 1/K] max(0, a)     K units, first layer only
//! ```
//!
//! The gate is the attention of ADAH on feature vectors (`method/adah.rs`): an item selects the
//! units whose share of the softmax is at least the mean share.

use burn_tensor::Tensor;
use burn_tensor::activation::{relu, softmax};
use serde::{Deserialize, Serialize};

/// The kind of the hidden units of a tower.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unit {
    /// Rectified linear units.
    #[default]
    Relu,
    /// Hyperbolic tangents.
    Tanh,
    /// Rectified linear units, in the first layer with a gate.
    Gated,
}

impl Unit {
    pub(super) fn is_relu(&self) -> bool {
        *self == Unit::Relu
    }

    /// The units of the first layer, from its outputs.
    pub(crate) fn first(self, outputs: Tensor<2>) -> Tensor<2> {
        if self != Unit::Gated {
            return self.apply(outputs);
        }
        let half = outputs.dims()[1] / 2;
        let units = relu(outputs.clone().narrow(1, 0, half));
        units * mask(outputs.narrow(1, half, half))
    }

    /// The units of a further layer, from its outputs.
    pub(crate) fn apply(self, outputs: Tensor<2>) -> Tensor<2> {
        match self {
            Unit::Relu | Unit::Gated => relu(outputs),
            Unit::Tanh => outputs.tanh(),
        }
    }
}

/// 1 for values whose share of the softmax of their row is at least the mean share, else 0; without
/// gradient.
pub(crate) fn mask(values: Tensor<2>) -> Tensor<2> {
    let mean = 1.0 / values.dims()[1].max(1) as f64;
    softmax(values.detach(), 1).greater_equal_elem(mean).float()
}

#[cfg(test)]
mod tests {
    use burn_tensor::Device;

    use super::*;
    use crate::optimise::floats;

    #[test]
    fn a_gate_passes_what_is_above_the_mean() {
        let row = [1.0, -2.0, 3.0, 4.0, /* gate */ 0.0, 5.0, 5.1, -1.0];
        let rows = Tensor::<2>::from_data([row], &Device::flex());
        assert_eq!(floats(Unit::Gated.first(rows)), [0.0, 0.0, 3.0, 0.0]);
    }
}
