//! Evaluates layers with the tensor library, with or without recording gradients.

use burn_tensor::Tensor;
use burn_tensor::activation::{relu, sigmoid};
use burn_tensor::module::{
    adaptive_avg_pool2d, batch_norm, batch_norm_train, conv2d, max_pool2d,
};
use burn_tensor::ops::{ConvOptions, MaxPoolOptions};

use super::Network;
use super::layer::{Conv, Layer};

/// Epsilon of batch normalisation (PyTorch's default).
const EPSILON: f64 = 1e-5;

/// Statistics used by batch normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statistics {
    /// Running statistics.
    Running,
    /// Batch statistics, which also update the running statistics.
    Batch,
}

/// Batch statistics of a normalisation: name, mean, biased variance, and number of values per
/// channel.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) name: String,
    pub(crate) mean: Tensor<1>,
    pub(crate) variance: Tensor<1>,
    pub(crate) count: usize,
}

/// One evaluation of some layers.
pub(super) struct Pass<'n> {
    network: &'n Network,
    learning: bool, // record gradients of parameters
    statistics: Statistics,
    pub(super) observed: Vec<Observed>,
}

impl<'n> Pass<'n> {
    pub(super) fn new(
        network: &'n Network,
        learning: bool,
        statistics: Statistics,
    ) -> Pass<'n> {
        Pass { network, learning, statistics, observed: Vec::new() }
    }

    pub(super) fn through(&mut self, layers: &[Layer], x: Tensor<4>) -> Tensor<4> {
        layers.iter().fold(x, |x, layer| self.layer(layer, x))
    }

    fn layer(&mut self, layer: &Layer, x: Tensor<4>) -> Tensor<4> {
        match layer {
            Layer::Conv(conv) => self.conv(conv, x),
            Layer::Norm { name, channels } => self.norm(name, *channels, x),
            Layer::Relu => relu(x),
            Layer::MaxPool { size, stride, padding, ceil } => {
                let options = MaxPoolOptions::new([*size; 2])
                    .with_stride([*stride; 2])
                    .with_padding([*padding; 2])
                    .with_ceil_mode(*ceil);
                max_pool2d(x, options)
            }
            Layer::AveragePool(cells) => {
                let [_, _, height, width] = x.dims();
                if [height, width] == [*cells; 2] {
                    x
                } else {
                    adaptive_avg_pool2d(x, [*cells; 2])
                }
            }
            Layer::Flatten => {
                let [n, channels, height, width] = x.dims();
                x.reshape([n, channels * height * width, 1, 1])
            }
            Layer::Linear { name, inputs, outputs } => {
                let n = x.dims()[0];
                let weight = self.param(name, "weight", [*outputs, *inputs]);
                let bias = self.param(name, "bias", [1, *outputs]);
                let out = x.reshape([n, *inputs]).matmul(weight.transpose()) + bias;
                out.reshape([n, *outputs, 1, 1])
            }
            Layer::Residual { body, shortcut, .. } => {
                let beside = self.through(shortcut, x.clone());
                relu(self.through(body, x) + beside)
            }
            Layer::Excite { name, channels, inner } => {
                let dense = |part: &str, sizes: [usize; 2], x: Tensor<2>| {
                    let name = format!("{name}.{part}");
                    let weight = self.param(&name, "weight", sizes);
                    let bias = self.param(&name, "bias", [1, sizes[0]]);
                    x.matmul(weight.transpose()) + bias
                };
                let n = x.dims()[0];
                let means = adaptive_avg_pool2d(x.clone(), [1, 1]).reshape([n, *channels]);
                let hidden = relu(dense("fc1", [*inner, *channels], means));
                let gate = sigmoid(dense("fc2", [*channels, *inner], hidden));
                x * gate.reshape([n, *channels, 1, 1])
            }
        }
    }

    fn conv(&mut self, conv: &Conv, x: Tensor<4>) -> Tensor<4> {
        let Conv { name, inputs, outputs, size, stride, padding, groups, bias } = conv;
        let weight = self.param(name, "weight", [*outputs, inputs / groups, *size, *size]);
        let bias = bias.then(|| self.param(name, "bias", [*outputs]));
        let options = ConvOptions::new([*stride; 2], [*padding; 2], [1; 2], *groups);
        conv2d(x, weight, bias, options)
    }

    fn norm(&mut self, name: &str, channels: usize, x: Tensor<4>) -> Tensor<4> {
        let [scale, shift] =
            ["weight", "bias"].map(|part| self.param(name, part, [channels]));
        if self.statistics == Statistics::Batch {
            let [n, _, height, width] = x.dims();
            let out = batch_norm_train(x, scale, shift, EPSILON);
            self.observed.push(Observed {
                name: name.to_owned(),
                mean: out.mean.inner(),
                variance: out.variance.inner(),
                count: n * height * width,
            });
            return out.output;
        }
        let [mean, variance] =
            ["running_mean", "running_var"].map(|part| self.param(name, part, [channels]));
        batch_norm(x, scale, shift, mean, variance, EPSILON)
    }

    fn param<const D: usize>(
        &self,
        name: &str,
        part: &str,
        shape: [usize; D],
    ) -> Tensor<D> {
        self.network.param(&format!("{name}.{part}"), self.learning).reshape(shape)
    }
}
