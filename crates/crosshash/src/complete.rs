//! Completes the run of a finished training: model, codes, evaluation and report.

use std::path::PathBuf;

use crosshash_codes::eval::Options;

use crate::calibrate::calibrate;
use crate::data::{Dataset, Split};
use crate::encode::Encoder as _;
use crate::evaluate::{Coded, Direction, every_direction};
use crate::run_dir::{CodedModality, DirectionReport, RunDir, RunReport};
use crate::suggest::suggest;
use crate::train::Epoch;
use crate::user_eval::add_user_metrics;
use crate::{Config, Model, Result};

/// A finished training.
#[derive(Clone, Debug)]
pub struct FinishedTraining<'a> {
    /// The data set as it is named in the report: a path, or a name.
    pub data: PathBuf,
    /// The folder of its files, if it is not that of the manifest.
    pub root: Option<PathBuf>,
    /// The configuration.
    pub config: &'a Config,
    /// The data set.
    pub dataset: &'a Dataset,
    /// Its split.
    pub split: &'a Split,
    /// The model.
    pub model: &'a Model,
    /// The epochs.
    pub history: &'a [Epoch],
    /// The best epoch by validation, from 1.
    pub best_epoch: Option<usize>,
    /// Seconds of training.
    pub seconds: Option<f64>,
}

/// Receives the progress of [`RunDir::complete`]: what is done, how much of it, and how much in all.
pub type CompleteProgress<'a> = &'a (dyn Fn(&str, usize, usize) + Sync);

impl RunDir {
    /// Saves the model, encodes queries and database of every modality, saves their codes, evaluates every
    /// direction, and saves the report. Returns its text and the evaluation.
    pub fn complete(
        &self,
        training: &FinishedTraining<'_>,
        progress: CompleteProgress<'_>,
    ) -> Result<(String, Vec<Direction>)> {
        let FinishedTraining { config, dataset, split, model, history, .. } = training;
        self.save_model(model)?;
        let mut modalities = Vec::new();
        for name in model.modalities() {
            let items =
                dataset.queries(split, name)?.len() + dataset.database(split, name)?.len();
            let what = format!("encoding {name}");
            let done = |done| progress(&what, done, items);
            let modality = CodedModality::encode(*model, dataset, split, name, &done)?;
            self.save_codes(&modality)?;
            modalities.push(modality);
        }
        let suggestions = suggest(model, dataset, split, &modalities)?;
        let coded: Vec<Coded> =
            modalities.into_iter().map(|modality| modality.coded).collect();
        let nearest = calibrate(model, dataset, split, &coded, config.seed())?;
        let all = coded.len() * coded.len();
        let mut directions = every_direction(&coded, &Options::default(), &|done| {
            progress("evaluating directions", done, all);
        })?;
        let all = directions.len();
        let done = |done| progress("pairs and typed words, direction", done, all);
        add_user_metrics(model, dataset, split, &mut directions, &done)?;
        let dropped = dataset.dropped().iter().chain(split.dropped());
        let dropped =
            dropped.map(|left| (left.modality.clone(), left.reason.clone(), left.items));
        let notes = dataset.label_note().map(str::to_owned).into_iter();
        let best = training.best_epoch;
        let report = self.save_report(&RunReport {
            data: RunReport::saved_path(&training.data),
            root: training.root.as_deref().map(RunReport::saved_path),
            split: format!("{:016x}", split.hash()),
            left_out: dropped.collect(),
            notes: notes.chain(split.notes().to_vec()).collect(),
            method: config.method().name.to_owned(),
            bits: config.bits().get(),
            seed: config.seed(),
            best_epoch: best,
            validation_map: best.and_then(|best| history.get(best - 1)?.map()),
            seconds: training.seconds,
            refit: false,
            directions: directions
                .iter()
                .map(DirectionReport::new)
                .collect::<Result<_>>()?,
            nearest,
            suggestions,
        })?;
        Ok((report, directions))
    }
}
