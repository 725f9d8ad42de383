//! The rank of a search: which score orders the hits, and its real-valued query.

use crosshash_codes::index::Rank;
use crosshash_codes::segments::{Ranking, Snapshot};
use crosshash_codes::{Bits, Outputs};

use super::error::{ApiError, ApiResult};
use super::query::ResolvedQuery;

/// The ranking of a search: as requested, or else the best that index and query support.
pub(super) fn ranking(
    requested: Option<&str>,
    has_outputs: bool,
    query: &ResolvedQuery,
) -> ApiResult<Ranking> {
    let Some(name) = requested else {
        let has_reals = query.outputs.is_some() || query.item_outputs.is_some();
        return Ok(Ranking::by(Rank::best(has_outputs, has_reals)));
    };
    let rank: Rank = name.parse().map_err(|err: crosshash_codes::Error| {
        ApiError::bad_request(err.to_string()).at("rank")
    })?;
    if rank == Rank::Outputs && !has_outputs {
        return Err(ApiError::bad_request(
            "no outputs are stored; rank by \"asymmetric\" or \"hamming\", or train the run again (push \
             with --outputs, if the items are in a store)",
        )
        .at("rank"));
    }
    Ok(Ranking::by(rank))
}

/// The real outputs of a query, one signed byte per bit: those of the model, or those stored for the item;
/// `None` if only its code is known. They are rounded, so that a query which is sent again with the outputs
/// of the response has the same results.
pub(super) fn query_outputs(bits: Bits, query: &ResolvedQuery) -> Option<Vec<i8>> {
    let outputs = query.outputs.as_ref().or(query.item_outputs.as_ref())?;
    Some(Outputs::from_reals(bits, outputs).ok()?.row(0).to_vec())
}

/// The numbers that rank a query: its outputs, or else the signs of its code.
pub(super) fn reals(bits: Bits, code: &[u64], outputs: Option<&[i8]>) -> Vec<f32> {
    if let Some(outputs) = outputs {
        return outputs.iter().map(|&value| f32::from(value)).collect();
    }
    let sign = |k: usize| {
        let word = code.get(k / 64).copied().unwrap_or(0);
        if word >> (k % 64) & 1 == 1 { 1.0 } else { -1.0 }
    };
    (0..bits.get()).map(sign).collect()
}

/// The stored outputs of an item, as a query.
pub(super) fn item_outputs(snapshot: &Snapshot, item: u32) -> ApiResult<Option<Vec<f32>>> {
    let stored = snapshot.outputs(item).map_err(ApiError::internal)?;
    Ok(stored.map(|values| values.iter().map(|&value| f32::from(value)).collect()))
}
