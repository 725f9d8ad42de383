//! Changes that are not committed yet. A commit takes several threads and files; a search that follows a change
//! does not wait for it, but compares the few changed items with the query itself.
//!
//! The statistics of BM25 are those of committed and pending items together, so scores are those that the commit
//! will give, except that a commit may drop segments whose items were all replaced, with their statistics. A
//! pending change hides the committed item with the same id.

use std::collections::HashMap;
use std::sync::Arc;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::query::{Bm25StatisticsProvider, Bm25Weight};
use tantivy::schema::Field;
use tantivy::{DocAddress, Searcher, Term};

use super::index::{KeywordItem, failed, names};
use super::search::{KeywordHit, Tier};
use super::words::{QueryTerms, name_key};
use crate::Result;
use crate::data::Analyser;

/// An item with its terms.
pub(super) struct PendingItem {
    pub(super) item: KeywordItem,
    terms: HashMap<String, u32>,
    length: u32,
    names: Vec<u64>,
}

impl PendingItem {
    fn new(analyser: &Analyser, item: KeywordItem) -> PendingItem {
        let (mut terms, mut length) = (HashMap::new(), 0);
        analyser.words(&item.text, |_, _, term| {
            *terms.entry(term.to_owned()).or_default() += 1;
            length += 1;
        });
        PendingItem { names: names(&item), item, terms, length }
    }
}

/// A change of an item: its new content, or none if it was removed.
#[derive(Clone)]
pub(super) struct PendingChange {
    pub(super) item: Option<Arc<PendingItem>>,
    /// Its number, to recognise it after a commit.
    number: u64,
}

/// Changes by the key of their item.
#[derive(Clone, Default)]
pub(super) struct Pending {
    changes: HashMap<u64, PendingChange>,
    tokens: u64,
    items: u64,
    next: u64,
    /// The position of the last change.
    pub(super) position: u64,
}

impl Pending {
    pub(super) fn put(&mut self, key: u64, item: Option<KeywordItem>, analyser: &Analyser) {
        let item = item.map(|item| Arc::new(PendingItem::new(analyser, item)));
        if let Some(item) = &item {
            self.tokens += u64::from(item.length);
            self.items += 1;
        }
        self.next += 1;
        let change = PendingChange { item, number: self.next };
        let before = self.changes.insert(key, change);
        self.forget(before);
    }

    /// Removes the changes that a commit contains, unless they were changed again.
    pub(super) fn remove(&mut self, committed: &Pending) {
        for (key, change) in &committed.changes {
            if self.changes.get(key).is_some_and(|own| own.number == change.number) {
                let before = self.changes.remove(key);
                self.forget(before);
            }
        }
    }

    fn forget(&mut self, change: Option<PendingChange>) {
        if let Some(item) = change.and_then(|change| change.item) {
            self.tokens -= u64::from(item.length);
            self.items -= 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Number of changes.
    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether an item is among the changes.
    pub(super) fn has_items(&self) -> bool {
        self.items > 0
    }

    /// Whether a changed item contains a term.
    pub(super) fn has_term(&self, term: &str) -> bool {
        self.present().any(|item| item.terms.contains_key(term))
    }

    pub(super) fn changes(&self) -> impl Iterator<Item = (u64, &PendingChange)> {
        self.changes.iter().map(|(&key, change)| (key, change))
    }

    fn present(&self) -> impl Iterator<Item = &Arc<PendingItem>> {
        self.changes.values().filter_map(|change| change.item.as_ref())
    }

    /// The documents that no change replaces.
    pub(super) fn unchanged<T>(
        &self,
        searcher: &Searcher,
        mut found: Vec<(DocAddress, T)>,
    ) -> Result<Vec<(DocAddress, T)>> {
        if self.is_empty() || found.is_empty() {
            return Ok(found);
        }
        let mut keys = Vec::new();
        for segment in searcher.segment_readers() {
            keys.push(segment.fast_fields().u64("key").map_err(failed)?);
        }
        found.retain(|(document, _)| {
            let key = keys[document.segment_ord as usize].first(document.doc_id);
            key.is_none_or(|key| !self.changes.contains_key(&key))
        });
        Ok(found)
    }

    /// The changed items that match a query, and how many contain all and some of its words.
    pub(super) fn matching(
        &self,
        statistics: &Statistics<'_>,
        terms: &QueryTerms,
        query: &str,
    ) -> Result<(Vec<KeywordHit>, [usize; 2])> {
        let (mut hits, mut counts) = (Vec::new(), [0, 0]);
        if !self.has_items() {
            return Ok((hits, counts));
        }
        let mut weights = Vec::new();
        for term in terms.terms() {
            let term = Term::from_field_text(statistics.text, term);
            weights.push(Bm25Weight::for_terms(statistics, &[term]).map_err(failed)?);
        }
        let name = (!query.trim().is_empty()).then(|| name_key(query));
        for PendingItem { item, terms: own, length, names } in
            self.present().map(Arc::as_ref)
        {
            let norm = FieldNormReader::fieldnorm_to_id(*length);
            let (mut score, mut with) = (0.0, 0);
            for (term, weight) in terms.terms().iter().zip(&weights) {
                if let Some(&times) = own.get(term) {
                    score += weight.score(norm, times);
                    with += 1;
                }
            }
            let exact = name.is_some_and(|name| names.contains(&name));
            let tier = match with {
                0 => Tier::None,
                with if with == terms.terms().len() => Tier::All,
                _ => Tier::Some,
            };
            counts[0] += usize::from(tier == Tier::All);
            counts[1] += usize::from(tier != Tier::None);
            if exact || tier != Tier::None {
                hits.push(KeywordHit { id: item.id.clone(), score, tier, exact });
            }
        }
        Ok((hits, counts))
    }
}

/// Statistics of committed and pending items.
pub(super) struct Statistics<'a> {
    pub(super) searcher: &'a Searcher,
    pub(super) pending: &'a Pending,
    pub(super) text: Field,
}

impl Bm25StatisticsProvider for Statistics<'_> {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        Ok(self.searcher.total_num_tokens(field)? + self.pending.tokens)
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.searcher.total_num_docs()? + self.pending.items)
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        let committed = self.searcher.doc_freq(term)?;
        let word = term.value();
        let has_word = |item: &&Arc<PendingItem>| {
            word.as_str().is_some_and(|word| item.terms.contains_key(word))
        };
        Ok(committed + self.pending.present().filter(has_word).count() as u64)
    }
}
