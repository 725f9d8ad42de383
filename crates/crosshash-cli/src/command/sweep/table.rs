//! The results of a sweep: means and standard deviations over seeds, in all output formats.

use serde_json::{Value, json};

use super::plan::Point;
use super::{SweptDirection, Trial};
use crate::grid;
use crate::mean::Mean;

/// The results.
pub(crate) struct Table {
    /// The varied keys, with their values.
    pub(crate) keys: Vec<(String, Vec<String>)>,
    /// One row per setting.
    pub(crate) rows: Vec<Row>,
    /// The directions between modalities, or within the only one.
    pub(crate) directions: Vec<(String, String)>,
}

/// One setting, with one trial per seed.
pub(crate) struct Row {
    pub(crate) point: Point,
    pub(crate) trials: Vec<Trial>,
}

impl Row {
    /// Over its seeds: the score of the validation items.
    pub(crate) fn validation(&self) -> Option<Mean> {
        Mean::of(self.trials.iter().filter_map(|trial| trial.validation))
    }

    /// Over its seeds: the MAP of the queries in one direction.
    pub(crate) fn map(&self, direction: &(String, String)) -> Option<Mean> {
        self.metric(direction, |found| found.map)
    }

    /// Over its seeds: a metric of the queries in one direction.
    pub(crate) fn metric(&self, direction: &(String, String), of: Metric) -> Option<Mean> {
        Mean::of(self.trials.iter().filter_map(|trial| metric(trial, direction, of)))
    }

    /// Over its seeds and modalities: the quantisation loss.
    fn quantisation(&self) -> Option<Mean> {
        Mean::of(self.trials.iter().flat_map(|t| t.quantisation.iter().map(|q| q.1)))
    }

    fn seconds(&self) -> Option<Mean> {
        let done = self.trials.iter().filter(|trial| trial.failed.is_none());
        Mean::of(done.map(|trial| trial.seconds))
    }
}

/// A metric of one direction.
pub(crate) type Metric = fn(&SweptDirection) -> Option<f64>;

/// A metric of a training in one direction.
fn metric(trial: &Trial, (query, database): &(String, String), of: Metric) -> Option<f64> {
    let mut found = trial.directions.iter();
    found.find(|d| d.query == *query && d.database == *database).and_then(of)
}

/// A column of the tables: a metric of one direction.
struct Column<'a> {
    name: String,
    direction: &'a (String, String),
    of: Metric,
}

impl Table {
    pub(super) fn new(keys: Vec<(String, Vec<String>)>, rows: Vec<Row>) -> Table {
        Table { keys, rows, directions: Vec::new() }
    }

    /// Adds a training.
    pub(super) fn push(&mut self, point: &Point, trial: Trial) {
        for reached in &trial.directions {
            let direction = (reached.query.clone(), reached.database.clone());
            if !self.directions.contains(&direction) {
                self.directions.push(direction);
            }
        }
        if self.directions.iter().any(|(query, database)| query != database) {
            self.directions.retain(|(query, database)| query != database);
        }
        match self.rows.iter_mut().find(|row| row.point == *point) {
            Some(row) => row.trials.push(trial),
            None => self.rows.push(Row { point: point.clone(), trials: vec![trial] }),
        }
    }

