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
/// Low bits of a value: those of its place in a word of the bitmap.
const LOW: u32 = 6;
/// Words of a bitmap that have one rank.
pub(crate) const RANKED: usize = 4;
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

/// Bits of many codes.
#[derive(Clone, Copy)]
pub(crate) enum Lanes<'a> {
    /// 16 bits of each.
    Short(&'a [u16]),
    /// 32 bits of each.
    Long(&'a [u32]),
}

/// A set of numbers of `length` bits with their ranks.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    /// One bit per number.
    pub(crate) bits: &'a [u64],
    /// How many numbers are in all words before every [`RANKED`]-th.
    pub(crate) ranks: &'a [u32],
    /// Bits of a number.
    pub(crate) length: u32,
}

impl Values<'_> {
    /// The rank of a number, if it is in the set.
    #[inline(always)]
    pub(crate) fn rank(&self, value: u32) -> Option<u32> {
        let (at, bit) = ((value >> LOW) as usize, 1_u64 << (value % 64));
        let word = self.bits[at];
        (word & bit != 0).then(|| self.before(at) + (word & (bit - 1)).count_ones())
    }

    /// How many numbers are in all words before this.
    #[inline(always)]
    fn before(&self, at: usize) -> u32 {
        let first = at - at % RANKED;
        let words = self.bits[first..at].iter();
        self.ranks[at / RANKED] + words.map(|word| word.count_ones()).sum::<u32>()
    }
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

    /// The same for lanes in `ranges`; the positions are those in `lanes`, which have [`LANES`] more
    /// behind the last range.
    #[inline]
    pub(crate) fn lanes_in(
        self,
        query: u32,
        lanes: Lanes<'_>,
        ranges: &[Range<u32>],
        below: u32,
        out: &mut Vec<u64>,
    ) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 | Kernel::Avx2 => {
                avx2_lanes::lanes_in(query, lanes, ranges, below, out);
            }
            _ => lanes_in(query, lanes, ranges, below, out),
        }
    }

    /// Appends the rank of every value in the bitmap that differs from `own` in `ones` of its `length` bits.
    #[inline]
    pub(crate) fn occupied(
        self,
        values: Values<'_>,
        own: u32,
        ones: u32,
        out: &mut Vec<u32>,
    ) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 | Kernel::Avx2 => avx2::occupied(values, own, ones, out),
            _ => occupied(values, own, ones, out),
        }
    }

    /// Prefetches the cache line of `lanes[at]`.
    #[inline]
    pub(crate) fn fetch_lanes<T>(self, lanes: &[T], at: usize) {
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

#[inline(always)]
pub(super) fn lanes_in(
    query: u32,
    lanes: Lanes<'_>,
    ranges: &[Range<u32>],
    below: u32,
    out: &mut Vec<u64>,
) {
    for at in ranges.iter().cloned().flatten() {
        let lane = match lanes {
            Lanes::Short(lanes) => u32::from(lanes[at as usize]),
            Lanes::Long(lanes) => lanes[at as usize],
        };
        let ones = (lane ^ query).count_ones();
        if ones < below {
            out.push(key(ones, at));
        }
    }
}

/// A word of the bitmap answers for all combinations of the lowest bits at once.
#[inline(always)]
pub(super) fn occupied(values: Values<'_>, own: u32, ones: u32, out: &mut Vec<u32>) {
    let low = values.length.min(LOW);
    let high = values.length - low;
    let (word, place) = ((own >> LOW) as usize, own % 64);
    for above in ones.saturating_sub(low)..=ones.min(high) {
        let wanted = differing(place, ones - above);
        let mut flips = (1_u64 << above) - 1;
        for _ in 0..combinations(high, above) {
            #[expect(clippy::cast_possible_truncation, reason = "less than 2^26 words")]
            let at = word ^ flips as usize;
            let bits = values.bits[at];
            let mut rest = bits & wanted;
            if rest != 0 {
                let before = values.before(at);
                while rest != 0 {
                    let lower = (rest & rest.wrapping_neg()) - 1;
                    out.push(before + (bits & lower).count_ones());
                    rest &= rest - 1;
                }
            }
            flips = next(flips);
        }
    }
}

/// The set of all numbers below 64 that differ from `own` in so many bits.
#[inline(always)]
fn differing(own: u32, ones: u32) -> u64 {
    // the numbers with each count of ones; flipping a bit of all of them exchanges halves of the set
    const WITH: [u64; 7] = [
        0x0000_0000_0000_0001,
        0x0000_0001_0001_0116,
        0x0001_0116_0116_1668,
        0x0116_1668_1668_6880,
        0x1668_6880_6880_8000,
        0x6880_8000_8000_0000,
        0x8000_0000_0000_0000,
    ];
    const HALVES: [u64; 6] = [
        0x5555_5555_5555_5555,
        0x3333_3333_3333_3333,
        0x0f0f_0f0f_0f0f_0f0f,
        0x00ff_00ff_00ff_00ff,
        0x0000_ffff_0000_ffff,
        0x0000_0000_ffff_ffff,
    ];
    let flip = |set: u64, (bit, half): (u32, u64)| {
        if own >> bit & 1 == 0 {
            return set;
        }
        let by = 1 << bit;
        (set & half) << by | set >> by & half
    };
    (0..).zip(HALVES).fold(WITH[ones as usize], flip)
}

/// How many numbers of `length` bits have so many ones.
pub(crate) fn combinations(length: u32, ones: u32) -> usize {
    if ones > length {
        return 0;
    }
    let (length, ones) = (length as usize, ones as usize);
    (1..=ones).fold(1, |all, nth| all * (length - nth + 1) / nth)
}

/// The next larger number with as many ones. Warren, *Hacker's Delight*, 2-1.
#[inline(always)]
fn next(flips: u64) -> u64 {
    if flips == 0 {
        return 0;
    }
    let ripple = flips + (flips & flips.wrapping_neg());
    ripple | (flips ^ ripple) >> (2 + flips.trailing_zeros())
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
                let mut padded = (short[..n].to_vec(), long[..n].to_vec());
                padded.0.resize(n + LANES, 0x5a5a);
                padded.1.resize(n + LANES, 0x5a5a_3c3c);
                let forms =
                    [(0x5a5a, Lanes::Short(&padded.0)), (0x5a5a_3c3c, Lanes::Long(&padded.1))];
                for (query, lanes) in forms {
                    let lane = |i: u32| match lanes {
                        Lanes::Short(_) => u32::from(short[i as usize]),
                        Lanes::Long(_) => long[i as usize],
                    };
                    let near = |i: u32| {
                        let ones = (lane(i) ^ query).count_ones();
                        (ones < limit).then(|| key(ones, i))
                    };
                    let truth: Vec<u64> =
                        ranges.iter().cloned().flatten().filter_map(near).collect();
                    out.clear();
                    kernel.lanes_in(query, lanes, &ranges, limit, &mut out);
                    prop_assert_eq!(&out, &truth, "{:?}", kernel);
                }
                let mask = seed & query[0];
                prop_assert_eq!(kernel.extract(query[0], mask), extract(query[0], mask));
                prop_assert_eq!(extract(query[0], u64::MAX), query[0]);
            }
        }
    }
    #[test]
    fn values_are_enumerated_completely() {
        let mut state = 5_u64;
        for length in 1..=12_u32 {
            let mut word = || {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                (state ^ state >> 31) & (u64::MAX >> 64_u32.saturating_sub(1 << length))
            };
            let words = (1_usize << length).div_ceil(64);
            let sparse: Vec<u64> = (0..words).map(|_| word() & word()).collect();
            let full = vec![u64::MAX >> 64_u32.saturating_sub(1 << length); words];
            for bits in [sparse, full] {
                let mut all = 0;
                let ranks: Vec<u32> = bits
                    .chunks(RANKED)
                    .map(|words| {
                        let before = all;
                        all += words.iter().map(|word| word.count_ones()).sum::<u32>();
                        before
                    })
                    .collect();
                let values = Values { bits: &bits, ranks: &ranks, length };
                for (own, ones) in (0..1 << length)
                    .step_by(37)
                    .flat_map(|own| (0..=length).map(move |ones| (own, ones)))
                {
                    let wanted = |value: &u32| (value ^ own).count_ones() == ones;
                    let within = (0..1_u32 << length).filter(wanted);
                    let truth: Vec<u32> =
                        within.clone().filter_map(|value| values.rank(value)).collect();
                    assert_eq!(within.count(), combinations(length, ones));
                    for kernel in Kernel::available() {
                        let mut found = Vec::new();
                        kernel.occupied(values, own, ones, &mut found);
                        found.sort_unstable();
                        assert_eq!(found, truth, "{kernel:?} {length} {own} {ones}");
                    }
                }
            }
            assert_eq!(combinations(length, length + 1), 0);
        }
    }
}
