//! AVX-512 VPOPCNTDQ. Counting and comparing share one of the two vector ports, so distances
//! of up to eight vectors are reduced to their minimum, which runs on the other, before one
//! comparison: 64 codes of one word cost about twelve cycles. Reference: `portable.rs`; test:
//! `mod.rs`.
#![expect(unsafe_code, reason = "vector loads and stores; twin and test are named above")]

use std::arch::x86_64::*;
use std::ops::Range;

use super::{Planes, unkey};

/// Lanes of a vector.
const LANES: usize = 8;
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
    // SAFETY: `Kernel::available` offers this kernel only where AVX-512F and VPOPCNTDQ exist;
    // `Kernel::threshold` has checked the ranges.
    unsafe {
        match *query {
            [a] => run::<1, 8>(&[a], planes, ranges, below, out),
            [a, b] => run::<2, 4>(&[a, b], planes, ranges, below, out),
            [a, b, c] => run::<3, 2>(&[a, b, c], planes, ranges, below, out),
            [a, b, c, d] => run::<4, 2>(&[a, b, c, d], planes, ranges, below, out),
            [a, b, c, d, e, f, g, h] => {
                run::<8, 1>(&[a, b, c, d, e, f, g, h], planes, ranges, below, out);
            }
            _ => run::<0, 1>(query, planes, ranges, below, out),
        }
    }
}

/// `W` words a code, 0 for any number; `V` vectors of codes at a time.
///
/// # Safety
/// Every range lies inside every plane.
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
unsafe fn run<const W: usize, const V: usize>(
    query: &[u64],
    planes: Planes<'_>,
    ranges: &[Range<u32>],
    below: u32,
    out: &mut Vec<u64>,
) {
    let width = if W == 0 { query.len() } else { W };
    let limit = _mm512_set1_epi64(i64::from(below));
    let base = planes.words.as_ptr();
    for range in ranges {
        let (mut at, end) = (range.start as usize, range.end as usize);
        while at + V * LANES <= end {
            let mut distances = [_mm512_setzero_si512(); V];
            for v in 0..V {
                for w in 0..width {
                    let from = w * planes.stride + at + v * LANES;
                    // SAFETY: the range lies inside the plane.
                    let codes = unsafe { _mm512_loadu_si512(base.add(from).cast()) };
                    _mm_prefetch::<_MM_HINT_T0>(
                        base.wrapping_add(from + WORDS_AHEAD).cast(),
                    );
                    distances[v] = _mm512_add_epi64(distances[v], ones(codes, query[w]));
                }
            }
            // counts are below 2^32, so the minimum of 32-bit lanes is that of 64-bit lanes
            let mut least = distances[0];
            for v in 1..V {
                least = _mm512_min_epu32(least, distances[v]);
            }
            if _mm512_cmplt_epu64_mask(least, limit) != 0 {
                for v in 0..V {
                    let near = _mm512_cmplt_epu64_mask(distances[v], limit);
                    if near != 0 {
                        push(out, near, distances[v], at + v * LANES);
                    }
                }
            }
            at += V * LANES;
        }
        while at < end {
            let inside = u8::MAX >> LANES.saturating_sub(end - at);
            let mut distances = _mm512_setzero_si512();
            for w in 0..width {
                let from = w * planes.stride + at;
                // SAFETY: only lanes inside the range are read.
                let codes =
                    unsafe { _mm512_maskz_loadu_epi64(inside, base.add(from).cast()) };
                distances = _mm512_add_epi64(distances, ones(codes, query[w]));
            }
            let near = _mm512_mask_cmplt_epu64_mask(inside, distances, limit);
            if near != 0 {
                push(out, near, distances, at);
            }
            at += LANES;
        }
    }
}

/// Rows of two words against one query, eight rows to two vectors, at several places at once.
pub(super) fn threshold_pairs(
    query: [u64; 2],
    rows: &[u64],
    below: u32,
    out: &mut Vec<u64>,
) {
    // SAFETY: `Kernel::available` offers this kernel only where AVX-512F and VPOPCNTDQ exist.
    unsafe { pairs(query, rows, below, out) }
}

