//! Depth-first traversal of the subsets `m` of label sets, with the sets that contain `m`.
//!
//! Each node keeps the list of sets that contain its subset (Eclat: Zaki, *Scalable algorithms
//! for association mining*, 2000) and continues with the subsets that have one later label more. A
//! subset and those below it contribute one value per set of the list to the shares of `overlap.rs`;
//! the share of label `s` in set `a` is the sum of `a`'s values over all nodes that end in `s`.
//!
//! Below any node, the pairs (a, b) of its list can also be summed directly: over all subsets `x` of
//! the `r` later labels that both have, with `d = |m|`,
//!
//! ```text
//! sum_x       (-1)^(d+|x|-1) w_b / (d+|x|) = (-1)^(d-1) B(d, r+1) w_b
//! sum_{x: t in x}      the same             = (-1)^d B(d+1, r) w_b
//! ```
//!
//! At the root, `d = 0`, the second line is the plain pair sum, `B(1, k) = 1/k`. A node is
//! summed by pairs or split by label, whichever has the lower cost bound.

use rayon::prelude::*;

use super::beta::Beta;
use super::overlap::Overlap;

/// Lists up to this length are always summed by pairs.
const SHORT: usize = 4;
/// From this many pairs on, they are summed in parallel.
const MANY_PAIRS: usize = 1 << 18;
/// Cost of one visit to a subset of a set, in units of one word of one pair.
pub(super) const VISIT: u64 = 2;

/// One set in a node's list.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) set: u32,
    pub(super) pos: u32, // position of its first label after the node's last one
    up: u32,             // index in the parent's list
}

impl Entry {
    #[expect(clippy::cast_possible_truncation, reason = "sets are numbered in u32")]
    pub(super) fn new(set: usize, pos: usize, up: usize) -> Entry {
        Entry { set: set as u32, pos: pos as u32, up: up as u32 }
    }
}

/// Input of the traversal below one label or the root: the remaining labels of each set, packed.
pub(super) struct SubsetTree<'a> {
    beta: &'a Beta,
    classes: usize,
    stride: usize,
    words: Vec<u64>,
    pub(super) starts: Vec<usize>,
    ranks: Vec<u32>,
    weights: Vec<i128>,
}

/// Output, and scratch space that is zero between uses.
pub(super) struct Sums {
    pub(super) of_place: Vec<i128>, // per remaining label
    shares: Vec<i128>,              // scratch, per label
    counts: Vec<u32>,               // scratch, per label
}

impl Sums {
    pub(super) fn new(tree: &SubsetTree<'_>) -> Sums {
        let (places, classes) = (tree.ranks.len(), tree.classes);
        Sums {
            of_place: vec![0; places],
            shares: vec![0; classes],
            counts: vec![0; classes],
        }
    }
}

