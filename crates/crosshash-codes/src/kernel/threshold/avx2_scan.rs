//! The scan with AVX2: ones of every byte by two table look-ups, added over the words of a code before
//! they are summed. Reference: `portable.rs`; test: `mod.rs`.
#![expect(unsafe_code, reason = "vector loads and stores; twin and test are named above")]

use std::arch::x86_64::*;
use std::ops::Range;

use super::{Planes, key, portable};
use crate::kernel::avx2::ones_of_bytes;

/// Codes of a vector, and vectors that are compared at once.
const LANES: usize = 4;
const VECTORS: usize = 4;
/// Words whose ones fit into a byte each, 8 per word.
const FIT: usize = 31;
/// Prefetch distance in a long range, in words.
const WORDS_AHEAD: usize = 512;

/// The caller has checked that all ranges lie inside all planes.
pub(super) fn threshold(
    query: &[u64],
    planes: Planes<'_>,
    ranges: &[Range<u32>],
    below: u32,
    out: &mut Vec<u64>,
) {
    // SAFETY: `Kernel::available` offers this kernel only where AVX2 and POPCNT exist;
    // `Kernel::threshold` has checked the ranges.
    unsafe {
        match *query {
            [a] => run::<1>(&[a], planes, ranges, below, out),
            [a, b] => run::<2>(&[a, b], planes, ranges, below, out),
            [a, b, c, d] => run::<4>(&[a, b, c, d], planes, ranges, below, out),
            _ if query.len() <= FIT => run::<0>(query, planes, ranges, below, out),
            _ => plain(query, planes, ranges, below, out),
        }
    }
}

/// The safe reference, compiled for AVX2.
#[target_feature(enable = "avx2,popcnt")]
fn plain(
    query: &[u64],
    planes: Planes<'_>,
    ranges: &[Range<u32>],
    below: u32,
    out: &mut Vec<u64>,
) {
    match *query {
        [a] => portable::threshold(&[a], planes, ranges, below, out),
        [a, b] => portable::threshold(&[a, b], planes, ranges, below, out),
        _ => portable::threshold(query, planes, ranges, below, out),
    }
}

/// `W` words a code, 0 for any number up to [`FIT`].
///
/// # Safety
/// Every range lies inside every plane.
#[target_feature(enable = "avx2,popcnt")]
#[expect(clippy::cast_possible_truncation, reason = "positions fit the range's type")]
unsafe fn run<const W: usize>(
    query: &[u64],
    planes: Planes<'_>,
    ranges: &[Range<u32>],
    below: u32,
    out: &mut Vec<u64>,
) {
    let width = if W == 0 { query.len() } else { W };
    let query = &query[..width]; // of constant length, so that the loop is unrolled
    let limit = _mm256_set1_epi64x(i64::from(below));
    let base = planes.words.as_ptr();
    for range in ranges {
        let (mut at, end) = (range.start as usize, range.end as usize);
        while at + VECTORS * LANES <= end {
            let mut near = [_mm256_setzero_si256(); VECTORS];
            for (v, near) in near.iter_mut().enumerate() {
                let mut bytes = _mm256_setzero_si256();
                for (w, &word) in query.iter().enumerate() {
                    let from = w * planes.stride + at + v * LANES;
                    // SAFETY: the range lies inside the plane.
                    let codes = unsafe { _mm256_loadu_si256(base.add(from).cast()) };
                    let same = _mm256_set1_epi64x(word.cast_signed());
                    bytes = _mm256_add_epi8(
                        bytes,
                        ones_of_bytes(_mm256_xor_si256(codes, same)),
                    );
                }
                let distances = _mm256_sad_epu8(bytes, _mm256_setzero_si256());
                *near = _mm256_cmpgt_epi64(limit, distances);
            }
            for w in 0..width {
                let soon = base.wrapping_add(w * planes.stride + at + WORDS_AHEAD);
                _mm_prefetch::<_MM_HINT_T0>(soon.cast());
                _mm_prefetch::<_MM_HINT_T0>(soon.wrapping_add(8).cast());
            }
            let any = _mm256_or_si256(
                _mm256_or_si256(near[0], near[1]),
                _mm256_or_si256(near[2], near[3]),
            );
            if _mm256_testz_si256(any, any) == 0 {
                for (v, &near) in near.iter().enumerate() {
                    let mut mask = _mm256_movemask_pd(_mm256_castsi256_pd(near));
                    while mask != 0 {
                        let code = at + v * LANES + mask.trailing_zeros() as usize;
                        out.push(key(distance(query, planes, code), code as u32));
                        mask &= mask - 1;
                    }
                }
            }
            at += VECTORS * LANES;
        }
        for code in at..end {
            let distance = distance(query, planes, code);
            if distance < below {
                out.push(key(distance, code as u32));
            }
        }
    }
}

