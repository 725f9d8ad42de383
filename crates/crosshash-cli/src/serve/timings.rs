//! Time measurements of a request.

use std::time::Instant;

use serde::Serialize;

/// Microseconds by stage.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Timings {
    pub(crate) decode: u64,
    pub(crate) features: u64,
    pub(crate) encode: u64,
    pub(crate) search: u64,
    pub(crate) total: u64,
}

/// Microseconds since a moment.
pub(crate) fn micros(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX)
}
