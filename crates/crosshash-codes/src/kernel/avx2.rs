//! AVX2: ones of 32 bytes at a time by two table look-ups (Muła, Kurz, Lemire, *Faster
//! Population Counts Using AVX2 Instructions*, 2018, section 3), rows of one or two words
//! several to a vector. Rows of three words and the odd ends run the safe reference compiled
//! with the POPCNT instruction. Safe reference: `portable.rs`; test: `mod.rs`.
#![expect(unsafe_code, reason = "vector loads and stores; twin and test are named above")]

use std::arch::x86_64::*;

use super::{Combine, portable};

/// `out[i]` = ones in `combine(one, many[i])`; the caller has checked sizes and CPU.
pub(super) fn count(combine: Combine, one: &[u64], many: &[u64], out: &mut [u16]) {
    // SAFETY: `Kernel::available` offers this kernel only where AVX2 and POPCNT exist.
    unsafe {
        match combine {
            Combine::Xor => run::<true>(one, many, out),
            Combine::And => run::<false>(one, many, out),
        }
    }
}

#[target_feature(enable = "avx2,popcnt")]
fn run<const XOR: bool>(one: &[u64], many: &[u64], out: &mut [u16]) {
    let done = match one.len() {
        1 => rows_of_one::<XOR>(one[0], many, out),
        2 => rows_of_two::<XOR>([one[0], one[1]], many, out),
        3 => 0,
        _ => long_rows::<XOR>(one, many, out),
    };
    scalar::<XOR>(one, &many[done * one.len()..], &mut out[done..]);
}

/// The safe reference, compiled with POPCNT.
#[target_feature(enable = "avx2,popcnt")]
fn scalar<const XOR: bool>(one: &[u64], many: &[u64], out: &mut [u16]) {
    portable::count(one, many, out, |a, b| if XOR { a ^ b } else { a & b });
}

/// Sixteen rows of one word per round; returns the number of rows done.
#[target_feature(enable = "avx2,popcnt")]
fn rows_of_one<const XOR: bool>(one: u64, many: &[u64], out: &mut [u16]) -> usize {
    let query = _mm256_set1_epi64x(one.cast_signed());
    let (rows, _) = many.as_chunks::<16>();
    let (counts, _) = out.as_chunks_mut::<16>();
    for (rows, counts) in rows.iter().zip(counts) {
        let sums = [0, 4, 8, 12].map(|k| sums::<XOR>(query, load(&rows[k..k + 4])));
        // each lane holds a count below 65: pack 64 -> 32 -> 16 bits, then undo the
        // interleaving of 128-bit halves that packing leaves behind
        let low = _mm256_or_si256(sums[0], _mm256_slli_epi64(sums[1], 32));
        let high = _mm256_or_si256(sums[2], _mm256_slli_epi64(sums[3], 32));
        // low: r0 r4 r1 r5 | r2 r6 r3 r7 (32 bits each), high alike from r8
        let order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
        let low = _mm256_permutevar8x32_epi32(low, order);
        let high = _mm256_permutevar8x32_epi32(high, order);
        let packed = _mm256_packus_epi32(low, high);
        let packed = _mm256_permute4x64_epi64(packed, 0b11_01_10_00);
        // SAFETY: `counts` is 16 u16, 32 bytes; the store is unaligned.
        unsafe { _mm256_storeu_si256(counts.as_mut_ptr().cast(), packed) };
    }
    rows.len() * 16
}

/// Four rows of two words per round; returns the number of rows done.
#[target_feature(enable = "avx2,popcnt")]
#[expect(clippy::cast_possible_truncation, reason = "counts of at most 128")]
fn rows_of_two<const XOR: bool>(one: [u64; 2], many: &[u64], out: &mut [u16]) -> usize {
    let [a, b] = one.map(u64::cast_signed);
    let query = _mm256_setr_epi64x(a, b, a, b);
    let (rows, _) = many.as_chunks::<8>();
    let (counts, _) = out.as_chunks_mut::<4>();
    for (rows, counts) in rows.iter().zip(counts) {
        let low = sums::<XOR>(query, load(&rows[..4])); // r0a r0b r1a r1b
        let high = sums::<XOR>(query, load(&rows[4..])); // r2a r2b r3a r3b
        let a = _mm256_unpacklo_epi64(low, high); // r0a r2a r1a r3a
        let b = _mm256_unpackhi_epi64(low, high);
        let sum = _mm256_add_epi64(a, b); // r0 r2 r1 r3
        counts[0] = _mm256_extract_epi64(sum, 0) as u16;
        counts[1] = _mm256_extract_epi64(sum, 2) as u16;
        counts[2] = _mm256_extract_epi64(sum, 1) as u16;
        counts[3] = _mm256_extract_epi64(sum, 3) as u16;
    }
    rows.len() * 4
}

/// Rows of four words and more, a vector of four words at a time; returns rows done.
#[target_feature(enable = "avx2,popcnt")]
#[expect(clippy::cast_possible_truncation, reason = "at most 65,535 ones by contract")]
fn long_rows<const XOR: bool>(one: &[u64], many: &[u64], out: &mut [u16]) -> usize {
    let (one_vectors, one_rest) = one.as_chunks::<4>();
    for (row, out) in many.chunks_exact(one.len()).zip(out.iter_mut()) {
        let (row_vectors, row_rest) = row.as_chunks::<4>();
        let mut total = _mm256_setzero_si256();
        for (a, b) in one_vectors.iter().zip(row_vectors) {
            total = _mm256_add_epi64(total, sums::<XOR>(load(a), load(b)));
        }
        let half = _mm_add_epi64(
            _mm256_castsi256_si128(total),
            _mm256_extracti128_si256(total, 1),
        );
        let vectors = _mm_extract_epi64(half, 0) + _mm_extract_epi64(half, 1);
        let mut rest = 0;
        for (a, b) in one_rest.iter().zip(row_rest) {
            rest += if XOR { a ^ b } else { a & b }.count_ones();
        }
        *out = vectors as u16 + rest as u16;
    }
    out.len()
}

#[target_feature(enable = "avx2")]
fn load(words: &[u64]) -> __m256i {
    assert_eq!(words.len(), 4, "a vector is four words");
    // SAFETY: 32 bytes are there; the load is unaligned.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

/// The ones of every byte.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn ones_of_bytes(v: __m256i) -> __m256i {
    let table = _mm256_setr_epi8(
        0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, //
        0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
    );
    let nibble = _mm256_set1_epi8(0x0F);
    let low = _mm256_shuffle_epi8(table, _mm256_and_si256(v, nibble));
    let high =
        _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(v, 4), nibble));
    _mm256_add_epi8(low, high)
}

/// Ones of each 64-bit lane of the combined vectors.
#[target_feature(enable = "avx2")]
fn sums<const XOR: bool>(a: __m256i, b: __m256i) -> __m256i {
    let v = if XOR { _mm256_xor_si256(a, b) } else { _mm256_and_si256(a, b) };
    _mm256_sad_epu8(ones_of_bytes(v), _mm256_setzero_si256())
}
