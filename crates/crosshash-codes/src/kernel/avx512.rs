//! AVX-512 VPOPCNTDQ: one instruction counts the ones of eight words. Rows of one word go
//! eight to a vector, rows of two words four; longer rows a vector of words at a time with a
//! masked end. Safe reference: `portable.rs`; test: `mod.rs`.
#![expect(unsafe_code, reason = "vector loads and stores; twin and test are named above")]

use std::arch::x86_64::*;

use super::{Combine, portable};

/// `out[i]` = ones in `combine(one, many[i])`; the caller has checked sizes and CPU.
pub(super) fn count(combine: Combine, one: &[u64], many: &[u64], out: &mut [u16]) {
    // SAFETY: `Kernel::available` offers this kernel only where AVX-512F, VPOPCNTDQ and
    // POPCNT exist.
    unsafe {
        match combine {
            Combine::Xor => run::<true>(one, many, out),
            Combine::And => run::<false>(one, many, out),
        }
    }
}

#[target_feature(enable = "avx512f,avx512vpopcntdq,popcnt")]
fn run<const XOR: bool>(one: &[u64], many: &[u64], out: &mut [u16]) {
    let done = match one.len() {
        1 => rows_of_one::<XOR>(one[0], many, out),
        2 => rows_of_two::<XOR>([one[0], one[1]], many, out),
        _ => long_rows::<XOR>(one, many, out),
    };
    portable::count(one, &many[done * one.len()..], &mut out[done..], |a, b| {
        if XOR { a ^ b } else { a & b }
    });
}

/// Eight rows of one word per round; returns the number of rows done.
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn rows_of_one<const XOR: bool>(one: u64, many: &[u64], out: &mut [u16]) -> usize {
    let query = _mm512_set1_epi64(one.cast_signed());
    let (rows, _) = many.as_chunks::<8>();
    let (counts, _) = out.as_chunks_mut::<8>();
    for (rows, counts) in rows.iter().zip(counts) {
        // SAFETY: 64 bytes are there; the load is unaligned.
        let row = unsafe { _mm512_loadu_si512(rows.as_ptr().cast()) };
        let packed = _mm512_cvtepi64_epi16(ones::<XOR>(query, row));
        // SAFETY: 16 bytes are there; the store is unaligned.
        unsafe { _mm_storeu_si128(counts.as_mut_ptr().cast(), packed) };
    }
    rows.len() * 8
}

/// Four rows of two words per round; returns the number of rows done.
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn rows_of_two<const XOR: bool>(one: [u64; 2], many: &[u64], out: &mut [u16]) -> usize {
    let [a, b] = one.map(u64::cast_signed);
    let query = _mm512_setr_epi64(a, b, a, b, a, b, a, b);
    let (rows, _) = many.as_chunks::<8>();
    let (counts, _) = out.as_chunks_mut::<4>();
    for (rows, counts) in rows.iter().zip(counts) {
        // SAFETY: 64 bytes are there; the load is unaligned.
        let row = unsafe { _mm512_loadu_si512(rows.as_ptr().cast()) };
        let words = ones::<XOR>(query, row);
        let swapped = _mm512_permutex_epi64(words, 0b10_11_00_01);
        let sums = _mm512_add_epi64(words, swapped); // r0 r0 r1 r1 r2 r2 r3 r3
        let sums = _mm512_maskz_compress_epi64(0b0101_0101, sums); // r0 r1 r2 r3
        let packed = _mm512_cvtepi64_epi16(sums);
        // SAFETY: 8 bytes are there; the store is unaligned.
        unsafe { _mm_storel_epi64(counts.as_mut_ptr().cast(), packed) };
    }
    rows.len() * 4
}

/// Rows of three words and more; returns the number of rows done.
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
#[expect(clippy::cast_possible_truncation, reason = "at most 65,535 ones by contract")]
fn long_rows<const XOR: bool>(one: &[u64], many: &[u64], out: &mut [u16]) -> usize {
    for (row, out) in many.chunks_exact(one.len()).zip(out.iter_mut()) {
        let mut total = _mm512_setzero_si512();
        for (a, b) in one.chunks(8).zip(row.chunks(8)) {
            let mask = u8::MAX >> (8 - a.len());
            // SAFETY: only the words under the mask, `a.len()` of them, are read.
            let (a, b) = unsafe {
                (
                    _mm512_maskz_loadu_epi64(mask, a.as_ptr().cast()),
                    _mm512_maskz_loadu_epi64(mask, b.as_ptr().cast()),
                )
            };
            total = _mm512_add_epi64(total, ones::<XOR>(a, b));
        }
        *out = _mm512_reduce_add_epi64(total) as u16;
    }
    out.len()
}

#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn ones<const XOR: bool>(a: __m512i, b: __m512i) -> __m512i {
    let v = if XOR { _mm512_xor_si512(a, b) } else { _mm512_and_si512(a, b) };
    _mm512_popcnt_epi64(v)
}
