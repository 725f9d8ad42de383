//! `crosshash store verify`: compares a table with an index or a run.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;

use super::open_complete;
use super::place::PlaceArgs;
use crate::progress::Progress;
use crate::store::check::compare;
use crate::store::rows::Source;

/// Compare a table with the items that were pushed: rows bit for bit, and answers.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
    crosshash store verify photos.index postgresql://localhost/shop?table=photos

Rows and queries are spread evenly over the items. Every query is searched with k = 10, 100, 1000 and
with a radius, here and there; hits must be the same in the same order. Exit code 1: something differs.")]
pub(super) struct Args {
    #[command(flatten)]
    place: PlaceArgs,

    /// Address of the store; see `crosshash store --help`.
    url: String,

    /// Rows to compare.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    rows: usize,

    /// Queries to compare.
    #[arg(long, value_name = "N", default_value_t = 20)]
    queries: usize,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let (mut store, description) = open_complete(&args.url)?;
    let (snapshot, content) = args.place.open()?;
    let fields = content.fields();
    let outputs = description.outputs && snapshot.has_outputs();
    let source = Source::new(&snapshot, &fields, outputs)?;
    let progress = Progress::new("comparing", args.rows + 4 * args.queries);
    let found = compare(
        &mut *store,
        &description,
        &source,
        &snapshot,
        args.rows,
        args.queries,
        &|done| progress.set(done),
    )?;
    drop(progress);
    let mut out = std::io::stdout().lock();
    for what in &found.differences {
        writeln!(out, "differs: {what}")?;
    }
    let same = found.differences.is_empty();
    let verdict = if same { "all are equal" } else { "there are differences" };
    writeln!(
        out,
        "{} items; {} rows and {} searches compared: {verdict}",
        source.len(),
        found.rows,
        found.searches
    )?;
    Ok(if same { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
