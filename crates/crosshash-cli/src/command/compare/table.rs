//! The results of a comparison: means and standard deviations over splits and seeds, in all output
//! formats.

use anyhow::Result;
use crosshash::method::MethodInfo;
use serde_json::{Value, json};

use super::Trial;
use super::significance::{Standing, standings};
use super::trial::Details;
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
    /// Differences to the best method of the same length, by row.
    standings: Vec<Option<Standing>>,
    /// For every length, the validation MAP to which seconds are counted.
    common: Vec<(usize, f64)>,
}

/// The common MAP of a length is this share of the median of the best results.
const COMMON: f64 = 0.95;

/// One method at one code length, by split and seed.
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
    pub(crate) fn map(&self, (query, database): &(String, String)) -> Option<Mean> {
        Mean::of(self.done().filter_map(|trial| {
            let mut found = trial.directions.iter();
            found.find(|d| d.query == *query && d.database == *database)?.map
        }))
    }

    /// R@10 of pairs in one direction, over the trainings.
    fn recall(&self, direction: &(String, String)) -> Option<Mean> {
        self.over(|trial| trial.details(direction)?.r10)
    }

    fn over(&self, of: impl Fn(&Trial) -> Option<f64>) -> Option<Mean> {
        Mean::of(self.done().filter_map(of))
    }

    /// The trainings that did not fail.
    fn done(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(|trial| trial.failed.is_none())
    }

    /// The mean of a detail over the directions of the table, over the trainings.
    fn detail(
        &self,
        directions: &[(String, String)],
        of: impl Fn(&Details) -> Option<f64>,
    ) -> Option<Mean> {
        self.over(|trial| {
            let found = directions.iter().filter_map(|d| of(trial.details(d)?));
            Mean::of(found).map(|mean| mean.mean)
        })
    }

    /// The average precision of every query of all directions and splits, as a mean over the seeds; `None`
    /// if a training failed or has none.
    pub(super) fn by_query(&self, directions: &[(String, String)]) -> Option<Vec<f64>> {
        let mut splits: Vec<(&str, Vec<f64>, f64)> = Vec::new();
        for trial in &self.trials {
            let mut values = Vec::new();
            for direction in directions {
                values.extend(&trial.details(direction)?.average_precision);
            }
            if values.is_empty() || trial.failed.is_some() {
                return None;
            }
            match splits.iter_mut().find(|split| split.0 == trial.key) {
                Some((_, sum, count)) if sum.len() == values.len() => {
                    sum.iter_mut().zip(&values).for_each(|(sum, x)| *sum += x);
                    *count += 1.0;
                }
                Some(_) => return None,
                None => splits.push((&trial.key, values, 1.0)),
            }
        }
        // The same order for every method.
        splits.sort_by(|a, b| a.0.cmp(b.0));
        let means = splits.into_iter().flat_map(|(_, sum, count)| {
            sum.into_iter().map(move |sum| sum / count).collect::<Vec<f64>>()
        });
        Some(means.collect())
    }

    /// The name, with a mark for references.
    pub(crate) fn name(&self) -> String {
        let mark = match (self.done().next(), self.info.codes) {
            (None, _) => " (failed)",
            (Some(_), true) => "",
            (Some(_), false) => " (no codes)",
        };
        format!("{}{mark}", self.info.name)
    }
}

impl Table {
    pub(super) fn new(mut rows: Vec<Row>) -> Result<Table> {
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
        let standings = standings(&rows, &directions)?;
        let mut lengths: Vec<usize> = rows.iter().map(|row| row.bits).collect();
        lengths.sort_unstable();
        lengths.dedup();
        let common = lengths.into_iter().filter_map(|bits| {
            let rows = rows.iter().filter(|row| row.bits == bits);
            let mut best: Vec<f64> = rows
                .filter_map(|row| row.over(|trial| trial.validation).map(|mean| mean.mean))
                .collect();
            best.sort_by(f64::total_cmp);
            best.get(best.len() / 2).map(|median| (bits, COMMON * median))
        });
        let common = common.collect();
        Ok(Table { rows, directions, left_out, standings, common })
    }

    /// The directions in which recall of pairs is known.
    fn paired(&self) -> Vec<&(String, String)> {
        let known =
            |d: &&(String, String)| self.rows.iter().any(|row| row.recall(d).is_some());
        self.directions.iter().filter(known).collect()
    }

