//! Suggestions: words that find the right items, for the start page of a search.
//!
//! A candidate is a word of the texts that occurs in at least `FIRST` items of another modality, but in at
//! most a quarter of them. It is typed alone and ranked as a service ranks it by meaning: Hamming candidates,
//! re-ranked by the stored outputs. It works if in every other modality with enough such items all of the
//! first `FIRST` contain it. Of the words that work, the most frequent ones are chosen whose items are
//! mostly different.

use std::collections::{BTreeMap, HashMap, HashSet};

use crosshash_codes::Codes;
use crosshash_codes::index::{Query, Rank};
use crosshash_codes::segments::{ItemBatch, Ranking, Snapshot};

use crate::data::{Analyser, Dataset, Features, Split, View};
use crate::encode::Encoder as _;
use crate::prepare::Preparation;
use crate::run_dir::{CodedModality, Suggestion};
use crate::{Model, Result};

/// First results that must contain the word.
const FIRST: usize = 5;
/// Suggestions of each modality, at most.
const MOST: usize = 10;
/// Words that are tried, at most: the most frequent ones.
const TRIED: usize = 600;
/// Lengths of words in characters.
const LENGTH: std::ops::RangeInclusive<usize> = 3..=16;

/// A modality that is searched.
struct Target<'a> {
    /// The pair key of every item, and how many items have it.
    keys: Vec<&'a str>,
    counts: HashMap<&'a str, usize>,
    snapshot: Snapshot,
}

/// Words that find the right items, for every modality with a vocabulary whose items are paired with those of
/// other modalities. `coded` are the modalities as they are served, encoded by the model.
pub fn suggest(
    model: &Model,
    dataset: &Dataset,
    split: &Split,
    coded: &[CodedModality],
) -> Result<Vec<Suggestion>> {
    let mut all = Vec::new();
    for name in model.modalities() {
        let Preparation::Text(vocabulary) = model.preparation(name)? else { continue };
        let mut targets = Vec::new();
        for to in coded.iter().filter(|to| to.coded.name != name) {
            targets.push(Target::new(dataset, split, to)?);
        }
        let views = [dataset.database(split, name)?, dataset.queries(split, name)?];
        let words = Words::new(&Analyser::new(vocabulary.analysis()), &views);
        for text in words.working(model, name, &targets)? {
            all.push(Suggestion { modality: name.to_owned(), text });
        }
    }
    Ok(all)
}

impl<'a> Target<'a> {
    fn new(
        dataset: &'a Dataset,
        split: &'a Split,
        to: &CodedModality,
    ) -> Result<Target<'a>> {
        let name = &to.coded.name;
        let mut keys = Vec::new();
        for view in [dataset.database(split, name)?, dataset.queries(split, name)?] {
            keys.extend((0..view.len()).map(|at| view.pair_key(at)));
        }
        let mut codes = to.coded.database.clone();
        codes.append(&to.coded.queries)?;
        let mut outputs = to.database_outputs.clone();
        outputs.append(&to.query_outputs)?;
        let items = ItemBatch { outputs: Some(outputs), ..ItemBatch::new(codes) };
        let mut counts = HashMap::new();
        for &key in &keys {
            *counts.entry(key).or_default() += 1;
        }
        Ok(Target { keys, counts, snapshot: Snapshot::in_memory(items, &[])? })
    }

    /// Number of items with one of these keys.
    fn items(&self, keys: &HashSet<&str>) -> usize {
        keys.iter().filter_map(|key| self.counts.get(key)).sum()
    }
}

/// Terms of the texts by pair key, and how they are written most often.
struct Words<'a> {
    keys: BTreeMap<String, HashSet<&'a str>>,
    written: HashMap<String, BTreeMap<String, usize>>,
}

impl<'a> Words<'a> {
    fn new(analyser: &Analyser, views: &[View<'a>]) -> Words<'a> {
        let mut words = Words { keys: BTreeMap::new(), written: HashMap::new() };
        for view in views {
            for at in 0..view.len() {
                let (key, text) = (view.pair_key(at), view.text(at).unwrap_or_default());
                analyser.words(text, |word, _, term| {
                    words.keys.entry(term.to_owned()).or_default().insert(key);
                    let forms = words.written.entry(term.to_owned()).or_default();
                    *forms.entry(word.to_lowercase()).or_default() += 1;
                });
            }
        }
        words
    }

    /// A term as it is written most often, if that can be shown.
    fn form(&self, term: &str) -> Option<&str> {
        let forms = self.written.get(term)?;
        let (form, _) =
            forms.iter().max_by_key(|(form, count)| (**count, form.as_str()))?;
        let fits = LENGTH.contains(&form.chars().count());
        (fits && form.chars().all(char::is_alphabetic)).then_some(form)
    }

    /// The words that work, chosen so that their items are mostly different.
    fn working(
        &self,
        model: &Model,
        modality: &str,
        targets: &[Target<'_>],
    ) -> Result<Vec<String>> {
        let mut tried: Vec<(usize, &str, &HashSet<&str>)> = Vec::new();
        for (term, keys) in &self.keys {
            let Some(form) = self.form(term) else { continue };
            let most = targets.iter().map(|target| (target.items(keys), target.keys.len()));
            let Some((count, of)) = most.max() else { continue };
            if count >= FIRST && count * 4 <= of {
                tried.push((count, form, keys));
            }
        }
        tried.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        tried.truncate(TRIED);
        if tried.is_empty() {
            return Ok(Vec::new());
        }
        let typed = Features::Text(tried.iter().map(|word| word.1).collect());
        let reals = model.outputs(modality, typed, &|_| ())?;
        let codes = Codes::from_signs(model.bits(), &reals)?;
        let mut works = vec![true; tried.len()];
        for target in targets {
            let (ranking, query) = (Ranking::by(Rank::Outputs), Query::nearest(FIRST));
            let found =
                target.snapshot.search_ranked(&codes, &reals, ranking, &query, &|_| ())?;
            for ((works, hits), (.., keys)) in works.iter_mut().zip(found).zip(&tried) {
                let right = hits
                    .iter()
                    .all(|hit| keys.contains(target.keys[hit.hit.item as usize]));
                *works &= right || target.items(keys) < FIRST;
            }
        }
        let mut chosen: Vec<(&str, &HashSet<&str>)> = Vec::new();
        for ((_, word, keys), _) in tried.iter().zip(&works).filter(|(_, works)| **works) {
            let is_new =
                |other: &HashSet<&str>| keys.intersection(other).count() * 4 <= keys.len();
            if chosen.len() < MOST && chosen.iter().all(|(_, other)| is_new(other)) {
                chosen.push((word, keys));
            }
        }
        Ok(chosen.into_iter().map(|(word, _)| word.to_owned()).collect())
    }
}
