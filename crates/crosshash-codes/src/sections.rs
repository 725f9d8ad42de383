//! The container of our binary files: a checksummed table of checksummed sections.
//!
//! Numbers are little-endian, sections aligned to 64 bytes:
//!
//! ```text
//! offset  size  what
//! 0       8     magic
//! 8       4     version
//! 12      4     bits a code
//! 16      8     rows
//! 24      4     number of sections
//! 28      4     0
//! 32      40*s  sections: kind u32, flags u32, parameter u64, offset u64, length u64, xxh3-64
//! ...     8     xxh3-64 of everything above
//! ```
//!
//! Flag 1 marks a section as optional: a reader that does not know its kind ignores it. A section
//! of unknown kind without this flag is refused. Every kind occurs at most once; sections are
//! aligned, lie behind the header, inside the file, and do not overlap: all of this is checked
//! before any section is read. `format.rs` and `segments/file.rs` define the kinds.

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::map::Mapping;
use crate::write::atomically;
use crate::{Bits, Error, Result};

const FIXED: usize = 32;
const ENTRY: usize = 40;
const ALIGN: usize = 64;
/// More sections than any version has.
const MAX_SECTIONS: usize = 64;
/// The flag of a section that a reader may ignore.
const OPTIONAL: u32 = 1;

/// One kind of file.
pub(crate) struct Container {
    /// The first bytes of the file.
    pub(crate) magic: &'static [u8; 8],
    /// The name used in messages.
    pub(crate) name: &'static str,
    /// The version that is written and the only one that is read.
    pub(crate) version: u32,
    /// What to do about a file of another version.
    pub(crate) remedy: &'static str,
    /// Section kinds with their names.
    pub(crate) kinds: &'static [(u32, &'static str)],
}

/// A section to be written.
pub(crate) struct Section<'a> {
    pub(crate) kind: u32,
    pub(crate) optional: bool,
    pub(crate) parameter: u64,
    /// The content in pieces, so that large ones need not be copied together.
    pub(crate) pieces: Vec<Cow<'a, [u8]>>,
}

impl<'a> Section<'a> {
    /// A required section.
    pub(crate) fn new(kind: u32, parameter: u64, bytes: Cow<'a, [u8]>) -> Section<'a> {
        Section { kind, optional: false, parameter, pieces: vec![bytes] }
    }

    fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len()).sum()
    }

    fn checksum(&self) -> u64 {
        let mut state = Xxh3::new();
        self.pieces.iter().for_each(|piece| state.update(piece));
        state.digest()
    }
}

impl Container {
    /// Writes a file atomically.
    pub(crate) fn write(
        &self,
        path: &Path,
        bits: Bits,
        rows: usize,
        sections: &[Section<'_>],
    ) -> Result<()> {
        let mut head = Vec::new();
        head.extend(self.magic);
        head.extend(self.version.to_le_bytes());
        head.extend(u32::try_from(bits.get()).unwrap_or(0).to_le_bytes());
        head.extend((rows as u64).to_le_bytes());
        head.extend(u32::try_from(sections.len()).unwrap_or(0).to_le_bytes());
        head.extend(0_u32.to_le_bytes());
        let mut offset = (FIXED + ENTRY * sections.len() + 8).next_multiple_of(ALIGN);
        for section in sections {
            head.extend(section.kind.to_le_bytes());
            head.extend(if section.optional { OPTIONAL } else { 0 }.to_le_bytes());
            let length = section.len();
            let numbers =
                [section.parameter, offset as u64, length as u64, section.checksum()];
            for number in numbers {
                head.extend(number.to_le_bytes());
            }
            offset = (offset + length).next_multiple_of(ALIGN);
        }
        head.extend(xxh3_64(&head).to_le_bytes());
        atomically(path, |out| {
            out.write_all(&head)?;
            let mut written = head.len();
            for section in sections {
                let padding = written.next_multiple_of(ALIGN) - written;
                out.write_all(&[0; ALIGN][..padding])?;
                section.pieces.iter().try_for_each(|piece| out.write_all(piece))?;
                written += padding + section.len();
            }
            Ok(())
        })
    }

    /// Parses and verifies the header.
    pub(crate) fn head(&self, bytes: &[u8]) -> Result<Head> {
        if !bytes.starts_with(self.magic) {
            return Err(Error::content(format!(
                "not a crosshash {}: the magic is missing",
                self.name
            )));
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
        if version != self.version {
            return Err(Error::content(format!(
                "{} version {version}; this program reads version {}: {}",
                self.name, self.version, self.remedy
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
            let kind = u32_at(at)?;
            let known = self.kinds.iter().find(|known| known.0 == kind);
            if known.is_none() && u32_at(at + 4)? & OPTIONAL == 0 {
                return Err(Error::content(format!(
                    "unknown section kind {kind}: the {} was written by a newer version",
                    self.name
                )));
            }
            entries.push(Entry {
                kind,
                name: known.map_or("unknown", |known| known.1),
                parameter: u64_at(at + 8)?,
                offset: u64_at(at + 16)?,
                length: u64_at(at + 24)?,
                checksum: u64_at(at + 32)?,
            });
        }
        check_layout(&entries, end + 8, bytes.len())?;
        let rows =
            usize::try_from(u64_at(16)?).map_err(|_| Error::content("too many rows"))?;
        Ok(Head { bits: Bits::new(u32_at(12)? as usize)?, rows, entries })
    }
}

/// Every section is aligned, behind the header, inside the file and apart from the others, and
/// no kind occurs twice.
fn check_layout(entries: &[Entry], header: usize, length: usize) -> Result<()> {
    let mut end = header as u64;
    for (nth, entry) in entries.iter().enumerate() {
        let corrupt = |what: &str| {
            Err(Error::content(format!("corrupt: the {} section {what}", entry.name)))
        };
        if entry.offset % ALIGN as u64 != 0 {
            return corrupt("is not aligned");
        }
        if entry.offset < end {
            return corrupt("overlaps the section before it");
        }
        if entries[..nth].iter().any(|other| other.kind == entry.kind) {
            return corrupt("occurs twice");
        }
        match entry.offset.checked_add(entry.length) {
            Some(next) if next <= length as u64 => end = next,
            _ => {
                return Err(Error::content(format!(
                    "truncated: the {} section ends beyond the file's {length} bytes",
                    entry.name
                )));
            }
        }
    }
    Ok(())
}

/// Where a section lies.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) kind: u32,
    pub(crate) name: &'static str,
    pub(crate) parameter: u64,
    offset: u64,
    pub(crate) length: u64,
    checksum: u64,
}

impl Entry {
    /// The section's bytes, if the file has them; not verified.
    pub(crate) fn slice<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let start = usize::try_from(self.offset).ok()?;
        let end = start.checked_add(usize::try_from(self.length).ok()?)?;
        bytes.get(start..end)
    }

    /// The section's bytes, if their checksum matches.
    pub(crate) fn checked<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        let section = self.slice(bytes).filter(|section| xxh3_64(section) == self.checksum);
        section.ok_or_else(|| {
            Error::content(format!(
                "corrupt: the checksum of the {} section does not match",
                self.name
            ))
        })
    }
}

/// The parsed and verified header.
pub(crate) struct Head {
    pub(crate) bits: Bits,
    pub(crate) rows: usize,
    pub(crate) entries: Vec<Entry>,
}

impl Head {
    pub(crate) fn find(&self, kind: u32) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.kind == kind)
    }

