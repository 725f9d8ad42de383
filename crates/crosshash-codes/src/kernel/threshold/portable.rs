//! The safe reference kernel: plain Rust, tens of codes at a time so that the
//! compiler can vectorise the counts.

use std::ops::Range;

use super::{Held, Planes, Step, key, unkey};

/// Codes whose distances are computed before any is compared.
const CHUNK: usize = 32;

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "positions fit the range's type")]
pub(super) fn threshold(
    query: &[u64],
    planes: Planes<'_>,
    ranges: &[Range<u32>],
    below: u32,
    out: &mut Vec<u64>,
) {
    for range in ranges {
        for start in (range.start as usize..range.end as usize).step_by(CHUNK) {
            let len = CHUNK.min(range.end as usize - start);
            let mut distances = [0_u64; CHUNK];
            for (w, &word) in query.iter().enumerate() {
                let plane = &planes.words[w * planes.stride + start..][..len];
                for (distance, code) in distances.iter_mut().zip(plane) {
                    *distance += u64::from((code ^ word).count_ones());
                }
            }
            let counted = &distances[..len];
            if counted.iter().fold(false, |any, &d| any | (d < u64::from(below))) {
                let near =
                    counted.iter().enumerate().filter(|(_, d)| **d < u64::from(below));
                out.extend(near.map(|(i, &d)| key(d as u32, (start + i) as u32)));
            }
        }
    }
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a list is shorter than 2^32")]
pub(super) fn threshold_listed(
    query: &[u64],
    rows: &[u64],
    ids: &[u32],
    first: u32,
    below: u32,
    out: &mut Vec<u64>,
) {
    for (at, &id) in ids.iter().enumerate() {
        let row = &rows[id as usize * query.len()..][..query.len()];
        let ones: u32 = row.iter().zip(query).map(|(a, b)| (a ^ b).count_ones()).sum();
        if ones < below {
            out.push(key(ones, first + at as u32));
        }
    }
}

#[inline(always)]
pub(super) fn first_met(
    query: &[u64],
    held: Held<'_>,
    step: Step<'_>,
    found: &mut Vec<u64>,
) {
    let mut kept = 0;
    for at in 0..found.len() {
        let (distance, position) = unkey(found[at]);
        let (i, item) = (position as usize, step.items[position as usize]);
        let difference = |w: usize| match held {
            Held::Planes(planes) => planes.words[w * planes.stride + i] ^ query[w],
            Held::Rows(rows) => rows[item as usize * query.len() + w] ^ query[w],
        };
        let mut first = u32::MAX;
        let m = u32::try_from(step.substrings.len()).unwrap_or(u32::MAX);
        for (j, &(start, bits)) in (0_u32..).zip(step.substrings) {
            let (w, shift) = (start as usize / 64, start % 64);
            let mut part = difference(w) >> shift;
            if shift + bits > 64 {
                part |= difference(w + 1) << (64 - shift);
            }
            let ones = (part & (u64::MAX >> (64 - bits))).count_ones();
            first = first.min(ones * m + j);
        }
        found[kept] = key(distance, item);
        kept += usize::from(first >= step.number);
    }
    found.truncate(kept);
}

pub(super) fn threshold_rows(query: &[u64], rows: &[u64], below: u32, out: &mut Vec<u64>) {
    for (at, row) in (0_u32..).zip(rows.chunks_exact(query.len())) {
        let ones: u32 = row.iter().zip(query).map(|(a, b)| (a ^ b).count_ones()).sum();
        if ones < below {
            out.push(key(ones, at));
        }
    }
}

pub(super) fn to_planes(rows: &[u64], width: usize, out: &mut [u64]) {
    let n = rows.len() / width;
    for (i, row) in rows.chunks_exact(width).enumerate() {
        for (w, &word) in row.iter().enumerate() {
            out[w * n + i] = word;
        }
    }
}
