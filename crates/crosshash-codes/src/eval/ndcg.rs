//! Normalised discounted cumulative gain at K ranks, for multi-label relevance.
//!
//! ```text
//! DCG@K  = sum_classes (G/n) ( D(N + T) - D(N) ),   T = min(n, K - N)
//! G      = sum of the gains 2^s - 1 in the class, s = |Y_q & Y_k| shared labels
//! D(x)   = sum_{t=1}^{x} 1 / log2(t + 1)
//! NDCG@K = DCG@K / DCG@K of the best order          0 if no item is relevant
//! ```
//!
//! Tie-aware form: He et al., CVPR 2018.

use super::ranking::{Ranking, TieClass};

/// Prefix sums D(0), D(1), ... of the discounts, made once for all queries.
#[derive(Clone, Debug)]
pub struct Discounts(Vec<f64>);

impl Discounts {
    /// Discounts for cutoffs up to `ranks`.
    pub fn up_to(ranks: usize) -> Discounts {
        let mut sums = Vec::with_capacity(ranks + 1);
        let mut sum = 0.0;
        sums.push(sum);
        for t in 1..=ranks {
            sum += 1.0 / (t as f64 + 1.0).log2();
            sums.push(sum);
        }
        Discounts(sums)
    }

    /// D(rank); ranks beyond the table hold no items.
    fn at(&self, rank: u64) -> f64 {
        let last = self.0.len() - 1;
        self.0[usize::try_from(rank).unwrap_or(last).min(last)]
    }
}

/// NDCG@K; `discounts` must reach to the cutoff or to the size of the database.
pub fn ndcg(ranking: &Ranking, cutoff: usize, discounts: &Discounts) -> f64 {
    let ideal = dcg(&ranking.ideal, cutoff, discounts);
    if ideal == 0.0 { 0.0 } else { dcg(&ranking.classes, cutoff, discounts) / ideal }
}

fn dcg(classes: &[TieClass], cutoff: usize, discounts: &Discounts) -> f64 {
    let k = cutoff as u64;
    let mut before = 0;
    let mut sum = 0.0;
    for class in classes {
        if before >= k {
            break;
        }
        let end = k.min(before + class.items);
        let discount = discounts.at(end) - discounts.at(before);
        sum += class.gain / class.items as f64 * discount;
        before += class.items;
    }
    sum
}
