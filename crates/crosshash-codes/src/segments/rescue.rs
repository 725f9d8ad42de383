//! `rescue`: copies what is healthy of a damaged index into a new one.
//!
//! Segments are read in their order, then the log up to its first damaged record. A row is copied if
//! its code, its id and its payload are healthy; labels and outputs are left out for a segment where
//! they are damaged. Removals that were listed in a damaged segment are lost: items that they removed
//! come back.

use std::path::Path;
use std::sync::Arc;

use super::batch::ItemBatch;
use super::file::Segment;
use super::log;
use super::manifest::{Manifest, OutputKind};
use super::record::Change;
use super::writer::{NewIndex, Writer};
use crate::format::{Id, Ids};
use crate::{Bits, Codes, Error, Labels, Outputs, Result};

/// Rows that are copied together.
const CHUNK: usize = 4096;

/// What was rescued and what was lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rescued {
    /// Items of the new index.
    pub items: usize,
    /// Rows that could not be read.
    pub lost: usize,
    /// What is damaged, one sentence each.
    pub damage: Vec<String>,
}

/// Copies the healthy items of an index into a new folder. A damaged manifest is an error: restore it
/// from a copy.
pub fn rescue(from: &Path, to: &Path) -> Result<Rescued> {
    let manifest = Manifest::read(from)?;
    let bits = Bits::new(manifest.bits)?;
    let outputs = manifest.outputs == Some(OutputKind::Int8);
    let mut writer = Writer::create_with(
        to,
        NewIndex {
            bits,
            label_names: &manifest.label_names,
            outputs,
            after_commit: manifest.commit,
        },
    )?;
    let mut rescued = Rescued::default();
    let mut open: Vec<Segment> = Vec::new();
    for listed in &manifest.segments {
        let path = Manifest::path(from, listed.number);
        match Segment::open(&path, listed.number) {
            Ok(segment) => {
                // What a segment removes comes before what it adds.
                let gone = removed(&segment, &open, &mut rescued);
                writer.delete(&gone)?;
                copy(&segment, outputs, &mut writer, &mut rescued)?;
                open.push(segment);
            }
            Err(err) => {
                let rows = usize::try_from(listed.rows).unwrap_or(usize::MAX);
                rescued.lost = rescued.lost.saturating_add(rows);
                rescued.damage.push(err.to_string());
            }
        }
    }
    let first = manifest.commit.saturating_add(1);
    let (records, fault) = log::read_healthy(from, manifest.log, bits, first);
    rescued.damage.extend(fault.map(|err| err.to_string()));
    for body in records {
        let applied = Change::decode(&manifest, &body).and_then(|change| {
            writer.delete(&change.deleted)?;
            writer.upsert(change.items)
        });
        match applied {
            Ok(_) => {}
            Err(err @ Error::Io(_)) => return Err(err), // of the new index
            Err(err) => {
                rescued.damage.push(err.at(&log::path(from, manifest.log)).to_string());
                break; // later changes may depend on it
            }
        }
    }
    writer.flush()?;
    rescued.items = writer.snapshot().len() + writer.snapshot().hidden_items().len();
    Ok(rescued)
}

/// The ids that a segment removes from earlier ones.
fn removed(segment: &Segment, open: &[Segment], rescued: &mut Rescued) -> Vec<Id> {
    let mut ids = Vec::new();
    for &(number, row) in &segment.removed {
        let source = open.iter().find(|source| source.number == number);
        match source.map(|source| source.id(row as usize)) {
            Some(Ok(id)) => ids.push(id),
            Some(Err(err)) => rescued.damage.push(err.to_string()),
            None => {} // its segment was lost, and the row with it
        }
    }
    ids.extend(segment.superseded.iter().cloned());
    ids
}

/// Copies the healthy rows of a segment.
fn copy(
    segment: &Segment,
    outputs: bool,
    writer: &mut Writer,
    rescued: &mut Rescued,
) -> Result<()> {
    if segment.rows() == 0 {
        return Ok(());
    }
    let (codes, first_id) = (segment.codes(), segment.id(0));
    let codes = match (codes, first_id) {
        (Ok(codes), Ok(_)) => codes,
        (Err(err), _) | (_, Err(err)) => {
            rescued.lost += segment.rows();
            rescued.damage.push(err.to_string());
            return Ok(());
        }
    };
    let labels = segment.labels().map_err(|err| rescued.damage.push(err.to_string())).ok();
    let rows = segment.outputs().map_err(|err| rescued.damage.push(err.to_string()));
    let rows = rows.ok().flatten().filter(|_| outputs);
    let all: Vec<usize> = (0..segment.rows()).collect();
    for chunk in all.chunks(CHUNK) {
        let mut batch = Batch::default();
        for &row in chunk {
            match (segment.id(row), segment.payload(row)) {
                (Ok(id), Ok((payload, _))) => {
                    batch.ids.push(id);
                    batch.payloads.push(payload.into());
                    batch.codes.extend_from_slice(codes.code(row));
                    batch.flags.push(segment.flags.get(row).copied().unwrap_or(0));
                    if let Some(labels) = &labels {
                        batch.labels.extend_from_slice(labels.row(row));
                    }
                    if let Some(rows) = &rows {
                        batch.outputs.extend_from_slice(rows.row(row));
                    }
                }
                (Err(err), _) | (_, Err(err)) => {
                    rescued.lost += 1;
                    let what = err.to_string();
                    if rescued.damage.last() != Some(&what) {
                        rescued.damage.push(what);
                    }
                }
            }
        }
        let classes = labels.as_ref().map_or(0, |_| segment.classes());
        writer.upsert(batch.items(segment.bits(), classes, rows.is_some())?)?;
    }
    Ok(())
}

