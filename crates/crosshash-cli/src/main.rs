//! The program `crosshash`: exit codes and error printing; nothing else.
//!
//! 0: done. 1: ran, but found nothing. 2: bad input or a refused operation.

mod cli;
mod code_args;
mod command;
mod directions;
mod npz;
mod plot;
mod progress;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match command::run(cli::Cli::parse()) {
        Ok(code) => code,
        Err(err) if is_broken_pipe(&err) => ExitCode::SUCCESS,
        Err(err) => {
            #[expect(clippy::print_stderr, reason = "the one place that prints errors")]
            {
                eprintln!("crosshash: {err:#}");
            }
            ExitCode::from(2)
        }
    }
}

/// A reader that went away (`crosshash ... | head`) is no error.
fn is_broken_pipe(err: &anyhow::Error) -> bool {
    err.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
