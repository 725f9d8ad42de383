//! Errors of the library as Python exceptions with the same sentences.

use pyo3::exceptions::{PyFileNotFoundError, PyKeyError, PyOSError, PyValueError};
use pyo3::{PyErr, PyResult, create_exception};

create_exception!(
    crosshash,
    UnsuitableError,
    PyValueError,
    "A method that cannot be trained on these data."
);

/// Raises the error of a library.
pub(crate) trait OrRaise<T> {
    /// The value, or an exception with the sentence of the error.
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T, crosshash::Error> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|err| raise(kind(&err), err.to_string()))
    }
}

impl<T> OrRaise<T> for Result<T, crosshash_codes::Error> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|err| raise(codes_kind(&err), err.to_string()))
    }
}

/// A value error.
pub(crate) fn invalid(message: impl Into<String>) -> PyErr {
    PyValueError::new_err(message.into())
}

/// The exceptions that are raised.
enum Kind {
    NotFound,
    System,
    Unknown,
    Unsuitable,
    Value,
}

fn kind(err: &crosshash::Error) -> Kind {
    use crosshash::Error;
    match err {
        Error::Codes(err) => codes_kind(err),
        Error::Io(err) => io_kind(err),
        Error::Unknown { .. } => Kind::Unknown,
        Error::Unsuitable { .. } => Kind::Unsuitable,
        Error::File { fault, .. } => kind(fault),
        _ => Kind::Value,
    }
}

fn codes_kind(err: &crosshash_codes::Error) -> Kind {
    use crosshash_codes::Error;
    match err {
        Error::Io(err) => io_kind(err),
        Error::File { what, .. } => codes_kind(what),
        _ => Kind::Value,
    }
}

fn io_kind(err: &std::io::Error) -> Kind {
    use std::io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    match err.kind() {
        NotFound => Kind::NotFound,
        InvalidData | UnexpectedEof => Kind::Value,
        _ => Kind::System,
    }
}

fn raise(kind: Kind, message: String) -> PyErr {
    match kind {
        Kind::NotFound => PyFileNotFoundError::new_err(message),
        Kind::System => PyOSError::new_err(message),
        Kind::Unknown => PyKeyError::new_err(message),
        Kind::Unsuitable => UnsuitableError::new_err(message),
        Kind::Value => PyValueError::new_err(message),
    }
}
