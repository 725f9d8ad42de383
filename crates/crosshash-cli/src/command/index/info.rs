//! `crosshash index info`: statistics of an index.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use crosshash_codes::segments::Snapshot;

/// Print statistics of an index.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
    crosshash index info photos.index
    crosshash index info photos.index --verify --json")]
pub(super) struct Args {
    /// Folder of the index.
    index: PathBuf,

    /// Read all files and verify their checksums.
    #[arg(long)]
    verify: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let snapshot = Snapshot::open(&args.index)?;
    if args.verify {
        snapshot.verify()?;
    }
    let info = snapshot.info();
    let mut out = std::io::stdout().lock();
    if args.json {
        let mut value = serde_json::to_value(&info)?;
        if args.verify {
            value["verified"] = true.into();
        }
        writeln!(out, "{}", serde_json::to_string_pretty(&value)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "items     {}", info.items)?;
    writeln!(out, "deleted   {} (compact frees their disk space)", info.removed)?;
    writeln!(out, "bits      {}", info.bits)?;
    writeln!(out, "ids       {}", info.ids.unwrap_or("none yet"))?;
    let named = if info.label_names { ", named" } else { "" };
    writeln!(out, "labels    {}{named}", info.labels)?;
    let outputs = match info.outputs {
        Some(kind) => format!("{kind}, {} bytes per item", info.bits),
        None => "none".to_owned(),
    };
    writeln!(out, "outputs   {outputs}")?;
    writeln!(out, "segments  {}", info.segments)?;
    writeln!(out, "logged    {} (items not yet in a segment)", info.logged)?;
    writeln!(out, "commits   {}", info.commit)?;
    writeln!(out, "bytes     {}", info.bytes)?;
    if args.verify {
        writeln!(out, "verified  all checksums match")?;
    }
    Ok(ExitCode::SUCCESS)
}
