//! The segment file: items that came in one commit, and the items they removed.
//!
//! A container of sections (`sections.rs`) with magic "XHSEGMT\0", version 1:
//!
//! ```text
//! kind 1  codes: rows x ceil(bits/64) u64 words, bit 0 lowest, padding zero
//! kind 2  ids, numbers: rows x u64
//! kind 3  ids, names: (rows + 1) x u64 offsets into the UTF-8 text that follows them
//! kind 4  labels: rows x ceil(parameter/64) u64 words, parameter = number of labels
//! kind 5  rows by ascending id: rows x u32; left out where ids ascend anyway
//! kind 6  ids, counted: parameter, parameter + 1, ...; no bytes
//! kind 7  removed: pairs of u64, segment number and row
//! ```
//!
//! Opening maps the file, verifies the header and the list of the removed, and reads nothing
//! else. An id is found by binary search where it lies.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use crate::codes::check_words;
use crate::format::{CodeFile, Id, Ids};
use crate::sections::{
    Container, Entry, Head, MappedWords, Section, bytes_to_words, map, name_at,
    names_to_bytes, words_to_bytes,
};
use crate::{Codes, Error, Labels, Result};

const CODES: u32 = 1;
const NUMBERS: u32 = 2;
const NAMES: u32 = 3;
const LABELS: u32 = 4;
const ORDER: u32 = 5;
const COUNTED: u32 = 6;
const REMOVED: u32 = 7;

const FILE: Container = Container {
    magic: b"XHSEGMT\0",
    name: "index segment",
    version: 1,
    kinds: CODES..=REMOVED,
};

/// An item of an earlier segment: segment number and row.
pub(crate) type Place = (u64, u32);

/// The ids of a new segment.
pub(crate) enum NewIds<'a> {
    /// As given.
    Given(&'a Ids),
    /// This number and those after it.
    Counted(u64),
}

/// Writes a segment. Ids are unique, the caller has seen to that.
pub(crate) fn write(
    path: &Path,
    items: &CodeFile,
    ids: NewIds<'_>,
    removed: &[Place],
) -> Result<()> {
    let mut sections = Vec::new();
    let mut add = |kind, parameter, bytes: Cow<'_, [u8]>| {
        sections.push(Section { kind, parameter, bytes: bytes.into_owned().into() });
    };
    let rows = items.codes.len();
    match ids {
        NewIds::Counted(first) => add(COUNTED, first, Vec::new().into()),
        NewIds::Given(ids) => {
            match ids {
                Ids::Numbers(ids) => add(NUMBERS, 0, words_to_bytes(ids)),
                Ids::Names(ids) => add(NAMES, 0, names_to_bytes(ids).into()),
            }
            if let Some(order) = order(ids) {
                let bytes = order.iter().flat_map(|row| row.to_le_bytes());
                add(ORDER, 0, bytes.collect::<Vec<u8>>().into());
            }
        }
    }
    if let Some(labels) = &items.labels {
        add(LABELS, labels.classes() as u64, words_to_bytes(labels.words()));
    }
    if !removed.is_empty() {
        let words: Vec<u64> =
            removed.iter().flat_map(|&(number, row)| [number, u64::from(row)]).collect();
        add(REMOVED, 0, words_to_bytes(&words));
    }
    // the codes come last and are not copied
    let codes = words_to_bytes(items.codes.words());
    sections.push(Section { kind: CODES, parameter: 0, bytes: codes });
    FILE.write(path, items.codes.bits(), rows, &sections)
}

/// Rows by ascending id, unless that is their order already.
pub(crate) fn order(ids: &Ids) -> Option<Vec<u32>> {
    let sorted = match ids {
        Ids::Numbers(ids) => ids.is_sorted(),
        Ids::Names(ids) => ids.is_sorted(),
    };
    if sorted {
        return None;
    }
    let mut rows: Vec<u32> = (0..u32::try_from(ids.len()).unwrap_or(u32::MAX)).collect();
    match ids {
        Ids::Numbers(ids) => rows.sort_unstable_by_key(|&row| (ids[row as usize], row)),
        Ids::Names(ids) => {
            rows.sort_unstable_by(|&a, &b| {
                (&ids[a as usize], a).cmp(&(&ids[b as usize], b))
            });
        }
    }
    Some(rows)
}

/// A mapped segment.
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) codes: Codes,
    /// What this segment removed from earlier ones.
    pub(crate) removed: Vec<Place>,
    map: Arc<memmap2::Mmap>,
    head: Head,
    labels: Option<(usize, MappedWords)>,
}

impl Segment {
    pub(crate) fn open(path: &Path, number: u64) -> Result<Segment> {
        let map = Arc::new(map::map(path)?);
        Self::over(map, number).map_err(|err| err.at(path))
    }

