//! `crosshash index tree`: stores search trees, so that a large index is searched fast as soon as it is
//! opened.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use crosshash_codes::index::LeafForm;
use crosshash_codes::segments::Snapshot;

use crate::progress::{Progress, say};

/// Store search trees of large segments; searches use them without building anything.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
    crosshash index tree photos.index
    crosshash index tree photos.index --compact

Trees suit codes that models learned; the results do not change. Items that are added later are scanned
until the command runs again.")]
pub(super) struct Args {
    /// Folder of the index.
    index: PathBuf,

    /// At most 8 bytes per item at 64 bits; slower if codes have little structure.
    #[arg(long)]
    compact: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let snapshot = Snapshot::open(&args.index)?;
    let form = if args.compact { LeafForm::Compact } else { LeafForm::Fast };
    let progress = Progress::new("building trees", snapshot.len());
    let written = snapshot.write_trees(form, &|done| progress.set(done))?;
    drop(progress);
    say(format!("stored the trees of {written} segments"));
    Ok(ExitCode::SUCCESS)
}
