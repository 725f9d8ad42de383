//! Readers: one file per format, one entry each in [`READERS`].
//!
//! A reader provides an array, a table (named columns) or a list of pictures, or several of these. To add
//! a format: one file here, one entry in the table.

mod delimited;
mod jsonl;
mod mat;
mod mat5;
#[cfg(feature = "matlab")]
mod mat73;
mod npy;
mod npz;
#[cfg(feature = "parquet")]
mod parquet;
mod pictures;
mod table;

/// Replacement for a format that is disabled in this build.
#[cfg(not(feature = "matlab"))]
mod mat73 {
    use std::path::Path;

    use crate::data::Features;
    use crate::data::limits::Budget;
    use crate::{Error, Result};

    fn disabled() -> Error {
        Error::disabled("MATLAB files of version 7.3 are not read", "matlab")
    }

    pub(super) fn array(_: &Path, _: u64, _: Option<&str>, _: &Budget) -> Result<Features> {
        Err(disabled())
    }

    pub(super) fn names(_: &Path) -> Result<Vec<String>> {
        Err(disabled())
    }
}

/// Replacement for a format that is disabled in this build.
#[cfg(not(feature = "parquet"))]
mod parquet {
    use std::path::Path;

    use super::{ColumnSpec, Table};
    use crate::data::limits::Budget;
    use crate::{Error, Result};

    pub(super) fn columns(_: &Path) -> Result<Vec<String>> {
        Err(Error::disabled("Parquet tables are not read", "parquet"))
    }

    pub(super) fn table(_: &Path, _: &[ColumnSpec], _: &Budget) -> Result<Table> {
        Err(Error::disabled("Parquet tables are not read", "parquet"))
    }
}

use std::path::Path;

pub(crate) use pictures::Listing;
pub(crate) use table::{Cell, ColumnSpec, Table};

use super::Features;
use super::limits::Budget;
use crate::{Error, Result};

/// A file format.
pub struct Reader {
    /// The name in messages.
    pub name: &'static str,
    /// File extensions in lower case; empty for a folder.
    pub endings: &'static [&'static str],
    names: Option<ReadNames>,
    array: Option<ReadArray>,
    table: Option<ReadTable>,
    pictures: Option<ReadPictures>,
}

type ReadNames = fn(&Path) -> Result<Vec<String>>;
type ReadArray = fn(&Path, Option<&str>, bool, &Budget) -> Result<Features>;
type ReadTable = fn(&Path, &[ColumnSpec], &Budget) -> Result<Table>;
type ReadPictures = fn(&Path, &str) -> Result<Listing>;

/// All supported formats.
pub const READERS: &[Reader] = &[
    Reader { array: Some(npy::array), ..format("NumPy array", &["npy"]) },
    Reader { array: Some(npz::array), ..format("NumPy archive", &["npz"]) },
    Reader {
        array: Some(mat::array),
        names: Some(mat::names),
        ..format("MATLAB file", &["mat"])
    },
    Reader {
        table: Some(delimited::tsv),
        names: Some(delimited::tsv_columns),
        ..format("TSV table", &["tsv", "tab"])
    },
    Reader {
        table: Some(delimited::csv),
        names: Some(delimited::csv_columns),
        ..format("CSV table", &["csv"])
    },
    Reader {
        table: Some(jsonl::table),
        names: Some(jsonl::columns),
        ..format("JSONL table", &["jsonl", "ndjson"])
    },
    Reader {
        table: Some(parquet::table),
        names: Some(parquet::columns),
        ..format("Parquet table", &["parquet"])
    },
    Reader { pictures: Some(pictures::zip), ..format("zip of pictures", &["zip"]) },
    Reader {
        pictures: Some(pictures::tar),
        ..format("tar of pictures", &["tar", "tgz", "gz"])
    },
    Reader { pictures: Some(pictures::folder), ..format("folder of pictures", &[]) },
];

const fn format(name: &'static str, endings: &'static [&'static str]) -> Reader {
    Reader { name, endings, names: None, array: None, table: None, pictures: None }
}

/// The columns of a table or the variables of a file.
pub(crate) fn names(path: &Path) -> Result<Vec<String>> {
    let reader = find(path, "named columns or variables", |reader| reader.names)?;
    reader(path).map_err(|err| err.at(path))
}

/// Reads an array; `key` selects one of several arrays in a file. With `vectors`, a one-dimensional
/// array has one row per value.
pub(crate) fn array(
    path: &Path,
    key: Option<&str>,
    vectors: bool,
    budget: &Budget,
) -> Result<Features> {
    let reader = find(path, "an array", |reader| reader.array)?;
    reader(path, key, vectors, budget).map_err(|err| err.at(path))
}

/// Reads columns of a table, in the order of `requested`.
pub(crate) fn table(
    path: &Path,
    requested: &[ColumnSpec],
    budget: &Budget,
) -> Result<Table> {
    let reader = find(path, "a table", |reader| reader.table)?;
    reader(path, requested, budget).map_err(|err| err.at(path))
}

/// Lists the pictures of a folder or archive, below `under`.
pub(crate) fn pictures(path: &Path, under: &str) -> Result<Listing> {
    let reader = find(path, "pictures", |reader| reader.pictures)?;
    reader(path, under).map_err(|err| err.at(path))
}

fn find<T>(path: &Path, what: &str, give: impl Fn(&Reader) -> Option<T>) -> Result<T> {
    let ending = path.extension().map(|e| e.to_string_lossy().to_lowercase());
    let fits = |reader: &&Reader| match (&ending, path.is_dir()) {
        (_, true) => reader.endings.is_empty(),
        (Some(ending), false) => reader.endings.contains(&ending.as_str()),
        (None, false) => false,
    };
    if !path.exists() {
        return Err(Error::content("there is no such file or folder").at(path));
    }
    READERS.iter().filter(fits).find_map(&give).ok_or_else(|| {
        let able = READERS.iter().filter(|reader| give(reader).is_some());
        let able: Vec<String> = able
            .map(|reader| match reader.endings {
                [] => reader.name.to_owned(),
                endings => format!("{} (.{})", reader.name, endings.join(", .")),
            })
            .collect();
        Error::content(format!(
            "this format does not contain {what}; supported formats: {}",
            able.join(", ")
        ))
        .at(path)
    })
}
