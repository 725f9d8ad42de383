//! One training of a comparison: results, time and memory.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result};
use crosshash::cosine_eval::{DirectionMetrics, Outputs, every_direction_by_cosine};
use crosshash::data::{LoadedDataset, Split, View};
use crosshash::encode::Encoder as _;
use crosshash::evaluate::every_direction;
use crosshash::{Config, Model, add_user_metrics};
use crosshash_codes::eval::Options;
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
    /// The split that was drawn.
    pub(super) split: String,
    /// Why the method was skipped, if it was.
    pub(crate) left_out: Option<String>,
    /// Mean MAP of the validation items in the best epoch.
    pub(crate) validation: Option<f64>,
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
}

/// The end of an epoch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct At {
    pub(crate) epoch: usize,
    pub(crate) seconds: f64,
    pub(crate) map: Option<f64>,
}

impl Trial {
    /// Whether the queries were evaluated, or the method was skipped.
    pub(super) fn is_evaluated(&self) -> bool {
        !self.directions.is_empty() || self.left_out.is_some()
    }

    /// Seconds until an epoch reached 95 % of the best validation MAP.
    pub(crate) fn converged(&self) -> Option<f64> {
        let wanted = CONVERGED * self.validation?;
        let there = |at: &&At| at.map.is_some_and(|map| map >= wanted);
        self.epochs.iter().find(there).map(|at| at.seconds)
    }
}

/// Trains, evaluates and writes the results.
pub(super) fn run(args: &Args, path: &Path) -> Result<ExitCode> {
    let config = args.config.as_deref().context("--trial requires --config")?;
    let config = Config::parse(&fs_err::read_to_string(config)?, &[])?;
    let mut opened =
        args.data_args.open(&args.data, args.root.as_deref(), config.modalities())?;
    let split = split(&mut opened, config.validation())?;
    let mut trial = Trial {
        config: config.to_toml()?,
        split: format!("{:016x}", split.hash()),
        left_out: None,
        validation: None,
        best: None,
        epochs: Vec::new(),
        seconds: 0.0,
        peak_mib: None,
        coded_per_second: None,
        directions: Vec::new(),
    };
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
            Ok(err) => return Err(err.into()),
            Err(err) => return Err(err),
        },
    }
    file::write(path, &(serde_json::to_string_pretty(&trial)? + "\n"))?;
    Ok(ExitCode::SUCCESS)
}

impl Trial {
    fn reach(&mut self, Fitted { history, best, .. }: &Fitted) {
        self.best = *best;
        self.validation = best.and_then(|best| history.epochs[best - 1].score());
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
    } else {
        let width = model.bits().get();
        let all = outputs(model, opened, split)?;
        seconds = started.elapsed().as_secs_f64();
        items = all.iter().map(|o| (o.queries.len() + o.database.len()) / width).sum();
        let progress = Progress::new("evaluating directions", all.len() * all.len());
        trial.directions =
            every_direction_by_cosine(&all, width, &TOP, &|done| progress.set(done));
    }
    trial.coded_per_second = Some(items as f64 / seconds.max(1e-9));
    Ok(())
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
            config: String::new(),
            split: String::new(),
            left_out: None,
            validation: Some(0.6),
            best: Some(3),
            epochs: vec![at(1, 2.0, 0.4), at(2, 4.0, 0.575), at(3, 6.0, 0.6)],
            seconds: 6.0,
            peak_mib: None,
            coded_per_second: None,
            directions: Vec::new(),
        };
        assert_eq!(trial.converged(), Some(4.0));
        assert_eq!(Trial { validation: None, ..trial }.converged(), None);
    }
}
