//! One training of a comparison: results, time and memory.

use std::collections::HashSet;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result};
use crosshash::cosine_eval::{DirectionMetrics, Outputs, every_direction_by_cosine};
use crosshash::data::{LoadedDataset, Split, View};
use crosshash::encode::Encoder as _;
use crosshash::evaluate::{Coded, Direction, every_direction};
use crosshash::{Config, Model, add_user_metrics};
use crosshash_codes::Labels;
use crosshash_codes::eval::{ApDenominator, Options, Relevance, Scores, average_precision};
use serde::{Deserialize, Serialize};

use super::Args;
use crate::evaluation::encode_all;
use crate::fit::{Fitted, fit, split};
use crate::memory::peak_mib;
use crate::progress::{Progress, say};
use crate::{file, interrupt};

/// The ranks of the saved top-N curve.
const TOP: [usize; 14] = [1, 2, 5, 10, 20, 50, 100, 200, 300, 400, 500, 600, 800, 1000];
/// The share of the best validation MAP that counts as converged.
const CONVERGED: f64 = 0.95;

/// The results of one training.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Trial {
    /// The complete configuration.
    pub(super) config: String,
    /// The program, data and split of the result; it is used again only if they are the same.
    #[serde(default)]
    pub(super) key: String,
    /// Why the method was skipped, if it was.
    pub(crate) left_out: Option<String>,
    /// Why the training failed, if it did.
    #[serde(default)]
    pub(crate) failed: Option<String>,
    /// Mean MAP of the validation items in the best epoch.
    pub(crate) validation: Option<f64>,
    /// The same in the last epoch.
    #[serde(default)]
    pub(crate) validation_last: Option<f64>,
    /// The best epoch, from 1.
    pub(crate) best: Option<usize>,
    /// Every epoch.
    pub(crate) epochs: Vec<At>,
    /// Seconds of training, validation included.
    pub(crate) seconds: f64,
    /// Peak memory of the process in MiB.
    pub(crate) peak_mib: Option<f64>,
    /// Items encoded per second.
    pub(crate) coded_per_second: Option<f64>,
    /// The evaluation of the queries in every direction; empty with --validation-only.
    pub(crate) directions: Vec<DirectionMetrics>,
    /// Further results of the same directions.
    #[serde(default)]
    pub(crate) details: Vec<Details>,
}

/// Further results of one direction.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Details {
    pub(crate) query: String,
    pub(crate) database: String,
    /// Average precision of every query; empty without labels.
    pub(crate) average_precision: Vec<f64>,
    /// MAP over database items that are not training items, if there are any.
    pub(crate) unseen_map: Option<f64>,
    /// NDCG of the first 10, graded by the rarity of shared labels.
    pub(crate) ndcg10: Option<f64>,
    /// Share of queries whose pair is among the first 10.
    pub(crate) r10: Option<f64>,
    /// Precision of the first 10 for typed words.
    pub(crate) words10: Option<f64>,
}

/// The end of an epoch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct At {
    pub(crate) epoch: usize,
    pub(crate) seconds: f64,
    pub(crate) map: Option<f64>,
}

impl Trial {
    /// Whether the queries were evaluated, or there is a reason why not.
    pub(super) fn is_evaluated(&self) -> bool {
        !self.directions.is_empty() || self.left_out.is_some() || self.failed.is_some()
    }

    /// Seconds until an epoch reached 95 % of the best validation MAP.
    pub(crate) fn converged(&self) -> Option<f64> {
        self.seconds_to(CONVERGED * self.validation?)
    }

    /// Seconds until an epoch reached a validation MAP.
    pub(crate) fn seconds_to(&self, wanted: f64) -> Option<f64> {
        let there = |at: &&At| at.map.is_some_and(|map| map >= wanted);
        self.epochs.iter().find(there).map(|at| at.seconds)
    }

    /// The details of a direction.
    pub(crate) fn details(&self, (query, database): &(String, String)) -> Option<&Details> {
        self.details.iter().find(|d| d.query == *query && d.database == *database)
    }

    /// A training that has not begun.
    pub(super) fn new(config: &Config, key: String) -> Result<Trial> {
        Ok(Trial {
            config: config.to_toml()?,
            key,
            left_out: None,
            failed: None,
            validation: None,
            validation_last: None,
            best: None,
            epochs: Vec::new(),
            seconds: 0.0,
            peak_mib: None,
            coded_per_second: None,
            directions: Vec::new(),
            details: Vec::new(),
        })
    }
}

