//! `Part`: one segment, or some rows in memory, as a snapshot sees it, with its removed rows.

use std::sync::{Arc, Mutex, OnceLock};

use xxhash_rust::xxh3::xxh3_64;

use super::batch::{HIDDEN, SEED};
use super::file::Segment;
use super::memory::MemoryRows;
use crate::format::Id;
use crate::index::{Columns, Index, ItemSet, Scan, build};
use crate::outputs::OutputRows;
use crate::{Codes, Result};

/// Parts of fewer rows are scanned, whatever kind of index is requested.
pub(super) const FEW: usize = 1 << 13;

/// The packed labels of all rows of a part.
#[derive(Clone, Copy)]
pub(crate) struct LabelRows<'a> {
    pub(crate) stride: usize,
    pub(crate) words: &'a [u64],
}

impl<'a> LabelRows<'a> {
    pub(crate) const NONE: LabelRows<'static> = LabelRows { stride: 0, words: &[] };

    /// The words of a row; empty if the part has no labels.
    pub(crate) fn row(&self, row: usize) -> &'a [u64] {
        self.words.get(row * self.stride..(row + 1) * self.stride).unwrap_or(&[])
    }

    /// Whether a row has at least one of these labels.
    pub(crate) fn any(&self, row: usize, labels: &[usize]) -> bool {
        let words = self.row(row);
        labels.iter().any(|&label| {
            words.get(label / 64).is_some_and(|word| word >> (label % 64) & 1 == 1)
        })
    }
}

/// Where rows are stored.
pub(crate) enum Store {
    Segment(Segment),
    Memory(MemoryRows),
}

/// Rows and the structures built from them; shared by all snapshots that contain them.
pub(crate) struct Source {
    pub(crate) store: Store,
    scan: OnceLock<Arc<dyn Index>>,
    index: OnceLock<Arc<dyn Index>>,
    label_counts: OnceLock<Vec<usize>>,
    /// The fields of all rows and the version of their source, see `fields.rs`.
    pub(super) fields: Mutex<Option<(u64, Arc<Columns>)>>,
}

impl Source {
    pub(crate) fn new(store: Store) -> Source {
        Source {
            store,
            scan: OnceLock::new(),
            index: OnceLock::new(),
            label_counts: OnceLock::new(),
            fields: Mutex::default(),
        }
    }

    pub(crate) fn rows(&self) -> usize {
        match &self.store {
            Store::Segment(segment) => segment.rows(),
            Store::Memory(rows) => rows.codes.len(),
        }
    }

    /// The segment number; `None` in memory.
    pub(crate) fn number(&self) -> Option<u64> {
        match &self.store {
            Store::Segment(segment) => Some(segment.number),
            Store::Memory(_) => None,
        }
    }

    pub(crate) fn codes(&self) -> Result<&Codes> {
        match &self.store {
            Store::Segment(segment) => segment.codes(),
            Store::Memory(rows) => Ok(&rows.codes),
        }
    }

    pub(crate) fn id(&self, row: usize) -> Result<Id> {
        match &self.store {
            Store::Segment(segment) => segment.id(row),
            Store::Memory(rows) => Ok(rows.ids.get(row)),
        }
    }

    pub(crate) fn find(&self, id: &Id) -> Result<Option<u32>> {
        match &self.store {
            Store::Segment(segment) => segment.find(id),
            Store::Memory(rows) => Ok(rows.find(id)),
        }
    }

    pub(crate) fn labels(&self) -> Result<LabelRows<'_>> {
        match &self.store {
            Store::Segment(segment) => segment.labels(),
            Store::Memory(rows) => Ok(rows.labels()),
        }
    }

    /// The outputs, if the index stores them.
    pub(crate) fn outputs(&self) -> Result<Option<OutputRows<'_>>> {
        match &self.store {
            Store::Segment(segment) => segment.outputs(),
            Store::Memory(rows) => Ok(rows.outputs.as_ref().map(|outputs| OutputRows {
                width: outputs.bits().get(),
                values: outputs.values(),
            })),
        }
    }

    /// The payload of a row and its checksum.
    pub(crate) fn payload(&self, row: usize) -> Result<(&[u8], u64)> {
        match &self.store {
            Store::Segment(segment) => segment.payload(row),
            Store::Memory(rows) => Ok(match rows.payloads.get(row) {
                Some(payload) if !payload.is_empty() => (payload, xxh3_64(payload)),
                _ => (&[], 0),
            }),
        }
    }

    pub(crate) fn all_flags(&self) -> &[u8] {
        match &self.store {
            Store::Segment(segment) => &segment.flags,
            Store::Memory(rows) => &rows.flags,
        }
    }

    pub(crate) fn flags(&self, row: usize) -> u8 {
        self.all_flags().get(row).copied().unwrap_or(0)
    }

    pub(crate) fn superseded(&self) -> &[Id] {
        match &self.store {
            Store::Segment(segment) => &segment.superseded,
            Store::Memory(rows) => &rows.superseded,
        }
    }

    /// The best index there is for these rows.
    pub(crate) fn index(&self) -> Result<&dyn Index> {
        if let Some(index) = self.index.get().or(self.scan.get()) {
            return Ok(index.as_ref());
        }
        if let Some(tree) = super::trees::stored(self)? {
            return Ok(self.index.get_or_init(|| Arc::new(tree)).as_ref());
        }
        let scan: Arc<dyn Index> = Arc::new(Scan::new(self.codes()?.clone())?);
        Ok(self.scan.get_or_init(|| scan).as_ref())
    }

    /// Whether [`Source::build`] has nothing to do.
    pub(crate) fn is_built(&self) -> bool {
        self.index.get().is_some() || self.rows() < FEW
    }

    /// Builds an index of a kind, if the rows are many and have none.
    pub(crate) fn build(
        &self,
        kind: &str,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<()> {
        if self.is_built() {
            return Ok(());
        }
        if kind != "scan"
            && let Some(tree) = super::trees::stored(self)?
        {
            self.index.get_or_init(|| Arc::new(tree));
        } else {
            let made = build(kind, self.codes()?.clone(), progress)?;
            self.index.get_or_init(|| made.into());
        }
        Ok(())
    }

    /// How many rows have each label, removed and hidden ones included.
    fn label_counts(&self) -> Result<&[usize]> {
        if let Some(counts) = self.label_counts.get() {
            return Ok(counts);
        }
        let labels = self.labels()?;
        let mut counts = vec![0; labels.stride * 64];
        for row in 0..self.rows() {
            each_label(labels.row(row), |label| counts[label] += 1);
        }
        Ok(self.label_counts.get_or_init(|| counts))
    }
}

