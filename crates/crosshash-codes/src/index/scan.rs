//! The blocked exhaustive scan.
//!
//! A block of codes stays in the first-level cache while a tile of queries passes over it; per
//! query the running k-th distance rejects nearly all codes inside the kernel
//! (`kernel/threshold`). Rows of several words are turned into planes block by block, and for many
//! queries into bit slices where the kernel has them, so nothing is held beyond the codes. Many queries are spread over threads by tiles, few by parts of the
//! database.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use rayon::prelude::*;

use super::top::Ascending;
use super::{Hit, Index, Query, check_count};
use crate::kernel::Kernel;
use crate::kernel::threshold::{GROUP, Planes, key, unkey};
use crate::{Codes, Result};

/// Words of codes in a block: 32 KiB.
const BLOCK_WORDS: usize = 4096;
/// Words in a block that few queries read row by row: it passes the caches once.
const ROW_WORDS: usize = 1 << 16;
/// Words of two lines of the cache.
const TWO_LINES: usize = 16;
/// Codes in the first blocks, until there is a useful k-th distance.
const FIRST_BLOCK: usize = 256;
/// Codes that give the first bound.
const PRIME: usize = 2048;
/// Codes from which the bound of many hits is estimated, in runs of `RUN`.
const SAMPLED: usize = 1 << 14;
const RUN: usize = 32;
/// A bound is estimated if the database has at least this number of codes per hit.
const CODES_PER_HIT: usize = 64;
/// Queries that share a block.
const TILE: usize = 256;
/// For so few queries it does not pay to turn rows into planes.
const FEW_QUERIES: usize = 3;
/// From this number of queries per block, the next block is prefetched; for fewer, prefetching a whole
/// block only delays the queries.
const AHEAD_QUERIES: usize = 16;
/// Minimum number of words of the database per thread.
const PART_WORDS: usize = 1 << 15;

/// Visits every code.
pub struct Scan {
    codes: Codes,
    kernel: Kernel,
}

impl Scan {
    /// Nothing to build.
    pub fn new(codes: Codes) -> Result<Scan> {
        Scan::with_kernel(codes, Kernel::best())
    }

    /// The same with a given kernel.
    pub fn with_kernel(codes: Codes, kernel: Kernel) -> Result<Scan> {
        check_count(&codes)?;
        Ok(Scan { codes, kernel })
    }

    /// Hits of the chosen queries; `below[i]` bounds the distances of the `i`-th.
    pub(super) fn chosen(
        &self,
        queries: &Codes,
        chosen: &[u32],
        below: &[u32],
        query: &Query<'_>,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Vec<Vec<Hit>> {
        let threads = rayon::current_num_threads();
        let tile = chosen.len().div_ceil(threads).clamp(1, TILE);
        let tiles: Vec<(&[u32], &[u32])> =
            chosen.chunks(tile).zip(below.chunks(tile)).collect();
        let most = self.codes.words().len().div_ceil(PART_WORDS).max(1);
        let parts = (threads / tiles.len().max(1)).clamp(1, most);
        let done = AtomicUsize::new(0);
        let answers: Vec<Vec<Vec<Hit>>> = tiles
            .into_par_iter()
            .map(|(tile, below)| {
                let estimated = self.estimate(queries, tile, below, query);
                let bounds = estimated.as_deref().unwrap_or(below);
                let mut keys = self.tile(queries, tile, bounds, query, parts);
                // where the estimate was too low, the query is scanned again
                let is_cut = |at: &usize| {
                    bounds[*at] < below[*at] && keys[*at].len() < query.depth()
                };
                let cut: Vec<usize> = (0..tile.len()).filter(is_cut).collect();
                if !cut.is_empty() {
                    let again: Vec<u32> = cut.iter().map(|&at| tile[at]).collect();
                    let below: Vec<u32> = cut.iter().map(|&at| below[at]).collect();
                    let whole = self.tile(queries, &again, &below, query, parts);
                    cut.into_iter().zip(whole).for_each(|(at, whole)| keys[at] = whole);
                }
                let done = done.fetch_add(tile.len(), Ordering::Relaxed) + tile.len();
                progress(done);
                keys.into_iter().map(|keys| query.hits(keys)).collect()
            })
            .collect();
        answers.into_iter().flatten().collect()
    }

    /// What each query of a tile keeps, with the database divided into parts.
    fn tile(
        &self,
        queries: &Codes,
        tile: &[u32],
        below: &[u32],
        query: &Query<'_>,
        parts: usize,
    ) -> Vec<Vec<u64>> {
        let n = self.codes.len();
        let known: Vec<AtomicU32> = below.iter().map(|&b| b.into()).collect();
        let of_part = |part: usize| {
            let range = n * part / parts..n * (part + 1) / parts;
            self.part(queries, tile, &known, query, range)
        };
        let found: Vec<Vec<Vec<u64>>> = (0..parts).into_par_iter().map(of_part).collect();
        let mut keys: Vec<Vec<u64>> = vec![Vec::new(); tile.len()];
        for part in found {
            keys.iter_mut().zip(part).for_each(|(all, some)| all.extend(some));
        }
        keys
    }

