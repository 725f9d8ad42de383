//! Calibration: from which distance on the nearest item of a query is not closer than chance.
//!
//! For every direction, two distributions of the distance to the nearest database item:
//!
//! - of real queries: the validation items; in text modalities also their words, each typed alone. The
//!   item itself is not counted.
//! - of chance: codes whose bits come from different queries, so that every bit keeps its distribution
//!   and nothing connects the bits (a permutation test).
//!
//! The threshold is the distance that only a tenth of the codes by chance fall below, but so large that
//! at most 5 % of the real queries reach it. If both distributions are alike, no code reaches it.

use std::collections::BTreeSet;

use crosshash_codes::index::{Index as _, Query, Scan};
use crosshash_codes::{Bits, Codes};
use rand::seq::SliceRandom as _;
use rand::{Rng, SeedableRng as _};
use serde::{Deserialize, Serialize};

use crate::data::{Analyser, Dataset, Features, Split, Texts, View};
use crate::encode::{Encoder as _, signs};
use crate::evaluate::Coded;
use crate::prepare::Preparation;
use crate::{Model, Result};

/// Fewer queries permit no statement.
const MIN_QUERIES: usize = 20;
/// Queries of each kind, at most.
const MAX_QUERIES: usize = 400;
/// The share of codes by chance below the threshold.
const CHANCE_BELOW: f64 = 0.1;
/// The share of real queries that reach the threshold, at most.
const REAL_ABOVE: f64 = 0.05;

/// Distances of nearest items in one direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NearestDistances {
    /// Modality of the queries.
    pub query: String,
    /// Modality of the database.
    pub database: String,
    /// Number of real queries.
    pub queries: usize,
    /// The quantiles 5, 25, 50, 75 and 95 % of real queries.
    pub real: [u32; 5],
    /// The same quantiles of codes by chance.
    pub chance: [u32; 5],
    /// Nearest items at this distance or farther are not closer than chance.
    pub weak_from: u32,
}

/// The distances of every direction with enough validation items. `coded` are the
/// modalities, encoded by the model; the seed determines the codes by chance.
pub fn calibrate(
    model: &Model,
    dataset: &Dataset,
    split: &Split,
    coded: &[Coded],
    seed: u64,
) -> Result<Vec<NearestDistances>> {
    let training = dataset.training(split);
    let mut all = Vec::new();
    for from in coded {
        let name = &from.name;
        let view = training.validation(name)?;
        let (outputs, own) = queries(model, name, &view)?;
        let bits = model.bits();
        if own.len() < MIN_QUERIES {
            continue;
        }
        let real = signs(bits, &outputs)?;
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let chance = signs(bits, &shuffled(bits, &outputs, &mut random))?;
        for to in coded.iter().filter(|to| !to.database.is_empty()) {
            let none = vec![None; own.len()];
            let itself = if to.name == *name { &own } else { &none };
            let index = Scan::new(to.database.clone())?;
            let items = dataset.database(split, &to.name)?;
            let real = nearest(&index, &real, itself, &items)?;
            let chance = nearest(&index, &chance, &none, &items)?;
            if real.len() < MIN_QUERIES || chance.len() < MIN_QUERIES {
                continue;
            }
            all.push(NearestDistances {
                query: name.clone(),
                database: to.name.clone(),
                queries: real.len(),
                weak_from: threshold(&real, &chance),
                real: QUANTILES.map(|share| quantile(&real, share)),
                chance: QUANTILES.map(|share| quantile(&chance, share)),
            });
        }
    }
    Ok(all)
}

const QUANTILES: [f64; 5] = [0.05, 0.25, 0.5, 0.75, 0.95];

