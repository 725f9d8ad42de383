//! From manifest to data set: reads and aligns all files, checks them, and counts dropped items.

mod check;
mod content;
mod part;
mod tables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crosshash_features::backbone::FeatureSource;
use crosshash_features::extract::Extracted;

pub(super) use self::content::arrays;
use self::part::PartOf;
pub(super) use self::part::Source;
use self::tables::Tables;
use super::limits::Budget;
use super::manifest::{FromText, LabelSource, Manifest, Names};
use super::resolve;
use super::{
    Dataset, Dense, Dropped, Features, Modality, ReadLimits, Split, SplitSpec, emoji,
};
use crate::{Error, Result};

/// A data set with its manifest.
#[derive(Debug, Clone)]
pub struct LoadedDataset {
    /// The data set.
    pub dataset: Dataset,
    /// The specification of the split, if the manifest has one.
    pub split_spec: Option<SplitSpec>,
    /// The backbones of the manifest, by modality.
    pub backbones: BTreeMap<String, String>,
    /// The manifest.
    pub manifest: Manifest,
}

impl LoadedDataset {
    /// Draws the split that the manifest describes.
    pub fn split(&self) -> Result<Split> {
        let spec = self.split_spec.as_ref().ok_or_else(|| {
            Error::content(
                "the manifest has no [split]; add one that defines queries and database",
            )
        })?;
        spec.draw(&self.dataset)
    }

    /// The split of the manifest. If it has no validation items, a share of the training items is held
    /// out; a fixed number of training items is reduced if necessary. Labels from texts are chosen by the
    /// training items of this split.
    pub fn split_with_validation(&mut self, share: f64) -> Result<Split> {
        let split = match &self.split_spec {
            Some(spec) => spec.draw_with_validation(&self.dataset, share)?,
            None => self.split()?,
        };
        self.label_from_text(&split)?;
        Ok(split)
    }

    /// Whether the manifest takes labels from frequent words of texts.
    pub fn takes_labels_from_text(&self) -> bool {
        self.label_words().is_some()
    }

    fn label_words(&self) -> Option<&FromText> {
        self.manifest.labels.as_ref().and_then(|labels| labels.from_text.as_ref())
    }

    /// Labels the items by frequent words of the training texts, if the manifest asks for it.
    pub fn label_from_text(&mut self, split: &Split) -> Result<()> {
        if let Some(source) = self.label_words() {
            self.dataset = self.dataset.with_labels_from_text(split, source)?;
        }
        Ok(())
    }

    /// Replaces the features of a modality by those of a backbone; items without features are dropped.
    pub fn with_rows(
        mut self,
        modality: &str,
        given: Extracted,
        feature_source: FeatureSource,
    ) -> Result<LoadedDataset> {
        let at = self.dataset.modality_idx(modality)?;
        let mut all = self.dataset.modalities().to_vec();
        let mut dropped = self.dataset.dropped().to_vec();
        if given.kept.len() < all[at].len() {
            dropped.push(Dropped {
                modality: modality.to_owned(),
                reason: "pictures that cannot be read".into(),
                items: all[at].len() - given.kept.len(),
            });
            all[at] = all[at].select(&given.kept);
        }
        let rows = Dense::from_floats(given.rows.width(), given.rows.into_values())?;
        all[at] = all[at].clone().with_features(Features::Dense(rows), feature_source)?;
        let names = self.dataset.label_names().to_vec();
        self.dataset = Dataset::new(self.dataset.name(), names, all)?.with_dropped(dropped);
        Ok(self)
    }
}

/// Opens the data set of a manifest or its folder. Paths are relative to `root`, by default to the
/// folder of the manifest. `emoji` is the built-in data set, unless a file of that name exists.
pub fn open(path: &Path, root: Option<&Path>) -> Result<LoadedDataset> {
    open_with(
        path,
        &OpenOptions { root: root.map(Path::to_owned), ..OpenOptions::default() },
    )
}

/// How to open a data set.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// The folder of its files (default: that of the manifest).
    pub root: Option<PathBuf>,
    /// Limits on the size to which files may expand while they are read.
    pub limits: ReadLimits,
}

