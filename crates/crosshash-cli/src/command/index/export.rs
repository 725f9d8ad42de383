//! `crosshash index export` and `crosshash index snapshot`: export an index for other tools, or copy
//! its current state.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use crosshash_codes::exchange::format_of;
use crosshash_codes::segments::Snapshot;

use crate::progress::say;

/// Export the items of an index for other tools.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
    crosshash index export photos.index --out codes.npy     packed, for NumPy: codes only
    crosshash index export photos.index --out flat.faiss    IndexBinaryFlat: codes only
    crosshash index export photos.index --out items.jsonl   ids, codes, labels
    crosshash index export photos.index --out items.codes   ids, codes, labels")]
pub(super) struct ExportArgs {
    /// Folder of the index.
    index: PathBuf,

    /// Output file; the format depends on its ending: .npy, .faiss, .jsonl or .codes.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Copy the current state of an index to another folder.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
    crosshash index snapshot photos.index monday.index

Segments are immutable, so they are hard-linked instead of copied if the file system supports it.")]
pub(super) struct SnapshotArgs {
    /// Folder of the index.
    index: PathBuf,

    /// Folder of the copy.
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
        say(format!(
            "{codes} codes in the order of the index; this format does not store ids"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn snapshot(args: &SnapshotArgs) -> Result<ExitCode> {
    let snapshot = Snapshot::open(&args.index)?;
    snapshot.copy_to(&args.out)?;
    say(format!("{} items in {}", snapshot.len(), args.out.display()));
    Ok(ExitCode::SUCCESS)
}
