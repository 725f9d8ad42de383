//! Statistics of one column of a table.

use std::collections::HashSet;

use xxhash_rust::xxh3::xxh3_64;

use crate::data::read::{Cell, is_picture};

/// What the cells of a column look like. Shares are of the cells that are not empty.
pub(super) struct Column {
    pub(super) name: String,
    pub(super) rows: usize,
    pub(super) filled: usize,
    /// Number of different cells.
    pub(super) distinct: usize,
    pub(super) numbers: f64,
    /// Names of picture files.
    pub(super) files: f64,
    pub(super) addresses: f64,
    /// Mean number of words.
    pub(super) words: f64,
    /// Share of cells that are lists.
    pub(super) lists: f64,
    /// A separator of several values in a cell, if many cells contain it.
    pub(super) separator: Option<&'static str>,
    /// Whether all values, separated, are whole numbers.
    pub(super) label_numbers: bool,
    /// Number of different values, separated.
    pub(super) values: usize,
    /// Hashes of the cells without case and punctuation, to recognise near-duplicate columns.
    hashes: Vec<u64>,
}

impl Column {
    pub(super) fn new(name: &str, cells: &[Cell]) -> Column {
        let texts: Vec<String> = cells.iter().map(Cell::text).collect();
        let filled: Vec<&str> =
            texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).collect();
        let share = |fits: &dyn Fn(&str) -> bool| {
            let count = filled.iter().filter(|text| fits(text)).count();
            count as f64 / filled.len().max(1) as f64
        };
        let lists = cells.iter().filter(|cell| matches!(cell, Cell::List(_))).count();
        let words: usize = filled.iter().map(|text| text.split_whitespace().count()).sum();
        let (separator, label_numbers) = separator(cells);
        let mut values: HashSet<&str> = HashSet::new();
        for cell in cells {
            match (cell, separator) {
                (Cell::List(list), _) => values.extend(list.iter().map(|v| v.trim())),
                (Cell::Text(text), Some(by)) => {
                    values.extend(text.split(by).map(str::trim));
                }
                (Cell::Text(text), None) => values.extend([text.trim()]),
            }
        }
        values.remove("");
        Column {
            name: name.to_owned(),
            rows: cells.len(),
            distinct: filled.iter().collect::<HashSet<_>>().len(),
            numbers: share(&|text| text.replace(',', ".").parse::<f64>().is_ok()),
            files: share(&|text| {
                is_picture(text.rsplit(['/', '\\']).next().unwrap_or(text))
            }),
            addresses: share(&|text| {
                text.starts_with("http://") || text.starts_with("https://")
            }),
            words: words as f64 / filled.len().max(1) as f64,
            lists: lists as f64 / cells.len().max(1) as f64,
            separator,
            label_numbers,
            values: values.len(),
            hashes: texts.iter().map(|text| reduced(text)).collect(),
            filled: filled.len(),
        }
    }

    pub(super) fn is_unique(&self) -> bool {
        self.filled == self.rows && self.distinct == self.rows
    }

    /// Whether nearly all cells say the same as those of another column.
    pub(super) fn is_nearly(&self, other: &Column) -> bool {
        let pairs = self.hashes.iter().zip(&other.hashes);
        let both: Vec<bool> =
            pairs.filter(|(a, b)| **a != 0 || **b != 0).map(|(a, b)| a == b).collect();
        let same = both.iter().filter(|same| **same).count();
        !both.is_empty() && same * 20 >= both.len() * 19
    }

    /// Whether cells are a few names that repeat: categories.
    pub(super) fn is_categorical(&self) -> bool {
        let several = self.separator.is_some() || self.lists > 0.5;
        let names = self.numbers < 0.5 && self.files < 0.5 && self.addresses < 0.5;
        let short = self.words <= 3.0 || several;
        let repeated = self.values >= 2 && self.values * 5 <= self.filled.max(5);
        names && short && repeated && self.filled * 2 >= self.rows && !self.is_yes_or_no()
    }

    fn is_yes_or_no(&self) -> bool {
        let yes_no: HashSet<u64> =
            ["yes", "no", "true", "false", "y", "n", "t", "f", "0", "1", ""]
                .map(reduced)
                .into_iter()
                .collect();
        self.hashes.iter().all(|hash| yes_no.contains(hash))
    }

    /// Whether cells are sentences or titles that differ.
    pub(super) fn is_prose(&self) -> bool {
        let own = self.numbers < 0.2 && self.files < 0.2 && self.addresses < 0.2;
        own && self.words >= 3.0 && self.distinct * 2 > self.filled
    }
}

/// Hash of the letters and digits in lower case; 0 for none.
fn reduced(text: &str) -> u64 {
    let plain: String =
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    if plain.is_empty() { 0 } else { xxh3_64(plain.as_bytes()) }
}

/// The separator of labels in a cell, and whether they are numbers.
fn separator(cells: &[Cell]) -> (Option<&'static str>, bool) {
    let texts: Vec<&str> = cells
        .iter()
        .filter_map(|cell| match cell {
            Cell::Text(text) if !text.is_empty() => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let number = |part: &str| part.trim().parse::<u32>().is_ok();
    let of = |separator: &str| texts.iter().all(|t| t.split(separator).all(number));
    for separator in [";", "|", ",", " "] {
        let holding = texts.iter().filter(|text| text.contains(separator)).count();
        // Label names may contain spaces; numbers do not.
        let clear = separator != " " || of(separator);
        if holding * 5 > texts.len() && clear {
            return (Some(separator), of(separator));
        }
    }
    let mut listed = cells
        .iter()
        .flat_map(|cell| match cell {
            Cell::List(list) => list.as_slice(),
            Cell::Text(text) => std::slice::from_ref(text),
        })
        .filter(|text| !text.is_empty())
        .peekable();
    let some = listed.peek().is_some();
    (None, some && listed.all(|text| number(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(cells: &[&str]) -> Column {
        let cells: Vec<Cell> = cells.iter().map(|c| Cell::Text((*c).to_owned())).collect();
        Column::new("c", &cells)
    }

    #[test]
    fn columns_are_recognised_by_content() {
        let prose = column(&["a cat on a mat", "two dogs run", "the sea at night"]);
        assert!(prose.is_prose() && !prose.is_categorical());
        let kinds = column(&[
            "red", "blue", "red", "blue", "red", "red", "blue", "", "red", "red", "red",
        ]);
        assert!(kinds.is_categorical() && !kinds.is_prose());
        assert!(
            !column(&["yes", "no", "yes", "no", "yes", "no", "no", "no", "no", "no"])
                .is_categorical()
        );
        let tags = column(&["a;b", "b", "a;b", "a", "b;a", "a;b", "b;a", "a", "b", "a;b"]);
        assert_eq!((tags.separator, tags.values), (Some(";"), 2));
        let numbers = column(&["104 122", "7", "8 9"]);
        assert_eq!((numbers.separator, numbers.label_numbers), (Some(" "), true));
        let files = column(&["a/b.jpg", "C:\\x\\c.PNG"]);
        assert!((files.files - 1.0).abs() < 1e-9);
        assert!(column(&["https://example.org/a"]).addresses > 0.9);
    }

    #[test]
    fn near_duplicates_ignore_case_and_punctuation() {
        let a = column(&["A cat.", "Two dogs", ""]);
        assert!(a.is_nearly(&column(&["a cat", "two dogs!", ""])));
        assert!(!a.is_nearly(&column(&["a cat", "a dog", "x"])));
    }
}
