//! `Pictures`: a list of picture files in a folder or archive; read but not decoded.
//!
//! Archives are untrusted: an entry is read only up to a limit, whatever size it declares.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;

use crate::{Error, Result};

/// A list of picture files in one location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pictures {
    place: Arc<PicturePlace>,
    names: Vec<String>,
}

/// Location of picture files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PicturePlace {
    /// A folder; names are paths below it, with `/`.
    Folder(PathBuf),
    /// A zip file; names are those of its entries.
    Zip(PathBuf),
    /// A tar file, plain or compressed (.tar.gz, .tgz); names are those of its entries.
    Tar(PathBuf),
    /// Files in memory, by name.
    Memory(BTreeMap<String, Vec<u8>>),
}

impl PicturePlace {
    /// Its path, if it has one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            PicturePlace::Folder(path)
            | PicturePlace::Zip(path)
            | PicturePlace::Tar(path) => Some(path),
            PicturePlace::Memory(_) => None,
        }
    }
}

impl Pictures {
    /// Pictures by name.
    pub fn new(place: PicturePlace, names: Vec<String>) -> Pictures {
        Pictures { place: Arc::new(place), names }
    }

    /// Pictures in memory, named by number from 0.
    pub fn in_memory(files: Vec<Vec<u8>>) -> Pictures {
        let names: Vec<String> = (0..files.len()).map(|k| format!("picture {k}")).collect();
        let place = names.iter().cloned().zip(files).collect();
        Pictures::new(PicturePlace::Memory(place), names)
    }

    /// Location.
    pub fn place(&self) -> &PicturePlace {
        &self.place
    }

    /// Number of pictures.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are no pictures.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Name of a picture within its location.
    pub fn name(&self, item: usize) -> &str {
        &self.names[item]
    }

    /// Path of a picture, for messages.
    pub fn path(&self, item: usize) -> PathBuf {
        let name = Path::new(&self.names[item]);
        self.place.path().map_or(name.to_owned(), |place| place.join(name))
    }

    /// Selects pictures by index, in this order.
    #[must_use]
    pub fn select(&self, items: &[usize]) -> Pictures {
        let names = items.iter().map(|&item| self.names[item].clone()).collect();
        Pictures { place: Arc::clone(&self.place), names }
    }

    /// Calls `take` with the contents of each file, in storage order. Files that cannot be read or
    /// exceed `most` bytes are passed as errors. Stops when `take` fails.
    pub fn visit<E: From<Error>>(
        &self,
        most: u64,
        mut take: impl FnMut(usize, Result<Vec<u8>>) -> Result<(), E>,
    ) -> Result<(), E> {
        match &*self.place {
            PicturePlace::Folder(folder) => {
                for (item, name) in self.names.iter().enumerate() {
                    take(item, whole_file(&folder.join(name), most))?;
                }
            }
            PicturePlace::Zip(path) => {
                let mut archive = open_zip(path)?;
                for (item, name) in self.names.iter().enumerate() {
                    let bytes = match archive.by_name(name) {
                        Ok(mut entry) => {
                            let declared = entry.size();
                            limited(&mut entry, declared, most)
                        }
                        Err(err) => Err(Error::content(err.to_string())),
                    };
                    take(item, bytes)?;
                }
            }
            PicturePlace::Tar(path) => self.visit_tar(path, most, take)?,
            PicturePlace::Memory(files) => {
                for (item, name) in self.names.iter().enumerate() {
                    let known = files.keys().map(String::as_str);
                    let bytes = files.get(name).cloned();
                    take(
                        item,
                        bytes.ok_or_else(|| Error::unknown("picture", name, known)),
                    )?;
                }
            }
        }
        Ok(())
    }

