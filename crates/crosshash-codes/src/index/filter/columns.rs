//! `Columns`: the fields of items, column by column; `FieldSource`: where they come from.
//!
//! A column stores the rows that have the field, and a number or a distinct value for each, so a
//! test of a text is evaluated once per distinct value. Memory is proportional to the number of
//! values, not to rows times fields: 12 bytes per number, 4 + 4 per other value and each distinct
//! value once.

use std::collections::{BTreeMap, HashMap};

use super::value::{FieldTest, FieldValue};
use crate::Result;
use crate::format::Id;
use crate::index::ItemSet;

/// Gives the fields of items.
pub trait FieldSource: Sync {
    /// Another number if the fields of items may have changed: columns are built again then.
    fn version(&self) -> u64;

    /// Calls `visit` with the name and value of every field of an item, each name once.
    fn fields(
        &self,
        id: &Id,
        payload: &[u8],
        visit: &mut dyn FnMut(&str, FieldValue),
    ) -> Result<()>;
}

/// The fields of some items.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    columns: BTreeMap<String, Column>,
}

/// One field.
#[derive(Clone, Debug)]
struct Column {
    /// The rows that have the field, ascending.
    rows: Vec<u32>,
    cells: Cells,
}

/// The values of a column, one per row that has the field.
#[derive(Clone, Debug)]
enum Cells {
    Numbers(Vec<f64>),
    Values { distinct: Vec<FieldValue>, which: Vec<u32> },
}

impl Columns {
    /// The names of the fields, ascending.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.keys().map(String::as_str)
    }

    /// The rows out of `len` for which a test of a field holds.
    pub fn matching(&self, len: usize, name: &str, test: &FieldTest) -> ItemSet {
        let mut set = ItemSet::none(len);
        let Some(column) = self.columns.get(name) else { return set };
        let test = test.prepare();
        match &column.cells {
            Cells::Numbers(numbers) => {
                for (&row, &number) in column.rows.iter().zip(numbers) {
                    if test.holds(&FieldValue::Number(number)) {
                        set.insert(row);
                    }
                }
            }
            Cells::Values { distinct, which } => {
                let holds: Vec<bool> = distinct.iter().map(|v| test.holds(v)).collect();
                for (&row, &nth) in column.rows.iter().zip(which) {
                    if holds[nth as usize] {
                        set.insert(row);
                    }
                }
            }
        }
        set
    }

    /// Calls `visit` with every value of a field in some rows; elements of lists one by one.
    pub(crate) fn each(
        &self,
        name: &str,
        rows: &dyn Fn(u32) -> bool,
        visit: &mut dyn FnMut(&FieldValue),
    ) {
        let Some(column) = self.columns.get(name) else { return };
        for (nth, _) in column.rows.iter().enumerate().filter(|(_, row)| rows(**row)) {
            match &column.cells {
                Cells::Numbers(numbers) => visit(&FieldValue::Number(numbers[nth])),
                Cells::Values { distinct, which } => match &distinct[which[nth] as usize] {
                    FieldValue::List(list) => list.iter().for_each(&mut *visit),
                    value => visit(value),
                },
            }
        }
    }
}

/// Builds columns row by row.
#[derive(Default)]
pub struct ColumnsBuilder {
    columns: HashMap<String, Building>,
}

struct Building {
    column: Column,
    /// The places of distinct values.
    places: HashMap<String, u32>,
}

impl ColumnsBuilder {
    /// Adds the value of a field; rows come in ascending order, a second value of a field in
    /// the same row is ignored.
    pub fn add(&mut self, row: u32, name: &str, value: FieldValue) {
        if !self.columns.contains_key(name) {
            let column = Column { rows: Vec::new(), cells: Cells::Numbers(Vec::new()) };
            let building = Building { column, places: HashMap::new() };
            self.columns.insert(name.to_owned(), building);
        }
        if let Some(building) = self.columns.get_mut(name)
            && building.column.rows.last() != Some(&row)
        {
            building.push(row, value);
        }
    }

    /// The columns.
    pub fn finish(self) -> Columns {
        let columns =
            self.columns.into_iter().map(|(name, building)| (name, building.column));
        Columns { columns: columns.collect() }
    }
}

impl Building {
    fn push(&mut self, row: u32, value: FieldValue) {
        self.column.rows.push(row);
        if let (Cells::Numbers(numbers), FieldValue::Number(number)) =
            (&mut self.column.cells, &value)
        {
            numbers.push(*number);
            return;
        }
        if let Cells::Numbers(numbers) = &mut self.column.cells {
            // not all are numbers
            let numbers = std::mem::take(numbers);
            self.column.cells = Cells::Values { distinct: Vec::new(), which: Vec::new() };
            numbers
                .into_iter()
                .for_each(|number| self.push_value(FieldValue::Number(number)));
        }
        self.push_value(value);
    }

    fn push_value(&mut self, value: FieldValue) {
        let Cells::Values { distinct, which } = &mut self.column.cells else { return };
        let next = u32::try_from(distinct.len()).unwrap_or(u32::MAX);
        let place = *self.places.entry(value.key()).or_insert(next);
        if place == next {
            distinct.push(value);
        }
        which.push(place);
    }
}
