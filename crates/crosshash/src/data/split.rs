//! `Split`: training, validation, query and database items.
//!
//! Training items, validation items and queries are disjoint, including items that are paired or
//! grouped with them; other splits are rejected. The database may contain the training items (the usual
//! protocol). The hash identifies a split: xxh3-64 over the sorted ids of every part of every modality,
//! after their names, so that it does not depend on the order of files or rows.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::groups::ItemGroups;
use super::{Dataset, Dropped, Modality};
use crate::{Error, Result};

/// A part of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Training items.
    Train,
    /// Validation items: used to select the best epoch, not for training.
    Validation,
    /// Query items: not used by training and validation.
    Query,
    /// Database items.
    Database,
}

impl Part {
    /// All parts, in order.
    pub const ALL: [Part; 4] = [Part::Train, Part::Validation, Part::Query, Part::Database];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Part::Train => "train",
            Part::Validation => "validation",
            Part::Query => "query",
            Part::Database => "database",
        }
    }
}

/// The item numbers of each part of one modality, ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// Training items.
    pub train: Vec<usize>,
    /// Validation items.
    pub validation: Vec<usize>,
    /// Query items.
    pub query: Vec<usize>,
    /// Database items.
    pub database: Vec<usize>,
}

impl Parts {
    /// The items of one part.
    pub fn get(&self, part: Part) -> &[usize] {
        match part {
            Part::Train => &self.train,
            Part::Validation => &self.validation,
            Part::Query => &self.query,
            Part::Database => &self.database,
        }
    }
}

/// A checked split of one data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    parts: Vec<Parts>, // by modality
    hash: u64,
    dropped: Vec<Dropped>,
    notes: Vec<String>,
}

impl Split {
    /// Checks the parts of every modality, in the order of the data set.
    pub fn new(dataset: &Dataset, parts: Vec<Parts>) -> Result<Split> {
        if parts.len() != dataset.modalities().len() {
            return Err(Error::content(format!(
                "the split has {} modalities, the data set {}",
                parts.len(),
                dataset.modalities().len()
            )));
        }
        let pairs = || dataset.modalities().iter().zip(&parts);
        for (modality, parts) in pairs() {
            check_items(modality, parts)?;
        }
        check_apart(dataset, &parts)?;
        if pairs().all(|(_, parts)| parts.train.is_empty()) {
            return Err(Error::content("the split has no training items"));
        }
        let hash = hash(pairs());
        let dropped = dropped(pairs());
        Ok(Split { parts, hash, dropped, notes: Vec::new() })
    }

    /// The items of one part of a modality, by its number.
    pub fn items(&self, modality_idx: usize, part: Part) -> &[usize] {
        self.parts[modality_idx].get(part)
    }

    /// The parts of each modality.
    pub fn parts(&self) -> &[Parts] {
        &self.parts
    }

    /// Number of items of a part, over all modalities.
    pub fn count(&self, part: Part) -> usize {
        self.parts.iter().map(|parts| parts.get(part).len()).sum()
    }

    /// Number of modalities.
    pub fn modalities(&self) -> usize {
        self.parts.len()
    }

    /// The hash that identifies the split.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Differences between the split and its specification, as sentences.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub(super) fn with_notes(mut self, notes: Vec<String>) -> Split {
        self.notes = notes;
        self
    }

    /// Items that are in no part.
    pub fn dropped(&self) -> &[Dropped] {
        &self.dropped
    }
}

fn check_items(modality: &Modality, parts: &Parts) -> Result<()> {
    for part in Part::ALL {
        let items = parts.get(part);
        let ascending = items.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || items.last().is_some_and(|&last| last >= modality.len()) {
            return Err(Error::content(format!(
                "{} items of modality {} must be ascending numbers below {}",
                part.name(),
                modality.name(),
                modality.len()
            )));
        }
    }
    let train: HashSet<usize> = parts.train.iter().copied().collect();
    match parts.validation.iter().find(|item| train.contains(item)) {
        Some(&item) => Err(Error::content(format!(
            "item {:?} of modality {} is both in train and in validation",
            modality.ids()[item],
            modality.name()
        ))),
        None => Ok(()),
    }
}

/// Checks that no unit, over all modalities, is both a query and in training or validation, or both in
/// training and in validation.
fn check_apart(dataset: &Dataset, parts: &[Parts]) -> Result<()> {
    let units = ItemGroups::new(dataset);
    let items = |part: Part| {
        parts
            .iter()
            .enumerate()
            .flat_map(move |(k, parts)| parts.get(part).iter().map(move |&item| (k, item)))
    };
    let mut seen: HashMap<usize, (usize, Part)> = HashMap::new();
    for part in [Part::Train, Part::Validation, Part::Query] {
        for (k, item) in items(part) {
            let Some(&(other, before)) = seen.get(&units.get(k, item)) else { continue };
            let (modality, other) =
                (&dataset.modalities()[k], &dataset.modalities()[other]);
            let id = modality.ids()[item].as_str();
            let what = match (modality.group(item), modality.pair_key(item)) {
                (Some(group), _) => format!("group {group:?} (item {id:?})"),
                (None, key) if key != id => format!("pair key {key:?} (item {id:?})"),
                _ => format!("id {id:?}"),
            };
            let (role, why) = match part {
                Part::Query => ("a query", "queries must not be used for training"),
                _ => ("in validation", "validation items must not be used for training"),
            };
            return Err(Error::content(format!(
                "{what} is {role} of modality {} and in {} of modality {}: {why}",
                modality.name(),
                before.name(),
                other.name()
            )));
        }
        for (k, item) in items(part) {
            seen.entry(units.get(k, item)).or_insert((k, part));
        }
    }
    Ok(())
}

fn hash<'a>(pairs: impl Iterator<Item = (&'a Modality, &'a Parts)>) -> u64 {
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort_by_key(|(modality, _)| modality.name());
    let mut state = Xxh3::new();
    let mut feed = |text: &str| {
        state.update(&(text.len() as u64).to_le_bytes());
        state.update(text.as_bytes());
    };
    for (modality, parts) in pairs {
        feed(modality.name());
        for part in Part::ALL {
            feed(part.name());
            let items = parts.get(part);
            let mut ids: Vec<&str> =
                items.iter().map(|&i| modality.ids()[i].as_str()).collect();
            ids.sort_unstable();
            ids.into_iter().for_each(&mut feed);
        }
    }
    state.digest()
}

fn dropped<'a>(pairs: impl Iterator<Item = (&'a Modality, &'a Parts)>) -> Vec<Dropped> {
    let mut all = Vec::new();
    for (modality, parts) in pairs {
        let mut used = vec![false; modality.len()];
        Part::ALL
            .iter()
            .for_each(|&part| parts.get(part).iter().for_each(|&i| used[i] = true));
        let mut counts: Vec<(String, usize)> = Vec::new();
        for item in (0..modality.len()).filter(|&item| !used[item]) {
            let reason = match modality.marks() {
                Some(marks) => {
                    format!(
                        "value {:?} of the split column belongs to no part",
                        marks[item]
                    )
                }
                None => "in no part of the split".to_owned(),
            };
            match counts.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, count)) => *count += 1,
                None => counts.push((reason, 1)),
            }
        }
        let modality = modality.name().to_owned();
        all.extend(counts.into_iter().map(|(reason, items)| Dropped {
            modality: modality.clone(),
            reason,
            items,
        }));
    }
    all
}
