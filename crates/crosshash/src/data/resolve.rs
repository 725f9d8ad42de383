//! Labels of all modalities over one vocabulary.
//!
//! The vocabulary is the list of names in the manifest, or else all names that occur, sorted
//! alphabetically (numbers numerically).

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use crosshash_codes::Labels;

use super::limits::Budget;
use super::manifest::{ArrayFile, LabelSource, Manifest};
use super::open::{self, Source};
use super::read::{Cell, Table};
use super::{Features, Sparse};
use crate::{Error, Place, Result};

/// Maximum number of labels without names.
const MAX_LABELS: usize = 1 << 20;
/// Bytes of label bits per item that are accepted for any number of items.
const LABEL_BYTES: usize = 4096;

/// Labels as read from files, one list per item.
pub(super) enum ReadLabels {
    /// Names, with the location of each item for error messages.
    Names {
        rows: Vec<Vec<String>>,
        places: Vec<Place>,
        path: Option<PathBuf>,
        column: String,
    },
    /// Numbers out of `classes`, if that is known.
    Numbers {
        rows: Vec<Vec<u32>>,
        places: Vec<Place>,
        path: Option<PathBuf>,
        classes: Option<usize>,
    },
}

impl ReadLabels {
    /// For items of a data set without labels.
    pub(super) fn none(items: usize) -> ReadLabels {
        let (rows, places) = (vec![Vec::new(); items], vec![Place::Row(0); items]);
        ReadLabels::Numbers { rows, places, path: None, classes: Some(0) }
    }

    /// Reads the labels of the items in these rows.
    pub(super) fn read(
        source: &LabelSource,
        root: &Path,
        (table, path): (Option<&Table>, Option<PathBuf>),
        total: usize,
        rows: &[usize],
        ids: &[String],
        budget: &Budget,
    ) -> Result<ReadLabels> {
        let ways = [source.column.is_some(), source.matrix.is_some(), source.folder];
        if ways.iter().filter(|&&given| given).count() != 1 {
            return Err(Error::content(
                "labels: give exactly one of column, matrix and folder; from_text can be added to it or \
                 be given alone",
            ));
        }
        if source.folder {
            return folders(ids);
        }
        if let Some(files) = &source.matrix {
            let features = open::arrays(root, files.as_slice(), source.numbers, budget)?;
            // Row numbers continue over several files, so only a single file is named in errors.
            let path = match files.as_slice() {
                [ArrayFile::File(file)] => Some(root.join(file)),
                [ArrayFile::Keyed(keyed)] => Some(root.join(&keyed.file)),
                _ => None,
            };
            let located = |err: Error| match (err, &path) {
                (err @ Error::File { .. }, _) => err,
                (err, Some(path)) => Error::content(format!("labels: {err}")).at(path),
                (err, None) => Error::content(format!("labels: {err}")),
            };
            return matrix(&features, total, rows, source.numbers, path.clone())
                .map_err(located);
        }
        let Some(table) = table else {
            return Err(Error::content("labels in a column need a table; add [items]"));
        };
        let columns = source.column.as_ref().map_or(&[][..], |column| column.as_slice());
        let named = cells(source, table, columns, rows)?;
        let places: Vec<Place> = rows.iter().map(|&row| table.place(row)).collect();
        let column = columns.join(", ");
        if !source.numbers {
            return Ok(ReadLabels::Names { rows: named, places, path, column });
        }
        let number = |(name, place): (&String, Place)| {
            name.parse::<u32>().map_err(|_| {
                let what = format!("{name:?} is not a label number");
                let err = Error::cell(place, &column, what);
                match &path {
                    Some(path) => err.at(path),
                    None => err,
                }
            })
        };
        let rows = named
            .iter()
            .zip(&places)
            .map(|(row, &place)| row.iter().map(|name| number((name, place))).collect())
            .collect::<Result<_>>()?;
        Ok(ReadLabels::Numbers { rows, places, path, classes: None })
    }
}

