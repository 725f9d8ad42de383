//! Four small blocks of convolution, normalisation, ReLU and pooling, the standard network of
//! few-shot learning (Vinyals et al., *Matching Networks*, NeurIPS 2016): for small pictures and
//! drawings, trained from scratch. 64 features: the mean of the last block.

use super::Architecture;
use super::layer::{Conv, Layer, max_pool, norm};

pub(super) const CONV4: Architecture = Architecture {
    name: "conv4",
    title: "four small convolutions, trained from random weights",
    width: 64,
    size: 64,
    heads: &[],
    layers,
};

fn layers() -> Vec<Layer> {
    let mut layers = Vec::new();
    let mut inputs = 3;
    for block in 0..4 {
        layers.extend([
            Conv::plain(format!("block{block}.conv"), [inputs, 64], [3, 1, 1], 1),
            norm(format!("block{block}.bn"), 64),
            Layer::Relu,
            max_pool(2, 2, 0),
        ]);
        inputs = 64;
    }
    layers.extend([Layer::AveragePool(1), Layer::Flatten]);
    layers
}
