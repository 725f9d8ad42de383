//! Parquet tables, e.g. of Hugging Face: texts, numbers, and lists for labels and embeddings. Only the
//! requested columns are read, in batches.

use std::cell::Cell as Flag;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::Once;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::table::{self, Building, Cell, ColumnSpec, Table};
use crate::data::limits::Budget;
use crate::{Error, Place, Result};

/// Rows read at a time.
const BATCH: usize = 4096;
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

/// Converts panics of Arrow on damaged files to errors, without a message on stderr.
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

fn read_columns(path: &Path) -> Result<Vec<String>> {
    let file = fs_err::File::open(path)?.into_file();
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(fault)?;
    Ok(builder.schema().fields().iter().map(|field| field.name().clone()).collect())
}

fn read_table(path: &Path, requested: &[ColumnSpec], budget: &Budget) -> Result<Table> {
    let file = fs_err::File::open(path)?.into_file();
    let size = file.metadata()?.len();
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(fault)?;
    let metadata = builder.metadata();
    let declared = u64::try_from(metadata.file_metadata().num_rows()).ok();
    let cost = (CELL * requested.len().max(1)) as u64;
    budget.check("the table", declared.and_then(|rows| rows.checked_mul(cost)), size)?;
    let there: Vec<String> =
        builder.schema().fields().iter().map(|field| field.name().clone()).collect();
    let places = table::places(requested, &there)?;
    let mask = ProjectionMask::roots(builder.parquet_schema(), places.iter().copied());
    let reader =
        builder.with_projection(mask).with_batch_size(BATCH).build().map_err(fault)?;
    let mut building: Vec<Building> =
        requested.iter().map(|want| Building::new(want, budget)).collect();
    let mut rows = 0;
    let mut expanded = 0_u64;
    for batch in reader {
        let batch = batch.map_err(fault)?;
        let bytes = batch.get_array_memory_size() + CELL * batch.num_rows();
        expanded = budget.check("the table", expanded.checked_add(bytes as u64), size)?;
        for (want, column) in requested.iter().zip(&mut building) {
            let name = want.name();
            let array = batch
                .column_by_name(name)
                .ok_or_else(|| Error::unknown("column", name, []))?;
            add(name, array, rows, column)?;
        }
        rows += batch.num_rows();
    }
    let columns =
        building.into_iter().map(|column| column.finish(path)).collect::<Result<_>>()?;
    Ok(Table::new(requested, columns, None, rows))
}

fn add(name: &str, array: &ArrayRef, first: usize, column: &mut Building) -> Result<()> {
    for at in 0..array.len() {
        let place = Place::Row(first + at);
        match column {
            Building::Cells(cells) => cells.push(cell(name, array, at, place)?),
            Building::Numbers(rows) => {
                rows.push(place, &numbers(name, array, at, place)?)?
            }
        }
    }
    Ok(())
}

fn cell(name: &str, array: &ArrayRef, at: usize, place: Place) -> Result<Cell> {
    match list(array, at) {
        Some(None) => Ok(Cell::List(Vec::new())),
        Some(Some(items)) => {
            let each = (0..items.len()).map(|k| plain(name, &items, k, place));
            Ok(Cell::List(each.collect::<Result<_>>()?))
        }
        None => plain(name, array, at, place).map(Cell::Text),
    }
}

/// The items of a list column at a row; `Some(None)` is a null list, `None` no list column.
fn list(array: &ArrayRef, at: usize) -> Option<Option<ArrayRef>> {
    let there = !array.is_null(at);
    match array.data_type() {
        DataType::List(_) => Some(there.then(|| array.as_list::<i32>().value(at))),
        DataType::LargeList(_) => Some(there.then(|| array.as_list::<i64>().value(at))),
        DataType::FixedSizeList(..) => {
            Some(there.then(|| array.as_fixed_size_list().value(at)))
        }
        _ => None,
    }
}

/// A value as text; null is an empty text.
fn plain(name: &str, array: &ArrayRef, at: usize, place: Place) -> Result<String> {
    if array.is_null(at) {
        return Ok(String::new());
    }
    Ok(match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(at).to_owned(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(at).to_owned(),
        DataType::Utf8View => array.as_string_view().value(at).to_owned(),
        DataType::Boolean => array.as_boolean().value(at).to_string(),
        DataType::Int8 => array.as_primitive::<Int8Type>().value(at).to_string(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(at).to_string(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(at).to_string(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(at).to_string(),
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(at).to_string(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(at).to_string(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(at).to_string(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(at).to_string(),
        DataType::Float32 => array.as_primitive::<Float32Type>().value(at).to_string(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(at).to_string(),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let key = dictionary.normalized_keys()[at];
            return plain(name, dictionary.values(), key, place);
        }
        other => {
            let what =
                format!("contains {other}: neither a text, a number nor a list of these");
            return Err(Error::cell(place, name, what));
        }
    })
}

#[expect(clippy::cast_possible_truncation, reason = "features are single precision")]
fn numbers(name: &str, array: &ArrayRef, at: usize, place: Place) -> Result<Vec<f32>> {
    let refused = |what: String| Error::cell(place, name, what);
    let items = match list(array, at) {
        Some(Some(items)) => items,
        Some(None) => return Err(refused("does not contain a list".to_owned())),
        None => {
            let kind = array.data_type();
            return Err(refused(format!("contains {kind}, not lists of numbers")));
        }
    };
    if items.null_count() > 0 {
        return Err(refused("contains a list with missing numbers".to_owned()));
    }
    Ok(match items.data_type() {
        DataType::Float32 => items.as_primitive::<Float32Type>().values().to_vec(),
        DataType::Float64 => {
            items.as_primitive::<Float64Type>().values().iter().map(|&v| v as f32).collect()
        }
        DataType::Float16 => items
            .as_primitive::<Float16Type>()
            .values()
            .iter()
            .map(|v| v.to_f32())
            .collect(),
        DataType::UInt8 => items
            .as_primitive::<UInt8Type>()
            .values()
            .iter()
            .map(|&v| f32::from(v))
            .collect(),
        other => return Err(refused(format!("contains lists of {other}, not of numbers"))),
    })
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
