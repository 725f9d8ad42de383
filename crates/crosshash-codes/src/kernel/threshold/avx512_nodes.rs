//! The kernels of the bit tree with AVX-512. Reference: `nodes.rs`; test: there.
#![expect(unsafe_code, reason = "vector loads and stores; twin and test are named above")]

use std::arch::x86_64::*;
use std::ops::Range;

use super::avx512;
use super::nodes::{AHEAD, Nodes};

/// The caller has checked that the ranges lie inside all planes and that radii are padded.
#[inline]
pub(super) fn bounds(
    query: &[u64],
    nodes: Nodes<'_>,
    ranges: &[Range<u32>],
    below: u32,
    out: &mut Vec<u64>,
) {
    // SAFETY: `Kernel::available` offers this kernel only where AVX-512F and VPOPCNTDQ exist;
    // `Kernel::bounds` has checked the ranges.
    unsafe {
        match *query {
            [a] => run::<1>(&[a], nodes, ranges, below, out),
            [a, b] => run::<2>(&[a, b], nodes, ranges, below, out),
            _ => run::<0>(query, nodes, ranges, below, out),
        }
    }
}

/// `W` words a code, 0 for any number.
///
/// # Safety
/// The ranges lie inside every plane; eight radii lie behind the last.
#[target_feature(enable = "avx512f,avx512vpopcntdq,popcnt")]
unsafe fn run<const W: usize>(
    query: &[u64],
    nodes: Nodes<'_>,
    ranges: &[Range<u32>],
    below: u32,
    out: &mut Vec<u64>,
) {
    let width = if W == 0 { query.len() } else { W };
    let limit = _mm512_set1_epi64(i64::from(below));
    for (nth, range) in ranges.iter().enumerate() {
        if let Some(soon) = ranges.get(nth + AHEAD) {
            let at = soon.start as usize;
            for w in 0..width {
                let from = w * nodes.stride + at;
                _mm_prefetch::<_MM_HINT_T0>(
                    nodes.centres.as_ptr().wrapping_add(from).cast(),
                );
                _mm_prefetch::<_MM_HINT_T0>(
                    nodes.centres.as_ptr().wrapping_add(from + 8).cast(),
                );
                _mm_prefetch::<_MM_HINT_T0>(nodes.fixed.as_ptr().wrapping_add(from).cast());
                _mm_prefetch::<_MM_HINT_T0>(
                    nodes.fixed.as_ptr().wrapping_add(from + 8).cast(),
                );
            }
        }
        let (mut at, end) = (range.start as usize, range.end as usize);
        while at < end {
            let inside = u8::MAX >> 8_usize.saturating_sub(end - at);
            let (mut agreed, mut distance) =
                (_mm512_setzero_si512(), _mm512_setzero_si512());
            for w in 0..width {
                let from = w * nodes.stride + at;
                // SAFETY: only lanes inside the range are read.
                let (centres, fixed) = unsafe {
                    (
                        _mm512_maskz_loadu_epi64(
                            inside,
                            nodes.centres.as_ptr().add(from).cast(),
                        ),
                        _mm512_maskz_loadu_epi64(
                            inside,
                            nodes.fixed.as_ptr().add(from).cast(),
                        ),
                    )
                };
                let word = _mm512_set1_epi64(query[w].cast_signed());
                let differs = _mm512_xor_si512(centres, word);
                let common = _mm512_popcnt_epi64(_mm512_and_si512(differs, fixed));
                agreed = _mm512_add_epi64(agreed, common);
                distance = _mm512_add_epi64(distance, _mm512_popcnt_epi64(differs));
            }
            // SAFETY: the radii are padded by eight.
            let radii = unsafe { _mm_loadu_si128(nodes.radii.as_ptr().add(at).cast()) };
            let outside = _mm512_sub_epi64(distance, _mm512_cvtepu16_epi64(radii));
            let least = _mm512_max_epi64(agreed, outside);
            let near = _mm512_mask_cmplt_epu64_mask(inside, least, limit);
            if near != 0 {
                avx512::push(out, near, least, at);
            }
            at += 8;
        }
    }
}

#[inline]
pub(super) fn lanes16(query: u16, lanes: &[u16], below: u32, out: &mut Vec<u64>) {
    // SAFETY: `Kernel::available` offers this kernel only where AVX-512BW and BITALG exist.
    unsafe { short(query, lanes, below, out) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512bitalg,popcnt")]
fn short(query: u16, lanes: &[u16], below: u32, out: &mut Vec<u64>) {
    let word = _mm512_set1_epi16(query.cast_signed());
    let limit = _mm512_set1_epi16(i16::try_from(below).unwrap_or(i16::MAX));
    for start in (0..lanes.len()).step_by(32) {
        let inside = u32::MAX >> 32_usize.saturating_sub(lanes.len() - start);
        // SAFETY: only lanes inside the slice are read.
        let codes =
            unsafe { _mm512_maskz_loadu_epi16(inside, lanes.as_ptr().add(start).cast()) };
        let ones = _mm512_popcnt_epi16(_mm512_xor_si512(codes, word));
        let mut near = _mm512_mask_cmplt_epu16_mask(inside, ones, limit);
        if near == 0 {
            continue;
        }
        let mut counts = [0_u16; 32];
        // SAFETY: 64 bytes are there; the store is unaligned.
        unsafe { _mm512_storeu_si512(counts.as_mut_ptr().cast(), ones) };
        while near != 0 {
            let lane = near.trailing_zeros() as usize;
            near &= near - 1;
            out.push(u64::from(counts[lane]) << 32 | (start + lane) as u64);
        }
    }
}

#[inline]
pub(super) fn lanes32(query: u32, lanes: &[u32], below: u32, out: &mut Vec<u64>) {
    // SAFETY: `Kernel::available` offers this kernel only where AVX-512F and VPOPCNTDQ exist.
    unsafe { long(query, lanes, below, out) }
}

#[target_feature(enable = "avx512f,avx512vpopcntdq,popcnt")]
fn long(query: u32, lanes: &[u32], below: u32, out: &mut Vec<u64>) {
    let word = _mm512_set1_epi32(query.cast_signed());
    let limit = _mm512_set1_epi32(below.min(64).cast_signed());
    for start in (0..lanes.len()).step_by(16) {
        let inside = u16::MAX >> 16_usize.saturating_sub(lanes.len() - start);
        // SAFETY: only lanes inside the slice are read.
        let codes =
            unsafe { _mm512_maskz_loadu_epi32(inside, lanes.as_ptr().add(start).cast()) };
        let ones = _mm512_popcnt_epi32(_mm512_xor_si512(codes, word));
        let mut near = _mm512_mask_cmplt_epu32_mask(inside, ones, limit);
        if near == 0 {
            continue;
        }
        let mut counts = [0_u32; 16];
        // SAFETY: 64 bytes are there; the store is unaligned.
        unsafe { _mm512_storeu_si512(counts.as_mut_ptr().cast(), ones) };
        while near != 0 {
            let lane = near.trailing_zeros() as usize;
            near &= near - 1;
            out.push(u64::from(counts[lane]) << 32 | (start + lane) as u64);
        }
    }
}
