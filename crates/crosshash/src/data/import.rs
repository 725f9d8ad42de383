//! Proposes manifests for common layouts of data sets.
//!
//! Notes list what was guessed, so that users can check and correct the manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::limits::Budget;
use super::manifest::{
    ArrayFile, Items, KeyedArray, LabelSource, Manifest, Many, ModalitySource, SplitSource,
};
use super::read::{self, Cell, ColumnSpec};
use super::{Features, Selection};
use crate::{Error, Result};

/// A layout of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Pictures in class folders, or in modality/class folders.
    Folders,
    /// A table, with or without pictures.
    Table,
    /// Features and labels as NumPy arrays.
    Arrays,
    /// A MATLAB file with features and labels.
    Mat,
}

/// A manifest, and notes on what was guessed.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The manifest.
    pub manifest: Manifest,
    /// What was guessed, as sentences.
    pub notes: Vec<String>,
}

const IDS: [&str; 7] = ["id", "image_id", "item_id", "key", "hexcode", "uid", "index"];
const PATHS: [&str; 8] =
    ["path", "file_name", "filename", "file", "image_path", "image", "img", "filepath"];
const TEXTS: [&str; 9] = [
    "text",
    "caption",
    "captions",
    "description",
    "title",
    "annotation",
    "sentence",
    "tags",
    "body",
];
const LABELS: [&str; 9] = [
    "labels",
    "label",
    "classes",
    "class",
    "categories",
    "category",
    "group",
    "genre",
    "tags",
];
const SPLITS: [&str; 3] = ["split", "part", "subset"];
const EMBEDDINGS: [&str; 4] = ["embedding", "embeddings", "features", "vector"];

/// Proposes a manifest, to be written into `out`, for a folder or file.
pub fn import(source: &Path, out: &Path, kind: Option<Kind>) -> Result<Proposal> {
    let found = Found::look(source)?;
    let kind = match kind.or_else(|| found.kind()) {
        Some(kind) => kind,
        None => {
            return Err(Error::content(
                "unknown layout: no class folders of pictures, no table, no .npy features and no \
                 .mat file",
            )
            .at(source));
        }
    };
    let place = Place { out: absolute(out)? };
    let mut notes = Vec::new();
    let mut manifest = match kind {
        Kind::Folders => folders(&found, &place, &mut notes),
        Kind::Table => table(&found, &place, &mut notes),
        Kind::Arrays => arrays(&found, &place, &mut notes),
        Kind::Mat => mat(&found, &place, &mut notes),
    }
    .map_err(|err| err.at(source))?;
    manifest.name = source.file_stem().map(|name| name.to_string_lossy().into_owned());
    if manifest.split.is_none() {
        notes.push("split: 10 % of the items are held out as queries (seed 0)".to_owned());
        let query = Some(Selection::Share(0.1));
        manifest.split = Some(SplitSource { query, ..SplitSource::default() });
    }
    Ok(Proposal { manifest, notes })
}

/// The files of the source.
struct Found {
    source: PathBuf,
    tables: Vec<PathBuf>,
    arrays: Vec<PathBuf>,
    mats: Vec<PathBuf>,
    zips: Vec<PathBuf>,
    has_pictures: bool,
}

impl Found {
    fn look(source: &Path) -> Result<Found> {
        let source = absolute(source)?;
        let mut files = if source.is_dir() {
            fs_err::read_dir(&source)?
                .map(|entry| Ok(entry?.path()))
                .collect::<Result<Vec<PathBuf>>>()?
        } else {
            vec![source.clone()]
        };
        files.sort_unstable();
        let with = |endings: &[&str]| -> Vec<PathBuf> {
            let fits = |path: &&PathBuf| {
                let ending = path.extension().map(|e| e.to_string_lossy().to_lowercase());
                path.is_file() && ending.is_some_and(|e| endings.contains(&e.as_str()))
            };
            files.iter().filter(fits).cloned().collect()
        };
        Ok(Found {
            tables: with(&["tsv", "csv", "jsonl", "ndjson", "parquet"]),
            arrays: with(&["npy", "npz"]),
            mats: with(&["mat"]),
            zips: with(&["zip"]),
            has_pictures: source.is_dir() && read::pictures(&source, "").is_ok(),
            source,
        })
    }

