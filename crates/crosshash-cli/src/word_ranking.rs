//! Rankings by words, and by words and meaning.
//!
//! `both` fuses two rankings by reciprocal rank: the first items by words and the first by meaning, each
//! at most [`DEPTH`]; then come the other items by meaning. Items whose text, name or id is the whole
//! query are first. The list does not depend on the page, so pages neither overlap nor omit items.

use std::collections::HashSet;

use crosshash::Result;
use crosshash::keywords::{KeywordHit, KeywordIndex, QueryTerms, Tier, fuse};
use crosshash_codes::index::{Hit, ItemSet};
use crosshash_codes::segments::{Found, Snapshot};
use serde::{Deserialize, Serialize};

/// Fused items of each ranking.
const DEPTH: usize = 300;
/// Weight of an item that contains all words, relative to one that is similar in meaning or contains
/// some of the words: an item with all words at rank 60 by words is before the first one without.
const ALL_WORDS: f64 = 2.0;
/// Without a calibration, this many items are called similar in meaning.
const SIMILAR: usize = 100;
/// What items are ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum By {
    /// The codes of the model.
    Meaning,
    /// The words of the texts.
    Words,
    /// Both rankings, fused.
    Both,
}

/// The words of a query, and what items are ranked by.
pub(crate) struct WordQuery {
    pub(crate) by: By,
    /// The text of the query; empty if it has none.
    pub(crate) text: String,
    pub(crate) k: usize,
    pub(crate) skip: usize,
    pub(crate) radius: Option<u32>,
}

/// A hit with its reasons.
pub(crate) struct Ranked {
    pub(crate) found: Found,
    /// `None` if there is no code to compare with.
    pub(crate) distance: Option<u32>,
    pub(crate) exact: bool,
    /// `None` if words do not matter.
    pub(crate) tier: Option<Tier>,
    /// Its position by meaning, if it is among the first.
    pub(crate) by_meaning: Option<usize>,
}

/// The hits of a page.
pub(crate) struct RankedPage {
    pub(crate) hits: Vec<Ranked>,
    /// Number of items with all words, and with some of them.
    pub(crate) matching: Option<(usize, usize)>,
    pub(crate) terms: QueryTerms,
}

impl WordQuery {
    /// The end of the page.
    fn end(&self) -> usize {
        self.skip.saturating_add(self.k)
    }

    /// How many items by meaning are needed, and how many of them are skipped.
    pub(crate) fn by_meaning(&self) -> (usize, usize) {
        match self.by {
            By::Meaning => (self.k, self.skip),
            By::Words => (0, 0),
            By::Both if self.end() <= DEPTH => (DEPTH, 0),
            By::Both => (self.end().saturating_add(DEPTH), 0),
        }
    }

    /// The page of a search by meaning alone.
    pub(crate) fn by_meaning_alone(&self, hits: Vec<Found>) -> RankedPage {
        let first = self.skip;
        let hit = |(at, found): (usize, Found)| Ranked {
            distance: Some(found.hit.distance),
            found,
            exact: false,
            tier: None,
            by_meaning: Some(first + at),
        };
        let hits = hits.into_iter().enumerate().map(hit).collect();
        RankedPage { hits, matching: None, terms: QueryTerms::default() }
    }

    /// The page of the results, given the nearest items by meaning ([`WordQuery::by_meaning`]).
    pub(crate) fn rank(
        &self,
        keywords: Option<&KeywordIndex>,
        snapshot: &Snapshot,
        code: &[u64],
        allowed: Option<&ItemSet>,
        meaning: Vec<Found>,
    ) -> Result<RankedPage> {
        if self.by == By::Meaning {
            return Ok(self.by_meaning_alone(meaning));
        }
        let is_narrowed = allowed.is_some() || self.radius.is_some();
        let deep = if self.by == By::Words { self.end() } else { DEPTH };
        let limit = if is_narrowed { usize::MAX } else { deep };
        let (mut words, mut matching, mut terms) =
            (Vec::new(), (0, 0), QueryTerms::default());
        if let Some(keywords) = keywords {
            let found = keywords.search(&self.text, limit)?;
            matching = (found.all, found.some);
            terms = keywords.terms(&self.text);
            for hit in found.hits {
                words.extend(self.placed(snapshot, code, allowed, hit)?);
            }
        }
        if is_narrowed {
            let with = |tiers: &[Tier]| {
                words.iter().filter(|(hit, _)| tiers.contains(&hit.tier)).count()
            };
            matching = (with(&[Tier::All]), with(&[Tier::All, Tier::Some]));
            words.truncate(deep);
        }
        let mut hits = if self.by == By::Words {
            words
                .into_iter()
                .map(|(hit, found)| ranked(found, code, Some(&hit), None))
                .collect()
        } else {
            both(words, meaning, code)
        };
        hits.drain(..self.skip.min(hits.len()));
        hits.truncate(self.k);
        Ok(RankedPage { hits, matching: Some(matching), terms })
    }

