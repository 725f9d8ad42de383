//! The record of a leaf: codes that agree in most bits, and their items.
//!
//! In words of 64 bits:
//!
//! ```text
//! head     bits 0..16 number of codes, 16..24 form of the lanes, 24..32 bytes of an end,
//!          32..64 number of items
//! lanes    the bits in which the leaf's codes differ, moved together: 16 or 32 bits a code, or planes
//!          of 64 bits; none for one code, or if codes are read by their first item
//! ends     for every code, where its items end: 1, 2 or 4 bytes each; none if each has one item
//! items    item numbers, 4 bytes each, by code, ascending
//! ```
//!
//! Each part is padded to whole words.

use std::ops::Range;

use super::LeafForm;
use crate::Codes;
use crate::kernel::Kernel;
use crate::kernel::threshold::{Nodes, Planes, key};

/// How the differing bits of a code are stored.
const NONE: u8 = 0;
const BY_ITEM: u8 = 1;
const SHORT: u8 = 2;
const LONG: u8 = 3;
const PLANES: u8 = 4;

/// A record.
pub(super) struct Leaf<'a> {
    words: &'a [u64],
    codes: usize,
    form: u8,
    end_bytes: u8,
    items: usize,
    /// Where the ends begin, in words.
    ends_at: usize,
    items_at: usize,
}

/// Words of one part of a record.
fn padded(count: usize, bytes: usize) -> usize {
    (count * bytes).div_ceil(8)
}

impl<'a> Leaf<'a> {
    /// The record at the beginning of `words`; `None` if it does not fit.
    #[inline]
    pub(super) fn new(words: &'a [u64]) -> Option<Leaf<'a>> {
        let [a, b, c, d, items @ ..] = words.first()?.to_le_bytes();
        let (codes, form, end_bytes) = (usize::from(u16::from_le_bytes([a, b])), c, d);
        if codes == 0 || !matches!(end_bytes, 0 | 1 | 2 | 4) || form > PLANES {
            return None;
        }
        let lanes = match form {
            SHORT => padded(codes, 2),
            LONG => padded(codes, 4),
            // the number of planes follows
            PLANES => 1 + codes * usize::from(u8::try_from(*words.get(1)?).ok()?),
            _ => 0,
        };
        let ends_at = 1 + lanes;
        let items_at = ends_at + padded(codes, usize::from(end_bytes));
        let items = u32::from_le_bytes(items) as usize;
        let leaf = Leaf { words, codes, form, end_bytes, items, ends_at, items_at };
        (leaf.words() <= words.len()).then_some(leaf)
    }

    /// Number of codes.
    pub(super) fn len(&self) -> usize {
        self.codes
    }

    /// Words of the record.
    pub(super) fn words(&self) -> usize {
        self.items_at + padded(self.items, 4)
    }

    /// Appends position and distance, in the bits in which the codes of the leaf differ, of codes
    /// that are less than `below` away in these.
    #[expect(clippy::too_many_arguments, reason = "the parts of one search")]
    #[expect(clippy::cast_possible_truncation, reason = "lanes of 16 and 32 bits")]
    #[inline]
    pub(super) fn compare(
        &self,
        kernel: Kernel,
        code: &[u64],
        nodes: Nodes<'_>,
        node: usize,
        rows: &Codes,
        below: u32,
        found: &mut Vec<u64>,
        key_words: &mut Vec<u64>,
    ) {
        match self.form {
            SHORT => {
                let query = gather(kernel, code, nodes, node) as u16;
                let lanes: &[u16] = bytemuck::cast_slice(&self.words[1..self.ends_at]);
                kernel.lanes16(query, &lanes[..self.codes], below, found);
            }
            LONG => {
                let query = gather(kernel, code, nodes, node) as u32;
                let lanes: &[u32] = bytemuck::cast_slice(&self.words[1..self.ends_at]);
                kernel.lanes32(query, &lanes[..self.codes], below, found);
            }
            PLANES => {
                key_words.clear();
                let masks = (0..code.len()).map(|w| !nodes.fixed[w * nodes.stride + node]);
                moved(kernel, code, masks, key_words);
                if key_words.len() * self.codes + 2 != self.ends_at {
                    return; // a damaged record
                }
                let planes =
                    Planes { words: &self.words[2..self.ends_at], stride: self.codes };
                let all = 0..self.codes as u32;
                kernel.threshold(
                    key_words,
                    planes,
                    std::slice::from_ref(&all),
                    below,
                    found,
                );
            }
            BY_ITEM => {
                for nth in 0..self.codes {
                    let item = self.items_of(nth).first().copied().unwrap_or(u32::MAX);
                    if item as usize >= rows.len() {
                        continue;
                    }
                    let row = rows.code(item as usize);
                    let differing = |w: usize| {
                        ((row[w] ^ code[w]) & !nodes.fixed[w * nodes.stride + node])
                            .count_ones()
                    };
                    let distance: u32 = (0..code.len()).map(differing).sum();
                    if distance < below {
                        found.push(key(distance, nth as u32));
                    }
                }
            }
            _ => found.push(key(0, 0)),
        }
    }

    /// The items of a code, ascending.
    #[inline]
    pub(super) fn items_of(&self, nth: usize) -> &'a [u32] {
        let all: &[u32] = bytemuck::cast_slice(&self.words[self.items_at..self.words()]);
        all.get(self.range(nth)).unwrap_or(&[])
    }

