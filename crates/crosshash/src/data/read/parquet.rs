//! Parquet tables, e.g. of Hugging Face: texts, numbers, and lists for labels and embeddings. Only the
//! requested columns are read, in batches. The crate `parquet` decodes the files, without Arrow.
//!
//! Pictures are stored as Hugging Face does: a column of bytes, or a group with the fields `bytes` and
//! `path`. The names of classes are in the metadata that its library writes.

mod column;
mod files;
mod groups;

use std::cell::Cell as Flag;
use std::collections::HashMap;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Once;

use parquet::file::reader::{FileReader as _, SerializedFileReader};

pub(crate) use self::groups::RowGroups;

use self::column::{Column, Sink};
use super::TakeFile;
use super::table::{self, Building, Cell, ColumnKind, ColumnSpec, Table};
use crate::data::limits::Budget;
use crate::{Error, Result};

/// Memory of an empty cell in bytes.
const CELL: usize = size_of::<Cell>();

thread_local! {
    static QUIET: Flag<bool> = const { Flag::new(false) };
}

pub(super) fn columns(path: &Path) -> Result<Vec<String>> {
    guarded(|| read_columns(path))
}

pub(super) fn table(
    path: &Path,
    requested: &[ColumnSpec],
    budget: &Budget,
) -> Result<Table> {
    guarded(|| read_table(path, requested, budget))
}

pub(super) fn kinds(path: &Path) -> Result<Vec<(String, ColumnKind)>> {
    guarded(|| {
        let file = open(path)?;
        let classes = class_names(&file);
        let all = names(&file).into_iter().enumerate();
        let kind = |(place, name): (usize, String)| {
            let kind = match (Column::find(&file, place).declared(), classes.get(&name)) {
                (ColumnKind::Cells, Some(names)) => ColumnKind::Classes(names.clone()),
                (ColumnKind::Other, _) if files::leaf(&file, place).is_some() => {
                    ColumnKind::Files
                }
                (kind, _) => kind,
            };
            (name, kind)
        };
        Ok(all.map(kind).collect())
    })
}

pub(super) fn files(path: &Path, column: &str, take: TakeFile<'_>) -> Result<()> {
    guarded(|| {
        let file = open(path)?;
        let wanted = [ColumnSpec::Cells(column.to_owned())];
        let place = table::places(&wanted, &names(&file))?[0];
        files::read(&file, place, take)
    })
}

/// The names of classes by column, from the metadata of Hugging Face.
fn class_names(file: &File) -> HashMap<String, Vec<String>> {
    let all = file.metadata().file_metadata().key_value_metadata();
    let text = all.into_iter().flatten().find(|entry| entry.key == "huggingface");
    let text = text.and_then(|entry| entry.value.as_deref()).unwrap_or_default();
    let value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let features = value["info"]["features"].as_object();
    let names = |(name, feature): (&String, &serde_json::Value)| {
        // A list of classes nests the feature.
        let class = [feature, &feature["feature"]];
        let names = class.into_iter().find_map(|feature| feature["names"].as_array())?;
        let names = names.iter().map(|name| name.as_str().map(str::to_owned));
        Some((name.clone(), names.collect::<Option<Vec<String>>>()?))
    };
    features.into_iter().flatten().filter_map(names).collect()
}

/// Converts panics of the crate on damaged files to errors, without a message on stderr.
fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                usual(panic);
            }
        }));
    });
    QUIET.set(true);
    let read = panic::catch_unwind(AssertUnwindSafe(read));
    QUIET.set(false);
    read.unwrap_or_else(|_| Err(fault("the file is damaged")))
}

type File = SerializedFileReader<std::fs::File>;

fn open(path: &Path) -> Result<File> {
    SerializedFileReader::new(fs_err::File::open(path)?.into_file()).map_err(fault)
}

fn names(file: &File) -> Vec<String> {
    let schema = file.metadata().file_metadata().schema();
    schema.get_fields().iter().map(|field| field.name().to_owned()).collect()
}

fn read_columns(path: &Path) -> Result<Vec<String>> {
    Ok(names(&open(path)?))
}

fn read_table(path: &Path, requested: &[ColumnSpec], budget: &Budget) -> Result<Table> {
    let file = open(path)?;
    let size = fs_err::metadata(path)?.len();
    let rows = u64::try_from(file.metadata().file_metadata().num_rows()).ok();
    let cost = (CELL * requested.len().max(1)) as u64;
    budget.check("the table", rows.and_then(|rows| rows.checked_mul(cost)), size)?;
    let rows = rows.and_then(|rows| usize::try_from(rows).ok()).unwrap_or(0);
    let places = table::places(requested, &names(&file))?;
    let mut expanded = 0_u64;
    let mut columns = Vec::with_capacity(requested.len());
    for (want, place) in requested.iter().zip(places) {
        let mut sink = Sink {
            name: want.name(),
            building: Building::new(want, budget),
            rows: 0,
            grow: &mut |bytes| {
                expanded = budget.check("the table", expanded.checked_add(bytes), size)?;
                Ok(())
            },
        };
        Column::find(&file, place).read(&file, &(0..file.num_row_groups()), &mut sink)?;
        if sink.rows != rows {
            return Err(fault(format!(
                "column {:?} has {} rows, the file declares {rows}",
                want.name(),
                sink.rows
            )));
        }
        columns.push(sink.building.finish(path)?);
    }
    Ok(Table::new(requested, columns, None, rows))
}

fn fault(err: impl std::fmt::Display) -> Error {
    let text = err.to_string();
    let remedy = if text.contains("Disabled feature at compile time") {
        "; write it plain or with compression=\"zstd\", \"snappy\" or \"gzip\""
    } else {
        ""
    };
    Error::content(format!("cannot be read as Parquet: {text}{remedy}"))
}

#[cfg(test)]
mod tests;