/// Trains, evaluates and writes the results.
pub(super) fn run(args: &Args, path: &Path) -> Result<ExitCode> {
    let config = args.config.as_deref().context("--trial requires --config")?;
    let config = Config::parse(&fs_err::read_to_string(config)?, &[])?;
    let (opened, split) = open(args, &config, args.split)?;
    let mut trial = Trial::new(&config, key(&opened, &split)?)?;
    match fit(&config, &opened, &split, None) {
        Ok(None) => return Ok(interrupt::exit_code()),
        Ok(Some(fitted)) => {
            trial.reach(&fitted);
            // The peak of the training; the evaluation comes later.
            trial.peak_mib = peak_mib();
            if !args.validation_only {
                evaluate(&mut trial, &config, &fitted.model, &opened, &split)?;
            }
        }
        Err(err) => match err.downcast::<crosshash::Error>() {
            Ok(crosshash::Error::Unsuitable { method, why }) => {
                say(format!("skipped: {method} {why}"));
                trial.left_out = Some(why);
            }
            Ok(err) if err.is_of_training() => {
                say(format!("failed: {err}"));
                trial.failed = Some(err.to_string());
            }
            Ok(err) => return Err(err.into()),
            Err(err) => return Err(err),
        },
    }
    file::write(path, &(serde_json::to_string_pretty(&trial)? + "\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Opens the data set and draws a split: that of the manifest, or with another seed.
pub(super) fn open(
    args: &Args,
    config: &Config,
    number: u64,
) -> Result<(LoadedDataset, Split)> {
    let mut opened =
        args.data_args.open(&args.data, args.root.as_deref(), config.modalities())?;
    if number > 0 {
        let spec = opened.split_spec.as_mut().context(
            "--splits: the data set lists its split, so that only one can be drawn; use --splits 1",
        )?;
        spec.seed += number;
    }
    let split = split(&mut opened, config.validation())?;
    Ok((opened, split))
}

/// Identifies program, data and split: version, training data and where features come from.
pub(super) fn key(opened: &LoadedDataset, split: &Split) -> Result<String> {
    let training = opened.dataset.training(split);
    let mut key = format!(
        "{} {:016x} {:016x}",
        env!("CARGO_PKG_VERSION"),
        split.hash(),
        training.fingerprint()?
    );
    for name in training.modalities() {
        if let Some(source) = training.train(name)?.feature_source() {
            key += &format!(" {name}={source:?}");
        }
    }
    Ok(key)
}

impl Trial {
    fn reach(&mut self, Fitted { history, best, .. }: &Fitted) {
        self.best = *best;
        self.validation = best.and_then(|best| history.epochs[best - 1].score());
        self.validation_last = history.epochs.last().and_then(|row| row.score());
        self.seconds = history.seconds.last().copied().unwrap_or(0.0);
        let epochs = history.epochs.iter().zip(&history.seconds);
        let at =
            epochs.map(|(row, &seconds)| At { epoch: row.epoch, seconds, map: row.map() });
        self.epochs = at.collect();
    }
}

/// Encodes queries and database and evaluates every direction. The queries are used only here.
fn evaluate(
    trial: &mut Trial,
    config: &Config,
    model: &Model,
    opened: &LoadedDataset,
    split: &Split,
) -> Result<()> {
    let started = Instant::now();
    let (items, seconds);
    if config.method().codes {
        let coded = encode_all(model, &opened.dataset, split)?;
        seconds = started.elapsed().as_secs_f64();
        let coded: Vec<_> = coded.into_iter().map(|modality| modality.coded).collect();
        let unseen = unseen_items(opened, split, model)?;
        items = coded.iter().map(|c| c.queries.len() + c.database.len()).sum::<usize>();
        let progress = Progress::new("evaluating directions", coded.len() * coded.len());
        let mut found =
            every_direction(&coded, &Options::default(), &|done| progress.set(done))?;
        drop(progress);
        let progress = Progress::new("pairs and typed words, direction", found.len());
        let done = |done| progress.set(done);
        add_user_metrics(model, &opened.dataset, split, &mut found, &done)?;
        trial.directions =
            found.iter().map(|one| DirectionMetrics::of(one, &TOP)).collect();
        for one in &found {
            let side = |name: &str| coded.iter().position(|modality| modality.name == name);
            let (Some(from), Some(to)) = (side(&one.query), side(&one.database)) else {
                continue;
            };
            trial.details.push(details(one, &coded[from], &coded[to], &unseen[to])?);
        }
    } else {
        let width = model.bits().get();
        let all = outputs(model, opened, split)?;
        seconds = started.elapsed().as_secs_f64();
        items = all.iter().map(|o| (o.queries.len() + o.database.len()) / width).sum();
        let progress = Progress::new("evaluating directions", all.len() * all.len());
        trial.directions =
            every_direction_by_cosine(&all, width, &TOP, &|done| progress.set(done));
        for one in &trial.directions {
            let side = |name: &str| all.iter().find(|modality| modality.name == name);
            let (Some(from), Some(to)) = (side(&one.query), side(&one.database)) else {
                continue;
            };
            let scores = Scores::cosine(&from.queries, &to.database, width)?;
            trial.details.push(Details {
                query: one.query.clone(),
                database: one.database.clone(),
                average_precision: each_precision(
                    &scores,
                    &from.query_labels,
                    &to.database_labels,
                )?,
                ..Details::default()
            });
        }
    }
    trial.coded_per_second = Some(items as f64 / seconds.max(1e-9));
    Ok(())
}

/// Average precision of every query; none without labels.
fn each_precision(
    scores: &Scores<'_>,
    query: &Labels,
    database: &Labels,
) -> Result<Vec<f64>> {
    if query.classes() == 0 {
        return Ok(Vec::new());
    }
    let relevance = Relevance::Labels { query, database };
    Ok(scores.map(&relevance, |ranking| {
        average_precision(ranking, None, ApDenominator::Total)
    })?)
}

/// Further results of a direction; `unseen` are the database items that are not training items.
fn details(
    direction: &Direction,
    from: &Coded,
    to: &Coded,
    unseen: &[usize],
) -> Result<Details> {
    let user = &direction.report.user;
    let scores = Scores::hamming(&from.queries, &to.database)?;
    let labels = (&from.query_labels, &to.database_labels);
    let unseen_map = if unseen.is_empty() || labels.0.classes() == 0 {
        None
    } else {
        let (codes, labels) = (to.database.select(unseen), labels.1.select(unseen));
        let scores = Scores::hamming(&from.queries, &codes)?;
        let each = each_precision(&scores, &from.query_labels, &labels)?;
        Some(each.iter().sum::<f64>() / each.len().max(1) as f64)
    };
    Ok(Details {
        query: direction.query.clone(),
        database: direction.database.clone(),
        average_precision: each_precision(&scores, labels.0, labels.1)?,
        unseen_map,
        ndcg10: direction.report.ndcg_idf_at.get(&10).copied(),
        r10: user.known_item.as_ref().map(|found| found.r10),
        words10: user.words.as_ref().map(|found| found.p10),
    })
}

/// The database items of every modality that are not training items.
fn unseen_items(
    opened: &LoadedDataset,
    split: &Split,
    model: &Model,
) -> Result<Vec<Vec<usize>>> {
    let training = opened.dataset.training(split);
    let mut all = Vec::new();
    for name in model.modalities() {
        let (database, train) =
            (opened.dataset.database(split, name)?, training.train(name)?);
        let known: HashSet<&str> = (0..train.len()).map(|at| train.id(at)).collect();
        all.push(
            (0..database.len()).filter(|&at| !known.contains(database.id(at))).collect(),
        );
    }
    Ok(all)
}

/// The real outputs of queries and database.
fn outputs(model: &Model, opened: &LoadedDataset, split: &Split) -> Result<Vec<Outputs>> {
    let mut all = Vec::new();
    for name in model.modalities() {
        let of = |view: &View<'_>| model.outputs(name, view.features(), &|_| {});
        let queries = opened.dataset.queries(split, name)?;
        let database = opened.dataset.database(split, name)?;
        all.push(Outputs {
            name: name.to_owned(),
            queries: of(&queries)?,
            query_labels: queries.labels(),
            database: of(&database)?,
            database_labels: database.labels(),
        });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn convergence_is_the_first_epoch_near_the_best() {
        let at = |epoch, seconds, map| At { epoch, seconds, map: Some(map) };
        let trial = Trial {
            validation: Some(0.6),
            best: Some(3),
            epochs: vec![at(1, 2.0, 0.4), at(2, 4.0, 0.575), at(3, 6.0, 0.6)],
            seconds: 6.0,
            ..Trial::new(&Config::default(), String::new()).unwrap()
        };
        assert_eq!(trial.converged(), Some(4.0));
        assert_eq!((trial.seconds_to(0.4), trial.seconds_to(0.7)), (Some(2.0), None));
        assert_eq!(Trial { validation: None, ..trial }.converged(), None);
    }
}
