//! The manifest `dataset.toml`: describes the files of a data set.
//!
//! Parsing checks only the form: unknown fields and wrong types are errors with file and line.
//! `open.rs` builds a [`Dataset`](super::Dataset) from it. Reference: `docs/data.md`.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::{Analysis, Selection, SplitSpec};
use crate::{Error, Result};

/// The name of a manifest in its folder.
pub const MANIFEST: &str = "dataset.toml";

/// A parsed manifest.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Name of the data set (default: the name of the folder).
    pub name: Option<String>,
    /// Licence.
    pub licence: Option<String>,
    /// Source, e.g. an address.
    pub source: Option<String>,
    /// A warning that the inspector prints first.
    pub warning: Option<String>,
    /// The item table of all modalities that have none of their own.
    pub items: Option<Items>,
    /// The labels of all modalities that have none of their own (default: no labels).
    pub labels: Option<LabelSource>,
    /// The split (default: none).
    pub split: Option<SplitSource>,
    /// The modalities by name.
    #[serde(default)]
    pub modality: BTreeMap<String, ModalitySource>,
}

/// A table of items.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Items {
    /// The file: CSV, TSV, JSONL or Parquet; or several files with the same columns.
    pub table: Many<PathBuf>,
    /// The column of ids (default: row numbers).
    pub id: Option<String>,
    /// The column of pair keys (default: the ids are the keys).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<String>,
    /// Rows to exclude: column = values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub leave_out: BTreeMap<String, Many<String>>,
    /// Columns that filters can use when the data set is served: a list, or "all" (default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Many<String>>,
}

/// The source of labels: columns, a matrix, the folders of pictures, or frequent words.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelSource {
    /// One or more columns of the item table.
    pub column: Option<Many<String>>,
    /// Separator of several labels in a cell (default: one label per cell).
    pub separator: Option<String>,
    /// Arrays with one row per item: 0 or 1 per label, or a label number.
    pub matrix: Option<Many<ArrayFile>>,
    /// The folder of a picture is its label.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub folder: bool,
    /// Cells contain indices into `names`, from 0, instead of names.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub numbers: bool,
    /// All label names, as a list or a file with one name per line (default: those that occur, sorted).
    pub names: Option<Names>,
    /// Frequent words of the training texts are labels, alone or in addition to those above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_text: Option<FromText>,
}

/// Labels from frequent words of the training texts of a modality.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FromText {
    /// The modality of texts.
    pub modality: String,
    /// Minimum number of training pair keys whose texts contain the word.
    #[serde(default = "FromText::default_min_items")]
    pub min_items: usize,
    /// Maximum share of the training pair keys whose texts contain the word.
    #[serde(default = "FromText::default_max_share")]
    pub max_share: f64,
    /// Maximum number of labels, the most frequent words first.
    #[serde(default = "FromText::default_max_labels")]
    pub max_labels: usize,
}

impl FromText {
    /// With the default bounds: words of at least 20 items and at most a fifth of them, at most 200 labels.
    pub fn new(modality: impl Into<String>) -> FromText {
        FromText {
            modality: modality.into(),
            min_items: FromText::default_min_items(),
            max_share: FromText::default_max_share(),
            max_labels: FromText::default_max_labels(),
        }
    }

    fn default_min_items() -> usize {
        20
    }

    fn default_max_share() -> f64 {
        0.2
    }

    fn default_max_labels() -> usize {
        200
    }
}

/// Names of labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a list of names, or a file with one name per line")]
pub enum Names {
    /// A file with one name per line.
    File(PathBuf),
    /// The names.
    List(Vec<String>),
}

impl Items {
    /// The files of the table below a folder.
    pub fn paths(&self, root: &Path) -> Vec<PathBuf> {
        self.table.as_slice().iter().map(|file| root.join(file)).collect()
    }
}

/// One modality; exactly one of `features`, `text`, `captions`, `column`, `pictures` and `class_names` is
/// given.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModalitySource {
    /// Arrays with one row per item, concatenated.
    pub features: Option<Many<ArrayFile>>,
    /// Columns of the item table whose texts are joined.
    pub text: Option<Many<String>>,
    /// Columns of the item table whose texts are items of their own: text k of row ID is item `ID#k`, and
    /// its pair key is ID. A cell with a list has several texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captions: Option<Many<String>>,
    /// A column of the item table with a list of numbers per item.
    pub column: Option<String>,
    /// A folder, zip or tar of pictures.
    pub pictures: Option<PathBuf>,
    /// A folder, zip or tar of pictures in class folders: the text of a picture is the name of its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_names: Option<PathBuf>,
    /// Use only the pictures below this subfolder.
    pub under: Option<String>,
    /// The column with the path of each picture (default: the id is the path).
    pub path: Option<String>,
    /// The item table of this modality.
    pub items: Option<Items>,
    /// The labels of this modality.
    pub labels: Option<LabelSource>,
    /// A file with one id per line, if there is no table.
    pub ids: Option<PathBuf>,
    /// The column of pair keys of this modality (default: `items.pair`, else the id).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<String>,
    /// The groups of this modality (default: `split.group`).
    pub group: Option<Group>,
    /// How texts are tokenized and weighted.
    pub analysis: Option<Analysis>,
    /// The backbone that extracts features of pictures or texts.
    pub backbone: Option<String>,
}

/// Groups: items that are kept together in a split.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Group {
    /// A column of the item table.
    Column(String),
    /// A part of the id.
    Id(GroupId),
}

/// Groups by a part of the id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupId {
    /// The id up to the last occurrence of this text; the whole id if it does not occur.
    pub id_until: String,
}

