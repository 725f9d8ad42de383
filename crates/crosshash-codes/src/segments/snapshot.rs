//! `Snapshot`: the items of one commit, for readers. It never changes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde::Serialize;

use super::batch::ItemBatch;
use super::file::Segment;
use super::log::{self, Contents};
use super::manifest::{IdKind, Manifest, OutputKind};
use super::memory::{MemoryRows, duplicate};
use super::part::{Part, Store, each_label};
use super::record::Change;
use crate::format::{CodeFile, Id, Ids};
use crate::index::build;
use crate::{Bits, Codes, Error, Result};

/// How often opening is tried again when a writer replaces files in the meantime.
const ATTEMPTS: usize = 20;

/// What `crosshash index info` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Info {
    /// Code length.
    pub bits: usize,
    /// Items that can be found.
    pub items: usize,
    /// Rows of removed items that still take space.
    pub removed: usize,
    /// Segments.
    pub segments: usize,
    /// Items that are in the log and not yet in a segment.
    pub logged: usize,
    /// The number of the last commit.
    pub commit: u64,
    /// Bytes of all segments.
    pub bytes: u64,
    /// `numbers` or `names`.
    pub ids: Option<&'static str>,
    /// Number of labels.
    pub labels: usize,
    /// Whether labels have names.
    pub label_names: bool,
    /// How the outputs of items are stored: `int8`; `None` if they are not.
    pub outputs: Option<&'static str>,
}

/// The items of one commit of an index on disk, or of codes in memory.
pub struct Snapshot {
    pub(super) folder: Option<PathBuf>,
    /// The manifest with the changes of the log.
    pub(super) manifest: Manifest,
    bits: Bits,
    /// Segments, then rows in memory.
    pub(super) parts: Vec<Part>,
    /// How many parts are segments.
    pub(super) segments: usize,
    /// The first item number of every part, and the number of all.
    pub(super) bases: Vec<u32>,
    label_counts: OnceLock<Vec<usize>>,
}

impl Snapshot {
    /// Items in memory, without a folder. Items without ids are numbered from 0.
    ///
    /// ```
    /// use crosshash_codes::index::Query;
    /// use crosshash_codes::segments::{ItemBatch, Snapshot};
    /// use crosshash_codes::format::Ids;
    /// use crosshash_codes::{Bits, Codes};
    ///
    /// let codes = Codes::from_words(Bits::new(8)?, vec![0b0001, 0b0111, 0b0000])?;
    /// let ids = ["a", "b", "c"].map(str::to_owned).to_vec();
    /// let items = ItemBatch { ids: Some(Ids::Names(ids)), ..ItemBatch::new(codes) };
    /// let snapshot = Snapshot::in_memory(items, &[])?;
    /// let query = Codes::from_words(Bits::new(8)?, vec![0b0011])?;
    /// let hits = snapshot.search(&query, &Query::nearest(2), &|_| ())?.remove(0);
    /// assert_eq!(hits[0].id.to_string(), "a");
    /// assert_eq!(hits[1].id.to_string(), "b");
    /// # Ok::<(), crosshash_codes::Error>(())
    /// ```
    pub fn in_memory(
        items: impl Into<ItemBatch>,
        label_names: &[String],
    ) -> Result<Snapshot> {
        let items = items.into();
        items.check_rows()?;
        if let Some(id) = items.ids.as_ref().and_then(duplicate) {
            return Err(Error::content(format!(
                "id {id} occurs twice; every item needs its own"
            )));
        }
        let mut manifest = Manifest::new(items.codes.bits(), 0);
        manifest.label_names = label_names.to_vec();
        let classes = items.labels.as_ref().map_or(0, crate::Labels::classes);
        manifest.classes = label_names.len().max(classes);
        manifest.ids = Some(kind_of(items.ids.as_ref()));
        manifest.outputs = items.outputs.as_ref().map(|_| OutputKind::Int8);
        let rows = MemoryRows::new(items, 0, Vec::new());
        Self::of(None, manifest, vec![Part::new(Store::Memory(rows))], 0)
    }

