//! Files mapped into memory, read-only.

#[cfg(target_os = "linux")]
mod fault;

use std::ops::Deref;
use std::path::Path;

use crate::{Error, Result};

/// A mapped file that is not empty. Another process may cut it short while it is mapped: then
/// [`Mapping::check`] fails, if [`survive_cut_files`] was called; otherwise the program ends.
pub(crate) struct Mapping {
    map: memmap2::Mmap,
    #[cfg(target_os = "linux")]
    slot: Option<fault::Slot>,
}

impl Mapping {
    /// Maps a whole file.
    pub(crate) fn open(path: &Path) -> std::io::Result<Mapping> {
        let file = fs_err::File::open(path)?;
        #[expect(unsafe_code, reason = "mapping is unsafe: the file may change underneath")]
        // SAFETY: our files are replaced by renaming, never changed in place (see `write.rs`); for
        // files that are cut short see `fault.rs`.
        let map = unsafe { memmap2::Mmap::map(file.file()) }?;
        #[cfg(target_os = "linux")]
        let slot = fault::Slot::new(&map);
        Ok(Mapping {
            map,
            #[cfg(target_os = "linux")]
            slot,
        })
    }

    /// Fails if a part that was read could not be read. Call it after the bytes were used.
    pub(crate) fn check(&self) -> Result<()> {
        #[cfg(target_os = "linux")]
        if self.slot.as_ref().is_some_and(fault::Slot::is_cut) {
            return Err(Error::content(
                "corrupt: the file was shortened while it was in use, or the disk cannot read it; \
                 restore it from a copy and start again",
            ));
        }
        Ok(())
    }

    /// Tells the system that few and distant pages are read.
    pub(crate) fn advise_random(&self) {
        #[cfg(unix)]
        let _ = self.map.advise(memmap2::Advice::Random);
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

/// From now on, files of an index that another process cuts short while they are mapped lead to
/// errors; by default they end the process (SIGBUS). For programs that run for long: it installs a
/// signal handler. It has an effect on Linux only.
pub fn survive_cut_files() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    fault::install()?;
    Ok(())
}

/// The bytes of a file, read as they are used.
///
/// A file that another program shortens while it is mapped ends this program (SIGBUS), unless
/// [`survive_cut_files`] was called.
pub struct MappedFile(Option<Mapping>); // none: the file is empty

impl MappedFile {
    /// Maps a whole file.
    pub fn open(path: &Path) -> std::io::Result<MappedFile> {
        if fs_err::metadata(path)?.len() == 0 {
            return Ok(MappedFile(None));
        }
        Mapping::open(path).map(|map| MappedFile(Some(map))).map_err(|err| {
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
