//! Items that match the words of a query, ranked.

use std::collections::{HashMap, HashSet};

use tantivy::collector::{Collector, DocSetCollector, SegmentCollector};
use tantivy::query::{BooleanQuery, Occur, Query, TermQuery};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocAddress, DocId, Score, Searcher, SegmentOrdinal, SegmentReader, Term};

use super::KeywordIndex;
use super::index::failed;
use super::pending::{Pending, Statistics};
use super::words::{QueryTerms, name_key};
use crate::{Error, Result};

/// An item that matches a query by words.
#[derive(Debug, Clone, PartialEq)]
pub struct KeywordHit {
    /// Its id.
    pub id: String,
    /// BM25; 0 if its text has none of the words.
    pub score: f32,
    /// How many of the words its text contains.
    pub tier: Tier,
    /// Whether its text, a name or its id is the whole query.
    pub exact: bool,
}

/// How many words of a query a text contains, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// All words.
    All,
    /// Some of the words.
    Some,
    /// None.
    None,
}

/// Exact, tier and score of a document.
type Match = (bool, Tier, f32);

/// Best first.
fn order(a: &Match, b: &Match) -> std::cmp::Ordering {
    b.0.cmp(&a.0).then(a.1.cmp(&b.1)).then(b.2.total_cmp(&a.2))
}

/// The items that match a query by words, best first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeywordHits {
    /// The first of them.
    pub hits: Vec<KeywordHit>,
    /// Number of items that contain all words.
    pub all: usize,
    /// Number of items that contain at least one of the words.
    pub some: usize,
}

impl KeywordIndex {
    /// The first `limit` items that match a query: exact ones, then by tier, BM25 and id.
    pub fn search(&self, query: &str, limit: usize) -> Result<KeywordHits> {
        let (searcher, pending) = self.view();
        let terms = self.terms(query);
        let statistics =
            Statistics { searcher: &searcher, pending: &pending, text: self.fields.text };
        let all_words = self.query(&terms, Occur::Should);
        let some =
            searcher.search_with_statistics_provider(&all_words, &Scores, &statistics);
        let some = pending.unchanged(&searcher, some.map_err(failed)?)?;
        let all = match terms.terms().len() {
            0 | 1 => None,
            _ => {
                let query = self.query(&terms, Occur::Must);
                Some(documents(&searcher, &pending, &query)?)
            }
        };
        let exact = self.exact(&searcher, &pending, query)?;
        let mut found: HashMap<DocAddress, Match> =
            exact.iter().map(|&document| (document, (true, Tier::None, 0.0))).collect();
        let counts = (all.as_ref().map_or(some.len(), HashSet::len), some.len());
        for (document, score) in some {
            let has_all = all.as_ref().is_none_or(|all| all.contains(&document));
            let tier = if has_all { Tier::All } else { Tier::Some };
            found.insert(document, (exact.contains(&document), tier, score));
        }
        let mut hits = first(&searcher, found, limit)?;
        let (changed, more) = pending.matching(&statistics, &terms, query)?;
        if !changed.is_empty() {
            hits.extend(changed);
            sort(&mut hits);
            hits.truncate(limit);
        }
        Ok(KeywordHits { hits, all: counts.0 + more[0], some: counts.1 + more[1] })
    }

    fn query(&self, terms: &QueryTerms, occur: Occur) -> BooleanQuery {
        let one = |term: &String| -> (Occur, Box<dyn Query>) {
            let term = Term::from_field_text(self.fields.text, term);
            (occur, Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs)))
        };
        BooleanQuery::new(terms.terms().iter().map(one).collect())
    }

    /// The documents with this name.
    fn exact(
        &self,
        searcher: &Searcher,
        pending: &Pending,
        query: &str,
    ) -> Result<HashSet<DocAddress>> {
        if query.trim().is_empty() {
            return Ok(HashSet::new());
        }
        let term = Term::from_field_u64(self.fields.name, name_key(query));
        let query = TermQuery::new(term, IndexRecordOption::Basic);
        documents(searcher, pending, &query)
    }
}

/// The documents that match a query and were not changed since.
fn documents(
    searcher: &Searcher,
    pending: &Pending,
    query: &dyn Query,
) -> Result<HashSet<DocAddress>> {
    let found = searcher.search(query, &DocSetCollector).map_err(failed)?;
    let found = found.into_iter().map(|document| (document, ())).collect();
    let unchanged = pending.unchanged(searcher, found)?;
    Ok(unchanged.into_iter().map(|(document, ())| document).collect())
}

