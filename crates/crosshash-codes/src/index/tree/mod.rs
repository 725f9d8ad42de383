//! The bit tree: exact search in codes that models learn.
//!
//! Learned codes have far less information than bits: skewed and correlated bits, many duplicates,
//! near neighbours. Distinct codes are split recursively by one bit each, until at
//! most 32 are left (`grow.rs`). The bit of a split is the one that explains most of the
//! variance of all bits, so that the codes of a node agree in many bits. A node stores
//! the centre of its codes (the majority of every bit), the bits in which all of them agree with it,
//! and the distance of the farthest. Every code below a node is at least as far from a query as
//!
//! ```text
//! max(differing bits among those in which the codes agree, distance from the centre - radius)
//! ```
//!
//! Nodes are visited by ascending bound; the search ends when no bound is less than the distance
//! of the k-th hit. A leaf (`leaf.rs`) stores of every distinct code only the bits in which the
//! leaf's codes differ, usually 16 or 32 bits, and the items of each code, ascending. So the index
//! is smaller than a second copy of the codes, and a leaf is one or two cache lines.
//!
//! Binary splits are collapsed into nodes of up to 16 children (`levels.rs`), which a vector or two
//! compare at once. All nodes are in one array, level after level.
//!
//! The idea of the bounds is that of metric trees and of Hamming-space tries (Burkhard and Keller,
//! CACM 1973; Eghbali, Ashtiani, Tahvildari, *Online Nearest Neighbor Search Using Hamming Weight
//! Trees*, TPAMI 2020); the splitting criterion is that of multi-output regression trees
//! (variance reduction). `docs/search.md` has the measurements that led to it.

mod file;
mod grow;
mod leaf;
mod levels;
mod split;

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use self::file::Array;
use self::leaf::Leaf;
use super::mih::Progressed;
use super::scratch::with_scratch;
use super::top::Unordered;
use super::{Hit, Index, Query, Scan, answers, check_count};
use crate::kernel::Kernel;
use crate::kernel::threshold::{Nodes, unkey};
use crate::{Codes, Error, Result};

/// Leaves of a batch that are prefetched ahead.
const AHEAD: usize = 4;
/// Cost of a node or leaf that is visited, in compared codes.
const VISIT: usize = 32;

/// Codes of which a first tree is built, to find out whether it pays to build all of it.
const SAMPLE: usize = 1 << 14;

/// What leaves hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafForm {
    /// The differing bits of every code.
    Fast,
    /// These only where they take at most 16 bits; other codes are read by item number. At most 8
    /// bytes per item at 64 bits.
    Compact,
}

/// A tree of distinct codes.
pub struct BitTree {
    scan: Scan,
    kernel: Kernel,
    arrays: Arrays,
    /// Whether a query met a record of a mapped file that does not fit.
    damaged: AtomicBool,
}

/// The arrays of a tree, for one query.
#[derive(Clone, Copy)]
struct View<'a> {
    roots: u32,
    first_leaf: u32,
    nodes: Nodes<'a>,
    children: &'a [u32],
    records: &'a [u32],
    words: &'a [u64],
}

/// The content of a tree: what a file stores.
struct Arrays {
    /// Nodes of the topmost level.
    roots: u32,
    /// The first leaf among the nodes.
    first_leaf: u32,
    /// Number of nodes.
    nodes: u32,
    /// See [`Nodes`].
    centres: Array<u64>,
    fixed: Array<u64>,
    radii: Array<u16>,
    /// The first child of every node that is no leaf; one more for the end.
    children: Array<u32>,
    /// Where the record of each leaf begins.
    records: Array<u32>,
    /// The records of the leaves.
    words: Array<u64>,
    /// Distinct codes.
    distinct: u64,
}

