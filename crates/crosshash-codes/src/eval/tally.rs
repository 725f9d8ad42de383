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

    /// Ranks the items of the last counted query with ties in database order. Gives the sum
    /// of precisions at the relevant ranks (R times AP over the whole ranking), and the
    /// shared labels at each of the first `ranks` ranks.
    ///
    /// Nothing is sorted: the tally says where each distance starts, so an item's rank and
    /// the hits up to it come from two counters per distance. The loop over counters stores
    /// to consecutive places only, and the divisions run on whole blocks; both matter (a
    /// scatter into rank order takes twice the time).
    pub(super) fn stable(&self, ranks: usize) -> (f64, Vec<u16>) {
        let mut next = vec![0_u32; self.tally.max_distance + 1];
        let mut next_hit = next.clone();
        let (mut before, mut hits_before) = (0, 0);
        for distance in 0..=self.tally.max_distance {
            next[distance] = before;
            next_hit[distance] = hits_before;
            let (items, hits) = self.tally.at(distance);
            before += narrow(items);
            hits_before += narrow(hits);
        }
        let mut top = vec![0_u16; ranks.min(self.distance.len())];
        let (mut rank, mut hits) = ([0_u32; BLOCK], [0_u32; BLOCK]);
        let mut sums = [0.0; LANES];
        for (distance, shared) in self.distance.chunks(BLOCK).zip(self.shared.chunks(BLOCK))
        {
            for (i, (&distance, &shared)) in distance.iter().zip(shared).enumerate() {
                let (distance, relevant) = (usize::from(distance), u32::from(shared > 0));
                next[distance] += 1;
                next_hit[distance] += relevant;
                rank[i] = next[distance];
                hits[i] = next_hit[distance] * relevant; // 0 if not relevant: no branch
            }
            let (rank, hits) = (&rank[..distance.len()], &hits[..distance.len()]);
            add_quotients(&mut sums, hits, rank);
            if top.is_empty() {
                continue;
            }
            for (&rank, &shared) in rank.iter().zip(shared) {
                if let Some(slot) = top.get_mut(rank as usize - 1) {
                    *slot = shared;
                }
            }
        }
        (sums.iter().sum(), top)
    }
}

/// Adds hits / rank of every item, in turn over the lanes.
fn add_quotients(sums: &mut [f64; LANES], hits: &[u32], rank: &[u32]) {
    let quotient = |hits: u32, rank: u32| {
        // below 2^31, and signed integers convert in vectors
        f64::from(hits.cast_signed()) / f64::from(rank.cast_signed())
    };
    let (hit_lanes, hit_rest) = hits.as_chunks::<LANES>();
    let (rank_lanes, rank_rest) = rank.as_chunks::<LANES>();
    for (hits, rank) in hit_lanes.iter().zip(rank_lanes) {
        for lane in 0..LANES {
            sums[lane] += quotient(hits[lane], rank[lane]);
        }
    }
    for (&hits, &rank) in hit_rest.iter().zip(rank_rest) {
        sums[0] += quotient(hits, rank);
    }
}

/// Item counts fit: the database is checked to hold fewer than 2^31 items.
fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
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
