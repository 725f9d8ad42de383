//! The rank of a search: which score orders the hits, and its real-valued query.

use crosshash_codes::Bits;
use crosshash_codes::index::Rank;
use crosshash_codes::segments::{Ranking, Snapshot};

use super::error::{ApiError, ApiResult};
use super::query::ResolvedQuery;

/// The ranking of a search: as requested, or else the best that index and query support.
pub(super) fn ranking(
    requested: Option<&str>,
    snapshot: &Snapshot,
    query: &ResolvedQuery,
) -> ApiResult<Ranking> {
    let Some(name) = requested else {
        let has_reals = query.outputs.is_some() || query.item_outputs.is_some();
        return Ok(Ranking::by(snapshot.best_rank(has_reals)));
    };
    let rank: Rank = name.parse().map_err(|err: crosshash_codes::Error| {
        ApiError::bad_request(err.to_string()).at("rank")
    })?;
    if rank == Rank::Outputs && !snapshot.has_outputs() {
        return Err(ApiError::bad_request(
            "the index stores no outputs; rank by \"asymmetric\" or \"hamming\", or train the run \
             again",
        )
        .at("rank"));
    }
    Ok(Ranking::by(rank))
}

/// The real outputs of a query: those of the model, those stored for the item, or the signs of the
/// code.
pub(super) fn reals(bits: Bits, query: &ResolvedQuery) -> Vec<f32> {
    let outputs = query.outputs.as_ref().or(query.item_outputs.as_ref());
    if let Some(outputs) = outputs
        && outputs.iter().all(|value| value.is_finite())
    {
        return outputs.clone();
    }
    let sign = |k: usize| {
        let word = query.code.get(k / 64).copied().unwrap_or(0);
        if word >> (k % 64) & 1 == 1 { 1.0 } else { -1.0 }
    };
    (0..bits.get()).map(sign).collect()
}

/// The stored outputs of an item, as a query.
pub(super) fn item_outputs(snapshot: &Snapshot, item: u32) -> ApiResult<Option<Vec<f32>>> {
    let stored = snapshot.outputs(item).map_err(ApiError::internal)?;
    Ok(stored.map(|values| values.iter().map(|&value| f32::from(value)).collect()))
}
