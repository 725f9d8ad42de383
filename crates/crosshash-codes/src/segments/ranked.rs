//! Two-stage search: candidates by Hamming distance, re-ranked by a score.
//!
//! The candidates of a query are the `candidates` nearest items that pass its filter and radius,
//! by Hamming distance, together with all items as near as the last of them: a tie class is a
//! candidate as a whole or not at all, never cut by item number. Candidates are ordered by falling
//! score, ties by distance, then by item number. The other items follow in the order of Hamming
//! search. This order is total and depends on neither `k` nor `skip`, so pages neither overlap
//! nor miss anything, and a page may lie before, across or behind the end of the candidates.
//!
//! The stages are methods of [`Ranking`], which know no index: a search whose candidates come from
//! a database has the same order and the same pages.

use rayon::prelude::*;

use super::search::Found;
use super::snapshot::Snapshot;
use crate::index::{Hit, Query, Rank, Scorer};
use crate::outputs::OutputRows;
use crate::{Codes, Error, Result};

/// The default number of candidates.
pub const CANDIDATES: usize = 300;
/// Rows of outputs that are fetched together.
const AHEAD: usize = 16;

/// How hits are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ranking {
    /// The score.
    pub rank: Rank,
    /// How many of the nearest items are re-ranked at least.
    pub candidates: usize,
}

impl Ranking {
    /// A score with the default number of candidates.
    pub fn by(rank: Rank) -> Ranking {
        Ranking { rank, candidates: CANDIDATES }
    }

    /// The first stage of a query, in the order of Hamming search: its candidates, or with
    /// [`Rank::Hamming`] the page itself.
    pub fn first_stage<'a>(self, query: &Query<'a>) -> Query<'a> {
        match self.rank {
            Rank::Hamming => *query,
            _ => Query { k: self.candidates.max(1), skip: 0, ties: true, ..*query },
        }
    }

    /// The search that finds the nearest item, if it is not the first of the first stage.
    pub fn nearest<'a>(self, query: &Query<'a>) -> Option<Query<'a>> {
        let is_first = self.rank != Rank::Hamming || (query.skip == 0 && query.k > 0);
        (!is_first).then_some(Query { k: 1, skip: 0, ties: false, ..*query })
    }

    /// The hits of a page that lie behind the candidates, of which there are `near`.
    pub fn behind<'a>(self, query: &Query<'a>, near: usize) -> Option<Query<'a>> {
        let end = query.k.saturating_add(query.skip);
        let is_among = query.k == 0 || end <= near || near < self.candidates;
        if self.rank == Rank::Hamming || is_among {
            return None;
        }
        let skip = query.skip.max(near);
        Some(Query { k: end - skip, skip, ..*query })
    }

    /// The part of a page that lies in the first stage, given its hits with their scores.
    pub fn page(
        self,
        mut scored: Vec<(f32, Hit)>,
        query: &Query<'_>,
    ) -> impl Iterator<Item = (f32, Hit)> {
        let mut skip = 0;
        if self.rank != Rank::Hamming {
            skip = query.skip;
            let end = query.k.saturating_add(query.skip).min(scored.len());
            let order = |a: &(f32, Hit), b: &(f32, Hit)| {
                b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1))
            };
            if end > 0 && end < scored.len() {
                scored.select_nth_unstable_by(end - 1, order);
            }
            scored.truncate(end);
            scored.sort_unstable_by(order);
        }
        scored.into_iter().skip(skip)
    }
}

/// The hits of a ranked search.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedHits {
    /// The hits of the page.
    pub hits: Vec<Found>,
    /// The Hamming distance of the nearest item that passes filter and radius, wherever it is ranked;
    /// `None` if there is none.
    pub nearest: Option<u32>,
}

/// The columns of a part that scores need.
struct Columns<'a> {
    base: u32,
    codes: &'a Codes,
    outputs: Option<OutputRows<'a>>,
}

