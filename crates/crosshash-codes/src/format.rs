//! The code file: codes, and optionally ids and labels, in one versioned, checksummed file
//! that can be memory-mapped.
//!
//! Version 1, all numbers little-endian, sections aligned to 64 bytes:
//!
//! ```text
//! offset  size  what
//! 0       8     magic "XHCODES\0"
//! 8       4     version, 1
//! 12      4     bits a code
//! 16      8     rows
//! 24      4     number of sections
//! 28      4     0
//! 32      40*s  sections: kind u32, 0 u32, parameter u64, offset u64, length u64, xxh3-64
//! ...     8     xxh3-64 of everything above
//!
//! kind 1  codes: rows x ceil(bits/64) u64 words, bit 0 lowest, padding zero
//! kind 2  ids, numbers: rows x u64
//! kind 3  ids, names: (rows + 1) x u64 offsets into the UTF-8 text that follows them
//! kind 4  labels: rows x ceil(parameter/64) u64 words, parameter = number of labels
//! ```
//!
//! A reader refuses a version or section kind it does not know; every old version stays
//! readable (`tests/compat/`).

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::codes::check_words;
use crate::write::atomically;
use crate::{Bits, Codes, Error, Labels, Result};

/// How every code file begins.
pub const MAGIC: &[u8] = b"XHCODES\0";

const VERSION: u32 = 1;
const FIXED: usize = 32;
const ENTRY: usize = 40;
const ALIGN: usize = 64;
/// More sections than any version has.
const MAX_SECTIONS: usize = 16;

const CODES: u32 = 1;
const NUMBERS: u32 = 2;
const NAMES: u32 = 3;
const LABELS: u32 = 4;

/// What the caller calls the items; item numbers are ours, ids are theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Numbers.
    Numbers(Vec<u64>),
    /// Names.
    Names(Vec<String>),
}

