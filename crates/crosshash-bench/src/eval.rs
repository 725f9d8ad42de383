//! `crosshash-bench eval`: evaluation compared with the usual NumPy implementation.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result};
use crosshash_codes::eval::{Options, Report, evaluate};
use crosshash_codes::{Bits, Codes, Labels, npy};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::peer::{self, Peer};
use crosshash_cli::progress::{Progress, say};

const EXAMPLES: &str = "\
Examples:
  The published comparison (a minute or two, most of it NumPy's):
    crosshash --threads 2 bench eval

  A quick look without the peer:
    crosshash-bench eval --queries 500 --items 50000 --no-peer

The data are made by --seed: clustered codes with ties, several labels an item. The peer is a
faithful copy of the field's usual NumPy evaluation (distance by matrix product, argsort per
query) and runs through python3 if NumPy is there. Both sides are timed without reading files.";

/// Compare evaluation with NumPy: MAP and curves over a full ranking.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Number of queries.
    #[arg(long, default_value_t = 2_100)]
    queries: usize,
    /// Number of database items.
    #[arg(long, default_value_t = 190_000)]
    items: usize,
    /// Code length.
    #[arg(long, default_value_t = 64)]
    bits: usize,
    /// Number of labels.
    #[arg(long, default_value_t = 21)]
    labels: usize,
    /// Seed of the data.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Do not run the NumPy peer.
    #[arg(long)]
    no_peer: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let bits = Bits::new(args.bits)?;
    anyhow::ensure!(args.queries > 0, "--queries: at least one is needed");
    anyhow::ensure!(args.items > 0, "--items: at least one is needed");
    anyhow::ensure!(args.labels > 0, "--labels: at least one is needed");
    let mut maker = Maker::new(bits, args.labels, args.seed);
    let (query, query_labels) = maker.make(args.queries)?;
    let (database, database_labels) = maker.make(args.items)?;
    let before = peer::peak_mib();

    let progress = Progress::new("crosshash", query.len());
    let start = Instant::now();
    let report = evaluate(
        &query,
        &database,
        &query_labels,
        &database_labels,
        &Options::default(),
        &|done| progress.set(done),
    )?;
    let seconds = start.elapsed().as_secs_f64();
    drop(progress);
    let after = peer::peak_mib();

    let threads = rayon::current_num_threads();
    let peer = if args.no_peer {
        Peer::Missing("skipped (--no-peer)".into())
    } else {
        let folder = tempfile::tempdir()?;
        let path = |name: &str| folder.path().join(name);
        let files: Vec<PathBuf> = ["q", "d", "yq", "yd"].iter().map(|n| path(n)).collect();
        npy::write_signs(&files[0], &query)?;
        npy::write_signs(&files[1], &database)?;
        npy::write_labels(&files[2], &query_labels)?;
        npy::write_labels(&files[3], &database_labels)?;
        let mut arguments: Vec<String> =
            files.iter().map(|file| file.display().to_string()).collect();
        arguments.push(threads.to_string());
        say("running the NumPy peer on the same data");
        peer::run(include_str!("peers/eval.py"), &arguments, "numpy", threads)?
    };
    let ours = json!({
        "seconds": seconds,
        "pairs_per_second": (query.len() * database.len()) as f64 / seconds,
        "threads": threads,
        "kernel": report.protocol.kernel,
        "map": report.map,
        "peak_mib": after,
        "peak_mib_before": before,
    });
    print(args, &ours, &peer, &report)?;
    Ok(ExitCode::SUCCESS)
}

/// Clustered codes: every label has a centre, an item is the majority of its labels' centres
/// with some bits flipped.
struct Maker {
    rng: ChaCha8Rng,
    bits: Bits,
    centres: Vec<Vec<bool>>,
}

impl Maker {
    fn new(bits: Bits, labels: usize, seed: u64) -> Maker {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut centre = || (0..bits.get()).map(|_| rng.random()).collect();
        let centres = (0..labels).map(|_| centre()).collect();
        Maker { rng, bits, centres }
    }

    fn make(&mut self, n: usize) -> Result<(Codes, Labels)> {
        let classes = self.centres.len();
        let mut bools = Vec::with_capacity(n * self.bits.get());
        let mut rows = Vec::with_capacity(n);
        for _ in 0..n {
            let n_labels = self.rng.random_range(1..=classes.min(4));
            let mut row: Vec<u32> = (0..n_labels)
                .map(|_| {
                    // frequent labels first: the square makes them unbalanced
                    let u: f64 = self.rng.random();
                    #[expect(clippy::cast_possible_truncation, reason = "below `classes`")]
                    #[expect(clippy::cast_sign_loss, reason = "not negative")]
                    let label = (u * u * classes as f64) as u32;
                    label
                })
                .collect();
            row.sort_unstable();
            row.dedup();
            for k in 0..self.bits.get() {
                let ones = row.iter().filter(|&&l| self.centres[l as usize][k]).count();
                bools.push((2 * ones > row.len()) ^ self.rng.random_bool(0.12));
            }
            rows.push(row);
        }
        Ok((Codes::from_bools(self.bits, &bools)?, Labels::from_indices(classes, rows)?))
    }
}

fn print(args: &Args, ours: &Value, peer: &Peer, report: &Report) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if args.json {
        let peer = match peer {
            Peer::Ran(value) => value.clone(),
            Peer::Missing(why) => json!({ "missing": why }),
        };
        let ratio =
            peer["seconds"].as_f64().zip(ours["seconds"].as_f64()).map(|(p, o)| p / o);
        let all = json!({ "crosshash": ours, "peer": peer, "times_faster": ratio });
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        return Ok(());
    }
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    writeln!(
        out,
        "{} queries x {} items, {} bits, {} labels: MAP and curves",
        args.queries, args.items, args.bits, args.labels
    )?;
    writeln!(out, "{:<42}{:>10}{:>12}{:>10}", "", "seconds", "peak MiB", "MAP")?;
    let name =
        format!("crosshash, {} threads, {}", ours["threads"], report.protocol.kernel);
    let row = |name: &str, value: &Value, map: f64| {
        let (seconds, peak) = (number(&value["seconds"]), number(&value["peak_mib"]));
        format!("{name:<42}{seconds:>10.2}{peak:>12.0}{map:>10.4}")
    };
    let map = report.map.context("the data have labels")?;
    writeln!(out, "{}", row(&name, ours, map.tie_aware))?;
    match peer {
        Peer::Missing(why) => writeln!(out, "NumPy peer: {why}")?,
        Peer::Ran(value) => {
            let name = value["version"].as_str().unwrap_or("NumPy").to_owned();
            writeln!(out, "{}", row(&name, value, number(&value["map"])))?;
            writeln!(
                out,
                "{:.1} times faster; the peer's MAP lies within our bounds {:.6} to {:.6}: {}",
                number(&value["seconds"]) / number(&ours["seconds"]),
                map.pessimistic,
                map.optimistic,
                if (map.pessimistic - 1e-5..=map.optimistic + 1e-5)
                    .contains(&number(&value["map"]))
                {
                    "yes"
                } else {
                    "NO"
                }
            )?;
        }
    }
    Ok(())
}
