//! `crosshash data import`: writes a manifest for a common layout.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use crosshash::data::MANIFEST;
use crosshash::data::import::{self, Kind, Proposal};

use crate::progress::{Progress, say};

/// Write a manifest for a folder or file in one of the common layouts.
#[derive(clap::Args)]
#[command(after_help = "Layouts:
  folders   pictures: in class folders, in MODALITY/CLASS or train/CLASS folders, with .txt
            captions of the same name, or without any order; also in a zip or tar
  table     CSV, TSV, JSONL or Parquet, with pictures that it names or embeds (Hugging Face)
  arrays    .npy or .npz features, and labels*.npy with 0/1, if there are labels
  mat       a MATLAB file with features and labels (images, YAll, LAll; I_tr, T_tr, L_tr)

The report says what every file and column became and how sure that is. Labels are optional. The
encoding of tables (UTF-8, UTF-16, Windows-1252) and their separator are recognised. Embedded
pictures are written to crosshash-pictures.zip beside the manifest.

Examples:
  crosshash data import photos/ --out photos/
  crosshash data import FLICKR-25K.mat --out flickr/
  crosshash data import train.parquet --out set/ --kind table
The manifest is a proposal: check and edit it, then run `crosshash data inspect`.")]
pub(crate) struct Args {
    /// Folder or file to import.
    source: PathBuf,
    /// Folder for dataset.toml; created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Layout of the source.
    #[arg(long, value_enum, default_value_t = Layout::Auto)]
    kind: Layout,
    /// Overwrite an existing dataset.toml.
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Layout {
    Auto,
    Folders,
    Table,
    Arrays,
    Mat,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let target = args.out.join(MANIFEST);
    if target.exists() && !args.force {
        bail!("{} already exists; use --force to overwrite it", target.display());
    }
    let kind = match args.kind {
        Layout::Auto => None,
        Layout::Folders => Some(Kind::Folders),
        Layout::Table => Some(Kind::Table),
        Layout::Arrays => Some(Kind::Arrays),
        Layout::Mat => Some(Kind::Mat),
    };
    let proposal = import::import(&args.source, &args.out, kind)?;
    let progress = Progress::new("writing embedded pictures", proposal.items);
    proposal.write(&args.out, &|done| progress.set(done))?;
    drop(progress);
    report(&proposal);
    say(format!(
        "wrote {}; check it with: crosshash data inspect {}",
        target.display(),
        args.out.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Prints what became of every file and column.
pub(crate) fn report(proposal: &Proposal) {
    for finding in &proposal.findings {
        say(format!("  {finding}"));
    }
}
