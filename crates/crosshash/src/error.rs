//! Errors of data, supervision and training: what is wrong, where (file, row, column), and what to do.

use std::fmt;
use std::path::{Path, PathBuf};

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Codes or labels are wrong.
    #[error(transparent)]
    Codes(#[from] crosshash_codes::Error),
    /// An I/O error; the message names the path.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// One row or cell is wrong.
    #[error("{place}{}: {what}", Column(column))]
    Cell {
        /// The row.
        place: Place,
        /// The column, by name or number, if it is known.
        column: Option<String>,
        /// What is wrong, and what to do.
        what: String,
    },
    /// A column, variable, modality or label that does not exist.
    #[error("no {kind} named {name:?}; there are: {known}")]
    Unknown {
        /// The kind of name.
        kind: &'static str,
        /// The requested name.
        name: String,
        /// The known names.
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
    /// Two modalities without a common label.
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
    /// A loss that is not finite.
    #[error(
        "the {term} became {value} at epoch {epoch}, step {step}; lower the learning rate ({key})"
    )]
    Diverged {
        /// The term of the loss.
        term: String,
        /// Its value.
        value: f64,
        /// Epoch, from 1.
        epoch: usize,
        /// Step in the epoch, from 1.
        step: usize,
        /// The key of the learning rate.
        key: &'static str,
    },
    /// Players of an adversarial method that diverge.
    #[error("the players of {method} diverged in epoch {epoch}: {losses}; lower {keys}")]
    PlayersDiverged {
        /// The method.
        method: String,
        /// Epoch, from 1.
        epoch: usize,
        /// The losses of both players, now and at first.
        losses: String,
        /// The keys to change.
        keys: &'static str,
    },
    /// Centres or outputs that collapse.
    #[error(
        "training collapsed in epoch {epoch}: {what} has length {length:.3}, centres began with {first:.3}; codes would all be alike: lower jcch.lambda, weight_decay or learning_rate"
    )]
    Collapsed {
        /// Epoch, from 1.
        epoch: usize,
        /// What collapsed.
        what: String,
        /// Its length.
        length: f64,
        /// Mean length of the first centres.
        first: f64,
    },
    /// A method that cannot be trained on these data.
    #[error("{method} {why}")]
    Unsuitable {
        /// The method.
        method: String,
        /// The reason, as a continuation of the name of the method.
        why: String,
    },
    /// Invalid content, as a sentence.
    #[error("{what}")]
    Content {
        /// What is wrong, and what to do.
        what: String,
    },
    /// Another error, with the file in which it happened.
    #[error("{}: {fault}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error in it (not `source`, because the message contains it).
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
    /// Functionality that is disabled in this build; `feature` is the cargo feature that enables it.
    pub fn disabled(what: &str, feature: &str) -> Error {
        crosshash_features::Error::disabled(what, feature).into()
    }

    /// Whether a training failed because of its settings, not its files.
    pub fn is_of_training(&self) -> bool {
        matches!(
            self,
            Error::Diverged { .. }
                | Error::PlayersDiverged { .. }
                | Error::Collapsed { .. }
                | Error::Content { .. }
        )
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

    /// Adds the file in which this error happened, unless it has one already.
    #[must_use]
    pub fn at(self, path: &Path) -> Error {
        match self {
            Error::File { .. } | Error::Io(_) => self,
            other => Error::File { path: path.to_owned(), fault: Box::new(other) },
        }
    }
}

/// A location in a file: lines of text files are counted from 1, rows of arrays from 0.
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
