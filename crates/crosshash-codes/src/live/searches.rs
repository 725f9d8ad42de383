//! Searches that wait together are answered by one pass over the codes.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::Shared;
use crate::index::{Query, Rank};
use crate::segments::{Found, RankedHits, Ranking, Snapshot};
use crate::{Codes, Error, Result};

/// Searches answered by one pass at most.
const TOGETHER: usize = 256;

/// The answer to a search.
#[derive(Clone)]
pub struct SearchReply {
    /// The snapshot that was searched.
    pub snapshot: Arc<Snapshot>,
    /// The hits.
    pub hits: Vec<Found>,
    /// The distance of the nearest item, if the search was ranked and found any.
    pub nearest: Option<u32>,
}

/// What a search asks for; searches that ask for the same share a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchRequest {
    /// Maximum number of hits.
    pub k: usize,
    /// Number of first hits to skip.
    pub skip: usize,
    /// Only hits at most this far away.
    pub radius: Option<u32>,
    /// How hits are ranked; `None` for Hamming distance without scores.
    pub ranking: Option<Ranking>,
}

/// A search and the receiver of its result.
pub(super) struct Search {
    pub(super) code: Vec<u64>,
    /// The real outputs of the query; empty if it has none.
    pub(super) reals: Vec<f32>,
    pub(super) request: SearchRequest,
    pub(super) reply: Box<dyn FnOnce(Result<SearchReply>) + Send>,
}

/// Answers searches until the index is dropped.
pub(super) fn run(waiting: &Receiver<Search>, shared: &Shared) {
    while let Ok(first) = waiting.recv() {
        let mut all = vec![first];
        all.extend(waiting.try_iter().take(TOGETHER - 1));
        let snapshot = shared.snapshot();
        while let Some(last) = all.last() {
            let request = last.request;
            let (same, rest): (Vec<Search>, Vec<Search>) =
                all.into_iter().partition(|search| search.request == request);
            all = rest;
            answer(&snapshot, same);
        }
    }
}

fn answer(snapshot: &Arc<Snapshot>, searches: Vec<Search>) {
    let (words, bits) = (snapshot.bits().words(), snapshot.bits());
    let (fitting, others): (Vec<Search>, Vec<Search>) =
        searches.into_iter().partition(|search| fits(snapshot, search));
    for search in others {
        let message = format!(
            "a code of {} words with {} real outputs; {words} and {bits} are needed",
            search.code.len(),
            search.reals.len()
        );
        (search.reply)(Err(Error::content(message)));
    }
    let Some(request) = fitting.first().map(|search| search.request) else { return };
    match find(snapshot, request, &fitting) {
        Ok(found) => {
            for (search, RankedHits { hits, nearest }) in fitting.into_iter().zip(found) {
                let snapshot = Arc::clone(snapshot);
                (search.reply)(Ok(SearchReply { snapshot, hits, nearest }));
            }
        }
        Err(err) => {
            let text = err.to_string();
            for search in fitting {
                (search.reply)(Err(Error::content(text.clone())));
            }
        }
    }
}

/// The hits of searches that ask for the same.
fn find(
    snapshot: &Snapshot,
    request: SearchRequest,
    searches: &[Search],
) -> Result<Vec<RankedHits>> {
    let SearchRequest { k, skip, radius, ranking } = request;
    let query = Query { skip, radius, ..Query::nearest(k) };
    let codes = searches.iter().flat_map(|search| search.code.iter().copied()).collect();
    let codes = Codes::from_words(snapshot.bits(), codes)?;
    let Some(ranking) = ranking else {
        let found = snapshot.search(&codes, &query, &|_| ())?;
        let plain = |hits| RankedHits { hits, nearest: None };
        return Ok(found.into_iter().map(plain).collect());
    };
    let reals: Vec<f32> =
        searches.iter().flat_map(|search| search.reals.iter().copied()).collect();
    snapshot.search_ranked_hits(&codes, &reals, ranking, &query, &|_| ())
}

/// Whether code and outputs have the right length, and the outputs are numbers: one search must
/// not fail the others.
fn fits(snapshot: &Snapshot, search: &Search) -> bool {
    let ranks = search.request.ranking.is_some_and(|ranking| ranking.rank != Rank::Hamming);
    let fitting = search.reals.len() == snapshot.bits().get()
        && search.reals.iter().all(|value| value.is_finite());
    search.code.len() == snapshot.bits().words() && (!ranks || fitting)
}
