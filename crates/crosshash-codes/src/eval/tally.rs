//! The joint histogram of Hamming distance and shared labels of one query against the
//! database: all that tie-aware metrics need, exact and independent of the database's order.
//!
//! Cost per query: one pass of the distance kernel, one of the label kernel, one increment
//! an item; a second pass gives what depends on the order (the `stable` rule). Memory: four
//! bytes a database item per thread, never queries times items.

use crate::kernel::Kernel;
use crate::{Codes, Labels};

/// Items handed to the kernels at once: distances and counts stay in the L1 cache. A power
/// of two, so that a mask can replace a bounds check.
const BLOCK: usize = 2048;
/// Histograms filled in turn, so that equal neighbours do not wait for each other.
const LANES: usize = 4;

/// Counts of database items by distance and number of shared labels.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    max_distance: usize,
    most_shared: usize,
    counts: Vec<u32>, // (max_distance + 1) x (most_shared + 1)
}

impl Tally {
    /// The largest distance that can occur.
    pub fn max_distance(&self) -> usize {
        self.max_distance
    }

    /// The most labels an item can share with the query: |Y_q|.
    pub fn most_shared(&self) -> usize {
        self.most_shared
    }

    /// The most labels any item does share with the query.
    pub fn largest_shared(&self) -> usize {
        let occurs = |shared: &usize| {
            (0..=self.max_distance).any(|distance| self.items(distance, *shared) > 0)
        };
        (0..=self.most_shared).rev().find(occurs).unwrap_or(0)
    }

    /// Items at this distance that share this many labels.
    pub fn items(&self, distance: usize, shared: usize) -> u32 {
        self.counts[distance * (self.most_shared + 1) + shared]
    }

    /// Items at this distance, and the relevant ones among them.
    pub fn at(&self, distance: usize) -> (u64, u64) {
        let width = self.most_shared + 1;
        let row = &self.counts[distance * width..][..width];
        let relevant = row[1..].iter().map(|&n| u64::from(n)).sum::<u64>();
        (relevant + u64::from(row[0]), relevant)
    }

    /// R, the relevant items in the whole database.
    pub fn relevant(&self) -> u64 {
        (0..=self.max_distance).map(|d| self.at(d).1).sum()
    }
}

/// Room for one thread's work, reused from query to query.
#[derive(Default)]
pub(super) struct Scratch {
    distance: Vec<u16>,
    shared: Vec<u16>,
    lanes: Vec<u32>,
    pub(super) tally: Tally,
}

impl Scratch {
    /// Fills `self.tally` for one query.
    pub(super) fn count(
        &mut self,
        query: &[u64],
        query_labels: &[u64],
        database: &Codes,
        labels: &Labels,
    ) {
        let n_items = database.len();
        self.distance.resize(n_items, 0);
        self.shared.resize(n_items, 0);
        // By words, not bits: codes of a mapped file may carry unchecked padding.
        self.tally.max_distance = database.bits().words() * 64;
        self.tally.most_shared = query_labels.iter().map(|w| w.count_ones() as usize).sum();
        let width = self.tally.most_shared + 1;
        let cells = (self.tally.max_distance + 1) * width;
        self.lanes.clear();
        self.lanes.resize(cells * LANES, 0);

        let kernel = Kernel::best();
        let blocks = self.distance.chunks_mut(BLOCK).zip(self.shared.chunks_mut(BLOCK));
        for (block, (distance, shared)) in blocks.enumerate() {
            let (start, n) = (block * BLOCK, distance.len());
            let codes = &database.words()[start * query.len()..][..n * query.len()];
            kernel.distances(query, codes, distance);
            let rows =
                &labels.words()[start * query_labels.len()..][..n * query_labels.len()];
            if query_labels.is_empty() {
                shared.fill(0);
            } else {
                kernel.shared(query_labels, rows, shared);
            }
            fill(&mut self.lanes, cells, width, distance, shared);
        }
        self.tally.counts.clear();
        let (first, rest) = self.lanes.split_at(cells);
        self.tally.counts.extend_from_slice(first);
        for lane in rest.chunks_exact(cells) {
            self.tally.counts.iter_mut().zip(lane).for_each(|(sum, n)| *sum += n);
        }
    }

