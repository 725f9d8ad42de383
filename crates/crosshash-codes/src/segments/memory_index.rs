//! `MemoryIndex`: items in memory that many threads search and change; nothing is written.
//!
//! Readers take the [`Snapshot`] of the last change and are never blocked. A change is applied
//! completely or not at all. Rows of replaced and deleted items are dropped when parts are merged,
//! at the latest when they are a third of all.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::batch::ItemBatch;
use super::manifest::{Manifest, OutputKind};
use super::merge;
use super::snapshot::{Snapshot, ids_of};
use super::writer::NewIndex;
use crate::format::Id;
use crate::index::{ItemSet, build};
use crate::{Codes, Result};

/// All rows are merged if at least one in this number is removed, and at least this number of rows.
const REMOVED_SHARE: usize = 3;
const REMOVED_ROWS: usize = 1024;

/// An index in memory.
///
/// ```
/// use crosshash_codes::index::Query;
/// use crosshash_codes::segments::{ItemBatch, MemoryIndex, NewIndex};
/// use crosshash_codes::format::{Id, Ids};
/// use crosshash_codes::{Bits, Codes};
///
/// let bits = Bits::new(8)?;
/// let index = MemoryIndex::new(NewIndex { bits, label_names: &[], outputs: false, after_commit: 0 }, "auto")?;
/// let codes = Codes::from_words(bits, vec![0b0001, 0b0111])?;
/// let ids = Some(Ids::Names(vec!["a".into(), "b".into()]));
/// index.insert(ItemBatch { ids, ..ItemBatch::new(codes) })?;
/// index.delete(&[Id::Name("a".into())])?;
/// let query = Codes::from_words(bits, vec![0b0011])?;
/// let hits = index.snapshot().search(&query, &Query::nearest(2), &|_| ())?.remove(0);
/// assert_eq!((hits.len(), hits[0].id.to_string()), (1, "b".to_owned()));
/// # Ok::<(), crosshash_codes::Error>(())
/// ```
pub struct MemoryIndex {
    snapshot: Arc<RwLock<Arc<Snapshot>>>,
    writing: Mutex<()>,
    kind: String,
    is_building: Arc<AtomicBool>,
}

impl MemoryIndex {
    /// An empty index; large parts get a search structure of this kind
    /// ([`INDEXES`](crate::index::INDEXES)), built in the background.
    pub fn new(settings: NewIndex<'_>, kind: &str) -> Result<MemoryIndex> {
        let NewIndex { bits, label_names, outputs, after_commit: commit } = settings;
        build(kind, Codes::new(bits), &|_| ())?; // reject an unknown name
        let mut manifest = Manifest::new(bits, commit);
        manifest.label_names = label_names.to_vec();
        manifest.classes = label_names.len();
        manifest.outputs = outputs.then_some(OutputKind::Int8);
        let snapshot = Snapshot::of(None, manifest, Vec::new(), 0)?;
        Ok(MemoryIndex {
            snapshot: Arc::new(RwLock::new(Arc::new(snapshot))),
            writing: Mutex::new(()),
            kind: kind.to_owned(),
            is_building: Arc::default(),
        })
    }

    /// The items after the last change.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        read(&self.snapshot)
    }

    /// Adds items; an id that exists already, or occurs twice, is an error. Items without ids are
    /// numbered. Returns how many were added.
    pub fn insert(&self, items: impl Into<ItemBatch>) -> Result<usize> {
        let items = items.into();
        let count = items.len();
        self.change(|now| {
            now.check(&items)?;
            now.check_new(&items)?;
            now.with(now.numbered(items, Vec::new())?)
        })?;
        Ok(count)
    }

    /// Adds items; those whose id exists already replace the old ones. Returns how many were
    /// replaced.
    pub fn upsert(&self, items: impl Into<ItemBatch>) -> Result<usize> {
        let items = items.into();
        let mut replaced = 0;
        self.change(|now| {
            now.check(&items)?;
            for id in ids_of(&items) {
                replaced += usize::from(now.find(&id)?.is_some());
            }
            now.with(now.numbered(items, Vec::new())?)
        })?;
        Ok(replaced)
    }

    /// Deletes the items with these ids; returns how many there were. Ids that are not in the
    /// index are no error.
    pub fn delete(&self, ids: &[Id]) -> Result<usize> {
        self.remove(|_| Ok(ids.to_vec()))
    }

    /// Deletes the items that `choose` finds in the present state; returns how many there were.
    pub fn delete_items(
        &self,
        choose: impl FnOnce(&Snapshot) -> Result<ItemSet>,
    ) -> Result<usize> {
        self.remove(|now| choose(now)?.iter().map(|item| now.id(item)).collect())
    }

    /// Drops the rows of replaced and deleted items.
    pub fn compact(&self) -> Result<()> {
        self.change(|now| now.compacted())
    }

    fn remove(&self, ids: impl FnOnce(&Snapshot) -> Result<Vec<Id>>) -> Result<usize> {
        let mut removed = 0;
        self.change(|now| {
            let none = ItemBatch::new(Codes::new(now.bits()));
            let next = now.with(now.numbered(none, ids(now)?)?)?;
            removed = now.len() - next.len();
            Ok(next)
        })?;
        Ok(removed)
    }

    fn change(&self, next: impl FnOnce(&Snapshot) -> Result<Snapshot>) -> Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = next(&self.snapshot())?;
        let removed = next.rows() - next.len();
        if removed >= REMOVED_ROWS.max(next.rows() / REMOVED_SHARE) {
            next = next.compacted()?;
        }
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        self.build_in_background();
        Ok(())
    }

    /// Builds search structures for large parts, unless a thread does so already.
    fn build_in_background(&self) {
        let is_prepared = self.snapshot().is_prepared();
        if is_prepared || self.is_building.swap(true, Ordering::SeqCst) {
            return;
        }
        let (now, kind) = (Arc::clone(&self.snapshot), self.kind.clone());
        let is_building = Arc::clone(&self.is_building);
        let work = move || {
            // Without a search structure the codes are scanned, so a failure changes no result.
            while Arc::strong_count(&now) > 1 {
                let snapshot = read(&now);
                if snapshot.is_prepared() || snapshot.prepare(&kind, &|_| ()).is_err() {
                    break;
                }
            }
            is_building.store(false, Ordering::SeqCst);
        };
        if std::thread::Builder::new().name("index build".into()).spawn(work).is_err() {
            self.is_building.store(false, Ordering::SeqCst);
        }
    }
}

impl Snapshot {
    /// The same items without the rows of removed ones, in one part.
    fn compacted(&self) -> Result<Snapshot> {
        let parts = merge::merged(&self.parts, self.bits(), self.manifest.classes)?;
        Snapshot::of(None, self.manifest.clone(), vec![parts], 0)
    }
}

fn read(snapshot: &RwLock<Arc<Snapshot>>) -> Arc<Snapshot> {
    Arc::clone(&snapshot.read().unwrap_or_else(PoisonError::into_inner))
}