    /// A hit by words as an item of the snapshot, if it is there and allowed.
    fn placed(
        &self,
        snapshot: &Snapshot,
        code: &[u64],
        allowed: Option<&ItemSet>,
        hit: KeywordHit,
    ) -> Result<Option<(KeywordHit, Found)>> {
        let Some(id) = snapshot.typed_id(&hit.id) else { return Ok(None) };
        let Some(item) = snapshot.find(&id)? else { return Ok(None) };
        if allowed.is_some_and(|allowed| !allowed.contains(item)) {
            return Ok(None);
        }
        let own = snapshot.code(item)?;
        let distance = own.iter().zip(code).map(|(a, b)| (a ^ b).count_ones()).sum();
        if self.radius.is_some_and(|radius| !code.is_empty() && distance > radius) {
            return Ok(None);
        }
        Ok(Some((hit, Found { id, hit: Hit { distance, item }, score: None })))
    }
}

/// The fused ranking.
fn both(words: Vec<(KeywordHit, Found)>, meaning: Vec<Found>, code: &[u64]) -> Vec<Ranked> {
    let weight = |hit: &KeywordHit| match hit.tier {
        Tier::All => ALL_WORDS,
        Tier::Some | Tier::None => 1.0,
    };
    let first: Vec<(u32, f64, (bool, Tier, f32))> = words
        .iter()
        .map(|(hit, found)| (found.hit.item, weight(hit), (hit.exact, hit.tier, hit.score)))
        .collect();
    let second: Vec<(u32, f64, (u32, Option<f32>))> = meaning
        .iter()
        .take(DEPTH)
        .map(|found| (found.hit.item, 1.0, (found.hit.distance, found.score)))
        .collect();
    let mut fused = fuse(&first, &second);
    // Stable: the fused order within the exact ones and within the others.
    fused.sort_by_key(|fused| !fused.first.is_some_and(|at| words[at].0.exact));
    let listed: HashSet<u32> = fused.iter().map(|fused| fused.item).collect();
    let mut hits: Vec<Ranked> = Vec::with_capacity(fused.len());
    for fused in fused {
        let hit = fused.first.map(|at| &words[at].0);
        let found = match (fused.second, fused.first) {
            (Some(at), _) => meaning[at].clone(),
            (None, Some(at)) => words[at].1.clone(),
            (None, None) => continue,
        };
        hits.push(ranked(found, code, hit, fused.second));
    }
    let rest = meaning.into_iter().enumerate().skip(DEPTH);
    let rest = rest.filter(|(_, found)| !listed.contains(&found.hit.item));
    hits.extend(rest.map(|(at, found)| ranked(found, code, None, Some(at))));
    hits
}

fn ranked(
    found: Found,
    code: &[u64],
    hit: Option<&KeywordHit>,
    by_meaning: Option<usize>,
) -> Ranked {
    Ranked {
        distance: (!code.is_empty()).then_some(found.hit.distance),
        found,
        exact: hit.is_some_and(|hit| hit.exact),
        tier: hit.map(|hit| hit.tier),
        by_meaning,
    }
}

impl Ranked {
    /// Why it is a result. `weak_from` is the distance from which items are not closer than chance.
    pub(crate) fn reasons(&self, weak_from: Option<u32>) -> Vec<&'static str> {
        let mut reasons = Vec::new();
        if self.exact {
            reasons.push("exact match");
        }
        match self.tier {
            Some(Tier::All) => reasons.push("contains the words"),
            Some(Tier::Some) => reasons.push("contains some of the words"),
            Some(Tier::None) | None => {}
        }
        let is_similar = match (weak_from, self.distance) {
            (Some(from), Some(distance)) => distance < from,
            _ => self.by_meaning.is_some_and(|at| self.tier.is_none() || at < SIMILAR),
        };
        if is_similar && self.distance.is_some() {
            reasons.push("similar meaning");
        }
        reasons
    }
}
