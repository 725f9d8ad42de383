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
//! 32      40*s  sections: kind u32, 0 u32, parameter u64, offset u64, length u64, xxh3-64
//! ...     8     xxh3-64 of everything above
//! ```
//!
//! What the sections mean is said by the files that have them: `format.rs`, `segments/file.rs`.

use std::borrow::Cow;
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::write::atomically;
use crate::{Bits, Error, Result};

const FIXED: usize = 32;
const ENTRY: usize = 40;
const ALIGN: usize = 64;
/// More sections than any version has.
const MAX_SECTIONS: usize = 16;

/// What tells one kind of file from another.
pub(crate) struct Container {
    /// How the file begins.
    pub(crate) magic: &'static [u8; 8],
    /// What it is called in messages.
    pub(crate) name: &'static str,
    /// The version that is written, and the only one there is so far.
    pub(crate) version: u32,
    /// Section kinds.
    pub(crate) kinds: RangeInclusive<u32>,
}

/// A section to be written.
pub(crate) struct Section<'a> {
    pub(crate) kind: u32,
    pub(crate) parameter: u64,
    pub(crate) bytes: Cow<'a, [u8]>,
}

impl Container {
    /// Writes a file, whole or not at all.
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
        for Section { kind, parameter, bytes } in sections {
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
            let bodies = sections.iter().map(|section| &section.bytes[..]);
            for part in std::iter::once(&head[..]).chain(bodies) {
                let padding = written.next_multiple_of(ALIGN) - written;
                out.write_all(&[0; ALIGN][..padding])?;
                out.write_all(part)?;
                written += padding + part.len();
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
                "{} version {version}; this program knows version {}",
                self.name, self.version
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
        if let Some(entry) = entries.iter().find(|e| !self.kinds.contains(&e.kind)) {
            return Err(Error::content(format!("unknown section kind {}", entry.kind)));
        }
        let rows =
            usize::try_from(u64_at(16)?).map_err(|_| Error::content("too many rows"))?;
        Ok(Head { bits: Bits::new(u32_at(12)? as usize)?, rows, entries })
    }
}

/// Where a section lies.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) kind: u32,
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

    /// The section's bytes, if they are all there and as they were written.
    pub(crate) fn checked<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        let section = self.present(bytes)?;
        if xxh3_64(section) != self.checksum {
            return Err(Error::content(format!(
                "corrupt: the checksum of section {} does not match",
                self.kind
            )));
        }
        Ok(section)
    }

    /// The section's bytes, if they are all there.
    pub(crate) fn present<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        self.slice(bytes).ok_or_else(|| {
            Error::content(format!(
                "truncated: section {} ends beyond the file's {} bytes",
                self.kind,
                bytes.len()
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
        let wanted = self.rows.checked_mul(words).and_then(|words| words.checked_mul(8));
        if wanted.map(|bytes| bytes as u64) != Some(entry.length) {
            return Err(Error::content(format!(
                "corrupt: section {} has {} bytes, which is not {} rows of {words} words",
                entry.kind, entry.length, self.rows
            )));
        }
        Ok(())
    }
}

/// Words that stay in their file.
#[derive(Clone)]
pub(crate) struct MappedWords {
    pub(crate) map: Arc<memmap2::Mmap>,
    pub(crate) entry: Entry,
}

impl MappedWords {
    /// The words where they lie; nothing on a big-endian machine, which must turn them around.
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

/// The one line that maps a file.
pub(crate) mod map {
    #![expect(unsafe_code, reason = "mapping is unsafe: the file may change underneath")]

    use std::path::Path;

    pub(crate) fn map(path: &Path) -> std::io::Result<memmap2::Mmap> {
        let file = fs_err::File::open(path)?;
        // SAFETY: code files are replaced by renaming, never changed in place (see
        // `write.rs`); who truncates one under a reader gets a bus error, as with any map.
        unsafe { memmap2::Mmap::map(file.file()) }
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

/// One name out of many, read where it lies.
pub(crate) fn name_at(bytes: &[u8], rows: usize, row: usize) -> Option<&str> {
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