    /// Reads a tar file, which has no index, in one pass.
    fn visit_tar<E: From<Error>>(
        &self,
        path: &Path,
        most: u64,
        mut take: impl FnMut(usize, Result<Vec<u8>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut wanted: HashMap<&str, Vec<usize>> = HashMap::new();
        for (item, name) in self.names.iter().enumerate() {
            wanted.entry(name).or_default().push(item);
        }
        let fault = |err: std::io::Error| not_a_tar(&err).at(path);
        let mut archive = open_tar(path)?;
        for entry in archive.entries().map_err(fault)? {
            let mut entry = entry.map_err(fault)?;
            let name = entry.path_bytes().into_owned();
            let name = std::str::from_utf8(&name).ok();
            let items = name.and_then(|name| wanted.remove(plain_name(name)));
            let Some(items) = items else { continue };
            let declared = entry.size();
            let bytes = limited(&mut entry, declared, most);
            for item in items {
                let copy = match &bytes {
                    Ok(bytes) => Ok(bytes.clone()),
                    Err(err) => Err(Error::content(err.to_string())),
                };
                take(item, copy)?;
            }
        }
        for (name, items) in wanted {
            for item in items {
                take(
                    item,
                    Err(Error::content(format!(
                        "{name:?} no longer exists in the archive"
                    ))),
                )?;
            }
        }
        Ok(())
    }
}

/// Opens a zip file; rejects impossible declared sizes.
pub fn open_zip(path: &Path) -> Result<zip::ZipArchive<BufReader<fs_err::File>>> {
    // Deflate compresses at most 1,032 to 1: a higher ratio means overlapping entries.
    const DEFLATE: u128 = 1_032;
    let file = fs_err::File::open(path)?;
    let size = u128::from(file.metadata()?.len());
    let archive = zip::ZipArchive::new(BufReader::new(file))
        .map_err(|err| Error::content(format!("invalid zip file: {err}")).at(path))?;
    match archive.decompressed_size() {
        Some(whole) if whole > size * DEFLATE => Err(Error::content(format!(
            "{size} bytes would decompress to {whole}: rejected as a zip bomb"
        ))
        .at(path)),
        _ => Ok(archive),
    }
}

/// Opens a tar file, decompressing gzip (detected by its first bytes).
pub fn open_tar(path: &Path) -> Result<tar::Archive<Box<dyn Read>>> {
    /// Maximum compression ratio: pictures hardly compress, text by a factor of 10.
    const PACKED: u64 = 200;
    let mut file = fs_err::File::open(path)?;
    let size = file.metadata()?.len();
    let mut start = [0; 2];
    let packed = file.read(&mut start)? == 2 && start == [0x1f, 0x8b];
    let file = BufReader::new(fs_err::File::open(path)?);
    let reader: Box<dyn Read> = if packed {
        Box::new(Bounded {
            inner: MultiGzDecoder::new(file),
            left: size.saturating_mul(PACKED).saturating_add(1 << 20),
        })
    } else {
        Box::new(file)
    };
    Ok(tar::Archive::new(reader))
}

/// `tar -C folder .` writes names as `./a.png`.
pub fn plain_name(name: &str) -> &str {
    name.trim_start_matches("./")
}

/// Error for an invalid tar file.
pub fn not_a_tar(err: &std::io::Error) -> Error {
    Error::content(format!("invalid tar file: {err}"))
}

/// A reader that fails after a maximum number of bytes.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(out)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            std::io::Error::other(
                "decompressed size exceeds 200 times the file size: rejected as a zip bomb",
            )
        })?;
        Ok(read)
    }
}

/// Reads a regular file of at most `most` bytes.
pub fn whole_file(path: &Path, most: u64) -> Result<Vec<u8>> {
    // Opening a named pipe would wait for its other end.
    let about = fs_err::metadata(path)?;
    if !about.is_file() {
        return Err(Error::content("not a regular file"));
    }
    let mut file = fs_err::File::open(path)?;
    limited(&mut file, about.len(), most)
}

/// Reads all bytes, if there are as many as declared and at most `most`.
fn limited(reader: &mut impl Read, declared: u64, most: u64) -> Result<Vec<u8>> {
    let too_large = |size: u64| {
        Error::content(format!("file size of {size} bytes exceeds the limit of {most}"))
    };
    if declared > most {
        return Err(too_large(declared));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(declared).unwrap_or(0));
    // Read one byte more than declared to detect wrong sizes.
    let mut reader = reader.take(declared + 1);
    reader
        .read_to_end(&mut bytes)
        .map_err(|err| Error::content(format!("failed to decompress: {err}")))?;
    match bytes.len() as u64 {
        size if size > declared => Err(Error::content(format!(
            "declared size is {declared} bytes, but the file is larger"
        ))),
        size if size < declared => Err(Error::content(format!(
            "declared size is {declared} bytes, but the file has {size}: it is truncated"
        ))),
        _ => Ok(bytes),
    }
}
