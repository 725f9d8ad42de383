//! Kernels of the bit tree: lower bounds of nodes, distances of short lanes, bits under a mask.
//!
//! A node bounds the distance of a query from all codes below it, by the bits in which these
//! agree and by the ball around its centre; `index/tree` explains both. A lane holds the bits of a
//! code in which the codes of its leaf differ, in 16 or 32 bits, so that a vector holds
//! 32 or 16 codes. The plain loops here are the reference, and compiled for AVX2 they are the
//! kernel of machines without AVX-512 (`avx2.rs`); `avx512_nodes.rs` is written by hand.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use super::{avx2, avx2_lanes, avx512_nodes};
use crate::kernel::Kernel;
use crate::kernel::threshold::key;

/// Ranges of nodes that are prefetched ahead.
pub(super) const AHEAD: usize = 3;
/// Lanes of 32 bits that are compared at once; so many unused ones are behind the last.
pub(crate) const LANES: usize = 8;
/// Unused radii behind the last node, so that vectors of them can be loaded.
pub(crate) const PADDING: usize = 8;

/// The nodes of a tree by word: word `w` of node `i` is at `w * stride + i`.
#[derive(Clone, Copy)]
pub(crate) struct Nodes<'a> {
    /// The centre of the codes below each node.
    pub(crate) centres: &'a [u64],
    /// Ones where all of these codes are equal to the centre.
    pub(crate) fixed: &'a [u64],
    /// The distance of the farthest of these codes from the centre; [`PADDING`] more at the end.
    pub(crate) radii: &'a [u16],
    /// The distance between two planes, at least the number of nodes.
    pub(crate) stride: usize,
}

impl Nodes<'_> {
    /// The number of differing bits among those in which all codes below a node agree.
    #[inline(always)]
    pub(crate) fn agreed(&self, query: &[u64], node: usize) -> u32 {
        let word = |w: usize| {
            let at = w * self.stride + node;
            ((self.centres[at] ^ query[w]) & self.fixed[at]).count_ones()
        };
        (0..query.len()).map(word).sum()
    }
}

impl Kernel {
    /// Appends the [`key`] of every node in `ranges` whose lower bound is less than `below`.
    #[inline]
    pub(crate) fn bounds(
        self,
        query: &[u64],
        nodes: Nodes<'_>,
        ranges: &[Range<u32>],
        below: u32,
        out: &mut Vec<u64>,
    ) {
        let end = ranges.iter().map(|range| range.end as usize).max().unwrap_or(0);
        assert!(!query.is_empty(), "a code has at least one word");
        assert!(end <= nodes.stride && end + PADDING <= nodes.radii.len(), "inside");
        let words = (query.len() - 1) * nodes.stride + end;
        assert!(words <= nodes.centres.len() && words <= nodes.fixed.len(), "all planes");
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => avx512_nodes::bounds(query, nodes, ranges, below, out),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => avx2::bounds(query, nodes, ranges, below, out),
            _ => bounds(query, nodes, ranges, below, out),
        }
    }

    /// Appends the [`key`] of every lane that differs from `query` in fewer than `below` bits.
    #[inline]
    pub(crate) fn lanes16(self, query: u16, lanes: &[u16], below: u32, out: &mut Vec<u64>) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => avx512_nodes::lanes16(query, lanes, below, out),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => avx2_lanes::lanes16(query, lanes, below, out),
            _ => lanes16(query, lanes, below, out),
        }
    }

    /// The same for lanes of 32 bits.
    #[inline]
    pub(crate) fn lanes32(self, query: u32, lanes: &[u32], below: u32, out: &mut Vec<u64>) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => avx512_nodes::lanes32(query, lanes, below, out),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => avx2::lanes32(query, lanes, below, out),
            _ => lanes32(query, lanes, below, out),
        }
    }

    /// The same for lanes in `ranges`; the positions are those in `lanes`, which has [`LANES`] more
    /// behind the last range.
    #[inline]
    pub(crate) fn lanes32_in(
        self,
        query: u32,
        lanes: &[u32],
        ranges: &[Range<u32>],
        below: u32,
        out: &mut Vec<u64>,
    ) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => avx2_lanes::lanes32_in(query, lanes, ranges, below, out),
            _ => {
                for range in ranges {
                    let (start, own) = (u64::from(range.start), out.len());
                    let inside = &lanes[range.start as usize..range.end as usize];
                    self.lanes32(query, inside, below, out);
                    out[own..].iter_mut().for_each(|key| *key += start);
                }
            }
        }
    }

    /// Prefetches the cache line of `lanes[at]`.
    #[inline]
    pub(crate) fn fetch_lanes(self, lanes: &[u32], at: usize) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 | Kernel::Avx2 => avx2::fetch_lanes(lanes, at),
            _ => {}
        }
    }

    /// The bits of `word` under `mask`, moved together.
    #[inline]
    pub(crate) fn extract(self, word: u64, mask: u64) -> u64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 | Kernel::Avx2 => avx2_lanes::extract(word, mask),
            _ => extract(word, mask),
        }
    }

    /// Prefetches the cache line of `words[at]` and the next one.
    #[inline]
    pub(crate) fn fetch_words(self, words: &[u64], at: usize) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 | Kernel::Avx2 => avx2::fetch_words(words, at),
            _ => {}
        }
    }
}

