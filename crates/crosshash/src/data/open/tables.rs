//! The tables of a manifest, each read once with the columns that are needed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::super::limits::Budget;
use super::super::manifest::{Group, Items, Manifest};
use super::super::read::{self, ColumnSpec, Table};
use crate::{Error, Result};

/// All tables, each read once with the columns that are needed.
pub(super) struct Tables(HashMap<Vec<PathBuf>, Table>);

impl Tables {
    pub(super) fn read(
        manifest: &Manifest,
        root: &Path,
        budget: &Budget,
    ) -> Result<Tables> {
        let mut requested: BTreeMap<Vec<PathBuf>, BTreeSet<ColumnSpec>> = BTreeMap::new();
        for source in manifest.modality.values() {
            let Some(items) = source.items.as_ref().or(manifest.items.as_ref()) else {
                continue;
            };
            let columns = requested.entry(items.paths(root)).or_default();
            let mut cells = |name: &str| {
                columns.insert(ColumnSpec::Cells(name.to_owned()));
            };
            items.id.iter().for_each(|id| cells(id));
            items.leave_out.keys().for_each(|column| cells(column));
            let texts = source.text.iter().chain(&source.captions);
            texts.flat_map(|t| t.as_slice()).for_each(|column| cells(column));
            source.pair.iter().chain(&items.pair).for_each(|column| cells(column));
            source.path.iter().for_each(|column| cells(column));
            let labels = source.labels.as_ref().or(manifest.labels.as_ref());
            let columns_of = labels.and_then(|labels| labels.column.as_ref());
            columns_of.iter().flat_map(|c| c.as_slice()).for_each(|column| cells(column));
            let split = manifest.split.as_ref();
            let group =
                source.group.as_ref().or(split.and_then(|split| split.group.as_ref()));
            if let Some(Group::Column(column)) = group {
                cells(column);
            }
            split.iter().filter_map(|s| s.column.as_ref()).for_each(|column| cells(column));
            if let Some(column) = &source.column {
                columns.insert(ColumnSpec::Numbers(column.clone()));
            }
        }
        let mut tables = HashMap::new();
        for (paths, columns) in requested {
            let columns: Vec<ColumnSpec> = columns.into_iter().collect();
            let table = read::tables(&paths, &columns, budget)?;
            tables.insert(paths, table);
        }
        Ok(Tables(tables))
    }

    pub(super) fn get(&self, root: &Path, items: &Items) -> Result<&Table> {
        let table = self.0.get(&items.paths(root));
        table.ok_or_else(|| Error::content("the table was not read"))
    }
}
