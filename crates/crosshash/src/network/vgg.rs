//! VGG-16 as in torchvision, configuration D without normalisation (Simonyan and Zisserman,
//! *Very Deep Convolutional Networks for Large-Scale Image Recognition*, ICLR 2015): 4,096
//! features: the output of the second linear layer after ReLU. Departure: no dropout.

use super::Architecture;
use super::layer::{Conv, Layer, linear, max_pool};

pub(super) const VGG16: Architecture = Architecture {
    name: "vgg16",
    title: "VGG-16, torchvision's; output of the second linear layer",
    width: 4096,
    size: 224,
    heads: &["classifier.6."],
    layers,
};

/// Output channels of the convolutions; 0 is a pooling layer.
const PLAN: [usize; 18] =
    [64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0];

fn layers() -> Vec<Layer> {
    let mut layers = Vec::new();
    let mut inputs = 3;
    for outputs in PLAN {
        if outputs == 0 {
            layers.push(max_pool(2, 2, 0));
            continue;
        }
        // The index of the layer is the same as in torchvision.
        let name = format!("features.{}", layers.len());
        layers.push(Conv::biased(name, [inputs, outputs], [3, 1, 1]));
        layers.push(Layer::Relu);
        inputs = outputs;
    }
    layers.extend([
        Layer::AveragePool(7),
        Layer::Flatten,
        linear("classifier.0", 25_088, 4096),
        Layer::Relu,
        linear("classifier.3", 4096, 4096),
        Layer::Relu,
    ]);
    layers
}
