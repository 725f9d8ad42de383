//! `Writer`: inserts, upserts, deletes and compacts; one at a time per folder.
//!
//! Every method is one commit: when it returns, the change survives a power cut; if it fails, or
//! the power fails before it returns, either nothing or all of it is there.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::batch::ItemBatch;
use super::file::NewSegment;
use super::log::{self, Log};
use super::manifest::{Manifest, OutputKind};
use super::memory::RowIds;
use super::merge;
use super::record::Change;
use super::snapshot::{Snapshot, ids_of, kind_of};
use super::trees::path_beside;
use crate::format::{Id, Ids};
use crate::index::ItemSet;
use crate::{Bits, Codes, Error, Result};

const LOCK: &str = "lock";
/// How often, and after what pause, a lock is requested.
const LOCK_ATTEMPTS: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// More segments than this are merged, the newest and smallest first.
const MAX_SEGMENTS: usize = 24;
/// A commit of more items, or with more bytes of payload, is written as a segment.
pub(super) const LOG_ITEMS: usize = 4096;
const LOG_PAYLOAD: usize = 32 << 20;
/// A log with more items in memory, or more bytes, is folded into a segment.
const FOLD_ITEMS: usize = 8192;
const FOLD_BYTES: u64 = 32 << 20;
/// An index is compacted when the log is folded if at least one row in this number is removed, and
/// at least this number of rows.
const REMOVED_SHARE: usize = 3;
const REMOVED_ROWS: usize = 1024;

/// The settings of a new index.
#[derive(Clone, Copy, Debug)]
pub struct NewIndex<'a> {
    /// Code length.
    pub bits: Bits,
    /// Names of the labels; empty if they have none.
    pub label_names: &'a [String],
    /// Whether the outputs of the model are stored, one signed byte per bit.
    pub outputs: bool,
    /// Commit numbers continue after this one: for an index that replaces another one.
    pub after_commit: u64,
}

/// The only writer of an index.
pub struct Writer {
    snapshot: Arc<Snapshot>,
    log: Log,
    folder: PathBuf,
    /// Set when it is unknown which manifest is on disk.
    broken: bool,
    /// Held as long as the writer exists; the system releases it even after kill -9.
    _lock: std::fs::File,
}

impl Writer {
    /// Makes an empty index in a folder that does not exist or is empty.
    pub fn create(folder: &Path, bits: Bits, label_names: &[String]) -> Result<Writer> {
        let settings = NewIndex { bits, label_names, outputs: false, after_commit: 0 };
        Self::create_with(folder, settings)
    }

    /// The same with all settings.
    pub fn create_with(folder: &Path, settings: NewIndex<'_>) -> Result<Writer> {
        let NewIndex { bits, label_names, outputs, after_commit: commit } = settings;
        fs_err::create_dir_all(folder)?;
        let taken = |entry: std::io::Result<fs_err::DirEntry>| {
            entry.is_ok_and(|entry| entry.file_name() != LOCK)
        };
        if fs_err::read_dir(folder)?.any(taken) {
            return Err(Error::content(format!(
                "{} is not empty; name an empty folder, or add to the index that is there",
                folder.display()
            )));
        }
        let lock = lock(folder)?;
        let mut manifest = Manifest::new(bits, commit);
        manifest.label_names = label_names.to_vec();
        manifest.classes = label_names.len();
        manifest.outputs = outputs.then_some(OutputKind::Int8);
        log::create(folder, manifest.log, bits, commit.saturating_add(1))?;
        manifest.write(folder)?;
        Self::locked(folder, lock)
    }

    /// Opens an index for writing; fails while another writer has it open.
    pub fn open(folder: &Path) -> Result<Writer> {
        Manifest::read(folder)?;
        let lock = lock(folder)?;
        let writer = Self::locked(folder, lock)?;
        writer.remove_leftovers()?;
        Ok(writer)
    }

    fn locked(folder: &Path, lock: std::fs::File) -> Result<Writer> {
        let (snapshot, contents) = Snapshot::open_with_log(folder)?;
        let log = Log::open(folder, snapshot.manifest.log, &contents)?;
        let (snapshot, folder) = (Arc::new(snapshot), folder.to_owned());
        Ok(Writer { snapshot, log, folder, broken: false, _lock: lock })
    }

    /// The committed state.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Adds items; an id that exists already, or occurs twice, is an error. Items without ids are
    /// numbered. Returns how many were added.
    pub fn insert(&mut self, items: impl Into<ItemBatch>) -> Result<usize> {
        let items = items.into();
        self.snapshot.check(&items)?;
        self.snapshot.check_new(&items)?;
        let count = items.len();
        self.apply_checked(items, Vec::new())?;
        Ok(count)
    }

