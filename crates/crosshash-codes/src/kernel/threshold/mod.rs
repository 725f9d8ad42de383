//! Which of many codes are below a distance threshold: the inner loop of search.
//!
//! Codes come as planes: word `w` of code `i` is `words[w * stride + i]`, so that a vector
//! holds the same word of many codes. Nearly all codes are beyond the bound, and the kernels
//! are optimised for this case: distances are reduced to their minimum, one comparison rejects tens
//! of codes, and only the rest is examined. `portable.rs` is the reference, and the compiler vectorises it for
//! NEON, which every 64-bit ARM has; `avx2_scan.rs`, `avx2_slices.rs`, `avx2_lanes.rs` and `avx512.rs` are written by
//! hand; `avx2.rs` is the reference compiled for AVX2.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx2_lanes;
#[cfg(target_arch = "x86_64")]
mod avx2_scan;
#[cfg(target_arch = "x86_64")]
mod avx2_slices;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512_nodes;
mod nodes;
mod portable;

pub(crate) use nodes::{LANES, Lanes, Nodes, PADDING, RANKED, Values, combinations};

use std::ops::Range;

use super::Kernel;

/// Codes whose bits are counted together by [`Kernel::threshold_slices`].
pub(crate) const GROUP: usize = 256;

/// Codes by word instead of by row.
#[derive(Clone, Copy)]
pub(crate) struct Planes<'a> {
    /// Word `w` of code `i` is `words[w * stride + i]`.
    pub(crate) words: &'a [u64],
    /// The distance between two planes, at least the number of codes.
    pub(crate) stride: usize,
}

/// The location of the codes of a list of candidates.
#[derive(Clone, Copy)]
pub(crate) enum Held<'a> {
    /// At their position in planes.
    Planes(Planes<'a>),
    /// In the row of their item.
    Rows(&'a [u64]),
}

/// Decides whether a step of multi-index hashing is the first to find a candidate: with
/// `ones` differing bits in the `j`-th substring it was found at step `ones * substrings + j`.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    /// This step.
    pub(crate) number: u32,
    /// First bit and bits of every substring.
    pub(crate) substrings: &'a [(u32, u32)],
    /// The item at each position.
    pub(crate) items: &'a [u32],
}

/// A distance and a position in one number that sorts by distance first.
#[inline(always)]
pub(crate) fn key(distance: u32, position: u32) -> u64 {
    u64::from(distance) << 32 | u64::from(position)
}

/// The two halves of a [`key`].
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "two 32-bit halves")]
pub(crate) fn unkey(key: u64) -> (u32, u32) {
    ((key >> 32) as u32, key as u32)
}

