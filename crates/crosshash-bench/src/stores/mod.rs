//! `crosshash-bench stores`: bulk loading and searches of databases beside our own index, on the same codes in the
//! same run.

mod engine;
mod measure;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use crosshash_cli::progress::say;
use crosshash_codes::segments::{ItemBatch, Snapshot};
use crosshash_codes::{Bits, Codes};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use serde_json::json;

use engine::Engine;
use measure::Workload;

const EXAMPLES: &str = "\
Examples:
  PostgreSQL and ClickHouse of the tests (.ci/engines), a million codes:
    crosshash-bench stores

  Ten million codes; servers that run already:
    crosshash-bench stores --items 10000000 --queries 10
    PGPASSWORD=.. crosshash-bench stores --store postgresql://localhost/postgres \\
        --store clickhouse://localhost/default

Codes are drawn by --seed from --distinct different random codes, so that many are equal, as those of a
trained model. Queries are codes of items with 0 to 3 bits flipped; one client asks them one by one, after one
query that is not timed. `push` is `crosshash store push` without the reading of the source; `bulk` is the loader
of the engine alone (COPY in PostgreSQL, INSERT .. FORMAT RowBinary in ClickHouse): all rows, at most a million, encoded before
and written by one statement. For our own index, `push` writes an index on disk, and `index` prepares its
search. Recall counts hits that are as near as the k-th hit of our index; `equal` tells whether all answers are
the same, ties included. Tables have names of their own and are dropped at the end.";

/// Compare databases with our own index: rows per second, milliseconds per search, recall, bytes per item.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Number of items.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    items: usize,
    /// Code length.
    #[arg(long, default_value_t = 64)]
    bits: usize,
    /// Number of different codes.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    distinct: usize,
    /// Number of queries.
    #[arg(long, value_name = "N", default_value_t = 30)]
    queries: usize,
    /// Hits per query.
    #[arg(short, value_name = "K,K,..", value_delimiter = ',', default_values_t = [10, 100])]
    k: Vec<usize>,
    /// Address of a database that runs already; can be repeated. See `crosshash store --help`.
    #[arg(long, value_name = "URL")]
    store: Vec<String>,
    /// Without --store: start the engines of this folder, which .ci/engines fills.
    #[arg(long, value_name = "DIR", default_value = "target/engines")]
    engines: PathBuf,
    /// Measure pgvector's HNSW index, too (PostgreSQL; minutes per million to build).
    #[arg(long)]
    hnsw: bool,
    /// Seed of the codes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

/// What was measured of one store.
#[derive(Serialize)]
struct Row {
    store: String,
    items: usize,
    bits: usize,
    push_rows_per_second: f64,
    /// The loader of the engine alone.
    bulk_rows_per_second: Option<f64>,
    index_seconds: f64,
    bytes_per_item: f64,
    searches: Vec<Timing>,
}

/// The searches for one k.
#[derive(Serialize)]
struct Timing {
    k: usize,
    p50_ms: f64,
    p95_ms: f64,
    recall: f64,
    equal: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    ensure!(args.items > 0, "--items: at least one is needed");
    ensure!(args.distinct > 0, "--distinct: at least one is needed");
    ensure!(args.queries > 0, "--queries: at least one is needed");
    ensure!(args.k.iter().all(|&k| k > 0), "-k: at least one hit is needed");
    let engines =
        if args.store.is_empty() { Engine::all(&args.engines)? } else { Vec::new() };
    let mut stores: Vec<(String, String)> =
        args.store.iter().map(|url| (String::new(), url.clone())).collect();
    stores
        .extend(engines.iter().map(|engine| (engine.name.to_owned(), engine.url.clone())));

    let (codes, queries) = made(args)?;
    let mut out = std::io::stdout().lock();
    if !args.json {
        let (n, bits, distinct) = (args.items, args.bits, args.distinct);
        writeln!(
            out,
            "{n} codes of {bits} bits, at most {distinct} of them different; {} queries, one client{}\n",
            args.queries,
            load().map_or(String::new(), |load| format!("; load average before {load}"))
        )?;
        head(&mut out)?;
    }
    say(format_args!("our own index, {} items", args.items));
    let (own, truth) = measure::own(&codes, &queries, &args.k)?;
    print(&mut out, args.json, &own)?;
    let snapshot = Snapshot::in_memory(ItemBatch::new(codes), &[])?;
    let work =
        Workload { snapshot: &snapshot, queries: &queries, k: &args.k, truth: &truth };
    for (name, url) in &stores {
        let row = measure::store(name, url, &work, false)?;
        print(&mut out, args.json, &row)?;
        if args.hnsw && url.starts_with("postgres") {
            print(&mut out, args.json, &measure::store(name, url, &work, true)?)?;
        }
    }
    if let Some(load) = load() {
        let line = if args.json {
            json!({ "load_average": load }).to_string()
        } else {
            format!("\nload average after {load}")
        };
        writeln!(out, "{line}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Codes with many duplicates, and queries near them.
fn made(args: &Args) -> Result<(Codes, Codes)> {
    let bits = Bits::new(args.bits)?;
    let mut rng = ChaCha8Rng::seed_from_u64(args.seed);
    let last = match bits.get() % 64 {
        0 => u64::MAX,
        used => (1 << used) - 1,
    };
    let width = bits.words();
    let different: Vec<u64> = (0..args.distinct * width)
        .map(|at| {
            if (at + 1).is_multiple_of(width) {
                rng.random::<u64>() & last
            } else {
                rng.random()
            }
        })
        .collect();
    let mut words = Vec::with_capacity(args.items * width);
    for _ in 0..args.items {
        let from = rng.random_range(0..args.distinct) * width;
        words.extend(&different[from..from + width]);
    }
    let mut asked = Vec::new();
    for nth in 0..args.queries {
        let from = rng.random_range(0..args.items) * width;
        let mut code = words[from..from + width].to_vec();
        for _ in 0..nth % 4 {
            let bit = rng.random_range(0..bits.get());
            code[bit / 64] ^= 1 << (bit % 64);
        }
        asked.extend(code);
    }
    Ok((Codes::from_words(bits, words)?.shared(), Codes::from_words(bits, asked)?))
}

/// The load of the machine over the last minute, if the system tells it.
fn load() -> Option<String> {
    let text = fs_err::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next().map(str::to_owned)
}

fn head(out: &mut impl std::io::Write) -> Result<()> {
    writeln!(
        out,
        "{:<26}{:>12}{:>12}{:>9}{:>10}{:>6}{:>10}{:>10}{:>8}  equal",
        "store",
        "push rows/s",
        "bulk rows/s",
        "index s",
        "bytes/it",
        "k",
        "p50 ms",
        "p95 ms",
        "recall"
    )?;
    Ok(())
}

fn print(out: &mut impl std::io::Write, as_json: bool, row: &Row) -> Result<()> {
    if as_json {
        writeln!(out, "{}", serde_json::to_string(row)?)?;
        out.flush()?;
        return Ok(());
    }
    for timing in &row.searches {
        let bulk = row.bulk_rows_per_second.map_or("-".into(), |rate| format!("{rate:.0}"));
        writeln!(
            out,
            "{:<26}{:>12.0}{:>12}{:>9.1}{:>10.1}{:>6}{:>10.2}{:>10.2}{:>8.3}  {}",
            row.store,
            row.push_rows_per_second,
            bulk,
            row.index_seconds,
            row.bytes_per_item,
            timing.k,
            timing.p50_ms,
            timing.p95_ms,
            timing.recall,
            if timing.equal { "yes" } else { "no" }
        )?;
    }
    out.flush()?;
    Ok(())
}