    /// Estimates bounds of the last distance of many hits from a sample of the database; `None` if
    /// that does not pay. A scan without any bound keeps many codes of its beginning, which takes
    /// longer than the comparisons. An estimate is three standard deviations too high, so that few
    /// queries find less than they should.
    fn estimate(
        &self,
        queries: &Codes,
        tile: &[u32],
        below: &[u32],
        query: &Query<'_>,
    ) -> Option<Vec<u32>> {
        let (n, k) = (self.codes.len(), query.depth());
        let is_small = k <= PRIME / 8 || n < 4 * SAMPLED;
        if query.allowed.is_some() || is_small || n / CODES_PER_HIT < k {
            return None;
        }
        let expected = k as f64 * SAMPLED as f64 / n as f64;
        let wanted = expected + 3.0 * expected.sqrt() + 3.0;
        let width = self.codes.bits().words();
        let mut histograms = vec![vec![0_u32; self.codes.bits().get() + 1]; tile.len()];
        let mut distances = [0; RUN];
        for run in 0..SAMPLED / RUN {
            let start = run * (n - RUN) / (SAMPLED / RUN);
            let rows = &self.codes.words()[start * width..(start + RUN) * width];
            for (histogram, &q) in histograms.iter_mut().zip(tile) {
                self.kernel.distances(queries.code(q as usize), rows, &mut distances);
                distances.iter().for_each(|&d| histogram[usize::from(d)] += 1);
            }
        }
        let bound = |(histogram, &below): (&Vec<u32>, &u32)| {
            let mut within = 0.0;
            let enough = (0_u32..).zip(histogram).find(|(_, count)| {
                within += f64::from(**count);
                within >= wanted
            });
            enough.map_or(below, |(distance, _)| below.min(distance + 1))
        };
        Some(histograms.iter().zip(below).map(bound).collect())
    }

    /// Scans for all queries on this thread alone, to be timed.
    pub(super) fn alone(&self, queries: &Codes, query: &Query<'_>) {
        let all: Vec<u32> = (0..u32::try_from(queries.len()).unwrap_or(0)).collect();
        let known: Vec<AtomicU32> =
            all.iter().map(|_| query.below(&self.codes).into()).collect();
        std::hint::black_box(self.part(queries, &all, &known, query, 0..self.codes.len()));
    }

    /// Contribution of a part of the database to each query of a tile.
    fn part(
        &self,
        queries: &Codes,
        tile: &[u32],
        known: &[AtomicU32],
        query: &Query<'_>,
        range: Range<usize>,
    ) -> Vec<Vec<u64>> {
        if query.allows_few() {
            return self.listed(queries, tile, known, query, range);
        }
        let width = self.codes.bits().words();
        let primed = self.prime(queries, tile, known, query, range.clone());
        let mut tops: Vec<Ascending> = known
            .iter()
            .map(|below| Ascending::new(query, below.load(Ordering::Relaxed)))
            .collect();
        let (mut scratch, mut found) = (Vec::new(), Vec::new());
        let by_rows = tile.len() <= FEW_QUERIES && self.kernel.reads_rows(width);
        let by_slices = self.kernel.slices_rows(tile.len(), width);
        let block = (BLOCK_WORDS / width / GROUP * GROUP).max(FIRST_BLOCK);
        let largest = if by_rows { ROW_WORDS / width } else { block };
        let (mut start, mut size) = (range.start, if primed { block } else { FIRST_BLOCK });
        while start < range.end {
            let end = (start + size).min(range.end);
            let rows = &self.codes.words()[start * width..end * width];
            if by_slices {
                self.kernel.to_slices(rows, width, &mut scratch);
            } else if width > 1 && !by_rows {
                self.kernel.to_planes(rows, width, &mut scratch);
            }
            let words = if width == 1 || by_slices { rows } else { &scratch[..] };
            let planes = Planes { words, stride: end - start };
            // prefetch the next block while the queries pass over this one
            let next = (end + block).min(range.end);
            let next = &self.codes.words()[end * width..next * width];
            let mut soon = (0..next.len()).step_by(TWO_LINES).map(line);
            let each = next.len().div_ceil(TWO_LINES).div_ceil(tile.len().max(1));
            for ((top, &q), known) in tops.iter_mut().zip(tile).zip(known) {
                if tile.len() >= AHEAD_QUERIES {
                    let next = Planes { words: next, stride: next.len() };
                    soon.by_ref().take(each).for_each(|line| {
                        self.kernel.fetch(1, next, std::slice::from_ref(&line));
                    });
                }
                top.lower(known.load(Ordering::Relaxed));
                let code = queries.code(q as usize);
                found.clear();
                if by_slices {
                    let slices = &scratch[..];
                    self.kernel.threshold_slices(
                        code,
                        rows,
                        slices,
                        top.below(),
                        &mut found,
                    );
                } else if by_rows {
                    self.kernel.threshold_rows(code, rows, top.below(), &mut found);
                } else {
                    self.kernel.threshold(
                        code,
                        planes,
                        &whole(planes),
                        top.below(),
                        &mut found,
                    );
                }
                take(&found, start, query, top);
                known.fetch_min(top.bound(), Ordering::Relaxed);
            }
            start = end;
            size = (size * 2).min(largest);
        }
        tops.into_iter().map(Ascending::into_keys).collect()
    }

