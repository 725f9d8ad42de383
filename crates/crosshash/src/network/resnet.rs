//! ResNet-18 and ResNet-50 as in torchvision and timm (He et al., *Deep Residual Learning
//! for Image Recognition*, CVPR 2016): 512 and 2,048 features, the mean of the last block. The
//! stride of a bottleneck is on its 3 x 3 convolution, as in torchvision.

use super::Architecture;
use super::layer::{Conv, Layer, max_pool, norm};

pub(super) const RESNET18: Architecture = Architecture {
    name: "resnet18",
    title: "ResNet-18, torchvision's or timm's; mean of the last block",
    width: 512,
    size: 224,
    heads: &["fc."],
    layers: || network([2, 2, 2, 2], 1, &|block| basic(&block)),
};

pub(super) const RESNET50: Architecture = Architecture {
    name: "resnet50",
    title: "ResNet-50, torchvision's or timm's; mean of the last block",
    width: 2048,
    size: 224,
    heads: &["fc."],
    layers: || network([3, 4, 6, 3], 4, &|block| bottleneck(&block, [1, 64], None)),
};

/// Name and sizes of a block.
pub(super) struct Block {
    pub(super) name: String,
    pub(super) inputs: usize,
    pub(super) planes: usize,
    pub(super) stride: usize,
}

/// Stem, four stages of blocks, mean.
pub(super) fn network(
    stages: [usize; 4],
    expansion: usize,
    block: &dyn Fn(Block) -> Layer,
) -> Vec<Layer> {
    let mut layers = vec![
        Conv::plain("conv1", [3, 64], [7, 2, 3], 1),
        norm("bn1", 64),
        Layer::Relu,
        max_pool(3, 2, 1),
    ];
    layers.extend(blocks(stages, expansion, block));
    layers
}

/// Four stages of blocks, mean.
pub(super) fn blocks(
    stages: [usize; 4],
    expansion: usize,
    block: &dyn Fn(Block) -> Layer,
) -> Vec<Layer> {
    let mut layers = Vec::new();
    let mut inputs = 64;
    for (stage, (count, planes)) in stages.into_iter().zip([64, 128, 256, 512]).enumerate()
    {
        for at in 0..count {
            let name = format!("layer{}.{at}", stage + 1);
            let stride = if at == 0 && stage > 0 { 2 } else { 1 };
            layers.push(block(Block { name, inputs, planes, stride }));
            inputs = planes * expansion;
        }
    }
    layers.extend([Layer::AveragePool(1), Layer::Flatten]);
    layers
}

fn basic(block: &Block) -> Layer {
    let Block { name, inputs, planes, stride } = block;
    let body = vec![
        Conv::plain(format!("{name}.conv1"), [*inputs, *planes], [3, *stride, 1], 1),
        norm(format!("{name}.bn1"), *planes),
        Layer::Relu,
        Conv::plain(format!("{name}.conv2"), [*planes, *planes], [3, 1, 1], 1),
        norm(format!("{name}.bn2"), *planes),
    ];
    residual(block, *planes, body)
}

/// Convolutions of 1 x 1, 3 x 3 (grouped) and 1 x 1; `excite` is the name of a squeeze-and-excitation
/// layer after them.
pub(super) fn bottleneck(
    block: &Block,
    [groups, width]: [usize; 2],
    excite: Option<&str>,
) -> Layer {
    let Block { name, inputs, planes, stride } = block;
    let (inner, outputs) = (planes * width / 64 * groups, planes * 4);
    let mut body = vec![
        Conv::plain(format!("{name}.conv1"), [*inputs, inner], [1, 1, 0], 1),
        norm(format!("{name}.bn1"), inner),
        Layer::Relu,
        Conv::plain(format!("{name}.conv2"), [inner, inner], [3, *stride, 1], groups),
        norm(format!("{name}.bn2"), inner),
        Layer::Relu,
        Conv::plain(format!("{name}.conv3"), [inner, outputs], [1, 1, 0], 1),
        norm(format!("{name}.bn3"), outputs),
    ];
    if let Some(part) = excite {
        let name = format!("{name}.{part}");
        body.push(Layer::Excite { name, channels: outputs, inner: outputs / 16 });
    }
    residual(block, outputs, body)
}

/// A residual block with its shortcut.
fn residual(block: &Block, outputs: usize, body: Vec<Layer>) -> Layer {
    let Block { name, inputs, stride, .. } = block;
    let same = *stride == 1 && *inputs == outputs;
    let shortcut = if same {
        Vec::new()
    } else {
        vec![
            Conv::plain(
                format!("{name}.downsample.0"),
                [*inputs, outputs],
                [1, *stride, 0],
                1,
            ),
            norm(format!("{name}.downsample.1"), outputs),
        ]
    };
    Layer::Residual { name: name.clone(), body, shortcut }
}
