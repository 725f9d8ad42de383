//! The segment file: items that were committed together, and the items they removed.
//!
//! A container of sections (`sections.rs`) with magic "XHSEGMT\0", version 2:
//!
//! ```text
//! kind 1   codes: rows x ceil(bits/64) u64 words, bit 0 lowest, padding zero
//! kind 2   ids, numbers: rows x u64
//! kind 3   ids, names: (rows + 1) x u64 offsets into the UTF-8 text that follows them
//! kind 4   labels: rows x ceil(parameter/64) u64 words, parameter = number of labels
//! kind 5   rows by ascending id: rows x u32; omitted if the ids ascend
//! kind 6   ids, counted: parameter, parameter + 1, ...; no bytes
//! kind 7   removed: pairs of u64, segment number and row
//! kind 8   flags: rows x u8, see batch.rs; omitted if all are 0
//! kind 9   payload table: rows x (end of the payload u64, its xxh3-64 u64)
//! kind 10  payloads, one after the other
//! kind 11  superseded ids, numbers: parameter x u64
//! kind 12  superseded ids, names: like kind 3 with parameter rows
//! kind 64  outputs: rows x parameter i8, parameter = bits (outputs.rs)
//! kind 65 and above: per-item values of fixed width, parameter = bytes per item
//!
//! Kinds from 64 on are written with the optional flag, so that programs that do not know them
//! ignore them.
//! ```
//!
//! Opening maps the file and verifies the header, the layout and the short lists (7, 8, 11, 12).
//! Every other section is verified when it is first read, payloads one by one by the table. An id
//! is found by binary search in the file.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use xxhash_rust::xxh3::xxh3_64;

use super::memory::{RowIds, order};
use super::part::LabelRows;
use crate::codes::check_words;
use crate::format::{Id, Ids};
use crate::map::Mapping;
use crate::outputs::OutputRows;
use crate::sections::{
    Container, Entry, Head, MappedWords, Section, bytes_to_names, bytes_to_words, name_at,
    names_to_bytes, words_to_bytes,
};
use crate::{Bits, Codes, Error, Labels, Outputs, Result};

const CODES: u32 = 1;
const NUMBERS: u32 = 2;
const NAMES: u32 = 3;
const LABELS: u32 = 4;
const ORDER: u32 = 5;
const COUNTED: u32 = 6;
const REMOVED: u32 = 7;
const FLAGS: u32 = 8;
const PAYLOAD_TABLE: u32 = 9;
const PAYLOADS: u32 = 10;
const SUPERSEDED_NUMBERS: u32 = 11;
const SUPERSEDED_NAMES: u32 = 12;
const OUTPUTS: u32 = 64;

const FILE: Container = Container {
    magic: b"XHSEGMT\0",
    name: "index segment",
    version: 2,
    remedy: "build the index again",
    kinds: &[
        (CODES, "codes"),
        (NUMBERS, "ids"),
        (NAMES, "ids"),
        (LABELS, "labels"),
        (ORDER, "id order"),
        (COUNTED, "ids"),
        (REMOVED, "removed items"),
        (FLAGS, "flags"),
        (PAYLOAD_TABLE, "payload table"),
        (PAYLOADS, "payloads"),
        (SUPERSEDED_NUMBERS, "superseded ids"),
        (SUPERSEDED_NAMES, "superseded ids"),
        (OUTPUTS, "outputs"),
    ],
};

/// An item of an earlier segment: segment number and row.
pub(crate) type Place = (u64, u32);

/// The content of a new segment. Ids are unique; the caller ensures that.
pub(crate) struct NewSegment<'a> {
    pub(crate) codes: &'a Codes,
    pub(crate) ids: RowIds,
    pub(crate) labels: Option<&'a Labels>,
    /// Empty, or one per row.
    pub(crate) flags: Vec<u8>,
    /// Empty, or one per row.
    pub(crate) payloads: Vec<&'a [u8]>,
    pub(crate) outputs: Option<&'a Outputs>,
    pub(crate) removed: Vec<Place>,
    pub(crate) superseded: Vec<Id>,
}

