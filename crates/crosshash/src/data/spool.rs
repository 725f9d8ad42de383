//! `Spool`: a buffer for decompressed bytes that moves to a temporary file when it is large, within the
//! budget of the data set.

use std::io::{self, BufWriter, Read, Write as _};

use super::bytes::{self, Bytes};
use super::limits::Budget;
use crate::{Error, Result};

/// Above this size a spool is written to disk.
const IN_MEMORY: usize = 256 << 20;
/// Bytes written between two checks of the free disk space.
const DISK_CHECK: u64 = 64 << 20;

/// Collects bytes.
pub(crate) struct Spool {
    budget: Budget,
    memory: Vec<u8>,
    in_memory: usize,
    disk: Option<BufWriter<std::fs::File>>,
    written: u64,
    checked: u64, // bytes for which the disk is known to have room
}

impl Spool {
    /// A spool of unknown size.
    pub(crate) fn new(budget: &Budget) -> Spool {
        Spool {
            budget: budget.clone(),
            memory: Vec::new(),
            in_memory: IN_MEMORY,
            disk: None,
            written: 0,
            checked: 0,
        }
    }

    /// A spool for `declared` bytes; an error if there is no room for them.
    pub(crate) fn with_size(budget: &Budget, what: &str, declared: u64) -> Result<Spool> {
        budget.check_room(what, declared, IN_MEMORY as u64)?;
        Ok(Spool::new(budget))
    }

    /// Appends bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let size = bytes.len() as u64;
        self.budget.charge(size)?;
        self.written += size;
        if self.disk.is_none() && self.memory.len() + bytes.len() > self.in_memory {
            self.check_disk()?;
            let mut disk = BufWriter::with_capacity(1 << 20, tempfile::tempfile()?);
            disk.write_all(&self.memory).map_err(|err| not_written(&err))?;
            self.memory = Vec::new();
            self.disk = Some(disk);
        }
        if self.disk.is_some() && self.written > self.checked {
            self.check_disk()?;
        }
        match &mut self.disk {
            Some(disk) => disk.write_all(bytes).map_err(|err| not_written(&err)),
            None => {
                self.memory.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Appends at most `declared` bytes of a reader; returns their number.
    pub(crate) fn copy(&mut self, from: impl Read, declared: u64) -> Result<u64> {
        let mut from = from.take(declared);
        let mut buffer = vec![0; 1 << 16];
        let mut copied = 0;
        loop {
            match from.read(&mut buffer) {
                Ok(0) => return Ok(copied),
                Ok(size) => {
                    self.push(&buffer[..size])?;
                    copied += size as u64;
                }
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) => {
                    return Err(Error::content(format!("cannot be decompressed: {err}")));
                }
            }
        }
    }

    /// The bytes.
    pub(crate) fn finish(mut self) -> Result<Bytes> {
        match self.disk.take() {
            None => Ok(Bytes::Owned(std::mem::take(&mut self.memory).into())),
            Some(disk) => {
                let file = disk.into_inner().map_err(|err| not_written(err.error()))?;
                Ok(bytes::map(&file)?)
            }
        }
    }

    fn check_disk(&mut self) -> Result<()> {
        let ahead = DISK_CHECK.max(self.memory.len() as u64);
        self.budget.check_disk(ahead)?;
        self.checked = self.written + DISK_CHECK;
        Ok(())
    }
}

fn not_written(err: &io::Error) -> Error {
    let folder = std::env::temp_dir();
    Error::content(format!(
        "decompressed data cannot be written to a temporary file in {}: {err}",
        folder.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::ReadLimits;

    #[test]
    fn bytes_are_equal_in_memory_and_on_disk() {
        let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        for in_memory in [0, 300, 1 << 20] {
            let mut spool = Spool { in_memory, ..Spool::new(&Budget::default()) };
            bytes.chunks(97).for_each(|chunk| spool.push(chunk).unwrap());
            let back = spool.finish().unwrap();
            assert_eq!(matches!(back, Bytes::Mapped(_)), in_memory < bytes.len());
            assert_eq!(&back[..], &bytes[..]);
        }
    }

    #[test]
    fn endless_reader_stops_at_the_declared_size_or_the_limit() {
        let budget = Budget::new(ReadLimits { max_spooled: 1000, ..ReadLimits::default() });
        let mut spool = Spool::new(&budget);
        assert_eq!(spool.copy(io::repeat(7), 900).unwrap(), 900);
        let text = spool.copy(io::repeat(7), u64::MAX).unwrap_err().to_string();
        assert!(text.contains("more than 1000 bytes"), "{text}");
        assert_eq!(spool.finish().unwrap().len(), 900);
        assert!(Spool::with_size(&budget, "x", 1001).is_err());
    }
}
