//! The program `crosshash`; everything is in the library beside it.

use std::process::ExitCode;

/// Training allocates and frees the same large arrays every step; the system's allocator gives
/// each back to the kernel and takes it again, page by page, which costs a quarter of a step.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    crosshash_cli::main_from(std::env::args_os())
}
