//! NEON: ones per byte by `vcnt`, widened by pairwise adds. Rows of one word go two to a
//! vector, longer rows two words at a time. Safe reference: `portable.rs`; test: `mod.rs`.
#![expect(unsafe_code, reason = "vector loads; twin and test are named above")]

use std::arch::aarch64::*;

use super::{Combine, portable};

/// `out[i]` = ones in `combine(one, many[i])`; the caller has checked sizes and CPU.
pub(super) fn count(combine: Combine, one: &[u64], many: &[u64], out: &mut [u16]) {
    // SAFETY: `Kernel::available` offers this kernel only where NEON exists.
    unsafe {
        match combine {
            Combine::Xor => run::<true>(one, many, out),
            Combine::And => run::<false>(one, many, out),
        }
    }
}

#[target_feature(enable = "neon")]
fn run<const XOR: bool>(one: &[u64], many: &[u64], out: &mut [u16]) {
    let done = match one.len() {
        1 => rows_of_one::<XOR>(one[0], many, out),
        _ => long_rows::<XOR>(one, many, out),
    };
    portable::count(one, &many[done * one.len()..], &mut out[done..], |a, b| {
        if XOR { a ^ b } else { a & b }
    });
}

/// Two rows of one word per round; returns the number of rows done.
#[target_feature(enable = "neon")]
#[expect(clippy::cast_possible_truncation, reason = "counts of at most 64")]
fn rows_of_one<const XOR: bool>(one: u64, many: &[u64], out: &mut [u16]) -> usize {
    let query = vdupq_n_u64(one);
    let (rows, _) = many.as_chunks::<2>();
    let (counts, _) = out.as_chunks_mut::<2>();
    for (rows, counts) in rows.iter().zip(counts) {
        let sums = ones::<XOR>(query, load(rows));
        counts[0] = vgetq_lane_u64::<0>(sums) as u16;
        counts[1] = vgetq_lane_u64::<1>(sums) as u16;
    }
    rows.len() * 2
}

/// Rows of two words and more; returns the number of rows done.
#[target_feature(enable = "neon")]
#[expect(clippy::cast_possible_truncation, reason = "at most 65,535 ones by contract")]
fn long_rows<const XOR: bool>(one: &[u64], many: &[u64], out: &mut [u16]) -> usize {
    let (one_vectors, one_rest) = one.as_chunks::<2>();
    for (row, out) in many.chunks_exact(one.len()).zip(out.iter_mut()) {
        let (row_vectors, row_rest) = row.as_chunks::<2>();
        let mut total = vdupq_n_u64(0);
        for (a, b) in one_vectors.iter().zip(row_vectors) {
            total = vaddq_u64(total, ones::<XOR>(load(a), load(b)));
        }
        let mut rest = 0;
        for (a, b) in one_rest.iter().zip(row_rest) {
            rest += if XOR { a ^ b } else { a & b }.count_ones();
        }
        *out = vaddvq_u64(total) as u16 + rest as u16;
    }
    out.len()
}

#[target_feature(enable = "neon")]
fn load(words: &[u64; 2]) -> uint64x2_t {
    // SAFETY: 16 bytes are there; the load is unaligned.
    unsafe { vld1q_u64(words.as_ptr()) }
}

/// Ones of each 64-bit lane of the combined vectors.
#[target_feature(enable = "neon")]
fn ones<const XOR: bool>(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
    let v = if XOR { veorq_u64(a, b) } else { vandq_u64(a, b) };
    vpaddlq_u32(vpaddlq_u16(vpaddlq_u8(vcntq_u8(vreinterpretq_u8_u64(v)))))
}
