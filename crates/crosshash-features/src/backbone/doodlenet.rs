//! DoodleNet (Yining Shi, ml5.js): a small convolutional classifier of the 345 categories of
//! Google's Quick, Draw!, 28 x 28, white strokes on black; 512 features before the classifier.
//!
//! White borders are trimmed and the drawing is fitted into the square, as in Quick, Draw!.

use super::onnx_image::OnnxImage;
use super::{BackboneInfo, InputKind, WeightFile};
use crate::picture::{Channels, Filter, Preprocessing, Resize};

pub(super) static INFO: BackboneInfo = BackboneInfo {
    name: "doodlenet",
    input_kind: InputKind::Pictures,
    drawings: true,
    width: 512,
    what: "DoodleNet, Quick, Draw!, ONNX: line drawings, dark on white",
    licence: "MIT",
    files: &[WeightFile {
        names: &["doodlenet.onnx"],
        sha256: Some("3b5aa2be9b19ee0ae1ca100b34f84ae2fab7438854786265143f1840d063885d"),
        source: None,
    }],
    get: "  git clone --depth 1 https://github.com/ml5js/ml5-data-and-models
  pip install numpy onnx
  python crates/crosshash-features/src/backbone/export/doodlenet.py \\
    ml5-data-and-models/models/doodlenet FOLDER/doodlenet.onnx
  then pass FOLDER with --weights or $CROSSHASH_WEIGHTS (the script converts the published
  TensorFlow.js weights to ONNX)",
    revision: 2,
    open: |files, weights| {
        let preprocessing = Preprocessing {
            trim: true,
            resize: Resize::Fit,
            filter: Filter::Area,
            channels: Channels::Ink,
            scale: 1.0 / 255.0,
            ..Preprocessing::squash(28)
        };
        Ok(Box::new(OnnxImage::open(&files[0], preprocessing, Some("features"), weights)?))
    },
};
