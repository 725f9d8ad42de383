//! `RunReport`: data, split, best epoch and evaluation of a finished run.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::calibrate::NearestDistances;
use crate::data::emoji;
use crate::evaluate::Direction;
use crate::{Error, Result};

/// The content of `report.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunReport {
    /// The data set: a path, or the name of the built-in one.
    pub data: PathBuf,
    /// The folder of the files, if it is not that of the manifest.
    pub root: Option<PathBuf>,
    /// The hash of the split, in hexadecimal.
    pub split: String,
    /// Items that were dropped: modality, reason, number.
    pub left_out: Vec<(String, String, usize)>,
    /// Notes of the split.
    pub notes: Vec<String>,
    /// The method.
    pub method: String,
    /// Code length.
    pub bits: usize,
    /// The seed.
    pub seed: u64,
    /// The best epoch by validation, from 1.
    pub best_epoch: Option<usize>,
    /// Mean validation MAP of that epoch.
    pub validation_map: Option<f64>,
    /// Seconds of training.
    pub seconds: Option<f64>,
    /// Whether the model was trained again on all items, queries included, after its evaluation. The
    /// evaluation is then that of the first model.
    #[serde(default)]
    pub refit: bool,
    /// The evaluation of every direction.
    pub directions: Vec<DirectionReport>,
    /// Distances of nearest items, by which weak results are recognised; empty without validation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<NearestDistances>,
    /// Queries that find the right items, by the model of the run; empty for runs of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggestions: Vec<Suggestion>,
}

/// A query that finds the right items (`suggest.rs`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suggestion {
    /// The modality of the text.
    pub modality: String,
    /// The text.
    pub text: String,
}

/// The evaluation of one direction, as saved.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DirectionReport {
    /// The modality of the queries.
    pub query: String,
    /// The modality of the database.
    pub database: String,
    /// All metrics ([`codes::eval::Report`](crosshash_codes::eval::Report)) as JSON.
    pub report: Value,
}

impl RunReport {
    /// A path as it should be saved: absolute, so that it is valid in every working directory;
    /// names that are not a path stay as they are.
    pub fn saved_path(path: &Path) -> PathBuf {
        let absolute = std::path::absolute(path).ok().filter(|_| path.exists());
        // JSON can only contain UTF-8.
        let absolute = absolute.unwrap_or_else(|| path.to_owned());
        absolute.to_string_lossy().into_owned().into()
    }

    /// Whether the data set can be opened here.
    pub fn is_data_available(&self) -> bool {
        self.data == Path::new(emoji::NAME) || self.data.exists()
    }
}

impl DirectionReport {
    /// An evaluation to save.
    pub fn new(direction: &Direction) -> Result<DirectionReport> {
        let report = serde_json::to_value(&direction.report).map_err(|err| {
            Error::content(format!("the report cannot be written as JSON: {err}"))
        })?;
        let (query, database) = (direction.query.clone(), direction.database.clone());
        Ok(DirectionReport { query, database, report })
    }

    /// Tie-aware MAP; `None` without labels.
    pub fn map(&self) -> Option<f64> {
        self.report["map"]["tie_aware"].as_f64()
    }

    /// R@10 of pairs by Hamming distance.
    pub fn recall_of_pairs(&self) -> Option<f64> {
        self.report["known_item"]["r10"].as_f64()
    }

    /// What a user notices, beside MAP: name and value of every metric that was measured. Recall of pairs and
    /// typed words by Hamming distance, MAP by real outputs, and how well the codes of the database use
    /// their bits.
    pub fn user_metrics(&self) -> Vec<(&'static str, f64)> {
        let report = &self.report;
        let map = |ranking: &str| {
            let all = report["rankings"].as_array().map_or(&[][..], Vec::as_slice);
            all.iter().find(|one| one["ranking"] == ranking)?["map"].as_f64()
        };
        let health = &report["database_health"];
        let distinct = health["unique_codes"].as_f64().zip(health["codes"].as_f64());
        let all = [
            ("recall_at_1", report["known_item"]["r1"].as_f64()),
            ("recall_at_5", report["known_item"]["r5"].as_f64()),
            ("recall_at_10", report["known_item"]["r10"].as_f64()),
            ("median_rank", report["known_item"]["median_rank"].as_f64()),
            ("words_p5", report["words"]["p5_possible"].as_f64()),
            ("words_unseen_p5", report["words_unseen"]["p5_possible"].as_f64()),
            ("map_asymmetric", map("asymmetric")),
            ("map_real", map("cosine")),
            ("distinct_codes", distinct.map(|(unique, all)| unique / all.max(1.0))),
            ("constant_bits", health["constant_bits"].as_f64()),
            ("bit_entropy", health["bit_entropy"].as_f64()),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// MAP of a random ranking.
    pub fn chance(&self) -> Option<f64> {
        self.report["chance"].as_f64()
    }

    /// The precision-recall curve: pairs of recall and precision.
    pub fn precision_recall(&self) -> Vec<(f64, f64)> {
        let curves = &self.report["curves"];
        let values = |key: &str| {
            let values = curves[key].as_array().map_or(&[][..], Vec::as_slice);
            values.iter().filter_map(Value::as_f64).collect::<Vec<_>>()
        };
        values("recall").into_iter().zip(values("precision")).collect()
    }
}