/// How to split.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitSource {
    /// The column whose values name the parts.
    pub column: Option<String>,
    /// Random seed (default 0).
    #[serde(default)]
    pub seed: u64,
    /// Stratify by labels.
    #[serde(default)]
    pub stratify: bool,
    /// Groups that are kept together.
    pub group: Option<Group>,
    /// Query items.
    pub query: Option<Selection>,
    /// Validation items.
    pub validation: Option<Selection>,
    /// Training items.
    pub train: Option<Selection>,
    /// Database items.
    pub database: Option<Selection>,
}

impl SplitSource {
    /// The specification it describes.
    pub fn spec(&self) -> SplitSpec {
        SplitSpec {
            seed: self.seed,
            stratify: self.stratify,
            query: self.query.clone(),
            validation: self.validation.clone(),
            train: self.train.clone(),
            database: self.database.clone(),
        }
    }
}

/// One or several.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Many<T> {
    /// One.
    One(T),
    /// Several.
    Several(Vec<T>),
}

impl<T> Default for Many<T> {
    /// None.
    fn default() -> Many<T> {
        Many::Several(Vec::new())
    }
}

impl<T> Many<T> {
    /// As a slice.
    pub fn as_slice(&self) -> &[T] {
        match self {
            Many::One(one) => std::slice::from_ref(one),
            Many::Several(several) => several,
        }
    }
}

/// An array in a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ArrayFile {
    /// The only array of a file.
    File(PathBuf),
    /// One of several.
    Keyed(KeyedArray),
}

/// One of several arrays in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyedArray {
    /// The file.
    pub file: PathBuf,
    /// The name of the array in the file.
    pub key: Option<String>,
    /// Whether the items are the columns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub transpose: bool,
}

impl Manifest {
    /// Reads a manifest, or the `dataset.toml` of a folder; returns its path too.
    pub fn read(path: &Path) -> Result<(Manifest, PathBuf)> {
        let path = if path.is_dir() { path.join(MANIFEST) } else { path.to_owned() };
        if path.parent().is_some_and(Path::is_dir) && !path.exists() {
            return Err(Error::content(
                "there is no manifest; write one, or create it with `crosshash data import`",
            )
            .at(&path));
        }
        let text = fs_err::read_to_string(&path)?;
        let manifest = Manifest::parse(&text).map_err(|err| err.at(&path))?;
        Ok((manifest, path))
    }

    /// Parses the text of a manifest.
    pub fn parse(text: &str) -> Result<Manifest> {
        toml::from_str(text).map_err(|err| Error::content(err.to_string().trim_end()))
    }

    /// The text of a manifest.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self)
            .map_err(|err| Error::content(format!("cannot be written as TOML: {err}")))
    }
}

// Untagged enums of serde accept a list as the fields of a table, so that `group = ["x"]` would be
// `{ id_until = "x" }`. These implementations distinguish texts, tables and lists.

impl<'de> Deserialize<'de> for Group {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Group, D::Error> {
        from.deserialize_any(TextOrTable {
            expecting: "a column, or { id_until = \"-\" }",
            text: |text| Group::Column(text.to_owned()),
            table: Group::Id,
        })
    }
}

impl<'de> Deserialize<'de> for ArrayFile {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<ArrayFile, D::Error> {
        from.deserialize_any(TextOrTable {
            expecting: "a file, or { file = \"...\", key = \"...\", transpose = true }",
            text: |text| ArrayFile::File(text.into()),
            table: ArrayFile::Keyed,
        })
    }
}

struct TextOrTable<T, M> {
    expecting: &'static str,
    text: fn(&str) -> T,
    table: fn(M) -> T,
}

impl<'de, T, M: Deserialize<'de>> Visitor<'de> for TextOrTable<T, M> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        Ok((self.text)(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        M::deserialize(MapAccessDeserializer::new(map)).map(self.table)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Many<T>, D::Error> {
        from.deserialize_any(OneOrSeveral(PhantomData))
    }
}

struct OneOrSeveral<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrSeveral<T> {
    type Value = Many<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one, or a list of them")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Many<T>, E> {
        T::deserialize(StrDeserializer::new(text)).map(Many::One)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Many<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Many::One)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Many<T>, A::Error> {
        let mut several = Vec::new();
        while let Some(one) = list.next_element()? {
            several.push(one);
        }
        Ok(Many::Several(several))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_not_fields_of_a_table() {
        let manifest = Manifest::parse(
            "modality.m = { features = [\"a.npy\", \"b.npy\"], group = { id_until = \"-\" } }\n\
             labels.matrix = [{ file = \"l.mat\", key = \"L\" }, \"m.npy\"]\n\
             split.group = \"g\"",
        )
        .unwrap();
        let file = |name: &str| ArrayFile::File(name.into());
        let modality = &manifest.modality["m"];
        let several = Many::Several(vec![file("a.npy"), file("b.npy")]);
        assert_eq!(modality.features, Some(several));
        assert!(matches!(modality.group, Some(Group::Id(_))));
        assert_eq!(
            manifest.labels.as_ref().unwrap().matrix.as_ref().unwrap().as_slice().len(),
            2
        );
        assert_eq!(manifest.split.as_ref().unwrap().group, Some(Group::Column("g".into())));
        let again = Manifest::parse(&manifest.to_toml().unwrap()).unwrap();
        assert_eq!(again, manifest);

        let err = Manifest::parse("[split]\ngroup = [\"grp\"]").unwrap_err().to_string();
        assert!(
            err.contains("line 2") && err.contains("expected a column, or { id_until"),
            "{err}"
        );
        let err = Manifest::parse("modality.m.features = [[\"a.npy\"]]").unwrap_err();
        assert!(err.to_string().contains("expected a file, or { file"), "{err}");
    }
}
