//! SE-ResNeXt-101, 32 groups of 4 (Hu et al., *Squeeze-and-Excitation Networks*, CVPR 2018, on Xie
//! et al., *Aggregated Residual Transformations*, CVPR 2017): 2,048 features.
//!
//! There are two variants of the state dict. timm's `seresnext101_32x4d` uses the names of a ResNet
//! and `se`; `legacy_seresnext101_32x4d` (formerly `se_resnext101_32x4d` of pretrainedmodels, the
//! version available when the paper was written) uses `layer0` and `se_module`, and its stem pools
//! with `ceil_mode`. Both are supported.

use super::Architecture;
use super::layer::{Conv, Layer, norm};
use super::resnet::{blocks, bottleneck, network};

const STAGES: [usize; 4] = [3, 4, 23, 3];
const GROUPS: [usize; 2] = [32, 4];

pub(super) const SE_RESNEXT101: Architecture = Architecture {
    name: "se-resnext101",
    title: "SE-ResNeXt-101 (32x4d), timm's seresnext101_32x4d; mean of the last block",
    width: 2048,
    size: 224,
    heads: &["fc."],
    layers: || network(STAGES, 4, &|block| bottleneck(&block, GROUPS, Some("se"))),
};

pub(super) const LEGACY: Architecture = Architecture {
    name: "se-resnext101-legacy",
    title: "SE-ResNeXt-101 (32x4d), timm's legacy_seresnext101_32x4d (pretrainedmodels)",
    width: 2048,
    size: 224,
    heads: &["last_linear."],
    layers: legacy,
};

fn legacy() -> Vec<Layer> {
    let mut layers = vec![
        Conv::plain("layer0.conv1", [3, 64], [7, 2, 3], 1),
        norm("layer0.bn1", 64),
        Layer::Relu,
        Layer::MaxPool { size: 3, stride: 2, padding: 0, ceil: true },
    ];
    layers
        .extend(blocks(STAGES, 4, &|block| bottleneck(&block, GROUPS, Some("se_module"))));
    layers
}
