//! From manifest to data set: reads and aligns all files, checks them, and counts dropped items.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use crosshash_features::backbone::FeatureSource;
use crosshash_features::extract::Extracted;

use super::limits::Budget;
use super::manifest::{
    ArrayFile, FromText, Group, Items, LabelSource, Manifest, ModalitySource, Names,
};
use super::read::{self, ColumnSpec, Table};
use super::resolve::{self, ReadLabels};
use super::{
    Dataset, Dense, Dropped, Features, Modality, ReadLimits, Split, SplitSpec, Texts, emoji,
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
    let from_text = manifest.labels.as_ref().is_some_and(|l| l.from_text.is_some());
    if from_text && manifest.split.as_ref().is_some_and(|split| split.stratify) {
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
    let is_path = Path::new(&backbone).extension().is_some_and(|e| e == "onnx");
    if is_path { root.join(&backbone).display().to_string() } else { backbone }
}

/// A modality before its labels are resolved.
pub(super) struct Source {
    pub(super) name: String,
    pub(super) ids: Vec<String>,
    pub(super) features: Features,
    pub(super) labels: ReadLabels,
    pairs: Option<Vec<String>>,
    groups: Option<Vec<String>>,
    marks: Option<Vec<String>>,
}

struct PartOf<'a> {
    manifest: &'a Manifest,
    root: &'a Path,
    name: &'a str,
    source: &'a ModalitySource,
    tables: &'a Tables,
    budget: &'a Budget,
}