    fn kind(&self) -> Option<Kind> {
        if !self.tables.is_empty() {
            Some(Kind::Table)
        } else if !self.mats.is_empty() {
            Some(Kind::Mat)
        } else if !self.arrays.is_empty() {
            Some(Kind::Arrays)
        } else if self.has_pictures || !self.zips.is_empty() {
            Some(Kind::Folders)
        } else {
            None
        }
    }

    fn pictures(&self) -> Option<&Path> {
        if self.has_pictures {
            Some(&self.source)
        } else {
            self.zips.first().map(PathBuf::as_path)
        }
    }
}

/// The folder of the manifest.
struct Place {
    out: PathBuf,
}

impl Place {
    /// A path as written in the manifest: relative if it is below the folder of the manifest.
    fn name(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.out) {
            Ok(below) if below.as_os_str().is_empty() => PathBuf::from("."),
            Ok(below) => below.to_owned(),
            Err(_) => path.to_owned(),
        }
    }
}

fn folders(found: &Found, place: &Place, notes: &mut Vec<String>) -> Result<Manifest> {
    let pictures =
        found.pictures().ok_or_else(|| Error::content("there are no pictures"))?;
    let listing = read::pictures(pictures, "")?;
    let depth = |id: &String| id.matches('/').count();
    let least = listing.ids.iter().map(depth).min().unwrap_or(0);
    if least == 0 {
        return Err(Error::content(
            "some pictures are not in a folder, so folders cannot be their labels; provide a table",
        ));
    }
    let source = |under: Option<&str>| ModalitySource {
        pictures: Some(place.name(pictures)),
        under: under.map(str::to_owned),
        ..ModalitySource::default()
    };
    let top: BTreeSet<&str> = listing
        .ids
        .iter()
        .filter_map(|id| id.split_once('/').map(|(top, _)| top))
        .collect();
    let modality: BTreeMap<String, ModalitySource> = match least {
        1 => {
            notes.push(format!("folders: {} classes of pictures", top.len()));
            BTreeMap::from([("image".to_owned(), source(None))])
        }
        _ => {
            notes.push(format!("folders: {} modalities of class folders", top.len()));
            top.iter().map(|&name| (plain(name), source(Some(name)))).collect()
        }
    };
    let labels = Some(LabelSource { folder: true, ..LabelSource::default() });
    Ok(Manifest { labels, modality, ..Manifest::default() })
}