impl Ids {
    /// How many ids there are.
    pub fn len(&self) -> usize {
        match self {
            Ids::Numbers(ids) => ids.len(),
            Ids::Names(ids) => ids.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The content of a code file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeFile {
    /// The codes.
    pub codes: Codes,
    /// What the caller calls them, if it does.
    pub ids: Option<Ids>,
    /// Their labels, if known.
    pub labels: Option<Labels>,
}

impl CodeFile {
    /// Codes alone.
    pub fn new(codes: Codes) -> CodeFile {
        CodeFile { codes, ids: None, labels: None }
    }

    /// Writes the file, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        self.check_rows().map_err(|err| err.at(path))?;
        let mut sections = vec![(CODES, 0, words_to_bytes(self.codes.words()))];
        match &self.ids {
            Some(Ids::Numbers(ids)) => sections.push((NUMBERS, 0, words_to_bytes(ids))),
            Some(Ids::Names(ids)) => sections.push((NAMES, 0, names_to_bytes(ids).into())),
            None => {}
        }
        if let Some(labels) = &self.labels {
            let bytes = words_to_bytes(labels.words());
            sections.push((LABELS, labels.classes() as u64, bytes));
        }
        let mut head = Vec::new();
        head.extend(MAGIC);
        head.extend(VERSION.to_le_bytes());
        head.extend(u32::try_from(self.codes.bits().get()).unwrap_or(0).to_le_bytes());
        head.extend((self.codes.len() as u64).to_le_bytes());
        head.extend(u32::try_from(sections.len()).unwrap_or(0).to_le_bytes());
        head.extend(0_u32.to_le_bytes());
        let mut offset = (FIXED + ENTRY * sections.len() + 8).next_multiple_of(ALIGN);
        for (kind, parameter, bytes) in &sections {
            head.extend(kind.to_le_bytes());
            head.extend(0_u32.to_le_bytes());
            for number in [*parameter, offset as u64, bytes.len() as u64, xxh3_64(bytes)] {
                head.extend(number.to_le_bytes());
            }
            offset = (offset + bytes.len()).next_multiple_of(ALIGN);
        }
        head.extend(xxh3_64(&head).to_le_bytes());
        atomically(path, |out| {
            let mut written = 0_usize;
            let parts = std::iter::once(&head[..]).chain(sections.iter().map(|s| &s.2[..]));
            for part in parts {
                let padding = written.next_multiple_of(ALIGN) - written;
                out.write_all(&[0; ALIGN][..padding])?;
                out.write_all(part)?;
                written += padding + part.len();
            }
            Ok(())
        })
    }

    /// Reads the file into memory and verifies every checksum.
    pub fn read(path: &Path) -> Result<CodeFile> {
        let bytes = fs_err::read(path)?;
        Self::from_bytes(&bytes).map_err(|err| err.at(path))
    }

    /// The same from bytes at hand.
    pub fn from_bytes(bytes: &[u8]) -> Result<CodeFile> {
        let head = Head::parse(bytes)?;
        let words = bytes_to_words(checked(bytes, head.codes()?)?);
        let (ids, labels) = (head.ids(bytes)?, head.labels(bytes)?);
        Ok(CodeFile { codes: Codes::from_words(head.bits, words)?, ids, labels })
    }

    /// Maps the file: the header, ids and labels are read and verified, the codes are left
    /// where they are until somebody looks at them. [`MappedCodes::verify`] reads them all.
    pub fn open(path: &Path) -> Result<(CodeFile, MappedCodes)> {
        let map = Arc::new(map::map(path)?);
        Self::over(&map).map_err(|err| err.at(path))
    }

    fn over(map: &Arc<memmap2::Mmap>) -> Result<(CodeFile, MappedCodes)> {
        let head = Head::parse(map)?;
        let entry = *head.codes()?;
        let mapped = MappedCodes { map: Arc::clone(map), bits: head.bits, entry };
        let codes = match mapped.words() {
            Some(_) => Codes::from_shared(head.bits, Arc::new(mapped.clone())),
            // a big-endian machine must turn every word around
            None => Codes::from_words(head.bits, bytes_to_words(checked(map, &entry)?))?,
        };
        Ok((CodeFile { codes, ids: head.ids(map)?, labels: head.labels(map)? }, mapped))
    }

    fn check_rows(&self) -> Result<()> {
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

/// Codes that stay in their file.
#[derive(Clone)]
pub struct MappedCodes {
    map: Arc<memmap2::Mmap>,
    bits: Bits,
    entry: Entry,
}

impl MappedCodes {
    /// Reads all codes once and compares them with their checksum.
    pub fn verify(&self) -> Result<()> {
        let bytes = checked(&self.map, &self.entry)?;
        check_words(self.bits, &bytes_to_words(bytes))
    }

    fn words(&self) -> Option<&[u64]> {
        if cfg!(target_endian = "big") {
            return None;
        }
        bytemuck::try_cast_slice(self.entry.slice(&self.map)?).ok()
    }
}

impl AsRef<[u64]> for MappedCodes {
    fn as_ref(&self) -> &[u64] {
        self.words().unwrap_or(&[])
    }
}

/// The one line that maps a file.
mod map {
    #![expect(unsafe_code, reason = "mapping is unsafe: the file may change underneath")]

    use std::path::Path;

    pub(super) fn map(path: &Path) -> std::io::Result<memmap2::Mmap> {
        let file = fs_err::File::open(path)?;
        // SAFETY: code files are replaced by renaming, never changed in place (see
        // `write.rs`); who truncates one under a reader gets a bus error, as with any map.
        unsafe { memmap2::Mmap::map(file.file()) }
    }
}

#[derive(Clone, Copy)]
struct Entry {
    kind: u32,
    parameter: u64,
    offset: u64,
    length: u64,
    checksum: u64,
}

impl Entry {
    fn slice<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let start = usize::try_from(self.offset).ok()?;
        let end = start.checked_add(usize::try_from(self.length).ok()?)?;
        bytes.get(start..end)
    }
}

/// The parsed and verified header.
struct Head {
    bits: Bits,
    rows: usize,
    entries: Vec<Entry>,
}

impl Head {
    fn parse(bytes: &[u8]) -> Result<Head> {
        if !bytes.starts_with(MAGIC) {
            return Err(Error::content("not a crosshash code file: the magic is missing"));
        }
        let truncated = || Error::content("truncated: the file ends inside its header");
        let u32_at = |at: usize| {
            let bytes = bytes.get(at..at + 4).ok_or_else(truncated)?;
            Ok::<u32, Error>(u32::from_le_bytes(bytes.try_into().map_err(|_| truncated())?))
        };
        let u64_at = |at: usize| {
            Ok::<u64, Error>(u64::from(u32_at(at)?) | u64::from(u32_at(at + 4)?) << 32)
        };
        let version = u32_at(8)?;
        if version != VERSION {
            return Err(Error::content(format!(
                "code file version {version}; this program knows version {VERSION}"
            )));
        }
        let sections = u32_at(24)? as usize;
        if sections > MAX_SECTIONS {
            return Err(Error::content(format!("corrupt header: {sections} sections")));
        }
        let end = FIXED + ENTRY * sections;
        if u64_at(end)? != xxh3_64(&bytes[..end]) {
            return Err(Error::content("corrupt header: its checksum does not match"));
        }
        let mut entries = Vec::new();
        for at in (FIXED..end).step_by(ENTRY) {
            entries.push(Entry {
                kind: u32_at(at)?,
                parameter: u64_at(at + 8)?,
                offset: u64_at(at + 16)?,
                length: u64_at(at + 24)?,
                checksum: u64_at(at + 32)?,
            });
        }
        if let Some(entry) = entries.iter().find(|e| !(CODES..=LABELS).contains(&e.kind)) {
            return Err(Error::content(format!("unknown section kind {}", entry.kind)));
        }
        let rows =
            usize::try_from(u64_at(16)?).map_err(|_| Error::content("too many rows"))?;
        Ok(Head { bits: Bits::new(u32_at(12)? as usize)?, rows, entries })
    }

    fn find(&self, kind: u32) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.kind == kind)
    }

    fn codes(&self) -> Result<&Entry> {
        let entry =
            self.find(CODES).ok_or_else(|| Error::content("no codes in this file"))?;
        self.expect(entry, self.bits.words())?;
        Ok(entry)
    }

    /// A section must hold `words` words for each row.
    fn expect(&self, entry: &Entry, words: usize) -> Result<()> {
        let wanted = self.rows.checked_mul(words).and_then(|words| words.checked_mul(8));
        if wanted.map(|bytes| bytes as u64) != Some(entry.length) {
            return Err(Error::content(format!(
                "corrupt: section {} has {} bytes, which is not {} rows of {words} words",
                entry.kind, entry.length, self.rows
            )));
        }
        Ok(())
    }

    fn ids(&self, bytes: &[u8]) -> Result<Option<Ids>> {
        if let Some(entry) = self.find(NUMBERS) {
            self.expect(entry, 1)?;
            return Ok(Some(Ids::Numbers(bytes_to_words(checked(bytes, entry)?))));
        }
        let Some(entry) = self.find(NAMES) else { return Ok(None) };
        let names = bytes_to_names(checked(bytes, entry)?, self.rows);
        let names =
            names.ok_or_else(|| Error::content("corrupt: the names of the items"))?;
        Ok(Some(Ids::Names(names)))
    }

    fn labels(&self, bytes: &[u8]) -> Result<Option<Labels>> {
        let Some(entry) = self.find(LABELS) else { return Ok(None) };
        let classes = usize::try_from(entry.parameter)
            .map_err(|_| Error::content("corrupt: the number of labels"))?;
        self.expect(entry, classes.div_ceil(64))?;
        let words = bytes_to_words(checked(bytes, entry)?);
        Labels::from_words(classes, self.rows, words).map(Some)
    }
}

/// A section's bytes, if they are all there and as they were written.
fn checked<'a>(bytes: &'a [u8], entry: &Entry) -> Result<&'a [u8]> {
    let section = entry.slice(bytes).ok_or_else(|| {
        Error::content(format!(
            "truncated: section {} ends beyond the file's {} bytes",
            entry.kind,
            bytes.len()
        ))
    })?;
    if xxh3_64(section) != entry.checksum {
        return Err(Error::content(format!(
            "corrupt: the checksum of section {} does not match",
            entry.kind
        )));
    }
    Ok(section)
}

fn words_to_bytes(words: &[u64]) -> std::borrow::Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        return bytemuck::cast_slice(words).into();
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>().into()
}

fn bytes_to_words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn names_to_bytes(names: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut end = 0_u64;
    for length in std::iter::once(0).chain(names.iter().map(String::len)) {
        end += length as u64;
        bytes.extend(end.to_le_bytes());
    }
    names.iter().for_each(|name| bytes.extend(name.as_bytes()));
    bytes
}

fn bytes_to_names(bytes: &[u8], rows: usize) -> Option<Vec<String>> {
    let table = rows.checked_add(1)?.checked_mul(8)?;
    let ends = bytes_to_words(bytes.get(..table)?);
    let text = bytes.get(table..)?;
    if ends.first() != Some(&0) || ends.last().copied() != Some(text.len() as u64) {
        return None;
    }
    ends.windows(2)
        .map(|pair| {
            let (start, end) =
                (usize::try_from(pair[0]).ok()?, usize::try_from(pair[1]).ok()?);
            Some(std::str::from_utf8(text.get(start..end)?).ok()?.to_owned())
        })
        .collect()
}
