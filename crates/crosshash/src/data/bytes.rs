//! Bytes that need not fit into memory: a mapped file, or what a `Spool` collected.
//!
//! What can be mapped (`.npy`, stored `.npz` entries, plain `.mat` variables) is mapped. What
//! must be unpacked first is spooled (`spool.rs`).

use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use crate::Result;

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

/// Maps an open file.
pub(super) fn map(file: &std::fs::File) -> io::Result<Bytes> {
    #[expect(
        unsafe_code,
        reason = "the map is read-only and only ever seen as bytes; see the type's warning"
    )]
    let map = unsafe { memmap2::Mmap::map(file) };
    Ok(Bytes::Mapped(Arc::new(map?)))
}
