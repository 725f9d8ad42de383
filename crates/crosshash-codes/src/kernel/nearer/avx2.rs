//! AVX2 and POPCNT: the safe twin compiled for them. Twin: `portable.rs`; test: `mod.rs`.
#![expect(unsafe_code, reason = "calls of functions compiled for a checked CPU")]

use std::ops::Range;

use super::{Planes, portable};

pub(super) fn nearer(
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
        [a] => portable::nearer(&[a], planes, ranges, below, out),
        [a, b] => portable::nearer(&[a, b], planes, ranges, below, out),
        _ => portable::nearer(query, planes, ranges, below, out),
    }
}

pub(super) fn nearer_listed(
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
        [a] => portable::nearer_listed(&[a], rows, ids, first, below, out),
        [a, b] => portable::nearer_listed(&[a, b], rows, ids, first, below, out),
        _ => portable::nearer_listed(query, rows, ids, first, below, out),
    }
}
