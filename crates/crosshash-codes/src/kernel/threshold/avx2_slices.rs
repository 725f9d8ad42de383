//! The scan for many queries with AVX2: distances of 256 codes at once by bit-slice arithmetic.
//!
//! Bit `b` of 256 codes is one vector, a slice. Counting the bits that differ from a query is then a sum of
//! slices, each inverted where the query has a one. Full adders (carry-save adders) sum them as in Harley and
//! Seal's population count: 16 slices at a time into digits of 1, 2, 4 and 8, whose carries of 16 are added to
//! higher digits. The bound is compared with all 256 sums digit by digit. This takes about six logical
//! operations per slice, which processors execute three or four at a time; table look-ups for the same
//! codes take twice as many, on fewer units.
//!
//! Codes are transposed block by block, which pays from [`FROM`] queries on. Reference: the distances of
//! the rows; test: `mod.rs`.
#![expect(unsafe_code, reason = "vector loads and stores; the test is named above")]

use std::arch::x86_64::*;

use super::{GROUP, key};

/// Number of queries from which slices pay.
pub(super) const FROM: usize = 6;
/// Slices that are added before a carry of 16 results.
const ROUND: usize = 16;
/// Words of a slice of a group.
const LANES: usize = GROUP / 64;

/// Whether there are slices for codes of this number of words.
pub(super) fn has_width(width: usize) -> bool {
    matches!(width, 1..=4 | 8)
}

/// Appends the slices of all complete groups of `rows`: bit `b` of the codes of a group is at `b * LANES`.
pub(super) fn to_slices(rows: &[u64], width: usize, out: &mut Vec<u64>) {
    for group in rows.chunks_exact(GROUP * width) {
        for w in 0..width {
            // SAFETY: `Kernel::available` offers this kernel only where AVX2 exists.
            unsafe { transpose(group, width, w, out) };
        }
    }
}

/// Transposes word `w` of a group: four matrices of 64 x 64 bits, one in each lane.
#[target_feature(enable = "avx2")]
fn transpose(group: &[u64], width: usize, w: usize, out: &mut Vec<u64>) {
    let word = |row: usize| group[row * width + w].cast_signed();
    let mut m: [__m256i; 64] = std::array::from_fn(|row| {
        _mm256_set_epi64x(word(192 + row), word(128 + row), word(64 + row), word(row))
    });
    stage::<32>(&mut m, 0x0000_0000_FFFF_FFFF);
    stage::<16>(&mut m, 0x0000_FFFF_0000_FFFF);
    stage::<8>(&mut m, 0x00FF_00FF_00FF_00FF);
    stage::<4>(&mut m, 0x0F0F_0F0F_0F0F_0F0F);
    stage::<2>(&mut m, 0x3333_3333_3333_3333);
    stage::<1>(&mut m, 0x5555_5555_5555_5555);
    for slice in m {
        let mut words = [0_u64; LANES];
        // SAFETY: 32 bytes are there; the store is unaligned.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), slice) };
        out.extend_from_slice(&words);
    }
}

/// Exchanges the upper right and the lower left quarters of all blocks of `2 * S` rows and columns.
#[target_feature(enable = "avx2")]
#[inline]
fn stage<const S: i32>(m: &mut [__m256i; 64], low: i64) {
    let low = _mm256_set1_epi64x(low);
    let step = S.unsigned_abs() as usize;
    for block in m.chunks_exact_mut(2 * step) {
        let (upper, lower) = block.split_at_mut(step);
        for (a, b) in upper.iter_mut().zip(lower) {
            let differ = _mm256_xor_si256(_mm256_srli_epi64::<S>(*a), *b);
            let differ = _mm256_and_si256(differ, low);
            *b = _mm256_xor_si256(*b, differ);
            *a = _mm256_xor_si256(*a, _mm256_slli_epi64::<S>(differ));
        }
    }
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
    let masks: [[__m256i; 64]; W] = query.map(|word| {
        std::array::from_fn(|b| {
            _mm256_set1_epi64x(0_i64.wrapping_sub((word >> b & 1).cast_signed()))
        })
    });
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
        for (lane, word) in words.into_iter().enumerate() {
            let mut near = !word;
            while near != 0 {
                let row = nth * GROUP + lane * 64 + near.trailing_zeros() as usize;
                out.push(key(distance(&rows[row]), row as u32));
                near &= near - 1;
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
    let differ = |at: usize| {
        let words = &slices.as_chunks::<LANES>().0[at];
        // SAFETY: 32 bytes are there; the load is unaligned.
        let slice = unsafe { _mm256_loadu_si256(words.as_ptr().cast()) };
        _mm256_xor_si256(slice, masks[at])
    };
    let [ones, twos, fours, eights] = low;
    let mut of_eight = [_mm256_setzero_si256(); 2];
    for (half, eight) in of_eight.iter_mut().enumerate() {
        let mut of_four = [_mm256_setzero_si256(); 2];
        for (quarter, four) in of_four.iter_mut().enumerate() {
            let at = half * 8 + quarter * 4;
            let a = add(ones, differ(at), differ(at + 1));
            let b = add(ones, differ(at + 2), differ(at + 3));
            *four = add(twos, a, b);
        }
        *eight = add(fours, of_four[0], of_four[1]);
    }
    add(eights, of_eight[0], of_eight[1])
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
