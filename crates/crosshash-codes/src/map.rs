//! Files mapped into memory, read-only.

use std::ops::Deref;
use std::path::Path;

use crate::sections::map::map;

/// The bytes of a file, read as they are used.
///
/// A file that another program shortens while it is mapped ends this program (SIGBUS).
pub struct MappedFile(Option<memmap2::Mmap>); // none: the file is empty

impl MappedFile {
    /// Maps a whole file.
    pub fn open(path: &Path) -> std::io::Result<MappedFile> {
        if fs_err::metadata(path)?.len() == 0 {
            return Ok(MappedFile(None));
        }
        map(path).map(|map| MappedFile(Some(map))).map_err(|err| {
            let what = format!("failed to map file `{}`: {err}", path.display());
            std::io::Error::new(err.kind(), what)
        })
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}
