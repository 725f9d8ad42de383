//! The joint histogram of Hamming distance and shared labels of one query against the
//! database: all that tie-aware metrics need, exact and independent of the database's order.
//!
//! Cost per query: one pass of the distance kernel, one of the label kernel, one increment
//! an item; a second pass gives what depends on the order (the `stable` rule). Memory: four
//! bytes a database item per thread, never queries times items.

use crate::kernel::Kernel;
use crate::{Codes, Labels};

/// Items handed to the kernels at once: distances and counts stay in the L1 cache.
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
            kernel.shared(query_labels, rows, shared);
            fill(&mut self.lanes, cells, width, distance, shared);
        }
        self.tally.counts.clear();
        let (first, rest) = self.lanes.split_at(cells);
        self.tally.counts.extend_from_slice(first);
        for lane in rest.chunks_exact(cells) {
            self.tally.counts.iter_mut().zip(lane).for_each(|(sum, n)| *sum += n);
        }
    }

    /// Walks the items of the last counted query in database order and gives, for ties in
    /// that order, the sum of precisions at the relevant ranks (R times AP over the whole
    /// database), and the shared labels at each of the first `ranks` ranks.
    pub(super) fn stable(&self, ranks: usize) -> (f64, Vec<u16>) {
        // where the next item of each distance stands, and how many relevant ones precede it
        let mut next = vec![(0_u32, 0_u32); self.tally.max_distance + 1];
        let (mut before, mut relevant_before) = (0, 0);
        for (distance, next) in next.iter_mut().enumerate() {
            *next = (before, relevant_before);
            let (items, relevant) = self.tally.at(distance);
            before += narrow(items);
            relevant_before += narrow(relevant);
        }
        let mut top = vec![0_u16; ranks.min(self.distance.len())];
        let mut precisions = [0.0; LANES];
        for (i, (&distance, &shared)) in self.distance.iter().zip(&self.shared).enumerate()
        {
            let (rank, hits) = &mut next[usize::from(distance)];
            if let Some(slot) = top.get_mut(*rank as usize) {
                *slot = shared;
            }
            *rank += 1;
            let relevant = u32::from(shared > 0);
            *hits += relevant;
            precisions[i % LANES] += f64::from(relevant * *hits) / f64::from(*rank);
        }
        (precisions.iter().sum(), top)
    }
}

/// One increment an item, in turn over the lanes.
fn fill(lanes: &mut [u32], cells: usize, width: usize, distance: &[u16], shared: &[u16]) {
    let (a, rest) = lanes.split_at_mut(cells);
    let (b, rest) = rest.split_at_mut(cells);
    let (c, d) = rest.split_at_mut(cells);
    let cell =
        |distance: u16, shared: u16| usize::from(distance) * width + usize::from(shared);
    let (distances, distance_rest) = distance.as_chunks::<LANES>();
    let (shareds, shared_rest) = shared.as_chunks::<LANES>();
    for (distance, shared) in distances.iter().zip(shareds) {
        a[cell(distance[0], shared[0])] += 1;
        b[cell(distance[1], shared[1])] += 1;
        c[cell(distance[2], shared[2])] += 1;
        d[cell(distance[3], shared[3])] += 1;
    }
    for (&distance, &shared) in distance_rest.iter().zip(shared_rest) {
        a[cell(distance, shared)] += 1;
    }
}

/// Item counts fit: the database is checked to hold fewer than 2^31 items.
fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
