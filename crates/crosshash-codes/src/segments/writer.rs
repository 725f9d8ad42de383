//! `Writer`: inserts, upserts, deletes and compacts; one at a time for a folder.
//!
//! Every method is one commit: when it returns, what it did survives a power cut; if it fails, or
//! the power goes before it returns, it has done nothing or all of it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::file::{self, NewIds, Place};
use super::manifest::{IdKind, Listed, Manifest};
use super::snapshot::{Snapshot, too_many};
use crate::format::{CodeFile, Id, Ids};
use crate::index::ItemSet;
use crate::{Bits, Codes, Error, Labels, Result};

const LOCK: &str = "lock";
/// How often, and after what pause, a lock is asked for before it is given up.
const LOCK_ATTEMPTS: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// More segments than this are merged, the newest and smallest first.
const MAX_SEGMENTS: usize = 24;

/// The one who may change an index.
pub struct Writer {
    snapshot: Snapshot,
    /// Held as long as the writer lives; the system lets go of it even after kill -9.
    _lock: std::fs::File,
}

impl Writer {
    /// Makes an empty index in a folder that does not exist or is empty.
    pub fn create(folder: &Path, bits: Bits, label_names: &[String]) -> Result<Writer> {
        fs_err::create_dir_all(folder)?;
        let taken = |entry: std::io::Result<fs_err::DirEntry>| {
            entry.is_ok_and(|entry| entry.file_name() != LOCK)
        };
        if fs_err::read_dir(folder)?.any(taken) {
            return Err(Error::content(format!(
                "{} is not empty; name a folder that is, or add to the index that is there",
                folder.display()
            )));
        }
        let lock = lock(folder)?;
        let mut manifest = Manifest::new(bits);
        manifest.label_names = label_names.to_vec();
        manifest.classes = label_names.len();
        manifest.write(folder)?;
        Ok(Writer { snapshot: Snapshot::over(folder, manifest)?, _lock: lock })
    }

    /// Opens an index for writing; refused while another writer has it.
    pub fn open(folder: &Path) -> Result<Writer> {
        Manifest::read(folder)?;
        let lock = lock(folder)?;
        let snapshot = Snapshot::open(folder)?;
        let writer = Writer { snapshot, _lock: lock };
        writer.sweep()?;
        Ok(writer)
    }

    /// What is committed now.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Adds items; an id that is there already, or comes twice, is refused. Items without ids
    /// are numbered on. Returns how many were added.
    pub fn insert(&mut self, items: &CodeFile) -> Result<usize> {
        let items = self.check(items)?;
        if let Some(ids) = &items.ids {
            for at in 0..ids.len() {
                if self.snapshot.find(&ids.get(at))?.is_some() {
                    return Err(Error::content(format!(
                        "row {at}: id {} is in the index already; upsert replaces it",
                        ids.get(at)
                    )));
                }
            }
        }
        self.add(&items, Vec::new())
    }

    /// Adds items; those whose id is there already replace the old ones. Returns how many were
    /// replaced.
    pub fn upsert(&mut self, items: &CodeFile) -> Result<usize> {
        let items = self.check(items)?;
        let mut removed = Vec::new();
        if let Some(ids) = &items.ids {
            for at in 0..ids.len() {
                removed.extend(self.snapshot.find(&ids.get(at))?.map(|i| self.place(i)));
            }
        }
        let replaced = removed.len();
        self.add(&items, removed)?;
        Ok(replaced)
    }

    /// Removes the items with these ids; returns how many there were. Ids that are not in the
    /// index are no error: they are gone already.
    pub fn delete(&mut self, ids: &[Id]) -> Result<usize> {
        let mut gone = ItemSet::none(self.snapshot.rows());
        for id in ids {
            if let Some(item) = self.snapshot.find(id)? {
                gone.insert(item);
            }
        }
        self.delete_items(&gone)
    }

    /// Removes these items, as [`Snapshot::filter`] finds them; returns how many there were.
    pub fn delete_items(&mut self, items: &ItemSet) -> Result<usize> {
        let removed: Vec<Place> = items.iter().map(|item| self.place(item)).collect();
        if !removed.is_empty() {
            let none = CodeFile::new(Codes::new(self.snapshot.bits()));
            let mut next = self.snapshot.manifest.clone();
            self.push(&mut next, &none, NewIds::Counted(0), &removed)?;
            self.commit(next)?;
            self.merge_if_many()?;
        }
        Ok(items.count())
    }

