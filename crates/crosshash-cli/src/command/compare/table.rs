//! The results of a comparison: means and standard deviations over seeds, in all output formats.

use anyhow::Result;
use crosshash::cosine_eval::DirectionMetrics;
use crosshash::method::MethodInfo;
use serde_json::{Value, json};

use super::Trial;
use crate::grid;
use crate::mean::Mean;

/// The results.
pub(crate) struct Table {
    /// One row per method and code length that was trained.
    pub(crate) rows: Vec<Row>,
    /// The directions between modalities, or within the only one.
    pub(crate) directions: Vec<(String, String)>,
    /// Methods that were skipped, with the reason.
    left_out: Vec<(&'static str, String)>,
}

/// One method at one code length, by seed.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) info: MethodInfo,
    pub(crate) bits: usize,
    pub(crate) trials: Vec<Trial>,
}

impl Row {
    pub(super) fn new(info: MethodInfo, bits: usize, trial: Trial) -> Row {
        Row { info, bits, trials: vec![trial] }
    }

    pub(super) fn is_of(&self, name: &str, bits: usize) -> bool {
        self.info.name == name && self.bits == bits
    }

    /// Query MAP in one direction, over the seeds.
    pub(crate) fn map(&self, direction: &(String, String)) -> Option<Mean> {
        self.metric(direction, |found| found.map)
    }

    /// A metric of one direction, over the seeds.
    fn metric(&self, direction: &(String, String), of: Metric) -> Option<Mean> {
        self.over(|trial| metric(trial, direction, of))
    }

    fn over(&self, of: impl Fn(&Trial) -> Option<f64>) -> Option<Mean> {
        Mean::of(self.trials.iter().filter_map(of))
    }

    /// The name, with a mark for references.
    pub(crate) fn name(&self) -> String {
        let mark = if self.info.codes { "" } else { " (no codes)" };
        format!("{}{mark}", self.info.name)
    }
}

