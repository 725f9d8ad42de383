//! What the columns of a table are: by name, by content, and by the pictures that they name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::column::Column;
use super::found::{Found, PictureSource};
use super::{Certainty, Report};
use crate::data::limits::Budget;
use crate::data::picture_index::PictureIndex;
use crate::data::read::{self, Cell, ColumnKind, ColumnSpec};
use crate::{Error, Result};

const IDS: [&str; 9] =
    ["id", "image_id", "item_id", "key", "hexcode", "uid", "sku", "index", "article_id"];
const PATHS: [&str; 10] = [
    "path",
    "file_name",
    "filename",
    "file",
    "image_path",
    "image",
    "img",
    "filepath",
    "picture",
    "photo",
];
const TEXTS: [&str; 17] = [
    "text",
    "caption",
    "captions",
    "description",
    "title",
    "annotation",
    "sentence",
    "sentences",
    "tags",
    "body",
    "headline",
    "summary",
    "prompt",
    "keywords",
    "notes",
    "product_name",
    "name",
];
const LABELS: [&str; 10] = [
    "labels",
    "label",
    "classes",
    "class",
    "categories",
    "category",
    "group",
    "genre",
    "topic",
    "tags",
];
const SPLITS: [&str; 3] = ["split", "part", "subset"];
const EMBEDDINGS: [&str; 4] = ["embedding", "embeddings", "features", "vector"];

/// Whether a column name is known.
pub(super) fn is_known(name: &str) -> bool {
    let name = name.to_lowercase();
    [&IDS[..], &PATHS, &TEXTS, &LABELS].iter().any(|names| names.contains(&name.as_str()))
}

/// Whether a name is one of `known`, or begins or ends with it and `_`.
fn is_like(name: &str, known: &[&str]) -> bool {
    let name = name.to_lowercase().replace([' ', '-'], "_");
    known.iter().any(|known| {
        let rest = |rest: Option<&str>| rest.is_some_and(|rest| rest.is_empty());
        rest(name.strip_prefix(known))
            || name.starts_with(&format!("{known}_"))
            || name.ends_with(&format!("_{known}"))
    })
}

/// The pictures of a table.
pub(super) struct Pictured<'a> {
    pub(super) source: &'a PictureSource,
    /// Only the pictures below this subfolder.
    pub(super) under: Option<String>,
    /// Rows of the table with a picture.
    pub(super) matched: usize,
    pub(super) column: String,
}

/// The columns of a table with their roles.
pub(super) struct Roles<'a> {
    pub(super) rows: usize,
    pub(super) id: Option<String>,
    pub(super) pictures: Vec<Pictured<'a>>,
    /// Columns of embedded pictures.
    pub(super) files: Vec<String>,
    pub(super) texts: Vec<String>,
    pub(super) captions: Vec<String>,
    pub(super) label: Option<LabelColumn>,
    pub(super) split: Option<String>,
    pub(super) embeddings: Vec<String>,
    /// The column whose value repeats because a row is one caption of a picture.
    pub(super) repeated: Option<String>,
}

/// A column of labels.
pub(super) struct LabelColumn {
    pub(super) name: String,
    pub(super) separator: Option<&'static str>,
    pub(super) numbers: bool,
    /// The names of the classes, if the file declares them.
    pub(super) names: Option<Vec<String>>,
}

/// The cells of a column of several files.
pub(super) fn cells(tables: &[PathBuf], column: &str) -> Result<Vec<Cell>> {
    let wanted = [ColumnSpec::Cells(column.to_owned())];
    let table = read::tables(tables, &wanted, &Budget::default())?;
    Ok(table.cells(column)?.to_vec())
}

