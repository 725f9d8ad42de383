//! The code file: codes, and optionally ids and labels, in one versioned, checksummed file
//! that can be memory-mapped.
//!
//! A container of sections (`sections.rs`) with magic "XHCODES\0", version 1:
//!
//! ```text
//! kind 1  codes: rows x ceil(bits/64) u64 words, bit 0 lowest, padding zero
//! kind 2  ids, numbers: rows x u64
//! kind 3  ids, names: (rows + 1) x u64 offsets into the UTF-8 text that follows them
//! kind 4  labels: rows x ceil(parameter/64) u64 words, parameter = number of labels
//! ```
//!
//! A reader refuses a version or section kind it does not know; every old version stays
//! readable (`tests/compat/`).

use std::path::Path;
use std::sync::Arc;

use crate::codes::check_words;
use crate::map::Mapping;
use crate::sections::{
    Container, Entry, Head, MappedWords, Section, bytes_to_names, bytes_to_words,
    names_to_bytes, words_to_bytes,
};
use crate::{Codes, Error, Labels, Result};

/// The first bytes of every code file.
pub const MAGIC: &[u8; 8] = b"XHCODES\0";

const CODES: u32 = 1;
const NUMBERS: u32 = 2;
const NAMES: u32 = 3;
const LABELS: u32 = 4;

const FILE: Container = Container {
    magic: MAGIC,
    name: "code file",
    version: 1,
    remedy: "write it again",
    kinds: &[(CODES, "codes"), (NUMBERS, "ids"), (NAMES, "ids"), (LABELS, "labels")],
};

/// The ids that the caller gave to items; item numbers are assigned by the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Numbers.
    Numbers(Vec<u64>),
    /// Names.
    Names(Vec<String>),
}

impl Ids {
    /// Number of ids.
    pub fn len(&self) -> usize {
        match self {
            Ids::Numbers(ids) => ids.len(),
            Ids::Names(ids) => ids.len(),
        }
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them.
    pub fn get(&self, item_idx: usize) -> Id {
        match self {
            Ids::Numbers(ids) => Id::Number(ids[item_idx]),
            Ids::Names(ids) => Id::Name(ids[item_idx].clone()),
        }
    }
}

/// The id of one item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Id {
    /// A number.
    Number(u64),
    /// A name.
    Name(String),
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Id::Number(number) => number.fmt(f),
            Id::Name(name) => name.fmt(f),
        }
    }
}

/// The content of a code file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeFile {
    /// The codes.
    pub codes: Codes,
    /// Their ids, if they have any.
    pub ids: Option<Ids>,
    /// Their labels, if known.
    pub labels: Option<Labels>,
}

impl CodeFile {
    /// Codes alone.
    pub fn new(codes: Codes) -> CodeFile {
        CodeFile { codes, ids: None, labels: None }
    }

    /// Writes the file atomically.
    pub fn write(&self, path: &Path) -> Result<()> {
        self.check_rows().map_err(|err| err.at(path))?;
        let mut sections = Vec::new();
        let mut add = |kind, parameter, bytes| {
            sections.push(Section::new(kind, parameter, bytes));
        };
        add(CODES, 0, words_to_bytes(self.codes.words()));
        match &self.ids {
            Some(Ids::Numbers(ids)) => add(NUMBERS, 0, words_to_bytes(ids)),
            Some(Ids::Names(ids)) => add(NAMES, 0, names_to_bytes(ids).into()),
            None => {}
        }
        if let Some(labels) = &self.labels {
            add(LABELS, labels.classes() as u64, words_to_bytes(labels.words()));
        }
        FILE.write(path, self.codes.bits(), self.codes.len(), &sections)
    }

    /// Reads the file into memory and verifies every checksum.
    pub fn read(path: &Path) -> Result<CodeFile> {
        let bytes = fs_err::read(path)?;
        Self::from_bytes(&bytes).map_err(|err| err.at(path))
    }

