//! `verify`: compares every file of an index with its checksums, and names the damaged ones.

use std::path::{Path, PathBuf};

use super::file::Segment;
use super::log;
use super::manifest::Manifest;
use super::record::Change;
use super::snapshot::Snapshot;
use super::trees::path_beside;
use crate::index::BitTree;
use crate::{Bits, Error, Result};

/// The state of a file of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartState {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it; `None` if it is as it was written.
    pub fault: Option<String>,
}

/// Reads every file of an index and compares it with its checksums. A damaged file does not keep the
/// others from being read; only a damaged manifest does, which is an error.
pub fn verify(folder: &Path) -> Result<Vec<PartState>> {
    let manifest = Manifest::read(folder)?;
    let bits = Bits::new(manifest.bits)?;
    let mut states = Vec::new();
    let mut add = |path: PathBuf, result: Result<()>| {
        states.push(PartState { path, fault: result.err().map(|err| err.to_string()) });
    };
    for listed in &manifest.segments {
        let path = Manifest::path(folder, listed.number);
        let check = || -> Result<()> {
            let segment = Segment::open(&path, listed.number)?;
            let bytes = fs_err::metadata(&path)?.len();
            if (segment.rows() as u64, bytes) != (listed.rows, listed.bytes) {
                return Err(Error::content("not the segment that the manifest lists"));
            }
            segment.verify()?;
            segment.check_file()
        };
        let checked = check();
        let tree = path_beside(&path);
        if checked.is_ok() && tree.exists() {
            let check = || -> Result<()> {
                let segment = Segment::open(&path, listed.number)?;
                BitTree::open(&tree, segment.codes()?.clone())?.verify()
            };
            let checked = check();
            add(tree, checked);
        }
        add(path, checked);
    }
    let path = log::path(folder, manifest.log);
    let check = || -> Result<()> {
        let first = manifest.commit.saturating_add(1);
        for body in log::read(folder, manifest.log, bits, first)?.records {
            Change::decode(&manifest, &body)?;
        }
        Ok(())
    };
    let checked = check();
    add(path, checked);
    // What the files say about each other: removed rows exist, ids fit.
    if states.iter().all(|state| state.fault.is_none()) {
        let together = Snapshot::open(folder).and_then(|snapshot| snapshot.verify());
        let fault = together.err().map(|err| err.to_string());
        states.insert(0, PartState { path: folder.join("manifest"), fault });
    }
    Ok(states)
}