    /// Adds items; those whose id exists already replace the old ones. Returns how many were
    /// replaced.
    pub fn upsert(&mut self, items: impl Into<ItemBatch>) -> Result<usize> {
        let items = items.into();
        self.snapshot.check(&items)?;
        let mut replaced = 0;
        for id in ids_of(&items) {
            replaced += usize::from(self.snapshot.find(&id)?.is_some());
        }
        self.apply_checked(items, Vec::new())?;
        Ok(replaced)
    }

    /// Deletes the items with these ids; returns how many there were. Ids that are not in the
    /// index are no error.
    pub fn delete(&mut self, ids: &[Id]) -> Result<usize> {
        let before = self.snapshot.len();
        self.apply(ItemBatch::new(Codes::new(self.snapshot.bits())), ids.to_vec())?;
        Ok(before - self.snapshot.len())
    }

    /// Deletes these items, as [`Snapshot::filter`] finds them; returns how many there were.
    pub fn delete_items(&mut self, items: &ItemSet) -> Result<usize> {
        let ids = items.iter().map(|item| self.snapshot.id(item)).collect::<Result<_>>()?;
        self.apply(ItemBatch::new(Codes::new(self.snapshot.bits())), ids)?;
        Ok(items.count())
    }

    /// One commit: adds or replaces items and deletes ids. An id must not be in both.
    pub fn apply(&mut self, items: ItemBatch, deleted: Vec<Id>) -> Result<()> {
        self.snapshot.check(&items)?;
        self.apply_checked(items, deleted)
    }

    fn apply_checked(&mut self, items: ItemBatch, deleted: Vec<Id>) -> Result<()> {
        let mut gone = Vec::new();
        for id in deleted {
            if self.snapshot.contains(&id)? {
                gone.push(id);
            }
        }
        let deleted = gone;
        if items.is_empty() && deleted.is_empty() {
            return Ok(());
        }
        let change = self.snapshot.numbered(items, deleted)?;
        let small = change.items.len() + change.deleted.len() <= LOG_ITEMS
            && change.items.payload_bytes() <= LOG_PAYLOAD;
        if small {
            let body = change.encode()?;
            let next = self.snapshot.with(change)?;
            self.refuse_broken()?;
            self.log.append(next.commit(), &body)?;
            self.snapshot = Arc::new(next);
            Ok(())
        } else {
            let written = self.write_large(&change);
            self.clean(written)
        }
    }

    /// Folds the log into a segment, merges segments and drops removed items, if it is time. The
    /// content does not change: if this fails, the index is as it was.
    pub fn maintain(&mut self) -> Result<()> {
        let memory = &self.snapshot.parts[self.snapshot.segments..];
        let rows: usize = memory.iter().map(super::part::Part::rows).sum();
        if rows >= FOLD_ITEMS || self.log.len() >= FOLD_BYTES {
            self.flush()?;
        }
        self.merge_if_many()
    }

    /// Folds the log into a segment.
    pub fn flush(&mut self) -> Result<()> {
        if self.snapshot.parts.len() == self.snapshot.segments
            && self.snapshot.parts.iter().all(|part| part.newly_removed().is_empty())
        {
            return Ok(());
        }
        let mut next = self.snapshot.manifest.clone();
        let written = merge::write_pending(&self.snapshot, &self.folder, &mut next)
            .and_then(|()| self.commit(next));
        self.clean(written)
    }

    /// Writes all remaining items into one segment. Damage is an error.
    pub fn compact(&mut self) -> Result<()> {
        self.flush()?;
        let removed = self.snapshot.parts.iter().any(|part| part.removed.is_some());
        if self.snapshot.segments > 1 || removed {
            self.merge_from(0)
        } else {
            // Nothing is to be copied; a damaged index is still not reported as compact.
            self.snapshot.verify()
        }
    }

    /// A commit as its own segment, after a segment with the content of the log.
    fn write_large(&mut self, change: &Change) -> Result<()> {
        let ids = ids_of(&change.items);
        let (parts, superseded) =
            self.snapshot.without(ids.iter().chain(&change.deleted))?;
        drop(ids);
        let now = &self.snapshot;
        let staged = Snapshot::of(
            Some(self.folder.clone()),
            now.manifest.clone(),
            parts,
            now.segments,
        )?;
        let mut next = now.manifest.clone();
        merge::write_pending(&staged, &self.folder, &mut next)?;
        next.commit += 1;
        next.classes = next.classes.max(change.classes);
        next.next_id = change.next_id;
        if let Some(ids) = &change.items.ids {
            next.ids = Some(kind_of(Some(ids)));
        }
        if !change.items.is_empty() || !superseded.is_empty() {
            let items = &change.items;
            let ids = items.ids.clone().unwrap_or(Ids::Numbers(Vec::new()));
            let payloads = items.payloads.iter().flatten().map(|payload| &payload[..]);
            let segment = NewSegment {
                codes: &items.codes,
                ids: RowIds::compressed(ids),
                labels: items.labels.as_ref(),
                flags: items.flags.clone().unwrap_or_default(),
                payloads: payloads.collect(),
                outputs: items.outputs.as_ref(),
                removed: Vec::new(),
                superseded,
            };
            merge::write_segment(&self.folder, &mut next, now.bits(), &segment)?;
        }
        self.commit(next)
    }