/// Recognises the roles of all columns and reports each.
pub(super) fn recognise<'a>(
    found: &'a Found,
    tables: &[PathBuf],
    report: &mut Report,
) -> Result<Roles<'a>> {
    let first = tables.first().ok_or_else(|| Error::content("there is no table"))?;
    let kinds = read::kinds(first)?;
    let mut columns: Vec<Column> = Vec::new();
    let mut all_cells: BTreeMap<String, Vec<Cell>> = BTreeMap::new();
    let mut roles = Roles {
        rows: 0,
        id: None,
        pictures: Vec::new(),
        files: Vec::new(),
        texts: Vec::new(),
        captions: Vec::new(),
        label: None,
        split: None,
        embeddings: Vec::new(),
        repeated: None,
    };
    let mut classes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, kind) in kinds {
        match kind {
            ColumnKind::Numbers => {
                report.used(&name, "embeddings: a modality of its own", Certainty::Certain);
                roles.embeddings.push(name);
            }
            ColumnKind::Files => {
                report.used(&name, "embedded pictures", Certainty::Certain);
                roles.files.push(name);
            }
            ColumnKind::Other => report
                .unused(&name, "contains neither texts, numbers, lists of these nor files"),
            ColumnKind::Cells | ColumnKind::Classes(_) => {
                if let ColumnKind::Classes(names) = kind {
                    classes.insert(name.clone(), names);
                }
                let cells = cells(tables, &name)?;
                let column = Column::new(&name, &cells);
                if column.lists > 0.5 && is_like(&name, &EMBEDDINGS) {
                    report.used(
                        &name,
                        "embeddings: a modality of its own",
                        Certainty::Likely,
                    );
                    roles.embeddings.push(name);
                    continue;
                }
                columns.push(column);
                all_cells.insert(name, cells);
            }
        }
    }
    roles.rows = columns.first().map_or(0, |column| column.rows);
    let mut free: BTreeSet<usize> = (0..columns.len()).collect();

    // Columns without content.
    for (at, column) in columns.iter().enumerate() {
        if column.filled == 0 {
            free.remove(&at);
            report.unused(&column.name, "all its cells are empty");
        }
    }
    let named = |free: &BTreeSet<usize>, known: &[&str], fits: &dyn Fn(&Column) -> bool| {
        known.iter().find_map(|known| {
            let same = |at: &&usize| columns[**at].name.to_lowercase() == *known;
            free.iter().filter(same).find(|at| fits(&columns[**at])).copied()
        })
    };

    // Pictures, by the column that names the most of them.
    for source in &found.pictures {
        let matched = best_match(source, &columns, &all_cells, &free);
        let Some((at, under, matched)) = matched else {
            let name = super::shown(found, &source.path);
            if roles.files.is_empty() {
                let pictures = source.listing.ids.len();
                let why = format!("no column names its {pictures} pictures");
                report.unused(format!("pictures in {name}"), why);
            }
            continue;
        };
        let column = columns[at].name.clone();
        roles.pictures.push(Pictured { source, under, matched, column });
    }
    let mut path_column = None;
    for pictured in &roles.pictures {
        let share = pictured.matched as f64 / roles.rows.max(1) as f64;
        let sure = if share >= 0.9 { Certainty::Certain } else { Certainty::Likely };
        let role = format!(
            "names the pictures: {} of {} rows have one",
            pictured.matched, roles.rows
        );
        if path_column.as_ref() != Some(&pictured.column) {
            report.used(&pictured.column, role, sure);
        }
        path_column = Some(pictured.column.clone());
    }
    if let Some(column) = &path_column {
        free.retain(|&at| columns[at].name != *column);
        let at = columns.iter().position(|c| c.name == *column).unwrap_or(0);
        let path = &columns[at];
        if path.distinct * 5 < path.filled * 4 && path.distinct > 1 {
            roles.repeated = Some(column.clone());
        }
    }

    // Ids.
    let by_name = named(&free, &IDS, &|column| column.is_unique());
    let like_id = || {
        let fits = |at: &&usize| {
            columns[**at].name.to_lowercase().ends_with("id") && columns[**at].is_unique()
        };
        free.iter().find(fits).copied()
    };
    let path_at = path_column
        .as_ref()
        .and_then(|name| columns.iter().position(|column| column.name == *name));
    let unique_path = path_at.filter(|&at| columns[at].is_unique());
    let id = by_name.or_else(like_id).or(unique_path);
    match id {
        Some(at) => {
            free.remove(&at);
            roles.id = Some(columns[at].name.clone());
            if Some(at) != unique_path {
                report.used(&columns[at].name, "id of the item", Certainty::Certain);
            }
        }
        None if roles.repeated.is_some() => {}
        None => {
            report.used(
                "row numbers",
                "ids of the items: no column is unique",
                Certainty::Certain,
            );
        }
    }

    // Split, addresses, file names without files.
    if let Some(at) = named(&free, &SPLITS, &|column| column.distinct <= 8) {
        free.remove(&at);
        roles.split = Some(columns[at].name.clone());
    }
    for at in free.clone() {
        let column = &columns[at];
        if column.addresses > 0.9 {
            free.remove(&at);
            report.used(
                &column.name,
                "addresses, shown with results; they are not downloaded",
                Certainty::Certain,
            );
        } else if column.files > 0.9 {
            free.remove(&at);
            let why = if found.pictures.is_empty() {
                "names pictures, but there are none beside the table"
            } else {
                "names pictures, but another column names more of them"
            };
            report.unused(&column.name, why);
        }
    }

    // Labels by name.
    let is_label = |column: &Column| {
        let several = column.separator.is_some() || column.lists > 0.5;
        let few = column.values * 2 <= column.filled || column.filled < 20;
        several || few
    };
    let declared = columns.iter().position(|column| classes.contains_key(&column.name));
    let declared = declared.filter(|at| free.contains(at));
    let label = match declared.or_else(|| named(&free, &LABELS, &is_label)) {
        Some(at) => Some((at, Certainty::Certain)),
        None => {
            let like = free.iter().copied().find(|&at| {
                is_like(&columns[at].name, &LABELS) && columns[at].is_categorical()
            });
            like.map(|at| (at, Certainty::Likely))
        }
    };
    let mut text_at: Vec<usize> = Vec::new();
    for &at in &free {
        let column = &columns[at];
        let own = Some(at) == label.map(|(at, _)| at);
        if !own && column.numbers < 0.9 && is_like(&column.name, &TEXTS) {
            text_at.push(at);
        }
    }
    let by_name: BTreeSet<usize> = text_at.iter().copied().collect();
    for &at in &free {
        let own = Some(at) == label.map(|(at, _)| at);
        if !own && !by_name.contains(&at) && columns[at].is_prose() {
            text_at.push(at);
        }
    }
    // Labels by content, if nothing has their name.
    let label = label.or_else(|| {
        let rest = free.iter().copied().filter(|at| !text_at.contains(at));
        let mut rest =
            rest.filter(|&at| columns[at].is_categorical() && columns[at].values <= 500);
        rest.next().map(|at| (at, Certainty::Guess))
    });
    if let Some((at, certainty)) = label {
        free.remove(&at);
        let column = &columns[at];
        let several =
            column.separator.map_or(String::new(), |s| format!(", separated by {s:?}"));
        let role = format!("labels: {} different ones{several}", column.values);
        report.used(&column.name, role, certainty);
        let names = classes.remove(&column.name);
        roles.label = Some(LabelColumn {
            name: column.name.clone(),
            separator: column.separator.filter(|_| column.lists < 0.5),
            numbers: names.is_some() || column.label_numbers,
            names,
        });
    }

    // Texts without near-duplicates.
    let mut kept: Vec<usize> = Vec::new();
    for at in text_at {
        free.remove(&at);
        let column = &columns[at];
        if let Some(&same) = kept.iter().find(|&&other| column.is_nearly(&columns[other])) {
            let why = format!("nearly the same as {}", columns[same].name);
            report.unused(&column.name, why);
            continue;
        }
        kept.push(at);
    }
    let is_list = |at: &usize| columns[*at].lists > 0.5 && columns[*at].words >= 3.0;
    let numbered: Vec<usize> =
        kept.iter().copied().filter(|&at| is_numbered(&columns[at].name)).collect();
    let captions = if numbered.len() > 1 {
        numbered
    } else {
        kept.iter().copied().filter(is_list).take(1).collect()
    };
    for at in kept {
        let name = &columns[at].name;
        let certainty =
            if by_name.contains(&at) { Certainty::Certain } else { Certainty::Likely };
        if captions.contains(&at) {
            report.used(
                name,
                "captions: items of their own, paired with the picture",
                certainty,
            );
            roles.captions.push(name.clone());
        } else {
            report.used(name, "text", certainty);
            roles.texts.push(name.clone());
        }
    }
    for at in free {
        let kind = if columns[at].numbers > 0.9 { "number" } else { "text" };
        let role = format!("field for filters and results ({kind})");
        report.used(&columns[at].name, role, Certainty::Certain);
    }
    Ok(roles)
}

