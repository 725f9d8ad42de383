//! A small file system in memory that can be full. Also used by the tests of the program.

use std::io::{Error, ErrorKind, Result, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Its size in MiB.
const MIB: u64 = 128;

/// A mounted file system; unmounted on drop.
pub(crate) struct Disk(PathBuf);

impl Disk {
    /// Mounts it at a folder that is made. This needs root.
    pub(crate) fn mount(folder: PathBuf) -> Result<Disk> {
        fs_err::create_dir_all(&folder)?;
        let size = format!("size={MIB}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(&folder)
            .output()?;
        if !mounted.status.success() {
            let why = String::from_utf8_lossy(&mounted.stderr).trim().to_owned();
            return Err(Error::other(format!("mounting a file system needs root: {why}")));
        }
        Ok(Disk(folder))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// Fills it except for some bytes.
    pub(crate) fn fill(&self, left: u64) -> Result<()> {
        let mut filler = fs_err::File::create(self.0.join("filler"))?;
        let full = loop {
            if let Err(err) = filler.write_all(&[1; 4096]) {
                break err;
            }
        };
        if full.kind() != ErrorKind::StorageFull {
            return Err(full);
        }
        let length = filler.metadata()?.len();
        filler.set_len(length.saturating_sub(left))
    }

    /// Makes space again.
    pub(crate) fn free(&self) -> Result<()> {
        fs_err::remove_file(self.0.join("filler"))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}
