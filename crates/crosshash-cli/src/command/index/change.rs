//! `crosshash index delete` and `crosshash index compact`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use crosshash_codes::Cancel;
use crosshash_codes::format::Id;
use crosshash_codes::segments::Writer;

use crate::progress::say;
use crate::serve::fields::PayloadFields;

/// Delete items from an index.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
    crosshash index delete photos.index --ids 17,4
    crosshash index delete photos.index --ids-file gone.txt
    crosshash index delete photos.index --filter 'label in (3, 7)'

Unknown ids are ignored. `crosshash index compact` frees the disk space.")]
pub(super) struct DeleteArgs {
    /// Folder of the index.
    index: PathBuf,

    /// Ids of the items.
    #[arg(long, value_name = "ID,ID,...", value_delimiter = ',')]
    ids: Vec<String>,

    /// File with the ids of the items, one per line.
    #[arg(long, value_name = "FILE")]
    ids_file: Option<PathBuf>,

    /// Delete the items that match this expression; see `crosshash search --help`.
    #[arg(long, value_name = "EXPRESSION", conflicts_with_all = ["ids", "ids_file"])]
    filter: Option<String>,
}

/// Rewrite an index as one segment, without deleted items.
#[derive(clap::Args)]
#[command(after_help = "Example:\n    crosshash index compact photos.index")]
pub(super) struct CompactArgs {
    /// Folder of the index.
    index: PathBuf,
}

pub(super) fn delete(args: &DeleteArgs) -> Result<ExitCode> {
    let mut writer = Writer::open(&args.index)?;
    let count = match &args.filter {
        Some(filter) => {
            let items = writer.snapshot().filter_with(
                filter,
                &PayloadFields,
                &Cancel::default(),
            )?;
            writer.delete_items(&items)?
        }
        None => {
            let mut typed = args.ids.clone();
            if let Some(path) = &args.ids_file {
                typed.extend(fs_err::read_to_string(path)?.lines().map(str::to_owned));
            }
            if typed.is_empty() {
                bail!("no items: specify --ids, --ids-file or --filter");
            }
            let ids: Vec<Id> =
                typed.iter().filter_map(|text| writer.snapshot().typed_id(text)).collect();
            writer.delete(&ids)?
        }
    };
    say(format!("{count} items deleted, {} remain", writer.snapshot().len()));
    Ok(if count == 0 { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

pub(super) fn compact(args: &CompactArgs) -> Result<ExitCode> {
    let mut writer = Writer::open(&args.index)?;
    let before = writer.snapshot().info();
    writer.compact()?;
    let after = writer.snapshot().info();
    say(format!(
        "{} items; segments: {} -> {}, bytes: {} -> {}",
        after.items, before.segments, after.segments, before.bytes, after.bytes
    ));
    Ok(ExitCode::SUCCESS)
}
