//! The scan for many queries with AVX2: distances of 256 codes at once by bit-slice arithmetic.
//!
//! Bit `b` of 256 codes is one vector, a slice. Counting the bits that differ from a query is then a sum of
//! slices, each inverted where the query has a one. Full adders (carry-save adders) sum them as in Harley and
//! Seal's population count: 16 slices at a time into digits of 1, 2, 4 and 8, whose carries of 16 are added to
//! higher digits. The bound is compared with all 256 sums digit by digit. This takes about six logical
//! operations per slice; table look-ups for the same codes take almost twice as many instructions. On an AMD EPYC
//! (Zen 3) a query over a block takes two thirds of the time.
//!
//! Codes are transposed block by block, which pays from [`FROM`] queries on. Reference: the distances of
//! the rows; test: `mod.rs`.
#![expect(unsafe_code, reason = "vector loads and stores; the test is named above")]

use std::arch::x86_64::*;

use super::{GROUP, key};

/// Number of queries from which slices pay: transposing a block takes as long as about fifteen queries save.
pub(super) const FROM: usize = 24;
/// Slices that are added before a carry of 16 results.
const ROUND: usize = 16;
/// Words of a slice of a group.
const LANES: usize = GROUP / 64;

/// Whether there are slices for codes of this number of words.
pub(super) fn has_width(width: usize) -> bool {
    matches!(width, 1..=4 | 8)
}

/// Appends the slices of all complete groups of `rows`: bit `b` of the codes of a group is at `b * LANES`,
/// code `i` at bit `i / LANES` of word `i % LANES`.
pub(super) fn to_slices(rows: &[u64], width: usize, out: &mut Vec<u64>) {
    let groups = rows.chunks_exact(GROUP * width);
    out.resize(groups.len() * GROUP * width, 0);
    let parts = out.as_chunks_mut::<GROUP>().0.chunks_exact_mut(width);
    for (group, slices) in groups.zip(parts) {
        for (w, slices) in slices.iter_mut().enumerate() {
            // SAFETY: `Kernel::available` offers this kernel only where AVX2 exists.
            unsafe { transpose(group, width, w, slices) };
        }
    }
}

/// Transposes word `w` of a group: four matrices of 64 x 64 bits, one in each lane.
#[target_feature(enable = "avx2")]
fn transpose(group: &[u64], width: usize, w: usize, slices: &mut [u64; GROUP]) {
    let mut m = [_mm256_setzero_si256(); 64];
    if width == 1 {
        for (row, codes) in m.iter_mut().zip(group.as_chunks::<LANES>().0) {
            // SAFETY: 32 bytes are there; the load is unaligned.
            *row = unsafe { _mm256_loadu_si256(codes.as_ptr().cast()) };
        }
    } else {
        for (row, codes) in m.iter_mut().zip(group.chunks_exact(LANES * width)) {
            let words = [0, 1, 2, 3].map(|lane| codes[lane * width + w].cast_signed());
            *row = _mm256_set_epi64x(words[3], words[2], words[1], words[0]);
        }
    }
    two_stages::<32, 16>(&mut m, 0x0000_0000_FFFF_FFFF, 0x0000_FFFF_0000_FFFF);
    two_stages::<8, 4>(&mut m, 0x00FF_00FF_00FF_00FF, 0x0F0F_0F0F_0F0F_0F0F);
    two_stages::<2, 1>(&mut m, 0x3333_3333_3333_3333, 0x5555_5555_5555_5555);
    for (words, &slice) in slices.as_chunks_mut::<LANES>().0.iter_mut().zip(&m) {
        // SAFETY: 32 bytes are there; the store is unaligned.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), slice) };
    }
}

/// Exchanges the upper right and the lower left quarters of all blocks of `2 * S` rows and columns, then
/// those of all blocks of `2 * T`, half as large.
#[target_feature(enable = "avx2")]
#[inline]
fn two_stages<const S: i32, const T: i32>(m: &mut [__m256i; 64], low_s: i64, low_t: i64) {
    let (low_s, low_t) = (_mm256_set1_epi64x(low_s), _mm256_set1_epi64x(low_t));
    let (s, t) = (S.unsigned_abs() as usize, T.unsigned_abs() as usize);
    let mut block = 0;
    while block < 64 {
        for at in block..block + t {
            let (mut a, mut b, mut c, mut d) = (m[at], m[at + t], m[at + s], m[at + s + t]);
            exchange::<S>(&mut a, &mut c, low_s);
            exchange::<S>(&mut b, &mut d, low_s);
            exchange::<T>(&mut a, &mut b, low_t);
            exchange::<T>(&mut c, &mut d, low_t);
            (m[at], m[at + t], m[at + s], m[at + s + t]) = (a, b, c, d);
        }
        block += 2 * s;
    }
}

/// Exchanges the upper bits of `a` with the lower bits of `b`.
#[target_feature(enable = "avx2")]
#[inline]
fn exchange<const S: i32>(a: &mut __m256i, b: &mut __m256i, low: __m256i) {
    let differ = _mm256_and_si256(_mm256_xor_si256(_mm256_srli_epi64::<S>(*a), *b), low);
    *b = _mm256_xor_si256(*b, differ);
    *a = _mm256_xor_si256(*a, _mm256_slli_epi64::<S>(differ));
}

