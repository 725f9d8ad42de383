//! Rows of a store, the description of its table, and the source that they come from.

use std::collections::BTreeSet;
use std::ops::Range;

use anyhow::{Result, bail};
use crosshash_codes::index::{FieldSource, FieldValue};
use crosshash_codes::segments::Snapshot;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

/// The version of the tables.
const VERSION: u32 = 1;

/// One item.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreRow {
    /// Its number, which orders ties.
    pub item: u64,
    /// Its id.
    pub id: String,
    /// The words of its code.
    pub code: Vec<u64>,
    /// Its labels, ascending.
    pub labels: Vec<u32>,
    /// Its fields by name; nested lists are flat.
    pub fields: Vec<(String, FieldValue)>,
    /// The outputs of the model, if the store has them.
    pub outputs: Option<Vec<i8>>,
}

/// What a table contains. It is stored as JSON in the comment of the table, so that it is
/// created, renamed, copied and dropped with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    /// Version of the table.
    pub crosshash: u32,
    /// Code length.
    pub bits: usize,
    /// Whether ids are numbers.
    pub numbers: bool,
    /// Number of labels.
    pub classes: usize,
    /// Names of the labels; empty if they have none.
    pub label_names: Vec<String>,
    /// Names of all fields.
    pub fields: Vec<String>,
    /// Whether the outputs of the model are stored.
    pub outputs: bool,
    /// Checksum of the pushed items; empty after the items were changed.
    pub source: String,
    /// Number of pushed items.
    pub items: u64,
    /// Whether all items are there.
    pub complete: bool,
    /// Whether there is an approximate index (HNSW).
    pub hnsw: bool,
}

impl Description {
    /// From the comment of a table; `None` if it is not the table of a store.
    pub fn from_comment(comment: &str) -> Option<Result<Description, String>> {
        let value: serde_json::Value = serde_json::from_str(comment).ok()?;
        let version = value.get("crosshash")?.as_u64()?;
        if version != u64::from(VERSION) {
            return Some(Err(format!(
                "the table has version {version}, this program reads version {VERSION}: use the \
                 program that wrote it, or push again with --replace"
            )));
        }
        Some(serde_json::from_value(value).map_err(|err| err.to_string()))
    }

    /// As the comment of a table.
    pub fn to_comment(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The number of words of a code.
    pub fn words(&self) -> usize {
        self.bits.div_ceil(64)
    }
}

/// Items on their way into a store.
pub struct Source<'a> {
    snapshot: &'a Snapshot,
    fields: &'a (dyn FieldSource + Sync),
    items: Vec<u32>,
    outputs: bool,
}

impl<'a> Source<'a> {
    /// All items of a snapshot; their outputs only if they are wanted.
    pub fn new(
        snapshot: &'a Snapshot,
        fields: &'a (dyn FieldSource + Sync),
        outputs: bool,
    ) -> Result<Source<'a>> {
        if outputs && !snapshot.has_outputs() {
            bail!(
                "--outputs: the items have no outputs; build the index with --outputs, or train again"
            );
        }
        Ok(Source { snapshot, fields, items: snapshot.items().collect(), outputs })
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The items of the snapshot, in the order of the rows.
    pub fn items(&self) -> &[u32] {
        &self.items
    }

    /// Some of the rows.
    pub fn rows(&self, range: Range<usize>) -> Result<Vec<StoreRow>> {
        range.map(|at| self.row(at)).collect()
    }

    /// One row.
    pub fn row(&self, at: usize) -> Result<StoreRow> {
        let item = self.items[at];
        let snapshot = self.snapshot;
        let id = snapshot.id(item)?;
        let mut fields = Vec::new();
        self.fields.fields(&id, snapshot.payload(item)?, &mut |name, value| {
            fields.push((name.to_owned(), flat(value)));
        })?;
        let labels = snapshot.labels(item)?.into_iter();
        let outputs = if self.outputs { snapshot.outputs(item)? } else { None };
        Ok(StoreRow {
            item: at as u64,
            id: id.to_string(),
            code: snapshot.code(item)?.to_vec(),
            labels: labels.filter_map(|label| u32::try_from(label).ok()).collect(),
            fields,
            outputs: outputs.map(<[i8]>::to_vec),
        })
    }

    /// The description of a table with these items; reads all of them for the checksum.
    pub fn describe(&self, hnsw: bool, progress: &dyn Fn(usize)) -> Result<Description> {
        let info = self.snapshot.info();
        let mut hash = Xxh3::new();
        let mut names = BTreeSet::new();
        for at in 0..self.len() {
            let row = self.row(at)?;
            add_row(&mut hash, &row);
            for (name, _) in row.fields {
                if !names.contains(&name) {
                    names.insert(name);
                }
            }
            if at % 4096 == 0 {
                progress(at);
            }
        }
        self.snapshot.check_files()?;
        let label_names = self.snapshot.label_names().to_vec();
        Ok(Description {
            crosshash: VERSION,
            bits: self.snapshot.bits().get(),
            numbers: info.ids == Some("numbers"),
            classes: info.labels,
            label_names,
            fields: names.into_iter().collect(),
            outputs: self.outputs,
            source: format!("{:016x}", hash.digest()),
            items: self.len() as u64,
            complete: false,
            hnsw,
        })
    }
}

fn add_row(hash: &mut Xxh3, row: &StoreRow) {
    let mut add = |bytes: &[u8]| {
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    add(row.id.as_bytes());
    row.code.iter().for_each(|word| add(&word.to_le_bytes()));
    row.labels.iter().for_each(|label| add(&label.to_le_bytes()));
    for (name, value) in &row.fields {
        add(name.as_bytes());
        add(crosshash::payload::field_to_json(value).to_string().as_bytes());
    }
    let outputs = row.outputs.iter().flatten();
    add(&outputs.map(|value| value.to_le_bytes()[0]).collect::<Vec<u8>>());
}

/// A value without nested lists, which every filter treats alike; numbers that compare with
/// nothing are left out of lists.
fn flat(value: FieldValue) -> FieldValue {
    fn add(value: FieldValue, to: &mut Vec<FieldValue>) {
        match value {
            FieldValue::List(list) => list.into_iter().for_each(|value| add(value, to)),
            FieldValue::Number(number) if number.is_nan() => {}
            value => to.push(value),
        }
    }
    match value {
        FieldValue::List(list) => {
            let mut all = Vec::new();
            list.into_iter().for_each(|value| add(value, &mut all));
            FieldValue::List(all)
        }
        value => value,
    }
}
