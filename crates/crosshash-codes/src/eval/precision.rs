//! Precision at N ranks.
//!
//! ```text
//! P@N = E[relevant items among the first N] / N
//!     = ( N+ + (N - N_before) n+/n ) / N          with the class that contains rank N
//! ```
//!
//! A database of fewer than N items has no item at the missing ranks; they count as misses.

use super::ranking::Ranking;

/// P@N.
pub fn precision(ranking: &Ranking, cutoff: usize) -> f64 {
    ranking.hits_at(&[cutoff])[0] / cutoff as f64
}

/// P@N for ascending N: the top-N precision curve.
pub fn top_n_curve(ranking: &Ranking, cutoffs: &[usize]) -> Vec<f64> {
    let hits = ranking.hits_at(cutoffs);
    hits.iter().zip(cutoffs).map(|(hits, &n)| hits / n as f64).collect()
}