    /// Writes what is left into one segment.
    pub fn compact(&mut self) -> Result<()> {
        let whole = self.snapshot.segments.len() <= 1 && self.snapshot.live.is_none();
        if whole { Ok(()) } else { self.merge_from(0) }
    }

    /// The items as they will be stored, if they fit the index.
    fn check(&self, items: &CodeFile) -> Result<CodeFile> {
        items.check_rows()?;
        let manifest = &self.snapshot.manifest;
        if items.codes.bits().get() != manifest.bits {
            return Err(Error::Mismatch {
                left: "the index".into(),
                left_size: manifest.bits,
                right: "the new items".into(),
                right_size: items.codes.bits().get(),
                unit: "bits a code",
                remedy: "encode both by one model",
            });
        }
        let total = self.snapshot.rows() + items.codes.len();
        u32::try_from(total).map_err(|_| too_many(total))?;
        let kind = items.ids.as_ref().map_or(IdKind::Numbers, kind_of);
        if let Some(have) = manifest.ids
            && have != kind
        {
            let word = |kind| if kind == IdKind::Names { "names" } else { "numbers" };
            return Err(Error::content(format!(
                "the index has {} as ids, the new items have {}; one index has one kind",
                word(have),
                word(kind)
            )));
        }
        if let Some(id) = items.ids.as_ref().and_then(twice) {
            return Err(Error::content(format!(
                "id {id} comes twice; every item needs its own"
            )));
        }
        let labels = match &items.labels {
            Some(labels) if labels.classes() < manifest.classes => {
                Some(labels.widen(manifest.classes)?)
            }
            Some(labels)
                if labels.classes() > manifest.classes
                    && !manifest.label_names.is_empty() =>
            {
                return Err(Error::Mismatch {
                    left: "the index".into(),
                    left_size: manifest.classes,
                    right: "the new items".into(),
                    right_size: labels.classes(),
                    unit: "labels",
                    remedy: "label names must be given for all of them",
                });
            }
            other => other.clone(),
        };
        Ok(CodeFile { codes: items.codes.clone(), ids: items.ids.clone(), labels })
    }

    fn add(&mut self, items: &CodeFile, removed: Vec<Place>) -> Result<usize> {
        let count = items.codes.len();
        if count == 0 {
            return Ok(0);
        }
        let mut next = self.snapshot.manifest.clone();
        let ids = match &items.ids {
            Some(ids) => NewIds::Given(ids),
            None => NewIds::Counted(next.next_id),
        };
        next.ids = Some(items.ids.as_ref().map_or(IdKind::Numbers, kind_of));
        next.next_id = match &items.ids {
            None => next.next_id.checked_add(count as u64).ok_or_else(|| {
                Error::content(
                    "the largest id is taken; give the new items ids of their own",
                )
            })?,
            Some(Ids::Numbers(ids)) => {
                let largest = ids.iter().copied().max().unwrap_or(0);
                next.next_id.max(largest.saturating_add(1))
            }
            Some(Ids::Names(_)) => next.next_id,
        };
        let classes = items.labels.as_ref().map_or(0, Labels::classes);
        next.classes = next.classes.max(classes);
        self.push(&mut next, items, ids, &removed)?;
        self.commit(next)?;
        self.merge_if_many()?;
        Ok(count)
    }

    /// Writes a segment and lists it.
    fn push(
        &self,
        next: &mut Manifest,
        items: &CodeFile,
        ids: NewIds<'_>,
        removed: &[Place],
    ) -> Result<()> {
        let number = next.next_segment;
        next.next_segment += 1;
        let path = Manifest::path(self.folder(), number);
        file::write(&path, items, ids, removed)?;
        let bytes = fs_err::metadata(&path)?.len();
        next.segments.push(Listed { number, rows: items.codes.len() as u64, bytes });
        Ok(())
    }

    fn commit(&mut self, mut next: Manifest) -> Result<()> {
        next.commit += 1;
        next.write(self.folder())?;
        let folder = self.folder().to_owned();
        self.snapshot = Snapshot::over(&folder, next)?;
        Ok(())
    }

    /// Keeps the number of segments small: those at the end whose rows together do not exceed
    /// the one before them become one, so that each row is moved a few times in its life.
    fn merge_if_many(&mut self) -> Result<()> {
        let segments = &self.snapshot.manifest.segments;
        if segments.len() <= MAX_SEGMENTS {
            return Ok(());
        }
        let mut first = segments.len() - MAX_SEGMENTS / 2;
        let mut rows: u64 = segments[first..].iter().map(|segment| segment.rows).sum();
        while first > 0 && segments[first - 1].rows <= rows {
            first -= 1;
            rows += segments[first].rows;
        }
        self.merge_from(first)
    }

