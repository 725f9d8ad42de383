//! Codes to and from other tools: one file per format, selected by the file extension.

mod faiss;
mod ids;
mod jsonl;

pub use ids::read_ids;

use std::path::Path;

use crate::format::CodeFile;
use crate::read::{self, CodeOptions};
use crate::{BitOrder, Error, Result, npy};

/// A file format: extension, stored sections, reader and writer.
pub struct Format {
    /// The ending, without the dot.
    pub ending: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// Reads codes, and ids and labels where the format has them.
    pub read: fn(&Path, &CodeOptions) -> Result<CodeFile>,
    /// Writes the sections that the format supports, atomically.
    pub write: fn(&Path, &CodeFile) -> Result<()>,
    /// Whether ids and labels survive.
    pub keeps_ids: bool,
}

/// Every format, in the order messages name them.
pub const FORMATS: &[Format] = &[
    Format {
        ending: "codes",
        about: "crosshash code file: codes, ids, labels",
        read: |path, _| CodeFile::read(path),
        write: |path, file| file.write(path),
        keeps_ids: true,
    },
    Format {
        ending: "npy",
        about: "NumPy, packed uint8, lowest bit first: codes only",
        read: |path, options| read::codes(path, options).map(CodeFile::new),
        write: |path, file| npy::write_packed(path, &file.codes, BitOrder::Lsb),
        keeps_ids: false,
    },
    Format {
        ending: "faiss",
        about: "FAISS IndexBinaryFlat: codes only",
        read: faiss::read,
        write: faiss::write,
        keeps_ids: false,
    },
    Format {
        ending: "jsonl",
        about: "one JSON object a line: id, bits, code in hexadecimal, labels",
        read: jsonl::read,
        write: jsonl::write,
        keeps_ids: true,
    },
];

/// The format of a file by its ending.
pub fn format_of(path: &Path) -> Result<&'static Format> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("");
    FORMATS.iter().find(|format| format.ending == ending).ok_or_else(|| {
        let known: Vec<String> = FORMATS.iter().map(|f| format!(".{}", f.ending)).collect();
        Error::content(format!(
            "{}: name a file that ends in {}",
            path.display(),
            known.join(", ")
        ))
    })
}
