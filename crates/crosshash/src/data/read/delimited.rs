//! CSV and TSV tables with one header line. Encoding and separator are recognised by their content
//! (`text_format.rs`).
//!
//! CSV cells may be quoted (RFC 4180). TSV cells are not: a quotation mark is an ordinary character, and
//! a cell contains neither tabs nor line breaks.

use std::io::Read;
use std::path::Path;

use csv::{ErrorKind, ReaderBuilder, StringRecord};

use super::table::{self, Cell, Column, ColumnSpec, Table};
use super::text_format::{self, TextFormat};
use crate::data::limits::Budget;
use crate::{Error, Place, Result};

pub(super) fn csv(path: &Path, requested: &[ColumnSpec], _: &Budget) -> Result<Table> {
    read(path, requested, b',')
}

pub(super) fn csv_columns(path: &Path) -> Result<Vec<String>> {
    header(&mut start(path, b',')?)
}

pub(super) fn csv_format(path: &Path) -> Result<TextFormat> {
    text_format::recognise(path, b',')
}

pub(super) fn tsv(path: &Path, requested: &[ColumnSpec], _: &Budget) -> Result<Table> {
    read(path, requested, b'\t')
}

pub(super) fn tsv_columns(path: &Path) -> Result<Vec<String>> {
    header(&mut start(path, b'\t')?)
}

pub(super) fn tsv_format(path: &Path) -> Result<TextFormat> {
    text_format::recognise(path, b'\t')
}

type Lines = csv::Reader<Box<dyn Read>>;

fn start(path: &Path, usual: u8) -> Result<Lines> {
    let format = text_format::recognise(path, usual)?;
    let text = text_format::decoded(path, format.encoding)?;
    let mut builder = ReaderBuilder::new();
    builder.delimiter(format.separator).quoting(format.quoting);
    Ok(builder.from_reader(text))
}

fn header(reader: &mut Lines) -> Result<Vec<String>> {
    let header = reader.headers().map_err(|err| fault(&err))?;
    if header.is_empty() {
        return Err(Error::content(
            "the file is empty; the first line must contain the column names",
        ));
    }
    Ok(header.iter().map(|name| name.trim_start_matches('\u{feff}').to_owned()).collect())
}

fn read(path: &Path, requested: &[ColumnSpec], usual: u8) -> Result<Table> {
    let mut reader = start(path, usual)?;
    let there = header(&mut reader)?;
    let places = table::places(requested, &there)?;
    if let Some(numbers) =
        requested.iter().find(|want| matches!(want, ColumnSpec::Numbers(_)))
    {
        return Err(Error::content(format!(
            "column {} of a text table cannot contain lists of numbers; use JSONL, Parquet or .npy",
            numbers.name()
        )));
    }
    let mut columns: Vec<Vec<Cell>> = vec![Vec::new(); requested.len()];
    let mut lines = Vec::new();
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(|err| fault(&err))? {
        lines.push(record.position().map_or(0, csv::Position::line));
        for (column, &at) in columns.iter_mut().zip(&places) {
            column.push(Cell::Text(record[at].to_owned()));
        }
    }
    let rows = lines.len();
    let columns = columns.into_iter().map(Column::Cells).collect();
    Ok(Table::new(requested, columns, Some(lines), rows))
}

fn fault(err: &csv::Error) -> Error {
    let line =
        |pos: &Option<csv::Position>| Place::Line(pos.as_ref().map_or(1, |p| p.line()));
    match err.kind() {
        ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let what = format!("{len} cells, but the header has {expected_len}");
            Error::row(line(pos), what)
        }
        ErrorKind::Utf8 { pos, err } => {
            let what = format!("cell {} is not UTF-8", err.field() + 1);
            Error::row(line(pos), what)
        }
        other => Error::content(format!("cannot be read as a table: {other:?}")),
    }
}