impl PartOf<'_> {
    fn items(&self) -> Option<&Items> {
        // Pictures in class folders, and arrays with a file of ids, need no table.
        self.source.items.as_ref().or(self.manifest.items.as_ref())
    }

    /// The column of pair keys.
    fn pair(&self) -> Option<&str> {
        let items = || self.items().and_then(|items| items.pair.as_deref());
        self.source.pair.as_deref().or_else(items)
    }

    /// Where the labels are read from; `None` if the data set has none, or takes them from texts.
    fn label_source(&self) -> Result<Option<&LabelSource>> {
        let (own, common) = (self.source.labels.as_ref(), self.manifest.labels.as_ref());
        let from_text = |labels: &LabelSource| labels.from_text.is_some();
        if own.is_some_and(from_text) {
            return Err(Error::content(
                "labels: from_text belongs to the [labels] of all modalities",
            ));
        }
        match (own, common) {
            (Some(_), Some(common)) if from_text(common) => Err(Error::content(
                "labels: from_text gives labels to all modalities; remove those of this one",
            )),
            (None, Some(common)) if from_text(common) => {
                let alone = LabelSource {
                    from_text: common.from_text.clone(),
                    ..Default::default()
                };
                if *common != alone {
                    return Err(Error::content(
                        "labels: give exactly one of column, matrix, folder and from_text",
                    ));
                }
                Ok(None)
            }
            (Some(labels), _) | (None, Some(labels)) => Ok(Some(labels)),
            (None, None) => {
                let mut all = self.manifest.modality.iter();
                match all.find(|(_, source)| source.labels.is_some()) {
                    None => Ok(None),
                    Some((other, _)) => Err(Error::content(format!(
                        "no labels, but modality {other} has some; add [labels] with column, \
                         matrix or folder"
                    ))),
                }
            }
        }
    }

    fn gather(&self, dropped: &mut Vec<Dropped>) -> Result<Source> {
        let table =
            self.items().map(|items| self.tables.get(self.root, items)).transpose()?;
        let given = [
            self.source.features.is_some(),
            self.source.text.is_some(),
            self.source.captions.is_some(),
            self.source.column.is_some(),
            self.source.pictures.is_some(),
        ];
        if given.iter().filter(|&&given| given).count() != 1 {
            return Err(Error::content(
                "give exactly one of features, text, captions, column and pictures",
            ));
        }
        self.check_effects(table.is_some())?;
        let mut note = |reason: String, items: usize| {
            // A value that never occurs is recorded with 0 items; the inspector warns about it.
            if items > 0 || reason.starts_with("leave_out") {
                dropped.push(Dropped { modality: self.name.to_owned(), reason, items });
            }
        };
        if let Some(pictures) = &self.source.pictures {
            return self.pictures(pictures, table, &mut note);
        }
        if let Some(columns) = &self.source.captions {
            return self.captions(columns.as_slice(), table, &mut note);
        }
        let features = self.rows(table)?;
        let ids = match (&self.source.ids, table) {
            (Some(file), _) => self.listed_ids(file)?,
            (None, Some(table)) => self.ids(table)?,
            (None, None) => (0..features.len()).map(|row| row.to_string()).collect(),
        };
        self.check_lengths(&features, ids.len(), table)?;
        let kept = self.kept(table, ids.len(), &mut note)?;
        self.finish(features, ids, None, table.map(|table| (table, None)), kept)
    }

    /// One text item per cell that is not empty; its pair key is the id of the row.
    fn captions(
        &self,
        columns: &[String],
        table: Option<&Table>,
        note: &mut impl FnMut(String, usize),
    ) -> Result<Source> {
        let table =
            table.ok_or_else(|| no_table(columns.first().map_or("", |name| name)))?;
        let cells =
            columns.iter().map(|name| table.cells(name)).collect::<Result<Vec<_>>>()?;
        let row_ids = self.ids(table)?;
        let (mut texts, mut ids) = (Texts::default(), Vec::new());
        let (mut rows, mut keys) = (Vec::new(), Vec::new());
        let mut empty = 0;
        for row in self.kept(Some(table), table.len(), note)? {
            let before = rows.len();
            for (k, cells) in cells.iter().enumerate() {
                let text = cells[row].text();
                if text.trim().is_empty() {
                    continue;
                }
                texts.push(&text);
                ids.push(format!("{}#{}", row_ids[row], k + 1));
                keys.push(row_ids[row].clone());
                rows.push(row);
            }
            empty += usize::from(rows.len() == before);
        }
        note("rows of the table without a caption".into(), empty);
        let all = (0..ids.len()).collect();
        let table = Some((table, Some(&rows[..])));
        self.finish(Features::Text(texts), ids, Some(&keys), table, all)
    }

    /// Rejects fields that have no effect.
    fn check_effects(&self, table: bool) -> Result<()> {
        let source = self.source;
        let pictures = source.pictures.is_some();
        let text = source.text.is_some() || source.captions.is_some();
        let idle = [
            (source.under.is_some() && !pictures, "under", "pictures"),
            (source.path.is_some() && !pictures, "path", "pictures"),
            (source.path.is_some() && !table, "path", "a table"),
            (source.analysis.is_some() && !text, "analysis", "text"),
            (
                source.analysis.is_some() && source.backbone.is_some(),
                "analysis",
                "texts without a backbone",
            ),
            (
                source.backbone.is_some() && !pictures && !text,
                "backbone",
                "pictures and text",
            ),
            (source.ids.is_some() && pictures, "ids", "features without a table"),
            (source.ids.is_some() && table, "ids", "features without a table"),
        ];
        if let Some((_, field, of)) = idle.iter().find(|(idle, ..)| *idle) {
            return Err(Error::content(format!(
                "{field} has no effect here: it applies to {of}; remove it"
            )));
        }
        match source.analysis.as_ref().map(|analysis| analysis.max_share) {
            Some(share) if !(0.0..=1.0).contains(&share) => Err(Error::content(format!(
                "analysis: max_share must be between 0 and 1, not {share}"
            ))),
            _ => Ok(()),
        }
    }

    /// The ids of a file with one id per line.
    fn listed_ids(&self, file: &Path) -> Result<Vec<String>> {
        let path = self.root.join(file);
        let ids = lines(&path)?;
        match ids.iter().zip(1..).find(|(id, _)| id.is_empty()) {
            Some((_, line)) => {
                let what = "the id is empty; every item needs an id";
                Err(Error::row(crate::Place::Line(line), what).at(&path))
            }
            None => Ok(ids),
        }
    }

    /// `row_ids` are the ids of the rows of the items, if they differ from the ids of the items.
    fn finish(
        &self,
        features: Features,
        ids: Vec<String>,
        row_ids: Option<&[String]>,
        table: Option<(&Table, Option<&[usize]>)>,
        kept: Vec<usize>,
    ) -> Result<Source> {
        let whole = kept.len() == ids.len();
        let total = table.map_or(ids.len(), |(table, _)| table.len());
        let row =
            |item: usize| table.and_then(|(_, rows)| rows).map_or(item, |rows| rows[item]);
        let rows: Vec<usize> = kept.iter().map(|&item| row(item)).collect();
        let ids: Vec<String> =
            if whole { ids } else { kept.iter().map(|&item| ids[item].clone()).collect() };
        let features = if whole { features } else { features.select(&kept) };
        let table = table.map(|(table, _)| table);
        let path = self.items().map(|items| self.root.join(&items.table));
        let row_ids_or_ids = row_ids.unwrap_or(&ids);
        let labels = match self.label_source()? {
            None => ReadLabels::none(rows.len()),
            Some(source) => ReadLabels::read(
                source,
                self.root,
                table.zip(path),
                total,
                &rows,
                row_ids_or_ids,
                self.budget,
            )?,
        };
        let column = |name: &str| -> Result<Vec<String>> {
            let table = table.ok_or_else(|| no_table(name))?;
            let cells = table.cells(name)?;
            Ok(rows.iter().map(|&row| cells[row].text()).collect())
        };
        let split = self.manifest.split.as_ref();
        let group =
            self.source.group.as_ref().or(split.and_then(|split| split.group.as_ref()));
        let groups = match group {
            None => None,
            Some(Group::Column(name)) => Some(column(name)?),
            Some(Group::Id(id)) => Some(
                row_ids_or_ids
                    .iter()
                    .map(|name| {
                        name.rsplit_once(&id.id_until).map_or(name.as_str(), |s| s.0)
                    })
                    .map(str::to_owned)
                    .collect(),
            ),
        };
        let marks =
            split.and_then(|split| split.column.as_deref()).map(column).transpose()?;
        let pairs = match self.pair() {
            Some(name) => Some(column(name)?),
            None => row_ids.map(<[String]>::to_vec),
        };
        let name = self.name.to_owned();
        Ok(Source { name, ids, features, labels, pairs, groups, marks })
    }

    /// Features that have one row per row of the table.
    fn rows(&self, table: Option<&Table>) -> Result<Features> {
        if let Some(files) = &self.source.features {
            return arrays(self.root, files.as_slice(), false, self.budget);
        }
        if let Some(column) = &self.source.column {
            let table = table.ok_or_else(|| no_table(column))?;
            return Ok(table.numbers(column)?.clone());
        }
        let names = self.source.text.as_ref().map_or(&[][..], |text| text.as_slice());
        let table = table.ok_or_else(|| no_table(names.first().map_or("", |name| name)))?;
        let columns =
            names.iter().map(|name| table.cells(name)).collect::<Result<Vec<_>>>()?;
        let mut texts = Texts::default();
        for row in 0..table.len() {
            let parts: Vec<String> =
                columns.iter().map(|cells| cells[row].text()).collect();
            let parts: Vec<&str> =
                parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
            texts.push(&parts.join("\n"));
        }
        Ok(Features::Text(texts))
    }

    fn ids(&self, table: &Table) -> Result<Vec<String>> {
        let Some(items) = self.items() else { return Ok(Vec::new()) };
        let path = self.root.join(&items.table);
        let Some(id) = &items.id else {
            return Ok((0..table.len()).map(|row| row.to_string()).collect());
        };
        let ids: Vec<String> = table.cells(id)?.iter().map(|cell| cell.text()).collect();
        let mut seen = HashMap::with_capacity(ids.len());
        for (row, name) in ids.iter().enumerate() {
            if name.is_empty() {
                let what = "the id is empty; every item needs an id";
                return Err(Error::cell(table.place(row), id, what).at(&path));
            }
            if let Some(first) = seen.insert(name, row) {
                let place = table.place(first);
                let what = format!("{name:?} occurs twice, first on {place}");
                return Err(Error::cell(table.place(row), id, what).at(&path));
            }
        }
        Ok(ids)
    }

    fn check_lengths(
        &self,
        features: &Features,
        ids: usize,
        table: Option<&Table>,
    ) -> Result<()> {
        let rows = features.len();
        let expected = table.map_or(ids, Table::len);
        if rows != expected || ids != expected {
            let what = if table.is_some() { "the item table" } else { "the file of ids" };
            return Err(Error::content(format!(
                "{} rows of features, but {what} has {}",
                rows,
                if ids == expected { expected } else { ids }
            )));
        }
        Ok(())
    }

    /// The rows that are not excluded by `leave_out`.
    fn kept(
        &self,
        table: Option<&Table>,
        n_rows: usize,
        note: &mut impl FnMut(String, usize),
    ) -> Result<Vec<usize>> {
        let mut keep = vec![true; n_rows];
        if let (Some(items), Some(table)) = (self.items(), table) {
            for (column, values) in &items.leave_out {
                let values: BTreeSet<&str> =
                    values.as_slice().iter().map(String::as_str).collect();
                let mut counts: BTreeMap<&str, usize> =
                    values.iter().map(|&value| (value, 0)).collect();
                for (row, cell) in table.cells(column)?.iter().enumerate() {
                    let text = cell.text();
                    if let (true, Some(&value)) = (keep[row], values.get(text.as_str())) {
                        keep[row] = false;
                        *counts.entry(value).or_default() += 1;
                    }
                }
                for (value, count) in counts {
                    note(format!("leave_out: {column} is {value:?}"), count);
                }
            }
        }
        Ok((0..n_rows).filter(|&row| keep[row]).collect())
    }

    fn pictures(
        &self,
        place: &Path,
        table: Option<&Table>,
        note: &mut impl FnMut(String, usize),
    ) -> Result<Source> {
        let under = self.source.under.as_deref().unwrap_or("");
        let listing = read::pictures(&self.root.join(place), under)?;
        note("files that are not pictures".into(), listing.others);
        let Some(table) = table else {
            let kept = (0..listing.ids.len()).collect();
            let features = Features::Pictures(listing.pictures);
            return self.finish(features, listing.ids, None, None, kept);
        };
        // The picture of a row is found by path, or by id.
        let ids = self.ids(table)?;
        let names: Vec<String> = match &self.source.path {
            Some(column) => table.cells(column)?.iter().map(|cell| cell.text()).collect(),
            None => ids.clone(),
        };
        let mut where_is: HashMap<&str, usize> = HashMap::new();
        for (at, id) in listing.ids.iter().enumerate() {
            where_is.insert(id, at);
            where_is.insert(listing.pictures.name(at), at);
        }
        let kept = self.kept(Some(table), ids.len(), note)?;
        let (mut rows, mut found, mut missing) = (Vec::new(), Vec::new(), 0);
        for row in kept {
            match where_is.get(names[row].as_str()) {
                Some(&at) => {
                    rows.push(row);
                    found.push(at);
                }
                None => missing += 1,
            }
        }
        if found.is_empty() {
            return Err(Error::content(format!(
                "no row has a picture: the table contains e.g. {:?}, the pictures are named e.g. \
                 {:?}",
                names.first().map_or("", |name| name),
                listing.ids.first().map_or("", |id| id)
            )));
        }
        note("rows of the table without a picture".into(), missing);
        let used: BTreeSet<usize> = found.iter().copied().collect();
        note("pictures without a row in the table".into(), listing.ids.len() - used.len());
        let features = Features::Pictures(listing.pictures.select(&found));
        let ids: Vec<String> = rows.iter().map(|&row| ids[row].clone()).collect();
        let all = (0..ids.len()).collect();
        self.finish(features, ids, None, Some((table, Some(&rows))), all)
    }
}

