//! `crosshash completions`: completions of the command line for a shell.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::cli::Cli;

/// Print completions of the command line for a shell.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  crosshash completions bash > ~/.local/share/bash-completion/completions/crosshash
  crosshash completions zsh > ~/.zfunc/_crosshash      # a folder of $fpath
  crosshash completions fish > ~/.config/fish/completions/crosshash.fish")]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut out = Vec::new();
    generate(args.shell, &mut Cli::command(), "crosshash", &mut out);
    std::io::stdout().lock().write_all(&out)?;
    Ok(ExitCode::SUCCESS)
}
