//! `crosshash store delete` and `crosshash store drop`.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use super::open_filled;
use crate::progress::say;

/// Delete items by id.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
    crosshash store delete postgresql://localhost/shop?table=photos --id 17 --id 18")]
pub(super) struct DeleteArgs {
    /// Address of the store; see `crosshash store --help`.
    url: String,

    /// Id of an item; can be repeated.
    #[arg(long, value_name = "ID", required = true)]
    id: Vec<String>,
}

/// Remove the table with all items.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
    crosshash store drop postgresql://localhost/shop?table=photos
    crosshash store drop clickhouse://localhost/default --yes

Only tables that `store push` created are dropped. Asks first; without a terminal --yes is needed.")]
pub(super) struct DropArgs {
    /// Address of the store; see `crosshash store --help`.
    url: String,

    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

pub(super) fn delete(args: &DeleteArgs) -> Result<ExitCode> {
    let (mut store, mut description) = open_filled(&args.url)?;
    description.source.clear();
    store.describe(&description)?;
    let count = store.delete(&args.id).with_context(|| store.place().to_owned())?;
    description.items = store.count()?;
    store.describe(&description)?;
    say(format!("{count} items deleted; {} in {}", description.items, store.place()));
    Ok(if count == 0 { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

pub(super) fn drop_table(args: &DropArgs) -> Result<ExitCode> {
    let (mut store, description) = open_filled(&args.url)?;
    let place = store.place().to_owned();
    if !args.yes {
        if !std::io::stdin().is_terminal() {
            bail!("{place}: --yes is needed to drop {} items", description.items);
        }
        let mut err = std::io::stderr().lock();
        write!(err, "drop {} items of {place}? [y/N] ", description.items)?;
        err.flush()?;
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line)?;
        if !["y", "yes"].contains(&line.trim().to_ascii_lowercase().as_str()) {
            say("nothing was dropped");
            return Ok(ExitCode::from(1));
        }
    }
    store.drop_table().with_context(|| place.clone())?;
    say(format!("dropped {} items of {place}", description.items));
    Ok(ExitCode::SUCCESS)
}
