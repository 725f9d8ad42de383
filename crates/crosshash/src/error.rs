//! What can go wrong with data, supervision and learning: what was found, where (file, row,
//! column), and what to do about it.

use std::fmt;
use std::path::{Path, PathBuf};

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Every way in which input to this crate can be wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Codes or labels are wrong.
    #[error(transparent)]
    Codes(#[from] crosshash_codes::Error),
    /// The operating system refused; the message names the path.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// One row or cell is wrong.
    #[error("{place}{}: {what}", Column(column))]
    Cell {
        /// The row.
        place: Place,
        /// The column, by name or number, if it is known.
        column: Option<String>,
        /// What was found, what was wanted, what to do.
        what: String,
    },
    /// A column, variable, modality or label that is not there.
    #[error("no {kind} named {name:?}; there are: {known}")]
    Unknown {
        /// What kind of thing was looked for.
        kind: &'static str,
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// An id that occurs twice in one modality.
    #[error(
        "id {id:?} occurs twice in modality {modality}: items {first} and {second}; ids name one item each"
    )]
    DuplicateId {
        /// The modality.
        modality: String,
        /// The id.
        id: String,
        /// Item number of the first, counted from 0.
        first: usize,
        /// Item number of the second, counted from 0.
        second: usize,
    },
    /// Two modalities without a label in common: nothing could be learnt across them.
    #[error(
        "modalities {left} and {right} share no label; {left} has e.g. {left_example}, {right} has e.g. {right_example}: give both the same label names"
    )]
    NoSharedLabel {
        /// First modality.
        left: String,
        /// Second modality.
        right: String,
        /// A label of the first.
        left_example: String,
        /// A label of the second.
        right_example: String,
    },
    /// A loss that is no number any more.
    #[error(
        "the {term} became {value} at epoch {epoch}, step {step}; lower the learning rate (learning_rate)"
    )]
    Diverged {
        /// Which term.
        term: String,
        /// What it became.
        value: f64,
        /// Epoch, from 1.
        epoch: usize,
        /// Step in the epoch, from 1.
        step: usize,
    },
    /// Centres or outputs that fall together.
    #[error(
        "training collapsed in epoch {epoch}: {what} has length {length:.3}, centres began with {first:.3}; codes would all be alike: lower jcch.lambda, weight_decay or learning_rate"
    )]
    Collapsed {
        /// Epoch, from 1.
        epoch: usize,
        /// What fell together.
        what: String,
        /// Its length.
        length: f64,
        /// Mean length of the first centres.
        first: f64,
    },
    /// A method that cannot learn from this data.
    #[error("{method} {why}")]
    Unsuitable {
        /// The method.
        method: String,
        /// What it needs and does not find, after its name.
        why: String,
    },
    /// Content that is not what it should be, as a sentence.
    #[error("{what}")]
    Content {
        /// What was found, what was wanted, what to do.
        what: String,
    },
    /// Another error, with the file in which it happened.
    #[error("{}: {fault}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What went wrong in it (no `source`: the message says it already).
        fault: Box<Error>,
    },
}

impl From<crosshash_features::Error> for Error {
    fn from(err: crosshash_features::Error) -> Error {
        use crosshash_features::Error as Below;
        match err {
            Below::Io(err) => Error::Io(err),
            Below::Unknown { kind, name, known } => Error::Unknown { kind, name, known },
            Below::File { path, fault } => {
                Error::File { path, fault: Box::new((*fault).into()) }
            }
            other => Error::content(other.to_string()),
        }
    }
}

impl Error {
    /// Something that this build leaves out; `feature` is the cargo feature that has it.
    pub fn disabled(what: &str, feature: &str) -> Error {
        crosshash_features::Error::disabled(what, feature).into()
    }

    /// A content error from a sentence.
    pub fn content(what: impl Into<String>) -> Error {
        Error::Content { what: what.into() }
    }

    /// An error in one cell.
    pub fn cell(place: Place, column: impl Into<String>, what: impl Into<String>) -> Error {
        Error::Cell { place, column: Some(column.into()), what: what.into() }
    }

    /// An error in a whole row.
    pub fn row(place: Place, what: impl Into<String>) -> Error {
        Error::Cell { place, column: None, what: what.into() }
    }

    /// A name that is not among the known ones.
    pub fn unknown<'a>(
        kind: &'static str,
        name: impl Into<String>,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Error {
        let known: Vec<&str> = known.into_iter().collect();
        let known = if known.is_empty() { "none".into() } else { known.join(", ") };
        Error::Unknown { kind, name: name.into(), known }
    }

    /// Names the file in which this error happened, unless it names one already.
    #[must_use]
    pub fn at(self, path: &Path) -> Error {
        match self {
            Error::File { .. } | Error::Io(_) => self,
            other => Error::File { path: path.to_owned(), fault: Box::new(other) },
        }
    }
}

/// Where in a file: tables are counted in lines as editors show them (from 1), arrays in
/// rows as programs index them (from 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A line of a text file, from 1.
    Line(u64),
    /// A row of an array or a Parquet file, from 0.
    Row(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Row(row) => write!(f, "row {row}"),
        }
    }
}

struct Column<'a>(&'a Option<String>);

impl fmt::Display for Column<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |column| write!(f, ", column {column}"))
    }
}