impl<'a> SubsetTree<'a> {
    /// Packs the labels of the sets of a list from `pos` on.
    pub(super) fn new(
        all: &Overlap,
        list: &[Entry],
        weights: &[u64],
        beta: &'a Beta,
    ) -> SubsetTree<'a> {
        let (stride, mut words) = (all.stride, vec![0; list.len() * all.stride]);
        let (mut starts, mut ranks) = (vec![0], Vec::new());
        for (k, entry) in list.iter().enumerate() {
            let set = entry.set as usize;
            let rest = all.starts[set] + entry.pos as usize..all.starts[set + 1];
            for &rank in &all.ranks[rest] {
                words[k * stride + rank as usize / 64] |= 1 << (rank % 64);
                ranks.push(rank);
            }
            starts.push(ranks.len());
        }
        let weights = list.iter().map(|e| i128::from(weights[e.set as usize])).collect();
        SubsetTree { beta, classes: all.classes, stride, words, starts, ranks, weights }
    }

    /// Adds to `values` the contribution of the node's subset of `depth` labels and all below it to
    /// each set of the list, and to `sums` the same for the labels after the node, which are those
    /// from `from` on.
    pub(super) fn visit(
        &self,
        list: &[Entry],
        depth: usize,
        from: usize,
        values: &mut [i128],
        sums: &mut Sums,
    ) {
        if self.pairs_are_cheaper(list, from, sums) {
            self.pairs(list, list, (depth, from), values, sums);
        } else {
            self.split(list, depth, values, sums);
        }
    }

    /// Compares the cost of all pairs with two upper bounds of the cost of splitting: all subsets, or
    /// one split and then pairs.
    pub(super) fn pairs_are_cheaper(
        &self,
        list: &[Entry],
        from: usize,
        sums: &mut Sums,
    ) -> bool {
        if list.len() <= SHORT {
            return true;
        }
        let words = 1 + self.stride.saturating_sub(from / 64) as u64;
        let pairs = |n: u64| n.saturating_mul(n).saturating_mul(words);
        let by_pairs = pairs(list.len() as u64);
        let subsets = list.iter().fold(0_u64, |sum, entry| {
            let rest = self.rest(entry).len();
            sum.saturating_add(if rest < 63 { 1 << rest } else { u64::MAX })
        });
        if subsets.saturating_mul(VISIT) < by_pairs {
            return false;
        }
        let one_split = self.lengths(list, sums).iter().fold(0_u64, |sum, &(_, n)| {
            sum.saturating_add(pairs(u64::from(n))).saturating_add(u64::from(n) * VISIT)
        });
        by_pairs <= one_split
    }

    /// Sums everything at and below a node pair by pair, for the sets in `rows`, which are some or all
    /// of the list.
    pub(super) fn pairs(
        &self,
        rows: &[Entry],
        list: &[Entry],
        (depth, from): (usize, usize),
        values: &mut [i128],
        sums: &mut Sums,
    ) {
        if rows.len() * list.len() < MANY_PAIRS {
            for (entry, value) in rows.iter().zip(values) {
                let own = self.pairs_of(entry, list, depth, from, &mut sums.shares);
                *value = value.wrapping_add(own);
                for place in self.places(entry) {
                    let share =
                        std::mem::take(&mut sums.shares[self.ranks[place] as usize]);
                    sums.of_place[place] = sums.of_place[place].wrapping_add(share);
                }
            }
            return;
        }
        let row_sum = |shares: &mut Vec<i128>, entry: &Entry| -> (i128, Vec<i128>) {
            let own = self.pairs_of(entry, list, depth, from, shares);
            let ranks = self.rest(entry).iter();
            (own, ranks.map(|&r| std::mem::take(&mut shares[r as usize])).collect())
        };
        let row_sums: Vec<(i128, Vec<i128>)> =
            rows.par_iter().map_init(|| vec![0; self.classes], row_sum).collect();
        for ((entry, value), (own, shares)) in rows.iter().zip(values).zip(row_sums) {
            *value = value.wrapping_add(own);
            for (place, share) in self.places(entry).zip(shares) {
                sums.of_place[place] = sums.of_place[place].wrapping_add(share);
            }
        }
    }

    /// One set against the whole list; returns its value and adds its shares by label.
    fn pairs_of(
        &self,
        entry: &Entry,
        list: &[Entry],
        depth: usize,
        from: usize,
        shares: &mut [i128],
    ) -> i128 {
        let (first, mask) = (from / 64, u64::MAX << (from % 64));
        let words = |e: &Entry| {
            let set = e.set as usize;
            self.words[set * self.stride..(set + 1) * self.stride]
                .get(first..)
                .unwrap_or(&[])
        };
        let mine = words(entry);
        let (mut value, mut apart) = (0_i128, 0_i128);
        for other in list {
            let theirs = words(other);
            let both =
                |k: usize| mine[k] & theirs[k] & if k == 0 { mask } else { u64::MAX };
            let shared: u32 = (0..mine.len()).map(|k| both(k).count_ones()).sum();
            let weight = self.weights[other.set as usize];
            if shared == 0 {
                apart += weight;
                continue;
            }
            let shared = shared as usize;
            value = value.wrapping_add(self.beta.get(depth, shared).wrapping_mul(weight));
            let share = self.beta.get(depth + 1, shared - 1).wrapping_mul(weight);
            for k in 0..mine.len() {
                let mut word = both(k);
                while word != 0 {
                    let sum =
                        &mut shares[(first + k) * 64 + word.trailing_zeros() as usize];
                    *sum = sum.wrapping_add(share);
                    word &= word - 1;
                }
            }
        }
        value.wrapping_add(self.beta.get(depth, 0).wrapping_mul(apart))
    }

    /// The node's own subset, then each subset with one label more.
    fn split(&self, list: &[Entry], depth: usize, values: &mut [i128], sums: &mut Sums) {
        let weight: i128 = list.iter().map(|e| self.weights[e.set as usize]).sum();
        let own = self.beta.get(depth, 0).wrapping_mul(weight);
        values.iter_mut().for_each(|value| *value = value.wrapping_add(own));
        let lengths = self.lengths(list, sums);
        let children = self.children(list, &lengths, sums);
        let (mut below, mut rest) = (Vec::new(), &children[..]);
        for &(rank, length) in &lengths {
            let child;
            (child, rest) = rest.split_at(length as usize);
            below.clear();
            below.resize(child.len(), 0);
            self.visit(child, depth + 1, rank as usize + 1, &mut below, sums);
            for (entry, &value) in child.iter().zip(&below) {
                let place = self.starts[entry.set as usize] + entry.pos as usize - 1;
                sums.of_place[place] = sums.of_place[place].wrapping_add(value);
                let above = &mut values[entry.up as usize];
                *above = above.wrapping_add(value);
            }
        }
    }

    /// The labels after the node, and the number of sets of the list that contain each.
    fn lengths(&self, list: &[Entry], sums: &mut Sums) -> Vec<(u32, u32)> {
        let mut lengths = Vec::new();
        for &rank in list.iter().flat_map(|entry| self.rest(entry)) {
            let count = &mut sums.counts[rank as usize];
            if *count == 0 {
                lengths.push((rank, 0));
            }
            *count += 1;
        }
        for (rank, length) in &mut lengths {
            *length = std::mem::take(&mut sums.counts[*rank as usize]);
        }
        lengths
    }

    /// The lists of all child nodes, concatenated.
    fn children(
        &self,
        list: &[Entry],
        lengths: &[(u32, u32)],
        sums: &mut Sums,
    ) -> Vec<Entry> {
        let mut total = 0;
        for &(rank, length) in lengths {
            sums.counts[rank as usize] = total; // position of its next entry
            total += length;
        }
        let mut children = vec![Entry { set: 0, pos: 0, up: 0 }; total as usize];
        for (up, entry) in (0_u32..).zip(list) {
            for (pos, &rank) in (entry.pos + 1..).zip(self.rest(entry)) {
                let next = &mut sums.counts[rank as usize];
                children[*next as usize] = Entry { set: entry.set, pos, up };
                *next += 1;
            }
        }
        lengths.iter().for_each(|&(rank, _)| sums.counts[rank as usize] = 0);
        children
    }

    fn places(&self, entry: &Entry) -> std::ops::Range<usize> {
        let set = entry.set as usize;
        self.starts[set] + entry.pos as usize..self.starts[set + 1]
    }

    fn rest(&self, entry: &Entry) -> &[u32] {
        &self.ranks[self.places(entry)]
    }
}