    /// The same from bytes in memory.
    pub fn from_bytes(bytes: &[u8]) -> Result<CodeFile> {
        let head = FILE.head(bytes)?;
        let words = bytes_to_words(codes_entry(&head)?.checked(bytes)?);
        let (ids, labels) = (read_ids(&head, bytes)?, read_labels(&head, bytes)?);
        Ok(CodeFile { codes: Codes::from_words(head.bits, words)?, ids, labels })
    }

    /// Maps the file: the header, ids and labels are read and verified, the codes are
    /// read when they are used. [`MappedCodes::verify`] reads them all.
    pub fn open(path: &Path) -> Result<(CodeFile, MappedCodes)> {
        let map = Arc::new(Mapping::open(path)?);
        Self::over(&map).map_err(|err| err.at(path))
    }

    fn over(map: &Arc<Mapping>) -> Result<(CodeFile, MappedCodes)> {
        let head = FILE.head(map)?;
        let entry = *codes_entry(&head)?;
        let mapped = MappedWords { map: Arc::clone(map), entry };
        let codes = match mapped.words() {
            Some(_) => Codes::from_shared(head.bits, Arc::new(mapped.clone())),
            // a big-endian machine has to swap the bytes of every word
            None => Codes::from_words(head.bits, bytes_to_words(entry.checked(map)?))?,
        };
        let file = CodeFile {
            codes,
            ids: read_ids(&head, map)?,
            labels: read_labels(&head, map)?,
        };
        Ok((file, MappedCodes { bits: head.bits, mapped }))
    }

    /// Every code needs its id and its labels, if there are any.
    pub(crate) fn check_rows(&self) -> Result<()> {
        let rows = self.codes.len();
        let ids = self.ids.as_ref().map(|ids| ("the ids", ids.len()));
        let labels = self.labels.as_ref().map(|labels| ("the labels", labels.len()));
        for (what, n) in ids.into_iter().chain(labels) {
            if n != rows {
                return Err(Error::Mismatch {
                    left: "the codes".into(),
                    left_size: rows,
                    right: what.into(),
                    right_size: n,
                    unit: "rows",
                    remedy: "every code needs one",
                });
            }
        }
        Ok(())
    }
}

/// Codes in a mapped file.
#[derive(Clone)]
pub struct MappedCodes {
    bits: crate::Bits,
    mapped: MappedWords,
}

impl MappedCodes {
    /// Reads all codes once and compares them with their checksum.
    pub fn verify(&self) -> Result<()> {
        let bytes = self.mapped.entry.checked(&self.mapped.map)?;
        check_words(self.bits, &bytes_to_words(bytes))
    }
}

fn codes_entry(head: &Head) -> Result<&Entry> {
    let entry = head.find(CODES).ok_or_else(|| Error::content("no codes in this file"))?;
    head.expect(entry, head.bits.words())?;
    Ok(entry)
}

fn read_ids(head: &Head, bytes: &[u8]) -> Result<Option<Ids>> {
    if let Some(entry) = head.find(NUMBERS) {
        head.expect(entry, 1)?;
        return Ok(Some(Ids::Numbers(bytes_to_words(entry.checked(bytes)?))));
    }
    let Some(entry) = head.find(NAMES) else { return Ok(None) };
    let names = bytes_to_names(entry.checked(bytes)?, head.rows);
    let names = names.ok_or_else(|| Error::content("corrupt: the names of the items"))?;
    Ok(Some(Ids::Names(names)))
}

fn read_labels(head: &Head, bytes: &[u8]) -> Result<Option<Labels>> {
    let Some(entry) = head.find(LABELS) else { return Ok(None) };
    let classes = usize::try_from(entry.parameter)
        .map_err(|_| Error::content("corrupt: the number of labels"))?;
    head.expect(entry, classes.div_ceil(64))?;
    let words = bytes_to_words(entry.checked(bytes)?);
    Labels::from_words(classes, head.rows, words).map(Some)
}
