//! The file of a tree, and arrays that are in memory or in such a file.
//!
//! A container of sections (`sections.rs`) with magic "XHTREE\0\0", version 1; rows are the items:
//!
//! ```text
//! kind 1  u64: nodes of the topmost level, first leaf, nodes, different codes, fingerprint of the codes
//! kind 2  u64: centres of the nodes, by word
//! kind 3  u64: bits in which the codes of a node agree, by word
//! kind 4  u16: radii of the nodes, and 8 unused
//! kind 5  u32: the first child of every node above the leaves; one more for the end
//! kind 6  u32: where the record of each leaf begins, in words
//! kind 7  u64: records of the leaves (`leaf.rs`)
//! ```
//!
//! Opening maps the file and verifies everything but the records, which are most of it: they are
//! read by queries, page by page. A damaged record is noticed when it is read and its parts do not
//! fit; [`BitTree::verify`] reads all of them. The codes are not part of the file.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use bytemuck::Pod;
use xxhash_rust::xxh3::Xxh3;

use super::{Arrays, BitTree};
use crate::index::Index as _;
use crate::index::huge_vec::HugeVec;
use crate::kernel::threshold::PADDING;
use crate::map::Mapping;
use crate::sections::{Container, Entry, Section};
use crate::{Codes, Error, Result};

const NUMBERS: u32 = 1;
const CENTRES: u32 = 2;
const FIXED: u32 = 3;
const RADII: u32 = 4;
const CHILDREN: u32 = 5;
const RECORDS: u32 = 6;
const WORDS: u32 = 7;
/// Codes that identify what a tree was built for.
const FINGERPRINT: usize = 4096;

const FILE: Container = Container {
    magic: b"XHTREE\0\0",
    name: "tree",
    version: 1,
    remedy: "build it again",
    kinds: &[
        (NUMBERS, "numbers"),
        (CENTRES, "centres"),
        (FIXED, "fixed bits"),
        (RADII, "radii"),
        (CHILDREN, "children"),
        (RECORDS, "record places"),
        (WORDS, "records"),
    ],
};

/// Values in memory or in a mapped file.
pub(super) enum Array<T> {
    Owned(HugeVec<T>),
    Mapped(Arc<Mapping>, Entry),
}

impl<T: Pod> Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Array::Owned(values) => values,
            Array::Mapped(map, entry) => entry
                .slice(map)
                .and_then(|bytes| bytemuck::try_cast_slice(bytes).ok())
                .unwrap_or(&[]),
        }
    }
}

impl BitTree {
    /// Writes the tree, without the codes.
    pub fn save(&self, path: &Path) -> Result<()> {
        if cfg!(target_endian = "big") {
            return Err(Error::content("trees are written by little-endian machines only"));
        }
        let tree = &self.arrays;
        let numbers = [
            u64::from(tree.roots),
            u64::from(tree.first_leaf),
            u64::from(tree.nodes),
            tree.distinct,
            fingerprint(self.codes()),
        ];
        let sections = [
            Section::new(NUMBERS, 0, bytemuck::cast_slice(&numbers).into()),
            Section::new(CENTRES, 0, bytemuck::cast_slice(&tree.centres).into()),
            Section::new(FIXED, 0, bytemuck::cast_slice(&tree.fixed).into()),
            Section::new(RADII, 0, bytemuck::cast_slice(&tree.radii).into()),
            Section::new(CHILDREN, 0, bytemuck::cast_slice(&tree.children).into()),
            Section::new(RECORDS, 0, bytemuck::cast_slice(&tree.records).into()),
            Section::new(WORDS, 0, bytemuck::cast_slice(&tree.words).into()),
        ];
        FILE.write(path, self.codes().bits(), self.codes().len(), &sections)
    }

    /// Maps the tree of these codes.
    pub fn open(path: &Path, codes: Codes) -> Result<BitTree> {
        let arrays = mapped(path, &codes).map_err(|err| err.at(path))?;
        BitTree::over(codes, arrays)
    }

    /// Fails if the file was cut short while it was read.
    pub(super) fn check_file(&self) -> Result<()> {
        match &self.arrays.words {
            Array::Mapped(map, _) => map.check(),
            Array::Owned(_) => Ok(()),
        }
    }

