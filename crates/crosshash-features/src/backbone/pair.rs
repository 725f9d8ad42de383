//! Two ONNX networks of one space, for pictures and for texts (CLIP, SigLIP and others), described by a TOML file:
//!
//! ```toml
//! # clip.toml
//! [picture]
//! network = "vision_model.onnx"    # in the folder of this file
//! output = "image_embeds"          # default: the network's first output
//! [picture.preprocessing]
//! size = 224
//! resize = { short-side = 224 }
//! filter = "bicubic"
//! scale = 0.00392156862745098      # 1/255
//! mean = [0.48145466, 0.4578275, 0.40821073]
//! std = [0.26862954, 0.26130258, 0.27577711]
//!
//! [text]
//! network = "text_model.onnx"
//! output = "text_embeds"
//! tokenizer = "tokenizer.json"
//! max_tokens = 77
//! # pad_to = 64                    # SigLIP: every text has this many tokens,
//! # pad_token = 1                  # filled with this one
//! ```
//!
//! A picture and a text that describes it have similar features; rows have length 1. The name of a side is the
//! path with `#pictures` or `#texts`; [`side`] adds it for items of a kind.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use xxhash_rust::xxh3::Xxh3;

use super::onnx_image::OnnxImage;
use super::sentence::{Padding, Sentence, to_unit_length};
use super::{Backbone, InputKind, Weights, digest};
use crate::picture::Preprocessing;
use crate::{Error, Result};

/// File extension of such backbones.
const ENDING: &str = "toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    picture: PictureSide,
    text: TextSide,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PictureSide {
    network: PathBuf,
    output: Option<String>,
    preprocessing: Preprocessing,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextSide {
    network: PathBuf,
    output: Option<String>,
    tokenizer: PathBuf,
    #[serde(default = "tokens")]
    max_tokens: usize,
    pad_to: Option<usize>,
    #[serde(default)]
    pad_token: u32,
}

/// The context of CLIP.
fn tokens() -> usize {
    77
}

fn suffix(kind: InputKind) -> &'static str {
    match kind {
        InputKind::Pictures => "#pictures",
        InputKind::Texts => "#texts",
    }
}

/// The name of a backbone for items of a kind: that of the side, if it is a pair.
pub fn side(name: &str, kind: InputKind) -> String {
    if is_description(name) { format!("{name}{}", suffix(kind)) } else { name.to_owned() }
}

fn is_description(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|ending| ending == ENDING)
}

/// The path and the side that a name stands for, if it is that of a pair.
pub(super) fn parse(name: &str) -> Result<Option<(&Path, InputKind)>> {
    for kind in [InputKind::Pictures, InputKind::Texts] {
        if let Some(path) = name.strip_suffix(suffix(kind)) {
            return Ok(is_description(path).then_some((Path::new(path), kind)));
        }
    }
    if is_description(name) {
        return Err(Error::content(format!(
            "{name} describes two networks; choose {name}#pictures or {name}#texts"
        )));
    }
    Ok(None)
}

/// Opens one side; returns the backbone and its digest.
pub(super) fn open(
    path: &Path,
    kind: InputKind,
    weights: &Weights,
) -> Result<(Box<dyn Backbone>, String)> {
    let text = fs_err::read_to_string(path)?;
    let found: Description = toml::from_str(&text)
        .map_err(|err| Error::content(err.to_string().trim_end()).at(path))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut state = Xxh3::new();
    state.update(text.as_bytes());
    state.update(suffix(kind).as_bytes());
    match kind {
        InputKind::Pictures => {
            let PictureSide { network, output, preprocessing } = found.picture;
            let file = folder.join(network);
            let image = OnnxImage::open(&file, preprocessing, output.as_deref(), weights)?;
            let digest = digest(state, image.preprocessing(), &[file])?;
            Ok((Box::new(UnitLength(image)), digest))
        }
        InputKind::Texts => {
            let side = found.text;
            let (file, tokens) = (folder.join(side.network), folder.join(side.tokenizer));
            let padding =
                side.pad_to.map(|length| Padding { length, token: side.pad_token });
            let mut sentence =
                Sentence::open(&file, &tokens, side.output.as_deref(), padding, weights)?;
            let most = side.max_tokens.min(side.pad_to.unwrap_or(usize::MAX));
            sentence.max_tokens = most.max(1);
            let digest = digest(state, None, &[file, tokens])?;
            Ok((Box::new(sentence), digest))
        }
    }
}

/// Features of length 1.
struct UnitLength(OnnxImage);

impl Backbone for UnitLength {
    fn input_kind(&self) -> InputKind {
        self.0.input_kind()
    }

    fn width(&self) -> usize {
        self.0.width()
    }

    fn preprocessing(&self) -> Option<&Preprocessing> {
        self.0.preprocessing()
    }

    fn is_single_threaded(&self) -> bool {
        self.0.is_single_threaded()
    }

    fn inputs(&self, inputs: &[f32], count: usize) -> Result<Vec<f32>> {
        let mut rows = self.0.inputs(inputs, count)?;
        rows.chunks_exact_mut(self.width().max(1)).for_each(to_unit_length);
        Ok(rows)
    }
}
