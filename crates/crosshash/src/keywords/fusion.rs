//! Reciprocal rank fusion of two rankings.
//!
//! Cormack, Clarke and Büttcher, *Reciprocal rank fusion outperforms Condorcet and individual rank
//! learning methods*, SIGIR 2009: an item's score is the sum of 1 / (k + rank) over the rankings that
//! contain it, with k = 60 and ranks from 1. Differences: items with equal values in a ranking have the
//! same rank, that of the first of them, because their order in it carries no information; and each entry
//! has a weight, 1 in the paper.

use std::cmp::Ordering;
use std::collections::HashMap;

/// The constant k of the paper.
const K: f64 = 60.0;

/// An item of the fused ranking, with its position in each ranking, from 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fused<T> {
    /// The item.
    pub item: T,
    /// Its position in the first ranking.
    pub first: Option<usize>,
    /// Its position in the second ranking.
    pub second: Option<usize>,
    /// The sum of its reciprocal ranks.
    pub score: f64,
}

/// Fuses two rankings without repetitions. An entry is an item, its weight, and a value that is equal
/// exactly for tied neighbours. Ties of the result are ordered by the first ranking, then the second.
pub fn fuse<T: Copy + Eq + std::hash::Hash, V: PartialEq, W: PartialEq>(
    first: &[(T, f64, V)],
    second: &[(T, f64, W)],
) -> Vec<Fused<T>> {
    let mut fused: Vec<Fused<T>> = Vec::with_capacity(first.len() + second.len());
    let mut places: HashMap<T, usize> = HashMap::with_capacity(first.len());
    for (at, (rank, (item, weight, _))) in ranks(first).zip(first).enumerate() {
        places.insert(*item, fused.len());
        let score = weight / (K + rank as f64);
        fused.push(Fused { item: *item, first: Some(at), second: None, score });
    }
    for (at, (rank, (item, weight, _))) in ranks(second).zip(second).enumerate() {
        let score = weight / (K + rank as f64);
        match places.get(item) {
            Some(&place) => {
                fused[place].second = Some(at);
                fused[place].score += score;
            }
            None => {
                fused.push(Fused { item: *item, first: None, second: Some(at), score });
            }
        }
    }
    let place = |at: Option<usize>| at.unwrap_or(usize::MAX);
    fused.sort_by(|a, b| -> Ordering {
        b.score
            .total_cmp(&a.score)
            .then_with(|| place(a.first).cmp(&place(b.first)))
            .then_with(|| place(a.second).cmp(&place(b.second)))
    });
    fused
}

/// The ranks of entries, from 1; tied entries have the rank of the first of them.
fn ranks<T, V: PartialEq>(entries: &[(T, f64, V)]) -> impl Iterator<Item = usize> + '_ {
    let mut rank = 1;
    entries.iter().enumerate().map(move |(at, (_, _, value))| {
        if at == 0 || entries[at - 1].2 != *value {
            rank = at + 1;
        }
        rank
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_sums_of_reciprocal_ranks() {
        let words = [("b", 1.0, 9), ("a", 1.0, 5), ("d", 1.0, 5)];
        let meaning = [("a", 1.0, 0), ("c", 1.0, 1), ("b", 1.0, 2)];
        let fused = fuse(&words, &meaning);
        let found: Vec<(&str, f64)> = fused.iter().map(|f| (f.item, f.score)).collect();
        let wanted = [
            ("a", 1.0 / 62.0 + 1.0 / 61.0),
            ("b", 1.0 / 61.0 + 1.0 / 63.0),
            ("d", 1.0 / 62.0),
            ("c", 1.0 / 62.0),
        ];
        assert_eq!(found, wanted);
        assert_eq!((fused[0].first, fused[0].second), (Some(1), Some(0)));
        assert_eq!((fused[3].first, fused[3].second), (None, Some(1)));
    }

    #[test]
    fn one_empty_ranking_keeps_the_order_of_the_other() {
        let ranking: Vec<(u32, f64, u32)> = (0..50).map(|n| (50 - n, 1.0, n / 7)).collect();
        let none: [(u32, f64, u32); 0] = [];
        let items = |fused: Vec<Fused<u32>>| -> Vec<u32> {
            fused.into_iter().map(|f| f.item).collect()
        };
        let wanted: Vec<u32> = ranking.iter().map(|entry| entry.0).collect();
        assert_eq!(items(fuse(&ranking, &none)), wanted);
        assert_eq!(items(fuse(&none, &ranking)), wanted);
        assert!(fuse(&none, &none).is_empty());
    }
}
