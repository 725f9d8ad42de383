//! Indexes: exact search by Hamming distance, ties by item number.
//!
//! An [`Index`] owns codes and answers [`Query`]s; [`INDEXES`] lists every kind. All of them
//! give the same hits, bit for bit: a plain loop over all codes is the reference
//! (`tests/index_conformance.rs`). They differ in time and memory only.

mod auto;
mod cluster_lists;
mod distinct;
mod filter;
mod huge_vec;
mod items;
mod mih;
mod mih_distinct;
mod rank;
mod scan;
mod scratch;
mod substrings;
mod top;
mod tree;

pub use auto::Auto;
pub use cluster_lists::ClusterLists;
pub use filter::{
    Columns, ColumnsBuilder, Comparison, FieldParts, FieldSource, FieldTest, FieldValue,
    Filter, LabelNames, Literal, PlainOrder, PlainTest, Subjects, check_fields,
};
pub use items::ItemSet;
pub use mih::{Form, Mih};
pub use mih_distinct::{BucketForm, MihDistinct};
pub use rank::{Rank, Scorer};
pub use scan::Scan;
pub use tree::{BitTree, LeafForm};

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use self::mih::Progressed;
use crate::{Bits, Codes, Error, Result};

/// Queries that a thread takes together.
const TASK: usize = 4;
/// If less than one item in this number is allowed, allowed items are compared one by one.
const SPARSE: usize = 64;

/// One hit: an item and its distance from the query. Orders by distance, then by item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hit {
    /// Hamming distance.
    pub distance: u32,
    /// The item's number in the index, counted from 0.
    pub item: u32,
}

/// The parameters of a search, the same for every query of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// Maximum number of hits; `usize::MAX` for all.
    pub k: usize,
    /// Only hits at most this far away.
    pub radius: Option<u32>,
    /// Number of first hits to skip, for pages. The order is total (distance,
    /// then item number), so pages neither overlap nor miss anything, ties or not.
    pub skip: usize,
    /// Only these items.
    pub allowed: Option<&'a ItemSet>,
    /// Whether all items as near as the last hit are hits, too, even if they are more than `k`.
    pub ties: bool,
}

impl<'a> Query<'a> {
    /// The `k` nearest items.
    pub fn nearest(k: usize) -> Query<'a> {
        Query { k, radius: None, skip: 0, allowed: None, ties: false }
    }

    /// Every item at most `radius` away.
    pub fn within(radius: u32) -> Query<'a> {
        Query { radius: Some(radius), ..Query::nearest(usize::MAX) }
    }

    /// How many hits must be found before some are skipped.
    fn depth(&self) -> usize {
        if self.k == 0 { 0 } else { self.k.saturating_add(self.skip) }
    }

    /// Distances that count are less than this.
    fn below(&self, codes: &Codes) -> u32 {
        let farthest = u32::try_from(codes.bits().get()).unwrap_or(u32::MAX);
        self.radius.unwrap_or(farthest).min(farthest) + 1
    }

    /// Whether so few items are allowed that they are compared one by one.
    fn allows_few(&self) -> bool {
        self.allowed.is_some_and(|items| items.count() < items.len() / SPARSE)
    }

    fn allows(&self, item: u32) -> bool {
        self.allowed.is_none_or(|items| items.contains(item))
    }

    /// Queries must be as long as the codes.
    pub(crate) fn check_bits(&self, bits: Bits, queries: &Codes) -> Result<()> {
        if bits != queries.bits() {
            return Err(Error::Mismatch {
                left: "the index".into(),
                left_size: bits.get(),
                right: "the query".into(),
                right_size: queries.bits().get(),
                unit: "bits a code",
                remedy: "encode both by one model",
            });
        }
        Ok(())
    }

    /// A set of allowed items must be made for an index of this many items.
    pub(crate) fn check_len(&self, len: usize) -> Result<()> {
        match self.allowed {
            Some(items) if items.len() != len => Err(Error::Mismatch {
                left: "the index".into(),
                left_size: len,
                right: "the filter".into(),
                right_size: items.len(),
                unit: "items",
                remedy: "make the filter for this index",
            }),
            _ => Ok(()),
        }
    }

    /// Queries and filter must fit the index.
    fn check(&self, codes: &Codes, queries: &Codes) -> Result<()> {
        self.check_bits(codes.bits(), queries)?;
        self.check_len(codes.len())
    }
}

/// Exact search over the codes it owns.
pub trait Index: Send + Sync {
    /// The codes, in the order of their item numbers.
    fn codes(&self) -> &Codes;

    /// The hits of every query, nearest first, ties by item number. `progress` is called with
    /// the number of finished queries.
    fn search(
        &self,
        queries: &Codes,
        query: &Query<'_>,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Vec<Hit>>>;

    /// Bytes held beyond the codes.
    fn extra_bytes(&self) -> usize;

    /// How queries are answered, and why, as a sentence.
    fn explain(&self) -> String;
}

/// A kind of index: name, description, constructor.
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// Builds one.
    pub build: Build,
}