impl Snapshot {
    /// The best rank for a query ([`Rank::best`]).
    pub fn best_rank(&self, has_reals: bool) -> Rank {
        Rank::best(self.has_outputs(), has_reals)
    }

    /// The hits of every query in the order that a [`Ranking`] gives (see the header of
    /// `segments/ranked.rs`), each with its score. `reals` are the real outputs of the queries,
    /// row by row; for a query without any, its signs (-1 and +1) serve.
    ///
    /// ```
    /// use crosshash_codes::index::{Query, Rank};
    /// use crosshash_codes::segments::{ItemBatch, Ranking, Snapshot};
    /// use crosshash_codes::{Bits, Codes, Outputs};
    ///
    /// let bits = Bits::new(2)?;
    /// let reals = [0.9, 0.1, 0.2, 0.9, 0.8, 0.7]; // three items, all of code 11
    /// let items = ItemBatch {
    ///     outputs: Some(Outputs::from_reals(bits, &reals)?),
    ///     ..ItemBatch::new(Codes::from_signs(bits, &reals)?)
    /// };
    /// let snapshot = Snapshot::in_memory(items, &[])?;
    /// let query = [0.1_f32, 1.0];
    /// let code = Codes::from_signs(bits, &query)?;
    /// let ranking = Ranking::by(Rank::Outputs);
    /// let found = snapshot.search_ranked(&code, &query, ranking, &Query::nearest(3), &|_| ())?;
    /// let order: Vec<u32> = found[0].iter().map(|found| found.hit.item).collect();
    /// assert_eq!(order, [1, 2, 0]);
    /// # Ok::<(), crosshash_codes::Error>(())
    /// ```
    pub fn search_ranked(
        &self,
        queries: &Codes,
        reals: &[f32],
        ranking: Ranking,
        query: &Query<'_>,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Vec<Found>>> {
        let found = self.search_ranked_hits(queries, reals, ranking, query, progress)?;
        Ok(found.into_iter().map(|found| found.hits).collect())
    }

    /// As [`search_ranked`](Snapshot::search_ranked), with the distance of the nearest item.
    pub fn search_ranked_hits(
        &self,
        queries: &Codes,
        reals: &[f32],
        ranking: Ranking,
        query: &Query<'_>,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<RankedHits>> {
        let scorers = self.scorers(queries, reals, ranking.rank)?;
        let columns = self.columns(ranking.rank)?;
        let first = self.hits(queries, &ranking.first_stage(query), progress)?;
        if ranking.rank == Rank::Hamming {
            let nearest = self.nearest(queries, ranking, query, &first)?;
            let page = |((hits, nearest), scorer): ((Vec<Hit>, _), &Scorer)| {
                let hits = hits.into_iter().map(|hit| self.scored(&columns, scorer, hit));
                Ok(RankedHits { hits: hits.collect::<Result<_>>()?, nearest })
            };
            let pages = first.into_iter().zip(nearest).zip(&scorers).map(page).collect();
            self.check_files()?;
            return pages;
        }
        let pages = first
            .into_par_iter()
            .zip(&scorers)
            .enumerate()
            .map(|(nth, (near, scorer))| {
                let nearest = near.first().map(|hit| hit.distance);
                let rest = match ranking.behind(query, near.len()) {
                    None => Vec::new(),
                    Some(rest) => {
                        self.hits(&queries.select(&[nth]), &rest, &|_| ())?.remove(0)
                    }
                };
                let mut page = self.page(&columns, scorer, &near, (ranking, query))?;
                for hit in rest {
                    page.push(self.scored(&columns, scorer, hit)?);
                }
                Ok(RankedHits { hits: page, nearest })
            })
            .collect();
        self.check_files()?;
        pages
    }

