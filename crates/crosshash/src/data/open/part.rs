//! One modality of a manifest: selects its items, and reads their ids, labels, pairs and groups.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::super::limits::Budget;
use super::super::manifest::{Group, Items, Manifest, ModalitySource};
use super::super::read::Table;
use super::super::resolve::ReadLabels;
use super::super::{Dropped, Features};
use super::tables::Tables;
use crate::{Error, Result};

/// A modality before its labels are resolved.
pub(in crate::data) struct Source {
    pub(in crate::data) name: String,
    pub(in crate::data) ids: Vec<String>,
    pub(in crate::data) features: Features,
    pub(in crate::data) labels: ReadLabels,
    pub(super) pairs: Option<Vec<String>>,
    pub(super) groups: Option<Vec<String>>,
    pub(super) marks: Option<Vec<String>>,
}

/// A modality of a manifest, with everything that it is read from.
pub(super) struct PartOf<'a> {
    pub(super) manifest: &'a Manifest,
    pub(super) root: &'a Path,
    pub(super) name: &'a str,
    pub(super) source: &'a ModalitySource,
    pub(super) tables: &'a Tables,
    pub(super) budget: &'a Budget,
}

impl PartOf<'_> {
    fn items(&self) -> Option<&Items> {
        // Pictures in class folders, and arrays with a file of ids, need no table.
        self.source.items.as_ref().or(self.manifest.items.as_ref())
    }

    /// The file of a table, to be named in errors. Rows are counted over several files, so only a single
    /// file is named.
    fn table_path(&self, items: &Items) -> Option<PathBuf> {
        match &items.paths(self.root)[..] {
            [path] => Some(path.clone()),
            _ => None,
        }
    }

    /// The column of pair keys.
    fn pair(&self) -> Option<&str> {
        let items = || self.items().and_then(|items| items.pair.as_deref());
        self.source.pair.as_deref().or_else(items)
    }

    pub(super) fn gather(&self, dropped: &mut Vec<Dropped>) -> Result<Source> {
        let table =
            self.items().map(|items| self.tables.get(self.root, items)).transpose()?;
        let given = [
            self.source.features.is_some(),
            self.source.text.is_some(),
            self.source.captions.is_some(),
            self.source.column.is_some(),
            self.source.pictures.is_some(),
            self.source.class_names.is_some(),
        ];
        if given.iter().filter(|&&given| given).count() != 1 {
            return Err(Error::content(
                "give exactly one of features, text, captions, column, pictures and class_names",
            ));
        }
        self.check_effects(table.is_some())?;
        let mut note = |reason: String, items: usize| {
            // A value that never occurs is recorded with 0 items; the inspector warns about it.
            if items > 0 || reason.starts_with("leave_out") {
                dropped.push(Dropped { modality: self.name.to_owned(), reason, items });
            }
        };
        if let Some(pictures) = &self.source.pictures {
            return self.pictures(pictures, table, &mut note);
        }
        if let Some(pictures) = &self.source.class_names {
            return self.class_names(pictures, &mut note);
        }
        if let Some(columns) = &self.source.captions {
            return self.captions(columns.as_slice(), table, &mut note);
        }
        let features = self.rows(table)?;
        let ids = match (&self.source.ids, table) {
            (Some(file), _) => self.listed_ids(file)?,
            (None, Some(table)) => self.ids(table)?,
            (None, None) => (0..features.len()).map(|row| row.to_string()).collect(),
        };
        self.check_lengths(&features, ids.len(), table)?;
        let kept = self.kept(table, ids.len(), &mut note)?;
        self.finish(features, ids, None, table.map(|table| (table, None)), kept)
    }

    pub(super) fn ids(&self, table: &Table) -> Result<Vec<String>> {
        let Some(items) = self.items() else { return Ok(Vec::new()) };
        let located = |err: Error| match self.table_path(items) {
            Some(path) => err.at(&path),
            None => err,
        };
        let Some(id) = &items.id else {
            return Ok((0..table.len()).map(|row| row.to_string()).collect());
        };
        let ids: Vec<String> = table.cells(id)?.iter().map(|cell| cell.text()).collect();
        let mut seen = HashMap::with_capacity(ids.len());
        for (row, name) in ids.iter().enumerate() {
            if name.is_empty() {
                let what = "the id is empty; every item needs an id";
                return Err(located(Error::cell(table.place(row), id, what)));
            }
            if let Some(first) = seen.insert(name, row) {
                let place = table.place(first);
                let what = format!("{name:?} occurs twice, first on {place}");
                return Err(located(Error::cell(table.place(row), id, what)));
            }
        }
        Ok(ids)
    }

    /// The rows that are not excluded by `leave_out`.
    pub(super) fn kept(
        &self,
        table: Option<&Table>,
        n_rows: usize,
        note: &mut impl FnMut(String, usize),
    ) -> Result<Vec<usize>> {
        let mut keep = vec![true; n_rows];
        if let (Some(items), Some(table)) = (self.items(), table) {
            for (column, values) in &items.leave_out {
                let values: BTreeSet<&str> =
                    values.as_slice().iter().map(String::as_str).collect();
                let mut counts: BTreeMap<&str, usize> =
                    values.iter().map(|&value| (value, 0)).collect();
                for (row, cell) in table.cells(column)?.iter().enumerate() {
                    let text = cell.text();
                    if let (true, Some(&value)) = (keep[row], values.get(text.as_str())) {
                        keep[row] = false;
                        *counts.entry(value).or_default() += 1;
                    }
                }
                for (value, count) in counts {
                    note(format!("leave_out: {column} is {value:?}"), count);
                }
            }
        }
        Ok((0..n_rows).filter(|&row| keep[row]).collect())
    }

    /// `row_ids` are the ids of the rows of the items, if they differ from the ids of the items.
    pub(super) fn finish(
        &self,
        features: Features,
        ids: Vec<String>,
        row_ids: Option<&[String]>,
        table: Option<(&Table, Option<&[usize]>)>,
        kept: Vec<usize>,
    ) -> Result<Source> {
        let whole = kept.len() == ids.len();
        let total = table.map_or(ids.len(), |(table, _)| table.len());
        let row =
            |item: usize| table.and_then(|(_, rows)| rows).map_or(item, |rows| rows[item]);
        let rows: Vec<usize> = kept.iter().map(|&item| row(item)).collect();
        let ids: Vec<String> =
            if whole { ids } else { kept.iter().map(|&item| ids[item].clone()).collect() };
        let features = if whole { features } else { features.select(&kept) };
        let table = table.map(|(table, _)| table);
        let path = self.items().and_then(|items| self.table_path(items));
        let row_ids_or_ids = row_ids.unwrap_or(&ids);
        let labels = match self.label_source()? {
            None => ReadLabels::none(rows.len()),
            Some(source) => ReadLabels::read(
                source,
                self.root,
                (table, path),
                total,
                &rows,
                row_ids_or_ids,
                self.budget,
            )?,
        };
        let column = |name: &str| -> Result<Vec<String>> {
            let table = table.ok_or_else(|| no_table(name))?;
            let cells = table.cells(name)?;
            Ok(rows.iter().map(|&row| cells[row].text()).collect())
        };
        let split = self.manifest.split.as_ref();
        let group =
            self.source.group.as_ref().or(split.and_then(|split| split.group.as_ref()));
        let groups = match group {
            None => None,
            Some(Group::Column(name)) => Some(column(name)?),
            Some(Group::Id(id)) => Some(
                row_ids_or_ids
                    .iter()
                    .map(|name| {
                        name.rsplit_once(&id.id_until).map_or(name.as_str(), |s| s.0)
                    })
                    .map(str::to_owned)
                    .collect(),
            ),
        };
        let marks =
            split.and_then(|split| split.column.as_deref()).map(column).transpose()?;
        let pairs = match self.pair() {
            Some(name) => Some(column(name)?),
            None => row_ids.map(<[String]>::to_vec),
        };
        let name = self.name.to_owned();
        Ok(Source { name, ids, features, labels, pairs, groups, marks })
    }
}

pub(super) fn no_table(column: &str) -> Error {
    Error::content(format!(
        "column {column:?} needs a table; add [items] with table = \"...\""
    ))
}
