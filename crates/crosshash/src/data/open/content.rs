//! The items of a modality: rows of arrays or tables, captions, pictures.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::limits::Budget;
use super::super::manifest::ArrayFile;
use super::super::picture_index::PictureIndex;
use super::super::read::{self, Cell, Table};
use super::super::{Features, Texts};
use super::part::{PartOf, Source, no_table};
use crate::{Error, Result};

impl PartOf<'_> {
    /// Features that have one row per row of the table.
    pub(super) fn rows(&self, table: Option<&Table>) -> Result<Features> {
        if let Some(files) = &self.source.features {
            return arrays(self.root, files.as_slice(), false, self.budget);
        }
        if let Some(column) = &self.source.column {
            let table = table.ok_or_else(|| no_table(column))?;
            return Ok(table.numbers(column)?.clone());
        }
        let names = self.source.text.as_ref().map_or(&[][..], |text| text.as_slice());
        let table = table.ok_or_else(|| no_table(names.first().map_or("", |name| name)))?;
        let columns =
            names.iter().map(|name| table.cells(name)).collect::<Result<Vec<_>>>()?;
        let mut texts = Texts::default();
        for row in 0..table.len() {
            let parts: Vec<String> =
                columns.iter().map(|cells| cells[row].text()).collect();
            let parts: Vec<&str> =
                parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
            texts.push(&parts.join("\n"));
        }
        Ok(Features::Text(texts))
    }

    /// The names of the class folders of pictures, as texts with the ids of the pictures.
    pub(super) fn class_names(
        &self,
        place: &Path,
        note: &mut impl FnMut(String, usize),
    ) -> Result<Source> {
        let under = self.source.under.as_deref().unwrap_or("");
        let listing = read::pictures(&self.root.join(place), under)?;
        let class = |id: &String| match id.split_once('/') {
            Some((class, _)) => class.replace(['_', '-', '.', '+'], " "),
            None => String::new(),
        };
        let texts: Vec<String> = listing.ids.iter().map(class).collect();
        let kept: Vec<usize> = (0..texts.len()).filter(|&k| !texts[k].is_empty()).collect();
        note("pictures that are not in a class folder".into(), texts.len() - kept.len());
        let texts: Texts = texts.into_iter().collect();
        self.finish(Features::Text(texts), listing.ids, None, None, kept)
    }

    /// One text item per text that is not empty; its pair key is the id of the row.
    pub(super) fn captions(
        &self,
        columns: &[String],
        table: Option<&Table>,
        note: &mut impl FnMut(String, usize),
    ) -> Result<Source> {
        let table =
            table.ok_or_else(|| no_table(columns.first().map_or("", |name| name)))?;
        let cells =
            columns.iter().map(|name| table.cells(name)).collect::<Result<Vec<_>>>()?;
        let row_ids = self.ids(table)?;
        let (mut texts, mut ids) = (Texts::default(), Vec::new());
        let (mut rows, mut keys) = (Vec::new(), Vec::new());
        let mut empty = 0;
        for row in self.kept(Some(table), table.len(), note)? {
            let before = rows.len();
            let each = cells.iter().flat_map(|cells| match &cells[row] {
                Cell::Text(text) => std::slice::from_ref(text),
                Cell::List(list) => &list[..],
            });
            for (k, text) in each.enumerate() {
                if text.trim().is_empty() {
                    continue;
                }
                texts.push(text);
                ids.push(format!("{}#{}", row_ids[row], k + 1));
                keys.push(row_ids[row].clone());
                rows.push(row);
            }
            empty += usize::from(rows.len() == before);
        }
        note("rows of the table without a caption".into(), empty);
        let all = (0..ids.len()).collect();
        let table = Some((table, Some(&rows[..])));
        self.finish(Features::Text(texts), ids, Some(&keys), table, all)
    }

    pub(super) fn pictures(
        &self,
        place: &Path,
        table: Option<&Table>,
        note: &mut impl FnMut(String, usize),
    ) -> Result<Source> {
        let under = self.source.under.as_deref().unwrap_or("");
        let listing = read::pictures(&self.root.join(place), under)?;
        note("files that are not pictures".into(), listing.others);
        let Some(table) = table else {
            let kept = (0..listing.ids.len()).collect();
            let features = Features::Pictures(listing.pictures);
            return self.finish(features, listing.ids, None, None, kept);
        };
        // The picture of a row is found by path, or by id.
        let ids = self.ids(table)?;
        let names: Vec<String> = match &self.source.path {
            Some(column) => table.cells(column)?.iter().map(|cell| cell.text()).collect(),
            None => ids.clone(),
        };
        let index = PictureIndex::new(&listing);
        let kept = self.kept(Some(table), ids.len(), note)?;
        let (mut rows, mut found, mut missing) = (Vec::new(), Vec::new(), 0);
        for row in kept {
            match index.find(&names[row]) {
                Some(at) => {
                    rows.push(row);
                    found.push(at);
                }
                None => missing += 1,
            }
        }
        if found.is_empty() {
            return Err(Error::content(format!(
                "no row has a picture: the table contains e.g. {:?}, the pictures are named e.g. \
                 {:?}",
                names.first().map_or("", |name| name),
                listing.ids.first().map_or("", |id| id)
            )));
        }
        note("rows of the table without a picture".into(), missing);
        let used: BTreeSet<usize> = found.iter().copied().collect();
        note("pictures without a row in the table".into(), listing.ids.len() - used.len());
        let features = Features::Pictures(listing.pictures.select(&found));
        let ids: Vec<String> = rows.iter().map(|&row| ids[row].clone()).collect();
        let all = (0..ids.len()).collect();
        self.finish(features, ids, None, Some((table, Some(&rows))), all)
    }
}

/// Concatenated arrays; with `vectors`, a one-dimensional array has one row per value.
pub(in crate::data) fn arrays(
    root: &Path,
    files: &[ArrayFile],
    vectors: bool,
    budget: &Budget,
) -> Result<Features> {
    let mut all: Option<Features> = None;
    for file in files {
        let (file, key, transpose) = match file {
            ArrayFile::File(file) => (file, None, false),
            ArrayFile::Keyed(keyed) => (&keyed.file, keyed.key.as_deref(), keyed.transpose),
        };
        let path = root.join(file);
        let mut next = read::array(&path, key, vectors, budget)?;
        if transpose {
            next = next.transpose().map_err(|err| err.at(&path))?;
        }
        all = Some(match all {
            None => next,
            Some(all) => all.append(next).map_err(|err| err.at(&path))?,
        });
    }
    all.ok_or_else(|| Error::content("an empty list of files"))
}