    /// The distance of the nearest item of every query, given its page in the order of Hamming search.
    fn nearest(
        &self,
        queries: &Codes,
        ranking: Ranking,
        query: &Query<'_>,
        pages: &[Vec<Hit>],
    ) -> Result<Vec<Option<u32>>> {
        let first = |hits: &Vec<Hit>| hits.first().map(|hit| hit.distance);
        match ranking.nearest(query) {
            None => Ok(pages.iter().map(first).collect()),
            Some(one) => Ok(self.hits(queries, &one, &|_| ())?.iter().map(first).collect()),
        }
    }

    /// The part of a page that lies among the candidates.
    fn page(
        &self,
        columns: &[Columns<'_>],
        scorer: &Scorer,
        near: &[Hit],
        (ranking, query): (Ranking, &Query<'_>),
    ) -> Result<Vec<Found>> {
        let mut scored: Vec<(f32, Hit)> = Vec::with_capacity(near.len());
        for some in near.chunks(AHEAD) {
            // rows lie apart: they are fetched together, so that their delays overlap
            let touched =
                some.iter().fold(0, |touched, hit| touched ^ touch(columns, *hit));
            std::hint::black_box(touched);
            scored.extend(some.iter().map(|&hit| (score(columns, scorer, hit), hit)));
        }
        let found = |(score, hit): (f32, Hit)| {
            Ok(Found { id: self.id(hit.item)?, hit, score: Some(score) })
        };
        ranking.page(scored, query).map(found).collect()
    }

    fn scored(&self, columns: &[Columns<'_>], scorer: &Scorer, hit: Hit) -> Result<Found> {
        let score = Some(score(columns, scorer, hit));
        Ok(Found { id: self.id(hit.item)?, hit, score })
    }

    /// The scores of every query.
    fn scorers(&self, queries: &Codes, reals: &[f32], rank: Rank) -> Result<Vec<Scorer>> {
        let width = self.bits().get();
        if rank != Rank::Hamming && reals.len() != queries.len() * width {
            return Err(Error::content(format!(
                "{} real outputs for {} queries of {width} bits; one value per bit is needed",
                reals.len(),
                queries.len()
            )));
        }
        let of = |nth: usize| reals.get(nth * width..(nth + 1) * width).unwrap_or(&[]);
        (0..queries.len()).map(|nth| Scorer::new(rank, self.bits(), of(nth))).collect()
    }

    /// What scores read.
    fn columns(&self, rank: Rank) -> Result<Vec<Columns<'_>>> {
        if rank == Rank::Outputs && !self.has_outputs() {
            return Err(Error::content(
                "the index stores no outputs: rank by hamming or asymmetric, or build it with \
                 outputs",
            ));
        }
        let mut columns = Vec::with_capacity(self.parts.len());
        for (part, &base) in self.parts.iter().zip(&self.bases) {
            let outputs = if rank == Rank::Outputs { part.source.outputs()? } else { None };
            columns.push(Columns { base, codes: part.source.codes()?, outputs });
        }
        Ok(columns)
    }
}

/// The part of an item, and its row.
#[inline]
fn place<'a, 'b>(columns: &'a [Columns<'b>], hit: Hit) -> Option<(&'a Columns<'b>, usize)> {
    let nth = columns.partition_point(|column| column.base <= hit.item).saturating_sub(1);
    let column = columns.get(nth)?;
    Some((column, (hit.item - column.base) as usize))
}

/// Reads a byte of the stored outputs of an item.
#[inline]
fn touch(columns: &[Columns<'_>], hit: Hit) -> i8 {
    let byte =
        |(column, row): (&Columns<'_>, usize)| column.outputs?.row(row).first().copied();
    place(columns, hit).and_then(byte).unwrap_or(0)
}

#[inline]
fn score(columns: &[Columns<'_>], scorer: &Scorer, hit: Hit) -> f32 {
    let Some((column, row)) = place(columns, hit) else { return 0.0 };
    let outputs = column.outputs.map_or(&[][..], |rows| rows.row(row));
    scorer.score(hit.distance, column.codes.code(row), outputs)
}
