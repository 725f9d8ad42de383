//! `ItemMeta`: columns of item tables that are neither ids, texts, paths nor features, for filters
//! of a service. Training does not read them.
//!
//! A column has one type: numbers or bools if all its cells are, texts otherwise. Empty cells are no
//! values. The manifest lists the columns (`meta = ["price", "brand"]`); by default all columns are
//! read that contain texts, numbers or short lists of these.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use crosshash_codes::index::FieldValue;

use super::limits::Budget;
use super::manifest::{Items, Manifest, ModalitySource};
use super::read::{self, Cell, ColumnSpec, Table};
use super::{OpenOptions, emoji};
use crate::Result;

/// Longer lists are features, which filters do not need.
const LONGEST_LIST: usize = 64;
/// The value of `meta` for all columns.
const ALL: &str = "all";

/// The fields of the items of one modality.
#[derive(Debug, Clone, Default)]
pub struct ItemMeta {
    names: Vec<String>,
    /// One column per name; a cell may be missing.
    columns: Vec<Vec<Option<FieldValue>>>,
    rows: HashMap<String, usize>,
}

impl ItemMeta {
    /// The names of the fields.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The fields of an item.
    pub fn fields(&self, id: &str) -> impl Iterator<Item = (&str, &FieldValue)> {
        let row = self.rows.get(id).copied();
        self.names.iter().zip(&self.columns).filter_map(move |(name, column)| {
            Some((name.as_str(), column.get(row?)?.as_ref()?))
        })
    }
}

/// Reads the fields of the items of every modality that has an item table, in the order of the
/// modalities' names.
pub fn read_meta(path: &Path, options: &OpenOptions) -> Result<Vec<(String, ItemMeta)>> {
    if path == Path::new(emoji::NAME) && !path.exists() {
        return Ok(Vec::new());
    }
    let (manifest, path) = Manifest::read(path)?;
    let beside = path.parent().unwrap_or(Path::new("."));
    let root = options.root.as_deref().unwrap_or(beside);
    let budget = Budget::new(options.limits);
    let mut all = Vec::new();
    for (name, source) in &manifest.modality {
        let Some(items) = source.items.as_ref().or(manifest.items.as_ref()) else {
            continue;
        };
        let meta = of_table(&items.paths(root), items, source, &budget)?;
        all.push((name.clone(), meta));
    }
    Ok(all)
}

fn of_table(
    paths: &[PathBuf],
    items: &Items,
    source: &ModalitySource,
    budget: &Budget,
) -> Result<ItemMeta> {
    let listed = items.meta.as_ref().map(|meta| meta.as_slice());
    let (names, given) = match listed {
        Some(listed) if listed != [ALL] => (listed.to_vec(), true),
        _ => (others(paths, items, source)?, false),
    };
    let id: Vec<String> = items.id.iter().cloned().collect();
    if names.is_empty() {
        return Ok(ItemMeta::default());
    }
    let all = match cells(paths, id.iter().chain(&names), budget) {
        Ok(table) => vec![(table, names)],
        Err(err) if given => return Err(err),
        // some column contains something else: the readable ones are taken
        Err(_) => names
            .into_iter()
            .filter_map(|name| {
                let table = cells(paths, id.iter().chain([&name]), budget).ok()?;
                Some((table, vec![name]))
            })
            .collect(),
    };
    let mut meta = ItemMeta::default();
    for (table, names) in &all {
        if meta.rows.is_empty() {
            meta.rows = rows(table, items)?;
        }
        for name in names {
            let cells = table.cells(name)?;
            if given || cells.iter().all(is_short) {
                meta.columns.push(typed(cells));
                meta.names.push(name.clone());
            }
        }
    }
    Ok(meta)
}

/// The columns of a table without those that have another use.
fn others(
    paths: &[PathBuf],
    items: &Items,
    source: &ModalitySource,
) -> Result<Vec<String>> {
    let text = source.text.iter().flat_map(|text| text.as_slice());
    let used: BTreeSet<&String> =
        items.id.iter().chain(text).chain(&source.path).chain(&source.column).collect();
    let names = paths.first().map_or(Ok(Vec::new()), |path| read::names(path))?;
    Ok(names.into_iter().filter(|name| !name.is_empty() && !used.contains(name)).collect())
}

fn cells<'a>(
    paths: &[PathBuf],
    names: impl Iterator<Item = &'a String>,
    budget: &Budget,
) -> Result<Table> {
    let columns: BTreeSet<ColumnSpec> = names.cloned().map(ColumnSpec::Cells).collect();
    read::tables(paths, &columns.into_iter().collect::<Vec<_>>(), budget)
}