    /// Makes one segment of those from the `first`-th on.
    fn merge_from(&mut self, first: usize) -> Result<()> {
        let items = self.snapshot.live_rows(first)?;
        let kept: HashSet<u64> =
            self.snapshot.segments[..first].iter().map(|segment| segment.number).collect();
        let merged = &self.snapshot.segments[first..];
        let removed: Vec<Place> = merged
            .iter()
            .flat_map(|segment| &segment.removed)
            .filter(|(number, _)| kept.contains(number))
            .copied()
            .collect();
        let mut next = self.snapshot.manifest.clone();
        next.segments.truncate(first);
        if !items.codes.is_empty() || !removed.is_empty() {
            let ids = match &items.ids {
                Some(ids) => counted(ids).map_or(NewIds::Given(ids), NewIds::Counted),
                None => NewIds::Counted(0),
            };
            self.push(&mut next, &items, ids, &removed)?;
        }
        self.commit(next)?;
        self.sweep()
    }

    /// Removes files that the manifest does not name: what a crash or a merge left.
    fn sweep(&self) -> Result<()> {
        let listed = &self.snapshot.manifest.segments;
        let named: HashSet<PathBuf> =
            listed.iter().map(|s| Manifest::path(self.folder(), s.number)).collect();
        for entry in fs_err::read_dir(self.folder())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let aside = name.starts_with(".crosshash-") && name.ends_with(".tmp");
            if aside || (name.ends_with(".segment") && !named.contains(&path)) {
                fs_err::remove_file(&path)?;
            }
        }
        Ok(())
    }

    fn folder(&self) -> &Path {
        &self.snapshot.folder
    }

    fn place(&self, item: u32) -> Place {
        let bases = &self.snapshot.bases;
        let nth = bases.partition_point(|&base| base <= item) - 1;
        (self.snapshot.segments[nth].number, item - bases[nth])
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
    // a process that is just being started holds copies of our open files for a moment
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

fn kind_of(ids: &Ids) -> IdKind {
    match ids {
        Ids::Numbers(_) => IdKind::Numbers,
        Ids::Names(_) => IdKind::Names,
    }
}

/// The first of ids that just count up.
fn counted(ids: &Ids) -> Option<u64> {
    let Ids::Numbers(ids) = ids else { return None };
    let first = *ids.first()?;
    let count = |(at, &id): (u64, &u64)| first.checked_add(at) == Some(id);
    (0..).zip(ids).all(count).then_some(first)
}

/// An id that comes more than once.
fn twice(ids: &Ids) -> Option<Id> {
    let order = file::order(ids);
    let row = |rank: usize| order.as_ref().map_or(rank, |rows| rows[rank] as usize);
    let same = |rank: &usize| match ids {
        Ids::Numbers(ids) => ids[row(*rank)] == ids[row(*rank - 1)],
        Ids::Names(ids) => ids[row(*rank)] == ids[row(*rank - 1)],
    };
    (1..ids.len()).find(same).map(|rank| ids.get(row(rank)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::index::Query;
    use crate::write::cut;

    type State = BTreeMap<u64, u64>;

    fn items(pairs: &[(u64, u64)]) -> CodeFile {
        let words = pairs.iter().map(|pair| pair.1).collect();
        CodeFile {
            codes: Codes::from_words(Bits::new(64).unwrap(), words).unwrap(),
            ids: Some(Ids::Numbers(pairs.iter().map(|pair| pair.0).collect())),
            labels: None,
        }
    }

    /// What a reader finds, by asking for everything.
    fn state(folder: &Path) -> State {
        let snapshot = Snapshot::open(folder).unwrap();
        snapshot.verify().unwrap();
        let zero = Codes::from_words(Bits::new(64).unwrap(), vec![0]).unwrap();
        let found = snapshot.search(&zero, &Query::within(64), &|_| ()).unwrap().remove(0);
        assert!(found.is_sorted_by_key(|found| found.hit));
        let file = snapshot.to_code_file().unwrap();
        let Some(Ids::Numbers(ids)) = &file.ids else { return State::new() };
        let all: State =
            ids.iter().copied().zip(file.codes.words().iter().copied()).collect();
        assert_eq!((found.len(), snapshot.len()), (all.len(), all.len()));
        all
    }

    fn copy(from: &Path, to: &Path) {
        fs_err::create_dir_all(to).unwrap();
        for entry in fs_err::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            fs_err::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }

    /// Cuts the power inside everything that each operation writes, byte by byte: the old state is there, whole,
    /// until the operation has returned, and the new one from then on.
    #[test]
    fn a_power_cut_at_any_byte_leaves_the_last_commit() {
        type Operation = fn(&mut Writer) -> Result<usize>;
        let operations: [(&str, Operation); 5] = [
            ("insert", |writer| writer.insert(&items(&[(7, 70), (8, 80), (3, 30)]))),
            ("upsert", |writer| writer.upsert(&items(&[(8, 81), (9, 90)]))),
            ("delete", |writer| writer.delete(&[Id::Number(3), Id::Number(1000)])),
            ("compact", |writer| writer.compact().map(|()| 0)),
            ("insert after", |writer| writer.insert(&items(&[(1, 10)]))),
        ];
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("base");
        drop(Writer::create(&base, Bits::new(64).unwrap(), &[]).unwrap());
        for (name, operation) in operations {
            let before = state(&base);
            let done = dir.path().join("done");
            copy(&base, &done);
            operation(&mut Writer::open(&done).unwrap()).unwrap();
            let after = state(&done);
            let mut cuts = 0;
            for left in (0..).step_by(if name == "upsert" { 1 } else { 17 }) {
                let folder = dir.path().join("cut");
                copy(&base, &folder);
                let mut writer = Writer::open(&folder).unwrap();
                cut::LEFT.set(Some(left));
                let result = operation(&mut writer);
                cut::LEFT.set(None);
                drop(writer);
                let wanted = if result.is_ok() { &after } else { &before };
                assert_eq!(&state(&folder), wanted, "{name}, {left} bytes arrived");
                // and the next writer goes on as if nothing had been
                operation(&mut Writer::open(&folder).unwrap()).unwrap_or_default();
                assert_eq!(&state(&folder), &after, "{name} again");
                fs_err::remove_dir_all(&folder).unwrap();
                cuts += 1;
                if result.is_ok() {
                    break;
                }
            }
            assert!(cuts > 10, "{name}: {cuts} cuts");
            fs_err::remove_dir_all(&base).unwrap();
            fs_err::rename(&done, &base).unwrap();
        }
    }

    #[test]
    fn one_writer_many_readers() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(dir.path(), Bits::new(64).unwrap(), &[]).unwrap();
        writer.insert(&items(&[(1, 1), (2, 2)])).unwrap();
        let err = Writer::open(dir.path()).err().unwrap().to_string();
        assert!(
            err.ends_with("another process is writing to this index; wait for it to end")
        );
        let old = Snapshot::open(dir.path()).unwrap();
        writer.delete(&[Id::Number(1)]).unwrap();
        writer.compact().unwrap();
        assert_eq!((old.len(), writer.snapshot().len()), (2, 1));
        old.verify().unwrap();
        assert_eq!(state(dir.path()), State::from([(2, 2)]));
    }

    #[test]
    fn refusals_say_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let err = Writer::open(dir.path()).err().unwrap().to_string();
        assert!(err.contains("is not the folder of an index"), "{err}");
        let mut writer = Writer::create(dir.path(), Bits::new(64).unwrap(), &[]).unwrap();
        writer.insert(&items(&[(1, 1)])).unwrap();
        let mut refused = |items: &CodeFile| writer.insert(items).unwrap_err().to_string();
        assert_eq!(
            refused(&items(&[(5, 1), (1, 1)])),
            "row 1: id 1 is in the index already; upsert replaces it"
        );
        assert_eq!(
            refused(&items(&[(9, 1), (4, 1), (9, 2)])),
            "id 9 comes twice; every item needs its own"
        );
        let mut named = items(&[(5, 1)]);
        named.ids = Some(Ids::Names(vec!["five".into()]));
        assert_eq!(
            refused(&named),
            "the index has numbers as ids, the new items have names; one index has one kind"
        );
        let short =
            CodeFile::new(Codes::from_words(Bits::new(8).unwrap(), vec![3]).unwrap());
        assert_eq!(
            refused(&short),
            "the index has 64 bits a code, the new items has 8; encode both by one model"
        );
        let most = items(&[(u64::MAX, 1)]);
        assert_eq!(writer.insert(&most).unwrap(), 1);
        let mut more = items(&[(0, 2)]);
        more.ids = None;
        let err = writer.insert(&more).unwrap_err().to_string();
        assert_eq!(err, "the largest id is taken; give the new items ids of their own");
    }
}
