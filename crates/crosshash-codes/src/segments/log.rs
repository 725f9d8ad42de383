//! The write-ahead log: small commits since the manifest was written, one record each.
//!
//! Numbers are little-endian, everything is aligned to 8 bytes:
//!
//! ```text
//! file header   magic "XHINDLOG", version u32, bits u32, number u64, first sequence u64, salt u64,
//!               xxh3-64 of these
//! record        magic "XHRECORD", length u64, sequence u64, xxh3-64 of the padded body,
//!               xxh3-64 of these; the body, padded with zeros (record.rs)
//! confirmation  sequence u64, xxh3-64 of it: written once the record is synced
//! ```
//!
//! All checksums of records are seeded with the random salt of the file, so that no payload can
//! contain a valid one. A record is synced before it is acknowledged, and before the next one is
//! written; so only the last record can be incomplete after a crash. A record that is not valid
//! is therefore ignored only if nothing valid with its sequence number or a later one follows:
//! neither its confirmation nor another record. Otherwise it is damage, and the log is rejected.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::write::atomically;
use crate::{Bits, Error, Result};

const MAGIC: &[u8; 8] = b"XHINDLOG";
const RECORD: &[u8; 8] = b"XHRECORD";
const VERSION: u32 = 1;
const HEADER: usize = 48;
const HEAD: usize = 40;
const CONFIRMATION: usize = 16;

/// The content of a log.
pub(crate) struct Contents {
    /// The bodies of the records.
    pub(crate) records: Vec<Vec<u8>>,
    salt: u64,
    /// Where the next record begins.
    end: usize,
}

/// A log that is open for appending.
pub(crate) struct Log {
    path: PathBuf,
    file: std::fs::File,
    salt: u64,
    end: u64,
    /// Why nothing can be appended any more.
    broken: Option<String>,
}

/// The name of a log file.
pub(crate) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:08}.log"))
}

/// Makes an empty log whose first record has this sequence number.
pub(crate) fn create(folder: &Path, number: u64, bits: Bits, first: u64) -> Result<()> {
    let mut head = MAGIC.to_vec();
    head.extend(VERSION.to_le_bytes());
    head.extend(u32::try_from(bits.get()).unwrap_or(0).to_le_bytes());
    for number in [number, first, random()] {
        head.extend(number.to_le_bytes());
    }
    head.extend(xxh3_64(&head).to_le_bytes());
    atomically(&path(folder, number), |out| Ok(out.write_all(&head)?))
}