#[inline(always)]
pub(super) fn bounds(
    query: &[u64],
    nodes: Nodes<'_>,
    ranges: &[Range<u32>],
    below: u32,
    out: &mut Vec<u64>,
) {
    let mut end = out.len();
    let most = end + ranges.iter().map(ExactSizeIterator::len).sum::<usize>();
    out.resize(most, 0);
    for node in ranges.iter().cloned().flatten() {
        let at = node as usize;
        let (mut agreed, mut distance) = (0, 0);
        for (w, &word) in query.iter().enumerate() {
            let differs = nodes.centres[w * nodes.stride + at] ^ word;
            agreed += (differs & nodes.fixed[w * nodes.stride + at]).count_ones();
            distance += differs.count_ones();
        }
        let bound = agreed.max(distance.saturating_sub(u32::from(nodes.radii[at])));
        // without a branch: whether a node is near cannot be predicted
        out[end] = key(bound, node);
        end += usize::from(bound < below);
    }
    out.truncate(end);
}

#[inline(always)]
pub(super) fn lanes16(query: u16, lanes: &[u16], below: u32, out: &mut Vec<u64>) {
    for (at, lane) in (0_u32..).zip(lanes) {
        let ones = (lane ^ query).count_ones();
        if ones < below {
            out.push(key(ones, at));
        }
    }
}

#[inline(always)]
pub(super) fn lanes32(query: u32, lanes: &[u32], below: u32, out: &mut Vec<u64>) {
    for (at, lane) in (0_u32..).zip(lanes) {
        let ones = (lane ^ query).count_ones();
        if ones < below {
            out.push(key(ones, at));
        }
    }
}

/// Bit by bit of the mask.
pub(super) fn extract(word: u64, mask: u64) -> u64 {
    let (mut rest, mut bits, mut at) = (mask, 0, 0);
    while rest != 0 {
        bits |= (word >> rest.trailing_zeros() & 1) << at;
        rest &= rest - 1;
        at += 1;
    }
    bits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proptests::fixed;

    proptest! {
        #![proptest_config(fixed(256))]

        #[test]
        fn every_kernel_matches_the_plain_loop(
            width in 1_usize..=5,
            n in 0_usize..100,
            cut in 0_usize..100,
            below in 0_u32..200,
            seed in any::<u64>(),
        ) {
            let mut state = seed | 1;
            let mut word = || {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                state ^ state >> 31
            };
            let query: Vec<u64> = (0..width).map(|_| word()).collect();
            let centres: Vec<u64> = (0..width * n).map(|_| word()).collect();
            let fixed: Vec<u64> = (0..width * n).map(|_| word() & word()).collect();
            let radii: Vec<u16> =
                (0..n + PADDING).map(|_| u16::try_from(word() >> 40 & 63).unwrap()).collect();
            let nodes = Nodes { centres: &centres, fixed: &fixed, radii: &radii, stride: n };
            let (cut, end) = (u32::try_from(cut.min(n)).unwrap(), u32::try_from(n).unwrap());
            let ranges = [cut..end, 0..cut, cut / 2..cut];
            let short: Vec<u16> = centres.iter().map(|&c| u16::try_from(c >> 48).unwrap()).collect();
            let long: Vec<u32> = centres.iter().map(|&c| u32::try_from(c >> 32).unwrap()).collect();
            let limit = below % 20;
            for kernel in Kernel::available() {
                let (mut truth, mut out) = (Vec::new(), Vec::new());
                bounds(&query, nodes, &ranges, below, &mut truth);
                kernel.bounds(&query, nodes, &ranges, below, &mut out);
                prop_assert_eq!(&out, &truth, "{:?}", kernel);
                truth.clear();
                out.clear();
                lanes16(0x5a5a, &short, limit, &mut truth);
                kernel.lanes16(0x5a5a, &short, limit, &mut out);
                prop_assert_eq!(&out, &truth, "{:?}", kernel);
                truth.clear();
                out.clear();
                lanes32(0x5a5a_3c3c, &long, limit, &mut truth);
                kernel.lanes32(0x5a5a_3c3c, &long, limit, &mut out);
                prop_assert_eq!(&out, &truth, "{:?}", kernel);
                let mut padded = long.clone();
                padded.resize(long.len() + LANES, 0x5a5a_3c3c);
                out.clear();
                truth.clear();
                for range in &ranges {
                    let before = truth.len();
                    let inside = &long[range.start as usize..range.end as usize];
                    lanes32(0x5a5a_3c3c, inside, limit, &mut truth);
                    truth[before..].iter_mut().for_each(|key| *key += u64::from(range.start));
                }
                kernel.lanes32_in(0x5a5a_3c3c, &padded, &ranges, limit, &mut out);
                prop_assert_eq!(&out, &truth, "{:?}", kernel);
                let mask = seed & query[0];
                prop_assert_eq!(kernel.extract(query[0], mask), extract(query[0], mask));
                prop_assert_eq!(extract(query[0], u64::MAX), query[0]);
            }
        }
    }
}