#[target_feature(enable = "avx512f,avx512vpopcntdq,popcnt")]
fn pairs(query: [u64; 2], rows: &[u64], below: u32, out: &mut Vec<u64>) {
    const V: usize = 4;
    let [a, b] = query.map(u64::cast_signed);
    let both = _mm512_setr_epi64(a, b, a, b, a, b, a, b);
    let limit = _mm512_set1_epi64(i64::from(below));
    // sums come as rows 0 4 1 5 2 6 3 7
    let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    // one stream of memory does not fill the lines between the core and memory, V of them do
    let part = rows.len() / (V * 2 * LANES) * (2 * LANES);
    let (parts, rest) = rows.split_at(V * part);
    let before = out.len();
    for at in (0..part).step_by(2 * LANES) {
        let mut distances = [_mm512_setzero_si512(); V];
        for v in 0..V {
            let pair = parts[v * part + at..][..2 * LANES].as_ptr();
            let ahead = pair.wrapping_add(WORDS_AHEAD);
            _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
            _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(LANES).cast());
            // SAFETY: 128 bytes are there; the loads are unaligned.
            let (low, high) = unsafe {
                (
                    _mm512_loadu_si512(pair.cast()),
                    _mm512_loadu_si512(pair.add(LANES).cast()),
                )
            };
            let low = _mm512_popcnt_epi64(_mm512_xor_si512(low, both));
            let high = _mm512_popcnt_epi64(_mm512_xor_si512(high, both));
            distances[v] = _mm512_add_epi64(
                _mm512_unpacklo_epi64(low, high),
                _mm512_unpackhi_epi64(low, high),
            );
        }
        let mut least = distances[0];
        for v in 1..V {
            least = _mm512_min_epu32(least, distances[v]);
        }
        if _mm512_cmplt_epu64_mask(least, limit) != 0 {
            for v in 0..V {
                let sorted = _mm512_permutexvar_epi64(order, distances[v]);
                let near = _mm512_cmplt_epu64_mask(sorted, limit);
                if near != 0 {
                    push(out, near, sorted, (v * part + at) / 2);
                }
            }
        }
    }
    // found in the order of the streams' progress, needed by position
    out[before..].sort_unstable_by_key(|&key| unkey(key).1);
    let done = parts.len() / 2;
    for (at, row) in rest.as_chunks::<2>().0.iter().enumerate() {
        let ones = (row[0] ^ query[0]).count_ones() + (row[1] ^ query[1]).count_ones();
        if ones < below {
            out.push(u64::from(ones) << 32 | (done + at) as u64);
        }
    }
}

/// Rows of four or eight words against one query, eight rows at a time.
pub(super) fn threshold_wide(query: &[u64], rows: &[u64], below: u32, out: &mut Vec<u64>) {
    // SAFETY: `Kernel::available` offers this kernel only where AVX-512F and VPOPCNTDQ exist.
    unsafe {
        match *query {
            [a, b, c, d] => wide::<4>([a, b, c, d, a, b, c, d], rows, below, out),
            [a, b, c, d, e, f, g, h] => {
                wide::<8>([a, b, c, d, e, f, g, h], rows, below, out);
            }
            _ => unreachable!("rows of four or eight words"),
        }
    }
}

/// `W` is 4 or 8; `query` fills a vector.
#[target_feature(enable = "avx512f,avx512vpopcntdq,popcnt")]
fn wide<const W: usize>(query: [u64; 8], rows: &[u64], below: u32, out: &mut Vec<u64>) {
    // SAFETY: 64 bytes are there; the load is unaligned.
    let query_vector = unsafe { _mm512_loadu_si512(query.as_ptr().cast()) };
    let limit = _mm512_set1_epi64(i64::from(below));
    let order = _mm512_setr_epi64(0, 2, 1, 3, 4, 6, 5, 7);
    let groups = rows.chunks_exact(8 * W);
    let rest = groups.remainder();
    for (nth, group) in groups.enumerate() {
        let mut ones = [_mm512_setzero_si512(); W];
        for (v, ones) in ones.iter_mut().enumerate() {
            let from = group[v * LANES..][..LANES].as_ptr();
            _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(WORDS_AHEAD).cast());
            // SAFETY: 64 bytes are there; the load is unaligned.
            let codes = unsafe { _mm512_loadu_si512(from.cast()) };
            *ones = _mm512_popcnt_epi64(_mm512_xor_si512(codes, query_vector));
        }
        let distances = if W == 8 {
            let (a, b) = (pair(ones[0], ones[1]), pair(ones[2], ones[3]));
            let (c, d) = (pair(ones[4], ones[5]), pair(ones[6], ones[7]));
            halves(halves(a, b), halves(c, d))
        } else {
            // rows 0 2 1 3 4 6 5 7
            let both = halves(pair(ones[0], ones[1]), pair(ones[2], ones[3]));
            _mm512_permutexvar_epi64(order, both)
        };
        let near = _mm512_cmplt_epu64_mask(distances, limit);
        if near != 0 {
            push(out, near, distances, nth * LANES);
        }
    }
    let done = (rows.len() - rest.len()) / W;
    for (at, row) in rest.chunks_exact(W).enumerate() {
        let ones: u32 = row.iter().zip(query).map(|(a, b)| (a ^ b).count_ones()).sum();
        if ones < below {
            out.push(u64::from(ones) << 32 | (done + at) as u64);
        }
    }
}