    fn over(map: Arc<memmap2::Mmap>, number: u64) -> Result<Segment> {
        if cfg!(target_endian = "big") {
            return Err(Error::content(
                "index segments are mapped on little-endian machines",
            ));
        }
        let head = FILE.head(&map)?;
        for entry in &head.entries {
            entry.present(&map)?;
            match entry.kind {
                CODES => head.expect(entry, head.bits.words())?,
                NUMBERS => head.expect(entry, 1)?,
                LABELS => {
                    let classes = usize::try_from(entry.parameter).unwrap_or(usize::MAX);
                    head.expect(entry, classes.div_ceil(64))?;
                }
                ORDER if entry.length != head.rows as u64 * 4 => {
                    return Err(Error::content("corrupt: the order of the ids"));
                }
                _ => {}
            }
        }
        let mapped = |entry: &Entry| MappedWords { map: Arc::clone(&map), entry: *entry };
        let codes =
            head.find(CODES).ok_or_else(|| Error::content("no codes in this file"))?;
        let codes = Codes::from_shared(head.bits, Arc::new(mapped(codes)));
        let labels = head.find(LABELS).map(|entry| {
            (usize::try_from(entry.parameter).unwrap_or(usize::MAX), mapped(entry))
        });
        let removed = match head.find(REMOVED) {
            Some(entry) => pairs(entry.checked(&map)?)?,
            None => Vec::new(),
        };
        Ok(Segment { number, codes, removed, labels, head, map })
    }

    pub(crate) fn rows(&self) -> usize {
        self.head.rows
    }

    /// The id of a row.
    pub(crate) fn id(&self, row: usize) -> Result<Id> {
        let damaged = || {
            Error::content(format!(
                "segment {}: the id of row {row} is damaged; restore the index from a copy",
                self.number
            ))
        };
        if let Some(entry) = self.head.find(COUNTED) {
            return Ok(Id::Number(entry.parameter + row as u64));
        }
        if let Some(entry) = self.head.find(NUMBERS) {
            let bytes =
                entry.slice(&self.map).and_then(|all| all.get(row * 8..row * 8 + 8));
            let bytes =
                bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(damaged)?;
            return Ok(Id::Number(u64::from_le_bytes(bytes)));
        }
        let entry = self.head.find(NAMES).ok_or_else(damaged)?;
        let names = entry.slice(&self.map).ok_or_else(damaged)?;
        Ok(Id::Name(name_at(names, self.rows(), row).ok_or_else(damaged)?.to_owned()))
    }

    /// The row of an id.
    pub(crate) fn find(&self, id: &Id) -> Result<Option<u32>> {
        if let (Some(entry), Id::Number(number)) = (self.head.find(COUNTED), id) {
            let row = number.checked_sub(entry.parameter);
            let row = row.filter(|&row| row < self.rows() as u64);
            return Ok(row.and_then(|row| u32::try_from(row).ok()));
        }
        let order = self.head.find(ORDER).and_then(|entry| entry.slice(&self.map));
        let row_at = |rank: usize| match order {
            None => rank,
            Some(order) => {
                let bytes = order[rank * 4..rank * 4 + 4].try_into().unwrap_or([0; 4]);
                u32::from_le_bytes(bytes) as usize
            }
        };
        let (mut low, mut high) = (0, self.rows());
        while low < high {
            let middle = low.midpoint(high);
            match self.id(row_at(middle))?.cmp(id) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => {
                    return Ok(u32::try_from(row_at(middle)).ok());
                }
            }
        }
        Ok(None)
    }

    /// Whether a row carries at least one of these labels.
    pub(crate) fn carries(&self, row: usize, any: &[usize]) -> bool {
        let words = self.label_words(row);
        any.iter().any(|&label| {
            words.get(label / 64).is_some_and(|word| word >> (label % 64) & 1 == 1)
        })
    }

    /// The packed labels of a row; empty if it has none.
    pub(crate) fn label_words(&self, row: usize) -> &[u64] {
        let Some((classes, words)) = &self.labels else { return &[] };
        let stride = classes.div_ceil(64);
        words.as_ref().get(row * stride..(row + 1) * stride).unwrap_or(&[])
    }

    /// Reads everything once and compares it with its checksums.
    pub(crate) fn verify(&self) -> Result<()> {
        for entry in &self.head.entries {
            let bytes = entry.checked(&self.map)?;
            if entry.kind == LABELS {
                let classes = usize::try_from(entry.parameter).unwrap_or(usize::MAX);
                Labels::from_words(classes, self.rows(), bytes_to_words(bytes))?;
            }
        }
        check_words(self.codes.bits(), self.codes.words())?;
        (0..self.rows()).try_for_each(|row| self.id(row).map(|_| ()))
    }
}

fn pairs(bytes: &[u8]) -> Result<Vec<Place>> {
    let words = bytes_to_words(bytes);
    let (pairs, rest) = words.as_chunks::<2>();
    let place = |&[number, row]: &[u64; 2]| Some((number, u32::try_from(row).ok()?));
    let places: Option<Vec<Place>> = pairs.iter().map(place).collect();
    places
        .filter(|_| rest.is_empty())
        .ok_or_else(|| Error::content("corrupt: the list of removed items"))
}
