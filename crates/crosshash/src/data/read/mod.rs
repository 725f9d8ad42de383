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
mod text_format;

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

    use super::{ColumnKind, ColumnSpec, Table, TakeFile};
    use crate::data::limits::Budget;
    use crate::{Error, Result};

    fn disabled() -> Error {
        Error::disabled("Parquet tables are not read", "parquet")
    }

    pub(super) fn columns(_: &Path) -> Result<Vec<String>> {
        Err(disabled())
    }

    pub(super) fn kinds(_: &Path) -> Result<Vec<(String, ColumnKind)>> {
        Err(disabled())
    }

    pub(super) fn table(_: &Path, _: &[ColumnSpec], _: &Budget) -> Result<Table> {
        Err(disabled())
    }

    pub(super) fn files(_: &Path, _: &str, _: TakeFile<'_>) -> Result<()> {
        Err(disabled())
    }
}

use std::path::{Path, PathBuf};

#[cfg(feature = "parquet")]
pub(crate) use parquet::RowGroups;
pub(crate) use pictures::{Listing, is_picture};
pub(crate) use table::{Cell, ColumnKind, ColumnSpec, Table};
pub(crate) use text_format::{Encoding, TextFormat};

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
    kinds: Option<ReadKinds>,
    text_format: Option<ReadTextFormat>,
    array: Option<ReadArray>,
    table: Option<ReadTable>,
    files: Option<ReadFiles>,
    pictures: Option<ReadPictures>,
}

/// Takes the row and the content of a file in a table; `None` if the cell is empty.
pub(crate) type TakeFile<'a> = &'a mut dyn FnMut(usize, Option<&[u8]>) -> Result<()>;

type ReadKinds = fn(&Path) -> Result<Vec<(String, ColumnKind)>>;
type ReadTextFormat = fn(&Path) -> Result<TextFormat>;
type ReadFiles = fn(&Path, &str, TakeFile<'_>) -> Result<()>;
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
        text_format: Some(delimited::tsv_format),
        ..format("TSV table", &["tsv", "tab"])
    },
    Reader {
        table: Some(delimited::csv),
        names: Some(delimited::csv_columns),
        text_format: Some(delimited::csv_format),
        ..format("CSV table", &["csv", "txt"])
    },
    Reader {
        table: Some(jsonl::table),
        names: Some(jsonl::columns),
        kinds: Some(jsonl::kinds),
        ..format("JSONL table", &["jsonl", "ndjson"])
    },
    Reader {
        table: Some(parquet::table),
        names: Some(parquet::columns),
        kinds: Some(parquet::kinds),
        files: Some(parquet::files),
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
    Reader {
        name,
        endings,
        names: None,
        kinds: None,
        text_format: None,
        array: None,
        table: None,
        files: None,
        pictures: None,
    }
}

/// The columns of a table or the variables of a file.
pub(crate) fn names(path: &Path) -> Result<Vec<String>> {
    let reader = find(path, "named columns or variables", |reader| reader.names)?;
    reader(path).map_err(|err| err.at(path))
}

/// The columns of a table with what they contain.
pub(crate) fn kinds(path: &Path) -> Result<Vec<(String, ColumnKind)>> {
    match find(path, "a table", |reader| reader.kinds) {
        Ok(reader) => reader(path).map_err(|err| err.at(path)),
        Err(_) => {
            Ok(names(path)?.into_iter().map(|name| (name, ColumnKind::Cells)).collect())
        }
    }
}

/// Encoding and separator of a text table; `None` for other formats.
pub(crate) fn text_format(path: &Path) -> Result<Option<TextFormat>> {
    match find(path, "a table", |reader| reader.text_format) {
        Ok(reader) => reader(path).map(Some).map_err(|err| err.at(path)),
        Err(_) => Ok(None),
    }
}

/// Calls `take` with the files that a column of a table contains, row by row.
pub(crate) fn files(path: &Path, column: &str, take: TakeFile<'_>) -> Result<()> {
    let reader = find(path, "files", |reader| reader.files)?;
    reader(path, column, take).map_err(|err| err.at(path))
}

/// Reads columns of several tables with the same columns, one after another.
pub(crate) fn tables(
    paths: &[PathBuf],
    requested: &[ColumnSpec],
    budget: &Budget,
) -> Result<Table> {
    let mut all: Option<Table> = None;
    for path in paths {
        let next = table(path, requested, budget)?;
        all = Some(match all {
            None => next,
            Some(all) => all.append(next).map_err(|err| err.at(path))?,
        });
    }
    all.ok_or_else(|| Error::content("items: the list of tables is empty"))
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
