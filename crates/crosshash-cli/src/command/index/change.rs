//! `crosshash index delete` and `crosshash index compact`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use crosshash_codes::format::Id;
use crosshash_codes::segments::Writer;

use crate::progress::say;

/// Remove items from an index.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
    crosshash index delete photos.index --ids 17,4
    crosshash index delete photos.index --ids-file gone.txt
    crosshash index delete photos.index --filter 'label in (3, 7)'

Ids that are not there are no error. The room is given back by `crosshash index compact`.")]
pub(super) struct DeleteArgs {
    /// The folder of the index.
    index: PathBuf,

    /// Ids of the items.
    #[arg(long, value_name = "ID,ID,...", value_delimiter = ',')]
    ids: Vec<String>,

    /// Ids of the items, one a line.
    #[arg(long, value_name = "FILE")]
    ids_file: Option<PathBuf>,

    /// The items for which this holds; see `crosshash search --help`.
    #[arg(long, value_name = "EXPRESSION", conflicts_with_all = ["ids", "ids_file"])]
    filter: Option<String>,
}

/// Write what is left of an index into one segment.
#[derive(clap::Args)]
#[command(after_help = "Example:\n    crosshash index compact photos.index")]
pub(super) struct CompactArgs {
    /// The folder of the index.
    index: PathBuf,
}

pub(super) fn delete(args: &DeleteArgs) -> Result<ExitCode> {
    let mut writer = Writer::open(&args.index)?;
    let count = match &args.filter {
        Some(filter) => {
            let items = writer.snapshot().filter(filter)?;
            writer.delete_items(&items)?
        }
        None => {
            let mut typed = args.ids.clone();
            if let Some(path) = &args.ids_file {
                typed.extend(fs_err::read_to_string(path)?.lines().map(str::to_owned));
            }
            if typed.is_empty() {
                bail!("name items: --ids, --ids-file or --filter");
            }
            let ids: Vec<Id> =
                typed.iter().filter_map(|text| writer.snapshot().typed_id(text)).collect();
            writer.delete(&ids)?
        }
    };
    say(format!("{count} items removed, {} left", writer.snapshot().len()));
    Ok(if count == 0 { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

pub(super) fn compact(args: &CompactArgs) -> Result<ExitCode> {
    let mut writer = Writer::open(&args.index)?;
    let before = writer.snapshot().info();
    writer.compact()?;
    let after = writer.snapshot().info();
    say(format!(
        "{} items; {} segments became {}, {} bytes became {}",
        after.items, before.segments, after.segments, before.bytes, after.bytes
    ));
    Ok(ExitCode::SUCCESS)
}