/// Calls `visit` for every label of a row.
pub(crate) fn each_label(words: &[u64], mut visit: impl FnMut(usize)) {
    for (at, &word) in words.iter().enumerate() {
        let mut rest = word;
        while rest != 0 {
            visit(at * 64 + rest.trailing_zeros() as usize);
            rest &= rest - 1;
        }
    }
}

/// Rows as one snapshot sees them.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) source: Arc<Source>,
    /// The rows that were replaced or deleted; `None` if there are none.
    pub(crate) removed: Option<Arc<ItemSet>>,
    /// The rows that can be found; `None` for all.
    pub(crate) live: Option<Arc<ItemSet>>,
    /// `removed` as the segments of the manifest record it.
    pub(crate) recorded: Option<Arc<ItemSet>>,
}

impl Part {
    pub(crate) fn new(store: Store) -> Part {
        Self::over(Arc::new(Source::new(store)))
    }

    /// Rows of which nothing is removed.
    pub(crate) fn over(source: Arc<Source>) -> Part {
        let flags = source.all_flags();
        let hidden = flags.iter().any(|flags| flags & HIDDEN != 0);
        let live = hidden.then(|| {
            let visible = |row: u32| source.flags(row as usize) & HIDDEN == 0;
            Arc::new(ItemSet::of(source.rows(), visible))
        });
        Part { source, removed: None, live, recorded: None }
    }

    pub(crate) fn rows(&self) -> usize {
        self.source.rows()
    }

    /// How many rows can be found.
    pub(crate) fn live_rows(&self) -> usize {
        self.live.as_ref().map_or(self.rows(), |live| live.count())
    }

    pub(crate) fn is_live(&self, row: u32) -> bool {
        self.live.as_ref().is_none_or(|live| live.contains(row))
    }

    pub(crate) fn is_removed(&self, row: u32) -> bool {
        self.removed.as_ref().is_some_and(|removed| removed.contains(row))
    }

    pub(crate) fn remove(&mut self, row: u32) {
        let rows = self.rows();
        let removed = self.removed.get_or_insert_with(|| Arc::new(ItemSet::none(rows)));
        Arc::make_mut(removed).insert(row);
        let live = self.live.get_or_insert_with(|| Arc::new(ItemSet::all(rows)));
        Arc::make_mut(live).remove(row);
    }

    /// Removes the item with this id; whether it was there, and whether it was a seed.
    pub(crate) fn remove_id(&mut self, id: &Id) -> Result<Option<bool>> {
        let Some(row) = self.source.find(id)?.filter(|&row| !self.is_removed(row)) else {
            return Ok(None);
        };
        self.remove(row);
        Ok(Some(self.source.flags(row as usize) & SEED != 0))
    }

    /// The rows that are removed, but not recorded as such.
    pub(crate) fn newly_removed(&self) -> Vec<u32> {
        let Some(removed) = &self.removed else { return Vec::new() };
        let known =
            |row: &u32| self.recorded.as_ref().is_some_and(|set| set.contains(*row));
        removed.iter().filter(|row| !known(row)).collect()
    }

    /// Adds the number of live rows of each label.
    pub(crate) fn count_labels(&self, counts: &mut [usize]) -> Result<()> {
        let own = self.source.label_counts()?;
        for (count, own) in counts.iter_mut().zip(own) {
            *count += own;
        }
        if let Some(live) = &self.live {
            let labels = self.source.labels()?;
            for row in live.complement().iter() {
                each_label(labels.row(row as usize), |label| {
                    if let Some(count) = counts.get_mut(label) {
                        *count = count.saturating_sub(1);
                    }
                });
            }
        }
        Ok(())
    }
}