/// A random number that cannot be guessed.
fn random() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// Reads a log that continues the commit `first - 1`.
pub(crate) fn read(folder: &Path, number: u64, bits: Bits, first: u64) -> Result<Contents> {
    let path = path(folder, number);
    let bytes = fs_err::read(&path)?;
    parse(&bytes, number, bits, first).map_err(|err| err.at(&path))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// The bodies of the records before the first damaged one, and what is damaged.
pub(crate) fn read_healthy(
    folder: &Path,
    number: u64,
    bits: Bits,
    first: u64,
) -> (Vec<Vec<u8>>, Option<Error>) {
    let path = path(folder, number);
    let scanned = match fs_err::read(&path) {
        Ok(bytes) => scan(&bytes, number, bits, first),
        Err(err) => Err(err.into()),
    };
    match scanned {
        Ok((contents, fault)) => (contents.records, fault.map(|err| err.at(&path))),
        Err(err) => (Vec::new(), Some(err.at(&path))),
    }
}

fn parse(bytes: &[u8], number: u64, bits: Bits, first: u64) -> Result<Contents> {
    match scan(bytes, number, bits, first)? {
        (_, Some(fault)) => Err(fault),
        (contents, None) => Ok(contents),
    }
}

/// The valid records, and the damage that ends them, if they do not end regularly.
fn scan(
    bytes: &[u8],
    number: u64,
    bits: Bits,
    first: u64,
) -> Result<(Contents, Option<Error>)> {
    let damaged = |what: &str| {
        Error::content(format!("corrupt: {what}; restore the index from a copy"))
    };
    if !bytes.starts_with(MAGIC) {
        return Err(damaged("this is not the log of an index"));
    }
    let header = bytes.get(..HEADER).ok_or_else(|| damaged("the header is cut short"))?;
    if word(header, 40) != Some(xxh3_64(&header[..40])) {
        return Err(damaged("the checksum of the header does not match"));
    }
    let version = word(header, 8).unwrap_or(0) & 0xFFFF_FFFF;
    if version != u64::from(VERSION) {
        return Err(Error::content(format!(
            "index log version {version}; this program reads version {VERSION}"
        )));
    }
    let own = (word(header, 8).unwrap_or(0) >> 32, word(header, 16), word(header, 24));
    if own != (bits.get() as u64, Some(number), Some(first)) {
        return Err(damaged("this log does not belong to the manifest"));
    }
    let salt = word(header, 32).unwrap_or(0);
    let mut contents = Contents { records: Vec::new(), salt, end: HEADER };
    for sequence in first.. {
        let at = contents.end;
        let Some((body, end)) = record(bytes, at, sequence, salt) else {
            if let Some(later) = follows(bytes, at, sequence, salt) {
                let fault = damaged(&format!(
                    "the record at byte {at} is damaged, and the commit at byte {later} \
                     depends on it"
                ));
                return Ok((contents, Some(fault)));
            }
            break;
        };
        contents.records.push(body.to_vec());
        contents.end = end;
    }
    Ok((contents, None))
}

/// Length and sequence of a record, if its head is valid.
fn head(bytes: &[u8], at: usize, salt: u64) -> Option<(u64, u64)> {
    let head = bytes.get(at..at.checked_add(HEAD)?)?;
    let valid =
        head.starts_with(RECORD) && word(head, 32)? == xxh3_64_with_seed(&head[..32], salt);
    valid.then_some((word(head, 8)?, word(head, 16)?))
}

/// The body of a valid record, and where the next one begins.
fn record(bytes: &[u8], at: usize, sequence: u64, salt: u64) -> Option<(&[u8], usize)> {
    let (length, own) = head(bytes, at, salt)?;
    if own != sequence {
        return None;
    }
    let length = usize::try_from(length).ok()?;
    let start = at + HEAD;
    let end = start.checked_add(length.checked_next_multiple_of(8)?)?;
    let padded = bytes.get(start..end)?;
    if xxh3_64_with_seed(padded, salt) != word(bytes, at + 24)? {
        return None;
    }
    // the space of the confirmation is written together with the record
    bytes.get(end..end + CONFIRMATION)?;
    Some((&padded[..length], end + CONFIRMATION))
}

/// Where something valid follows that was written after the record at `at` was synced.
fn follows(bytes: &[u8], at: usize, sequence: u64, salt: u64) -> Option<usize> {
    (at..bytes.len()).step_by(8).find(|&at| {
        let later = head(bytes, at, salt).is_some_and(|(_, own)| own > sequence);
        let confirmed = word(bytes, at).filter(|&own| own >= sequence).is_some_and(|own| {
            word(bytes, at + 8) == Some(xxh3_64_with_seed(&own.to_le_bytes(), salt))
        });
        later || confirmed
    })
}

impl Log {
    /// Opens a log behind its last valid record; data that a crash left after it are cut off.
    pub(crate) fn open(folder: &Path, number: u64, contents: &Contents) -> Result<Log> {
        let path = path(folder, number);
        let file =
            fs_err::OpenOptions::new().read(true).write(true).open(&path)?.into_file();
        let end = contents.end as u64;
        if file.metadata()?.len() != end {
            file.set_len(end)?;
            file.sync_all()?;
        }
        Ok(Log { path, file, salt: contents.salt, end, broken: None })
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> u64 {
        self.end
    }

    /// Appends and syncs a record. If that fails, the log is as it was before.
    pub(crate) fn append(&mut self, sequence: u64, body: &[u8]) -> Result<()> {
        if let Some(why) = &self.broken {
            return Err(Error::content(format!(
                "no changes are possible since an earlier write failed ({why}); open the index \
                 again"
            ))
            .at(&self.path));
        }
        let mut padded = body.to_vec();
        padded.resize(body.len().next_multiple_of(8), 0);
        let mut bytes = RECORD.to_vec();
        for number in [body.len() as u64, sequence, xxh3_64_with_seed(&padded, self.salt)] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(xxh3_64_with_seed(&bytes, self.salt).to_le_bytes());
        bytes.extend(&padded);
        let confirmation = self.end + bytes.len() as u64;
        bytes.extend([0; CONFIRMATION]);
        if let Err(err) = self.write(&bytes) {
            #[cfg(test)]
            if crate::write::cut::is_off() {
                return Err(err.into()); // a crashed writer does not clean up
            }
            let cleaned = self.file.set_len(self.end).and_then(|()| self.file.sync_all());
            if let Err(again) = cleaned {
                self.broken = Some(again.to_string());
            }
            return Err(std::io::Error::new(
                err.kind(),
                format!("failed to write file `{}`: {err}", self.path.display()),
            )
            .into());
        }
        self.end += bytes.len() as u64;
        // The record is durable. The confirmation only distinguishes damage from a crash: it may be lost.
        let sum = xxh3_64_with_seed(&sequence.to_le_bytes(), self.salt);
        let confirm = [sequence.to_le_bytes(), sum.to_le_bytes()].concat();
        let _ = self
            .file
            .seek(SeekFrom::Start(confirmation))
            .and_then(|_| self.file.write_all(&confirm));
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.seek(SeekFrom::Start(self.end))?;
        #[cfg(test)]
        crate::write::cut::append(&mut self.file, bytes)?;
        #[cfg(not(test))]
        self.file.write_all(bytes)?;
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits() -> Bits {
        Bits::new(64).unwrap()
    }

    fn filled(folder: &Path) -> Vec<u8> {
        create(folder, 3, bits(), 10).unwrap();
        let mut log = Log::open(folder, 3, &read(folder, 3, bits(), 10).unwrap()).unwrap();
        for (sequence, body) in (10..).zip(["one", "number two", "", "the fourth record"]) {
            log.append(sequence, body.as_bytes()).unwrap();
        }
        fs_err::read(path(folder, 3)).unwrap()
    }

    #[test]
    fn records_are_read_as_they_were_appended() {
        let dir = tempfile::tempdir().unwrap();
        let whole = filled(dir.path());
        let contents = parse(&whole, 3, bits(), 10).unwrap();
        assert_eq!(
            contents.records,
            ["one", "number two", "", "the fourth record"].map(|body| body.as_bytes())
        );
        assert_eq!(contents.end, whole.len());
        assert!(parse(&whole, 4, bits(), 10).is_err());
        assert!(parse(&whole, 3, bits(), 11).is_err());
    }

    /// A crash can cut the last record short; the records before it are kept.
    #[test]
    fn a_cut_last_record_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let whole = filled(dir.path());
        let third = whole.len() - HEAD - 24 - CONFIRMATION;
        for cut in third..whole.len() {
            let contents = parse(&whole[..cut], 3, bits(), 10).unwrap();
            assert_eq!((contents.records.len(), contents.end), (3, third), "cut at {cut}");
        }
    }

    /// Every flipped bit is detected, or changes nothing: no record is lost silently.
    #[test]
    fn flipped_bits_do_not_drop_records() {
        let dir = tempfile::tempdir().unwrap();
        let whole = filled(dir.path());
        let records = parse(&whole, 3, bits(), 10).unwrap().records;
        let mut refused = 0;
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            match parse(&flipped, 3, bits(), 10) {
                Ok(contents) => assert_eq!(contents.records, records, "bit {bit}"),
                Err(_) => refused += 1,
            }
        }
        assert_eq!(refused, (whole.len() - 4 * CONFIRMATION) * 8);
    }
}
