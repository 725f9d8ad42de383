//! AVX2 and POPCNT: comparisons of planes by hand, the rest is the safe reference compiled for them, with
//! prefetch. Reference: `portable.rs`; test: `mod.rs`.
#![expect(
    unsafe_code,
    reason = "intrinsics, and calls of functions compiled for a checked CPU"
)]

use std::arch::x86_64::{
    _MM_HINT_T0, _mm_prefetch, _mm256_add_epi8, _mm256_add_epi64, _mm256_and_si256,
    _mm256_castsi256_pd, _mm256_cmpgt_epi64, _mm256_loadu_si256, _mm256_min_epu16,
    _mm256_movemask_pd, _mm256_sad_epu8, _mm256_set1_epi8, _mm256_set1_epi64x,
    _mm256_setr_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi16,
    _mm256_storeu_si256, _mm256_testz_si256, _mm256_xor_si256,
};
use std::ops::Range;

use super::nodes::{self, Nodes};
use super::{Held, Planes, Step, key, portable};

pub(super) fn threshold(
    query: &[u64],
    planes: Planes<'_>,
    ranges: &[Range<u32>],
    below: u32,
    out: &mut Vec<u64>,
) {
    // SAFETY: `Kernel::available` offers this kernel only where AVX2 and POPCNT exist.
    unsafe { compiled(query, planes, ranges, below, out) }
}

#[target_feature(enable = "avx2,popcnt")]
fn compiled(
    query: &[u64],
    planes: Planes<'_>,
    ranges: &[Range<u32>],
    below: u32,
    out: &mut Vec<u64>,
) {
    match *query {
        // the common widths, unrolled
        [a] => compare([a], planes, ranges, below, out),
        [a, b] => compare([a, b], planes, ranges, below, out),
        _ => compare(query, planes, ranges, below, out),
    }
}

/// Codes of a vector.
const LANES: usize = 4;
/// Vectors that share a comparison.
const VECTORS: usize = 8;

/// Bits of bytes are counted by their halves (`pshufb`) and added per code (`psadbw`): Mula, Kurz,
/// Lemire, *Faster Population Counts Using AVX2 Instructions*, 2018. The least of 32 distances is
/// compared with the bound. What remains of a range is counted code by code.
#[target_feature(enable = "avx2,popcnt")]
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "positions fit the range's type")]
fn compare<Q: AsRef<[u64]>>(
    query: Q,
    planes: Planes<'_>,
    ranges: &[Range<u32>],
    below: u32,
    out: &mut Vec<u64>,
) {
    const CHUNK: usize = LANES * VECTORS;
    let query = query.as_ref();
    let halves = _mm256_setr_epi8(
        0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3,
        2, 3, 3, 4,
    );
    let (half, zero) = (_mm256_set1_epi8(15), _mm256_setzero_si256());
    let bound = _mm256_set1_epi64x(i64::from(below));
    for range in ranges {
        let (start, end) = (range.start as usize, range.end as usize);
        let whole = start + (end - start) / CHUNK * CHUNK;
        for at in (start..whole).step_by(CHUNK) {
            let mut sums = [zero; VECTORS];
            for (w, &word) in query.iter().enumerate() {
                let codes = &planes.words[w * planes.stride + at..][..CHUNK];
                let word = _mm256_set1_epi64x(word.cast_signed());
                for (sum, codes) in sums.iter_mut().zip(codes.as_chunks::<LANES>().0) {
                    // SAFETY: reads the four words of the array, at any alignment.
                    let codes = unsafe { _mm256_loadu_si256(codes.as_ptr().cast()) };
                    let differs = _mm256_xor_si256(codes, word);
                    let low = _mm256_and_si256(differs, half);
                    let high = _mm256_and_si256(_mm256_srli_epi16::<4>(differs), half);
                    let ones = _mm256_add_epi8(
                        _mm256_shuffle_epi8(halves, low),
                        _mm256_shuffle_epi8(halves, high),
                    );
                    *sum = _mm256_add_epi64(*sum, _mm256_sad_epu8(ones, zero));
                }
            }
            // distances are less than 2^16, and the rest of their lanes is 0
            let least = sums
                .iter()
                .skip(1)
                .fold(sums[0], |least, &sum| _mm256_min_epu16(least, sum));
            let near = _mm256_cmpgt_epi64(bound, least);
            if _mm256_testz_si256(near, near) == 1 {
                continue;
            }
            for (nth, &sum) in sums.iter().enumerate() {
                let near = _mm256_castsi256_pd(_mm256_cmpgt_epi64(bound, sum));
                let mut mask = _mm256_movemask_pd(near);
                let mut distances = [0_u64; LANES];
                // SAFETY: writes the four words of the array, at any alignment.
                unsafe { _mm256_storeu_si256(distances.as_mut_ptr().cast(), sum) };
                while mask != 0 {
                    let lane = mask.trailing_zeros() as usize;
                    mask &= mask - 1;
                    let position = at + nth * LANES + lane;
                    out.push(key(distances[lane] as u32, position as u32));
                }
            }
        }
        for at in whole..end {
            let word = |w: usize| planes.words[w * planes.stride + at] ^ query[w];
            let distance = (0..query.len()).map(|w| word(w).count_ones()).sum();
            if distance < below {
                out.push(key(distance, at as u32));
            }
        }
    }
}

