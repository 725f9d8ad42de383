//! JSONL tables: one JSON object per line; all must have the requested columns.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use serde_json::{Map, Value};

use super::table::{Building, Cell, ColumnKind, ColumnSpec, Table};
use crate::data::limits::Budget;
use crate::{Error, Place, Result};

/// The shortest list of numbers that is an embedding.
const EMBEDDING: usize = 16;

pub(super) fn columns(path: &Path) -> Result<Vec<String>> {
    Ok(first(path)?.keys().cloned().collect())
}

/// The kinds of the values of the first object.
pub(super) fn kinds(path: &Path) -> Result<Vec<(String, ColumnKind)>> {
    let kind = |value: &Value| match value {
        Value::Array(list)
            if list.len() >= EMBEDDING && list.iter().all(Value::is_number) =>
        {
            ColumnKind::Numbers
        }
        Value::Array(list) if list.iter().any(|v| v.is_array() || v.is_object()) => {
            ColumnKind::Other
        }
        Value::Object(_) => ColumnKind::Other,
        _ => ColumnKind::Cells,
    };
    Ok(first(path)?.iter().map(|(name, value)| (name.clone(), kind(value))).collect())
}

fn first(path: &Path) -> Result<Map<String, Value>> {
    let file = BufReader::new(fs_err::File::open(path)?);
    for (line, number) in file.lines().zip(1_u64..) {
        let line = line?;
        if !line.trim().is_empty() {
            let object: Map<String, Value> =
                serde_json::from_str(&line).map_err(|err| {
                    Error::row(Place::Line(number), format!("not a JSON object: {err}"))
                })?;
            return Ok(object);
        }
    }
    Ok(Map::new())
}

pub(super) fn table(
    path: &Path,
    requested: &[ColumnSpec],
    budget: &Budget,
) -> Result<Table> {
    let mut building: Vec<Building> =
        requested.iter().map(|want| Building::new(want, budget)).collect();
    let mut lines = Vec::new();
    let file = BufReader::with_capacity(1 << 20, fs_err::File::open(path)?);
    for (line, number) in file.lines().zip(1_u64..) {
        let place = Place::Line(number);
        let line = line.map_err(|err| match err.kind() {
            std::io::ErrorKind::InvalidData => Error::row(place, "not UTF-8"),
            _ => err.into(),
        })?;
        if line.trim().is_empty() {
            continue;
        }
        let object: Map<String, Value> = serde_json::from_str(&line)
            .map_err(|err| Error::row(place, format!("not a JSON object: {err}")))?;
        lines.push(number);
        for (want, column) in requested.iter().zip(&mut building) {
            add(want.name(), &object, place, column)?;
        }
    }
    let columns =
        building.into_iter().map(|column| column.finish(path)).collect::<Result<_>>()?;
    let rows = lines.len();
    Ok(Table::new(requested, columns, Some(lines), rows))
}

fn add(
    name: &str,
    object: &Map<String, Value>,
    place: Place,
    column: &mut Building,
) -> Result<()> {
    let value = object.get(name).ok_or_else(|| {
        let unknown = Error::unknown("column", name, object.keys().map(String::as_str));
        Error::row(place, unknown.to_string())
    })?;
    match column {
        Building::Cells(cells) => cells.push(cell(name, value, place)?),
        Building::Numbers(rows) => rows.push(place, &numbers(name, value, place)?)?,
    }
    Ok(())
}

fn cell(name: &str, value: &Value, place: Place) -> Result<Cell> {
    match value {
        Value::Array(values) => {
            let each = values.iter().map(|value| plain(name, value, place));
            Ok(Cell::List(each.collect::<Result<_>>()?))
        }
        value => plain(name, value, place).map(Cell::Text),
    }
}

fn plain(name: &str, value: &Value, place: Place) -> Result<String> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Array(_) | Value::Object(_) => Err(Error::cell(
            place,
            name,
            "contains neither a text, a number nor a list of these",
        )),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "features are single precision")]
fn numbers(name: &str, value: &Value, place: Place) -> Result<Vec<f32>> {
    let refused = || Error::cell(place, name, "does not contain a list of numbers");
    let values = value.as_array().ok_or_else(refused)?;
    values.iter().map(|v| v.as_f64().map(|v| v as f32).ok_or_else(refused)).collect()
}
