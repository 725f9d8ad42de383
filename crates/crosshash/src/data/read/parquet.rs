//! Parquet tables, e.g. of Hugging Face: texts, numbers, and lists for labels and embeddings. Only the
//! requested columns are read, in batches. The crate `parquet` decodes the files, without Arrow.

mod column;

use std::cell::Cell as Flag;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Once;

use parquet::file::reader::{FileReader as _, SerializedFileReader};

use self::column::{Column, Sink};
use super::table::{self, Building, Cell, ColumnSpec, Table};
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
        Column::find(&file, place).read(&file, &mut sink)?;
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
        "; write it plain or with compression=\"snappy\" or \"gzip\""
    } else {
        ""
    };
    Error::content(format!("cannot be read as Parquet: {text}{remedy}"))
}

#[cfg(test)]
mod tests;
