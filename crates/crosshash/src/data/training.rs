//! `Training`: the training and validation items of a data set, without access to its queries.
//!
//! Methods, normalisers and vocabularies are fitted on a `Training`; only
//! [`Dataset::training`](super::Dataset::training) creates one, so that the types prevent training on
//! queries.

use xxhash_rust::xxh3::Xxh3;

use super::{Analysis, Dataset, Part, Split, View};
use crate::Result;

/// The items that training code can access.
#[derive(Debug, Clone, Copy)]
pub struct Training<'a> {
    dataset: &'a Dataset,
    split: &'a Split,
}

impl<'a> Training<'a> {
    pub(super) fn new(dataset: &'a Dataset, split: &'a Split) -> Training<'a> {
        let fits = split.modalities() == dataset.modalities().len();
        assert!(fits, "the split belongs to another data set");
        Training { dataset, split }
    }

    /// The names of the modalities, in order.
    pub fn modalities(&self) -> impl Iterator<Item = &'a str> {
        self.dataset.modalities().iter().map(super::Modality::name)
    }

    /// The names of the labels.
    pub fn label_names(&self) -> &'a [String] {
        self.dataset.label_names()
    }

    /// Whether there are labels.
    pub fn has_labels(&self) -> bool {
        self.dataset.has_labels()
    }

    /// How the texts of a modality are analysed.
    pub fn analysis(&self, modality: &str) -> Result<&'a Analysis> {
        Ok(self.dataset.modality(modality)?.analysis())
    }

    /// The training items of a modality.
    pub fn train(&self, modality: &str) -> Result<View<'a>> {
        self.dataset.part(self.split, modality, Part::Train)
    }

    /// The validation items of a modality; there may be none.
    pub fn validation(&self, modality: &str) -> Result<View<'a>> {
        self.dataset.part(self.split, modality, Part::Validation)
    }

    /// The share of the database that training does not see, over all modalities: a number, which
    /// reveals nothing of the items.
    pub fn unseen_share(&self) -> f64 {
        let (mut all, mut unseen) = (0, 0);
        for parts in self.split.parts() {
            let mut trained = parts.get(Part::Train).to_vec();
            trained.sort_unstable();
            let database = parts.get(Part::Database);
            let is_unseen = |item: &&usize| trained.binary_search(item).is_err();
            all += database.len();
            unseen += database.iter().filter(is_unseen).count();
        }
        unseen as f64 / all.max(1) as f64
    }

    /// The hash that identifies the split.
    pub fn split_hash(&self) -> u64 {
        self.split.hash()
    }

    /// A hash of the training data: split, label names, forms and widths of the modalities, the labels of
    /// all training and validation items, and their pair keys if they are not the ids. Features are not included, because they may be
    /// large.
    pub fn fingerprint(&self) -> Result<u64> {
        let mut state = Xxh3::new();
        let mut feed = |bytes: &[u8]| {
            state.update(&(bytes.len() as u64).to_le_bytes());
            state.update(bytes);
        };
        feed(&self.split_hash().to_le_bytes());
        self.label_names().iter().for_each(|name| feed(name.as_bytes()));
        for name in self.modalities() {
            for view in [self.train(name)?, self.validation(name)?] {
                let width = view.width().unwrap_or(0) as u64;
                feed(format!("{name} {} {width}", view.form()).as_bytes());
                let labels = view.labels();
                for item in 0..labels.len() {
                    let own: Vec<u8> = labels
                        .indices(item)
                        .flat_map(|label| (label as u64).to_le_bytes())
                        .collect();
                    feed(&own);
                    if view.has_pair_keys() {
                        feed(view.pair_key(item).as_bytes());
                    }
                }
            }
        }
        Ok(state.digest())
    }
}