/// The label names of the data set and the labels of each modality.
pub(super) fn labels(
    manifest: &Manifest,
    root: &Path,
    sources: &[Source],
) -> Result<(Vec<String>, Vec<Labels>)> {
    let mut names: Option<Vec<String>> = None;
    let own = manifest.modality.values().filter_map(|source| source.labels.as_ref());
    for source in manifest.labels.iter().chain(own) {
        let given = open::given_names(source, root)?;
        match (&names, given) {
            (None, given) => names = given,
            (Some(known), Some(other)) if *known != other => {
                return Err(Error::content("labels: two different lists of names"));
            }
            _ => {}
        }
    }
    let given = names.is_some();
    let names = match names {
        Some(names) => names,
        None => found_names(sources)?,
    };
    let mut known: HashMap<&str, u32> = HashMap::new();
    for (name, number) in names.iter().zip(0..) {
        if known.insert(name, number).is_some() {
            return Err(Error::content(format!("labels: the name {name:?} occurs twice")));
        }
    }
    let all = sources.iter().map(|source| lay_out(source, &names, &known, given));
    let all = all.collect::<Result<_>>()?;
    Ok((names, all))
}

fn lay_out(
    source: &Source,
    names: &[String],
    known: &HashMap<&str, u32>,
    given: bool,
) -> Result<Labels> {
    let located = |err: Error, path: &Option<PathBuf>| match path {
        Some(path) => err.at(path),
        None => Error::content(format!("modality {}: {err}", source.name)),
    };
    let mut labels = Labels::from_indices(names.len(), Vec::<Vec<u32>>::new())?;
    match &source.labels {
        ReadLabels::Names { rows, places, path, column } => {
            for (row, &place) in rows.iter().zip(places) {
                let number = |name: &String| {
                    known.get(name.as_str()).copied().ok_or_else(|| {
                        let what = format!(
                            "label {name:?} is not among the {} names",
                            names.len()
                        );
                        located(Error::cell(place, column, what), path)
                    })
                };
                labels.push(&row.iter().map(number).collect::<Result<Vec<u32>>>()?)?;
            }
        }
        ReadLabels::Numbers { rows, places, path, classes } => {
            if let Some(classes) =
                classes.filter(|&classes| given && classes != names.len())
            {
                let what = format!(
                    "labels: the matrix has {classes} columns, but there are {} names",
                    names.len()
                );
                return Err(located(Error::content(what), path));
            }
            if classes.is_none() && !given {
                check_size(rows.len(), names.len()).map_err(|err| located(err, path))?;
            }
            for (row, &place) in rows.iter().zip(places) {
                if let Some(label) =
                    row.iter().find(|&&label| label as usize >= names.len())
                {
                    let what = format!(
                        "label {label} is out of range, there are {} labels (0 to {})",
                        names.len(),
                        names.len().saturating_sub(1)
                    );
                    return Err(located(Error::cell(place, "labels", what), path));
                }
                labels.push(row)?;
            }
        }
    }
    Ok(labels)
}

/// Rejects label numbers that would need an implausibly large bit matrix.
fn check_size(n_items: usize, n_labels: usize) -> Result<()> {
    let declared = n_items.saturating_mul(n_labels.div_ceil(64)).saturating_mul(8);
    let limit = n_items.saturating_mul(LABEL_BYTES).saturating_add(64 << 20);
    if declared > limit {
        return Err(Error::content(format!(
            "labels: {n_items} items with label numbers up to {} need {declared} bytes, but the \
             limit is {limit}; check the largest label number, or name the labels",
            n_labels.saturating_sub(1)
        )));
    }
    Ok(())
}

fn found_names(sources: &[Source]) -> Result<Vec<String>> {
    let mut named: BTreeSet<&str> = BTreeSet::new();
    let mut numbers = 0_usize;
    for source in sources {
        match &source.labels {
            ReadLabels::Names { rows, .. } => {
                named.extend(rows.iter().flatten().map(String::as_str))
            }
            ReadLabels::Numbers { rows, classes, .. } => {
                let most = rows.iter().flatten().max().map_or(0, |&most| most as usize + 1);
                numbers = numbers.max(classes.unwrap_or(most));
            }
        }
    }
    if numbers > MAX_LABELS {
        return Err(Error::content(format!(
            "labels: label number {} is beyond the limit of {MAX_LABELS} labels without names; \
             name the labels",
            numbers - 1
        )));
    }
    match (named.is_empty(), numbers) {
        (true, n) => Ok((0..n).map(|label| label.to_string()).collect()),
        (false, 0) => Ok(named.into_iter().map(str::to_owned).collect()),
        (false, _) => Err(Error::content(
            "labels: some modalities name their labels and others number them; give names",
        )),
    }
}