/// Like [`open`], with all options.
pub fn open_with(path: &Path, options: &OpenOptions) -> Result<LoadedDataset> {
    if path == Path::new(emoji::NAME) && !path.exists() {
        return emoji::open();
    }
    let (manifest, path) = Manifest::read(path)?;
    let beside = path.parent().unwrap_or(Path::new("."));
    let root = options.root.as_deref().unwrap_or(beside);
    let budget = Budget::new(options.limits);
    assemble(manifest, root, &path, &budget).map_err(|err| err.at(&path))
}

fn assemble(
    manifest: Manifest,
    root: &Path,
    path: &Path,
    budget: &Budget,
) -> Result<LoadedDataset> {
    if manifest.modality.is_empty() {
        return Err(Error::content(
            "no modality; add e.g. [modality.image] with features = \"image.npy\"",
        ));
    }
    let only_words = |l: &LabelSource| {
        l.from_text.is_some() && l.column.is_none() && l.matrix.is_none() && !l.folder
    };
    if manifest.labels.as_ref().is_some_and(only_words)
        && manifest.split.as_ref().is_some_and(|split| split.stratify)
    {
        return Err(Error::content(
            "split: stratify needs labels, but labels from_text are chosen after the split is drawn; \
             remove one of them",
        ));
    }
    let tables = Tables::read(&manifest, root, budget)?;
    let mut sources = Vec::new();
    let mut dropped = Vec::new();
    for (name, source) in &manifest.modality {
        let context = |err: Error| match err {
            Error::File { .. } | Error::Io(_) => err,
            err => Error::content(format!("modality {name}: {err}")),
        };
        let part =
            PartOf { manifest: &manifest, root, name, source, tables: &tables, budget };
        sources.push(part.gather(&mut dropped).map_err(context)?);
    }
    let (label_names, labels) = resolve::labels(&manifest, root, &sources)?;
    let mut modalities = Vec::new();
    for (source, labels) in sources.into_iter().zip(labels) {
        let name = source.name.clone();
        let mut modality = Modality::new(source.name, source.ids, source.features, labels)?;
        if let Some(keys) = source.pairs {
            modality = modality.with_pairs(keys)?;
        }
        if let Some(groups) = source.groups {
            modality = modality.with_groups(groups)?;
        }
        if let Some(marks) = source.marks {
            modality = modality.with_marks(marks)?;
        }
        if let Some(analysis) = manifest.modality[&name].analysis.clone() {
            modality = modality.with_analysis(analysis);
        }
        modalities.push(modality);
    }
    let folder = root.file_name().or_else(|| path.file_stem());
    let name = manifest.name.clone();
    let name = name.or_else(|| Some(folder?.to_string_lossy().into_owned()));
    let dataset = Dataset::new(name.unwrap_or_default(), label_names, modalities)?;
    Ok(LoadedDataset {
        dataset: dataset.with_dropped(dropped),
        split_spec: manifest.split.as_ref().map(super::manifest::SplitSource::spec),
        backbones: manifest
            .modality
            .iter()
            .filter_map(|(name, source)| Some((name.clone(), source.backbone.clone()?)))
            .map(|(name, backbone)| (name, beside(root, backbone)))
            .collect(),
        manifest,
    })
}

/// Resolves a backbone that is given as a path, relative to `root`.
fn beside(root: &Path, backbone: String) -> String {
    let ending = Path::new(&backbone).extension();
    let is_path = ending.is_some_and(|ending| ending == "onnx" || ending == "toml");
    if is_path { root.join(&backbone).display().to_string() } else { backbone }
}

/// The lines of a file of names.
pub(super) fn lines(path: &Path) -> Result<Vec<String>> {
    let text = fs_err::read_to_string(path)?;
    Ok(text.lines().map(|line| line.trim_end().to_owned()).collect())
}

/// The label names of a manifest, if given.
pub(super) fn given_names(
    source: &LabelSource,
    root: &Path,
) -> Result<Option<Vec<String>>> {
    Ok(match &source.names {
        None => None,
        Some(Names::List(names)) => Some(names.clone()),
        Some(Names::File(file)) => {
            let mut names = lines(&root.join(file))?;
            while names.last().is_some_and(String::is_empty) {
                names.pop();
            }
            Some(names)
        }
    })
}
