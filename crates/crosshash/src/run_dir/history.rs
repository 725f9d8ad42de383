//! The history of a training as a table: one row per epoch.

use crate::train::{Epoch, Validation};
use crate::{Error, Place, Result};

/// A table of numbers; cells may be empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HistoryTable {
    /// Names of the columns; the first is `epoch`.
    pub columns: Vec<String>,
    /// Cells by epoch, as many as columns.
    pub rows: Vec<Vec<Option<f64>>>,
}

impl HistoryTable {
    /// The content of `history.csv`: one line per epoch, for spreadsheets. `seconds` are those of training
    /// until the end of each epoch.
    pub fn csv(epochs: &[Epoch], seconds: &[f64]) -> String {
        // Phases of a method may have different terms.
        let mut names: Vec<&str> = Vec::new();
        for term in epochs.iter().flat_map(|row| &row.terms) {
            if !names.contains(&term.name.as_str()) {
                names.push(&term.name);
            }
        }
        let mut out = String::from(
            "epoch,seconds,learning_rate,loss,validation_map,validation_recall,validation_words,validation_words_unseen,validation_score,distinct_codes,tied_items",
        );
        names.iter().for_each(|name| out += &format!(",{name}"));
        let cell =
            |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        for (row, seconds) in epochs.iter().zip(seconds) {
            let Epoch { epoch, learning_rate, loss, validation, .. } = row;
            let of = |part: fn(&Validation) -> Option<f64>| {
                cell(validation.as_ref().and_then(part))
            };
            out += &format!(
                "\n{epoch},{seconds:.3},{learning_rate},{loss},{},{},{},{},{},{},{}",
                of(|v| v.map),
                of(|v| v.recall),
                of(|v| v.words),
                of(|v| v.words_unseen),
                of(|v| Some(v.score)),
                of(|v| Some(v.distinct)),
                of(|v| Some(v.tied)),
            );
            names.iter().for_each(|name| out += &format!(",{}", cell(row.term(name))));
        }
        out + "\n"
    }

    /// Parses `history.csv`.
    pub(super) fn parse(csv: &str) -> Result<HistoryTable> {
        let mut lines = csv.lines();
        let columns: Vec<String> =
            lines.next().unwrap_or_default().split(',').map(str::to_owned).collect();
        let mut rows = Vec::new();
        for (line, number) in lines.zip(2..) {
            let cells: Vec<Option<f64>> =
                line.split(',').map(|cell| cell.parse().ok()).collect();
            if cells.len() != columns.len() {
                return Err(Error::row(
                    Place::Line(number),
                    format!("{} cells, not {}", cells.len(), columns.len()),
                ));
            }
            rows.push(cells);
        }
        Ok(HistoryTable { columns, rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_numbers_or_empty() {
        let table = HistoryTable::parse("epoch,loss,map\n1,0.5,\n2,NaN,0.25\n").unwrap();
        assert_eq!(table.columns, ["epoch", "loss", "map"]);
        assert_eq!(table.rows[0], [Some(1.0), Some(0.5), None]);
        assert_eq!(table.rows[1][2], Some(0.25));
        assert!(HistoryTable::parse("epoch,loss\n1\n").is_err());
    }
}
