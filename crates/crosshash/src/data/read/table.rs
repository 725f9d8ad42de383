//! `Table`: named columns of a CSV, TSV, JSONL or Parquet file.

use crate::data::Features;
use crate::data::limits::Budget;
use crate::data::spool::Spool;
use crate::{Error, Place, Result};

/// A column to read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ColumnSpec {
    /// Texts, numbers or lists of these, as text.
    Cells(String),
    /// Lists of numbers of equal length: embeddings.
    Numbers(String),
}

impl ColumnSpec {
    pub(crate) fn name(&self) -> &str {
        match self {
            ColumnSpec::Cells(name) | ColumnSpec::Numbers(name) => name,
        }
    }
}

/// One cell as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Text(String),
    List(Vec<String>),
}

impl Cell {
    /// The cell as one text; a list is joined with spaces.
    pub(crate) fn text(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::List(list) => list.join(" "),
        }
    }
}

/// What a column contains, as far as the file declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    /// Texts, numbers or lists of these.
    Cells,
    /// Numbers of classes, with the names of the classes.
    Classes(Vec<String>),
    /// Lists of numbers: embeddings.
    Numbers,
    /// Files, e.g. pictures.
    Files,
    /// Anything else.
    Other,
}

/// One column.
pub(crate) enum Column {
    Cells(Vec<Cell>),
    Numbers(Features),
}

/// Some columns of a table file.
pub(crate) struct Table {
    requested: Vec<ColumnSpec>,
    columns: Vec<Column>,
    lines: Option<Vec<u64>>,
    rows: usize,
}

impl Table {
    /// Columns in the order of `requested`, all of equal length; `lines` are the line numbers of the rows in
    /// a text file.
    pub(crate) fn new(
        requested: &[ColumnSpec],
        columns: Vec<Column>,
        lines: Option<Vec<u64>>,
        rows: usize,
    ) -> Table {
        assert_eq!(requested.len(), columns.len(), "one column per request");
        Table { requested: requested.to_vec(), columns, lines, rows }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// The rows of two files with the same columns; lines are then counted as rows.
    pub(crate) fn append(mut self, other: Table) -> Result<Table> {
        assert_eq!(self.requested, other.requested, "the same columns");
        self.columns = self
            .columns
            .into_iter()
            .zip(other.columns)
            .map(|pair| match pair {
                (Column::Cells(mut cells), Column::Cells(more)) => {
                    cells.extend(more);
                    Ok(Column::Cells(cells))
                }
                (Column::Numbers(rows), Column::Numbers(more)) => {
                    Ok(Column::Numbers(rows.append(more)?))
                }
                _ => Err(Error::content("a column has different types in two files")),
            })
            .collect::<Result<_>>()?;
        self.lines = None;
        self.rows += other.rows;
        Ok(self)
    }

    /// The location of a row in the file.
    pub(crate) fn place(&self, row: usize) -> Place {
        self.lines.as_ref().map_or(Place::Row(row), |lines| Place::Line(lines[row]))
    }

    /// The cells of a column.
    pub(crate) fn cells(&self, name: &str) -> Result<&[Cell]> {
        let at =
            self.requested.iter().position(|w| *w == ColumnSpec::Cells(name.to_owned()));
        match at.map(|at| &self.columns[at]) {
            Some(Column::Cells(cells)) => Ok(cells),
            _ => Err(Error::unknown(
                "column",
                name,
                self.requested.iter().map(ColumnSpec::name),
            )),
        }
    }

    /// The features of a column of lists.
    pub(crate) fn numbers(&self, name: &str) -> Result<&Features> {
        let at =
            self.requested.iter().position(|w| *w == ColumnSpec::Numbers(name.to_owned()));
        match at.map(|at| &self.columns[at]) {
            Some(Column::Numbers(features)) => Ok(features),
            _ => Err(Error::unknown(
                "column",
                name,
                self.requested.iter().map(ColumnSpec::name),
            )),
        }
    }
}

/// The positions of the requested columns.
pub(super) fn places(requested: &[ColumnSpec], there: &[String]) -> Result<Vec<usize>> {
    let place = |want: &ColumnSpec| {
        let name = want.name();
        let mut found = (0..there.len()).filter(|&at| there[at] == name);
        match (found.next(), found.next()) {
            (Some(at), None) => Ok(at),
            (None, _) => {
                Err(Error::unknown("column", name, there.iter().map(String::as_str)))
            }
            (Some(_), Some(_)) => {
                Err(Error::content(format!("two columns are named {name:?}")))
            }
        }
    };
    requested.iter().map(place).collect()
}

/// A column under construction, for formats that are read row by row.
pub(super) enum Building {
    Cells(Vec<Cell>),
    Numbers(Rows),
}

impl Building {
    pub(super) fn new(want: &ColumnSpec, budget: &Budget) -> Building {
        match want {
            ColumnSpec::Cells(_) => Building::Cells(Vec::new()),
            ColumnSpec::Numbers(name) => Building::Numbers(Rows::new(name, budget)),
        }
    }

    pub(super) fn finish(self, path: &std::path::Path) -> Result<Column> {
        match self {
            Building::Cells(cells) => Ok(Column::Cells(cells)),
            Building::Numbers(rows) => rows.finish(path),
        }
    }
}

/// Rows of equal length, appended one by one.
pub(super) struct Rows {
    name: String,
    width: Option<usize>,
    rows: usize,
    spool: Spool,
}

impl Rows {
    pub(super) fn new(name: &str, budget: &Budget) -> Rows {
        let spool = Spool::new(budget);
        Rows { name: name.to_owned(), width: None, rows: 0, spool }
    }

    pub(super) fn push(&mut self, place: Place, row: &[f32]) -> Result<()> {
        let width = *self.width.get_or_insert(row.len());
        if row.len() != width || width == 0 {
            let what = match width {
                0 => "an empty list of numbers".to_owned(),
                _ => format!("{} values, but earlier rows have {width}", row.len()),
            };
            return Err(Error::cell(place, &self.name, what));
        }
        if let Some(at) = row.iter().position(|value| !value.is_finite()) {
            let what = format!("value {at} is {}: every value must be finite", row[at]);
            return Err(Error::cell(place, &self.name, what));
        }
        row.iter().try_for_each(|value| self.spool.push(&value.to_le_bytes()))?;
        self.rows += 1;
        Ok(())
    }

    pub(super) fn finish(self, path: &std::path::Path) -> Result<Column> {
        use crate::data::dense::Layout;
        use crate::data::{Dense, ValueType};
        let width = self.width.ok_or_else(|| {
            Error::content(format!("column {} has no rows", self.name)).at(path)
        })?;
        let (rows, number) = (self.rows, ValueType::F32);
        let layout = Layout { rows, width, offset: 0, number, by_columns: false };
        Ok(Column::Numbers(Features::Dense(Dense::raw(
            self.spool.finish()?,
            layout,
            path,
        )?)))
    }
}