    /// The common MAP of a length.
    fn common(&self, bits: usize) -> Option<f64> {
        self.common.iter().find(|(known, _)| *known == bits).map(|(_, map)| *map)
    }

    /// The cells; the best result of every length and direction is marked by `bold`.
    pub(super) fn lines(&self, bold: impl Fn(&str) -> String) -> Vec<Vec<String>> {
        let mut heads = vec!["method".to_owned(), "bits".into()];
        heads.extend(self.directions.iter().map(|(from, to)| format!("{from} -> {to}")));
        let paired = self.paired();
        heads.extend(["to the best", "unseen", "NDCG@10"].map(String::from));
        heads.extend(paired.iter().map(|(from, to)| format!("R@10 {from} -> {to}")));
        let rest = [
            "words P@10",
            "validation",
            "last epoch",
            "train s",
            "s to 95 %",
            "s to common",
            "peak MiB",
            "coded/s",
            "runs",
        ];
        heads.extend(rest.map(String::from));
        let mut lines = vec![heads];
        for (k, row) in self.rows.iter().enumerate() {
            let seeds = row.trials.len();
            let text =
                |mean: Option<Mean>| mean.map_or("-".into(), |mean| mean.text(seeds));
            let short = |mean: Option<Mean>, digits: usize| {
                mean.map_or("-".into(), |mean| format!("{:.digits$}", mean.mean))
            };
            let mut cells = vec![row.name(), row.bits.to_string()];
            cells.extend(self.directions.iter().map(|direction| {
                let cell = text(row.map(direction));
                if self.is_best(row, direction) { bold(&cell) } else { cell }
            }));
            let detail = |of: fn(&Details) -> Option<f64>| {
                short(row.detail(&self.directions, of), 4)
            };
            let common = self.common(row.bits);
            cells.extend([
                self.standings[k].map_or("-".into(), Standing::text),
                detail(|d| d.unseen_map),
                detail(|d| d.ndcg10),
            ]);
            cells.extend(paired.iter().map(|direction| short(row.recall(direction), 4)));
            cells.extend([
                detail(|d| d.words10),
                text(row.over(|trial| trial.validation)),
                short(row.over(|trial| trial.validation_last), 4),
                short(row.over(|trial| Some(trial.seconds)), 1),
                short(row.over(Trial::converged), 1),
                short(row.over(|trial| trial.seconds_to(common?)), 1),
                short(row.over(|trial| trial.peak_mib), 0),
                short(row.over(|trial| trial.coded_per_second), 0),
                seeds.to_string(),
            ]);
            lines.push(cells);
        }
        lines
    }

