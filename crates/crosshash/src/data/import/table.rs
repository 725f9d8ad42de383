//! A table, with the pictures that it names or embeds.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::found::Found;
use super::generated::{self, Generated, ITEMS, PICTURES};
use super::roles::{self, Pictured, Roles};
use super::{Certainty, Place, Report, plain, shown, stem};
use crate::data::Selection;
use crate::data::limits::Budget;
use crate::data::manifest::{
    ArrayFile, Items, LabelSource, Manifest, Many, ModalitySource, Names, SplitSource,
};
use crate::data::read::{self, Cell, Encoding};
use crate::{Error, Result};

/// Names of tables that are preferred to others.
const PREFERRED: [&str; 6] = ["metadata", "items", "samples", "captions", "data", "train"];

/// Texts of a column by which the language is recognised.
const SAMPLE: usize = 1_000;

pub(super) fn propose(
    found: &Found,
    place: &Place,
    report: &mut Report,
) -> Result<Manifest> {
    let tables = choose(found, report)?;
    let roles = roles::recognise(found, &tables, report)?;
    if roles.rows == 0 {
        return Err(Error::content("the table has no rows"));
    }
    let unnamed = !found.pictures.is_empty() && roles.pictures.is_empty();
    if unnamed && found.source.is_dir() && roles.files.is_empty() && found.arrays.is_empty()
    {
        // The pictures are what the folder is about; a table that names none of them is not.
        report.findings.clear();
        for path in &found.tables {
            report.unused(shown(found, path), "it names none of the pictures");
        }
        return super::folders::propose(found, place, report);
    }
    report.items = roles.rows;
    let mut draft = Draft::new(place, &tables, &roles);
    draft.pictures(found, report)?;
    draft.arrays(found, report)?;
    draft.texts(report);
    if draft.modality.is_empty() {
        let names = read::names(&tables[0])?;
        return Err(Error::content(format!(
            "no column looks like text or embeddings, and there are no pictures; there are: {}",
            names.join(", ")
        )));
    }
    if let Some(column) = &roles.split {
        draft.split = given_split(&tables, column, report)?;
    }
    let mut manifest = draft.finish(report)?;
    let mut texts = Vec::new();
    for column in roles.texts.iter().chain(&roles.captions) {
        texts.extend(roles::cells(&tables, column)?.iter().take(SAMPLE).map(Cell::text));
    }
    super::stem_texts(&mut manifest, &texts, report);
    Ok(manifest)
}

/// The table to import: several files with the same columns are one table.
fn choose(found: &Found, report: &mut Report) -> Result<Vec<PathBuf>> {
    let mut groups: Vec<(Vec<String>, Vec<PathBuf>)> = Vec::new();
    for path in &found.tables {
        let names = match read::names(path) {
            Ok(names) => names,
            Err(err) if found.tables.len() > 1 => {
                report.unused(shown(found, path), err.to_string());
                continue;
            }
            Err(err) => return Err(err),
        };
        let ending = path.extension().map(std::ffi::OsStr::to_os_string);
        let same = |(known, paths): &&mut (Vec<String>, Vec<PathBuf>)| {
            *known == names
                && paths[0].extension().map(std::ffi::OsStr::to_os_string) == ending
        };
        match groups.iter_mut().find(same) {
            Some((_, paths)) => paths.push(path.clone()),
            None => groups.push((names, vec![path.clone()])),
        }
    }
    let rank = |(names, paths): &(Vec<String>, Vec<PathBuf>)| {
        let own = stem(&paths[0]).to_lowercase();
        let preferred = PREFERRED.iter().any(|name| own.starts_with(name));
        let known = names.iter().filter(|name| roles::is_known(name)).count();
        (known > 0, preferred, known)
    };
    let best = (0..groups.len()).rev().max_by_key(|&at| rank(&groups[at]));
    let best = best.ok_or_else(|| Error::content("there is no readable table"))?;
    let (_, tables) = groups.remove(best);
    for (_, paths) in groups {
        for path in paths {
            report.unused(shown(found, &path), "another table is used; its columns differ");
        }
    }
    let name = match &tables[..] {
        [one] => format!("table {}", shown(found, one)),
        [first, ..] => format!("{} tables {} ...", tables.len(), shown(found, first)),
        [] => "table".to_owned(),
    };
    match read::text_format(&tables[0])? {
        Some(format) => {
            let sure = match format.encoding {
                Encoding::Windows1252 => Certainty::Likely,
                _ => Certainty::Certain,
            };
            report.used(name, format.to_string(), sure);
        }
        None => report.used(name, "one row per item", Certainty::Certain),
    }
    Ok(tables)
}