/// A metric of one direction.
type Metric = fn(&DirectionMetrics) -> Option<f64>;

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
    pub(super) fn new(mut rows: Vec<Row>) -> Table {
        let mut left_out: Vec<(&'static str, String)> = Vec::new();
        for row in &rows {
            let why = row.trials.iter().find_map(|trial| trial.left_out.clone());
            let name = row.info.name;
            if let Some(why) = why.filter(|_| left_out.iter().all(|known| known.0 != name))
            {
                left_out.push((name, why));
            }
        }
        rows.retain(|row| row.trials.iter().all(|trial| trial.left_out.is_none()));
        let mut directions: Vec<(String, String)> = Vec::new();
        for evaluated in rows.iter().flat_map(|r| &r.trials).flat_map(|t| &t.directions) {
            let direction = (evaluated.query.clone(), evaluated.database.clone());
            if !directions.contains(&direction) {
                directions.push(direction);
            }
        }
        if directions.iter().any(|(query, database)| query != database) {
            directions.retain(|(query, database)| query != database);
        }
        Table { rows, directions, left_out }
    }

    /// The metrics of the directions: MAP, then recall of pairs and typed words, where the data allow them.
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
                let measured =
                    self.rows.iter().any(|row| row.metric(direction, of).is_some());
                if measured {
                    columns.push(Column { name, direction, of });
                }
            }
        }
        columns
    }

    pub(super) fn lines(&self) -> Vec<Vec<String>> {
        let columns = self.columns();
        let mut heads = vec!["method".to_owned(), "bits".into()];
        heads.extend(columns.iter().map(|column| column.name.clone()));
        let rest = ["validation", "train s", "s to 95 %", "peak MiB", "coded/s", "seeds"];
        heads.extend(rest.map(String::from));
        let mut lines = vec![heads];
        for row in &self.rows {
            let seeds = row.trials.len();
            let text =
                |mean: Option<Mean>| mean.map_or("-".into(), |mean| mean.text(seeds));
            let short = |mean: Option<Mean>, digits: usize| {
                mean.map_or("-".into(), |mean| format!("{:.digits$}", mean.mean))
            };
            let mut cells = vec![row.name(), row.bits.to_string()];
            let value = |column: &Column<'_>| row.metric(column.direction, column.of);
            cells.extend(columns.iter().map(|column| text(value(column))));
            cells.extend([
                text(row.over(|trial| trial.validation)),
                short(row.over(|trial| Some(trial.seconds)), 1),
                short(row.over(Trial::converged), 1),
                short(row.over(|trial| trial.peak_mib), 0),
                short(row.over(|trial| trial.coded_per_second), 0),
                seeds.to_string(),
            ]);
            lines.push(cells);
        }
        lines
    }

    /// Notes below the table.
    pub(super) fn notes(&self) -> Vec<String> {
        let chance = self.rows.iter().flat_map(|row| &row.trials).find_map(|trial| {
            let first = self.directions.first()?;
            let mut found = trial.directions.iter();
            found
                .find(|d| (&d.query, &d.database) == (&first.0, &first.1))
                .and_then(|d| d.chance)
        });
        let mut notes = Vec::new();
        if let Some(chance) = chance {
            notes.push(format!(
                "tie-aware MAP over the complete ranking; queries are evaluated once, after \
                 selection on validation data; ± one standard deviation over seeds; chance {chance:.4}"
            ));
        }
        let evaluated = self.rows.iter().flat_map(|row| &row.trials);
        if evaluated.flat_map(|trial| &trial.directions).any(|d| d.map.is_none()) {
            notes.push("the data set has no labels: MAP is omitted".into());
        }
        let mut measured = self.rows.iter().flat_map(|row| &row.trials);
        if measured.any(|t| t.directions.iter().any(|d| d.pair_recall.is_some())) {
            notes.push(
                "R@10: share of queries that find their pair among the first ten, by codes, \
                 among the query items in folds of 1,000"
                    .into(),
            );
        }
        let mut measured = self.rows.iter().flat_map(|row| &row.trials);
        if measured.any(|t| t.directions.iter().any(|d| d.typed_words.is_some())) {
            notes.push(
                "words: of the first five items for a word typed alone, the share that contains \
                 it, of what is possible"
                    .into(),
            );
        }
        let left = self.left_out.iter();
        notes.extend(left.map(|(name, why)| format!("skipped: {name} {why}")));
        notes
    }

    /// For the terminal.
    pub(super) fn to_text(&self) -> String {
        let notes: String = self.notes().iter().map(|note| format!("{note}\n")).collect();
        grid::aligned(&self.lines()) + &notes
    }

    /// For documents.
    pub(super) fn to_markdown(&self) -> String {
        let notes: String = self.notes().iter().map(|note| format!("\n{note}\n")).collect();
        grid::markdown(&self.lines()) + &notes
    }

    /// For spreadsheets: one line per training.
    pub(super) fn to_csv(&self) -> String {
        let mut heads = "method,bits,trial,codes,validation,best_epoch,train_seconds,\
                         seconds_to_95,peak_mib,coded_per_second"
            .to_owned();
        let columns = self.columns();
        columns.iter().for_each(|column| heads += &format!(",{}", column.name));
        let mut out = heads + "\n";
        let cell = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
        for row in &self.rows {
            for (k, trial) in row.trials.iter().enumerate() {
                let best = trial.best.map_or(String::new(), |best| best.to_string());
                let mut cells = vec![
                    row.info.name.to_owned(),
                    row.bits.to_string(),
                    (k + 1).to_string(),
                    row.info.codes.to_string(),
                    cell(trial.validation),
                    best,
                    trial.seconds.to_string(),
                    cell(trial.converged()),
                    cell(trial.peak_mib),
                    cell(trial.coded_per_second),
                ];
                cells.extend(
                    columns
                        .iter()
                        .map(|column| cell(metric(trial, column.direction, column.of))),
                );
                out += &(cells.join(",") + "\n");
            }
        }
        out
    }

    /// For programs.
    pub(super) fn to_json(&self) -> Result<String> {
        let mean = |m: Option<Mean>| m.map(|m| json!({ "mean": m.mean, "sd": m.spread }));
        let row = |row: &Row| -> Value {
            let directions = self.directions.iter().map(|d| {
                json!({
                    "query": d.0,
                    "database": d.1,
                    "map": mean(row.map(d)),
                    "pair_recall_at_10": mean(row.metric(d, |found| found.pair_recall)),
                    "typed_words_p5": mean(row.metric(d, |found| found.typed_words)),
                })
            });
            json!({
                "method": row.info.name,
                "bits": row.bits,
                "codes": row.info.codes,
                "seeds": row.trials.len(),
                "directions": directions.collect::<Vec<_>>(),
                "validation": mean(row.over(|trial| trial.validation)),
                "train_seconds": mean(row.over(|trial| Some(trial.seconds))),
                "seconds_to_95": mean(row.over(Trial::converged)),
                "peak_mib": mean(row.over(|trial| trial.peak_mib)),
                "coded_per_second": mean(row.over(|trial| trial.coded_per_second)),
            })
        };
        let rows: Vec<Value> = self.rows.iter().map(row).collect();
        let left_out: Vec<Value> = self
            .left_out
            .iter()
            .map(|(name, why)| json!({ "method": name, "why": why }))
            .collect();
        let all = json!({ "rows": rows, "left_out": left_out, "notes": self.notes() });
        Ok(serde_json::to_string_pretty(&all)? + "\n")
    }
}
