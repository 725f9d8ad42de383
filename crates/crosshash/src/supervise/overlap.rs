//! Shares of every label in the overlaps of all label sets, without visiting all pairs.
//!
//! For weights `w` over distinct label sets this computes, exactly, for each set `a` and each
//! of its labels `s`
//!
//! ```text
//! share(a, s) = sum_{b: s in b} w_b / |a & b|
//! ```
//!
//! Pair by pair this costs U^2. But `1/k = sum_j (-1)^(j-1) C(k-1, j-1) / j`, so with
//! `g(m) = sum_{b >= m} w_b`, the weight of the sets that contain `m`,
//!
//! ```text
//! share(a, s) = sum_{m: s in m <= a} (-1)^(|m|-1) g(m) / |m|
//! ```
//!
//! which costs one visit per subset of a set: linear in U, exponential in |a|. `subset_tree.rs`
//! combines both. All arithmetic is in integers, in units of `1/lcm(1..K)` (`beta.rs`);
//! intermediate sums may wrap around 2^128, but the results fit. Therefore the result does not depend
//! on the order of work or the number of threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crosshash_codes::Labels;
use rayon::prelude::*;

use super::beta::Beta;
use super::subset_tree::{Entry, SubsetTree, Sums};

/// Sets between two progress reports.
const ROWS: usize = 4096;

/// Label sets prepared for the subset tree. Labels are renumbered by frequency, rarest first, which
/// keeps the lists near the root short.
pub(super) struct Overlap {
    pub(super) classes: usize,
    pub(super) stride: usize,
    pub(super) starts: Vec<usize>, // set -> its labels in the two vectors below
    pub(super) ranks: Vec<u32>,    // ascending within a set
    home: Vec<usize>,              // position of a label in the caller's order
}

impl Overlap {
    /// Uses the sets with these indices, none of them empty.
    pub(super) fn new(sets: &Labels, members: &[usize]) -> Overlap {
        let rank_of = rarest_first(sets, members);
        let (mut starts, mut ranks, mut home) = (vec![0], Vec::new(), Vec::new());
        for &set in members {
            let start = ranks.len();
            let mut labels: Vec<(u32, usize)> = (sets.indices(set).enumerate())
                .map(|(place, label)| (rank_of[label], start + place))
                .collect();
            labels.sort_unstable();
            ranks.extend(labels.iter().map(|label| label.0));
            home.extend(labels.iter().map(|label| label.1));
            starts.push(ranks.len());
        }
        Overlap { classes: sets.classes(), stride: sets.stride(), starts, ranks, home }
    }

