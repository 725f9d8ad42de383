//! Errors of codes, labels and their files: what was found, what was expected,
//! and what to do about it.

use std::path::{Path, PathBuf};

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A code length outside 1..=1024.
    #[error("a code has 1 to 1024 bits, not {got}")]
    BadBits {
        /// The requested length.
        got: usize,
    },
    /// A buffer that does not hold a whole number of rows.
    #[error("{what}: {got} values do not make rows of {width}")]
    Ragged {
        /// Content of the buffer.
        what: &'static str,
        /// Values found.
        got: usize,
        /// Values a row needs.
        width: usize,
    },
    /// A value that is no bit, sign or label.
    #[error("row {row}, column {column}: {value} {wanted}")]
    BadValue {
        /// Row, counted from 0.
        row: usize,
        /// Column, counted from 0.
        column: usize,
        /// The value as text.
        value: String,
        /// What is wrong with it and what to do.
        wanted: String,
    },
    /// Bits beyond the code length are set.
    #[error("row {row}: bits beyond the code length of {bits} are set; {remedy}")]
    Padding {
        /// Row, counted from 0.
        row: usize,
        /// The code length.
        bits: usize,
        /// What to do.
        remedy: String,
    },
    /// A label index outside the label vocabulary.
    #[error("row {row}: label {label} is out of range, there are {classes} labels (0 to {})", classes.saturating_sub(1))]
    LabelRange {
        /// Row, counted from 0.
        row: usize,
        /// The index found.
        label: u64,
        /// Number of labels.
        classes: usize,
    },
    /// Two things that must match in size do not.
    #[error("{left} has {left_size} {unit}, {right} has {right_size}; {remedy}")]
    Mismatch {
        /// First thing.
        left: String,
        /// Its size.
        left_size: usize,
        /// Second thing.
        right: String,
        /// Its size.
        right_size: usize,
        /// The counted unit.
        unit: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// Something that must not be empty is.
    #[error("{what}")]
    Empty {
        /// What is empty, as a sentence.
        what: String,
    },
    /// A file with invalid content.
    #[error("{what}")]
    Content {
        /// What was found, what was expected, what to do.
        what: String,
    },
    /// Another error, with the file in which it happened.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What went wrong in it. Not a `source`: the message has it already.
        what: Box<Error>,
    },
    /// The caller gave up: its time is over, or its client has gone.
    #[error("cancelled")]
    Cancelled,
    /// An error of the operating system; the message names the path.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Error {
    /// A content error from a sentence.
    pub fn content(what: impl Into<String>) -> Error {
        Error::Content { what: what.into() }
    }

    /// Names the file in which this error happened, unless it names one already.
    #[must_use]
    pub fn at(self, path: &Path) -> Error {
        match self {
            Error::File { .. } | Error::Io(_) | Error::Cancelled => self,
            other => Error::File { path: path.to_owned(), what: Box::new(other) },
        }
    }
}
