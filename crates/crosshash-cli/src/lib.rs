//! The program `crosshash` as a library: parse, call the libraries below, print.
//!
//! [`main_from`] is the complete program. The public modules are shared with the benchmarks
//! (`crosshash-bench`) and with the Python package.
//!
//! Exit codes: 0: success. 1: nothing found. 2: invalid input or an error.
//! 130: interrupted.

mod cli;
mod code_args;
mod command;
pub mod data_args;
pub mod evaluation;
pub mod file;
pub mod fit;
mod grid;
pub mod interrupt;
mod isolation;
mod mean;
pub mod memory;
mod npz;
pub mod plot;
pub mod program;
pub mod progress;
mod serve;
pub mod store;
pub mod weight_paths;
mod word_ranking;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser as _;

/// Runs the program with these arguments, the first of which is its name.
pub fn main_from(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match cli::Cli::try_parse_from(arguments) {
        Ok(cli) => exit_code("crosshash", cli::run(cli)),
        Err(err) => {
            let _ = err.print(); // a closed pipe must not change the exit code
            ExitCode::from(u8::try_from(err.exit_code()).unwrap_or(2))
        }
    }
}

/// The number of an exit code, which the standard library does not reveal.
pub fn exit_status(code: ExitCode) -> u8 {
    (0..=u8::MAX).find(|&number| ExitCode::from(number) == code).unwrap_or(1)
}

/// The exit code of a finished program; prints its error.
pub fn exit_code(program: &str, result: Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(err) if is_broken_pipe(&err) => ExitCode::SUCCESS,
        Err(err) => {
            #[expect(clippy::print_stderr, reason = "the only place that prints errors")]
            {
                eprintln!("{program}: {err:#}");
            }
            ExitCode::from(2)
        }
    }
}

/// Sets the number of threads of the global pool; `None` is one per core.
pub fn set_threads(threads: Option<u16>) -> Result<()> {
    let Some(threads) = threads else { return Ok(()) };
    rayon::ThreadPoolBuilder::new()
        .num_threads(usize::from(threads))
        .build_global()
        .context("starting the threads")
}

/// A closed pipe (`crosshash ... | head`) is not an error.
fn is_broken_pipe(err: &anyhow::Error) -> bool {
    err.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