/// Concatenated arrays; with `vectors`, a one-dimensional array has one row per value.
pub(super) fn arrays(
    root: &Path,
    files: &[ArrayFile],
    vectors: bool,
    budget: &Budget,
) -> Result<Features> {
    let mut all: Option<Features> = None;
    for file in files {
        let (file, key, transpose) = match file {
            ArrayFile::File(file) => (file, None, false),
            ArrayFile::Keyed(keyed) => (&keyed.file, keyed.key.as_deref(), keyed.transpose),
        };
        let path = root.join(file);
        let mut next = read::array(&path, key, vectors, budget)?;
        if transpose {
            next = next.transpose().map_err(|err| err.at(&path))?;
        }
        all = Some(match all {
            None => next,
            Some(all) => all.append(next).map_err(|err| err.at(&path))?,
        });
    }
    all.ok_or_else(|| Error::content("an empty list of files"))
}

/// The lines of a file of names.
pub(super) fn lines(path: &Path) -> Result<Vec<String>> {
    let text = fs_err::read_to_string(path)?;
    Ok(text.lines().map(|line| line.trim_end().to_owned()).collect())
}

fn no_table(column: &str) -> Error {
    Error::content(format!(
        "column {column:?} needs a table; add [items] with table = \"...\""
    ))
}

