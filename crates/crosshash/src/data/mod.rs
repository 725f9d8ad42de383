//! Data sets: any number of named modalities, each with its own items, paired by key (by default the id),
//! with or without labels, and split so that queries cannot reach training code.
//!
//! | file | what |
//! |---|---|
//! | `features.rs`, `dense.rs`, `sparse.rs`, `arrays.rs` | features of items |
//! | `modality.rs` | items with ids, features, labels, groups |
//! | `split.rs`, `split_spec.rs`, `sampling.rs`, `groups.rs` | training, validation, query and database items; how they are drawn; pairs and groups |
//! | `training.rs` | the part of a data set that training code can access |
//! | `normalise.rs`, `text/` | fitted on training items: means and deviations, vocabularies |
//! | `manifest.rs`, `open.rs`, `resolve.rs` | from `dataset.toml` to a [`Dataset`] |
//! | `label_words.rs` | labels from frequent words of training texts |
//! | `meta.rs` | the other columns of item tables, for filters |
//! | `read/` | one file per format |
//! | `bytes.rs`, `spool.rs`, `limits.rs` | mapped and decompressed bytes, and limits on their size |
//! | `picture_index.rs` | the pictures that the cells of a table name |
//! | `inspect/`, `import/`, `synth.rs` | inspection, proposed manifests, synthetic data |
//! | `emoji/` | the built-in data set: pictures, drawings and words of emoji |
//!
//! File formats are known in this module only.

mod arrays;
mod bytes;
mod dense;
pub mod emoji;
mod features;
mod groups;
pub mod import;
pub mod inspect;
mod label_words;
pub(crate) mod limits;
mod manifest;
mod meta;
mod modality;
mod normalise;
mod open;
mod picture_index;
pub(crate) mod read;
mod resolve;
mod sampling;
mod sparse;
mod split;
mod split_spec;
mod spool;
pub mod synth;
mod text;
mod training;

pub(crate) use arrays::no_labels;
pub(crate) use bytes::Bytes;
pub use crosshash_features::pictures::whole_file;
pub use crosshash_features::{PicturePlace, Pictures, Raster, descriptor};
pub use dense::{Dense, ValueType};
pub use features::{Features, Texts};
pub use limits::ReadLimits;
pub use manifest::{
    ArrayFile, FromText, Group, GroupId, Items, KeyedArray, LabelSource, MANIFEST,
    Manifest, Many, ModalitySource, Names, SplitSource,
};
pub use meta::{ItemMeta, read_meta};
pub use modality::{Modality, View};
pub use normalise::{Normaliser, Standardiser};
pub use open::{LoadedDataset, OpenOptions, open, open_with};
pub use read::{READERS, Reader};
pub use sparse::Sparse;
pub use split::{Part, Parts, Split};
pub use split_spec::{Selection, SplitSpec};
pub use text::{
    Analyser, Analysis, KeptWords, Language, NGrams, TextAugmentation, TokenizedTexts,
    Vocabulary, Weights,
};
pub use training::Training;

use crate::{Error, Result};

/// Reads the items of one file: an array in any format of [`READERS`], or, with `text`, one text per
/// line.
pub fn items(path: &std::path::Path, text: bool) -> Result<Features> {
    if !text {
        return read::array(path, None, false, &limits::Budget::default());
    }
    let content = fs_err::read_to_string(path)?;
    Ok(Features::Text(content.lines().collect()))
}

/// The pictures of a folder, a zip or a tar below `under`, with their ids, by name.
pub fn pictures(path: &std::path::Path, under: &str) -> Result<(Pictures, Vec<String>)> {
    let read::Listing { pictures, ids, .. } = read::pictures(path, under)?;
    Ok((pictures, ids))
}

/// Named modalities over one label vocabulary, which is empty if there are no labels.
#[derive(Debug, Clone)]
pub struct Dataset {
    name: String,
    label_names: Vec<String>,
    modalities: Vec<Modality>,
    dropped: Vec<Dropped>,
    /// The first labels, which the data give; the others are derived from texts.
    given_labels: usize,
    label_note: Option<String>,
}

/// Items that were read but are not used, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Dropped {
    /// The modality.
    pub modality: String,
    /// Why they are not used.
    pub reason: String,
    /// Number of items.
    pub items: usize,
}

