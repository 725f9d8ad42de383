//! AVX2 and POPCNT: the safe reference compiled for them, with prefetch. Reference: `portable.rs`; test: `mod.rs`.
#![expect(unsafe_code, reason = "calls of functions compiled for a checked CPU")]

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::ops::Range;

use super::nodes::{self, Nodes, Values};
use super::{Held, Planes, Step, portable};

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

pub(super) fn occupied(values: Values<'_>, own: u32, ones: u32, out: &mut Vec<u32>) {
    // SAFETY: the kernels that come here are offered only where AVX2 and POPCNT exist.
    unsafe { found(values, own, ones, out) }
}

#[target_feature(enable = "avx2,popcnt,bmi2")]
fn found(values: Values<'_>, own: u32, ones: u32, out: &mut Vec<u32>) {
    nodes::occupied(values, own, ones, out);
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

pub(super) fn fetch_lanes<T>(lanes: &[T], at: usize) {
    let line = lanes.as_ptr().wrapping_add(at);
    // SAFETY: a prefetch of any address is harmless, and every x86-64 has it.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
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

pub(super) fn lanes32(query: u32, lanes: &[u32], below: u32, out: &mut Vec<u64>) {
    // SAFETY: the kernels that come here are offered only where AVX2 and POPCNT exist.
    unsafe { compiled_lanes32(query, lanes, below, out) }
}

#[target_feature(enable = "avx2,popcnt")]
fn compiled_lanes32(query: u32, lanes: &[u32], below: u32, out: &mut Vec<u64>) {
    nodes::lanes32(query, lanes, below, out);
}