    /// Opens the last commit of an index. Maps the segments without reading them.
    pub fn open(folder: &Path) -> Result<Snapshot> {
        Ok(Self::open_with_log(folder)?.0)
    }

    pub(super) fn open_with_log(folder: &Path) -> Result<(Snapshot, Contents)> {
        let mut manifest = Manifest::read(folder)?;
        for _ in 0..ATTEMPTS {
            let err = match Self::at(folder, manifest.clone()) {
                Ok(opened) => return Ok(opened),
                Err(err) => err,
            };
            // a writer may have merged segments or folded the log since the manifest was read
            let again = Manifest::read(folder)?;
            if again == manifest {
                return Err(err);
            }
            manifest = again;
        }
        Err(Error::content(format!(
            "{}: changes faster than it can be opened",
            folder.display()
        )))
    }

    fn at(folder: &Path, manifest: Manifest) -> Result<(Snapshot, Contents)> {
        let bits = Bits::new(manifest.bits)?;
        let contents =
            log::read(folder, manifest.log, bits, manifest.commit.saturating_add(1))?;
        let mut snapshot = Self::of_segments(folder, manifest, &[])?;
        let path = log::path(folder, snapshot.manifest.log);
        for body in &contents.records {
            let next = || -> Result<Snapshot> {
                let change = Change::decode(&snapshot.manifest, body)?;
                snapshot.check(&change.items)?;
                snapshot.with(change)
            };
            snapshot = next().map_err(|err| err.at(&path))?;
        }
        Ok((snapshot, contents))
    }

    /// The segments of a manifest without the log. Those that are open already are shared.
    pub(super) fn of_segments(
        folder: &Path,
        manifest: Manifest,
        open: &[Part],
    ) -> Result<Snapshot> {
        let bits = Bits::new(manifest.bits)?;
        let mut parts = Vec::new();
        for listed in &manifest.segments {
            let known =
                open.iter().find(|part| part.source.number() == Some(listed.number));
            if let Some(known) = known {
                parts.push(Part::over(Arc::clone(&known.source)));
                continue;
            }
            let path = Manifest::path(folder, listed.number);
            let length = fs_err::metadata(&path)?.len();
            let segment = Segment::open(&path, listed.number)?;
            let numbers = manifest.ids != Some(IdKind::Names);
            let fits = segment.rows() as u64 == listed.rows
                && length == listed.bytes
                && segment.bits() == bits
                && segment.classes() <= manifest.classes
                && (segment.rows() == 0 || segment.has_numbers() == numbers)
                && (segment.rows() == 0
                    || segment.has_outputs() == manifest.outputs.is_some());
            if !fits {
                return Err(Error::content(
                    "not the segment that the manifest lists; restore the index from a copy",
                )
                .at(&path));
            }
            parts.push(Part::new(Store::Segment(segment)));
        }
        remove_listed(&mut parts)?;
        let segments = parts.len();
        Self::of(Some(folder.to_owned()), manifest, parts, segments)
    }

    pub(super) fn of(
        folder: Option<PathBuf>,
        manifest: Manifest,
        parts: Vec<Part>,
        segments: usize,
    ) -> Result<Snapshot> {
        let bits = Bits::new(manifest.bits)?;
        let mut bases = vec![0_u32];
        let mut total = 0_usize;
        for part in &parts {
            total += part.rows();
            bases.push(u32::try_from(total).map_err(|_| too_many(total))?);
        }
        let label_counts = OnceLock::new();
        Ok(Snapshot { folder, manifest, bits, parts, segments, bases, label_counts })
    }

    /// Builds an index of a kind (see [`INDEXES`](crate::index::INDEXES)) over every part that is
    /// large enough and has none yet. All snapshots that contain the part use it. Without it
    /// everything is scanned.
    pub fn prepare(&self, kind: &str, progress: &(dyn Fn(usize) + Sync)) -> Result<()> {
        build(kind, Codes::new(self.bits()), &|_| ())?; // reject an unknown name first
        for (part, &base) in self.parts.iter().zip(&self.bases) {
            part.source.build(kind, &|done| progress(base as usize + done))?;
        }
        Ok(())
    }

