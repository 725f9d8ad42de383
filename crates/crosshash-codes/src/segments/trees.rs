//! Search trees beside segments: `00000002.tree` belongs to `00000002.segment`.
//!
//! A tree is derived from the codes of its segment, which never change; so it is written once, at any
//! time, and a folder without trees is complete. An index that has them is searched by them as
//! soon as it is opened, without building anything. New segments have none until they are written.

use std::path::{Path, PathBuf};

use super::part::{FEW, Source, Store};
use super::snapshot::Snapshot;
use crate::Result;
use crate::index::{BitTree, LeafForm};

/// The file of the tree of a segment.
pub(super) fn path_beside(segment: &Path) -> PathBuf {
    segment.with_extension("tree")
}

/// The stored tree of a segment, mapped.
pub(super) fn stored(source: &Source) -> Result<Option<BitTree>> {
    let Store::Segment(segment) = &source.store else { return Ok(None) };
    let path = path_beside(segment.path());
    if source.rows() < FEW || !path.exists() {
        return Ok(None);
    }
    let tree = BitTree::open(&path, segment.codes()?.clone())?;
    tree.verify().map_err(|err| err.at(&path))?;
    Ok(Some(tree))
}

impl Snapshot {
    /// Builds and stores a tree for every large segment that has none; returns their number.
    /// `progress` is called with the number of items.
    ///
    /// Snapshots that are opened later search by them.
    pub fn write_trees(
        &self,
        form: LeafForm,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<usize> {
        let mut written = 0;
        for (part, &base) in self.parts.iter().zip(&self.bases) {
            let Store::Segment(segment) = &part.source.store else { continue };
            let path = path_beside(segment.path());
            if part.rows() < FEW || path.exists() {
                continue;
            }
            let done = |items: usize| progress(base as usize + items);
            BitTree::new(segment.codes()?.clone(), form, &done)?.save(&path)?;
            written += 1;
        }
        Ok(written)
    }
}
