//! AlexNet as in torchvision (Krizhevsky, *One weird trick for parallelizing convolutional
//! neural networks*, 2014): 4,096 features: the output of the second linear layer after ReLU.
//!
//! Also the five convolutions alone, for weights without the linear layers (`conv0 .. conv4`): 9,216
//! features (the input of the first linear layer), or the means of the 256 channels. Departure: no
//! dropout, also not in fine-tuning.

use super::Architecture;
use super::layer::{Conv, Layer, linear, max_pool};

pub(super) const ALEXNET: Architecture = Architecture {
    name: "alexnet",
    title: "AlexNet, torchvision's; output of the second linear layer",
    width: 4096,
    size: 224,
    heads: &["classifier.6."],
    layers: whole,
};

pub(super) const CONVOLUTIONS: Architecture = Architecture {
    name: "alexnet-conv",
    title: "AlexNet's five convolutions, 6 x 6 cells of 256 channels",
    width: 9216,
    size: 224,
    heads: &[],
    layers: || convolutions(["conv0", "conv1", "conv2", "conv3", "conv4"], 6),
};

pub(super) const MEANS: Architecture = Architecture {
    name: "alexnet-conv-mean",
    title: "AlexNet's five convolutions, the mean of each of 256 channels",
    width: 256,
    size: 224,
    heads: &[],
    layers: || convolutions(["conv0", "conv1", "conv2", "conv3", "conv4"], 1),
};

fn whole() -> Vec<Layer> {
    let names = ["features.0", "features.3", "features.6", "features.8", "features.10"];
    let mut layers = convolutions(names, 6);
    layers.extend([
        linear("classifier.1", 9216, 4096),
        Layer::Relu,
        linear("classifier.4", 4096, 4096),
        Layer::Relu,
    ]);
    layers
}

fn convolutions(names: [&str; 5], cells: usize) -> Vec<Layer> {
    let [a, b, c, d, e] = names;
    vec![
        Conv::biased(a, [3, 64], [11, 4, 2]),
        Layer::Relu,
        max_pool(3, 2, 0),
        Conv::biased(b, [64, 192], [5, 1, 2]),
        Layer::Relu,
        max_pool(3, 2, 0),
        Conv::biased(c, [192, 384], [3, 1, 1]),
        Layer::Relu,
        Conv::biased(d, [384, 256], [3, 1, 1]),
        Layer::Relu,
        Conv::biased(e, [256, 256], [3, 1, 1]),
        Layer::Relu,
        max_pool(3, 2, 0),
        Layer::AveragePool(cells),
        Layer::Flatten,
    ]
}