/// Appends the keys of the rows below the bound; `slices` are those of the complete groups of `rows`.
pub(super) fn threshold(
    query: &[u64],
    rows: &[u64],
    slices: &[u64],
    below: u32,
    out: &mut Vec<u64>,
) {
    // SAFETY: `Kernel::available` offers this kernel only where AVX2 and POPCNT exist.
    unsafe {
        match *query {
            [a] => run::<1, 3>(&[a], rows, slices, below, out),
            [a, b] => run::<2, 4>(&[a, b], rows, slices, below, out),
            [a, b, c] => run::<3, 4>(&[a, b, c], rows, slices, below, out),
            [a, b, c, d] => run::<4, 5>(&[a, b, c, d], rows, slices, below, out),
            [a, b, c, d, e, f, g, h] => {
                run::<8, 6>(&[a, b, c, d, e, f, g, h], rows, slices, below, out);
            }
            _ => unreachable!("`has_width` is checked by the caller"),
        }
    }
}

/// `W` words a code; `HIGH` binary digits for multiples of 16 up to `64 * W`.
#[target_feature(enable = "avx2,popcnt")]
#[expect(clippy::cast_possible_truncation, reason = "a block has some thousand rows")]
fn run<const W: usize, const HIGH: usize>(
    query: &[u64; W],
    rows: &[u64],
    slices: &[u64],
    below: u32,
    out: &mut Vec<u64>,
) {
    let below = below.min(64 * W as u32 + 1);
    let (rows, _) = rows.as_chunks::<W>();
    let distance = |row: &[u64; W]| {
        row.iter().zip(query).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>()
    };
    // All ones where the query has a one.
    let mut masks = [[_mm256_setzero_si256(); 64]; W];
    for (masks, &word) in masks.iter_mut().zip(query) {
        for (b, mask) in masks.iter_mut().enumerate() {
            *mask = _mm256_set1_epi64x(0_i64.wrapping_sub((word >> b & 1).cast_signed()));
        }
    }
    let groups = slices.chunks_exact(GROUP * W);
    let done = groups.len() * GROUP;
    for (nth, group) in groups.enumerate() {
        let mut low = [_mm256_setzero_si256(); 4];
        let mut high = [_mm256_setzero_si256(); HIGH];
        for (slices, masks) in group.chunks_exact(64 * LANES).zip(&masks) {
            let rounds = slices.as_chunks::<{ ROUND * LANES }>().0;
            for (slices, masks) in rounds.iter().zip(masks.as_chunks::<ROUND>().0) {
                let mut carry = add_round(slices, masks, &mut low);
                for digit in &mut high {
                    let sum = _mm256_xor_si256(*digit, carry);
                    carry = _mm256_and_si256(*digit, carry);
                    *digit = sum;
                }
            }
        }
        // Compared from the lowest digit up: a digit decides where it differs from that of the bound.
        let mut reached = _mm256_set1_epi64x(-1);
        for (place, &digit) in low.iter().chain(&high).enumerate() {
            reached = if below >> place & 1 == 1 {
                _mm256_and_si256(reached, digit)
            } else {
                _mm256_or_si256(reached, digit)
            };
        }
        if _mm256_testc_si256(reached, _mm256_set1_epi64x(-1)) == 1 {
            continue;
        }
        let mut words = [0_u64; LANES];
        // SAFETY: 32 bytes are there; the store is unaligned.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), reached) };
        let mut some = !(words[0] & words[1] & words[2] & words[3]);
        while some != 0 {
            let bit = some.trailing_zeros();
            some &= some - 1;
            for (lane, word) in words.iter().enumerate() {
                if word >> bit & 1 == 0 {
                    let row = nth * GROUP + bit as usize * LANES + lane;
                    out.push(key(distance(&rows[row]), row as u32));
                }
            }
        }
    }
    for (row, code) in rows.iter().enumerate().skip(done) {
        let distance = distance(code);
        if distance < below {
            out.push(key(distance, row as u32));
        }
    }
}

/// Adds 16 slices to the digits of 1, 2, 4 and 8; returns the carry of 16.
#[target_feature(enable = "avx2")]
#[inline]
fn add_round(
    slices: &[u64; ROUND * LANES],
    masks: &[__m256i; ROUND],
    low: &mut [__m256i; 4],
) -> __m256i {
    let slices = slices.as_chunks::<LANES>().0;
    let [ones, twos, fours, eights] = low;
    let a = add_four(&slices[..4], &masks[..4], ones, twos);
    let b = add_four(&slices[4..8], &masks[4..8], ones, twos);
    let c = add(fours, a, b);
    let a = add_four(&slices[8..12], &masks[8..12], ones, twos);
    let b = add_four(&slices[12..], &masks[12..], ones, twos);
    let d = add(fours, a, b);
    add(eights, c, d)
}

/// Adds four slices to the digits of 1 and 2; returns the carry of 4.
#[target_feature(enable = "avx2")]
#[inline]
fn add_four(
    slices: &[[u64; LANES]],
    masks: &[__m256i],
    ones: &mut __m256i,
    twos: &mut __m256i,
) -> __m256i {
    let a = add(ones, differ(&slices[0], masks[0]), differ(&slices[1], masks[1]));
    let b = add(ones, differ(&slices[2], masks[2]), differ(&slices[3], masks[3]));
    add(twos, a, b)
}

/// Where a slice differs from the query.
#[target_feature(enable = "avx2")]
#[inline]
fn differ(slice: &[u64; LANES], mask: __m256i) -> __m256i {
    // SAFETY: 32 bytes are there; the load is unaligned.
    let slice = unsafe { _mm256_loadu_si256(slice.as_ptr().cast()) };
    _mm256_xor_si256(slice, mask)
}

/// A full adder: adds two slices to a digit and returns the carry.
#[target_feature(enable = "avx2")]
#[inline]
fn add(digit: &mut __m256i, a: __m256i, b: __m256i) -> __m256i {
    let either = _mm256_xor_si256(a, b);
    let carry = _mm256_or_si256(_mm256_and_si256(a, b), _mm256_and_si256(either, *digit));
    *digit = _mm256_xor_si256(either, *digit);
    carry
}