    fn refuse_broken(&self) -> Result<()> {
        if self.broken {
            return Err(Error::content(
                "no changes are possible since the manifest could not be written; open the \
                 index again",
            )
            .at(&self.folder));
        }
        Ok(())
    }

    /// Commits a manifest with an empty log.
    fn commit(&mut self, mut next: Manifest) -> Result<()> {
        self.refuse_broken()?;
        next.log = next.next_file;
        next.next_file += 1;
        let bits = self.snapshot.bits();
        log::create(&self.folder, next.log, bits, next.commit.saturating_add(1))?;
        let opened =
            Snapshot::of_segments(&self.folder, next.clone(), &self.snapshot.parts)?;
        let contents =
            log::read(&self.folder, next.log, bits, next.commit.saturating_add(1))?;
        let log = Log::open(&self.folder, next.log, &contents)?;
        if let Err(err) = next.write(&self.folder) {
            // after a rename whose sync failed it is unknown which manifest survives
            let old = Manifest::read(&self.folder);
            self.broken = old.map_or(true, |old| old.log != self.snapshot.manifest.log);
            return Err(err);
        }
        (self.snapshot, self.log) = (Arc::new(opened), log);
        let _ = self.remove_leftovers(); // committed; leftovers are removed when the index is opened
        Ok(())
    }

    /// Removes the files of a failed change, unless it may be committed.
    fn clean<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_err() && !self.broken {
            #[cfg(test)]
            if crate::write::cut::is_off() {
                return result; // a crashed writer does not clean up
            }
            let _ = self.remove_leftovers();
        }
        result
    }

    /// Keeps the number of segments small: those at the end whose rows together do not exceed
    /// the one before them become one, so that each row is moved a few times in its life.
    fn merge_if_many(&mut self) -> Result<()> {
        let segments = &self.snapshot.manifest.segments;
        let removed: usize = self.snapshot.parts[..segments.len()]
            .iter()
            .filter_map(|part| part.recorded.as_ref())
            .map(|removed| removed.count())
            .sum();
        if removed >= REMOVED_ROWS.max(self.snapshot.rows() / REMOVED_SHARE) {
            return self.compact();
        }
        if segments.len() <= MAX_SEGMENTS {
            return Ok(());
        }
        let mut first = segments.len() - MAX_SEGMENTS / 2;
        let mut rows: u64 = segments[first..].iter().map(|segment| segment.rows).sum();
        while first > 0 && segments[first - 1].rows <= rows {
            first -= 1;
            rows += segments[first].rows;
        }
        self.flush()?;
        self.merge_from(first)
    }

    /// Makes one segment of those from the `first`-th on; nothing is in memory.
    fn merge_from(&mut self, first: usize) -> Result<()> {
        let mut next = self.snapshot.manifest.clone();
        let written = merge::write_merged(&self.snapshot, first, &self.folder, &mut next)
            .and_then(|()| self.commit(next));
        self.clean(written)
    }

    /// Removes files that the manifest does not name: leftovers of a crash or a merge.
    fn remove_leftovers(&self) -> Result<()> {
        let manifest = &self.snapshot.manifest;
        let mut named: HashSet<PathBuf> = manifest
            .segments
            .iter()
            .map(|s| Manifest::path(&self.folder, s.number))
            .collect();
        let trees: Vec<PathBuf> = named.iter().map(|path| path_beside(path)).collect();
        named.extend(trees);
        named.insert(log::path(&self.folder, manifest.log));
        for entry in fs_err::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let temporary = name.starts_with(".crosshash-") && name.ends_with(".tmp");
            let endings = [".segment", ".log", ".tree"];
            let ours = endings.iter().any(|ending| name.ends_with(ending));
            if temporary || (ours && !named.contains(&path)) {
                fs_err::remove_file(&path)?;
            }
        }
        Ok(())
    }
}

fn lock(folder: &Path) -> Result<std::fs::File> {
    let path = folder.join(LOCK);
    let file = fs_err::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)?
        .into_file();
    // a process that is being started inherits open files for a moment
    for attempt in 0.. {
        match file.try_lock() {
            Ok(()) => break,
            Err(std::fs::TryLockError::WouldBlock) if attempt < LOCK_ATTEMPTS => {
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(Error::content(
                    "another process is writing to this index; wait for it to end",
                )
                .at(folder));
            }
            Err(std::fs::TryLockError::Error(err)) => return Err(err.into()),
        }
    }
    Ok(file)
}
