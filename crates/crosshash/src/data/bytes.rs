//! Bytes that need not fit into memory: a mapped file, or what a `Spool` collected.
//!
//! What can be mapped (`.npy`, stored `.npz` entries, plain `.mat` variables) is mapped. What
//! must be unpacked first is spooled: kept in memory while small, in an unnamed temporary file
//! that is mapped afterwards when large.

use std::io::{self, BufWriter, Write};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use crate::Result;

/// Above this many bytes a spool goes to disk.
const SPOOL_IN_MEMORY: usize = 256 << 20;

/// Read-only bytes, cheap to clone.
///
/// A file that another program shortens while it is mapped ends this program (SIGBUS): that
/// is the price of data larger than memory, and why nobody should edit a data set in use.
#[derive(Clone)]
pub(crate) enum Bytes {
    Mapped(Arc<memmap2::Mmap>),
    Owned(Arc<[u8]>),
}

impl Bytes {
    /// Maps a whole file.
    pub(crate) fn open(path: &Path) -> Result<Bytes> {
        let file = fs_err::File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Ok(Bytes::Owned(Arc::from([])));
        }
        map(file.file()).map_err(|err| {
            let what = format!("failed to map file `{}`: {err}", path.display());
            io::Error::new(err.kind(), what).into()
        })
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

fn map(file: &std::fs::File) -> io::Result<Bytes> {
    #[expect(
        unsafe_code,
        reason = "the map is read-only and only ever seen as bytes; see the type's warning"
    )]
    let map = unsafe { memmap2::Mmap::map(file) };
    Ok(Bytes::Mapped(Arc::new(map?)))
}

/// Collects bytes, on disk when they are many.
pub(crate) struct Spool {
    memory: Vec<u8>,
    limit: usize,
    disk: Option<BufWriter<std::fs::File>>,
}

impl Spool {
    pub(crate) fn new() -> Spool {
        Spool { memory: Vec::new(), limit: SPOOL_IN_MEMORY, disk: None }
    }

    pub(crate) fn finish(self) -> Result<Bytes> {
        match self.disk {
            None => Ok(Bytes::Owned(self.memory.into())),
            Some(disk) => {
                let file = disk.into_inner().map_err(io::IntoInnerError::into_error)?;
                Ok(map(&file)?)
            }
        }
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.disk.is_none() && self.memory.len() + bytes.len() > self.limit {
            let mut disk = BufWriter::with_capacity(1 << 20, tempfile::tempfile()?);
            disk.write_all(&self.memory)?;
            self.memory = Vec::new();
            self.disk = Some(disk);
        }
        match &mut self.disk {
            Some(disk) => disk.write_all(bytes)?,
            None => self.memory.extend_from_slice(bytes),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.disk.as_mut().map_or(Ok(()), Write::flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spool_holds_the_same_bytes_in_memory_and_on_disk() {
        let bytes: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        for limit in [0, 300, 1 << 20] {
            let mut spool = Spool { limit, ..Spool::new() };
            bytes.chunks(97).for_each(|chunk| spool.write_all(chunk).unwrap());
            let back = spool.finish().unwrap();
            assert_eq!(matches!(back, Bytes::Mapped(_)), limit < bytes.len());
            assert_eq!(&back[..], &bytes[..]);
        }
    }
}
