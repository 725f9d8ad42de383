//! Files that are whole or not there: write aside, sync, rename.

use std::io::{BufWriter, Write};
use std::path::Path;

use crate::{Error, Result};

/// Writes a file through `fill`, aside and then renamed into place, so that a reader, or a
/// crash, never meets a half-written one. An existing file stays as it was until the end.
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

/// The same for a writer that wants a path of its own to write to.
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
    readable_by_all(aside.as_file(), path).map_err(named)?;
    aside.as_file().sync_all().map_err(named)?;
    aside.persist(path).map_err(|err| named(err.error))?;
    sync_folder(folder).map_err(named)?;
    Ok(())
}

/// A new name in a folder outlives a power cut only when the folder has been synced too.
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

/// Power cuts for tests: of all bytes this thread writes, so many arrive, the rest does not.
#[cfg(test)]
pub(crate) mod cut {
    use std::cell::Cell;

    use tempfile::NamedTempFile;

    use crate::{Error, Result};

    thread_local! {
        /// How many bytes still arrive; `None` for all. A rename counts as one more.
        pub(crate) static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Leaves a file as a cut would, and stops the work, if the power goes while it is written.
    pub(super) fn here(aside: NamedTempFile) -> Result<NamedTempFile> {
        let length = aside.as_file().metadata()?.len();
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_leaves_the_old_file_and_no_litter() {
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

    #[test]
    fn a_missing_folder_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("no/such/file");
        let err = atomically(&path, |_| Ok(())).unwrap_err();
        assert!(err.to_string().contains("no/such/file"), "{err}");
    }
}