impl NewSegment<'_> {
    pub(crate) fn write(&self, path: &Path, bits: Bits) -> Result<()> {
        let mut sections = Vec::new();
        match &self.ids {
            RowIds::Counted(first) => {
                sections.push(Section::new(COUNTED, *first, Vec::new().into()));
            }
            RowIds::Given(ids) => {
                sections.push(match ids {
                    Ids::Numbers(ids) => Section::new(NUMBERS, 0, words_to_bytes(ids)),
                    Ids::Names(ids) => Section::new(NAMES, 0, names_to_bytes(ids).into()),
                });
                if let Some(order) = order(ids) {
                    let bytes: Vec<u8> =
                        order.iter().flat_map(|row| row.to_le_bytes()).collect();
                    sections.push(Section::new(ORDER, 0, bytes.into()));
                }
            }
        }
        if let Some(labels) = self.labels {
            let bytes = words_to_bytes(labels.words());
            sections.push(Section::new(LABELS, labels.classes() as u64, bytes));
        }
        if !self.removed.is_empty() {
            let pair = |&(number, row): &Place| [number, u64::from(row)];
            let words: Vec<u64> = self.removed.iter().flat_map(pair).collect();
            let bytes = words_to_bytes(&words).into_owned();
            sections.push(Section::new(REMOVED, 0, bytes.into()));
        }
        if self.flags.iter().any(|&flags| flags != 0) {
            sections.push(Section::new(FLAGS, 0, (&self.flags[..]).into()));
        }
        if !self.superseded.is_empty() {
            sections.push(superseded_section(&self.superseded));
        }
        if self.payloads.iter().any(|payload| !payload.is_empty()) {
            let mut end = 0_u64;
            let mut table = Vec::with_capacity(self.payloads.len() * 16);
            for payload in &self.payloads {
                end += payload.len() as u64;
                table.extend(end.to_le_bytes());
                table.extend(xxh3_64(payload).to_le_bytes());
            }
            sections.push(Section::new(PAYLOAD_TABLE, 0, table.into()));
            let pieces = self.payloads.iter().map(|&payload| payload.into()).collect();
            sections.push(Section {
                kind: PAYLOADS,
                optional: false,
                parameter: 0,
                pieces,
            });
        }
        if let Some(outputs) = self.outputs {
            let bytes: &[u8] = bytemuck::cast_slice(outputs.values());
            sections.push(Section {
                kind: OUTPUTS,
                optional: true,
                parameter: bits.get() as u64,
                pieces: vec![bytes.into()],
            });
        }
        let codes = words_to_bytes(self.codes.words());
        sections.push(Section::new(CODES, 0, codes));
        FILE.write(path, bits, self.codes.len(), &sections)
    }
}

fn superseded_section(ids: &[Id]) -> Section<'static> {
    let numbers = ids.iter().filter_map(|id| match id {
        Id::Number(number) => Some(*number),
        Id::Name(_) => None,
    });
    let names = ids.iter().filter_map(|id| match id {
        Id::Number(_) => None,
        Id::Name(name) => Some(name.clone()),
    });
    let (numbers, names): (Vec<u64>, Vec<String>) = (numbers.collect(), names.collect());
    if names.is_empty() {
        let bytes = words_to_bytes(&numbers).into_owned();
        Section::new(SUPERSEDED_NUMBERS, numbers.len() as u64, bytes.into())
    } else {
        let bytes = names_to_bytes(&names);
        Section::new(SUPERSEDED_NAMES, names.len() as u64, bytes.into())
    }
}

