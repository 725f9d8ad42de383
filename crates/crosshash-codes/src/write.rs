//! Atomic file replacement: write a temporary file, sync it, rename it.

use std::io::{BufWriter, Write};
use std::path::Path;

use crate::{Error, Result};

/// Writes a file through `fill` under a temporary name and renames it, so that neither a reader
/// nor a crash ever sees a part of it. An existing file is unchanged until then.
pub fn atomically(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<&mut std::fs::File>) -> Result<()>,
) -> Result<()> {
    through(path, |aside| {
        let mut out = BufWriter::with_capacity(1 << 20, aside.as_file_mut());
        fill(&mut out)?;
        Ok(out.flush()?)
    })
}

/// The same for code that needs a path to write to.
pub fn atomically_at(path: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    through(path, |aside| fill(aside.path()))
}

fn through(
    path: &Path,
    fill: impl FnOnce(&mut tempfile::NamedTempFile) -> Result<()>,
) -> Result<()> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let named = |source: std::io::Error| {
        std::io::Error::new(
            source.kind(),
            format!("failed to write file `{}`: {source}", path.display()),
        )
    };
    let mut aside = tempfile::Builder::new()
        .prefix(".crosshash-")
        .suffix(".tmp")
        .tempfile_in(folder)
        .map_err(named)?;
    fill(&mut aside).map_err(|err| match err {
        Error::Io(source) => Error::Io(named(source)),
        other => other,
    })?;
    #[cfg(test)]
    let aside = cut::here(aside)?;
    // By its path: `fill` may have replaced the file that was opened.
    let written = fs_err::File::open(aside.path())?;
    readable_by_all(written.file(), path).map_err(named)?;
    written.sync_all().map_err(named)?;
    aside.persist(path).map_err(|err| named(err.error))?;
    sync_folder(folder).map_err(named)?;
    Ok(())
}

/// A new name in a folder survives a power cut only after the folder was synced.
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    if cfg!(unix) { fs_err::File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Temporary files are private; the finished file keeps the mode of the one it replaces, or
/// gets the usual one.
#[cfg(unix)]
fn readable_by_all(file: &std::fs::File, path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = match std::fs::metadata(path) {
        Ok(old) => old.permissions().mode(),
        Err(_) => 0o644,
    };
    file.set_permissions(std::fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn readable_by_all(_: &std::fs::File, _: &Path) -> std::io::Result<()> {
    Ok(())
}

/// Power cuts and full disks for tests: of all bytes that this thread writes, only so many are
/// written.
#[cfg(test)]
pub(crate) mod cut {
    use std::cell::Cell;
    use std::io::Write as _;

    use tempfile::NamedTempFile;

    use crate::{Error, Result};

    thread_local! {
        /// How many bytes are written before the power fails; `None` for all. A rename counts
        /// as one more.
        pub(crate) static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
        /// How many bytes are written before the disk is full; `None` for all.
        pub(crate) static SPACE: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Whether the power has failed.
    pub(crate) fn is_off() -> bool {
        LEFT.get() == Some(0)
    }

    fn full() -> std::io::Error {
        std::io::ErrorKind::StorageFull.into()
    }

    /// Truncates a file as a power cut would, or fails as a full disk does.
    pub(super) fn here(aside: NamedTempFile) -> Result<NamedTempFile> {
        let length = aside.as_file().metadata()?.len();
        if let Some(space) = SPACE.get() {
            let left = space.checked_sub(length).ok_or_else(full)?;
            SPACE.set(Some(left));
        }
        match LEFT.get() {
            Some(left) if left <= length => {
                LEFT.set(Some(0));
                aside.as_file().set_len(left)?;
                aside.keep().map_err(|err| err.error)?;
                Err(Error::content("the power is gone"))
            }
            left => {
                LEFT.set(left.map(|left| left - length - 1));
                Ok(aside)
            }
        }
    }

    /// Appends to a file; after a power cut or on a full disk only the first bytes.
    pub(crate) fn append(file: &mut std::fs::File, bytes: &[u8]) -> std::io::Result<()> {
        let length = bytes.len() as u64;
        let part = |n: u64| &bytes[..usize::try_from(n).unwrap_or(0)];
        if let Some(space) = SPACE.get() {
            if space < length {
                SPACE.set(Some(0));
                file.write_all(part(space))?;
                return Err(full());
            }
            SPACE.set(Some(space - length));
        }
        match LEFT.get() {
            Some(left) if left < length => {
                LEFT.set(Some(0));
                file.write_all(part(left))?;
                Err(std::io::Error::other("the power is gone"))
            }
            left => {
                LEFT.set(left.map(|left| left - length));
                file.write_all(bytes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_keeps_the_old_file_and_leaves_no_temporary_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        atomically(&path, |out| Ok(out.write_all(b"old")?)).unwrap();
        let failed = atomically(&path, |out| {
            out.write_all(b"half of the new")?;
            Err(Error::content("stop"))
        });
        assert!(failed.is_err());
        assert_eq!(fs_err::read(&path).unwrap(), b"old");
        assert_eq!(fs_err::read_dir(dir.path()).unwrap().count(), 1);
    }

    /// Some writers replace the file: mode and sync must concern the new one.
    #[cfg(unix)]
    #[test]
    fn the_mode_is_that_of_other_files() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        atomically_at(&path, |aside| {
            let other = dir.path().join("other");
            fs_err::write(&other, "text")?;
            let private = std::fs::Permissions::from_mode(0o600);
            fs_err::set_permissions(&other, private)?;
            Ok(fs_err::rename(&other, aside)?)
        })
        .unwrap();
        assert_eq!(fs_err::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "text");
    }

    #[test]
    fn a_missing_folder_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("no/such/file");
        let err = atomically(&path, |_| Ok(())).unwrap_err();
        assert!(err.to_string().contains("no/such/file"), "{err}");
    }
}
