//! Filter expressions over labels, ids and fields of items.
//!
//! ```text
//! expression = term { "or" term }
//! term       = factor { "and" factor }
//! factor     = "not" factor | "(" expression ")" | test
//! test       = subject [ "not" ] "in" "(" value { "," value } ")"
//!            | subject ("=" | "!=") value
//!            | field ("<" | "<=" | ">" | ">=") value
//!            | field [ "not" ] "contains" value
//!            | "exists" "(" field ")"
//! subject    = "label" | "id" | field
//! field      = word | `name in backticks`
//! value      = word | "quoted text" | 'quoted text'
//! ```
//!
//! `label in (3, 7)` holds if the item carries at least one of them; `label not in (..)` is
//! `not label in (..)`, and `x != y` is `not x = y`, so both hold for items without the field. A
//! label is a number, or a name if the index has label names. Inside quotes, a doubled quote stands
//! for itself. How values compare: `value.rs`; where fields come from: `columns.rs`.

mod columns;
mod parse;
mod plain;
mod value;

pub use columns::{Columns, ColumnsBuilder, FieldSource};
pub use plain::{FieldParts, PlainOrder, PlainTest};
pub use value::{Comparison, FieldTest, FieldValue, Literal};

use super::ItemSet;
use crate::{Cancel, Error, Result};

/// The names of labels by their number; empty if they have none.
pub type LabelNames = [String];

/// A parsed filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Carries at least one of these labels (numbers, ascending).
    Label(Vec<usize>),
    /// Is one of these ids, as they were typed.
    Id(Vec<String>),
    /// A field passes a test.
    Field(String, FieldTest),
    /// The inner one does not hold.
    Not(Box<Filter>),
    /// All hold.
    And(Vec<Filter>),
    /// At least one holds.
    Or(Vec<Filter>),
}

/// The items that a filter is evaluated on.
pub struct Subjects<'a> {
    /// How many there are.
    pub len: usize,
    /// Whether an item has at least one of some labels.
    pub carries: &'a (dyn Fn(u32, &[usize]) -> bool + Sync),
    /// The item of a typed id.
    pub find: &'a dyn Fn(&str) -> Option<u32>,
    /// The items of which a field passes a test.
    pub field: &'a dyn Fn(&str, &FieldTest) -> ItemSet,
    /// Stops the evaluation.
    pub cancel: &'a Cancel,
}

impl Filter {
    /// Parses an expression; label names are looked up in `names`, numbers are checked to be
    /// less than `classes`. Texts above 64 KiB and expressions of more than 1,000 tests and
    /// operators are refused.
    ///
    /// ```
    /// use crosshash_codes::index::Filter;
    ///
    /// Filter::parse("price < 20 and brand = \"x\" and label in (1, 2)", 9, &[])?;
    /// let err = Filter::parse("price < 20 and brand is x", 9, &[]).unwrap_err();
    /// assert_eq!(
    ///     err.to_string(),
    ///     "filter, character 22: expected `=`, `!=`, `<`, `<=`, `>`, `>=`, `in` or `contains`, \
    ///      found `is`\n  price < 20 and brand is x\n                       ^"
    /// );
    /// # Ok::<(), crosshash_codes::Error>(())
    /// ```
    pub fn parse(text: &str, classes: usize, names: &LabelNames) -> Result<Filter> {
        parse::parse(text, classes, names)
    }

    /// The items for which it holds; some of them if the evaluation is cancelled.
    pub fn items(&self, subjects: &Subjects<'_>) -> ItemSet {
        let len = subjects.len;
        if subjects.cancel.is_cancelled() {
            return ItemSet::none(len);
        }
        let each = |filter: &Filter| filter.items(subjects);
        match self {
            Filter::Label(any) => ItemSet::of(len, |item| (subjects.carries)(item, any)),
            Filter::Id(ids) => {
                let mut set = ItemSet::none(len);
                ids.iter().filter_map(|id| (subjects.find)(id)).for_each(|item| {
                    set.insert(item);
                });
                set
            }
            Filter::Field(name, test) => (subjects.field)(name, test),
            Filter::Not(inner) => each(inner).complement(),
            Filter::And(all) => fold(all.iter().map(each), ItemSet::intersection, len),
            Filter::Or(any) => fold(any.iter().map(each), ItemSet::union, len),
        }
    }

    /// The fields it tests, without those that it only asks to exist.
    pub fn fields(&self) -> Vec<&str> {
        match self {
            Filter::Label(_) | Filter::Id(_) | Filter::Field(_, FieldTest::Exists) => {
                Vec::new()
            }
            Filter::Field(name, _) => vec![name],
            Filter::Not(inner) => inner.fields(),
            Filter::And(list) | Filter::Or(list) => {
                list.iter().flat_map(Filter::fields).collect()
            }
        }
    }

    /// Whether it reads fields of items.
    pub fn has_fields(&self) -> bool {
        match self {
            Filter::Label(_) | Filter::Id(_) => false,
            Filter::Field(..) => true,
            Filter::Not(inner) => inner.has_fields(),
            Filter::And(list) | Filter::Or(list) => list.iter().any(Filter::has_fields),
        }
    }
}

/// An unknown field is an error that lists the known ones.
pub fn check_fields(filter: &Filter, known: &[&str]) -> Result<()> {
    match filter.fields().into_iter().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) if known.is_empty() => Err(Error::content(format!(
            "filter: no item has the field {name:?}; the items have no fields"
        ))),
        Some(name) => Err(Error::content(format!(
            "filter: no item has the field {name:?}; there are {}",
            parse::some_of(known)
        ))),
    }
}

fn fold(
    mut sets: impl Iterator<Item = ItemSet>,
    join: impl Fn(&ItemSet, &ItemSet) -> ItemSet,
    len: usize,
) -> ItemSet {
    let first = sets.next().unwrap_or_else(|| ItemSet::none(len));
    sets.fold(first, |all, set| join(&all, &set))
}

#[cfg(test)]
mod tests;
