//! Validation: held-out items as queries; training items and the held-out items as the database, in the
//! ratio of seen to unseen items of the test.
//!
//! | metric | value |
//! |---|---|
//! | map | mean MAP over the directions between modalities, if there are labels |
//! | recall | mean R@10 of pairs (items of the same pair key) over the same directions, if there are pairs |
//! | words | mean P@5 of typed words that find items of another modality, if there are texts |
//!
//! P@5 is divided by its maximum (3 of 5 for a word of three items). It is also recorded over the validation
//! items only, as `words_unseen`, which is not part of a selection. The number of distinct codes and the
//! share of items with equal codes are recorded, too: MAP does not notice codes that collapse to groups.

use crosshash_codes::eval::{Options, Relevant, Scores, health, known_item, words};
use crosshash_codes::{Bits, Codes};
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::data::{Features, Training};
use crate::evaluate::{Coded, mean_map_of};
use crate::method::ModalityData;
use crate::model::outputs;
use crate::prepare::{Preparation, Rows};
use crate::tower::Tower;
use crate::typed_words::WordQueries;

/// Typed words of one validation, at most.
const WORDS: usize = 400;

/// The metric that chooses the best epoch, the settings of a search and the final rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Select {
    /// MAP.
    Map,
    /// R@10 of pairs.
    Recall,
    /// P@5 of typed words.
    Words,
    /// The mean of the metrics that are available for the data.
    #[default]
    Balanced,
}

/// The metrics of one validation; those that are not available for the data are absent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Validation {
    /// Mean tie-aware MAP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<f64>,
    /// Mean R@10 of pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recall: Option<f64>,
    /// Mean P@5 of typed words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<f64>,
    /// The same over the validation items only, which no training has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words_unseen: Option<f64>,
    /// Number of distinct codes, as a share of the items; that of the worst modality.
    #[serde(default)]
    pub distinct: f64,
    /// Share of the items whose code another item has too; that of the worst modality.
    #[serde(default)]
    pub tied: f64,
    /// The selected metric.
    pub score: f64,
}

/// The data that validation needs, prepared once.
pub(crate) struct ValidationSet {
    select: Select,
    modalities: Vec<Part>,
    words: Vec<Words>,
}

struct Part {
    database: Vec<usize>, // training items; the validation items follow them
    pairs: Vec<Option<Relevant>>, // of the validation items, by the modality that is searched
}

struct Words {
    text: usize,     // the modality of the queries
    database: usize, // the modality that is searched
    queries: WordQueries,
    unseen: Option<WordQueries>, // over the validation items only
}

