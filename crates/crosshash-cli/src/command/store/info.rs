//! `crosshash store info`: what a table contains.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use super::open_filled;

/// Print what a table contains.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
    crosshash store info postgresql://localhost/shop?table=photos
    crosshash store info clickhouse://localhost/default --json")]
pub(super) struct Args {
    /// Address of the store; see `crosshash store --help`.
    url: String,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let (mut store, description) = open_filled(&args.url)?;
    let (items, bytes) = (store.count()?, store.bytes()?);
    let mut out = std::io::stdout().lock();
    if args.json {
        let value = json!({
            "items": items,
            "bytes": bytes,
            "bits": description.bits,
            "ids": if description.numbers { "numbers" } else { "names" },
            "labels": description.classes,
            "fields": description.fields,
            "outputs": description.outputs,
            "hnsw": description.hnsw,
            "complete": description.complete,
        });
        writeln!(out, "{}", serde_json::to_string_pretty(&value)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "items     {items}")?;
    writeln!(out, "bytes     {bytes}")?;
    writeln!(out, "bits      {}", description.bits)?;
    writeln!(out, "ids       {}", if description.numbers { "numbers" } else { "names" })?;
    writeln!(out, "labels    {}", description.classes)?;
    writeln!(out, "fields    {}", description.fields.join(", "))?;
    writeln!(out, "outputs   {}", if description.outputs { "int8" } else { "none" })?;
    writeln!(out, "hnsw      {}", if description.hnsw { "yes" } else { "no" })?;
    let state =
        if description.complete { "complete" } else { "a push was interrupted: repeat it" };
    writeln!(out, "state     {state}")?;
    Ok(ExitCode::SUCCESS)
}