fn table(found: &Found, place: &Place, notes: &mut Vec<String>) -> Result<Manifest> {
    let path = found.tables.first().ok_or_else(|| Error::content("there is no table"))?;
    if found.tables.len() > 1 {
        let rest: Vec<String> =
            found.tables[1..].iter().map(|p| p.display().to_string()).collect();
        notes.push(format!("table: the first of several; not used: {}", rest.join(", ")));
    }
    let columns = read::names(path)?;
    let find = |requested: &[&str]| {
        let same = |name: &&str| columns.iter().find(|c| c.to_lowercase() == **name);
        requested.iter().find_map(same).cloned()
    };
    let label = find(&LABELS).ok_or_else(|| {
        Error::content(format!(
            "no column looks like labels ({}); there are: {}",
            LABELS.join(", "),
            columns.join(", ")
        ))
    })?;
    let id = find(&IDS);
    notes.push(match &id {
        Some(id) => format!("table {}: id {id}, labels {label}", path.display()),
        None => format!("table {}: ids are row numbers, labels {label}", path.display()),
    });
    let (separator, numbers) = guess_separator(path, &label)?;
    let starts = |column: &&String, known: &[&str]| {
        let column = column.to_lowercase();
        known.iter().any(|name| column == *name || column.starts_with(&format!("{name}_")))
    };
    let mut modality = BTreeMap::new();
    let texts: Vec<String> =
        columns.iter().filter(|c| starts(c, &TEXTS) && **c != label).cloned().collect();
    if !texts.is_empty() {
        let text = Some(Many::Several(texts));
        modality
            .insert("text".into(), ModalitySource { text, ..ModalitySource::default() });
    }
    for column in
        columns.iter().filter(|c| starts(c, &EMBEDDINGS) || c.ends_with("_embedding"))
    {
        let column = Some(column.clone());
        let name = plain(column.as_deref().unwrap_or_default());
        modality.insert(name, ModalitySource { column, ..ModalitySource::default() });
    }
    if let Some(pictures) = found.pictures() {
        let pictures = Some(place.name(pictures));
        let path = find(&PATHS);
        let source = ModalitySource { pictures, path, ..ModalitySource::default() };
        modality.insert("image".into(), source);
    }
    for array in &found.arrays {
        let features = Some(Many::One(ArrayFile::File(place.name(array))));
        modality
            .insert(stem(array), ModalitySource { features, ..ModalitySource::default() });
    }
    if modality.is_empty() {
        return Err(Error::content(format!(
            "no column looks like text or embeddings; there are: {}",
            columns.join(", ")
        )));
    }
    let split = match find(&SPLITS) {
        Some(column) => given_split(path, column, notes)?,
        None => None,
    };
    let items = Items { table: place.name(path), id, ..Items::default() };
    let column = Some(Many::One(label));
    let labels = LabelSource { column, separator, numbers, ..LabelSource::default() };
    Ok(Manifest {
        items: Some(items),
        labels: Some(labels),
        split,
        modality,
        ..Manifest::default()
    })
}

fn cells(path: &Path, column: &str) -> Result<Vec<Cell>> {
    let table =
        read::table(path, &[ColumnSpec::Cells(column.to_owned())], &Budget::default())?;
    Ok(table.cells(column)?.to_vec())
}