impl ValidationSet {
    /// `None` without validation items.
    pub(crate) fn new(
        select: Select,
        training: &Training<'_>,
        most: usize,
        modalities: &[&ModalityData],
    ) -> Result<Option<ValidationSet>> {
        if modalities.iter().all(|data| data.validation.is_empty()) {
            return Ok(None);
        }
        let mut parts: Vec<Part> = Vec::new();
        let mut keys: Vec<Vec<&str>> = Vec::new();
        let mut held_out: Vec<Vec<&str>> = Vec::new();
        for data in modalities {
            let seen = training.train(&data.name)?;
            let unseen = training.validation(&data.name)?;
            let count = seen_items(seen.len(), unseen.len(), training.unseen_share(), most);
            let step = seen.len().div_ceil(count.max(1)).max(1);
            let database: Vec<usize> = (0..seen.len()).step_by(step).collect();
            let own: Vec<&str> = (0..unseen.len()).map(|at| unseen.pair_key(at)).collect();
            let seen = database.iter().map(|&at| seen.pair_key(at));
            let all = seen.chain(own.iter().copied());
            keys.push(all.collect());
            held_out.push(own);
            parts.push(Part { database, pairs: Vec::new() });
        }
        for (a, part) in parts.iter_mut().enumerate() {
            for (b, database) in keys.iter().enumerate() {
                let pairs = Relevant::by_key(&held_out[a], database)?;
                let any =
                    a != b && !held_out[a].is_empty() && pairs.without() < pairs.len();
                part.pairs.push(any.then_some(pairs));
            }
        }
        let mut words = Vec::new();
        for (text, data) in modalities.iter().enumerate() {
            let Preparation::Text(vocabulary) = &data.preparation else { continue };
            let (seen, unseen) =
                (training.train(&data.name)?, training.validation(&data.name)?);
            let texts = |view: &crate::data::View<'_>| -> Vec<(String, String)> {
                let one =
                    |at| Some((view.pair_key(at).to_owned(), view.text(at)?.to_owned()));
                (0..view.len()).filter_map(one).collect()
            };
            let texts = [texts(&seen), texts(&unseen)].concat();
            for (database, keys) in keys.iter().enumerate() {
                let other = &modalities[database].preparation;
                if database == text || other.is_text() {
                    continue;
                }
                let texts = texts.iter().map(|(key, text)| (key.as_str(), text.as_str()));
                let of = |keys: &[&str]| {
                    let texts = texts.clone();
                    WordQueries::new(vocabulary.analysis(), texts, keys, WORDS)
                };
                let queries = of(keys)?;
                if !queries.is_empty() {
                    let unseen = of(&held_out[database])?;
                    let unseen = Some(unseen).filter(|unseen| !unseen.is_empty());
                    words.push(Words { text, database, queries, unseen });
                }
            }
        }
        Ok(Some(ValidationSet { select, modalities: parts, words }))
    }

    /// The metrics of these towers.
    pub(crate) fn validate(
        &self,
        bits: Bits,
        modalities: &[(&ModalityData, &Tower)],
    ) -> Result<Validation> {
        let mut coded = Vec::new();
        for ((data, tower), part) in modalities.iter().zip(&self.modalities) {
            let real = |rows: &Rows, items: &[usize]| outputs(tower, rows, items, &|_| {});
            let held_out: Vec<usize> = (0..data.validation.len()).collect();
            let own = real(&data.validation, &held_out)?;
            let mut database = real(&data.rows, &part.database)?;
            database.extend_from_slice(&own);
            let labels = data.labels.select(&part.database);
            coded.push(Coded {
                name: data.name.clone(),
                queries: Codes::from_signs(bits, &own)?,
                query_labels: data.validation_labels.clone(),
                database: Codes::from_signs(bits, &database)?,
                database_labels: labels.concat(&data.validation_labels)?,
            });
        }
        let labelled = coded.iter().any(|one| one.query_labels.classes() > 0);
        let map = if labelled { mean_map_of(&coded, &Options::default())? } else { None };
        let mut recalls = Vec::new();
        for (from, part) in coded.iter().zip(&self.modalities) {
            for (to, pairs) in coded.iter().zip(&part.pairs) {
                if let Some(pairs) = pairs {
                    let scores = Scores::hamming(&from.queries, &to.database)?;
                    recalls.push(known_item(&scores, pairs)?.r10);
                }
            }
        }
        let (mut typed, mut typed_unseen) = (Vec::new(), Vec::new());
        for Words { text, database, queries, unseen } in &self.words {
            let (data, tower) = modalities[*text];
            let precision = |queries: &WordQueries, items: &Codes| -> Result<f64> {
                let rows = data.preparation.rows(Features::Text(queries.words.clone()))?;
                let all: Vec<usize> = (0..rows.len()).collect();
                let codes = outputs(tower, &rows, &all, &|_| {})?;
                let codes = Codes::from_signs(bits, &codes)?;
                let scores = Scores::hamming(&codes, items)?;
                Ok(words(&scores, &queries.relevant)?.p5_possible)
            };
            typed.push(precision(queries, &coded[*database].database)?);
            if let Some(unseen) = unseen {
                typed_unseen.push(precision(unseen, &coded[*database].queries)?);
            }
        }
        let (recall, words) = (mean(&recalls), mean(&typed));
        let every: Vec<f64> = [map, recall, words].into_iter().flatten().collect();
        let balanced = mean(&every).unwrap_or(0.0);
        let chosen = match self.select {
            Select::Map => map,
            Select::Recall => recall,
            Select::Words => words,
            Select::Balanced => None,
        };
        let (mut distinct, mut tied) = (1.0_f64, 0.0_f64);
        for one in &coded {
            let found = health(&one.database);
            distinct = distinct.min(found.unique_codes as f64 / found.codes.max(1) as f64);
            tied = tied.max(found.shared_code_rate);
        }
        let score = chosen.unwrap_or(balanced);
        let words_unseen = mean(&typed_unseen);
        Ok(Validation { map, recall, words, words_unseen, distinct, tied, score })
    }
}

/// Training items of the validation database, so that the share of unseen items is that of the test.
fn seen_items(seen: usize, unseen: usize, share: f64, most: usize) -> usize {
    let wanted =
        if share > 0.0 { unseen as f64 * (1.0 - share) / share } else { most as f64 };
    #[expect(clippy::cast_possible_truncation, reason = "a count")]
    #[expect(clippy::cast_sign_loss, reason = "not negative")]
    let wanted = wanted.round() as usize;
    wanted.clamp(1, most.max(1)).min(seen)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
