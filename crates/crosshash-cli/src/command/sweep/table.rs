//! The results of a sweep: means and standard deviations over seeds, in all output formats.

use serde_json::{Value, json};

use super::Trial;
use super::plan::Point;
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
    /// Over its seeds: the validation MAP.
    pub(crate) fn validation(&self) -> Option<Mean> {
        Mean::of(self.trials.iter().filter_map(|trial| trial.validation))
    }

    /// Over its seeds: the MAP of the queries in one direction.
    pub(crate) fn map(&self, (query, database): &(String, String)) -> Option<Mean> {
        Mean::of(self.trials.iter().filter_map(|trial| {
            let mut found = trial.directions.iter();
            found.find(|d| d.query == *query && d.database == *database)?.map
        }))
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

    /// The row of the best validation MAP.
    pub(crate) fn best(&self) -> Option<&Row> {
        let validated =
            self.rows.iter().filter_map(|row| Some((row, row.validation()?.mean)));
        validated.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(row, _)| row)
    }

    fn heads(&self) -> Vec<String> {
        let mut heads: Vec<String> = self.keys.iter().map(|(key, _)| key.clone()).collect();
        heads.push("validation".into());
        heads.extend(self.directions.iter().map(|(from, to)| format!("{from} -> {to}")));
        heads.extend(["quantisation".into(), "seconds".into()]);
        heads
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let seeds = row.trials.len();
        let text = |mean: Option<Mean>| mean.map_or("-".into(), |mean| mean.text(seeds));
        let value = |key: &String| row.point.value(key).unwrap_or("-").to_owned();
        let mut cells: Vec<String> = self.keys.iter().map(|(key, _)| value(key)).collect();
        cells.push(text(row.validation()));
        cells.extend(self.directions.iter().map(|direction| text(row.map(direction))));
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
        heads.extend(self.directions.iter().map(|(from, to)| format!("{from} -> {to}")));
        let mut out = heads.join(",") + "\n";
        for row in &self.rows {
            for (k, trial) in row.trials.iter().enumerate() {
                let value = |key: &String| row.point.value(key).unwrap_or("").to_owned();
                let mut cells: Vec<String> =
                    self.keys.iter().map(|(key, _)| value(key)).collect();
                let validation = trial.validation.map_or(String::new(), |v| v.to_string());
                cells.extend([(k + 1).to_string(), validation, trial.seconds.to_string()]);
                cells.extend(self.directions.iter().map(|(from, to)| {
                    let mut found = trial.directions.iter();
                    let found = found.find(|d| d.query == *from && d.database == *to);
                    let map = found.and_then(|d| d.map);
                    map.map_or(String::new(), |map| map.to_string())
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
            let directions = self
                .directions
                .iter()
                .map(|d| json!({ "query": d.0, "database": d.1, "map": mean(row.map(d)) }));
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