    /// Reads and verifies a mapped tree completely.
    pub fn verify(&self) -> Result<()> {
        match &self.arrays.words {
            Array::Mapped(map, entry) => entry.checked(map).map(|_| ()),
            Array::Owned(_) => Ok(()),
        }
    }
}

fn mapped(path: &Path, codes: &Codes) -> Result<Arrays> {
    if cfg!(target_endian = "big") {
        return Err(Error::content("trees are read by little-endian machines only"));
    }
    let map = Arc::new(Mapping::open(path)?);
    map.advise_random();
    let head = FILE.head(&map)?;
    let other = || Error::content("the tree was built for other codes; build it again");
    if head.bits != codes.bits() || head.rows != codes.len() {
        return Err(other());
    }
    let entry = |kind: u32| {
        head.find(kind).copied().ok_or_else(|| {
            Error::content(format!("corrupt: section {kind} of the tree is missing"))
        })
    };
    let numbers: &[u64] = bytemuck::try_cast_slice(entry(NUMBERS)?.checked(&map)?)
        .map_err(|_| Error::content("corrupt: the numbers section is not aligned"))?;
    let &[roots, first_leaf, nodes, distinct, print] = numbers else {
        return Err(Error::content("corrupt: the numbers section has a wrong length"));
    };
    if print != fingerprint(codes) {
        return Err(other());
    }
    let (width, small) = (codes.bits().words() as u64, |n: u64| u32::try_from(n).ok());
    let (Some(roots), Some(first_leaf), Some(count)) =
        (small(roots), small(first_leaf), small(nodes))
    else {
        return Err(Error::content("corrupt: too many nodes"));
    };
    let leaves = nodes.saturating_sub(u64::from(first_leaf));
    let sizes = [
        (CENTRES, nodes * width * 8),
        (FIXED, nodes * width * 8),
        (RADII, (nodes + PADDING as u64) * 2),
        (CHILDREN, (u64::from(first_leaf) + 1) * 4),
        (RECORDS, leaves * 4),
    ];
    for (kind, size) in sizes {
        let entry = entry(kind)?;
        if entry.length != size {
            return Err(Error::content(format!(
                "corrupt: the {} section has {} bytes, expected {size}",
                entry.name, entry.length
            )));
        }
        entry.checked(&map)?;
    }
    let array = |kind: u32| Ok::<_, Error>((Arc::clone(&map), entry(kind)?));
    let owned = |(map, entry)| Array::Mapped(map, entry);
    let arrays = Arrays {
        roots,
        first_leaf,
        nodes: count,
        centres: array(CENTRES).map(owned)?,
        fixed: array(FIXED).map(|(map, entry)| Array::Mapped(map, entry))?,
        radii: array(RADII).map(|(map, entry)| Array::Mapped(map, entry))?,
        children: array(CHILDREN).map(|(map, entry)| Array::Mapped(map, entry))?,
        records: array(RECORDS).map(|(map, entry)| Array::Mapped(map, entry))?,
        words: array(WORDS).map(|(map, entry)| Array::Mapped(map, entry))?,
        distinct,
    };
    check(&arrays)?;
    Ok(arrays)
}

/// Children follow their parents, level after level, and records lie one after the other.
fn check(tree: &Arrays) -> Result<()> {
    let (children, records) = (&tree.children[..], &tree.records[..]);
    let ends = children.last() == Some(&tree.nodes) && tree.roots <= tree.nodes;
    let begins = children.first().is_some_and(|&first| {
        if tree.first_leaf == 0 { tree.roots == tree.nodes } else { first == tree.roots }
    });
    let follows = |(node, child): (usize, &u32)| *child as usize > node;
    let behind = children[..tree.first_leaf as usize].iter().enumerate().all(follows);
    let words = tree.words.len() as u64;
    let inside = records.last().is_none_or(|&last| u64::from(last) < words);
    if begins
        && ends
        && behind
        && inside
        && children.is_sorted()
        && records.is_sorted_by(|a, b| a < b)
    {
        return Ok(());
    }
    Err(Error::content("corrupt: the nodes of the tree do not fit together"))
}

/// A hash of some of the codes.
fn fingerprint(codes: &Codes) -> u64 {
    let n = codes.len();
    let drawn = n.min(FINGERPRINT);
    let mut state = Xxh3::new();
    for nth in 0..drawn {
        state.update(bytemuck::cast_slice(codes.code(nth * n / drawn)));
    }
    state.digest()
}
