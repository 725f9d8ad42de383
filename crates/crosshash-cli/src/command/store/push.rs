//! `crosshash store push`: items of an index or a run into a database.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::place::PlaceArgs;
use crate::progress::{Progress, say};
use crate::store::push::{PushOptions, RANGE, push};
use crate::store::rows::Source;
use crate::store::{self, Store, with_patience};

const EXAMPLES: &str = "\
Examples:
    crosshash store push photos.index postgresql://localhost/shop?table=photos
    crosshash store push run --modality image clickhouse://localhost/default --outputs
    crosshash store push new.index postgresql://localhost/shop?table=photos --upsert

Items are written in ranges, each completely or not at all. If the program or the database is killed,
the same command continues: nothing is lost and nothing is stored twice. A table that already contains
the items is left as it is.";

/// Store the items of an index or a run in a database.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    place: PlaceArgs,

    /// Address of the store; see `crosshash store --help`.
    url: String,

    /// Store the outputs of the model, too (one byte per bit), for re-ranking.
    #[arg(long)]
    outputs: bool,

    /// Create pgvector's HNSW index, for `store search --approximate` (PostgreSQL).
    #[arg(long)]
    hnsw: bool,

    /// Drop the items that the table contains.
    #[arg(long, conflicts_with = "upsert")]
    replace: bool,

    /// Add the items to those of the table; items with the same id are replaced.
    #[arg(long)]
    upsert: bool,

    /// Seconds to wait for a database that does not answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let mut store = store::open(&args.url)?;
    let (snapshot, content) = args.place.open()?;
    let fields = content.fields();
    let source = Source::new(&snapshot, &fields, args.outputs)?;
    if args.upsert {
        return upsert(args, &mut *store, &source);
    }
    let progress = Progress::new("reading the items", source.len());
    let description = source.describe(args.hnsw, &|done| progress.set(done))?;
    drop(progress);
    let options =
        PushOptions { replace: args.replace, patience: Duration::from_secs(args.patience) };
    let progress = Progress::new("storing", source.len());
    let pushed =
        push(&mut *store, &source, description, &options, &|line| say(line), &|done| {
            progress.set(done)
        })?;
    drop(progress);
    if pushed.kept > 0 {
        say(format!("{} items were there already", pushed.kept));
    }
    say(format!(
        "stored {} items in {}: {:.1} s, {:.0} items/s; indexes {:.1} s",
        pushed.written,
        store.place(),
        pushed.writing.as_secs_f64(),
        pushed.written as f64 / pushed.writing.as_secs_f64().max(1e-9),
        pushed.indexing.as_secs_f64()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Adds or replaces items of a table that exists.
fn upsert(args: &Args, store: &mut dyn Store, source: &Source<'_>) -> Result<ExitCode> {
    let found = store.description().with_context(|| store.place().to_owned())?;
    let Some(mut description) = found.filter(|found| found.complete) else {
        bail!(
            "--upsert: {} has no complete table yet; push without --upsert first",
            store.place()
        );
    };
    let own = source.describe(false, &|_| ())?;
    if own.bits != description.bits || own.numbers != description.numbers {
        bail!(
            "--upsert: the table has codes of {} bits and {} as ids, the items have {} bits and {}",
            description.bits,
            id_kind(description.numbers),
            own.bits,
            id_kind(own.numbers)
        );
    }
    if description.label_names != own.label_names
        && !(own.label_names.is_empty() || description.label_names.is_empty())
    {
        bail!("--upsert: the table and the items have labels with other names");
    }
    if description.outputs != args.outputs {
        let wanted = if description.outputs { "needs" } else { "has no" };
        bail!("--upsert: the table {wanted} outputs (--outputs)");
    }
    description.classes = description.classes.max(own.classes);
    if description.label_names.is_empty() {
        description.label_names = own.label_names;
    }
    for name in own.fields {
        if let Err(at) = description.fields.binary_search(&name) {
            description.fields.insert(at, name);
        }
    }
    description.source.clear(); // no longer the items of one push
    let patience = Duration::from_secs(args.patience);
    let progress = Progress::new("storing", source.len());
    let step = usize::try_from(RANGE)?;
    with_patience(store, patience, &|line| say(line), |store, _| {
        store.describe(&description)
    })?;
    for first in (0..source.len()).step_by(step) {
        let rows = source.rows(first..source.len().min(first + step))?;
        // a repetition replaces the rows that the first attempt may have added
        with_patience(store, patience, &|line| say(line), |store, _| {
            store.upsert(&description, rows.clone())
        })?;
        progress.set(first);
    }
    drop(progress);
    description.items = store.count()?;
    store.describe(&description)?;
    say(format!(
        "{} items added or replaced; {} in {}",
        source.len(),
        description.items,
        store.place()
    ));
    Ok(ExitCode::SUCCESS)
}

fn id_kind(numbers: bool) -> &'static str {
    if numbers { "numbers" } else { "names" }
}