    /// Number of sets.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Shares in units of `1 / beta.unit()`, set by set, labels in the caller's order. `progress` is
    /// called with the number of labels done, out of C.
    pub(super) fn shares(
        &self,
        weights: &[u64],
        beta: &Beta,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Vec<i128> {
        let all: Vec<Entry> = (0..self.len()).map(|set| Entry::new(set, 0, set)).collect();
        let root = SubsetTree::new(self, &all, weights, beta);
        let mut sums = Sums::new(&root);
        let sums = if root.pairs_are_cheaper(&all, 0, &mut sums) {
            let mut unused = vec![0; ROWS];
            for (done, rows) in all.chunks(ROWS).enumerate() {
                root.pairs(rows, &all, (0, 0), &mut unused, &mut sums);
                progress(done * ROWS * self.classes / all.len());
            }
            sums.of_place
        } else {
            self.by_label(weights, beta, progress)
        };
        let mut shares = vec![0; sums.len()];
        self.home.iter().zip(sums).for_each(|(&place, sum)| shares[place] = sum);
        shares
    }

    /// One tree per first label, in parallel.
    fn by_label(
        &self,
        weights: &[u64],
        beta: &Beta,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Vec<i128> {
        let total = Mutex::new(vec![0_i128; self.ranks.len()]);
        let done = AtomicUsize::new(0);
        self.lists().par_iter().for_each(|list| {
            let tree = SubsetTree::new(self, list, weights, beta);
            let mut sums = Sums::new(&tree);
            let local: Vec<Entry> = (0..list.len()).map(|k| Entry::new(k, 0, k)).collect();
            let mut values = vec![0; list.len()];
            tree.visit(&local, 1, 0, &mut values, &mut sums);
            let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
            for (k, (entry, value)) in list.iter().zip(values).enumerate() {
                let first = self.starts[entry.set as usize] + entry.pos as usize - 1;
                let below = &sums.of_place[tree.starts[k]..tree.starts[k + 1]];
                for (place, &sum) in (first..).zip(std::iter::once(&value).chain(below)) {
                    total[place] = total[place].wrapping_add(sum);
                }
            }
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        });
        total.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// For each label, the sets that contain it, positioned after that label.
    fn lists(&self) -> Vec<Vec<Entry>> {
        let mut lists = vec![Vec::new(); self.classes];
        for set in 0..self.len() {
            let labels = &self.ranks[self.starts[set]..self.starts[set + 1]];
            for (pos, &rank) in labels.iter().enumerate() {
                lists[rank as usize].push(Entry::new(set, pos + 1, 0));
            }
        }
        lists
    }
}

/// The rank of each label.
fn rarest_first(sets: &Labels, members: &[usize]) -> Vec<u32> {
    let mut counts = vec![0_usize; sets.classes()];
    members.iter().flat_map(|&set| sets.indices(set)).for_each(|label| counts[label] += 1);
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by_key(|&label| (counts[label], label));
    let mut rank_of = vec![0; counts.len()];
    for (rank, &label) in (0_u32..).zip(&order) {
        rank_of[label] = rank;
    }
    rank_of
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proptests::fixed;
    use crate::supervise::groups::Groups;

    /// Reference implementation of the definition, pair by pair.
    fn twin(sets: &Labels, weights: &[u64], unit: i128) -> Vec<i128> {
        let mut shares = Vec::new();
        for a in 0..sets.len() {
            for s in sets.indices(a) {
                let with_s = (0..sets.len()).filter(|&b| sets.indices(b).any(|t| t == s));
                let share =
                    |b| i128::from(weights[b]) * unit / sets.shared(a, sets, b) as i128;
                shares.push(with_s.map(share).sum());
            }
        }
        shares
    }

    fn check(labels: &Labels) {
        let groups = Groups::new(labels);
        let members: Vec<usize> =
            (0..groups.sets.len()).filter(|&s| groups.weights[s] > 0).collect();
        let sets = groups.sets.select(&members);
        let weights: Vec<u64> = members.iter().map(|&s| groups.weights[s]).collect();
        let beta = Beta::new(40, 1 << 40);
        let shares = Overlap::new(&groups.sets, &members).shares(&weights, &beta, &|_| ());
        assert_eq!(shares, twin(&sets, &weights, beta.unit()));
    }

    proptest! {
        #![proptest_config(fixed(256))]

        /// Few and many labels per set, small and large vocabularies: pairs at the root, splits, and
        /// combinations of both.
        #[test]
        fn shares_follow_the_definition(
            classes in 1_u32..140,
            picks in prop::collection::vec(prop::collection::vec(any::<u32>(), 0..12), 1..120),
            skew in 1_u32..4,
        ) {
            let rows = picks.iter().map(|row| {
                row.iter().map(|p| (p % classes) / (1 + p % skew)).collect::<Vec<u32>>()
            });
            check(&Labels::from_indices(classes as usize, rows).unwrap());
        }
    }

    /// All subsets of few labels: splitting is always cheaper.
    #[test]
    fn all_subsets_of_ten_labels() {
        let rows = (0_u32..1024).map(|set| {
            (0..10)
                .filter(|bit| set >> bit & 1 == 1)
                .map(|bit| bit * 7)
                .collect::<Vec<u32>>()
        });
        check(&Labels::from_indices(70, rows).unwrap());
    }
}