/// Sorts hits, best first.
fn sort(hits: &mut [KeywordHit]) {
    hits.sort_unstable_by(|a, b| {
        let (left, right) = ((a.exact, a.tier, a.score), (b.exact, b.tier, b.score));
        order(&left, &right).then_with(|| a.id.cmp(&b.id))
    });
}

/// The first documents by tier, score and id. Only the ids of documents that can be among them are
/// read.
fn first(
    searcher: &Searcher,
    found: HashMap<DocAddress, Match>,
    limit: usize,
) -> Result<Vec<KeywordHit>> {
    let mut ranked: Vec<(DocAddress, Match)> = found.into_iter().collect();
    if limit == 0 || ranked.is_empty() {
        return Ok(Vec::new());
    }
    if limit < ranked.len() {
        ranked.select_nth_unstable_by(limit - 1, |a, b| order(&a.1, &b.1));
        let last = ranked[limit - 1].1;
        ranked.retain(|one| order(&one.1, &last).is_le());
    }
    let mut by_segment: HashMap<SegmentOrdinal, Vec<(DocId, Match)>> = HashMap::new();
    for (document, value) in ranked {
        by_segment.entry(document.segment_ord).or_default().push((document.doc_id, value));
    }
    let mut hits = Vec::new();
    for (segment, documents) in by_segment {
        hits.extend(with_ids(searcher.segment_reader(segment), documents)?);
    }
    sort(&mut hits);
    hits.truncate(limit);
    Ok(hits)
}

/// The ids of documents.
pub(super) fn ids(
    searcher: &Searcher,
    documents: impl IntoIterator<Item = DocAddress>,
) -> Result<Vec<String>> {
    let some = documents.into_iter().map(|document| (document, (false, Tier::None, 0.0)));
    let hits = first(searcher, some.collect(), usize::MAX)?;
    Ok(hits.into_iter().map(|hit| hit.id).collect())
}

/// Documents of one segment with their ids, which are read in the order of the dictionary.
fn with_ids(
    segment: &SegmentReader,
    documents: Vec<(DocId, Match)>,
) -> Result<Vec<KeywordHit>> {
    let damaged = || Error::content("keyword index: an item has no id; remove its folder");
    let ids = segment.fast_fields().str("id").map_err(failed)?.ok_or_else(damaged)?;
    let mut numbered = Vec::with_capacity(documents.len());
    for (document, value) in documents {
        numbered.push((ids.term_ords(document).next().ok_or_else(damaged)?, value));
    }
    numbered.sort_unstable_by_key(|one| one.0);
    let ordinals: Vec<u64> = numbered.iter().map(|one| one.0).collect();
    let mut hits = Vec::with_capacity(numbered.len());
    let mut values = numbered.into_iter();
    let complete = ids.dictionary().sorted_ords_to_term_cb(&ordinals, |id| {
        if let Some((_, (exact, tier, score))) = values.next() {
            let id = String::from_utf8_lossy(id).into_owned();
            hits.push(KeywordHit { id, score, tier, exact });
        }
    })?;
    if complete { Ok(hits) } else { Err(damaged()) }
}

/// Collects every matching document with its score.
struct Scores;

struct SegmentScores {
    segment: SegmentOrdinal,
    scores: Vec<(DocAddress, Score)>,
}

impl Collector for Scores {
    type Fruit = Vec<(DocAddress, Score)>;
    type Child = SegmentScores;

    fn for_segment(
        &self,
        segment: SegmentOrdinal,
        _: &SegmentReader,
    ) -> tantivy::Result<SegmentScores> {
        Ok(SegmentScores { segment, scores: Vec::new() })
    }

    fn requires_scoring(&self) -> bool {
        true
    }

    fn merge_fruits(&self, all: Vec<Self::Fruit>) -> tantivy::Result<Self::Fruit> {
        Ok(all.concat())
    }
}

impl SegmentCollector for SegmentScores {
    type Fruit = Vec<(DocAddress, Score)>;

    fn collect(&mut self, document: DocId, score: Score) {
        self.scores.push((DocAddress::new(self.segment, document), score));
    }

    fn harvest(self) -> Self::Fruit {
        self.scores
    }
}