    /// The distances of the items of the last counted query.
    pub(super) fn distances(&self) -> &[u16] {
        &self.distance
    }

    /// Ranks the items of the last counted query with ties in database order. Gives the sum
    /// of precisions at the relevant ranks (R times AP over the whole ranking), and the
    /// shared labels at each of the first `ranks` ranks.
    ///
    /// Nothing is sorted: the tally contains where each distance starts, so an item's rank and
    /// the hits up to it come from one pair of counters per distance (rank in the low half,
    /// hits in the high one). The loop stores to consecutive places only, without a branch
    /// on relevance, which is hard to predict; a scatter into rank order takes twice the time.
    pub(super) fn stable(&self, ranks: usize) -> (f64, Vec<u16>) {
        let mut next = vec![0_u64; self.tally.max_distance + 1];
        let mut before = 0;
        for (distance, next) in next.iter_mut().enumerate() {
            *next = before;
            let (items, relevant) = self.tally.at(distance);
            before += items + (relevant << 32);
        }
        let mut top = vec![0_u16; ranks.min(self.distance.len())];
        let sum = if top.is_empty() {
            self.walk::<false>(&mut next, &mut top)
        } else {
            self.walk::<true>(&mut next, &mut top)
        };
        (sum, top)
    }

    /// The loop of [`Scratch::stable`]; `TOP` says whether there are top ranks to keep.
    fn walk<const TOP: bool>(&self, next: &mut [u64], top: &mut [u16]) -> f64 {
        let mut pairs = [0_u64; BLOCK];
        let mut sums = [0.0; LANES];
        for (distance, shared) in self.distance.chunks(BLOCK).zip(self.shared.chunks(BLOCK))
        {
            let mut found = 0;
            for (&distance, &shared) in distance.iter().zip(shared) {
                let relevant = shared.min(1);
                let next = &mut next[usize::from(distance)];
                let pair = *next + (u64::from(relevant) << 32 | 1);
                *next = pair;
                pairs[found & (BLOCK - 1)] = pair; // kept only if relevant
                found += usize::from(relevant);
                if TOP
                    && let Some(slot) = top.get_mut(low(pair).unsigned_abs() as usize - 1)
                {
                    *slot = shared;
                }
            }
            add_quotients(&mut sums, &pairs[..found]);
        }
        sums.iter().sum()
    }
}

/// The low half of a pair of counters; both stay below 2^31, as the database does.
#[expect(clippy::cast_possible_truncation, reason = "the other half is not needed")]
fn low(pair: u64) -> i32 {
    pair as i32
}

/// Adds hits / rank of every pair, in turn over the lanes.
fn add_quotients(sums: &mut [f64; LANES], pairs: &[u64]) {
    let quotient = |pair: u64| f64::from(low(pair >> 32)) / f64::from(low(pair));
    let (rounds, rest) = pairs.as_chunks::<LANES>();
    for pairs in rounds {
        for lane in 0..LANES {
            sums[lane] += quotient(pairs[lane]);
        }
    }
    for &pair in rest {
        sums[0] += quotient(pair);
    }
}

/// One increment an item, in turn over the lanes.
fn fill(lanes: &mut [u32], cells: usize, width: usize, distance: &[u16], shared: &[u16]) {
    // The cells of a block first: a loop that vectorises.
    let mut cell = [0_u32; BLOCK];
    let cell = &mut cell[..distance.len()];
    let width = u32::try_from(width).unwrap_or(u32::MAX); // at most 65,536, see `Labels`
    for (cell, (&distance, &shared)) in cell.iter_mut().zip(distance.iter().zip(shared)) {
        *cell = u32::from(distance) * width + u32::from(shared);
    }
    let (a, rest) = lanes.split_at_mut(cells);
    let (b, rest) = rest.split_at_mut(cells);
    let (c, d) = rest.split_at_mut(cells);
    let (rounds, rest) = cell.as_chunks::<LANES>();
    for cell in rounds {
        a[cell[0] as usize] += 1;
        b[cell[1] as usize] += 1;
        c[cell[2] as usize] += 1;
        d[cell[3] as usize] += 1;
    }
    for &cell in rest {
        a[cell as usize] += 1;
    }
}
