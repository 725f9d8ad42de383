//! The native networks as frozen backbones, with their state dicts and the preprocessing of
//! torchvision and timm.

use std::path::PathBuf;

use crosshash_features::backbone::{
    Backbone, BackboneInfo, InputKind, Source, Table, WeightFile,
};
use crosshash_features::picture::Preprocessing;
use crosshash_features::{Error, Result};

use super::{Network, efficientnet_lite, named};

/// The native networks, as backbones.
pub static BACKBONES: Table = &[
    &efficientnet_lite::LITE0,
    &efficientnet_lite::LITE1,
    &efficientnet_lite::LITE2,
    &efficientnet_lite::LITE3,
    &efficientnet_lite::LITE4,
    &ALEXNET,
    &ALEXNET_CONV,
    &VGG16,
    &RESNET18,
    &RESNET50,
    &SE_RESNEXT101,
];

static ALEXNET: BackboneInfo = BackboneInfo {
    name: "alexnet",
    width: 4096,
    what: "AlexNet (torchvision), output of the second linear layer",
    files: &[WeightFile {
        names: &["alexnet.safetensors", "alexnet.pth", "alexnet-owt-7be5be79.pth"],
        sha256: None,
        source: Some(Source::Url {
            url: "https://download.pytorch.org/models/alexnet-owt-7be5be79.pth",
            sha256: "7be5be79",
        }),
    }],
    get: "  curl -LO https://download.pytorch.org/models/alexnet-owt-7be5be79.pth",
    open: |files, _| open("alexnet", files),
    ..NATIVE
};

static ALEXNET_CONV: BackboneInfo = BackboneInfo {
    name: "alexnet-conv",
    width: 9216,
    what: "AlexNet's five convolutions (torchvision), input of the first linear layer",
    files: &[WeightFile {
        names: &["alexnet_conv.safetensors"],
        sha256: None,
        source: None,
    }],
    get: "  save arrays conv0.weight, conv0.bias .. conv4.bias of torchvision's alexnet (features.0, 3, 6, \
          8, 10) as alexnet_conv.safetensors",
    open: |files, _| open("alexnet-conv", files),
    ..NATIVE
};

static VGG16: BackboneInfo = BackboneInfo {
    name: "vgg16",
    width: 4096,
    what: "VGG-16 (torchvision), output of the second linear layer",
    files: &[WeightFile {
        names: &["vgg16.safetensors", "vgg16.pth", "vgg16-397923af.pth"],
        sha256: None,
        source: Some(Source::Url {
            url: "https://download.pytorch.org/models/vgg16-397923af.pth",
            sha256: "397923af",
        }),
    }],
    get: "  curl -LO https://download.pytorch.org/models/vgg16-397923af.pth",
    open: |files, _| open("vgg16", files),
    ..NATIVE
};

static RESNET18: BackboneInfo = BackboneInfo {
    name: "resnet18",
    width: 512,
    what: "ResNet-18 (torchvision), mean of the last block",
    files: &[WeightFile {
        names: &["resnet18.safetensors", "resnet18.pth", "resnet18-f37072fd.pth"],
        sha256: None,
        source: Some(Source::Url {
            url: "https://download.pytorch.org/models/resnet18-f37072fd.pth",
            sha256: "f37072fd",
        }),
    }],
    get: "  curl -LO https://download.pytorch.org/models/resnet18-f37072fd.pth",
    open: |files, _| open("resnet18", files),
    ..NATIVE
};

static RESNET50: BackboneInfo = BackboneInfo {
    name: "resnet50",
    width: 2048,
    what: "ResNet-50 (torchvision), mean of the last block",
    files: &[WeightFile {
        names: &["resnet50.safetensors", "resnet50.pth", "resnet50-0676ba61.pth"],
        sha256: None,
        source: Some(Source::Url {
            url: "https://download.pytorch.org/models/resnet50-0676ba61.pth",
            sha256: "0676ba61",
        }),
    }],
    get: "  curl -LO https://download.pytorch.org/models/resnet50-0676ba61.pth",
    open: |files, _| open("resnet50", files),
    ..NATIVE
};

static SE_RESNEXT101: BackboneInfo = BackboneInfo {
    name: "se-resnext101",
    width: 2048,
    what: "SE-ResNeXt-101 32x4d (timm), mean of the last block",
    licence: "of timm's weights: Apache-2.0",
    files: &[WeightFile {
        names: &[
            "se-resnext101.safetensors",
            "se-resnext101.pth",
            "seresnext101_32x4d.safetensors",
        ],
        sha256: None,
        source: None,
    }],
    get: "  crosshash backbones fetch hf:timm/seresnext101_32x4d.gluon_in1k/model.safetensors --to FOLDER
  rename the file to se-resnext101.safetensors and pass its folder with --weights or $CROSSHASH_WEIGHTS",
    open: |files, _| open("se-resnext101", files),
    ..NATIVE
};

const NATIVE: BackboneInfo = BackboneInfo {
    name: "",
    input_kind: InputKind::Pictures,
    drawings: false,
    width: 0,
    what: "",
    licence: "of torchvision's weights: BSD-3-Clause; trained on ImageNet",
    files: &[],
    get: "",
    revision: 1,
    open: |_, _| Err(Error::content("this backbone cannot be opened")),
};

struct Native {
    network: Network,
    preprocessing: Preprocessing,
}

fn open(name: &str, files: &[PathBuf]) -> Result<Box<dyn Backbone>> {
    let [path] = files else {
        return Err(Error::content(format!("{name} needs exactly one weights file")));
    };
    let network = named(name).and_then(|architecture| Network::open(architecture, path));
    let network = network.map_err(|err| Error::content(err.to_string()))?;
    Ok(Box::new(Native { network, preprocessing: Preprocessing::imagenet() }))
}

impl Backbone for Native {
    fn input_kind(&self) -> InputKind {
        InputKind::Pictures
    }

    fn width(&self) -> usize {
        self.network.architecture().width
    }

    fn preprocessing(&self) -> Option<&Preprocessing> {
        Some(&self.preprocessing)
    }

    // The tensor library uses all threads.
    fn is_single_threaded(&self) -> bool {
        false
    }

    fn inputs(&self, inputs: &[f32], count: usize) -> Result<Vec<f32>> {
        assert_eq!(
            inputs.len(),
            count * self.preprocessing.values(),
            "wrong number of input values"
        );
        Ok(self.network.features(inputs, self.preprocessing.size))
    }
}