/// Memory of a thread that searches.
#[derive(Default)]
struct Scratch {
    /// Nodes and leaves to visit, by their bound.
    inner: Vec<Vec<u32>>,
    leaves: Vec<Vec<u32>>,
    batch: Vec<u32>,
    ranges: Vec<std::ops::Range<u32>>,
    found: Vec<u64>,
    key: Vec<u64>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl BitTree {
    /// Builds the tree on all threads; `progress` is called with the number of items.
    pub fn new(
        codes: Codes,
        form: LeafForm,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<BitTree> {
        check_count(&codes)?;
        let codes = codes.shared();
        let arrays = grow::grow(&codes, form, progress);
        BitTree::over(codes, arrays)
    }

    fn over(codes: Codes, arrays: Arrays) -> Result<BitTree> {
        let (scan, kernel) = (Scan::new(codes.shared())?, Kernel::best());
        Ok(BitTree { scan, kernel, arrays, damaged: AtomicBool::new(false) })
    }

    /// Whether a tree is promising: in the leaves of a tree of sampled codes, these agree in a third of the
    /// bits. Random codes agree in little more than those that split them.
    pub(super) fn suits(codes: &Codes) -> Result<bool> {
        let n = codes.len();
        let count = n.min(SAMPLE);
        let drawn: Vec<usize> = (0..count).map(|nth| nth * n / count.max(1)).collect();
        let tree = BitTree::new(codes.select(&drawn), LeafForm::Compact, &|_| ())?;
        let View { first_leaf, nodes, .. } = tree.view();
        let first = first_leaf as usize;
        let leaves = nodes.stride - first;
        // padding is fixed, but no part of a code
        let padding = codes.bits().words() * 64 - codes.bits().get();
        let planes = (0..codes.bits().words()).map(|w| w * nodes.stride + first);
        let fixed: u64 = planes
            .flat_map(|at| &nodes.fixed[at..at + leaves])
            .map(|word| u64::from(word.count_ones()))
            .sum();
        let agreed = fixed - (padding * leaves) as u64;
        Ok(agreed * 3 >= (codes.bits().get() * leaves) as u64)
    }

    /// Number of different codes.
    pub fn distinct(&self) -> u64 {
        self.arrays.distinct
    }

    fn view(&self) -> View<'_> {
        let tree = &self.arrays;
        let nodes = Nodes {
            centres: &tree.centres,
            fixed: &tree.fixed,
            radii: &tree.radii,
            stride: tree.nodes as usize,
        };
        View {
            roots: tree.roots,
            first_leaf: tree.first_leaf,
            nodes,
            children: &tree.children,
            records: &tree.records,
            words: &tree.words,
        }
    }

    /// The hits of one query, unless the work would exceed `budget`.
    pub(super) fn one(&self, code: &[u64], query: &Query<'_>, budget: usize) -> Progressed {
        with_scratch(&SCRATCH, |scratch| self.visit(code, query, budget, scratch))
    }

    fn visit(
        &self,
        code: &[u64],
        query: &Query<'_>,
        budget: usize,
        scratch: &mut Scratch,
    ) -> Progressed {
        let farthest = self.codes().bits().get() + 1;
        let mut top = Unordered::new(query, query.below(self.codes()));
        let Scratch { inner, leaves, batch, ranges, found, key } = scratch;
        for lists in [&mut *inner, &mut *leaves] {
            lists.iter_mut().for_each(Vec::clear);
            lists.resize_with(farthest.max(lists.len()), Vec::new);
        }
        let tree = self.view();
        let mut work = tree.roots as usize;
        ranges.clear();
        ranges.push(0..tree.roots);
        let mut bound = 0;
        loop {
            // the children of all nodes with this bound
            found.clear();
            self.kernel.bounds(code, tree.nodes, ranges, top.below(), found);
            for &at in found.iter() {
                // the bound of a parent holds for its children
                let (own, node) = unkey(at);
                let lists =
                    if node >= tree.first_leaf { &mut *leaves } else { &mut *inner };
                lists[own.max(bound) as usize].push(node);
            }
            ranges.clear();
            while bound < top.below() && ranges.is_empty() {
                if !inner[bound as usize].is_empty() {
                    for node in inner[bound as usize].drain(..) {
                        let node = node as usize;
                        let range = tree.children[node]..tree.children[node + 1];
                        work += VISIT + range.len();
                        ranges.push(range);
                    }
                    continue;
                }
                batch.clear();
                std::mem::swap(batch, &mut leaves[bound as usize]);
                batch.iter().take(AHEAD).for_each(|&node| self.prefetch(tree, node));
                for (nth, &node) in batch.iter().enumerate() {
                    if bound >= top.below() {
                        break;
                    }
                    if let Some(&soon) = batch.get(nth + AHEAD) {
                        self.prefetch(tree, soon);
                    }
                    found.clear();
                    work +=
                        VISIT + self.leaf(tree, code, node, query, &mut top, found, key);
                }
                bound += 1;
            }
            if ranges.is_empty() {
                return Progressed { top, finished: true, work };
            }
            if work > budget {
                return Progressed { top, finished: false, work };
            }
        }
    }

    /// Prefetches the record of a leaf.
    #[inline]
    fn prefetch(&self, tree: View<'_>, node: u32) {
        let at = tree.records[(node - tree.first_leaf) as usize] as usize;
        self.kernel.fetch_words(tree.words, at);
        self.kernel.fetch_words(tree.words, at + 16);
    }

    /// Offers the items of a leaf; returns the number of codes compared.
    #[expect(clippy::too_many_arguments, reason = "the parts of one search")]
    #[inline]
    fn leaf(
        &self,
        tree: View<'_>,
        code: &[u64],
        node: u32,
        query: &Query<'_>,
        top: &mut Unordered,
        found: &mut Vec<u64>,
        key: &mut Vec<u64>,
    ) -> usize {
        let (nodes, at) = (tree.nodes, (node - tree.first_leaf) as usize);
        let agreed = nodes.agreed(code, node as usize);
        let Some(below) = top.below().checked_sub(agreed).filter(|&below| below > 0) else {
            return 0;
        };
        let start = tree.records[at] as usize;
        let Some(leaf) = Leaf::new(&tree.words[start..]) else {
            self.damaged.store(true, Ordering::Relaxed);
            return 0;
        };
        let codes = self.codes();
        leaf.compare(self.kernel, code, nodes, node as usize, codes, below, found, key);
        for &at in found.iter() {
            let (distance, nth) = unkey(at);
            let distance = agreed + distance;
            if distance < top.below() {
                let items = leaf.items_of(nth as usize).iter().copied();
                if !top.offer_all(query, distance, items, codes.len()) {
                    self.damaged.store(true, Ordering::Relaxed);
                }
            }
        }
        leaf.len()
    }
}

impl Index for BitTree {
    fn codes(&self) -> &Codes {
        self.scan.codes()
    }

    fn search(
        &self,
        queries: &Codes,
        query: &Query<'_>,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Vec<Hit>>> {
        let one = |code: &[u64]| self.one(code, query, usize::MAX);
        let answers = answers(&self.scan, queries, query, progress, one)?;
        if self.damaged.load(Ordering::Relaxed) {
            return Err(Error::content("the file of the tree is damaged; build it again"));
        }
        self.check_file()?;
        Ok(answers)
    }

    fn extra_bytes(&self) -> usize {
        let tree = &self.arrays;
        8 * (tree.centres.len() + tree.fixed.len() + tree.words.len())
            + 2 * tree.radii.len()
            + 4 * (tree.children.len() + tree.records.len())
    }

    fn explain(&self) -> String {
        format!(
            "tree: {} different codes in {} leaves, {}",
            self.arrays.distinct,
            self.arrays.records.len(),
            self.kernel.name()
        )
    }
}
