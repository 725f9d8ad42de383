//! A Parquet file row group by row group: tables that do not fit into memory.

use std::path::{Path, PathBuf};

use parquet::file::reader::FileReader as _;

use super::column::{Column, Sink};
use super::{CELL, File, fault, guarded, names, open};
use crate::Result;
use crate::data::limits::Budget;
use crate::data::read::table::{self, Building, ColumnSpec, Table};

/// Some columns of a file.
pub(crate) struct RowGroups {
    path: PathBuf,
    file: File,
    requested: Vec<ColumnSpec>,
    places: Vec<usize>,
}

impl RowGroups {
    /// Opens a file; reads its footer only.
    pub(crate) fn open(path: &Path, requested: &[ColumnSpec]) -> Result<RowGroups> {
        guarded(|| {
            let file = open(path)?;
            let places = table::places(requested, &names(&file))?;
            let (path, requested) = (path.to_owned(), requested.to_vec());
            Ok(RowGroups { path, file, requested, places })
        })
        .map_err(|err| err.at(path))
    }

    /// Number of row groups.
    pub(crate) fn len(&self) -> usize {
        self.file.num_row_groups()
    }

    /// Number of rows of all groups, as the file declares.
    pub(crate) fn rows(&self) -> usize {
        usize::try_from(self.file.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// One row group.
    pub(crate) fn read(&self, group: usize, budget: &Budget) -> Result<Table> {
        guarded(|| self.table(group, budget)).map_err(|err| err.at(&self.path))
    }

    fn table(&self, group: usize, budget: &Budget) -> Result<Table> {
        let declared = self.file.metadata().row_group(group);
        let rows = u64::try_from(declared.num_rows()).ok();
        let size = fs_err::metadata(&self.path)?.len();
        let cost = (CELL * self.requested.len().max(1)) as u64;
        budget.check(
            "the row group",
            rows.and_then(|rows| rows.checked_mul(cost)),
            size,
        )?;
        let rows = rows.and_then(|rows| usize::try_from(rows).ok()).unwrap_or(0);
        let mut expanded = 0_u64;
        let mut columns = Vec::with_capacity(self.requested.len());
        for (want, &place) in self.requested.iter().zip(&self.places) {
            let mut sink = Sink {
                name: want.name(),
                building: Building::new(want, budget),
                rows: 0,
                grow: &mut |bytes| {
                    let bytes = expanded.checked_add(bytes);
                    expanded = budget.check("the row group", bytes, size)?;
                    Ok(())
                },
            };
            Column::find(&self.file, place).read(
                &self.file,
                &(group..group + 1),
                &mut sink,
            )?;
            if sink.rows != rows {
                return Err(fault(format!(
                    "column {:?} has {} rows in row group {group}, the file declares {rows}",
                    want.name(),
                    sink.rows
                )));
            }
            columns.push(sink.building.finish(&self.path)?);
        }
        Ok(Table::new(&self.requested, columns, None, rows))
    }
}