    /// The row of the best validation score.
    pub(crate) fn best(&self) -> Option<&Row> {
        let validated =
            self.rows.iter().filter_map(|row| Some((row, row.validation()?.mean)));
        validated.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(row, _)| row)
    }

    /// The metrics of the directions: MAP, then recall of pairs (R@10) and typed words (P@5), where the data
    /// allow them.
    fn columns(&self) -> Vec<Column<'_>> {
        let metrics: [(&str, Metric); 3] = [
            ("", |found| found.map),
            ("R@10 ", |found| found.pair_recall),
            ("words ", |found| found.typed_words),
        ];
        let mut columns = Vec::new();
        for (prefix, of) in metrics {
            for direction in &self.directions {
                let name = format!("{prefix}{} -> {}", direction.0, direction.1);
                if self.rows.iter().any(|row| row.metric(direction, of).is_some()) {
                    columns.push(Column { name, direction, of });
                }
            }
        }
        columns
    }

    fn heads(&self) -> Vec<String> {
        let mut heads: Vec<String> = self.keys.iter().map(|(key, _)| key.clone()).collect();
        heads.push("validation".into());
        heads.extend(self.columns().into_iter().map(|column| column.name));
        heads.extend(["quantisation".into(), "seconds".into()]);
        heads
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let seeds = row.trials.len();
        let text = |mean: Option<Mean>| mean.map_or("-".into(), |mean| mean.text(seeds));
        let value = |key: &String| row.point.value(key).unwrap_or("-").to_owned();
        let mut cells: Vec<String> = self.keys.iter().map(|(key, _)| value(key)).collect();
        cells.push(text(row.validation()));
        let columns = self.columns();
        let value = |column: &Column<'_>| text(row.metric(column.direction, column.of));
        cells.extend(columns.iter().map(value));
        let short = |mean: Option<Mean>, digits: usize| {
            mean.map_or("-".into(), |mean| format!("{:.digits$}", mean.mean))
        };
        cells.extend([short(row.quantisation(), 3), short(row.seconds(), 1)]);
        cells
    }

    fn lines(&self) -> Vec<Vec<String>> {
        let rows = self.rows.iter().map(|row| self.cells(row));
        std::iter::once(self.heads()).chain(rows).collect()
    }

    /// For the terminal.
    pub(super) fn to_text(&self) -> String {
        grid::aligned(&self.lines())
    }

    /// For documents.
    pub(super) fn to_markdown(&self) -> String {
        grid::markdown(&self.lines())
    }

    /// For spreadsheets: one line per training.
    pub(super) fn to_csv(&self) -> String {
        let mut heads: Vec<String> = self.keys.iter().map(|(key, _)| key.clone()).collect();
        heads.extend(["trial".into(), "validation".into(), "seconds".into()]);
        let columns = self.columns();
        heads.extend(columns.iter().map(|column| column.name.clone()));
        let mut out = heads.join(",") + "\n";
        for row in &self.rows {
            for (k, trial) in row.trials.iter().enumerate() {
                let value = |key: &String| row.point.value(key).unwrap_or("").to_owned();
                let mut cells: Vec<String> =
                    self.keys.iter().map(|(key, _)| value(key)).collect();
                let validation = trial.validation.map_or(String::new(), |v| v.to_string());
                cells.extend([(k + 1).to_string(), validation, trial.seconds.to_string()]);
                cells.extend(columns.iter().map(|column| {
                    let value = metric(trial, column.direction, column.of);
                    value.map_or(String::new(), |value| value.to_string())
                }));
                out += &(cells.join(",") + "\n");
            }
        }
        out
    }

    /// For programs.
    pub(super) fn to_json(&self) -> Value {
        let mean = |m: Option<Mean>| m.map(|m| json!({ "mean": m.mean, "sd": m.spread }));
        let row = |row: &Row| {
            let settings: serde_json::Map<String, Value> =
                row.point.0.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
            let directions = self.directions.iter().map(|d| {
                json!({
                    "query": d.0,
                    "database": d.1,
                    "map": mean(row.map(d)),
                    "pair_recall_at_10": mean(row.metric(d, |found| found.pair_recall)),
                    "typed_words_p5": mean(row.metric(d, |found| found.typed_words)),
                })
            });
            let failed: Vec<&String> =
                row.trials.iter().filter_map(|trial| trial.failed.as_ref()).collect();
            json!({
                "settings": settings,
                "seeds": row.trials.len(),
                "failed": failed,
                "validation": mean(row.validation()),
                "directions": directions.collect::<Vec<_>>(),
                "quantisation": mean(row.quantisation()),
                "seconds": mean(row.seconds()),
            })
        };
        let best = self.best().map(|row| row.point.text());
        json!({ "rows": self.rows.iter().map(row).collect::<Vec<_>>(), "best_by_validation": best })
    }
}