    /// A section must hold `words` words for each row.
    pub(crate) fn expect(&self, entry: &Entry, words: usize) -> Result<()> {
        self.expect_bytes(entry, words.saturating_mul(8))
    }

    /// A section must hold `width` bytes for each row.
    pub(crate) fn expect_bytes(&self, entry: &Entry, width: usize) -> Result<()> {
        let wanted = self.rows.checked_mul(width).map(|bytes| bytes as u64);
        if wanted != Some(entry.length) {
            return Err(Error::content(format!(
                "corrupt: the {} section has {} bytes, expected {} rows of {width} bytes",
                entry.name, entry.length, self.rows
            )));
        }
        Ok(())
    }
}

/// Words of a section in a mapped file.
#[derive(Clone)]
pub(crate) struct MappedWords {
    pub(crate) map: Arc<Mapping>,
    pub(crate) entry: Entry,
}

impl MappedWords {
    /// The words in place; `None` on a big-endian machine, which has to swap their bytes.
    pub(crate) fn words(&self) -> Option<&[u64]> {
        if cfg!(target_endian = "big") {
            return None;
        }
        bytemuck::try_cast_slice(self.entry.slice(&self.map)?).ok()
    }
}

impl AsRef<[u64]> for MappedWords {
    fn as_ref(&self) -> &[u64] {
        self.words().unwrap_or(&[])
    }
}

pub(crate) fn words_to_bytes(words: &[u64]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        return bytemuck::cast_slice(words).into();
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>().into()
}

pub(crate) fn bytes_to_words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

pub(crate) fn names_to_bytes(names: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut end = 0_u64;
    for length in std::iter::once(0).chain(names.iter().map(String::len)) {
        end += length as u64;
        bytes.extend(end.to_le_bytes());
    }
    names.iter().for_each(|name| bytes.extend(name.as_bytes()));
    bytes
}

/// One name of a section of names.
pub(crate) fn name_at(bytes: &[u8], rows: usize, row: usize) -> Option<&str> {
    if row >= rows {
        return None;
    }
    let end_at = |at: usize| {
        let word = bytes.get(at * 8..at * 8 + 8)?;
        usize::try_from(u64::from_le_bytes(word.try_into().ok()?)).ok()
    };
    let text = bytes.get(rows.checked_add(1)?.checked_mul(8)?..)?;
    std::str::from_utf8(text.get(end_at(row)?..end_at(row + 1)?)?).ok()
}

pub(crate) fn bytes_to_names(bytes: &[u8], rows: usize) -> Option<Vec<String>> {
    let table = rows.checked_add(1)?.checked_mul(8)?;
    let ends = bytes_to_words(bytes.get(..table)?);
    let text = bytes.get(table..)?;
    if ends.first() != Some(&0) || ends.last().copied() != Some(text.len() as u64) {
        return None;
    }
    (0..rows).map(|row| name_at(bytes, rows, row).map(str::to_owned)).collect()
}