/// Whether a name ends in a number, as `caption_2`.
fn is_numbered(name: &str) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    stem.len() < name.len() && is_like(stem.trim_end_matches('_'), &TEXTS)
}

/// The column that names the most pictures of a source, with the subfolder to use and the number of rows;
/// `None` if no column names any picture for a tenth of its rows.
fn best_match(
    source: &PictureSource,
    columns: &[Column],
    cells: &BTreeMap<String, Vec<Cell>>,
    free: &BTreeSet<usize>,
) -> Option<(usize, Option<String>, usize)> {
    let whole = PictureIndex::new(&source.listing);
    let count = |index: &PictureIndex, at: usize| {
        let cells = cells.get(&columns[at].name).map_or(&[][..], Vec::as_slice);
        cells.iter().filter(|cell| index.find(&cell.text()).is_some()).count()
    };
    // A file name is better than a text that happens to be one; the first column is better than a later.
    let rank = |at: usize, matched: usize| {
        (
            matched,
            columns[at].files > 0.5,
            is_like(&columns[at].name, &PATHS),
            usize::MAX - at,
        )
    };
    let best = free.iter().map(|&at| (at, count(&whole, at)));
    let (at, matched) = best.max_by_key(|&(at, matched)| rank(at, matched))?;
    let rows = columns[at].rows;
    let mut found = (at, None, matched);
    if matched < rows {
        // The same file names may be in several folders.
        let tops: BTreeSet<&str> = source
            .listing
            .ids
            .iter()
            .filter_map(|id| id.split_once('/').map(|(top, _)| top))
            .collect();
        for top in tops.into_iter().take(20) {
            let Ok(listing) = read::pictures(&source.path, top) else { continue };
            let index = PictureIndex::new(&listing);
            for &at in free {
                let matched = count(&index, at);
                if matched > found.2 {
                    found = (at, Some(top.to_owned()), matched);
                }
            }
        }
    }
    (found.2 * 10 >= rows && found.2 > 0).then_some(found)
}
