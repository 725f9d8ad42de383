//! `Cache`: an append-only file of feature rows, keyed by the hash of the input.
//!
//! ```text
//! "CHFEAT1\0", width (u32), 0 (u32), then per row: key (16 bytes), values (f32), xxh3 of both
//! ```
//!
//! All little-endian. A record truncated by a crash fails its checksum; the file is truncated
//! there when it is next opened. One process writes at a time; others only read.

use std::collections::HashMap;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crosshash_codes::MappedFile;
use xxhash_rust::xxh3::xxh3_64;

use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"CHFEAT1\0";
const HEADER: usize = 16;

/// Cached rows of one backbone.
pub struct Cache {
    path: PathBuf,
    width: usize,
    bytes: MappedFile,
    rows: HashMap<u128, usize>, // offset of the values
    file: Option<fs_err::File>, // none if another process writes
    waiting: Vec<u8>,
}

impl Cache {
    /// Opens or creates a cache file with rows of this width.
    pub fn open(path: &Path, width: usize) -> Result<Cache> {
        if let Some(folder) = path.parent() {
            fs_err::create_dir_all(folder)?;
        }
        let mut options = fs_err::OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).open(path)?;
        let is_ours = file.file().try_lock().is_ok();
        if is_ours && file.metadata()?.len() < HEADER as u64 {
            file.set_len(0)?;
            let size = u32::try_from(width).map_err(|_| {
                Error::content(format!(
                    "a row of {width} features is too long for the cache"
                ))
            })?;
            let mut header = MAGIC.to_vec();
            header.extend(size.to_le_bytes());
            header.extend([0; 4]);
            file.write_all(&header)?;
        }
        let bytes = MappedFile::open(path)?;
        let (rows, end) = index(&bytes, width).map_err(|err| err.at(path))?;
        if is_ours {
            if end < bytes.len() {
                file.set_len(end as u64)?;
            }
            file.seek(SeekFrom::Start(end as u64))?;
        }
        let file = is_ours.then_some(file);
        let path = path.to_owned();
        Ok(Cache { path, width, bytes, rows, file, waiting: Vec::new() })
    }

    /// Number of rows when the file was opened.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there were no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Copies the row of a key into `out`; returns false if there is none.
    pub fn get(&self, key: u128, out: &mut [f32]) -> bool {
        let Some(&start) = self.rows.get(&key) else { return false };
        let values = &self.bytes[start..start + self.width * 4];
        for (out, b) in out.iter_mut().zip(values.chunks_exact(4)) {
            *out = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        }
        true
    }

    /// Adds a row; it is written by the next flush.
    pub fn push(&mut self, key: u128, row: &[f32]) {
        if self.file.is_none() {
            return;
        }
        let start = self.waiting.len();
        self.waiting.extend(key.to_le_bytes());
        self.waiting.extend(row.iter().flat_map(|x| x.to_le_bytes()));
        let check = xxh3_64(&self.waiting[start..]);
        self.waiting.extend(check.to_le_bytes());
    }

    /// Writes added rows to the file.
    pub fn flush(&mut self) -> Result<()> {
        if let Some(file) = &mut self.file {
            file.write_all(&self.waiting)?;
        }
        self.waiting.clear();
        Ok(())
    }

    /// Note for the user, if rows cannot be written.
    pub fn notes(&self) -> Option<String> {
        let writes = self.file.is_some();
        (!writes).then(|| {
            let path = self.path.display();
            format!(
                "another process is writing {path}: features computed here are not cached"
            )
        })
    }
}

/// Offsets of all rows, and the end of the last complete one.
fn index(bytes: &[u8], width: usize) -> Result<(HashMap<u128, usize>, usize)> {
    let mut rows = HashMap::new();
    if bytes.is_empty() {
        return Ok((rows, 0)); // another process is about to write the header
    }
    let wanted = u32::try_from(width).map(u32::to_le_bytes).unwrap_or_default();
    if bytes.len() < HEADER || !bytes.starts_with(MAGIC) || bytes[8..12] != wanted {
        return Err(Error::content(format!(
            "not a feature cache with {width} features per row; delete it"
        )));
    }
    let size = 16 + width * 4 + 8;
    let mut end = HEADER;
    while let Some(record) = bytes.get(end..end + size) {
        let (content, check) = record.split_at(size - 8);
        if xxh3_64(content).to_le_bytes() != check {
            break;
        }
        let mut key = [0; 16];
        key.copy_from_slice(&content[..16]);
        rows.insert(u128::from_le_bytes(key), end + 16);
        end += size;
    }
    Ok((rows, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(cache: &Cache, key: u128) -> Option<[f32; 2]> {
        let mut row = [0.0; 2];
        cache.get(key, &mut row).then_some(row)
    }

    #[test]
    fn rows_are_read_back_and_truncated_records_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/x.features");
        let mut cache = Cache::open(&path, 2).unwrap();
        cache.push(7, &[1.0, 2.0]);
        cache.push(u128::MAX, &[3.0, 4.0]);
        assert_eq!(get(&cache, 7), None, "only rows present at opening");
        cache.flush().unwrap();
        drop(cache);
        let whole = fs_err::read(&path).unwrap();
        for cut in 1..32 {
            fs_err::write(&path, &whole[..whole.len() - cut]).unwrap();
            let mut cache = Cache::open(&path, 2).unwrap();
            assert_eq!((cache.len(), get(&cache, 7)), (1, Some([1.0, 2.0])));
            assert_eq!(get(&cache, u128::MAX), None);
            cache.push(u128::MAX, &[3.0, 4.0]);
            cache.flush().unwrap();
            drop(cache);
            assert_eq!(
                fs_err::read(&path).unwrap(),
                whole,
                "appends after the last complete row"
            );
        }
        let mut damaged = whole.clone();
        damaged[20] ^= 1;
        fs_err::write(&path, &damaged).unwrap();
        assert!(Cache::open(&path, 2).unwrap().is_empty(), "a wrong checksum is rejected");
    }

    #[test]
    fn one_process_writes_others_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.features");
        let mut first = Cache::open(&path, 1).unwrap();
        first.push(1, &[5.0]);
        first.flush().unwrap();
        let mut second = Cache::open(&path, 1).unwrap();
        assert!(first.notes().is_none());
        assert!(second.notes().unwrap().contains("another process is writing"));
        second.push(2, &[6.0]);
        second.flush().unwrap();
        drop((first, second));
        assert_eq!(Cache::open(&path, 1).unwrap().len(), 1);
        let err = Cache::open(&path, 3).err().unwrap().to_string();
        assert!(
            err.contains("not a feature cache with 3 features per row; delete it"),
            "{err}"
        );
    }
}
