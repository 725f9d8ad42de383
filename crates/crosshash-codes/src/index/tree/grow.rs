//! Builds the tree: distinct codes by sorting, recursive splits, leaves, levels of nodes.
//!
//! All steps are parallel. Codes are moved, so that those of a node are adjacent in memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::file::Array;
use super::levels::{Level, levels};
use super::{Arrays, LeafForm, leaf, split};
use crate::Codes;
use crate::index::distinct::{Distinct, number};
use crate::index::huge_vec::HugeVec;
use crate::kernel::Kernel;
use crate::kernel::threshold::PADDING;

/// Codes of a leaf, at most.
const LEAF: usize = 32;
/// Nodes of fewer codes are split on one thread.
const TASK: usize = 1 << 13;
/// Codes that determine the centre of a node.
const CENTRE: usize = 1024;

/// Leaves in the order of the tree.
#[derive(Default)]
struct Grown {
    /// The summary of each leaf, as in [`crate::kernel::threshold::Nodes`], row after row.
    centres: Vec<u64>,
    fixed: Vec<u64>,
    radii: Vec<u16>,
    /// The depth of the split before each leaf.
    splits: Vec<u32>,
    /// The number of codes of each leaf, and the words of its record.
    sizes: Vec<u32>,
    lengths: Vec<u32>,
    words: Vec<u64>,
}

/// What all tasks share.
struct Job<'a> {
    width: usize,
    form: LeafForm,
    kernel: Kernel,
    starts: &'a [u32],
    items: &'a [u32],
    done: AtomicUsize,
    progress: &'a (dyn Fn(usize) + Sync),
}

pub(super) fn grow(
    codes: &Codes,
    form: LeafForm,
    progress: &(dyn Fn(usize) + Sync),
) -> Arrays {
    let width = codes.bits().words();
    let Distinct { mut rows, starts, items } = Distinct::of(codes);
    let count = rows.len() / width;
    let mut ids: Vec<u32> = (0..number(count)).collect();
    let job = Job {
        width,
        form,
        kernel: Kernel::best(),
        starts: &starts,
        items: &items,
        done: AtomicUsize::new(0),
        progress,
    };
    let parts = if count == 0 { Vec::new() } else { job.parts(&mut rows, &mut ids, 0, 0) };
    drop(ids);
    assemble(parts, &rows, width, count as u64, job.kernel)
}

impl Job<'_> {
    /// The leaves of a node with these codes, which are the distinct codes `ids`.
    fn parts(
        &self,
        rows: &mut [u64],
        ids: &mut [u32],
        depth: u32,
        before: u32,
    ) -> Vec<Grown> {
        if ids.len() <= TASK {
            let mut grown = Grown::default();
            self.grow(rows, ids, depth, before, &mut grown);
            let items: usize = ids.iter().map(|&id| self.items_of(id).len()).sum();
            let done = self.done.fetch_add(items, Ordering::Relaxed) + items;
            (self.progress)(done);
            return vec![grown];
        }
        let middle = self.split(rows, ids);
        let (left_rows, right_rows) = rows.split_at_mut(middle * self.width);
        let (left_ids, right_ids) = ids.split_at_mut(middle);
        let (mut left, right) = rayon::join(
            || self.parts(left_rows, left_ids, depth + 1, before),
            || self.parts(right_rows, right_ids, depth + 1, depth),
        );
        left.extend(right);
        left
    }

    fn grow(
        &self,
        rows: &mut [u64],
        ids: &mut [u32],
        depth: u32,
        before: u32,
        out: &mut Grown,
    ) {
        if ids.len() <= LEAF {
            self.leaf(rows, ids, before, out);
            return;
        }
        let middle = self.split(rows, ids);
        let (left_rows, right_rows) = rows.split_at_mut(middle * self.width);
        let (left_ids, right_ids) = ids.split_at_mut(middle);
        self.grow(left_rows, left_ids, depth + 1, before, out);
        self.grow(right_rows, right_ids, depth + 1, depth, out);
    }

    /// Moves codes without the best bit to the front; returns their number.
    fn split(&self, rows: &mut [u64], ids: &mut [u32]) -> usize {
        let width = self.width;
        let bit = split::best_bit(rows, width).unwrap_or_else(|| {
            let first = rows[..width].to_vec();
            let differs = |row: &[u64]| {
                let words = row.iter().zip(&first).enumerate();
                let mut bits = words.map(|(w, (a, b))| (w, a ^ b));
                bits.find(|(_, word)| *word != 0)
                    .map(|(w, word)| w * 64 + word.trailing_zeros() as usize)
            };
            rows.chunks_exact(width).find_map(differs).unwrap_or(0)
        });
        let (w, shift) = (bit / 64, bit % 64);
        let mut front = 0;
        for at in 0..ids.len() {
            // without a branch: which half a code belongs to cannot be predicted
            let zero = rows[at * width + w] >> shift & 1 == 0;
            ids.swap(front, at);
            for w in 0..width {
                rows.swap(front * width + w, at * width + w);
            }
            front += usize::from(zero);
        }
        if front == 0 || front == ids.len() { ids.len() / 2 } else { front }
    }

    fn leaf(&self, rows: &[u64], ids: &[u32], before: u32, out: &mut Grown) {
        let summary = Summary::of(rows, self.width, rows.len());
        let items: Vec<&[u32]> = ids.iter().map(|&id| self.items_of(id)).collect();
        let start = out.words.len();
        leaf::write(self.kernel, rows, &summary.fixed, &items, self.form, &mut out.words);
        out.lengths.push(number(out.words.len() - start));
        out.centres.extend(summary.centre);
        out.fixed.extend(summary.fixed);
        out.radii.push(summary.radius);
        out.splits.push(before);
        out.sizes.push(number(ids.len()));
    }

    fn items_of(&self, id: u32) -> &[u32] {
        let id = id as usize;
        &self.items[self.starts[id] as usize..self.starts[id + 1] as usize]
    }
}