/// The separator of labels in a cell, and whether they are numbers.
fn guess_separator(path: &Path, column: &str) -> Result<(Option<String>, bool)> {
    let cells = cells(path, column)?;
    let texts: Vec<&str> = cells
        .iter()
        .filter_map(|cell| match cell {
            Cell::Text(text) if !text.is_empty() => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let number = |part: &str| part.trim().parse::<u32>().is_ok();
    let of = |separator: &str| texts.iter().all(|t| t.split(separator).all(number));
    for separator in [";", "|", ",", " "] {
        let holding = texts.iter().filter(|text| text.contains(separator)).count();
        // Label names may contain spaces; numbers do not.
        let clear = separator != " " || of(separator);
        if holding * 5 > texts.len() && clear {
            return Ok((Some(separator.to_owned()), of(separator)));
        }
    }
    let listed = cells.iter().flat_map(|cell| match cell {
        Cell::List(list) => list.as_slice(),
        Cell::Text(text) => std::slice::from_ref(text),
    });
    Ok((None, listed.filter(|text| !text.is_empty()).all(|text| number(text))))
}

fn given_split(
    path: &Path,
    column: String,
    notes: &mut Vec<String>,
) -> Result<Option<SplitSource>> {
    let cells = cells(path, &column)?;
    let values: BTreeSet<String> = cells.iter().map(Cell::text).collect();
    let one = |names: &[&str]| {
        let value = names.iter().find(|name| values.contains(**name));
        value.map(|value| Selection::Marked(vec![(*value).to_owned()]))
    };
    let (query, database) = (one(&["query", "test"]), one(&["database", "train"]));
    if query.is_none() || database.is_none() {
        return Ok(None);
    }
    let (train, validation) =
        (one(&["train"]), one(&["validation", "valid", "val", "dev"]));
    notes.push(format!("split: by column {column}"));
    let column = Some(column);
    Ok(Some(SplitSource {
        column,
        query,
        database,
        train,
        validation,
        ..SplitSource::default()
    }))
}

fn arrays(found: &Found, place: &Place, notes: &mut Vec<String>) -> Result<Manifest> {
    let is_labels = |path: &&PathBuf| stem(path).to_lowercase().starts_with("label");
    let labels = found.arrays.iter().find(is_labels).ok_or_else(|| {
        Error::content("no labels.npy (or label*.npy, .npz) beside the features")
    })?;
    let features: Vec<&PathBuf> =
        found.arrays.iter().filter(|path| !is_labels(path)).collect();
    if features.is_empty() {
        return Err(Error::content("there are labels but no features"));
    }
    notes.push(format!(
        "arrays: {} modalities, labels in {}",
        features.len(),
        labels.display()
    ));
    let source = |path: &&PathBuf| {
        let features = Some(Many::One(ArrayFile::File(place.name(path))));
        (stem(path), ModalitySource { features, ..ModalitySource::default() })
    };
    let names = found.source.join("labels.txt");
    let names = names.is_file().then(|| super::Names::File(place.name(&names)));
    let matrix = Some(Many::One(ArrayFile::File(place.name(labels))));
    let numbers = one_wide(&read::array(labels, None, true, &Budget::default())?);
    let labels = LabelSource { matrix, names, numbers, ..LabelSource::default() };
    let modality = features.iter().map(source).collect();
    Ok(Manifest { labels: Some(labels), modality, ..Manifest::default() })
}

fn one_wide(features: &Features) -> bool {
    features.width() == Some(1)
}

/// Guesses the role of variables by name: labels L.., texts Y.. or T.., pictures I.., X.. or V..
fn mat(found: &Found, place: &Place, notes: &mut Vec<String>) -> Result<Manifest> {
    let mut all: Vec<(PathBuf, String)> = Vec::new();
    for path in &found.mats {
        all.extend(read::names(path)?.into_iter().map(|name| (path.clone(), name)));
    }
    let role = |name: &str| match name.to_lowercase() {
        n if n.starts_with('l') => Some("labels"),
        n if n.starts_with('y') || n.starts_with('t') => Some("text"),
        n if n.starts_with('i') || n.starts_with('x') || n.starts_with('v') => {
            Some("image")
        }
        _ => None,
    };
    let mut parts: BTreeMap<&str, Vec<(PathBuf, String)>> = BTreeMap::new();
    for (path, name) in &all {
        match role(name) {
            Some(role) => parts.entry(role).or_default().push((path.clone(), name.clone())),
            None => notes.push(format!("mat: variable {name} is not used")),
        }
    }
    let mut files = |role: &str| {
        let mut found = parts.remove(role)?;
        // Training rows before test rows, in the same order for all roles.
        found.sort_by_key(|(_, name)| (!name.ends_with("tr"), name.clone()));
        let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
        notes.push(format!("mat: {role} is {}", names.join(" then ")));
        let array = |(path, name): &(PathBuf, String)| {
            let (file, key) = (place.name(path), Some(name.clone()));
            ArrayFile::Keyed(KeyedArray { file, key, transpose: false })
        };
        Some(Many::Several(found.iter().map(array).collect()))
    };
    let matrix = files("labels");
    if matrix.is_none() {
        let names: Vec<&str> = all.iter().map(|(_, name)| name.as_str()).collect();
        return Err(Error::content(format!(
            "no variable looks like labels (L...); there are: {}",
            names.join(", ")
        )));
    }
    let mut modality = BTreeMap::new();
    for name in ["image", "text"] {
        if let Some(features) = files(name) {
            let features = Some(features);
            modality.insert(
                name.into(),
                ModalitySource { features, ..ModalitySource::default() },
            );
        }
    }
    let labels = Some(LabelSource { matrix, ..LabelSource::default() });
    Ok(Manifest { labels, modality, ..Manifest::default() })
}

fn absolute(path: &Path) -> Result<PathBuf> {
    Ok(fs_err::canonicalize(path)?)
}

fn stem(path: &Path) -> String {
    plain(&path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default())
}

/// A name that needs no quotes in TOML.
fn plain(name: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    name.chars().map(keep).collect()
}
