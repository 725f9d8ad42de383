//! A read-only memory map: the one place that needs `unsafe`.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use crate::Result;

/// Bytes of a file, paged in by the operating system as they are read; cheap to clone.
///
/// A file that another program shortens while it is mapped ends this program (SIGBUS): that
/// is the price of data larger than memory, and why nobody should edit a data set in use.
#[derive(Clone)]
pub(crate) struct Map(Arc<memmap2::Mmap>);

impl Map {
    /// Maps a whole file.
    pub(crate) fn open(path: &Path) -> Result<Map> {
        let file = fs_err::File::open(path)?;
        Map::of(file.file(), path)
    }

    /// Maps an open file; `path` is for the message.
    pub(crate) fn of(file: &std::fs::File, path: &Path) -> Result<Map> {
        #[expect(
            unsafe_code,
            reason = "the map is read-only and only ever seen as bytes; see the type's warning"
        )]
        let map = unsafe { memmap2::Mmap::map(file) };
        let named = |err: std::io::Error| {
            let what = format!("failed to map file `{}`: {err}", path.display());
            std::io::Error::new(err.kind(), what)
        };
        Ok(Map(Arc::new(map.map_err(named)?)))
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
