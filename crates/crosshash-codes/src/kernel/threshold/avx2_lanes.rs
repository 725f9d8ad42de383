//! Lanes of 16 and 32 bits with AVX2, bits under a mask with BMI2. Reference: `nodes.rs`; test: there.
//! Ones are counted by two table look-ups per byte (Muła, Kurz, Lemire, *Faster Population
//! Counts Using AVX2 Instructions*, 2018) and added up within each lane.
#![expect(unsafe_code, reason = "vector loads; twin and test are named above")]

use std::arch::x86_64::*;
use std::ops::Range;

use super::key;
use super::nodes::{LANES, Lanes};
use crate::kernel::avx2::ones_of_bytes;

/// Lanes of 16 bits in a vector.
const SHORT: usize = 16;

#[inline]
pub(super) fn lanes16(query: u16, lanes: &[u16], below: u32, out: &mut Vec<u64>) {
    // SAFETY: the kernels that come here are offered only where AVX2 and POPCNT exist.
    unsafe { run16(query, lanes, below, out) }
}

#[target_feature(enable = "avx2,popcnt")]
#[expect(clippy::cast_possible_truncation, reason = "a leaf has less than 2^16 codes")]
fn run16(query: u16, lanes: &[u16], below: u32, out: &mut Vec<u64>) {
    let same = _mm256_set1_epi16(query.cast_signed());
    let limit = _mm256_set1_epi16(below.min(SHORT as u32 + 1) as i16);
    let (vectors, rest) = lanes.as_chunks::<SHORT>();
    let mut last = [0_u16; SHORT];
    last[..rest.len()].copy_from_slice(rest);
    let padded = [(&last, rest.len())];
    let whole = vectors.iter().map(|vector| (vector, SHORT));
    let mut start = 0;
    for (vector, len) in whole.chain(padded) {
        // SAFETY: 32 bytes are there; the load is unaligned.
        let codes = unsafe { _mm256_loadu_si256(vector.as_ptr().cast()) };
        let bytes = ones_of_bytes(_mm256_xor_si256(codes, same));
        let ones = _mm256_maddubs_epi16(bytes, _mm256_set1_epi8(1));
        let near = _mm256_cmpgt_epi16(limit, ones);
        // two bits per lane
        let mut mask = _mm256_movemask_epi8(near).cast_unsigned() & 0x5555_5555;
        mask &= (1_u64 << (2 * len)).wrapping_sub(1) as u32;
        while mask != 0 {
            let nth = mask.trailing_zeros() / 2;
            let ones = (vector[nth as usize] ^ query).count_ones();
            out.push(key(ones, start + nth));
            mask &= mask - 1;
        }
        start += SHORT as u32;
    }
}

#[inline]
pub(super) fn lanes_in(
    query: u32,
    lanes: Lanes<'_>,
    ranges: &[Range<u32>],
    below: u32,
    out: &mut Vec<u64>,
) {
    // SAFETY: the kernels that come here are offered only where AVX2 and POPCNT exist.
    unsafe { run_in(query, lanes, ranges, below, out) }
}

#[target_feature(enable = "avx2,popcnt")]
fn run_in(
    query: u32,
    lanes: Lanes<'_>,
    ranges: &[Range<u32>],
    below: u32,
    out: &mut Vec<u64>,
) {
    match lanes {
        Lanes::Short(lanes) => eights(query, ranges, below, out, |at| {
            let vector = &lanes[at..][..LANES];
            // SAFETY: 16 bytes are there; the load is unaligned.
            _mm256_cvtepu16_epi32(unsafe { _mm_loadu_si128(vector.as_ptr().cast()) })
        }),
        Lanes::Long(lanes) => eights(query, ranges, below, out, |at| {
            let vector = &lanes[at..][..LANES];
            // SAFETY: 32 bytes are there; the load is unaligned.
            unsafe { _mm256_loadu_si256(vector.as_ptr().cast()) }
        }),
    }
}

/// Eight lanes at a time; `load` widens them to 32 bits.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
#[expect(clippy::cast_possible_truncation, reason = "eight lanes")]
fn eights(
    query: u32,
    ranges: &[Range<u32>],
    below: u32,
    out: &mut Vec<u64>,
    load: impl Fn(usize) -> __m256i,
) {
    let same = _mm256_set1_epi32(query.cast_signed());
    let limit = _mm256_set1_epi32(below.min(33).cast_signed());
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            let bytes = ones_of_bytes(_mm256_xor_si256(load(start as usize), same));
            let pairs = _mm256_maddubs_epi16(bytes, _mm256_set1_epi8(1));
            let ones = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
            let near = _mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, ones));
            let mut mask = _mm256_movemask_ps(near).cast_unsigned();
            let left = range.end - start;
            if left < LANES as u32 {
                mask &= (1 << left) - 1;
            }
            if mask != 0 {
                let mut counts = [0_u32; LANES];
                // SAFETY: 32 bytes are there; the store is unaligned.
                unsafe { _mm256_storeu_si256(counts.as_mut_ptr().cast(), ones) };
                while mask != 0 {
                    let nth = mask.trailing_zeros();
                    out.push(key(counts[nth as usize % LANES], start + nth));
                    mask &= mask - 1;
                }
            }
            start += LANES as u32;
        }
    }
}

/// The bits of `word` under `mask`, moved together.
#[inline]
pub(super) fn extract(word: u64, mask: u64) -> u64 {
    #[target_feature(enable = "bmi2")]
    fn pext(word: u64, mask: u64) -> u64 {
        _pext_u64(word, mask)
    }
    // SAFETY: the kernels that come here are offered only where BMI2 exists.
    unsafe { pext(word, mask) }
}
