//! Errors: what is wrong, in which file, and how to fix it.

use std::path::{Path, PathBuf};

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error type of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An I/O error; the message contains the path.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A name that does not exist.
    #[error("no {kind} named {name:?}; there are: {known}")]
    Unknown {
        /// Kind of object.
        kind: &'static str,
        /// The unknown name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// Invalid content.
    #[error("{what}")]
    Content {
        /// Message: what was found, what was expected, how to fix it.
        what: String,
    },
    /// Another error, with the file in which it happened.
    #[error("{}: {fault}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause (not a `source`: the message already contains it).
        fault: Box<Error>,
    },
}

impl Error {
    /// A content error with this message.
    pub fn content(what: impl Into<String>) -> Error {
        Error::Content { what: what.into() }
    }

    /// A function that is not compiled in; `feature` is the cargo feature that enables it.
    pub fn disabled(what: &str, feature: &str) -> Error {
        Error::content(format!(
            "{what} in this build: enable the cargo feature \"{feature}\" of crosshash"
        ))
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

    /// Adds the path of the file to the error, unless it already has one.
    #[must_use]
    pub fn at(self, path: &Path) -> Error {
        match self {
            Error::File { .. } | Error::Io(_) => self,
            other => Error::File { path: path.to_owned(), fault: Box::new(other) },
        }
    }
}