#[target_feature(enable = "avx2,popcnt")]
#[inline]
fn distance(query: &[u64], planes: Planes<'_>, code: usize) -> u32 {
    let words = query.iter().enumerate();
    words
        .map(|(w, word)| (planes.words[w * planes.stride + code] ^ word).count_ones())
        .sum()
}

/// Rows of two words, or of a multiple of four up to [`FIT`], row after row.
pub(super) fn threshold_rows(query: &[u64], rows: &[u64], below: u32, out: &mut Vec<u64>) {
    // SAFETY: `Kernel::available` offers this kernel only where AVX2 and POPCNT exist.
    unsafe {
        match *query {
            [a, b] => by_row::<2>(&[a, b], rows, below, out),
            [a, b, c, d] => by_row::<4>(&[a, b, c, d], rows, below, out),
            [a, b, c, d, e, f, g, h] => {
                by_row::<8>(&[a, b, c, d, e, f, g, h], rows, below, out);
            }
            _ => portable::threshold_rows(query, rows, below, out),
        }
    }
}

/// Whether [`threshold_rows`] has vectors for rows of this number of words.
pub(super) fn reads_rows(width: usize) -> bool {
    matches!(width, 2 | 4 | 8)
}

/// Four rows of `W` words at a time: 2, 4 or 8.
#[target_feature(enable = "avx2,popcnt")]
#[expect(clippy::cast_possible_truncation, reason = "a block has some thousand rows")]
fn by_row<const W: usize>(query: &[u64; W], rows: &[u64], below: u32, out: &mut Vec<u64>) {
    let limit = _mm256_set1_epi64x(i64::from(below));
    let part = |words: &[u64]| {
        // SAFETY: 32 bytes are there; the load is unaligned.
        unsafe { _mm256_loadu_si256(words[..LANES].as_ptr().cast()) }
    };
    let twice: [u64; 8] = std::array::from_fn(|w| query[w % W]);
    let same = [part(&twice[..4]), part(&twice[4..])];
    let count =
        |words: &[u64], nth: usize| ones_of_bytes(_mm256_xor_si256(part(words), same[nth]));
    let sum = |bytes: __m256i| _mm256_sad_epu8(bytes, _mm256_setzero_si256());
    let (groups, rest) = rows.as_chunks::<W>().0.as_chunks::<4>();
    for (nth, group) in groups.iter().enumerate() {
        let words = group.as_flattened();
        _mm_prefetch::<_MM_HINT_T0>(words.as_ptr().wrapping_add(WORDS_AHEAD).cast());
        let distances = if W == 2 {
            let (low, high) = (sum(count(&words[..4], 0)), sum(count(&words[4..8], 0)));
            // r0 r2 r1 r3
            _mm256_add_epi64(
                _mm256_unpacklo_epi64(low, high),
                _mm256_unpackhi_epi64(low, high),
            )
        } else {
            let row = |r: usize| {
                let own = &words[r * W..];
                let bytes = count(own, 0);
                sum(if W == 8 {
                    _mm256_add_epi8(bytes, count(&own[4..], 1))
                } else {
                    bytes
                })
            };
            let pair = |a: __m256i, b: __m256i| {
                _mm256_add_epi64(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b))
            };
            // halves of r0 r2, and of r1 r3
            let (even, odd) = (pair(row(0), row(2)), pair(row(1), row(3)));
            _mm256_add_epi64(
                _mm256_permute2x128_si256(even, odd, 0x20),
                _mm256_permute2x128_si256(even, odd, 0x31),
            )
        };
        let near = _mm256_cmpgt_epi64(limit, distances);
        let mask = _mm256_movemask_pd(_mm256_castsi256_pd(near));
        if mask != 0 {
            // lanes hold rows 0, 2, 1, 3
            for (r, lane) in [0, 2, 1, 3].into_iter().enumerate() {
                if mask >> lane & 1 == 1 {
                    let words = group[r].iter().zip(query);
                    let distance = words.map(|(a, b)| (a ^ b).count_ones()).sum();
                    out.push(key(distance, (nth * 4 + r) as u32));
                }
            }
        }
    }
    let done = groups.len() * 4;
    for (r, row) in rest.iter().enumerate() {
        let distance = row.iter().zip(query).map(|(a, b)| (a ^ b).count_ones()).sum();
        if distance < below {
            out.push(key(distance, (done + r) as u32));
        }
    }
}