/// The rows by id.
fn rows(table: &Table, items: &Items) -> Result<HashMap<String, usize>> {
    let Some(id) = &items.id else {
        return Ok((0..table.len()).map(|row| (row.to_string(), row)).collect());
    };
    let ids = table.cells(id)?.iter().enumerate();
    Ok(ids.map(|(row, cell)| (cell.text(), row)).collect())
}

fn is_short(cell: &Cell) -> bool {
    match cell {
        Cell::Text(_) => true,
        Cell::List(list) => list.len() <= LONGEST_LIST,
    }
}

/// The cells as values of one type.
fn typed(cells: &[Cell]) -> Vec<Option<FieldValue>> {
    let texts = || {
        let all = cells.iter().flat_map(|cell| match cell {
            Cell::Text(text) => std::slice::from_ref(text),
            Cell::List(list) => &list[..],
        });
        all.filter(|text| !text.is_empty())
    };
    let kind = |text: &String| match FieldValue::from_cell(text) {
        FieldValue::Number(_) => 0,
        FieldValue::Bool(_) => 1,
        FieldValue::Text(_) | FieldValue::List(_) => 2,
    };
    let first = texts().next().map(kind);
    let same = texts().all(|text| Some(kind(text)) == first);
    let value = |text: &String| {
        if same { FieldValue::from_cell(text) } else { FieldValue::Text(text.clone()) }
    };
    let cell = |cell: &Cell| match cell {
        Cell::Text(text) => (!text.is_empty()).then(|| value(text)),
        Cell::List(list) => {
            let list: Vec<FieldValue> =
                list.iter().filter(|text| !text.is_empty()).map(value).collect();
            (!list.is_empty()).then_some(FieldValue::List(list))
        }
    };
    cells.iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(meta: &ItemMeta, id: &str) -> String {
        let fields: Vec<String> =
            meta.fields(id).map(|(name, value)| format!("{name}={value:?}")).collect();
        fields.join(" ")
    }

    #[test]
    fn other_columns_are_fields() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            fs_err::write(dir.path().join(name), text).unwrap();
        };
        let manifest = |meta: &str| {
            let text = format!(
                "[items]\ntable = \"items.csv\"\nid = \"id\"\n{meta}\n[labels]\ncolumn = \"kind\"\n\
                 [modality.words]\ntext = \"caption\"\n"
            );
            write("dataset.toml", &text);
            read_meta(dir.path(), &OpenOptions::default())
        };
        write(
            "items.csv",
            "id,caption,kind,price,new,mixed\na,one,x,3.5,true,7\nb,two,y,,False,seven\n",
        );
        let all = manifest("").unwrap();
        let [(name, meta)] = &all[..] else { panic!("{all:?}") };
        assert_eq!(
            (name.as_str(), meta.names()),
            ("words", &["kind", "price", "new", "mixed"].map(str::to_owned)[..])
        );
        assert_eq!(
            shown(meta, "a"),
            "kind=Text(\"x\") price=Number(3.5) new=Bool(true) mixed=Text(\"7\")"
        );
        assert_eq!(
            shown(meta, "b"),
            "kind=Text(\"y\") new=Bool(false) mixed=Text(\"seven\")"
        );
        assert_eq!(shown(meta, "c"), "");
        assert_eq!(manifest("meta = \"all\"").unwrap()[0].1.names().len(), 4);
        assert_eq!(manifest("meta = \"price\"").unwrap()[0].1.names(), ["price"]);
        assert_eq!(manifest("meta = []").unwrap()[0].1.names().len(), 0);
        let err = manifest("meta = [\"prize\"]").unwrap_err().to_string();
        assert!(err.contains("no column named \"prize\""), "{err}");
    }

    /// Columns of objects and long lists are left out, unless they are named.
    #[test]
    fn columns_that_are_no_fields_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let long = format!("[{}]", vec!["1"; 65].join(","));
        let line = |id: &str| {
            format!(
                "{{\"id\":\"{id}\",\"t\":\"x\",\"tags\":[\"p\",\"q\"],\"size\":{{\"w\":1}},\"v\":{long}}}\n"
            )
        };
        fs_err::write(dir.path().join("i.jsonl"), line("a") + &line("b")).unwrap();
        let manifest = "items = { table = \"i.jsonl\", id = \"id\" }\nlabels.column = \"t\"\n\
                        modality.m.text = \"t\"\n";
        fs_err::write(dir.path().join("dataset.toml"), manifest).unwrap();
        let all = read_meta(dir.path(), &OpenOptions::default()).unwrap();
        assert_eq!(all[0].1.names(), ["tags"]);
        assert_eq!(shown(&all[0].1, "b"), "tags=List([Text(\"p\"), Text(\"q\")])");
    }
}