/// Sums of neighbouring words: of `a` in even, of `b` in odd places.
#[target_feature(enable = "avx512f")]
fn pair(a: __m512i, b: __m512i) -> __m512i {
    _mm512_add_epi64(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b))
}

/// Sums of neighbouring quarters: of `a` in the lower, of `b` in the upper half.
#[target_feature(enable = "avx512f")]
fn halves(a: __m512i, b: __m512i) -> __m512i {
    _mm512_add_epi64(_mm512_shuffle_i64x2::<0x88>(a, b), _mm512_shuffle_i64x2::<0xdd>(a, b))
}

/// Appends the keys of the lanes in `near`; lane 0 is the code at `at`.
#[target_feature(enable = "avx512f")]
pub(super) fn push(out: &mut Vec<u64>, near: __mmask8, distances: __m512i, at: usize) {
    let lanes = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    let positions = _mm512_add_epi64(lanes, _mm512_set1_epi64(at.cast_signed() as i64));
    let keys = _mm512_or_si512(_mm512_slli_epi64(distances, 32), positions);
    out.reserve(LANES);
    let held = out.len();
    // SAFETY: there is room for eight more; the first `near.count_ones()` of them are set.
    unsafe {
        let packed = _mm512_maskz_compress_epi64(near, keys);
        _mm512_storeu_si512(out.as_mut_ptr().add(held).cast(), packed);
        out.set_len(held + near.count_ones() as usize);
    }
}

#[target_feature(enable = "avx512f,avx512vpopcntdq")]
fn ones(codes: __m512i, word: u64) -> __m512i {
    let word = _mm512_set1_epi64(word.cast_signed());
    _mm512_popcnt_epi64(_mm512_xor_si512(codes, word))
}

/// Rows of two words to two planes.
pub(super) fn to_two_planes(rows: &[u64], out: &mut [u64]) {
    // SAFETY: `Kernel::available` offers this kernel only where AVX-512F exists.
    unsafe { split(rows, out) }
}

#[target_feature(enable = "avx512f")]
fn split(rows: &[u64], out: &mut [u64]) {
    let (first, second) = out.split_at_mut(rows.len() / 2);
    let even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
    let odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
    let (groups, rest) = rows.as_chunks::<16>();
    let done = groups.len() * LANES;
    let planes = first.as_chunks_mut::<8>().0.iter_mut().zip(second.as_chunks_mut::<8>().0);
    for (group, (first, second)) in groups.iter().zip(planes) {
        // SAFETY: 128 bytes are read, twice 64 written; all are there and may be unaligned.
        unsafe {
            let low = _mm512_loadu_si512(group.as_ptr().cast());
            let high = _mm512_loadu_si512(group[8..].as_ptr().cast());
            _mm_prefetch::<_MM_HINT_T0>(group.as_ptr().wrapping_add(WORDS_AHEAD).cast());
            _mm_prefetch::<_MM_HINT_T0>(
                group.as_ptr().wrapping_add(WORDS_AHEAD + 8).cast(),
            );
            let (a, b) = (
                _mm512_permutex2var_epi64(low, even, high),
                _mm512_permutex2var_epi64(low, odd, high),
            );
            _mm512_storeu_si512(first.as_mut_ptr().cast(), a);
            _mm512_storeu_si512(second.as_mut_ptr().cast(), b);
        }
    }
    for (i, row) in rest.as_chunks::<2>().0.iter().enumerate() {
        first[done + i] = row[0];
        second[done + i] = row[1];
    }
}
