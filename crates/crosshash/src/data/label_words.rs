//! Labels from texts: frequent words of the training texts, instead of given labels or in addition to them.
//!
//! A word is a term of the analyser of the text modality (lower case, without its stop words, stemmed if it
//! stems). Its frequency is the number of training pair keys whose texts contain it; words within the bounds
//! are labels, the most frequent first. Queries and validation items do not influence the choice. Every item
//! has the labels of the texts of its pair key, so that queries can be evaluated.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crosshash_codes::Labels;

use super::{Analyser, Dataset, Features, FromText, Part, Split, Texts};
use crate::{Error, Result};

impl Dataset {
    /// The same items with frequent words of the training texts of a split as labels, after the labels
    /// that the data give. A word that is also the name of a given label is called `WORD (word)`. Labels
    /// that were derived before are replaced.
    pub fn with_labels_from_text(
        &self,
        split: &Split,
        source: &FromText,
    ) -> Result<Dataset> {
        let context = |err: Error| Error::content(format!("labels, from_text: {err}"));
        source.check().map_err(context)?;
        let at = self.modality_idx(&source.modality).map_err(context)?;
        let words = self.words_by_key(at).map_err(context)?;
        let modality = &self.modalities()[at];
        let train = split.items(at, Part::Train).iter();
        let train: HashSet<&str> = train.map(|&item| modality.pair_key(item)).collect();
        let names = frequent(source, &words, &train);
        if names.is_empty() {
            return Err(context(Error::content(format!(
                "no word occurs in the training texts of at least {} and at most {} of {} pair \
                 keys; change min_items or max_share",
                source.min_items,
                source.most(train.len()),
                train.len()
            ))));
        }
        let given = &self.label_names()[..self.given_labels];
        let first =
            u32::try_from(given.len()).map_err(|_| Error::content("too many labels"))?;
        let number: HashMap<&str, u32> = names.iter().copied().zip(first..).collect();
        let mut modalities = Vec::new();
        for modality in self.modalities() {
            let classes = given.len() + names.len();
            let mut labels = Labels::from_indices(classes, Vec::<Vec<u32>>::new())?;
            for item in 0..modality.len() {
                let kept = modality.labels().indices(item);
                let kept = kept.filter_map(|label| u32::try_from(label).ok());
                let kept = kept.filter(|&label| label < first);
                let own = words.get(modality.pair_key(item)).into_iter().flatten();
                let own = own.filter_map(|word| number.get(word.as_str()).copied());
                let all: Vec<u32> = kept.chain(own).collect();
                labels.push(&all)?;
            }
            modalities.push(modality.clone().with_labels(labels)?);
        }
        let beside = match given.len() {
            0 => String::new(),
            given => format!("{given} labels of the data, and "),
        };
        let note = format!(
            "labels: {beside}{} frequent words of the training texts of modality {} (at least {} items, at \
             most {} % of them); {} derived from texts",
            names.len(),
            source.modality,
            source.min_items,
            100.0 * source.max_share,
            if given.is_empty() { "they are" } else { "the words are" },
        );
        let taken: HashSet<&str> = given.iter().map(String::as_str).collect();
        let name = |word: &str| {
            if taken.contains(word) { format!("{word} (word)") } else { word.to_owned() }
        };
        let names = given.iter().cloned().chain(names.into_iter().map(name)).collect();
        let mut labelled = Dataset::new(self.name(), names, modalities)?;
        labelled.dropped = self.dropped().to_vec();
        labelled.given_labels = self.given_labels;
        labelled.label_note = Some(note);
        Ok(labelled)
    }

    /// The words of all texts of every pair key.
    fn words_by_key(&self, at: usize) -> Result<HashMap<&str, BTreeSet<String>>> {
        let modality = &self.modalities()[at];
        let texts: &Texts = match modality.features() {
            Features::Text(texts) => texts,
            other => {
                return Err(Error::content(format!(
                    "modality {} has {} features, not texts; labels from text and a backbone for \
                     these texts cannot be combined",
                    modality.name(),
                    other.form()
                )));
            }
        };
        let analyser = Analyser::new(modality.analysis());
        let mut words: HashMap<&str, BTreeSet<String>> = HashMap::new();
        for item in 0..modality.len() {
            let own = words.entry(modality.pair_key(item)).or_default();
            analyser.terms(texts.get(item), |word| {
                if !own.contains(word) {
                    own.insert(word.to_owned());
                }
            });
        }
        Ok(words)
    }
}

impl FromText {
    fn check(&self) -> Result<()> {
        if !(0.0..=1.0).contains(&self.max_share) {
            return Err(Error::content(format!(
                "max_share must be between 0 and 1, not {}",
                self.max_share
            )));
        }
        if self.max_labels == 0 {
            return Err(Error::content("max_labels must be at least 1"));
        }
        Ok(())
    }

    /// Maximum number of training pair keys that contain a word.
    fn most(&self, keys: usize) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "at most the number of keys")]
        #[expect(clippy::cast_sign_loss, reason = "not negative")]
        let most = (self.max_share * keys as f64).floor() as usize;
        most
    }
}

/// The words within the bounds, in alphabetical order.
fn frequent<'a>(
    source: &FromText,
    words: &'a HashMap<&str, BTreeSet<String>>,
    train: &HashSet<&str>,
) -> Vec<&'a str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, own) in words.iter().filter(|(key, _)| train.contains(*key)) {
        own.iter().for_each(|word| *counts.entry(word).or_default() += 1);
    }
    let bounds = source.min_items.max(1)..=source.most(train.len());
    let mut found: Vec<(&str, usize)> =
        counts.into_iter().filter(|(_, count)| bounds.contains(count)).collect();
    found.sort_by_key(|&(word, count)| (std::cmp::Reverse(count), word));
    let mut names: Vec<&str> =
        found.into_iter().take(source.max_labels).map(|(word, _)| word).collect();
    names.sort_unstable();
    names
}
