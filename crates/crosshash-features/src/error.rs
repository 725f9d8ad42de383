//! Errors: what was found, in which file, and what to do about it.

use std::path::{Path, PathBuf};

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Every way in which input to this crate can be wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused; the message names the path.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A name that does not exist.
    #[error("no {kind} named {name:?}; there are: {known}")]
    Unknown {
        /// What kind of thing was looked for.
        kind: &'static str,
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// Invalid content, as a sentence.
    #[error("{what}")]
    Content {
        /// What was found, what was expected, what to do.
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

impl Error {
    /// A content error from a sentence.
    pub fn content(what: impl Into<String>) -> Error {
        Error::Content { what: what.into() }
    }

    /// Something that this build leaves out; `feature` is the cargo feature that has it.
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

    /// Names the file in which this error happened, unless it names one already.
    #[must_use]
    pub fn at(self, path: &Path) -> Error {
        match self {
            Error::File { .. } | Error::Io(_) => self,
            other => Error::File { path: path.to_owned(), fault: Box::new(other) },
        }
    }
}
