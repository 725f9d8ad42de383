//! `crosshash man`: manual pages of the program and its commands.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory as _;
use clap_mangen::Man;
use crosshash_codes::write::atomically;

use crate::cli::Cli;
use crate::progress::say;

/// Print the manual page, or write the pages of all commands.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  crosshash man | man -l -
  crosshash man --out ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// Write one page per command into this folder, instead of printing the page of the program.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut program = Cli::command();
    program.build();
    match &args.out {
        None => {
            let mut page = Vec::new();
            Man::new(program).render(&mut page)?;
            std::io::stdout().lock().write_all(&page)?;
        }
        Some(folder) => {
            fs_err::create_dir_all(folder)?;
            let count = write_pages(&program, "crosshash", folder)?;
            say(format!("{count} pages in {}", folder.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command and those of its subcommands.
fn write_pages(command: &clap::Command, name: &str, folder: &Path) -> Result<usize> {
    let mut page = Vec::new();
    Man::new(command.clone()).title(name).render(&mut page)?;
    atomically(&folder.join(format!("{name}.1")), |out| Ok(out.write_all(&page)?))?;
    let mut count = 1;
    let visible = |command: &&clap::Command| command.get_name() != "help";
    for below in command.get_subcommands().filter(visible) {
        count += write_pages(below, &format!("{name}-{}", below.get_name()), folder)?;
    }
    Ok(count)
}
