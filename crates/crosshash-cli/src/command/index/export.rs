//! `crosshash index export` and `crosshash index snapshot`: an index for other tools, or as it is
//! now.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use crosshash_codes::exchange::format_of;
use crosshash_codes::segments::Snapshot;

use crate::progress::say;

/// Write the items of an index for other tools.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
    crosshash index export photos.index --out codes.npy     packed, for NumPy: codes only
    crosshash index export photos.index --out flat.faiss    IndexBinaryFlat: codes only
    crosshash index export photos.index --out items.jsonl   ids, codes, labels
    crosshash index export photos.index --out items.codes   ids, codes, labels")]
pub(super) struct ExportArgs {
    /// The folder of the index.
    index: PathBuf,

    /// The file; its ending tells the format: .npy, .faiss, .jsonl or .codes.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Keep an index as it is now, in a folder of its own.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
    crosshash index snapshot photos.index monday.index

Segments never change, so they are linked, not copied, where the file system can.")]
pub(super) struct SnapshotArgs {
    /// The folder of the index.
    index: PathBuf,

    /// The folder to make.
    out: PathBuf,
}

pub(super) fn export(args: &ExportArgs) -> Result<ExitCode> {
    let format = format_of(&args.out).context("--out")?;
    let file = Snapshot::open(&args.index)?.to_code_file()?;
    (format.write)(&args.out, &file)?;
    let codes = file.codes.len();
    if format.keeps_ids || file.ids.is_none() {
        say(format!("{codes} items"));
    } else {
        say(format!("{codes} codes, in the order of the index; this format keeps no ids"));
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn snapshot(args: &SnapshotArgs) -> Result<ExitCode> {
    let snapshot = Snapshot::open(&args.index)?;
    snapshot.copy_to(&args.out)?;
    say(format!("{} items in {}", snapshot.len(), args.out.display()));
    Ok(ExitCode::SUCCESS)
}
