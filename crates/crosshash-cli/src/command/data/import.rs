//! `crosshash data import`: writes a manifest for a common layout.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use crosshash::data::MANIFEST;
use crosshash::data::import::{self, Kind};
use crosshash_codes::write::atomically;

use crate::progress::say;

/// Write a manifest for a folder or file in one of the common layouts.
#[derive(clap::Args)]
#[command(after_help = "Layouts:
  folders   pictures in class folders, or in MODALITY/CLASS folders; also in a zip
  table     a CSV, TSV, JSONL or Parquet table (Hugging Face), with or without pictures
  arrays    .npy or .npz features, and labels*.npy with 0/1
  mat       a MATLAB file with features and labels (images, YAll, LAll; I_tr, T_tr, L_tr)

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
    let fresh = !args.out.exists();
    fs_err::create_dir_all(&args.out)?;
    let proposal = import::import(&args.source, &args.out, kind).inspect_err(|_| {
        // Remove the new folder if it is empty.
        if fresh {
            let _ = fs_err::remove_dir(&args.out);
        }
    })?;
    let text = proposal.manifest.to_toml()?;
    atomically(&target, |out| Ok(out.write_all(text.as_bytes())?))?;
    for note in &proposal.notes {
        say(note);
    }
    say(format!(
        "wrote {}; check it with: crosshash data inspect {}",
        target.display(),
        args.out.display()
    ));
    Ok(ExitCode::SUCCESS)
}
