//! ONNX network opened by path, described by a TOML file of the same name in the same folder:
//!
//! ```toml
//! # vit.toml, next to vit.onnx
//! output = "features"          # default: the network's first output
//! [picture]                    # a `Preprocessing`
//! size = 224
//! resize = { short-side = 256 }
//! filter = "bicubic"
//! scale = 0.00392156862745098  # 1/255
//! mean = [0.485, 0.456, 0.406]
//! std = [0.229, 0.224, 0.225]
//! ```
//!
//! For a text encoder, use `[text]` with `tokenizer = "tokenizer.json"` instead (`sentence.rs`).

use std::path::{Path, PathBuf};

use serde::Deserialize;
use xxhash_rust::xxh3::Xxh3;

use super::onnx_image::OnnxImage;
use super::sentence::{Pooling, Sentence};
use super::{Backbone, Weights, digest};
use crate::picture::Preprocessing;
use crate::{Error, Result};

/// File extension of such backbones.
pub(super) const ENDING: &str = "onnx";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    output: Option<String>,
    #[serde(default)]
    drawings: bool,
    picture: Option<Preprocessing>,
    text: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    tokenizer: PathBuf,
    #[serde(default)]
    pooling: Pooling,
    #[serde(default = "yes")]
    unit_length: bool,
    #[serde(default = "tokens")]
    max_tokens: usize,
}

fn yes() -> bool {
    true
}

fn tokens() -> usize {
    256
}

/// Returns the backbone, its digest, and whether it is for drawings.
pub(super) fn open(
    path: &Path,
    weights: &Weights,
) -> Result<(Box<dyn Backbone>, String, bool)> {
    if !path.is_file() {
        return Err(Error::content("no such file").at(path));
    }
    let beside = path.with_extension("toml");
    if !beside.is_file() {
        return Err(Error::content(format!(
            "an ONNX network needs a description in {}, for example\n[picture]\nsize = \
             224\nmean = [0.485, 0.456, 0.406]\nstd = [0.229, 0.224, 0.225]\nscale = 0.003921569\n\
             (docs/pictures.md lists all keys)",
            beside.display()
        ))
        .at(path));
    }
    let text = fs_err::read_to_string(&beside)?;
    let found: Description = toml::from_str(&text)
        .map_err(|err| Error::content(err.to_string().trim_end()).at(&beside))?;
    let mut state = Xxh3::new();
    state.update(text.as_bytes());
    let output = found.output.as_deref();
    match (found.picture, found.text) {
        (Some(preprocessing), None) => {
            let network = OnnxImage::open(path, preprocessing, output, weights)?;
            let digest = digest(state, network.preprocessing(), &[path])?;
            Ok((Box::new(network), digest, found.drawings))
        }
        (None, Some(text)) => {
            let folder = path.parent().unwrap_or(Path::new("."));
            let tokenizer = folder.join(&text.tokenizer);
            let mut sentence = Sentence::open(path, &tokenizer, output, None, weights)?;
            sentence.pooling = text.pooling;
            sentence.unit_length = text.unit_length;
            sentence.max_tokens = text.max_tokens.max(1);
            let digest = digest(state, None, &[path, &tokenizer])?;
            Ok((Box::new(sentence), digest, false))
        }
        _ => {
            Err(Error::content("expected exactly one of [picture] and [text]").at(&beside))
        }
    }
}