/// Rows on their way to the new index.
#[derive(Default)]
struct Batch {
    ids: Vec<Id>,
    codes: Vec<u64>,
    labels: Vec<u64>,
    flags: Vec<u8>,
    payloads: Vec<Arc<[u8]>>,
    outputs: Vec<i8>,
}

impl Batch {
    fn items(self, bits: Bits, classes: usize, outputs: bool) -> Result<ItemBatch> {
        let rows = self.ids.len();
        let (mut numbers, mut names) = (Vec::new(), Vec::new());
        for id in self.ids {
            match id {
                Id::Number(number) => numbers.push(number),
                Id::Name(name) => names.push(name),
            }
        }
        if !numbers.is_empty() && !names.is_empty() {
            return Err(Error::content("a segment has ids of both kinds"));
        }
        let ids = if names.is_empty() { Ids::Numbers(numbers) } else { Ids::Names(names) };
        let labels = (classes > 0).then(|| Labels::from_words(classes, rows, self.labels));
        let outputs = outputs.then(|| Outputs::from_bytes(bits, self.outputs));
        Ok(ItemBatch {
            codes: Codes::from_words(bits, self.codes)?,
            ids: Some(ids),
            labels: labels.transpose()?,
            payloads: Some(self.payloads),
            flags: Some(self.flags),
            outputs: outputs.transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Snapshot;
    use super::*;

    fn batch(ids: std::ops::Range<u64>) -> ItemBatch {
        let bits = Bits::new(64).unwrap();
        let codes: Vec<u64> = ids.clone().map(|id| id * 1000).collect();
        let payloads = ids.clone().map(|id| format!("payload {id}").into_bytes().into());
        ItemBatch {
            payloads: Some(payloads.collect()),
            ids: Some(Ids::Numbers(ids.clone().collect())),
            labels: Some(
                Labels::from_indices(2, ids.map(|id| [u32::try_from(id % 2).unwrap()]))
                    .unwrap(),
            ),
            ..ItemBatch::new(Codes::from_words(bits, codes).unwrap())
        }
    }

    /// Two segments and a log; returns their folder.
    fn index() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("from");
        let mut writer = Writer::create(&from, Bits::new(64).unwrap(), &[]).unwrap();
        writer.insert(batch(0..10)).unwrap();
        writer.flush().unwrap();
        writer.insert(batch(10..20)).unwrap();
        writer.delete(&[Id::Number(3)]).unwrap();
        writer.flush().unwrap();
        writer.insert(batch(20..25)).unwrap();
        writer.delete(&[Id::Number(12)]).unwrap();
        dir
    }

    fn ids(folder: &Path) -> Vec<u64> {
        let snapshot = Snapshot::open(folder).unwrap();
        snapshot.verify().unwrap();
        let mut ids = Vec::new();
        for item in snapshot.items() {
            let Id::Number(id) = snapshot.id(item).unwrap() else { panic!("a name") };
            assert_eq!(snapshot.code(item).unwrap(), [id * 1000]);
            assert_eq!(snapshot.payload(item).unwrap(), format!("payload {id}").as_bytes());
            ids.push(id);
        }
        ids.sort_unstable();
        ids
    }

    fn damage(path: &Path, find: &[u8]) {
        let mut bytes = fs_err::read(path).unwrap();
        let at = bytes.windows(find.len()).position(|part| part == find).unwrap();
        bytes[at] ^= 1;
        fs_err::write(path, bytes).unwrap();
    }

    #[test]
    fn a_healthy_index_is_copied() {
        let dir = index();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let rescued = rescue(&from, &to).unwrap();
        assert_eq!((rescued.items, rescued.lost, rescued.damage.len()), (23, 0, 0));
        assert_eq!(ids(&to), ids(&from));
        let states = super::super::verify(&from).unwrap();
        assert!(states.len() == 4 && states.iter().all(|state| state.fault.is_none()));
    }

    #[test]
    fn what_is_healthy_is_rescued() {
        let dir = index();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let manifest = Manifest::read(&from).unwrap();
        let path = |nth: usize| Manifest::path(&from, manifest.segments[nth].number);
        damage(&path(0), b"payload 5");
        let states = super::super::verify(&from).unwrap();
        let bad: Vec<_> = states.iter().filter(|state| state.fault.is_some()).collect();
        assert_eq!((bad.len(), &bad[0].path), (1, &path(0)));
        let rescued = rescue(&from, &to).unwrap();
        assert_eq!((rescued.items, rescued.lost, rescued.damage.len()), (22, 1, 1));
        assert!(rescued.damage[0].contains("payloads section is damaged"), "{rescued:?}");
        let expected: Vec<u64> = (0..25).filter(|id| ![3, 5, 12].contains(id)).collect();
        assert_eq!(ids(&to), expected);
        // the codes of the second segment: its rows are lost, its removals are not
        damage(&path(1), &15_000_u64.to_le_bytes());
        let again = dir.path().join("again");
        let rescued = rescue(&from, &again).unwrap();
        assert_eq!((rescued.lost, rescued.damage.len()), (11, 2), "{rescued:?}");
        let expected: Vec<u64> =
            (0..10).chain(20..25).filter(|id| ![3, 5].contains(id)).collect();
        assert_eq!(ids(&again), expected);
        // a record of the log
        damage(&log::path(&from, manifest.log), b"payload 21");
        let third = dir.path().join("third");
        let rescued = rescue(&from, &third).unwrap();
        assert_eq!(rescued.damage.len(), 3, "{rescued:?}");
        assert_eq!(
            ids(&third),
            (0..10).filter(|id| ![3, 5].contains(id)).collect::<Vec<_>>()
        );
    }
}