    /// Whether [`Snapshot::prepare`] has nothing left to do.
    pub fn is_prepared(&self) -> bool {
        self.parts.iter().all(|part| part.source.is_built())
    }

    /// How every part is searched.
    pub fn explain(&self) -> Result<Vec<String>> {
        self.parts.iter().map(|part| Ok(part.source.index()?.explain())).collect()
    }

    /// The code length.
    pub fn bits(&self) -> Bits {
        self.bits
    }

    /// How many items can be found.
    pub fn len(&self) -> usize {
        self.parts.iter().map(Part::live_rows).sum()
    }

    /// Whether no item can be found.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All rows, removed and hidden ones included.
    pub(super) fn rows(&self) -> usize {
        self.bases.last().map_or(0, |&rows| rows as usize)
    }

    /// The numbers of the items that can be found, ascending.
    pub fn items(&self) -> impl Iterator<Item = u32> + '_ {
        let all = self.parts.iter().zip(&self.bases);
        all.flat_map(|(part, &base)| {
            let rows = u32::try_from(part.rows()).unwrap_or(u32::MAX);
            (0..rows).filter(|&row| part.is_live(row)).map(move |row| base + row)
        })
    }

    /// The numbers of the items that are kept, but cannot be found, ascending.
    pub fn hidden_items(&self) -> Vec<u32> {
        let mut hidden = Vec::new();
        for (part, &base) in self.parts.iter().zip(&self.bases) {
            let flags = (0_u32..).zip(part.source.all_flags());
            let own = flags.filter(|(_, flags)| *flags & super::HIDDEN != 0);
            hidden.extend(
                own.filter(|(row, _)| !part.is_removed(*row)).map(|(row, _)| base + row),
            );
        }
        hidden
    }

    /// The names of the labels; empty if they have none.
    pub fn label_names(&self) -> &[String] {
        &self.manifest.label_names
    }

    /// The number of the last commit.
    pub fn commit(&self) -> u64 {
        self.manifest.commit
    }

    /// A summary.
    pub fn info(&self) -> Info {
        let logged = self.parts[self.segments..].iter().map(Part::live_rows).sum();
        Info {
            bits: self.manifest.bits,
            items: self.len(),
            removed: self.rows() - self.len(),
            segments: self.segments,
            logged,
            commit: self.manifest.commit,
            bytes: self.manifest.segments.iter().map(|segment| segment.bytes).sum(),
            ids: self.manifest.ids.map(|kind| match kind {
                IdKind::Numbers => "numbers",
                IdKind::Names => "names",
            }),
            labels: self.manifest.classes,
            label_names: !self.manifest.label_names.is_empty(),
            outputs: self.manifest.outputs.map(|kind| match kind {
                OutputKind::Int8 => "int8",
            }),
        }
    }

    /// An id as a user types it; `None` if the index cannot contain it.
    pub fn typed_id(&self, text: &str) -> Option<Id> {
        match self.manifest.ids {
            // 007 is not the id 7: one item has one name.
            Some(IdKind::Numbers) => {
                let number = text.parse::<u64>().ok();
                number.filter(|number| number.to_string() == text).map(Id::Number)
            }
            _ => Some(Id::Name(text.to_owned())),
        }
    }

    /// The item with this id.
    pub fn find(&self, id: &Id) -> Result<Option<u32>> {
        for (part, base) in self.parts.iter().zip(&self.bases).rev() {
            if let Some(row) = part.source.find(id)?
                && part.is_live(row)
            {
                return Ok(Some(base + row));
            }
        }
        Ok(None)
    }

    /// Whether there is an item with this id, hidden or not.
    pub(crate) fn contains(&self, id: &Id) -> Result<bool> {
        for part in self.parts.iter().rev() {
            if part.source.find(id)?.is_some_and(|row| !part.is_removed(row)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The id of an item.
    pub fn id(&self, item: u32) -> Result<Id> {
        let (part, row) = self.place(item)?;
        part.source.id(row)
    }

    /// The words of an item's code.
    pub fn code(&self, item: u32) -> Result<&[u64]> {
        let (part, row) = self.place(item)?;
        Ok(part.source.codes()?.code(row))
    }

    /// Whether the outputs of the model are stored for every item.
    pub fn has_outputs(&self) -> bool {
        self.manifest.outputs.is_some()
    }

    /// The stored outputs of an item, one signed byte per bit; `None` if the index stores none.
    pub fn outputs(&self, item: u32) -> Result<Option<&[i8]>> {
        let (part, row) = self.place(item)?;
        Ok(part.source.outputs()?.map(|rows| rows.row(row)))
    }

    /// The labels of an item, ascending.
    pub fn labels(&self, item: u32) -> Result<Vec<usize>> {
        let (part, row) = self.place(item)?;
        let mut labels = Vec::new();
        each_label(part.source.labels()?.row(row), |label| labels.push(label));
        Ok(labels)
    }

    /// The payload of an item; empty if it has none.
    pub fn payload(&self, item: u32) -> Result<&[u8]> {
        let (part, row) = self.place(item)?;
        Ok(part.source.payload(row)?.0)
    }

    /// The xxh3-64 of an item's payload; 0 if it has none.
    pub fn payload_checksum(&self, item: u32) -> Result<u64> {
        let (part, row) = self.place(item)?;
        Ok(part.source.payload(row)?.1)
    }

    /// The flags of an item, see [`SEED`](super::SEED).
    pub fn flags(&self, item: u32) -> u8 {
        self.place(item).map_or(0, |(part, row)| part.source.flags(row))
    }

    /// The ids of all [`SEED`](super::SEED) items that were ever replaced or deleted, ascending.
    pub fn superseded(&self) -> Vec<Id> {
        let all = self.parts.iter().flat_map(|part| part.source.superseded());
        let mut ids: Vec<Id> = all.cloned().collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// How many items have each label.
    pub fn label_counts(&self) -> Result<&[usize]> {
        if let Some(counts) = self.label_counts.get() {
            return Ok(counts);
        }
        let mut counts = vec![0; self.manifest.classes];
        self.parts.iter().try_for_each(|part| part.count_labels(&mut counts))?;
        self.check_files()?;
        Ok(self.label_counts.get_or_init(|| counts))
    }

    /// All items that can be found, in the order of item numbers: for export. Damage is an error.
    pub fn to_code_file(&self) -> Result<CodeFile> {
        let gathered = super::merge::gather(self, 0, &|part, row| part.is_live(row))?;
        Ok(CodeFile {
            codes: gathered.codes,
            ids: self.manifest.ids.map(|_| gathered.ids),
            labels: gathered.labels,
        })
    }

    /// Copies this state into a new folder. Segments never change, so they are linked where the
    /// file system can.
    pub fn copy_to(&self, folder: &Path) -> Result<()> {
        fs_err::create_dir_all(folder)?;
        if fs_err::read_dir(folder)?.next().is_some() {
            return Err(Error::content(format!(
                "{} is not empty; name an empty folder",
                folder.display()
            )));
        }
        let Some(from) = &self.folder else {
            return Err(Error::content(
                "the items are in memory; there is nothing to copy",
            ));
        };
        let link = |from: &Path, to: &Path| -> Result<()> {
            if std::fs::hard_link(from, to).is_err() {
                fs_err::copy(from, to)?;
                fs_err::File::open(to)?.sync_all()?;
            }
            Ok(())
        };
        let mut next = self.manifest.clone();
        for listed in &self.manifest.segments {
            let number = listed.number;
            link(&Manifest::path(from, number), &Manifest::path(folder, number))?;
        }
        super::merge::write_pending(self, folder, &mut next)?;
        log::create(folder, next.log, self.bits, next.commit.saturating_add(1))?;
        next.write(folder)
    }

    /// Reads everything once and compares it with its checksums.
    pub fn verify(&self) -> Result<()> {
        self.parts.iter().try_for_each(|part| match &part.source.store {
            Store::Segment(segment) => segment.verify(),
            Store::Memory(_) => Ok(()),
        })
    }

    /// Fails if a file was cut short while it was read. Call it after the content was used.
    pub fn check_files(&self) -> Result<()> {
        self.parts.iter().try_for_each(|part| match &part.source.store {
            Store::Segment(segment) => segment.check_file(),
            Store::Memory(_) => Ok(()),
        })
    }

    /// The part and row of an item.
    pub(super) fn place(&self, item: u32) -> Result<(&Part, usize)> {
        let nth = self.bases.partition_point(|&base| base <= item).wrapping_sub(1);
        let part = self.parts.get(nth).ok_or_else(|| {
            Error::content(format!("there is no item {item}, only {}", self.rows()))
        })?;
        Ok((part, (item - self.bases[nth]) as usize))
    }

    /// The parts without some ids, and the ids of seeds among them.
    pub(super) fn without<'a>(
        &self,
        ids: impl Iterator<Item = &'a Id>,
    ) -> Result<(Vec<Part>, Vec<Id>)> {
        let (mut parts, mut superseded) = (self.parts.clone(), Vec::new());
        for id in ids {
            for part in parts.iter_mut().rev() {
                if let Some(seed) = part.remove_id(id)? {
                    superseded.extend(seed.then(|| id.clone()));
                    break;
                }
            }
        }
        Ok((parts, superseded))
    }

    /// The next snapshot: after one commit, whose items are kept in memory.
    pub(super) fn with(&self, change: Change) -> Result<Snapshot> {
        let ids = ids_of(&change.items);
        let (mut parts, superseded) = self.without(ids.iter().chain(&change.deleted))?;
        let mut manifest = self.manifest.clone();
        manifest.commit += 1;
        manifest.classes = manifest.classes.max(change.classes);
        manifest.next_id = manifest.next_id.max(change.next_id);
        if !change.items.is_empty() {
            manifest.ids = Some(kind_of(change.items.ids.as_ref()));
        }
        if !change.items.is_empty() || !superseded.is_empty() {
            let rows = MemoryRows::new(change.items, 0, superseded);
            parts.push(Part::new(Store::Memory(rows)));
        }
        super::merge::merge_memory(&mut parts, self.segments, self.bits, manifest.classes)?;
        Self::of(self.folder.clone(), manifest, parts, self.segments)
    }
}

/// The ids of items.
pub(super) fn ids_of(items: &ItemBatch) -> Vec<Id> {
    let ids = items.ids.as_ref();
    ids.map_or(Vec::new(), |ids| (0..ids.len()).map(|row| ids.get(row)).collect())
}

pub(super) fn kind_of(ids: Option<&Ids>) -> IdKind {
    match ids {
        Some(Ids::Names(_)) => IdKind::Names,
        Some(Ids::Numbers(_)) | None => IdKind::Numbers,
    }
}

/// Removes the rows that the segments list as removed.
fn remove_listed(parts: &mut [Part]) -> Result<()> {
    let number = |part: &Part| part.source.number().unwrap_or(u64::MAX);
    for nth in 0..parts.len() {
        let source = Arc::clone(&parts[nth].source);
        let Store::Segment(segment) = &source.store else { continue };
        for &(removed, row) in &segment.removed {
            let at = parts.binary_search_by_key(&removed, number).ok();
            let at = at.filter(|&at| (row as usize) < parts[at].rows());
            let Some(at) = at else {
                return Err(Error::content(format!(
                    "segment {} removes row {row} of segment {removed}, which does not exist; \
                     restore the index from a copy",
                    segment.number
                )));
            };
            parts[at].remove(row);
        }
    }
    for part in parts {
        part.recorded.clone_from(&part.removed);
    }
    Ok(())
}

pub(super) fn too_many(rows: usize) -> Error {
    Error::content(format!(
        "{rows} rows; one index holds at most {}: compact it or make several",
        u32::MAX
    ))
}