    /// Bounds the k-th distance of every query by that among the first codes, which a histogram
    /// gives faster than offering one candidate after the other; returns whether it could.
    fn prime(
        &self,
        queries: &Codes,
        tile: &[u32],
        known: &[AtomicU32],
        query: &Query<'_>,
        range: Range<usize>,
    ) -> bool {
        if query.allowed.is_some() || query.depth() > PRIME / 8 || range.len() < 4 * PRIME {
            return false;
        }
        let width = self.codes.bits().words();
        let rows = &self.codes.words()[range.start * width..][..PRIME * width];
        let mut distances = [0; PRIME];
        let mut histogram = vec![0_u32; self.codes.bits().get() + 1];
        for (&q, known) in tile.iter().zip(known) {
            self.kernel.distances(queries.code(q as usize), rows, &mut distances);
            histogram.fill(0);
            distances.iter().for_each(|&distance| histogram[usize::from(distance)] += 1);
            let mut within = 0;
            let enough = (0_u32..).zip(&histogram).find(|(_, count)| {
                within += **count as usize;
                within >= query.depth()
            });
            if let Some((distance, _)) = enough {
                known.fetch_min(distance + 1, Ordering::Relaxed);
            }
        }
        true
    }

    /// Few items are allowed: visits only them.
    fn listed(
        &self,
        queries: &Codes,
        tile: &[u32],
        known: &[AtomicU32],
        query: &Query<'_>,
        range: Range<usize>,
    ) -> Vec<Vec<u64>> {
        let inside = |item: &u32| range.contains(&(*item as usize));
        let items = query.allowed.into_iter().flat_map(super::ItemSet::iter);
        let items: Vec<u32> = items.filter(inside).collect();
        let mut found = Vec::new();
        let of_query = |(&q, known): (&u32, &AtomicU32)| {
            found.clear();
            let below = if query.depth() == 0 { 0 } else { known.load(Ordering::Relaxed) };
            let code = queries.code(q as usize);
            self.kernel.threshold_listed(
                code,
                self.codes.words(),
                &items,
                0,
                below,
                &mut found,
            );
            let own = |&at: &u64| {
                let (distance, at) = unkey(at);
                key(distance, items[at as usize])
            };
            let mut keys: Vec<u64> = found.iter().map(own).collect();
            if keys.len() > query.depth() && !query.ties {
                keys.select_nth_unstable(query.depth() - 1);
                keys.truncate(query.depth());
            }
            keys
        };
        tile.iter().zip(known).map(of_query).collect()
    }
}

/// Offers the hits of the block of codes that begins at `start`.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "item numbers are 32 bits wide")]
fn take(found: &[u64], start: usize, query: &Query<'_>, top: &mut Ascending) {
    for &key in found {
        let (distance, position) = unkey(key);
        let item = start as u32 + position;
        if query.allows(item) {
            top.offer(distance, item);
        }
    }
}

/// An empty stretch where two lines begin.
#[expect(clippy::cast_possible_truncation, reason = "a block has some thousand words")]
fn line(at: usize) -> Range<u32> {
    at as u32..at as u32
}

/// All codes of a block.
#[expect(clippy::cast_possible_truncation, reason = "a block has some thousand codes")]
#[expect(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]
fn whole(planes: Planes<'_>) -> [Range<u32>; 1] {
    [0..planes.stride as u32]
}

impl Index for Scan {
    fn codes(&self) -> &Codes {
        &self.codes
    }

    fn search(
        &self,
        queries: &Codes,
        query: &Query<'_>,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Vec<Hit>>> {
        query.check(&self.codes, queries)?;
        check_count(queries)?;
        let all: Vec<u32> = (0..u32::try_from(queries.len()).unwrap_or(0)).collect();
        let below = vec![query.below(&self.codes); all.len()];
        Ok(self.chosen(queries, &all, &below, query, progress))
    }

    fn extra_bytes(&self) -> usize {
        0
    }

    fn explain(&self) -> String {
        format!("scan: every code, {}", self.kernel.name())
    }
}
