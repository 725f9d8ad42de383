//! Merging parts: rows that remain are copied in their order, removed ones are dropped with their
//! payloads. Everything that is copied is verified first.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use super::batch::ItemBatch;
use super::file::{NewSegment, Place};
use super::manifest::{IdKind, Listed, Manifest};
use super::memory::{MemoryRows, RowIds};
use super::part::{Part, Store};
use super::snapshot::Snapshot;
use crate::format::{Id, Ids};
use crate::{Bits, Codes, Error, Labels, Outputs, Result};

/// Rows of several parts.
pub(super) struct Gathered<'a> {
    pub(super) codes: Codes,
    pub(super) ids: Ids,
    pub(super) labels: Option<Labels>,
    pub(super) flags: Vec<u8>,
    pub(super) payloads: Vec<&'a [u8]>,
    pub(super) outputs: Option<Outputs>,
}

/// The rows of a snapshot's parts from `first` on that are to be kept.
pub(super) fn gather<'a>(
    snapshot: &'a Snapshot,
    first: usize,
    keep: &dyn Fn(&Part, u32) -> bool,
) -> Result<Gathered<'a>> {
    let names = snapshot.manifest.ids == Some(IdKind::Names);
    let classes = snapshot.manifest.classes;
    let stride = classes.div_ceil(64);
    let (mut words, mut labels) = (Vec::new(), Vec::new());
    let (mut numbers, mut texts) = (Vec::new(), Vec::new());
    let (mut flags, mut payloads) = (Vec::new(), Vec::new());
    let mut outputs: Vec<i8> = Vec::new();
    let has_outputs = snapshot.has_outputs();
    for part in &snapshot.parts[first..] {
        let (codes, label_rows) = (part.source.codes()?, part.source.labels()?);
        let output_rows = part.source.outputs()?;
        if has_outputs && output_rows.is_none() && part.rows() > 0 {
            return Err(Error::content("corrupt: some items of the index have no outputs"));
        }
        for row in 0..u32::try_from(part.rows()).unwrap_or(u32::MAX) {
            if !keep(part, row) {
                continue;
            }
            let row = row as usize;
            words.extend_from_slice(codes.code(row));
            match part.source.id(row)? {
                Id::Number(number) => numbers.push(number),
                Id::Name(name) => texts.push(name),
            }
            let own = label_rows.row(row);
            labels.extend_from_slice(own);
            labels.extend(std::iter::repeat_n(0, stride.saturating_sub(own.len())));
            flags.push(part.source.flags(row));
            payloads.push(part.source.payload(row)?.0);
            outputs.extend(output_rows.iter().flat_map(|rows| rows.row(row)));
        }
    }
    let labels = match classes {
        0 => None,
        classes => Some(Labels::from_words(classes, flags.len(), labels)?),
    };
    let codes = Codes::from_words(snapshot.bits(), words)?;
    let ids = if names { Ids::Names(texts) } else { Ids::Numbers(numbers) };
    let outputs = has_outputs.then(|| Outputs::from_bytes(snapshot.bits(), outputs));
    let outputs = outputs.transpose()?;
    snapshot.check_files()?;
    Ok(Gathered { codes, ids, labels, flags, payloads, outputs })
}

/// The superseded ids of some parts, each once.
fn superseded(parts: &[Part]) -> Vec<Id> {
    let mut seen = HashSet::new();
    let all = parts.iter().flat_map(|part| part.source.superseded());
    all.filter(|id| seen.insert(*id)).cloned().collect()
}

/// Writes a segment and lists it in the manifest.
pub(super) fn write_segment(
    folder: &Path,
    next: &mut Manifest,
    bits: Bits,
    segment: &NewSegment<'_>,
) -> Result<()> {
    let number = next.next_file;
    next.next_file += 1;
    let path = Manifest::path(folder, number);
    segment.write(&path, bits)?;
    let bytes = fs_err::metadata(&path)?.len();
    next.segments.push(Listed { number, rows: segment.codes.len() as u64, bytes });
    Ok(())
}

