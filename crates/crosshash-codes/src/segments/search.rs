//! Queries of a snapshot: the nearest items by Hamming distance.

use super::snapshot::Snapshot;
use crate::format::Id;
use crate::index::{Hit, ItemSet, Query};
use crate::{Codes, Result};

/// One hit with the id of the item.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The id.
    pub id: Id,
    /// Distance and item number.
    pub hit: Hit,
    /// The score, if the hits were ranked ([`Snapshot::search_ranked`]); a cosine.
    pub score: Option<f32>,
}

impl Snapshot {
    /// The hits of every query with their ids, by distance, then item number. `query.allowed`, if
    /// given, comes from [`Snapshot::filter`].
    pub fn search(
        &self,
        queries: &Codes,
        query: &Query<'_>,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Vec<Found>>> {
        let found = self.hits(queries, query, progress)?;
        let with_id = |hit: Hit| Ok(Found { id: self.id(hit.item)?, hit, score: None });
        found.into_iter().map(|hits| hits.into_iter().map(with_id).collect()).collect()
    }

    /// The hits of every query without their ids.
    pub fn hits(
        &self,
        queries: &Codes,
        query: &Query<'_>,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Vec<Hit>>> {
        query.check_bits(self.bits(), queries)?;
        query.check_len(self.rows())?;
        let mut answers: Vec<Vec<Hit>> = vec![Vec::new(); queries.len()];
        let parts = self.parts.len();
        let depth = query.k.saturating_add(query.skip);
        for (nth, part) in self.parts.iter().enumerate() {
            let (base, rows) = (self.bases[nth], part.rows());
            let slice = query.allowed.map(|items| items.slice(base as usize, rows));
            let allowed = slice.as_ref().or(part.live.as_deref());
            let allowed = allowed.filter(|items| items.count() < rows);
            if rows == 0 || allowed.is_some_and(ItemSet::is_empty) {
                continue;
            }
            let own = Query { k: depth, skip: 0, allowed, ..*query };
            let so_far = |done: usize| progress((nth * queries.len() + done) / parts);
            let found = part.source.index()?.search(queries, &own, &so_far)?;
            for (answer, hits) in answers.iter_mut().zip(found) {
                answer.extend(hits.iter().map(|hit| Hit { item: hit.item + base, ..*hit }));
            }
        }
        for answer in &mut answers {
            if parts > 1 {
                answer.sort_unstable();
            }
            let last =
                answer.get(depth.wrapping_sub(1)).filter(|_| query.ties && query.k > 0);
            let end = last.map_or(depth, |last| {
                answer.partition_point(|hit| hit.distance <= last.distance)
            });
            answer.truncate(end);
            answer.drain(..query.skip.min(answer.len()));
        }
        self.check_files()?;
        Ok(answers)
    }
}
