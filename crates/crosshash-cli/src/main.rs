//! The program `crosshash`: exit codes and error printing; nothing else.
//!
//! 0: done. 1: ran, but found nothing. 2: bad input or a refused operation. 130: interrupted.

mod asking;
mod cli;
mod code_args;
mod command;
mod directions;
mod file;
mod fit;
mod grid;
mod interrupt;
mod npz;
mod opening;
mod places;
mod plot;
mod progress;
mod report;
mod serve;

use std::process::ExitCode;

use clap::Parser as _;

/// Training allocates and frees the same large arrays every step; the system's allocator gives
/// each back to the kernel and takes it again, page by page, which costs a quarter of a step.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
