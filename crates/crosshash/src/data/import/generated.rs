//! Files that are written beside a manifest.
//!
//! Pictures that a Parquet file embeds go into a zip, whose entries are named by the ids of their rows,
//! so that every command can read them. Rows that a manifest cannot describe (one row per caption, split
//! folders of class folders) go into a JSONL table with one row per item.

use std::collections::HashSet;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use crosshash_codes::write::atomically;
use serde_json::{Map, Value};

use crate::data::read;
use crate::{Error, Result};

/// The name of the table.
pub(super) const ITEMS: &str = "crosshash-items.jsonl";
/// The name of the zip.
pub(super) const PICTURES: &str = "crosshash-pictures.zip";

/// A file to write.
#[derive(Debug)]
pub(super) enum Generated {
    /// A table of items.
    Items(Vec<Map<String, Value>>),
    /// The pictures of a column of tables; `ids` has one id per row.
    Pictures { tables: Vec<PathBuf>, column: String, ids: Vec<String> },
}

impl Generated {
    pub(super) fn write(&self, out: &Path, progress: &dyn Fn(usize)) -> Result<()> {
        match self {
            Generated::Items(rows) => Ok(atomically(&out.join(ITEMS), |out| {
                for row in rows {
                    serde_json::to_writer(&mut *out, row).map_err(std::io::Error::from)?;
                    out.write_all(b"\n")?;
                }
                Ok(())
            })?),
            Generated::Pictures { tables, column, ids } => {
                let target = out.join(PICTURES);
                let folder = tempfile::NamedTempFile::new_in(out)?;
                let file = zip_of(folder.as_file(), tables, column, ids, progress)?;
                file.sync_all()?;
                folder.persist(target).map_err(|err| Error::Io(err.error))?;
                Ok(())
            }
        }
    }
}

fn zip_of<W: Write + Seek>(
    file: W,
    tables: &[PathBuf],
    column: &str,
    ids: &[String],
    progress: &dyn Fn(usize),
) -> Result<W> {
    let fault = |err: zip::result::ZipError| Error::content(format!("{PICTURES}: {err}"));
    // Pictures are compressed already.
    let options = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Stored);
    let mut zip = zip::ZipWriter::new(file);
    let (mut before, mut written) = (0, 0);
    for table in tables {
        let mut rows = 0;
        read::files(table, column, &mut |row, bytes| {
            rows = row + 1;
            let (Some(bytes), Some(id)) = (bytes, ids.get(before + row)) else {
                return Ok(());
            };
            zip.start_file(format!("{id}.{}", extension(bytes)), options).map_err(fault)?;
            zip.write_all(bytes)?;
            written += 1;
            progress(written);
            Ok(())
        })?;
        before += rows;
    }
    zip.finish().map_err(fault)
}

/// The extension of a picture by its first bytes.
pub(super) fn extension(bytes: &[u8]) -> &'static str {
    match bytes {
        [0xff, 0xd8, ..] => "jpg",
        [0x89, b'P', b'N', b'G', ..] => "png",
        [b'G', b'I', b'F', ..] => "gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "webp",
        [b'B', b'M', ..] => "bmp",
        [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => "tiff",
        [b'<', ..] => "svg",
        _ => "jpg", // reported when it is decoded
    }
}

/// Whether ids can name entries of an archive, each once.
pub(super) fn can_name_entries(ids: &[String]) -> bool {
    let fits = |id: &String| {
        let parts = id.split('/').all(|part| !part.is_empty() && !part.starts_with('.'));
        parts && id.len() < 200 && !id.contains(['\\', ':', '\0'])
    };
    let mut seen = HashSet::new();
    ids.iter().all(|id| fits(id) && seen.insert(id.to_lowercase()))
}