/// What a node stores of its codes.
struct Summary {
    centre: Vec<u64>,
    fixed: Vec<u64>,
    radius: u16,
}

impl Summary {
    /// The centre is determined by at most `sample` codes, everything else by all.
    fn of(rows: &[u64], width: usize, sample: usize) -> Summary {
        let n = rows.len() / width;
        let (mut all, mut any) = (vec![u64::MAX; width], vec![0; width]);
        for row in rows.chunks_exact(width) {
            for w in 0..width {
                all[w] &= row[w];
                any[w] |= row[w];
            }
        }
        let fixed: Vec<u64> = all.iter().zip(&any).map(|(all, any)| !(all ^ any)).collect();
        let sampled = n.min(sample);
        let mut centre = all;
        for w in 0..width {
            let mut counts = [0_u32; 64];
            for k in 0..sampled {
                let word = rows[k * n / sampled * width + w];
                for (bit, count) in counts.iter_mut().enumerate() {
                    *count += u32::from(word >> bit & 1 == 1);
                }
            }
            let majority = |word: u64, (bit, &count): (usize, &u32)| {
                word | u64::from(2 * count as usize > sampled) << bit
            };
            let word = counts.iter().enumerate().fold(0, majority);
            centre[w] |= word & !fixed[w];
        }
        let distance = |row: &[u64]| -> u32 {
            row.iter().zip(&centre).map(|(a, b)| (a ^ b).count_ones()).sum()
        };
        let radius = rows.chunks_exact(width).map(distance).max().unwrap_or(0);
        Summary { radius: u16::try_from(radius).unwrap_or(u16::MAX), centre, fixed }
    }
}

/// Joins the leaves, adds the levels above them, and stores words as planes.
fn assemble(
    parts: Vec<Grown>,
    rows: &[u64],
    width: usize,
    distinct: u64,
    kernel: Kernel,
) -> Arrays {
    let of = |list: fn(&Grown) -> &Vec<u32>| -> Vec<u32> {
        parts.iter().flat_map(|part| list(part).iter().copied()).collect()
    };
    let lengths = of(|part| &part.lengths);
    let above = levels(of(|part| &part.splits));
    // the codes below every node, level by level from the leaves up
    let mut spans: Level = of(|part| &part.sizes)
        .iter()
        .scan(0, |end, &size| {
            let start = *end;
            *end += size as usize;
            Some(start..*end)
        })
        .collect();
    let leaves = spans.len();
    let mut summaries: Vec<Vec<Summary>> = Vec::new();
    for level in &above {
        spans = level
            .iter()
            .map(|nodes| spans[nodes.start].start..spans[nodes.end - 1].end)
            .collect();
        let summary = |span: &std::ops::Range<usize>| {
            Summary::of(&rows[span.start * width..span.end * width], width, CENTRE)
        };
        summaries.push(spans.par_iter().map(summary).collect());
    }
    let first_leaf: usize = above.iter().map(Vec::len).sum();
    let nodes = first_leaf + leaves;
    let mut centres = HugeVec::zeroed(nodes * width);
    let mut fixed = HugeVec::zeroed(nodes * width);
    let mut radii = HugeVec::zeroed(nodes + PADDING);
    let mut children = HugeVec::zeroed(first_leaf + 1);
    let mut at = 0;
    for (level, summaries) in above.iter().zip(&summaries).rev() {
        let below = at + level.len();
        for (range, summary) in level.iter().zip(summaries) {
            children[at] = number(below + range.start);
            radii[at] = summary.radius;
            for w in 0..width {
                centres[w * nodes + at] = summary.centre[w];
                fixed[w * nodes + at] = summary.fixed[w];
            }
            at += 1;
        }
    }
    children[first_leaf] = number(nodes);
    for part in &parts {
        for (leaf, &radius) in part.radii.iter().enumerate() {
            radii[at] = radius;
            for w in 0..width {
                centres[w * nodes + at] = part.centres[leaf * width + w];
                fixed[w * nodes + at] = part.fixed[leaf * width + w];
            }
            at += 1;
        }
    }
    let mut records = HugeVec::zeroed(leaves);
    let mut end = 0;
    for (record, &length) in records.iter_mut().zip(&lengths) {
        *record = end;
        end += length;
    }
    let mut words = HugeVec::zeroed(end as usize);
    let mut start = 0;
    for part in parts {
        words[start..start + part.words.len()].copy_from_slice(&part.words);
        start += part.words.len();
    }
    let roots = above.last().map_or(leaves, Vec::len);
    let _ = kernel;
    Arrays {
        roots: number(roots),
        first_leaf: number(first_leaf),
        nodes: number(nodes),
        centres: Array::Owned(centres),
        fixed: Array::Owned(fixed),
        radii: Array::Owned(radii),
        children: Array::Owned(children),
        records: Array::Owned(records),
        words: Array::Owned(words),
        distinct,
    }
}
