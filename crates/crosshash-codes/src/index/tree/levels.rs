//! Collapses the binary tree of leaves into levels of nodes with up to 16 children.

use std::ops::Range;

/// Children of a node, at most.
const CHILDREN: usize = 16;
/// The topmost level has at most this number of nodes.
const ROOTS: usize = 32;

/// One level: for each node, the range of nodes below it.
pub(super) type Level = Vec<Range<usize>>;

/// The levels above the leaves, bottom-up. `splits[i]` is the depth of the split between leaf `i - 1`
/// and leaf `i`.
pub(super) fn levels(mut splits: Vec<u32>) -> Vec<Level> {
    let mut levels = Vec::new();
    while splits.len() > ROOTS {
        let mut level = Level::new();
        group(&splits, 0..splits.len(), &mut level);
        join(&mut level);
        splits = level.iter().map(|range| splits[range.start]).collect();
        levels.push(level);
    }
    levels
}

/// Cuts a range at its topmost split until every part is small enough.
fn group(splits: &[u32], range: Range<usize>, out: &mut Level) {
    let mut open = vec![range];
    while let Some(range) = open.pop() {
        if range.len() <= CHILDREN {
            out.push(range);
            continue;
        }
        let inner = range.start + 1..range.end;
        let middle = inner.min_by_key(|&at| splits[at]).unwrap_or(range.end);
        open.push(middle..range.end);
        open.push(range.start..middle);
    }
}

/// Joins small neighbours, so that unbalanced splits do not make more levels than necessary.
fn join(level: &mut Level) {
    level.dedup_by(|next, last| {
        let joined = last.start..next.end;
        let small = joined.len() <= CHILDREN;
        if small {
            *last = joined;
        }
        small
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_cover_all_leaves_in_order_and_follow_the_splits() {
        // a complete binary tree of 64 leaves
        let splits: Vec<u32> = (0_u32..64).map(|i| 6 - i.trailing_zeros().min(6)).collect();
        let mut level = Level::new();
        group(&splits, 0..64, &mut level);
        assert_eq!(level, [0..16, 16..32, 32..48, 48..64]);
        // a chain
        let splits: Vec<u32> = (0..100).collect();
        let mut level = Level::new();
        group(&splits, 0..100, &mut level);
        assert_eq!(level.first(), Some(&(0..1)));
        assert_eq!(level.last(), Some(&(84..100)));
        join(&mut level);
        assert_eq!(level[0], 0..16);
        assert_eq!(level.len(), 7);
        assert!(level.windows(2).all(|pair| pair[0].end == pair[1].start));
    }
}
