//! Searches that wait together are answered by one pass over the codes.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::Shared;
use crate::index::Query;
use crate::segments::{Found, Snapshot};
use crate::{Codes, Error, Result};

/// Searches answered by one pass at most.
const TOGETHER: usize = 256;

/// Hits and the snapshot they were found in.
pub type SearchReply = (Arc<Snapshot>, Vec<Found>);

/// A search and the receiver of its result.
pub(super) struct Search {
    pub(super) code: Vec<u64>,
    /// k, skip and radius: searches with the same key share a pass.
    pub(super) key: (usize, usize, Option<u32>),
    pub(super) reply: Box<dyn FnOnce(Result<SearchReply>) + Send>,
}

/// Answers searches until the index is dropped.
pub(super) fn run(waiting: &Receiver<Search>, shared: &Shared) {
    while let Ok(first) = waiting.recv() {
        let mut all = vec![first];
        all.extend(waiting.try_iter().take(TOGETHER - 1));
        let snapshot = shared.snapshot();
        while let Some(last) = all.last() {
            let key = last.key;
            let (same, rest): (Vec<Search>, Vec<Search>) =
                all.into_iter().partition(|search| search.key == key);
            all = rest;
            answer(&snapshot, same);
        }
    }
}

fn answer(snapshot: &Arc<Snapshot>, searches: Vec<Search>) {
    let words = snapshot.bits().words();
    let (fitting, others): (Vec<Search>, Vec<Search>) =
        searches.into_iter().partition(|search| search.code.len() == words);
    for search in others {
        let message = format!("a code of {} words; {words} are needed", search.code.len());
        (search.reply)(Err(Error::content(message)));
    }
    let Some((k, skip, radius)) = fitting.first().map(|search| search.key) else { return };
    let query = Query { k, skip, radius, allowed: None };
    let codes = fitting.iter().flat_map(|search| search.code.iter().copied()).collect();
    let found = Codes::from_words(snapshot.bits(), codes)
        .and_then(|codes| snapshot.search(&codes, &query, &|_| ()));
    match found {
        Ok(found) => {
            for (search, hits) in fitting.into_iter().zip(found) {
                (search.reply)(Ok((Arc::clone(snapshot), hits)));
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
