//! Recall at N ranks.
//!
//! ```text
//! R@N = E[relevant items among the first N] / R         0 if R = 0
//! ```

use super::ranking::Ranking;

/// R@N.
pub fn recall(ranking: &Ranking, cutoff: usize) -> f64 {
    if ranking.relevant == 0 {
        return 0.0;
    }
    ranking.hits_at(&[cutoff])[0] / ranking.relevant as f64
}