/// A mapped segment.
pub(crate) struct Segment {
    path: PathBuf,
    pub(crate) number: u64,
    /// What this segment removed from earlier ones.
    pub(crate) removed: Vec<Place>,
    pub(crate) superseded: Vec<Id>,
    /// Empty, or one per row.
    pub(crate) flags: Vec<u8>,
    codes: Codes,
    labels: Option<(usize, MappedWords)>,
    map: Arc<Mapping>,
    head: Head,
    /// Whether the checksum of each section matches, once it was read.
    verified: Vec<OnceLock<bool>>,
}

impl Segment {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn open(path: &Path, number: u64) -> Result<Segment> {
        let map = Arc::new(Mapping::open(path)?);
        Self::over(map, path, number).map_err(|err| err.at(path))
    }

    fn over(map: Arc<Mapping>, path: &Path, number: u64) -> Result<Segment> {
        if cfg!(target_endian = "big") {
            return Err(Error::content("an index needs a little-endian machine"));
        }
        let head = FILE.head(&map)?;
        check_sections(&head)?;
        let mapped = |entry: &Entry| MappedWords { map: Arc::clone(&map), entry: *entry };
        let codes = head.find(CODES).ok_or_else(|| Error::content("no codes section"))?;
        let codes = Codes::from_shared(head.bits, Arc::new(mapped(codes)));
        let labels = head.find(LABELS).map(|entry| {
            (usize::try_from(entry.parameter).unwrap_or(usize::MAX), mapped(entry))
        });
        let removed = match head.find(REMOVED) {
            Some(entry) => pairs(entry.checked(&map)?)?,
            None => Vec::new(),
        };
        let flags = match head.find(FLAGS) {
            Some(entry) => entry.checked(&map)?.to_vec(),
            None => Vec::new(),
        };
        let superseded = superseded(&head, &map)?;
        let verified = head.entries.iter().map(|_| OnceLock::new()).collect();
        let path = path.to_owned();
        Ok(Segment {
            path,
            number,
            removed,
            superseded,
            flags,
            codes,
            labels,
            map,
            head,
            verified,
        })
    }

    pub(crate) fn rows(&self) -> usize {
        self.head.rows
    }

    pub(crate) fn bits(&self) -> Bits {
        self.head.bits
    }

    /// Number of labels.
    pub(crate) fn classes(&self) -> usize {
        self.labels.as_ref().map_or(0, |labels| labels.0)
    }

    /// Whether ids are numbers.
    pub(crate) fn has_numbers(&self) -> bool {
        self.head.find(NAMES).is_none()
    }

    /// Whether outputs are stored.
    pub(crate) fn has_outputs(&self) -> bool {
        self.head.find(OUTPUTS).is_some()
    }

