//! Average cumulative gain at K ranks: the mean number of labels shared with the query.
//!
//! ```text
//! ACG@K = 1/K sum_classes (S/n) T,   T = min(n, K - N),   S = shared labels in the class
//! ```

use super::ranking::Ranking;

/// ACG@K.
pub fn acg(ranking: &Ranking, cutoff: usize) -> f64 {
    let k = cutoff as u64;
    let mut before = 0;
    let mut sum = 0.0;
    for class in &ranking.classes {
        if before >= k {
            break;
        }
        let ranks = class.items.min(k - before);
        sum += class.shared as f64 / class.items as f64 * ranks as f64;
        before += class.items;
    }
    sum / k as f64
}
