//! `crosshash index rescue`: copies the healthy items of a damaged index.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use crosshash_codes::segments::rescue;

use crate::progress::say;

/// Copy the healthy items of a damaged index into a new one.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
    crosshash verify photos.index
    crosshash index rescue photos.index rescued.index

An item is copied if its code, its id and its content are healthy. Labels and outputs are left out
where they are damaged. Items that were deleted come back if the list of deleted items is damaged.
Exit code 1: something was lost.")]
pub(super) struct Args {
    /// Folder of the damaged index; it is not changed.
    index: PathBuf,

    /// Folder of the new index.
    out: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let rescued = rescue(&args.index, &args.out)?;
    rescued.damage.iter().for_each(|what| say(format!("damaged: {what}")));
    say(format!(
        "{} items in {}; {} could not be read",
        rescued.items,
        args.out.display(),
        rescued.lost
    ));
    let whole = rescued.damage.is_empty() && rescued.lost == 0;
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
