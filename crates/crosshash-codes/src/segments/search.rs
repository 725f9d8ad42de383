//! Queries of a snapshot: filters, nearest items, re-ranking.

use super::part::LabelRows;
use super::snapshot::Snapshot;
use crate::format::Id;
use crate::index::{Filter, Hit, ItemSet, Query, Scored, rerank};
use crate::{Codes, Result};

/// One hit with the id of the item.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The id.
    pub id: Id,
    /// Distance and item number.
    pub hit: Hit,
    /// The score, if the hits were re-ranked by a real-valued query.
    pub score: Option<f32>,
}

impl Snapshot {
    /// The items for which a filter expression holds.
    pub fn filter(&self, text: &str) -> Result<ItemSet> {
        let (classes, names) = (self.manifest.classes, &self.manifest.label_names);
        self.matching(&Filter::parse(text, classes, names)?)
    }

    /// The items for which a parsed filter holds.
    pub fn matching(&self, filter: &Filter) -> Result<ItemSet> {
        let labels: Vec<LabelRows<'_>> =
            self.parts.iter().map(|part| part.source.labels()).collect::<Result<_>>()?;
        let carries = |item: u32, any: &[usize]| {
            let nth = self.bases.partition_point(|&base| base <= item) - 1;
            labels[nth].any((item - self.bases[nth]) as usize, any)
        };
        let find = |id: &str| self.find(&self.typed_id(id)?).ok().flatten();
        let set = filter.items(self.rows(), &carries, &find);
        Ok(match self.live() {
            Some(live) => set.intersection(&live),
            None => set,
        })
    }

    /// The items that can be found; `None` if all rows can.
    fn live(&self) -> Option<ItemSet> {
        if self.parts.iter().all(|part| part.live.is_none()) {
            return None;
        }
        let mut live = ItemSet::none(0);
        for part in &self.parts {
            match &part.live {
                Some(own) => live.append(own),
                None => live.append(&ItemSet::all(part.rows())),
            }
        }
        Some(live)
    }

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

    /// The `candidates` nearest items of every query by Hamming distance, re-ranked by the
    /// query's real outputs; `query.k` of them after the first `query.skip`.
    pub fn search_reals(
        &self,
        outputs: &[f32],
        candidates: usize,
        query: &Query<'_>,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Vec<Found>>> {
        let queries = Codes::from_signs(self.bits(), outputs)?;
        let depth = query.k.saturating_add(query.skip);
        let wide = Query { k: candidates.max(depth), skip: 0, ..*query };
        let found = self.hits(&queries, &wide, progress)?;
        let ranked = |(hits, outputs): (Vec<Hit>, &[f32])| -> Result<Vec<Found>> {
            let codes = self.codes_of(&hits)?;
            let local = |(at, hit): (u32, &Hit)| Hit { item: at, ..*hit };
            let local: Vec<Hit> = (0..).zip(&hits).map(local).collect();
            let scored = rerank(&codes, outputs, &local)?;
            let of = |Scored { hit, score }: Scored| {
                let hit = hits[hit.item as usize];
                Ok(Found { id: self.id(hit.item)?, hit, score: Some(score) })
            };
            scored.into_iter().skip(query.skip).take(query.k).map(of).collect()
        };
        found.into_iter().zip(outputs.chunks(self.bits().get())).map(ranked).collect()
    }

    fn codes_of(&self, hits: &[Hit]) -> Result<Codes> {
        let mut words = Vec::with_capacity(hits.len() * self.bits().words());
        for hit in hits {
            words.extend_from_slice(self.code(hit.item)?);
        }
        Codes::from_words(self.bits(), words)
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
            answer.drain(..query.skip.min(answer.len()));
            answer.truncate(query.k);
        }
        Ok(answers)
    }
}