/// Outputs of the real queries, and the id of each that is an item.
fn queries(
    model: &Model,
    modality: &str,
    view: &View<'_>,
) -> Result<(Vec<f32>, Vec<Option<String>>)> {
    let step = view.len().div_ceil(MAX_QUERIES).max(1);
    let chosen: Vec<usize> = (0..view.len()).step_by(step).collect();
    let mut ids: Vec<Option<String>> =
        chosen.iter().map(|&at| Some(view.id(at).to_owned())).collect();
    if chosen.is_empty() {
        return Ok((Vec::new(), ids));
    }
    let Preparation::Text(vocabulary) = model.preparation(modality)? else {
        let features = view.features().select(&chosen);
        return Ok((model.outputs(modality, features, &|_| ())?, ids));
    };
    let texts: Vec<String> =
        chosen.iter().filter_map(|&at| Some(view.text(at)?.to_owned())).collect();
    let analyser = Analyser::new(vocabulary.analysis());
    let mut words = BTreeSet::new();
    for text in &texts {
        analyser.words(text, |word, _, term| {
            if vocabulary.contains(term) {
                words.insert(word.to_lowercase());
            }
        });
    }
    let step = words.len().div_ceil(MAX_QUERIES).max(1);
    let words: Vec<String> = words.into_iter().step_by(step).collect();
    ids.extend(words.iter().map(|_| None));
    let all: Texts = texts.into_iter().chain(words).collect();
    Ok((model.outputs(modality, Features::Text(all), &|_| ())?, ids))
}

/// Outputs whose columns are permuted independently.
fn shuffled(bits: Bits, outputs: &[f32], random: &mut impl Rng) -> Vec<f32> {
    let bits = bits.get();
    let mut mixed = outputs.to_vec();
    let mut rows: Vec<usize> = (0..outputs.len() / bits).collect();
    for bit in 0..bits {
        rows.shuffle(random);
        for (to, from) in rows.iter().enumerate() {
            mixed[to * bits + bit] = outputs[from * bits + bit];
        }
    }
    mixed
}

/// The distance of every query to its nearest item other than itself, ascending.
fn nearest(
    index: &Scan,
    queries: &Codes,
    itself: &[Option<String>],
    items: &View<'_>,
) -> Result<Vec<u32>> {
    let found = index.search(queries, &Query::nearest(2), &|_| ())?;
    let mut distances: Vec<u32> = found
        .into_iter()
        .zip(itself)
        .filter_map(|(hits, own)| {
            let is_other =
                |item: u32| own.as_ref().is_none_or(|own| items.id(item as usize) != own);
            hits.into_iter().find(|hit| is_other(hit.item)).map(|hit| hit.distance)
        })
        .collect();
    distances.sort_unstable();
    Ok(distances)
}

/// The threshold, from ascending distances.
fn threshold(real: &[u32], chance: &[u32]) -> u32 {
    quantile(chance, CHANCE_BELOW).max(quantile(real, 1.0 - REAL_ABOVE) + 1)
}

/// The smallest value that at least this share of the ascending values does not exceed.
fn quantile(values: &[u32], share: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "at most the number of values")]
    #[expect(clippy::cast_sign_loss, reason = "a share is positive")]
    let count = (share * values.len() as f64).ceil() as usize;
    values[count.clamp(1, values.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values() {
        let values: Vec<u32> = (1..=20).collect();
        let found = QUANTILES.map(|share| quantile(&values, share));
        assert_eq!(found, [1, 5, 10, 15, 19]);
        assert_eq!((quantile(&values, 0.0), quantile(&values, 1.0)), (1, 20));
    }

    #[test]
    fn the_threshold_separates_real_queries_from_chance() {
        let real: Vec<u32> = (0..100).map(|n| n / 20).collect(); // 0 to 4
        let far: Vec<u32> = (0..100).map(|n| 8 + n / 20).collect();
        assert_eq!(threshold(&real, &far), 8);
        // Alike: no query by chance reaches it, and so no real one.
        assert_eq!(threshold(&real, &real), 5);
    }

    #[test]
    fn shuffled_bits_keep_their_distribution() {
        let bits = Bits::new(8).unwrap();
        let outputs: Vec<f32> = (0..80).map(|n| (n as f32).sin()).collect();
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let mixed = shuffled(bits, &outputs, &mut random);
        assert_ne!(mixed, outputs);
        for bit in 0..8 {
            let column = |values: &[f32]| {
                let mut column: Vec<f32> =
                    values.iter().skip(bit).step_by(8).copied().collect();
                column.sort_by(f32::total_cmp);
                column
            };
            assert_eq!(column(&mixed), column(&outputs));
        }
    }
}