fn folders(ids: &[String]) -> Result<ReadLabels> {
    let class = |(row, id): (usize, &String)| match id.split_once('/') {
        Some((class, _)) => Ok(vec![class.to_owned()]),
        None => {
            let what = format!("picture {id:?} is not in a folder, so it has no label");
            Err(Error::row(Place::Row(row), what))
        }
    };
    let rows = ids.iter().enumerate().map(class).collect::<Result<_>>()?;
    let places = (0..ids.len()).map(Place::Row).collect();
    Ok(ReadLabels::Names { rows, places, path: None, column: "folder".into() })
}

/// The labels of each row; an empty cell is an unlabelled item.
fn cells(
    source: &LabelSource,
    table: &Table,
    columns: &[String],
    rows: &[usize],
) -> Result<Vec<Vec<String>>> {
    let columns =
        columns.iter().map(|name| table.cells(name)).collect::<Result<Vec<_>>>()?;
    let split = |text: &str| -> Vec<String> {
        let parts: Vec<&str> = match source.separator.as_deref() {
            None => vec![text],
            Some(" ") => text.split_whitespace().collect(),
            Some(separator) => text.split(separator).collect(),
        };
        parts
            .into_iter()
            .map(str::trim)
            .filter(|p| !p.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let labels_of = |cell: &Cell| match cell {
        Cell::Text(text) => split(text),
        Cell::List(list) => {
            list.iter().filter(|label| !label.trim().is_empty()).cloned().collect()
        }
    };
    Ok(rows
        .iter()
        .map(|&row| columns.iter().flat_map(|c| labels_of(&c[row])).collect())
        .collect())
}

fn matrix(
    features: &Features,
    total: usize,
    rows: &[usize],
    numbers: bool,
    path: Option<PathBuf>,
) -> Result<ReadLabels> {
    if features.len() != total {
        return Err(Error::content(format!(
            "the matrix has {} rows, there are {total} items; there must be one row per item",
            features.len()
        )));
    }
    let places = rows.iter().copied().map(Place::Row).collect();
    let mut found = Vec::with_capacity(rows.len());
    let (classes, numbered) = match features {
        Features::Sparse(sparse) => {
            for &row in rows {
                found.push(sparse_row(sparse, row)?);
            }
            (sparse.width(), false)
        }
        Features::Dense(dense) => {
            let mut buffer = vec![0.0; dense.width()];
            for &row in rows {
                dense.read(row..row + 1, &mut buffer)?;
                found.push(if numbers {
                    numbered_row(&buffer, row)?
                } else {
                    dense_row(&buffer, row)?
                });
            }
            (dense.width(), numbers)
        }
        _ => return Err(Error::content("labels must be a dense or sparse matrix")),
    };
    let classes = (!numbered).then_some(classes);
    Ok(ReadLabels::Numbers { rows: found, places, path, classes })
}

fn dense_row(row: &[f32], at: usize) -> Result<Vec<u32>> {
    let mut labels = Vec::new();
    for (column, &value) in row.iter().enumerate() {
        if value == 1.0 {
            labels.push(u32::try_from(column).unwrap_or(u32::MAX));
        } else if value != 0.0 {
            let what = format!("{value} is neither 0 nor 1");
            return Err(Error::cell(Place::Row(at), column.to_string(), what));
        }
    }
    Ok(labels)
}

fn sparse_row(sparse: &Sparse, at: usize) -> Result<Vec<u32>> {
    let (columns, values) = sparse.row(at);
    match columns.iter().zip(values).find(|(_, value)| **value != 1.0) {
        Some((column, value)) => {
            let what = format!("{value} is neither 0 nor 1");
            Err(Error::cell(Place::Row(at), column.to_string(), what))
        }
        None => Ok(columns.to_vec()),
    }
}

/// A row of label numbers; negative numbers mean no label.
fn numbered_row(row: &[f32], at: usize) -> Result<Vec<u32>> {
    let mut labels = Vec::new();
    for (column, &value) in row.iter().enumerate().filter(|(_, value)| **value >= 0.0) {
        if value.fract() != 0.0 || value > 16_777_216.0 {
            let what = format!("{value} is not a label number");
            return Err(Error::cell(Place::Row(at), column.to_string(), what));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked"
        )]
        labels.push(value as u32);
    }
    Ok(labels)
}