    /// The outputs, if they are stored; verified.
    pub(crate) fn outputs(&self) -> Result<Option<OutputRows<'_>>> {
        let Some(bytes) = self.section(OUTPUTS)? else { return Ok(None) };
        let values = bytemuck::cast_slice(bytes);
        Ok(Some(OutputRows { width: self.head.bits.get(), values }))
    }

    /// Fails if the file was cut short while it was read. Call it after the content was used.
    pub(crate) fn check_file(&self) -> Result<()> {
        self.map.check().map_err(|err| err.at(&self.path))
    }

    /// A section, verified when it is first read; `None` if the segment has none of this kind.
    fn section(&self, kind: u32) -> Result<Option<&[u8]>> {
        self.check_file()?;
        let Some(nth) = self.head.entries.iter().position(|entry| entry.kind == kind)
        else {
            return Ok(None);
        };
        let entry = &self.head.entries[nth];
        let fits = *self.verified[nth].get_or_init(|| entry.checked(&self.map).is_ok());
        if !fits {
            return Err(self.damaged(entry.name));
        }
        Ok(entry.slice(&self.map))
    }

    fn damaged(&self, what: &str) -> Error {
        Error::content(format!(
            "corrupt: the {what} section is damaged; restore the index from a copy"
        ))
        .at(&self.path)
    }

    /// The codes; verified.
    pub(crate) fn codes(&self) -> Result<&Codes> {
        self.check_file()?;
        let nth = self.head.entries.iter().position(|entry| entry.kind == CODES);
        let Some(nth) = nth else { return Err(self.damaged("codes")) };
        let entry = &self.head.entries[nth];
        let fits = *self.verified[nth].get_or_init(|| {
            entry.checked(&self.map).is_ok()
                && self.codes.len() == self.rows()
                && check_words(self.head.bits, self.codes.words()).is_ok()
        });
        if fits { Ok(&self.codes) } else { Err(self.damaged("codes")) }
    }

    /// The labels; verified.
    pub(crate) fn labels(&self) -> Result<LabelRows<'_>> {
        self.check_file()?;
        let Some((classes, words)) = &self.labels else { return Ok(LabelRows::NONE) };
        let nth = self.head.entries.iter().position(|entry| entry.kind == LABELS);
        let Some(nth) = nth else { return Err(self.damaged("labels")) };
        let (entry, stride) = (&self.head.entries[nth], classes.div_ceil(64));
        let fits = *self.verified[nth].get_or_init(|| {
            // no row has a label beyond the last one
            let beyond = u64::MAX.checked_shl(u32::try_from(classes % 64).unwrap_or(0));
            let beyond = beyond.filter(|_| classes % 64 != 0).unwrap_or(0);
            let mut rows = words.as_ref().chunks_exact(stride.max(1));
            entry.checked(&self.map).is_ok()
                && rows.all(|row| row[stride - 1] & beyond == 0)
        });
        if !fits {
            return Err(self.damaged("labels"));
        }
        Ok(LabelRows { stride, words: words.as_ref() })
    }

    /// The id of a row.
    pub(crate) fn id(&self, row: usize) -> Result<Id> {
        let damaged = || self.damaged("ids");
        if row >= self.rows() {
            return Err(damaged());
        }
        if let Some(entry) = self.head.find(COUNTED) {
            return Ok(Id::Number(entry.parameter + row as u64)); // checked when opened
        }
        let id = if let Some(numbers) = self.section(NUMBERS)? {
            let bytes = numbers.get(row * 8..row * 8 + 8).ok_or_else(damaged)?;
            let bytes = bytes.try_into().map_err(|_| damaged())?;
            Id::Number(u64::from_le_bytes(bytes))
        } else {
            let names = self.section(NAMES)?.ok_or_else(damaged)?;
            Id::Name(name_at(names, self.rows(), row).ok_or_else(damaged)?.to_owned())
        };
        self.check_file()?;
        Ok(id)
    }

    /// The row of an id.
    pub(crate) fn find(&self, id: &Id) -> Result<Option<u32>> {
        if let (Some(entry), Id::Number(number)) = (self.head.find(COUNTED), id) {
            let row = number.checked_sub(entry.parameter);
            let row = row.filter(|&row| row < self.rows() as u64);
            return Ok(row.and_then(|row| u32::try_from(row).ok()));
        }
        let order = self.section(ORDER)?;
        let row_at = |rank: usize| match order {
            None => rank,
            Some(order) => order
                .get(rank * 4..rank * 4 + 4)
                .and_then(|bytes| bytes.try_into().ok())
                .map_or(usize::MAX, |bytes| u32::from_le_bytes(bytes) as usize),
        };
        let (mut low, mut high) = (0, self.rows());
        while low < high {
            let middle = low.midpoint(high);
            match self.id(row_at(middle))?.cmp(id) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(u32::try_from(row_at(middle)).ok()),
            }
        }
        Ok(None)
    }

    /// The payload of a row and its checksum; verified each time.
    pub(crate) fn payload(&self, row: usize) -> Result<(&[u8], u64)> {
        let Some(table) = self.section(PAYLOAD_TABLE)? else { return Ok((&[], 0)) };
        let damaged = || self.damaged("payloads");
        let word = |at: usize| {
            let bytes = table.get(at * 8..at * 8 + 8).and_then(|b| b.try_into().ok());
            bytes.map(u64::from_le_bytes).ok_or_else(damaged)
        };
        let start = if row == 0 { 0 } else { word(row * 2 - 2)? };
        let (end, sum) = (word(row * 2)?, word(row * 2 + 1)?);
        let all = self.head.find(PAYLOADS).and_then(|entry| entry.slice(&self.map));
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let bytes = range.and_then(|(start, end)| all?.get(start..end));
        let bytes = bytes.filter(|bytes| xxh3_64(bytes) == sum).ok_or_else(damaged)?;
        Ok((bytes, sum))
    }

    /// Reads everything once and compares it with its checksums.
    pub(crate) fn verify(&self) -> Result<()> {
        let check = || -> Result<()> {
            for entry in &self.head.entries {
                entry.checked(&self.map)?;
            }
            check_words(self.head.bits, self.codes()?.words())?;
            if let Some((classes, words)) = &self.labels {
                Labels::from_words(*classes, self.rows(), words.as_ref().to_vec())?;
            }
            let mut last = None;
            let order = self.section(ORDER)?.map(<[u8]>::as_chunks::<4>);
            for rank in 0..self.rows() {
                self.payload(rank)?;
                let row = order.map_or(rank, |(rows, _)| {
                    u32::from_le_bytes(rows.get(rank).copied().unwrap_or([0xFF; 4]))
                        as usize
                });
                let id = Some(self.id(row)?);
                if last >= id {
                    return Err(self.damaged("id order"));
                }
                last = id;
            }
            Ok(())
        };
        check().map_err(|err| err.at(&self.path))
    }
}

