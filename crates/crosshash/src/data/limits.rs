//! Limits on the size to which a file may expand while it is read.
//!
//! A file declares sizes that its reader allocates or writes out. A damaged or hostile file of a
//! few kilobytes can declare terabytes: dimensions of an HDF5 data set that has only a fill value,
//! an archive entry, the rows of a sparse matrix. Every reader therefore checks a declared size
//! with [`Budget::check`] before it allocates, and every temporary file is written through a
//! `Spool`, which charges its bytes to the same budget.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Error, Result};

/// Limits on the size to which a data set may expand while it is read.
///
/// A declared size of `d` bytes in a file of `s` bytes is accepted if
/// `d <= min_expanded + max_ratio * s`. All buffers and temporary files of one data set together
/// hold at most `max_spooled` bytes, and a temporary file leaves `keep_free` bytes on its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLimits {
    /// Bytes of decompressed data that a data set may keep in buffers and temporary files.
    pub max_spooled: u64,
    /// Largest ratio of a declared size to the size of the file.
    pub max_ratio: u64,
    /// Bytes to which a file of any size may expand.
    pub min_expanded: u64,
    /// Bytes that a temporary file leaves free on its disk.
    pub keep_free: u64,
}

impl Default for ReadLimits {
    fn default() -> ReadLimits {
        ReadLimits {
            max_spooled: 64 << 30,
            max_ratio: 1_032, // deflate compresses at most 1,032 to 1
            min_expanded: 16 << 20,
            keep_free: 1 << 30,
        }
    }
}

impl ReadLimits {
    /// Bytes to which a file of this size may expand.
    pub fn expanded(&self, file_size: u64) -> u64 {
        self.max_ratio.saturating_mul(file_size).saturating_add(self.min_expanded)
    }
}

/// The limits of one data set, with the bytes that are spooled so far. Clones share the count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Budget {
    limits: ReadLimits,
    spooled: Arc<AtomicU64>,
}

impl Budget {
    pub(crate) fn new(limits: ReadLimits) -> Budget {
        Budget { limits, spooled: Arc::default() }
    }

    /// Checks the size that `what` declares in a file of `file_size` bytes; `None` is a size that
    /// overflows.
    pub(crate) fn check(
        &self,
        what: &str,
        declared: Option<u64>,
        file_size: u64,
    ) -> Result<u64> {
        let limit = self.limits.expanded(file_size);
        match declared {
            Some(declared) if declared <= limit => Ok(declared),
            _ => {
                let declared =
                    declared.map_or("more than 2^64".to_owned(), |n| n.to_string());
                Err(Error::content(format!(
                    "{what} declares {declared} bytes, but a file of {file_size} bytes may expand \
                     to at most {limit}; the file is damaged, or the limit (max_ratio) must be \
                     raised"
                )))
            }
        }
    }

    /// Checks that `declared` more bytes may be spooled; `in_memory` of them need no disk.
    pub(crate) fn check_room(
        &self,
        what: &str,
        declared: u64,
        in_memory: u64,
    ) -> Result<()> {
        let spooled = self.spooled.load(Ordering::Relaxed);
        let limit = self.limits.max_spooled;
        if declared > limit.saturating_sub(spooled) {
            return Err(Error::content(format!(
                "{what} declares {declared} bytes to unpack, but the limit of a data set is \
                 {limit} bytes (max_spooled), of which {spooled} are in use"
            )));
        }
        if declared > in_memory {
            self.check_disk(declared)?;
        }
        Ok(())
    }

    /// Counts bytes that are spooled.
    pub(crate) fn charge(&self, bytes: u64) -> Result<()> {
        let spooled =
            self.spooled.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let limit = self.limits.max_spooled;
        if spooled > limit {
            return Err(Error::content(format!(
                "unpacks to more than {limit} bytes, the limit of a data set (max_spooled)"
            )));
        }
        Ok(())
    }

    /// Checks that the disk of temporary files has room for so many bytes more.
    pub(crate) fn check_disk(&self, bytes: u64) -> Result<()> {
        let folder = std::env::temp_dir();
        let Some(free) = free_space(&folder) else { return Ok(()) };
        let keep = self.limits.keep_free;
        if free.saturating_sub(keep) < bytes {
            return Err(Error::content(format!(
                "needs {bytes} more bytes of temporary space, but {} has {free} bytes free, of \
                 which {keep} are kept free (keep_free); set TMPDIR to a folder on a larger disk",
                folder.display()
            )));
        }
        Ok(())
    }
}

/// Free bytes of the disk of a folder, if the system reports them.
#[cfg(unix)]
fn free_space(folder: &Path) -> Option<u64> {
    let info = rustix::fs::statvfs(folder).ok()?;
    info.f_bavail.checked_mul(info.f_frsize)
}

#[cfg(not(unix))]
fn free_space(_: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_size_is_checked_against_the_file() {
        let limits =
            ReadLimits { max_ratio: 10, min_expanded: 100, ..ReadLimits::default() };
        let budget = Budget::new(limits);
        assert_eq!(budget.check("variable X", Some(150), 5).unwrap(), 150);
        let text = budget.check("variable X", Some(151), 5).unwrap_err().to_string();
        assert!(
            text.starts_with(
                "variable X declares 151 bytes, but a file of 5 bytes may expand to at most 150"
            ),
            "{text}"
        );
        let text = budget.check("variable X", None, u64::MAX).unwrap_err().to_string();
        assert!(text.contains("more than 2^64 bytes"), "{text}");
    }

    #[test]
    fn bytes_of_one_data_set_are_counted_together() {
        let budget = Budget::new(ReadLimits { max_spooled: 100, ..ReadLimits::default() });
        budget.clone().charge(60).unwrap();
        let text = budget.check_room("entry x", 41, u64::MAX).unwrap_err().to_string();
        assert_eq!(
            text,
            "entry x declares 41 bytes to unpack, but the limit of a data set is 100 bytes \
             (max_spooled), of which 60 are in use"
        );
        let text = budget.charge(41).unwrap_err().to_string();
        assert!(text.starts_with("unpacks to more than 100 bytes"), "{text}");
    }

    #[test]
    fn full_disk_is_rejected() {
        let all = ReadLimits { keep_free: u64::MAX, ..ReadLimits::default() };
        let refused = Budget::new(all).check_disk(1).is_err();
        assert_eq!(refused, free_space(&std::env::temp_dir()).is_some());
        assert!(Budget::default().check_disk(0).is_ok() || !cfg!(unix));
    }
}