pub(super) fn threshold_listed(
    query: &[u64],
    rows: &[u64],
    ids: &[u32],
    first: u32,
    below: u32,
    out: &mut Vec<u64>,
) {
    // SAFETY: the kernels that come here are offered only where AVX2 and POPCNT exist.
    unsafe { listed(query, rows, ids, first, below, out) }
}

#[target_feature(enable = "avx2,popcnt")]
fn listed(
    query: &[u64],
    rows: &[u64],
    ids: &[u32],
    first: u32,
    below: u32,
    out: &mut Vec<u64>,
) {
    match *query {
        [a] => portable::threshold_listed(&[a], rows, ids, first, below, out),
        [a, b] => portable::threshold_listed(&[a, b], rows, ids, first, below, out),
        _ => portable::threshold_listed(query, rows, ids, first, below, out),
    }
}

pub(super) fn first_met(
    query: &[u64],
    held: Held<'_>,
    step: Step<'_>,
    found: &mut Vec<u64>,
) {
    // SAFETY: the kernels that come here are offered only where AVX2 and POPCNT exist.
    unsafe { met(query, held, step, found) }
}

#[target_feature(enable = "avx2,popcnt")]
fn met(query: &[u64], held: Held<'_>, step: Step<'_>, found: &mut Vec<u64>) {
    match *query {
        [a] => portable::first_met(&[a], held, step, found),
        _ => portable::first_met(query, held, step, found),
    }
}

pub(super) fn fetch(width: usize, planes: Planes<'_>, ranges: &[Range<u32>]) {
    for range in ranges {
        for w in 0..width {
            let at = w * planes.stride + range.start as usize;
            let line = planes.words.as_ptr().wrapping_add(at);
            // SAFETY: a prefetch of any address is harmless, and every x86-64 has it.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(line.cast());
                _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(8).cast());
            }
        }
    }
}

pub(super) fn fetch_words(words: &[u64], at: usize) {
    let line = words.as_ptr().wrapping_add(at);
    // SAFETY: a prefetch of any address is harmless, and every x86-64 has it.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
        _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(8).cast());
    }
}

pub(super) fn bounds(
    query: &[u64],
    nodes: Nodes<'_>,
    ranges: &[Range<u32>],
    below: u32,
    out: &mut Vec<u64>,
) {
    // SAFETY: `Kernel::available` offers this kernel only where AVX2 and POPCNT exist.
    unsafe { compiled_bounds(query, nodes, ranges, below, out) }
}

#[target_feature(enable = "avx2,popcnt")]
fn compiled_bounds(
    query: &[u64],
    nodes: Nodes<'_>,
    ranges: &[Range<u32>],
    below: u32,
    out: &mut Vec<u64>,
) {
    match *query {
        [a] => nodes::bounds(&[a], nodes, ranges, below, out),
        [a, b] => nodes::bounds(&[a, b], nodes, ranges, below, out),
        _ => nodes::bounds(query, nodes, ranges, below, out),
    }
}

pub(super) fn lanes16(query: u16, lanes: &[u16], below: u32, out: &mut Vec<u64>) {
    // SAFETY: the kernels that come here are offered only where AVX2 and POPCNT exist.
    unsafe { compiled_lanes16(query, lanes, below, out) }
}

#[target_feature(enable = "avx2,popcnt")]
fn compiled_lanes16(query: u16, lanes: &[u16], below: u32, out: &mut Vec<u64>) {
    nodes::lanes16(query, lanes, below, out);
}

pub(super) fn lanes32(query: u32, lanes: &[u32], below: u32, out: &mut Vec<u64>) {
    // SAFETY: the kernels that come here are offered only where AVX2 and POPCNT exist.
    unsafe { compiled_lanes32(query, lanes, below, out) }
}

#[target_feature(enable = "avx2,popcnt")]
fn compiled_lanes32(query: u32, lanes: &[u32], below: u32, out: &mut Vec<u64>) {
    nodes::lanes32(query, lanes, below, out);
}