impl Kernel {
    /// Appends to `out` the [`key`] of every code in `ranges` whose distance from `query` is
    /// less than `below`, in the order of the ranges.
    pub(crate) fn threshold(
        self,
        query: &[u64],
        planes: Planes<'_>,
        ranges: &[Range<u32>],
        below: u32,
        out: &mut Vec<u64>,
    ) {
        assert!(!query.is_empty(), "a code has at least one word");
        let end = ranges.iter().map(|range| range.end as usize).max().unwrap_or(0);
        assert!(ranges.iter().all(|range| range.start <= range.end), "ranges go up");
        assert!(end <= planes.stride, "ranges lie inside a plane");
        assert!(
            (query.len() - 1) * planes.stride + end <= planes.words.len(),
            "all planes"
        );
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => avx512::threshold(query, planes, ranges, below, out),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => avx2_scan::threshold(query, planes, ranges, below, out),
            _ => portable::threshold(query, planes, ranges, below, out),
        }
    }

    /// The same for codes that lie apart: row `ids[i]` of `rows`, which are as wide as the
    /// query; the position in the key is `i + first`.
    pub(crate) fn threshold_listed(
        self,
        query: &[u64],
        rows: &[u64],
        ids: &[u32],
        first: u32,
        below: u32,
        out: &mut Vec<u64>,
    ) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 | Kernel::Avx2 => {
                avx2::threshold_listed(query, rows, ids, first, below, out);
            }
            _ => portable::threshold_listed(query, rows, ids, first, below, out),
        }
    }

    /// The same for all of `rows`, which lie row after row.
    pub(crate) fn threshold_rows(
        self,
        query: &[u64],
        rows: &[u64],
        below: u32,
        out: &mut Vec<u64>,
    ) {
        match (self, query) {
            #[cfg(target_arch = "x86_64")]
            (Kernel::Avx512, &[a, b]) => avx512::threshold_pairs([a, b], rows, below, out),
            #[cfg(target_arch = "x86_64")]
            (Kernel::Avx512, query) if matches!(query.len(), 4 | 8) => {
                avx512::threshold_wide(query, rows, below, out);
            }
            #[cfg(target_arch = "x86_64")]
            (Kernel::Avx2, query) => avx2_scan::threshold_rows(query, rows, below, out),
            _ => portable::threshold_rows(query, rows, below, out),
        }
    }

    /// Whether [`Kernel::threshold_rows`] is faster for one query than converting rows of this
    /// number of words to planes.
    pub(crate) fn reads_rows(self, width: usize) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 | Kernel::Avx2 => avx2_scan::reads_rows(width),
            _ => false,
        }
    }

    /// Whether it is faster for this number of queries to turn rows of `width` words into slices
    /// ([`Kernel::to_slices`]) than to count their bits row by row.
    pub(crate) fn slices_rows(self, queries: usize, width: usize) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => queries >= avx2_slices::FROM && avx2_slices::has_width(width),
            _ => false,
        }
    }

    /// Writes rows of `width` words into `out` as slices: every bit of [`GROUP`] rows together, for all
    /// complete groups. For kernels and widths of [`Kernel::slices_rows`].
    pub(crate) fn to_slices(self, rows: &[u64], width: usize, out: &mut Vec<u64>) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => avx2_slices::to_slices(rows, width, out),
            _ => out.clear(),
        }
    }

    /// As [`Kernel::threshold_rows`], by the slices of the rows.
    pub(crate) fn threshold_slices(
        self,
        query: &[u64],
        rows: &[u64],
        slices: &[u64],
        below: u32,
        out: &mut Vec<u64>,
    ) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => avx2_slices::threshold(query, rows, slices, below, out),
            _ => {
                debug_assert!(slices.is_empty(), "this kernel has no slices");
                self.threshold_rows(query, rows, below, out);
            }
        }
    }

    /// Keeps of the keys in `found` those whose code no earlier step has found, and turns their
    /// positions into items.
    pub(crate) fn first_met(
        self,
        query: &[u64],
        held: Held<'_>,
        step: Step<'_>,
        found: &mut Vec<u64>,
    ) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 | Kernel::Avx2 => avx2::first_met(query, held, step, found),
            _ => portable::first_met(query, held, step, found),
        }
    }

    /// Prefetches the beginnings of ranges that will be read soon.
    pub(crate) fn fetch(self, width: usize, planes: Planes<'_>, ranges: &[Range<u32>]) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 | Kernel::Avx2 => avx2::fetch(width, planes, ranges),
            _ => {}
        }
    }

    /// Writes rows of `width` words into `out` as planes, with the number of codes as stride.
    pub(crate) fn to_planes(self, rows: &[u64], width: usize, out: &mut Vec<u64>) {
        out.resize(rows.len(), 0);
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 if width == 2 => avx512::to_two_planes(rows, out),
            _ => portable::to_planes(rows, width, out),
        }
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
        fn every_kernel_matches_the_plain_count(
            width in 1_usize..=9,
            n in 0_usize..600,
            near in 0_u64..8,
            cuts in prop::collection::vec(0_usize..600, 0..8),
            below in 0_u32..700,
            seed in any::<u64>(),
        ) {
            let mut state = seed | 1;
            let mut word = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                state ^ state >> 31
            };
            let query: Vec<u64> = (0..width).map(|_| word()).collect();
            let mut rows: Vec<u64> = (0..n * width).map(|_| word()).collect();
            for (i, row) in rows.chunks_exact_mut(width).enumerate() {
                if word() % 8 < near {
                    row.copy_from_slice(&query);
                    row[i % width] ^= 1 << (i % 64);
                }
            }
            let distance = |i: usize| -> u32 {
                (0..width).map(|w| (rows[i * width + w] ^ query[w]).count_ones()).sum()
            };
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(n)).collect();
            cuts.sort_unstable();
            let ranges: Vec<Range<u32>> = cuts
                .windows(2)
                .map(|pair| u32::try_from(pair[0]).unwrap()..u32::try_from(pair[1]).unwrap())
                .collect();
            let found = |list: &[u32]| -> Vec<u64> {
                let near = list.iter().map(|&i| key(distance(i as usize), i));
                near.filter(|&key| unkey(key).0 < below).collect()
            };
            let inside: Vec<u32> = ranges.iter().cloned().flatten().collect();
            let all: Vec<u32> = (0..u32::try_from(n).unwrap()).collect();
            let ids: Vec<u32> = all.iter().rev().copied().collect();
            for kernel in Kernel::available() {
                let (mut words, mut out) = (Vec::new(), Vec::new());
                kernel.to_planes(&rows, width, &mut words);
                for (at, &word) in words.iter().enumerate() {
                    prop_assert_eq!(word, rows[at % n * width + at / n]);
                }
                let planes = Planes { words: &words, stride: n };
                kernel.threshold(&query, planes, &ranges, below, &mut out);
                prop_assert_eq!(&out, &found(&inside), "{:?}", kernel);
                out.clear();
                kernel.threshold_rows(&query, &rows, below, &mut out);
                prop_assert_eq!(&out, &found(&all), "{:?}", kernel);
                if kernel.slices_rows(usize::MAX, width) {
                    let mut slices = Vec::new();
                    out.clear();
                    kernel.to_slices(&rows, width, &mut slices);
                    prop_assert_eq!(slices.len(), n / GROUP * GROUP * width);
                    kernel.threshold_slices(&query, &rows, &slices, below, &mut out);
                    prop_assert_eq!(&out, &found(&all), "slices, {:?}", kernel);
                }
                // two substrings: the first 20 bits, which cross no word, and what follows
                let substrings = [(0, 20), (20, 64.min(u32::try_from(width).unwrap() * 64 - 20))];
                let items: Vec<u32> = all.iter().map(|i| i + 1000).collect();
                let step = Step { number: below % 9, substrings: &substrings, items: &items };
                let part = |i: usize, (start, bits): (u32, u32)| -> u32 {
                    let differs = |bit: u32| {
                        let (w, b) = (bit as usize / 64, bit % 64);
                        (rows[i * width + w] ^ query[w]) >> b & 1
                    };
                    (start..start + bits).map(|bit| u32::from(differs(bit) == 1)).sum()
                };
                let fresh = |&i: &u32| {
                    let j = (0_u32..).zip(substrings);
                    j.map(|(j, cut)| part(i as usize, cut) * 2 + j).min() >= Some(step.number)
                };
                let truth: Vec<u64> =
                    all.iter().filter(|i| fresh(i)).map(|&i| key(1, i + 1000)).collect();
                let mut met: Vec<u64> = all.iter().map(|&i| key(1, i)).collect();
                kernel.first_met(&query, Held::Planes(planes), step, &mut met);
                prop_assert_eq!(&met, &truth, "{:?}", kernel);
                out.clear();
                kernel.threshold_listed(&query, &rows, &ids, 7, below, &mut out);
                let listed: Vec<u64> = ids
                    .iter()
                    .enumerate()
                    .map(|(at, &id)| (distance(id as usize), at))
                    .filter(|&(distance, _)| distance < below)
                    .map(|(distance, at)| key(distance, u32::try_from(at + 7).unwrap()))
                    .collect();
                prop_assert_eq!(&out, &listed, "{:?}", kernel);
            }
        }
    }
}