/// Writes the rows that are only in memory, and the removals that are not recorded, into a segment.
pub(super) fn write_pending(
    snapshot: &Snapshot,
    folder: &Path,
    next: &mut Manifest,
) -> Result<()> {
    let (segments, memory) = snapshot.parts.split_at(snapshot.segments);
    let removed: Vec<Place> = segments
        .iter()
        .flat_map(|part| {
            let number = part.source.number().unwrap_or(0);
            part.newly_removed().into_iter().map(move |row| (number, row))
        })
        .collect();
    let superseded = superseded(memory);
    let kept = |part: &Part, row: u32| !part.is_removed(row);
    let gathered = gather(snapshot, snapshot.segments, &kept)?;
    if gathered.codes.is_empty() && removed.is_empty() && superseded.is_empty() {
        return Ok(());
    }
    let segment = NewSegment {
        codes: &gathered.codes,
        ids: RowIds::compressed(gathered.ids),
        labels: gathered.labels.as_ref(),
        flags: gathered.flags,
        payloads: gathered.payloads,
        outputs: gathered.outputs.as_ref(),
        removed,
        superseded,
    };
    write_segment(folder, next, snapshot.bits(), &segment)
}

/// Writes one segment of those from the `first`-th on; nothing is in memory.
pub(super) fn write_merged(
    snapshot: &Snapshot,
    first: usize,
    folder: &Path,
    next: &mut Manifest,
) -> Result<()> {
    let kept: HashSet<u64> =
        snapshot.parts[..first].iter().filter_map(|part| part.source.number()).collect();
    let mut removed: Vec<Place> = Vec::new();
    for part in &snapshot.parts[first..] {
        let Store::Segment(segment) = &part.source.store else { continue };
        removed.extend(segment.removed.iter().filter(|place| kept.contains(&place.0)));
    }
    let superseded = superseded(&snapshot.parts[first..]);
    let gathered = gather(snapshot, first, &|part, row| !part.is_removed(row))?;
    next.segments.truncate(first);
    if gathered.codes.is_empty() && removed.is_empty() && superseded.is_empty() {
        return Ok(());
    }
    let segment = NewSegment {
        codes: &gathered.codes,
        ids: RowIds::compressed(gathered.ids),
        labels: gathered.labels.as_ref(),
        flags: gathered.flags,
        payloads: gathered.payloads,
        outputs: gathered.outputs.as_ref(),
        removed,
        superseded,
    };
    write_segment(folder, next, snapshot.bits(), &segment)
}

/// Keeps the number of parts in memory small: the newest are merged as long as they have at
/// least half as many rows as the one before them.
pub(super) fn merge_memory(
    parts: &mut Vec<Part>,
    segments: usize,
    bits: Bits,
    classes: usize,
) -> Result<()> {
    while parts.len() >= segments + 2 {
        let [.., before, last] = &parts[..] else { break };
        if last.rows() * 2 < before.rows() {
            break;
        }
        let merged = merged(&parts[parts.len() - 2..], bits, classes)?;
        parts.truncate(parts.len() - 2);
        parts.push(merged);
    }
    Ok(())
}

/// One part of several in memory.
pub(super) fn merged(parts: &[Part], bits: Bits, classes: usize) -> Result<Part> {
    let stride = classes.div_ceil(64);
    let (mut words, mut labels) = (Vec::new(), Vec::new());
    let (mut numbers, mut names) = (Vec::new(), Vec::new());
    let (mut flags, mut payloads): (Vec<u8>, Vec<Arc<[u8]>>) = (Vec::new(), Vec::new());
    let (mut outputs, mut has_outputs) = (Vec::new(), false);
    for part in parts {
        let Store::Memory(rows) = &part.source.store else { continue };
        let label_rows = rows.labels();
        for row in 0..u32::try_from(part.rows()).unwrap_or(u32::MAX) {
            if part.is_removed(row) {
                continue;
            }
            let row = row as usize;
            words.extend_from_slice(rows.codes.code(row));
            match rows.ids.get(row) {
                Id::Number(number) => numbers.push(number),
                Id::Name(name) => names.push(name),
            }
            let own = label_rows.row(row);
            labels.extend_from_slice(own);
            labels.extend(std::iter::repeat_n(0, stride.saturating_sub(own.len())));
            flags.push(part.source.flags(row));
            payloads.push(rows.payloads.get(row).cloned().unwrap_or_default());
            if let Some(own) = &rows.outputs {
                outputs.extend_from_slice(own.row(row));
                has_outputs = true;
            }
        }
    }
    let labels = match classes {
        0 => None,
        classes => Some(Labels::from_words(classes, flags.len(), labels)?),
    };
    let ids = if names.is_empty() { Ids::Numbers(numbers) } else { Ids::Names(names) };
    let items = ItemBatch {
        codes: Codes::from_words(bits, words)?,
        ids: Some(ids),
        labels,
        payloads: Some(payloads),
        flags: Some(flags),
        outputs: has_outputs.then(|| Outputs::from_bytes(bits, outputs)).transpose()?,
    };
    let rows = MemoryRows::new(items, 0, superseded(parts));
    Ok(Part::new(Store::Memory(rows)))
}