/// Makes an index of codes; the closure is called with the number of finished items, if it takes
/// long.
pub type Build = fn(Codes, &(dyn Fn(usize) + Sync)) -> Result<Box<dyn Index>>;

/// Every kind of index, in the order tables print them.
pub const INDEXES: &[Kind] = &[
    Kind {
        name: "scan",
        about: "every code, blocked: no memory beyond the codes",
        build: |codes, _| Ok(Box::new(Scan::new(codes)?)),
    },
    Kind {
        name: "mih-lean",
        about: "multi-index hashing, item numbers only: about twice the codes more",
        build: |codes, progress| Ok(Box::new(Mih::new(codes, Form::Lean, progress)?)),
    },
    Kind {
        name: "mih",
        about: "multi-index hashing with copies of the codes: 6 to 10 times the codes",
        build: |codes, progress| Ok(Box::new(Mih::new(codes, Form::Fast, progress)?)),
    },
    Kind {
        name: "cluster-lists",
        about: "lists around cluster centres, for clustered codes: little more than a second copy",
        build: |codes, _| Ok(Box::new(ClusterLists::new(codes)?)),
    },
    Kind {
        name: "tree",
        about: "a tree of the different codes, for learned codes: about the size of the codes more",
        build: |codes, progress| {
            Ok(Box::new(BitTree::new(codes, LeafForm::Fast, progress)?))
        },
    },
    Kind {
        name: "tree-compact",
        about: "the same with at most 8 bytes an item more at 64 bits",
        build: |codes, progress| {
            Ok(Box::new(BitTree::new(codes, LeafForm::Compact, progress)?))
        },
    },
    Kind {
        name: "mih-distinct",
        about: "multi-index hashing of the different codes, for learned codes: about twice the codes more",
        build: |codes, progress| {
            Ok(Box::new(MihDistinct::new(codes, BucketForm::Fast, progress)?))
        },
    },
    Kind {
        name: "mih-distinct-compact",
        about: "the same with fewer tables: less than the size of the codes more",
        build: |codes, progress| {
            Ok(Box::new(MihDistinct::new(codes, BucketForm::Compact, progress)?))
        },
    },
    Kind {
        name: "auto",
        about: "times the others on the codes and takes the fastest for each query",
        build: |codes, progress| Ok(Box::new(Auto::new(codes, progress)?)),
    },
];

/// Builds an index by the name of its kind. `auto:N` is `auto` with at most `N` bytes per item,
/// codes included.
pub fn build(
    name: &str,
    codes: Codes,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Box<dyn Index>> {
    if let Some(bytes) = name.strip_prefix("auto:").and_then(|bytes| bytes.parse().ok()) {
        return Ok(Box::new(Auto::within(codes, Some(bytes), progress)?));
    }
    let Some(kind) = INDEXES.iter().find(|kind| kind.name == name) else {
        let known: Vec<&str> = INDEXES.iter().map(|kind| kind.name).collect();
        return Err(Error::content(format!(
            "no index named {name:?}; try one of: {}",
            known.join(", ")
        )));
    };
    (kind.build)(codes, progress)
}

/// The hits of every query by `one`; a scan answers the queries that it does not finish, and all if few items are
/// allowed.
fn answers(
    scan: &Scan,
    queries: &Codes,
    query: &Query<'_>,
    progress: &(dyn Fn(usize) + Sync),
    one: impl Fn(&[u64]) -> Progressed + Sync + Send,
) -> Result<Vec<Vec<Hit>>> {
    query.check(scan.codes(), queries)?;
    if query.allows_few() {
        return scan.search(queries, query, progress);
    }
    let done = AtomicUsize::new(0);
    let found = each(queries.len(), |q| {
        let hits = one(queries.code(q)).settled(query);
        if hits.is_ok() {
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        }
        hits
    });
    let left = |(q, hits): (u32, &std::result::Result<_, u32>)| {
        hits.as_ref().err().map(|&below| (q, below))
    };
    let (rest, below): (Vec<u32>, Vec<u32>) = (0..).zip(&found).filter_map(left).unzip();
    let before = queries.len() - rest.len();
    let scanned =
        scan.chosen(queries, &rest, &below, query, &|done| progress(before + done));
    let mut scanned = scanned.into_iter();
    let hits = |hits: std::result::Result<_, u32>| {
        hits.unwrap_or_else(|_| scanned.next().unwrap_or_default())
    };
    Ok(found.into_iter().map(hits).collect())
}

/// `one` of every number below `count`, on all threads; a single one on this thread.
fn each<T: Send>(count: usize, one: impl Fn(usize) -> T + Sync + Send) -> Vec<T> {
    match count {
        1 => vec![one(0)],
        n => (0..n).into_par_iter().with_min_len(TASK).map(one).collect(),
    }
}

/// Item numbers are 32 bits wide.
fn check_count(codes: &Codes) -> Result<()> {
    if u32::try_from(codes.len()).is_err() {
        return Err(Error::content(format!(
            "{} codes; one index holds at most {}: make several",
            codes.len(),
            u32::MAX
        )));
    }
    Ok(())
}
