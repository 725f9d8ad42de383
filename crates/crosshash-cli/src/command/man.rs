//! `crosshash man`: manual pages of the program and its commands, also as one page of the book.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap_mangen::Man;
use crosshash_codes::write::atomically;

use crate::progress::say;

/// Print the manual page, or write the pages of all commands.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  crosshash man | man -l -
  crosshash man --out ~/.local/share/man/man1
  crosshash man --markdown > docs/cli.md")]
pub(crate) struct Args {
    /// Write one page per command into this folder, instead of printing the page of the program.
    #[arg(long, value_name = "DIR", conflicts_with = "markdown")]
    out: Option<PathBuf>,

    /// Print the help of all commands as one Markdown page.
    #[arg(long)]
    markdown: bool,
}

/// Width of the help texts in the Markdown page, whatever the terminal.
const WIDTH: usize = 100;

pub(crate) fn run(args: &Args, mut program: clap::Command) -> Result<ExitCode> {
    program = program.term_width(WIDTH);
    program.build();
    if args.markdown {
        let page = markdown(&mut program);
        std::io::stdout().lock().write_all(page.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
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

/// The help of all commands, one section each.
fn markdown(program: &mut clap::Command) -> String {
    let mut page = String::from(
        "# Commands\n\nThe help of every command, as `crosshash COMMAND --help` prints it. This page is generated:\n\
         `crosshash man --markdown > docs/cli.md`; a test compares it with the program.\n",
    );
    section(program, "crosshash", &mut page);
    page
}

/// Appends the help of a command and of its subcommands.
fn section(command: &mut clap::Command, name: &str, page: &mut String) {
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let help = lines.join("\n");
    page.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", help.trim_end()));
    for below in command.get_subcommands_mut() {
        if below.get_name() != "help" && !below.is_hide_set() {
            let name = format!("{name} {}", below.get_name());
            section(below, &name, page);
        }
    }
}

/// Writes the page of a command and those of its subcommands.
fn write_pages(command: &clap::Command, name: &str, folder: &Path) -> Result<usize> {
    let mut page = Vec::new();
    Man::new(command.clone()).title(name).render(&mut page)?;
    atomically(&folder.join(format!("{name}.1")), |out| Ok(out.write_all(&page)?))?;
    let mut count = 1;
    let visible =
        |command: &&clap::Command| command.get_name() != "help" && !command.is_hide_set();
    for below in command.get_subcommands().filter(visible) {
        count += write_pages(below, &format!("{name}-{}", below.get_name()), folder)?;
    }
    Ok(count)
}
