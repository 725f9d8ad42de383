//! The first `k` by distance, then item number, out of a stream of candidates.
//!
//! Distances are small integers, so a histogram of the kept hits gives the k-th distance so far
//! without a heap. [`Ascending`] is for candidates that come in the order of their item
//! numbers (the scan): a tie with the k-th is not added. [`Unordered`] is for
//! those that do not (buckets): ties are kept until the end. If all ties with the k-th are
//! requested ([`Query::ties`]), both keep them.

use super::{Hit, Query};
use crate::kernel::threshold::{key, unkey};

/// Candidates come by ascending item number.
pub(super) struct Ascending {
    k: usize,
    ties: bool,
    /// Only distances less than this can still enter.
    below: u32,
    /// Number of kept hits nearer than `below`.
    nearer: usize,
    histogram: Vec<u32>,
    held: Vec<u64>,
    /// Number of kept hits at which those that cannot be in the result are dropped.
    full: usize,
}

impl Ascending {
    pub(super) fn new(query: &Query<'_>, below: u32) -> Ascending {
        let (k, ties) = (query.depth(), query.ties);
        let below = if k == 0 { 0 } else { below };
        let held = Vec::with_capacity(k.min(1 << 10));
        let histogram = vec![0; below as usize + 1];
        Ascending { k, ties, below, nearer: 0, histogram, held, full: full(k) }
    }

    pub(super) fn below(&self) -> u32 {
        self.below
    }

    /// Hits of other parts of the search that are not nearer than this are not in the result:
    /// without `ties`, a tie with our k-th distance may have a lower number elsewhere.
    pub(super) fn bound(&self) -> u32 {
        self.below + u32::from(!self.ties)
    }

    /// Another part of the search has found `k` hits nearer than this.
    pub(super) fn lower(&mut self, below: u32) {
        while self.below > below {
            self.below -= 1;
            self.nearer -= self.histogram[self.below as usize] as usize;
        }
    }

    #[inline]
    pub(super) fn offer(&mut self, distance: u32, item: u32) {
        if distance >= self.below {
            return;
        }
        self.histogram[distance as usize] += 1;
        self.held.push(key(distance, item));
        self.nearer += 1;
        while self.below > 0 {
            let farthest = self.histogram[self.below as usize - 1] as usize;
            // with ties, as long as k remain without the farthest distance
            let enough = if self.ties { self.nearer - farthest } else { self.nearer };
            if enough < self.k {
                break;
            }
            self.nearer -= farthest;
            self.below -= 1;
        }
        if self.held.len() >= self.full {
            // at most k nearer ones and k ties remain, or all ties
            let bound = self.bound();
            self.held.retain(|&key| unkey(key).0 < bound);
            self.full = full(self.k.max(self.held.len()));
        }
    }

    /// All kept hits, unordered; the first `k` of these and those of the other parts are the result.
    pub(super) fn into_keys(self) -> Vec<u64> {
        self.held
    }
}

/// Ties beyond four times `k` that are kept before the first `k` are selected.
const TIES: usize = 256;

/// Number of kept hits at which those that cannot be in the result are dropped.
fn full(k: usize) -> usize {
    k.saturating_mul(4).saturating_add(TIES)
}

/// Candidates come in any order, each once.
pub(super) struct Unordered {
    k: usize,
    ties: bool,
    /// Only distances less than this can still enter.
    below: u32,
    /// Only keys less than this can still enter: `k` smaller ones have been accepted.
    limit: u64,
    /// Number of candidates nearer than `below` that were accepted.
    nearer: usize,
    histogram: Vec<u32>,
    held: Vec<u64>,
    full: usize,
}

impl Unordered {
    pub(super) fn new(query: &Query<'_>, below: u32) -> Unordered {
        let (k, ties) = (query.depth(), query.ties);
        let below = if k == 0 { 0 } else { below };
        let (histogram, held) = (vec![0; below as usize + 1], Vec::new());
        let (limit, full) = (u64::MAX, full(k));
        Unordered { k, ties, below, limit, nearer: 0, histogram, held, full }
    }

    pub(super) fn below(&self) -> u32 {
        self.below
    }

    /// Registers candidates that will be offered, each once and not yet counted: if at least
    /// `k` of them are as near as some distance, nothing farther can be in the result.
    pub(super) fn expect(&mut self, keys: &[u64], histogram: &mut Vec<u32>) {
        if keys.len() < self.k {
            return;
        }
        histogram.clear();
        histogram.resize(self.below as usize + 1, 0);
        keys.iter().for_each(|&key| histogram[unkey(key).0 as usize] += 1);
        let mut within = 0;
        let enough = (0_u32..).zip(histogram.iter()).find(|(_, count)| {
            within += **count as usize;
            within >= self.k
        });
        let below = enough.map_or(self.below, |(distance, _)| distance + 1);
        while self.below > below {
            self.below -= 1;
            self.nearer -= self.histogram[self.below as usize] as usize;
        }
    }