    #[inline]
    fn range(&self, nth: usize) -> Range<usize> {
        let ends = &self.words[self.ends_at..self.items_at];
        let end = |nth: usize| match self.end_bytes {
            1 => usize::from(bytemuck::cast_slice::<u64, u8>(ends)[nth]),
            2 => usize::from(bytemuck::cast_slice::<u64, u16>(ends)[nth]),
            _ => bytemuck::cast_slice::<u64, u32>(ends)[nth] as usize,
        };
        match (self.end_bytes, nth) {
            (0, _) => nth..nth + 1,
            (_, 0) => 0..end(0),
            _ => end(nth - 1)..end(nth),
        }
    }
}

/// The differing bits of a query, at most 64 of them.
#[inline]
fn gather(kernel: Kernel, code: &[u64], nodes: Nodes<'_>, node: usize) -> u64 {
    let (mut all, mut shift) = (0, 0);
    for (w, &word) in code.iter().enumerate() {
        let mask = !nodes.fixed[w * nodes.stride + node];
        if mask != 0 {
            all |= kernel.extract(word, mask) << shift;
            shift += mask.count_ones();
        }
    }
    all
}

/// The bits of a code under masks, moved together.
fn moved(
    kernel: Kernel,
    code: &[u64],
    masks: impl Iterator<Item = u64>,
    out: &mut Vec<u64>,
) {
    let (mut last, mut used) = (0_u64, 0_u32);
    for (&word, mask) in code.iter().zip(masks) {
        let (bits, count) = (kernel.extract(word, mask), mask.count_ones());
        if count == 0 {
            continue;
        }
        last |= bits << used;
        used += count;
        if used >= 64 {
            out.push(last);
            used -= 64;
            last = if used == 0 { 0 } else { bits >> (count - used) };
        }
    }
    if used > 0 {
        out.push(last);
    }
}

/// Appends the record of codes (`width` words each) with their items; `fixed` are the bits in which
/// the codes agree.
#[expect(clippy::cast_possible_truncation, reason = "lanes of 16 and 32 bits")]
pub(super) fn write(
    kernel: Kernel,
    rows: &[u64],
    fixed: &[u64],
    items: &[&[u32]],
    form: LeafForm,
    out: &mut Vec<u64>,
) {
    let width = fixed.len();
    let differing: u32 = fixed.iter().map(|word| word.count_zeros()).sum();
    let lanes = match (form, differing) {
        (_, 0) => NONE,
        (_, 1..=16) => SHORT,
        (LeafForm::Compact, _) => BY_ITEM,
        (LeafForm::Fast, 17..=32) => LONG,
        (LeafForm::Fast, _) => PLANES,
    };
    let all: usize = items.iter().map(|items| items.len()).sum();
    let end_bytes: u8 = match all {
        _ if all == items.len() => 0,
        0..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    };
    let head = items.len() as u64 & 0xffff
        | u64::from(lanes) << 16
        | u64::from(end_bytes) << 24
        | (all as u64) << 32;
    out.push(head);
    let mut keys = Vec::new();
    for row in rows.chunks_exact(width) {
        moved(kernel, row, fixed.iter().map(|word| !word), &mut keys);
    }
    match lanes {
        SHORT => pack(&keys.iter().map(|&key| key as u16).collect::<Vec<_>>(), out),
        LONG => pack(&keys.iter().map(|&key| key as u32).collect::<Vec<_>>(), out),
        PLANES => {
            let planes = keys.len() / items.len();
            out.push(planes as u64);
            for plane in 0..planes {
                out.extend(keys.iter().skip(plane).step_by(planes));
            }
        }
        _ => {}
    }
    let ends = items.iter().scan(0, |end, items| {
        *end += items.len() as u32;
        Some(*end)
    });
    match end_bytes {
        1 => pack(&ends.map(|end| end as u8).collect::<Vec<_>>(), out),
        2 => pack(&ends.map(|end| end as u16).collect::<Vec<_>>(), out),
        4 => pack(&ends.collect::<Vec<_>>(), out),
        _ => {}
    }
    pack(&items.concat(), out);
}

/// Appends values, padded to whole words.
fn pack<T: bytemuck::NoUninit>(values: &[T], out: &mut Vec<u64>) {
    let bytes: &[u8] = bytemuck::cast_slice(values);
    let (words, rest) = bytes.as_chunks::<8>();
    out.extend(words.iter().map(|word| u64::from_ne_bytes(*word)));
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        out.push(u64::from_ne_bytes(last));
    }
}