    /// Whether a row has the best mean of its length in a direction, among methods with codes.
    fn is_best(&self, row: &Row, direction: &(String, String)) -> bool {
        let Some(own) = row.map(direction).filter(|_| row.info.codes) else { return false };
        let others =
            self.rows.iter().filter(|other| other.bits == row.bits && other.info.codes);
        others.filter_map(|other| other.map(direction)).all(|other| other.mean <= own.mean)
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
            notes.push(
                "to the best: difference of the mean MAP of all directions to the best method of the \
                 same length, 95 % interval and p-value by a paired bootstrap over queries (2,000 \
                 resamples), corrected by Holm's method; unseen: MAP over database items that are \
                 not training items; last epoch: validation without selection of the epoch"
                    .into(),
            );
            let common =
                self.common.iter().map(|(bits, map)| format!("{map:.4} at {bits} bits"));
            let common: Vec<String> = common.collect();
            notes.push(format!(
                "s to common: seconds to a validation MAP that is the same for all methods, 95 % of \
                 the median of their best: {}",
                common.join(", ")
            ));
        }
        if !self.paired().is_empty() {
            notes.push("R@10: recall of pairs among the query items, by codes".into());
        }
        for row in &self.rows {
            for (at, trial) in row.trials.iter().enumerate() {
                if let Some(why) = &trial.failed {
                    notes.push(format!(
                        "failed: {}, {} bits, run {}: {why}",
                        row.info.name,
                        row.bits,
                        at + 1
                    ));
                }
            }
        }
        let evaluated = self.rows.iter().flat_map(|row| &row.trials);
        if evaluated.flat_map(|trial| &trial.directions).any(|d| d.map.is_none()) {
            notes.push("the data set has no labels: MAP is omitted".into());
        }
        let left = self.left_out.iter();
        notes.extend(left.map(|(name, why)| format!("skipped: {name} {why}")));
        notes
    }

    /// For the terminal.
    pub(super) fn to_text(&self) -> String {
        let notes: String = self.notes().iter().map(|note| format!("{note}\n")).collect();
        grid::aligned(&self.lines(|cell| format!("*{cell}"))) + &notes
    }

    /// For documents.
    pub(super) fn to_markdown(&self) -> String {
        let notes: String = self.notes().iter().map(|note| format!("\n{note}\n")).collect();
        grid::markdown(&self.lines(|cell| format!("**{cell}**"))) + &notes
    }

    /// For papers.
    pub(super) fn to_latex(&self) -> String {
        let notes = self.notes().into_iter();
        let notes: String =
            notes.map(|note| format!("% {}\n", note.replace('\n', " "))).collect();
        grid::latex(&self.lines(grid::marked)) + &notes
    }

    /// For spreadsheets: one line per training.
    pub(super) fn to_csv(&self) -> String {
        let mut heads = "method,bits,trial,codes,validation,validation_last,best_epoch,\
                         train_seconds,seconds_to_95,peak_mib,coded_per_second,failed"
            .to_owned();
        self.directions.iter().for_each(|(from, to)| heads += &format!(",{from} -> {to}"));
        let paired = self.paired();
        paired.iter().for_each(|(from, to)| heads += &format!(",R@10 {from} -> {to}"));
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
                    cell(trial.validation_last),
                    best,
                    trial.seconds.to_string(),
                    cell(trial.converged()),
                    cell(trial.peak_mib),
                    cell(trial.coded_per_second),
                    trial.failed.as_ref().map_or(String::new(), |why| {
                        format!("\"{}\"", why.replace('"', "'"))
                    }),
                ];
                cells.extend(self.directions.iter().map(|(from, to)| {
                    let mut found = trial.directions.iter();
                    let found = found.find(|d| d.query == *from && d.database == *to);
                    cell(found.and_then(|d| d.map))
                }));
                let recall = |&d: &&(String, String)| {
                    cell(trial.details(d).and_then(|details| details.r10))
                };
                cells.extend(paired.iter().map(recall));
                out += &(cells.join(",") + "\n");
            }
        }
        out
    }

    /// For programs.
    pub(super) fn to_json(&self) -> Result<String> {
        let mean = |m: Option<Mean>| m.map(|m| json!({ "mean": m.mean, "sd": m.spread }));
        let row = |(k, row): (usize, &Row)| -> Value {
            let standing = self.standings[k].map(|standing| match standing {
                Standing::Best => json!("best"),
                Standing::Below(one) => json!(one),
            });
            let detail =
                |of: fn(&Details) -> Option<f64>| mean(row.detail(&self.directions, of));
            let failed: Vec<&String> =
                row.trials.iter().filter_map(|trial| trial.failed.as_ref()).collect();
            let directions = self.directions.iter().map(|d| {
                json!({
                    "query": d.0,
                    "database": d.1,
                    "map": mean(row.map(d)),
                    "recall_10": mean(row.recall(d)),
                })
            });
            json!({
                "method": row.info.name,
                "bits": row.bits,
                "codes": row.info.codes,
                "seeds": row.trials.len(),
                "failed": failed,
                "to_the_best": standing,
                "unseen_map": detail(|d| d.unseen_map),
                "ndcg_10": detail(|d| d.ndcg10),
                "recall_10": detail(|d| d.r10),
                "words_precision_10": detail(|d| d.words10),
                "validation_last": mean(row.over(|trial| trial.validation_last)),
                "seconds_to_common": mean({
                    let common = self.common(row.bits);
                    row.over(|trial| trial.seconds_to(common?))
                }),
                "directions": directions.collect::<Vec<_>>(),
                "validation": mean(row.over(|trial| trial.validation)),
                "train_seconds": mean(row.over(|trial| Some(trial.seconds))),
                "seconds_to_95": mean(row.over(Trial::converged)),
                "peak_mib": mean(row.over(|trial| trial.peak_mib)),
                "coded_per_second": mean(row.over(|trial| trial.coded_per_second)),
            })
        };
        let rows: Vec<Value> = self.rows.iter().enumerate().map(row).collect();
        let left_out: Vec<Value> = self
            .left_out
            .iter()
            .map(|(name, why)| json!({ "method": name, "why": why }))
            .collect();
        let all = json!({ "rows": rows, "left_out": left_out, "notes": self.notes() });
        Ok(serde_json::to_string_pretty(&all)? + "\n")
    }
}