impl Dataset {
    /// Checks that modality names are unique, that all modalities use the same label vocabulary, and
    /// that every two of them share a label. Without label names, the data set has no labels.
    pub fn new(
        name: impl Into<String>,
        label_names: Vec<String>,
        modalities: Vec<Modality>,
    ) -> Result<Dataset> {
        if modalities.is_empty() {
            return Err(Error::content("a data set needs at least one modality"));
        }
        for (k, modality) in modalities.iter().enumerate() {
            let name = modality.name();
            let odd = |c: char| c.is_control() || "/\\,\"".contains(c);
            if name.is_empty() || name.contains(odd) {
                return Err(Error::content(format!(
                    "modality name {name:?}: names are used in file names and tables; use a name \
                     without / \\ , and quotes"
                )));
            }
            if modality.labels().classes() != label_names.len() {
                return Err(Error::content(format!(
                    "modality {} has {} labels, but the data set has {} label names",
                    modality.name(),
                    modality.labels().classes(),
                    label_names.len()
                )));
            }
            for other in &modalities[..k] {
                if other.name() == modality.name() {
                    let name = modality.name();
                    return Err(Error::content(format!("two modalities are named {name}")));
                }
                share_a_label(&label_names, other, modality)?;
            }
        }
        let (dropped, label_note) = (Vec::new(), None);
        let (name, given_labels) = (name.into(), label_names.len());
        Ok(Dataset { name, label_names, modalities, dropped, given_labels, label_note })
    }

    /// Records items that were read but are not in the modalities.
    #[must_use]
    pub fn with_dropped(mut self, dropped: Vec<Dropped>) -> Dataset {
        self.dropped = dropped;
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of the labels; label `l` is the `l`-th.
    pub fn label_names(&self) -> &[String] {
        &self.label_names
    }

    /// Whether there are labels.
    pub fn has_labels(&self) -> bool {
        !self.label_names.is_empty()
    }

    /// How the labels were derived, if they are not given by the data.
    pub fn label_note(&self) -> Option<&str> {
        self.label_note.as_deref()
    }

    /// The same items with other label names, in this order; labels without such a name are dropped.
    pub fn with_label_names(&self, names: &[String]) -> Result<Dataset> {
        let place: std::collections::HashMap<&str, u32> =
            names.iter().map(String::as_str).zip(0..).collect();
        let new: Vec<Option<u32>> =
            self.label_names.iter().map(|name| place.get(name.as_str()).copied()).collect();
        let mut modalities = Vec::new();
        for modality in &self.modalities {
            let labels = modality.labels();
            let row = |item: usize| -> Vec<u32> {
                labels.indices(item).filter_map(|label| new[label]).collect()
            };
            let rows = (0..modality.len()).map(row);
            let labels = crosshash_codes::Labels::from_indices(names.len(), rows)?;
            modalities.push(modality.clone().with_labels(labels)?);
        }
        let (dropped, label_note) = (self.dropped.clone(), self.label_note.clone());
        let (name, label_names) = (self.name.clone(), names.to_vec());
        let given = &self.label_names[..self.given_labels];
        let given_labels = names.iter().take_while(|name| given.contains(name)).count();
        Ok(Dataset { name, label_names, modalities, dropped, given_labels, label_note })
    }

    /// The modalities, in their order.
    pub fn modalities(&self) -> &[Modality] {
        &self.modalities
    }

    /// A modality by name.
    pub fn modality(&self, name: &str) -> Result<&Modality> {
        Ok(&self.modalities[self.modality_idx(name)?])
    }

    /// The number of a modality by name.
    pub fn modality_idx(&self, name: &str) -> Result<usize> {
        let known = || self.modalities.iter().map(Modality::name);
        known()
            .position(|other| other == name)
            .ok_or_else(|| Error::unknown("modality", name, known()))
    }

    /// Items that were read but are not used.
    pub fn dropped(&self) -> &[Dropped] {
        &self.dropped
    }

    /// The training and validation items of a split, for training code.
    pub fn training<'a>(&'a self, split: &'a Split) -> Training<'a> {
        Training::new(self, split)
    }

    /// The queries of one modality, for evaluation only.
    pub fn queries<'a>(&'a self, split: &'a Split, modality: &str) -> Result<View<'a>> {
        self.part(split, modality, Part::Query)
    }

    /// The database of one modality, for evaluation only.
    pub fn database<'a>(&'a self, split: &'a Split, modality: &str) -> Result<View<'a>> {
        self.part(split, modality, Part::Database)
    }

    fn part<'a>(&'a self, split: &'a Split, name: &str, part: Part) -> Result<View<'a>> {
        let idx = self.modality_idx(name)?;
        Ok(self.modalities[idx].view(split.items(idx, part)))
    }
}

fn share_a_label(names: &[String], left: &Modality, right: &Modality) -> Result<()> {
    let (a, b) = (left.labels().histogram(), right.labels().histogram());
    let used = |counts: &[usize]| counts.iter().position(|&count| count > 0);
    let shared = a.iter().zip(&b).any(|(&x, &y)| x > 0 && y > 0);
    match (shared, used(&a), used(&b)) {
        (false, Some(l), Some(r)) => Err(Error::NoSharedLabel {
            left: left.name().into(),
            right: right.name().into(),
            left_example: names[l].clone(),
            right_example: names[r].clone(),
        }),
        _ => Ok(()),
    }
}
