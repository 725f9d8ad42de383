//! Which of many codes are nearer to one code than a bound: the inner loop of search.
//!
//! Codes come as planes: word `w` of code `i` is `words[w * stride + i]`, so that a vector
//! holds the same word of many codes. Nearly all codes are beyond the bound, and the kernels
//! are made for that: distances are reduced to their minimum, one comparison rejects tens
//! of codes, and only what remains is looked at. `portable.rs` defines the truth; `avx2.rs` is
//! the same lines compiled for AVX2 (byte-wise population counts by table look-up, as the
//! compiler vectorises them), as the portable lines are for NEON on 64-bit ARM, where it is
//! always there; `avx512.rs` is written by hand.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use std::ops::Range;

use super::Kernel;

/// Codes by word instead of by row.
#[derive(Clone, Copy)]
pub(crate) struct Planes<'a> {
    /// Word `w` of code `i` is `words[w * stride + i]`.
    pub(crate) words: &'a [u64],
    /// The distance between two planes, at least the number of codes.
    pub(crate) stride: usize,
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
    pub(crate) fn nearer(
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
        assert!((query.len() - 1) * planes.stride + end <= planes.words.len(), "all planes");
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => avx512::nearer(query, planes, ranges, below, out),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => avx2::nearer(query, planes, ranges, below, out),
            _ => portable::nearer(query, planes, ranges, below, out),
        }
    }

    /// The same for codes that lie apart: row `ids[i]` of `rows`, which are as wide as the
    /// query; the position in the key is `i + first`.
    pub(crate) fn nearer_listed(
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
                avx2::nearer_listed(query, rows, ids, first, below, out);
            }
            _ => portable::nearer_listed(query, rows, ids, first, below, out),
        }
    }

    /// Writes rows of `width` words into `out` as planes, as many codes apart as there are.
    pub(crate) fn to_planes(self, rows: &[u64], width: usize, out: &mut Vec<u64>) {
        out.clear();
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

    proptest! {
        #[test]
        fn every_kernel_finds_what_the_plain_count_finds(
            width in 1_usize..=9,
            n in 0_usize..300,
            near in 0_u64..8,
            cuts in prop::collection::vec(0_usize..300, 0..8),
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
                kernel.nearer(&query, planes, &ranges, below, &mut out);
                prop_assert_eq!(&out, &found(&inside), "{:?}", kernel);
                out.clear();
                kernel.nearer_listed(&query, &rows, &ids, 7, below, &mut out);
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
