//! Bytes that may be larger than memory: a mapped file, or the bytes of a `Spool`.
//!
//! Uncompressed data (`.npy`, stored `.npz` entries, plain `.mat` variables) are mapped. Compressed
//! data are decompressed into a spool (`spool.rs`).

use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use crate::Result;

/// Read-only bytes, cheap to clone.
///
/// If another program truncates a mapped file, this program is terminated by SIGBUS. Do not change the
/// files of a data set while it is in use.
#[derive(Clone)]
pub(crate) enum Bytes {
    Mapped(Arc<memmap2::Mmap>),
    Owned(Arc<[u8]>),
    /// Memory of another owner, such as an array of another language.
    Shared(Arc<dyn AsRef<[u8]> + Send + Sync>),
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
            Bytes::Shared(bytes) => (**bytes).as_ref(),
        }
    }
}

/// Maps an open file.
pub(super) fn map(file: &std::fs::File) -> io::Result<Bytes> {
    #[expect(
        unsafe_code,
        reason = "the map is read-only and accessed as bytes; see the warning of `Bytes`"
    )]
    let map = unsafe { memmap2::Mmap::map(file) };
    Ok(Bytes::Mapped(Arc::new(map?)))
}