/// All tables, each read once with the columns that are needed.
struct Tables(HashMap<PathBuf, Table>);

impl Tables {
    fn read(manifest: &Manifest, root: &Path, budget: &Budget) -> Result<Tables> {
        let mut requested: BTreeMap<PathBuf, BTreeSet<ColumnSpec>> = BTreeMap::new();
        for source in manifest.modality.values() {
            let Some(items) = source.items.as_ref().or(manifest.items.as_ref()) else {
                continue;
            };
            let columns = requested.entry(root.join(&items.table)).or_default();
            let mut cells = |name: &str| {
                columns.insert(ColumnSpec::Cells(name.to_owned()));
            };
            items.id.iter().for_each(|id| cells(id));
            items.leave_out.keys().for_each(|column| cells(column));
            let texts = source.text.iter().chain(&source.captions);
            texts.flat_map(|t| t.as_slice()).for_each(|column| cells(column));
            source.pair.iter().chain(&items.pair).for_each(|column| cells(column));
            source.path.iter().for_each(|column| cells(column));
            let labels = source.labels.as_ref().or(manifest.labels.as_ref());
            let columns_of = labels.and_then(|labels| labels.column.as_ref());
            columns_of.iter().flat_map(|c| c.as_slice()).for_each(|column| cells(column));
            let split = manifest.split.as_ref();
            let group =
                source.group.as_ref().or(split.and_then(|split| split.group.as_ref()));
            if let Some(Group::Column(column)) = group {
                cells(column);
            }
            split.iter().filter_map(|s| s.column.as_ref()).for_each(|column| cells(column));
            if let Some(column) = &source.column {
                columns.insert(ColumnSpec::Numbers(column.clone()));
            }
        }
        let mut tables = HashMap::new();
        for (path, columns) in requested {
            let columns: Vec<ColumnSpec> = columns.into_iter().collect();
            let table = read::table(&path, &columns, budget)?;
            tables.insert(path, table);
        }
        Ok(Tables(tables))
    }

    fn get(&self, root: &Path, items: &Items) -> Result<&Table> {
        let path = root.join(&items.table);
        self.0.get(&path).ok_or_else(|| Error::content("the table was not read").at(&path))
    }
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
