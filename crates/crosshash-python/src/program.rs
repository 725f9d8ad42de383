//! The command line program, inside of a Python process.

use std::ffi::OsString;

use pyo3::prelude::*;

use crate::work;

/// Runs the program with these arguments, the first of which is its name, and returns its exit code.
/// `command` starts the program again, for work in a process of its own.
#[pyfunction]
pub(crate) fn main(
    py: Python<'_>,
    arguments: Vec<OsString>,
    command: Vec<OsString>,
) -> PyResult<u8> {
    crosshash_cli::program::set(command);
    work::short(py, || Ok(crosshash_cli::exit_status(crosshash_cli::main_from(arguments))))
}