/// The sizes of all sections fit the number of rows.
fn check_sections(head: &Head) -> Result<()> {
    for entry in &head.entries {
        match entry.kind {
            CODES => head.expect(entry, head.bits.words())?,
            NUMBERS => head.expect(entry, 1)?,
            LABELS => {
                let classes = usize::try_from(entry.parameter).unwrap_or(usize::MAX);
                head.expect(entry, classes.div_ceil(64))?;
            }
            ORDER => head.expect_bytes(entry, 4)?,
            FLAGS => head.expect_bytes(entry, 1)?,
            OUTPUTS if entry.parameter != head.bits.get() as u64 => {
                return Err(Error::content("corrupt: one output per bit is needed"));
            }
            OUTPUTS => head.expect_bytes(entry, head.bits.get())?,
            PAYLOAD_TABLE => head.expect(entry, 2)?,
            COUNTED if entry.parameter.checked_add(head.rows as u64).is_none() => {
                return Err(Error::content(
                    "corrupt: the ids are beyond the largest number",
                ));
            }
            _ => {}
        }
    }
    let kinds = [NUMBERS, NAMES, COUNTED].iter().filter(|&&kind| head.find(kind).is_some());
    if kinds.count() != 1 {
        return Err(Error::content("corrupt: one ids section is needed"));
    }
    if head.find(PAYLOAD_TABLE).is_some() != head.find(PAYLOADS).is_some() {
        return Err(Error::content("corrupt: payloads need a table, and a table payloads"));
    }
    Ok(())
}

fn superseded(head: &Head, bytes: &[u8]) -> Result<Vec<Id>> {
    let corrupt = || Error::content("corrupt: the superseded ids");
    if let Some(entry) = head.find(SUPERSEDED_NUMBERS) {
        let words = bytes_to_words(entry.checked(bytes)?);
        return Ok(words.into_iter().map(Id::Number).collect());
    }
    let Some(entry) = head.find(SUPERSEDED_NAMES) else { return Ok(Vec::new()) };
    let rows = usize::try_from(entry.parameter).map_err(|_| corrupt())?;
    let names = bytes_to_names(entry.checked(bytes)?, rows).ok_or_else(corrupt)?;
    Ok(names.into_iter().map(Id::Name).collect())
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
