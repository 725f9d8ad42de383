//! Precision against recall along the ranking, interpolated at recall 0, 0.05, ..., 1.
//!
//! ```text
//! hits(k) = E[relevant items among the first k],  prec(k) = hits(k) / k,  rec(k) = hits(k) / R
//! P(rho)  = max { prec(k) : rec(k) >= rho, k = 1, 2, ... }        0 for all rho if R = 0
//! ```
//!
//! Inside a class hits(k) is linear, so prec(k) = n+/n + const/k is monotone there, and the
//! maximum over a class lies at the first admissible rank or at the end of the class.

use super::ranking::Ranking;

/// How many recall levels the curve has.
const LEVELS: usize = 21;

/// The recall levels 0, 0.05, ..., 1.
pub fn levels() -> Vec<f64> {
    (0..LEVELS).map(|k| k as f64 / (LEVELS - 1) as f64).collect()
}

/// Interpolated precision at each of [`levels`].
pub fn precision_at_recall(ranking: &Ranking) -> Vec<f64> {
    let mut best = vec![0.0_f64; LEVELS];
    if ranking.relevant == 0 {
        return best;
    }
    let (mut before, mut hits) = (0_u64, 0_u64);
    for class in &ranking.classes {
        let density = class.relevant as f64 / class.items as f64;
        let precision = |k: u64| (hits as f64 + (k - before) as f64 * density) / k as f64;
        let end = before + class.items;
        for (level, best) in best.iter_mut().enumerate() {
            // in units of 1/(LEVELS-1) hits, so that "recall reached" is decided exactly
            let steps = (LEVELS - 1) as u64;
            let needed = level as u64 * ranking.relevant;
            let here = (hits + class.relevant) * steps;
            if here < needed {
                continue;
            }
            let missing = needed.saturating_sub(hits * steps);
            // first rank of the class with (k - before) * relevant / items * steps >= missing
            let first = match class.relevant {
                0 => before + 1,
                relevant => {
                    let ranks = u128::from(missing) * u128::from(class.items);
                    let ranks = ranks.div_ceil(u128::from(relevant) * u128::from(steps));
                    before + u64::try_from(ranks).unwrap_or(class.items).max(1)
                }
            };
            *best = best.max(precision(first)).max(precision(end));
        }
        before = end;
        hits += class.relevant;
    }
    best
}