    /// Whether the candidate entered; if not, none with this distance and a larger number does.
    #[inline]
    pub(super) fn offer(&mut self, distance: u32, item: u32) -> bool {
        let key = key(distance, item);
        if distance >= self.below || key >= self.limit {
            return false;
        }
        self.histogram[distance as usize] += 1;
        self.nearer += 1;
        self.held.push(key);
        // as long as k remain without the farthest distance, it cannot be in the answer
        while self.below > 0 {
            let farthest = self.histogram[self.below as usize - 1] as usize;
            if self.nearer - farthest < self.k {
                break;
            }
            self.nearer -= farthest;
            self.below -= 1;
        }
        if self.held.len() >= self.full {
            if self.ties {
                let below = self.below;
                self.held.retain(|&key| unkey(key).0 < below);
                self.full = full(self.k.max(self.held.len()));
            } else {
                let (_, last, _) = self.held.select_nth_unstable(self.k - 1);
                self.limit = *last;
                self.held.truncate(self.k);
            }
        }
        true
    }

    /// Offers items of one code, which ascend: if one does not enter, those behind it do not either.
    /// Whether all of them exist: `n` is the number of items.
    #[inline]
    pub(super) fn offer_all(
        &mut self,
        query: &Query<'_>,
        distance: u32,
        items: impl Iterator<Item = u32>,
        n: usize,
    ) -> bool {
        let mut left = if query.ties { usize::MAX } else { query.depth() };
        let mut any = false;
        for item in items {
            any = true;
            if item as usize >= n {
                return false;
            }
            if query.allows(item) {
                if left == 0 || !self.offer(distance, item) {
                    break;
                }
                left -= 1;
            }
        }
        any
    }

    pub(super) fn into_keys(self) -> Vec<u64> {
        self.held
    }
}

impl Query<'_> {
    /// The hits among the keys that a search kept, in order, without those of earlier pages.
    pub(super) fn hits(&self, mut keys: Vec<u64>) -> Vec<Hit> {
        let k = self.depth();
        if keys.len() > k {
            if k == 0 {
                return Vec::new();
            }
            let (_, last, _) = keys.select_nth_unstable(k - 1);
            let last = unkey(*last).0;
            if self.ties {
                keys.retain(|&key| unkey(key).0 <= last);
            } else {
                keys.truncate(k);
            }
        }
        keys.sort_unstable();
        let hit = |key: u64| {
            let (distance, item) = unkey(key);
            Hit { distance, item }
        };
        keys.into_iter().skip(self.skip).map(hit).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proptests::fixed;

    proptest! {
        #![proptest_config(fixed(256))]

        #[test]
        fn both_keep_the_first_k(
            distances in prop::collection::vec(0_u32..12, 0..3000),
            k in 0_usize..40,
            below in 1_u32..14,
            stride in 1_usize..50,
            ties in any::<bool>(),
        ) {
            let n = distances.len();
            let query = Query { ties, ..Query::nearest(k) };
            let mut truth: Vec<Hit> = distances
                .iter()
                .enumerate()
                .map(|(i, &distance)| Hit { distance, item: u32::try_from(i).unwrap() })
                .filter(|hit| hit.distance < below)
                .collect();
            truth.sort_unstable();
            let last = truth.get(k.wrapping_sub(1)).map(|hit| hit.distance);
            let end = last.filter(|_| ties).map_or(k, |last| {
                truth.partition_point(|hit| hit.distance <= last)
            });
            truth.truncate(end);
            let mut up = Ascending::new(&query, below);
            for (i, &distance) in distances.iter().enumerate() {
                up.offer(distance, u32::try_from(i).unwrap());
            }
            prop_assert_eq!(&query.hits(up.into_keys()), &truth);
            let mut any = Unordered::new(&query, below);
            for start in 0..stride {
                let near = |i: &usize| distances[*i] < any.below();
                let soon: Vec<u64> = (start..n)
                    .step_by(stride)
                    .filter(near)
                    .map(|i| key(distances[i], u32::try_from(i).unwrap()))
                    .collect();
                if k > 0 && start % 2 == 0 {
                    any.expect(&soon, &mut Vec::new());
                }
                for i in (start..n).step_by(stride) {
                    any.offer(distances[i], u32::try_from(i).unwrap());
                }
            }
            prop_assert_eq!(&query.hits(any.into_keys()), &truth);
        }
    }
}