/// A manifest under construction.
struct Draft<'a> {
    place: &'a Place,
    tables: &'a [PathBuf],
    roles: &'a Roles<'a>,
    id: Option<String>,
    modality: BTreeMap<String, ModalitySource>,
    split: Option<SplitSource>,
}

impl<'a> Draft<'a> {
    fn new(place: &'a Place, tables: &'a [PathBuf], roles: &'a Roles<'a>) -> Draft<'a> {
        let id = roles.id.clone();
        Draft { place, tables, roles, id, modality: BTreeMap::new(), split: None }
    }

    fn pictures(&mut self, found: &Found, report: &mut Report) -> Result<()> {
        let all = &self.roles.pictures;
        for Pictured { source, under, matched, column } in all {
            let name = if all.len() == 1 { "image".to_owned() } else { stem(&source.path) };
            let whole = source.listing.ids.len();
            let folder = match under {
                Some(under) => source.path.join(under),
                None => source.path.clone(),
            };
            let (path, under) = if source.path.is_dir() {
                (folder.clone(), None)
            } else {
                (source.path.clone(), under.clone())
            };
            let role = format!("pictures of modality {name} ({whole} files)");
            report.used(shown(found, &folder), role, Certainty::Certain);
            let missing = self.roles.rows - matched;
            if missing > 0 {
                let why =
                    format!("{missing} rows name no picture in {}", shown(found, &folder));
                report.unused("rows", why);
            }
            let pictures = Some(self.place.name(&path));
            let path =
                Some(column.clone()).filter(|column| Some(column) != self.id.as_ref());
            let source =
                ModalitySource { pictures, under, path, ..ModalitySource::default() };
            self.modality.insert(name, source);
        }
        for (k, column) in self.roles.files.iter().enumerate() {
            if k > 0 {
                report.unused(column, "only one column of embedded pictures is supported");
                continue;
            }
            let mut ids: Vec<String> =
                (0..self.roles.rows).map(|row| row.to_string()).collect();
            if let Some(id) = &self.id {
                let named: Vec<String> =
                    roles::cells(self.tables, id)?.iter().map(Cell::text).collect();
                if generated::can_name_entries(&named) {
                    ids = named;
                } else {
                    report
                        .unused(id, "as an id: it cannot name a file; ids are row numbers");
                    self.id = None;
                }
            }
            let tables = self.tables.to_vec();
            report.generated.push(Generated::Pictures {
                tables,
                column: column.clone(),
                ids,
            });
            report.used(
                PICTURES,
                format!("written: the pictures of column {column}"),
                Certainty::Certain,
            );
            let pictures = Some(PathBuf::from(PICTURES));
            let source = ModalitySource { pictures, ..ModalitySource::default() };
            self.modality.insert("image".into(), source);
        }
        Ok(())
    }

    fn arrays(&mut self, found: &Found, report: &mut Report) -> Result<()> {
        let has_pictures = !self.modality.is_empty();
        for array in &found.arrays {
            let name = shown(found, array);
            let features = match read::array(array, None, false, &Budget::default()) {
                Ok(features) => features,
                Err(err) => {
                    report.unused(name, err.to_string());
                    continue;
                }
            };
            if features.len() != self.roles.rows {
                let why =
                    format!("{} rows, the table has {}", features.len(), self.roles.rows);
                report.unused(name, why);
                continue;
            }
            let own = stem(array);
            let lower = own.to_lowercase();
            let of_pictures = ["image", "img", "picture", "photo", "visual"]
                .iter()
                .any(|word| lower.starts_with(word));
            if has_pictures && of_pictures {
                report.unused(name, "features of the pictures, which are there themselves");
                continue;
            }
            report.used(name, format!("features of modality {own}"), Certainty::Certain);
            let features = Some(Many::One(ArrayFile::File(self.place.name(array))));
            self.modality
                .insert(own, ModalitySource { features, ..ModalitySource::default() });
        }
        for column in &self.roles.embeddings {
            let source = ModalitySource {
                column: Some(column.clone()),
                ..ModalitySource::default()
            };
            self.modality.insert(plain(column), source);
        }
        Ok(())
    }

    fn texts(&mut self, report: &mut Report) {
        let roles = self.roles;
        let mut add = |name: &str, source: ModalitySource| {
            self.modality.insert(name.to_owned(), source);
        };
        if !roles.captions.is_empty() {
            let captions = Some(Many::Several(roles.captions.clone()));
            add("text", ModalitySource { captions, ..ModalitySource::default() });
            if !roles.texts.is_empty() {
                let text = Some(Many::Several(roles.texts.clone()));
                add("title", ModalitySource { text, ..ModalitySource::default() });
            }
        } else if !roles.texts.is_empty() {
            let text = Some(Many::Several(roles.texts.clone()));
            add("text", ModalitySource { text, ..ModalitySource::default() });
        } else if let Some(label) = &roles.label {
            // Without other texts, a label is also the text, so that typing it finds something.
            if label.names.is_none() && !label.numbers {
                let text = Some(Many::One(label.name.clone()));
                add("text", ModalitySource { text, ..ModalitySource::default() });
                report.used(&label.name, "also the text of the item", Certainty::Certain);
            }
        }
    }

    fn finish(mut self, report: &mut Report) -> Result<Manifest> {
        let label = self.roles.label.as_ref();
        let mut labels = label.map(|label| LabelSource {
            column: Some(Many::One(label.name.clone())),
            separator: label.separator.map(str::to_owned),
            numbers: label.numbers,
            names: label.names.clone().map(Names::List),
            ..LabelSource::default()
        });
        let table = match self.tables {
            [one] => Many::One(self.place.name(one)),
            several => {
                Many::Several(several.iter().map(|path| self.place.name(path)).collect())
            }
        };
        let mut items = Items { table, id: self.id.clone(), ..Items::default() };
        let needs_class_names = label.is_some_and(|label| label.names.is_some())
            && !self.modality.contains_key("text");
        if let Some(column) = &self.roles.repeated {
            self.group_rows(column, &mut items, &mut labels, report)?;
        } else if let (true, Some(label)) = (needs_class_names, label) {
            self.name_classes(label, &mut items, &mut labels, report)?;
        }
        Ok(Manifest {
            items: Some(items),
            labels,
            split: self.split,
            modality: self.modality,
            ..Manifest::default()
        })
    }

    /// One row per picture instead of one row per caption.
    fn group_rows(
        &mut self,
        column: &str,
        items: &mut Items,
        labels: &mut Option<LabelSource>,
        report: &mut Report,
    ) -> Result<()> {
        let paths = roles::cells(self.tables, column)?;
        let mut rows: Vec<Map<String, Value>> = Vec::new();
        let mut of: Vec<usize> = Vec::with_capacity(paths.len());
        let mut known: HashMap<String, usize> = HashMap::new();
        for cell in &paths {
            let path = cell.text();
            let row = *known.entry(path.clone()).or_insert_with(|| {
                let mut row = Map::new();
                row.insert("id".into(), json!(path));
                row.insert("captions".into(), json!([]));
                rows.push(row);
                rows.len() - 1
            });
            of.push(row);
        }
        let texts: Vec<String> =
            self.roles.texts.iter().chain(&self.roles.captions).cloned().collect();
        for text in &texts {
            for (cell, &row) in roles::cells(self.tables, text)?.iter().zip(&of) {
                let Some(Value::Array(list)) = rows[row].get_mut("captions") else {
                    continue;
                };
                let texts = match cell {
                    Cell::Text(text) => std::slice::from_ref(text),
                    Cell::List(list) => &list[..],
                };
                list.extend(
                    texts.iter().filter(|t| !t.trim().is_empty()).map(|t| json!(t)),
                );
            }
        }
        // Labels and parts are those of the first row of a picture.
        let label = self.roles.label.as_ref().map(|label| label.name.clone());
        let split = self.split.as_ref().and_then(|split| split.column.clone());
        for name in label.iter().chain(&split) {
            for (cell, &row) in roles::cells(self.tables, name)?.iter().zip(&of).rev() {
                let value = match cell {
                    Cell::Text(text) => json!(text),
                    Cell::List(list) => json!(list),
                };
                rows[row].insert(name.clone(), value);
            }
        }
        let count = rows.len();
        report.items = count;
        report.used(
            ITEMS,
            format!("written: {count} pictures with their captions, one row each"),
            Certainty::Certain,
        );
        report.generated.push(Generated::Items(rows));
        *items = Items {
            table: Many::One(PathBuf::from(ITEMS)),
            id: Some("id".into()),
            ..Items::default()
        };
        if labels.is_some() && label.is_none() {
            *labels = None;
        }
        for source in self.modality.values_mut().filter(|source| source.path.is_some()) {
            source.path = None; // the id is the path
        }
        self.modality.retain(|name, source| name != "title" || source.text.is_none());
        if let Some(text) = self.modality.get_mut("text") {
            *text = ModalitySource {
                captions: Some(Many::One("captions".into())),
                ..ModalitySource::default()
            };
        }
        Ok(())
    }

    /// A table with the names of classes instead of their numbers, as labels and as texts.
    fn name_classes(
        &mut self,
        label: &roles::LabelColumn,
        items: &mut Items,
        labels: &mut Option<LabelSource>,
        report: &mut Report,
    ) -> Result<()> {
        let Some(names) = &label.names else { return Ok(()) };
        let ids = match &self.id {
            Some(id) => roles::cells(self.tables, id)?.iter().map(Cell::text).collect(),
            None => {
                (0..self.roles.rows).map(|row| row.to_string()).collect::<Vec<String>>()
            }
        };
        let name = |number: &String| -> Option<String> {
            names.get(number.parse::<usize>().ok()?).cloned()
        };
        let split = self.split.as_ref().and_then(|split| split.column.clone());
        let parts =
            split.as_ref().map(|name| roles::cells(self.tables, name)).transpose()?;
        let mut rows = Vec::with_capacity(ids.len());
        let cells = roles::cells(self.tables, &label.name)?;
        for (row, (id, cell)) in ids.into_iter().zip(&cells).enumerate() {
            let numbers = match cell {
                Cell::Text(number) => std::slice::from_ref(number),
                Cell::List(numbers) => &numbers[..],
            };
            let classes: Vec<String> = numbers.iter().filter_map(name).collect();
            let mut item = Map::new();
            item.insert("id".into(), json!(id));
            let words = classes.join(", ").replace(['_', '-', '.', '+'], " ");
            item.insert("class".into(), json!(classes));
            item.insert("text".into(), json!(words));
            if let (Some(split), Some(parts)) = (&split, &parts) {
                item.insert(split.clone(), json!(parts[row].text()));
            }
            rows.push(item);
        }
        report.used(
            ITEMS,
            "written: the names of the classes, as labels and as texts",
            Certainty::Certain,
        );
        report.generated.push(Generated::Items(rows));
        *items = Items {
            table: Many::One(PathBuf::from(ITEMS)),
            id: Some("id".into()),
            ..Items::default()
        };
        let column = Some(Many::One("class".to_owned()));
        *labels = Some(LabelSource { column, ..LabelSource::default() });
        let text = Some(Many::One("text".to_owned()));
        self.modality
            .insert("text".into(), ModalitySource { text, ..ModalitySource::default() });
        Ok(())
    }
}

fn given_split(
    tables: &[PathBuf],
    column: &str,
    report: &mut Report,
) -> Result<Option<SplitSource>> {
    let cells = roles::cells(tables, column)?;
    let values: BTreeSet<String> = cells.iter().map(Cell::text).collect();
    let one = |names: &[&str]| {
        let value = names.iter().find(|name| values.contains(**name));
        value.map(|value| Selection::Marked(vec![(*value).to_owned()]))
    };
    let (query, database) = (one(&["query", "test"]), one(&["database", "train"]));
    if query.is_none() || database.is_none() {
        report.unused(column, "as a split: it has no values train and test");
        return Ok(None);
    }
    let (train, validation) =
        (one(&["train"]), one(&["validation", "valid", "val", "dev"]));
    report.used(column, "names the parts of the split", Certainty::Certain);
    let column = Some(column.to_owned());
    Ok(Some(SplitSource {
        column,
        query,
        database,
        train,
        validation,
        ..SplitSource::default()
    }))
}
