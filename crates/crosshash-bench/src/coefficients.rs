//! `crosshash-bench coefficients`: exact coefficients by number of items, and compared with NumPy.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result};
use crosshash::supervise::{Coefficients, Kind, Options, Part, supervise};
use crosshash_codes::Labels;
use crosshash_codes::npy::Npy;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::peer::{self, Peer};
use crosshash_cli::progress::say;

/// The straightforward O(n^2) implementation.
const PEER: &str = include_str!("peers/coefficients.py");
/// Maximum number of items for the peer, which then takes minutes.
const PEER_ITEMS: usize = 30_000;
/// Number of labels of the synthetic data, as in NUS-WIDE.
const CLASSES: usize = 81;

/// Exact coefficients: time and memory by number of items, and compared with Algorithm 1 in NumPy.
///
/// Without --labels, synthetic data with 81 correlated, unbalanced labels are used. The peer runs in
/// python3 if the number of items is small enough.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  crosshash-bench coefficients
  crosshash-bench coefficients --labels mirflickr_labels.npy
  crosshash-bench coefficients --no-peer --json")]
pub(crate) struct Args {
    /// Labels to measure on (as for `crosshash coefficients`) instead of synthetic data.
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,

    /// Numbers of items of the synthetic data.
    #[arg(long, value_name = "N,N,..", value_delimiter = ',', default_values_t = [10_000, 100_000, 1_000_000])]
    items: Vec<usize>,

    /// Do not run NumPy.
    #[arg(long)]
    no_peer: bool,

    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

/// One row of the table.
#[derive(Serialize)]
struct Measured {
    data: String,
    items: usize,
    labels: usize,
    labels_per_item: f64,
    distinct_sets: usize,
    seconds: f64,
    peak_rss_mib: Option<f64>,
    peer_seconds: Option<f64>,
    times_faster: Option<f64>,
    largest_difference: Option<f64>,
    note: String,
}

/// Output of the peer.
#[derive(Deserialize)]
struct NumPy {
    seconds: f64,
    numpy: String,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut table = Table { json: args.json, begun: false };
    if let Some(path) = &args.labels {
        let labels = crosshash_codes::read::labels(path)?;
        table.print(&measure(&path.display().to_string(), &labels, !args.no_peer)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for &n in &args.items {
        let labels = made_labels(n)?;
        table.print(&measure("made", &labels, !args.no_peer)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(data: &str, labels: &Labels, with_peer: bool) -> Result<Measured> {
    let options = Options { kind: Kind::Exact, ..Options::default() };
    let started = Instant::now();
    let found = supervise(labels, &options, &|_| ())?;
    let seconds = started.elapsed().as_secs_f64();
    let carried: usize = labels.histogram().iter().sum();
    let mut row = Measured {
        data: data.into(),
        items: labels.len(),
        labels: labels.classes(),
        labels_per_item: carried as f64 / labels.len() as f64,
        distinct_sets: found.distinct,
        seconds,
        peak_rss_mib: peer::peak_mib(),
        peer_seconds: None,
        times_faster: None,
        largest_difference: None,
        note: String::new(),
    };
    if !with_peer {
        row.note = "peer disabled".into();
    } else if labels.len() > PEER_ITEMS {
        row.note = format!(
            "peer skipped above {PEER_ITEMS} items: it needs n x n memory and time"
        );
    } else if found.unlabelled > 0 {
        row.note = "peer skipped: it divides by zero for unlabelled items".into();
    } else {
        match against(labels, &found.coefficients)? {
            Ok((numpy, difference)) => {
                row.peer_seconds = Some(numpy.seconds);
                row.times_faster = Some(numpy.seconds / seconds);
                row.largest_difference = Some(difference);
                row.note = format!("peer: NumPy {}", numpy.numpy);
            }
            Err(why) => row.note = format!("no peer: {why}"),
        }
    }
    Ok(row)
}

/// Runs the peer and compares; the inner error is the reason why it cannot run.
fn against(labels: &Labels, ours: &Coefficients) -> Result<Result<(NumPy, f64), String>> {
    say(format_args!(
        "running the NumPy peer on {} items; this takes a while",
        labels.len()
    ));
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("labels.npy");
    crosshash_codes::npy::write_labels(&file, labels)?;
    let threads = rayon::current_num_threads();
    match peer::run(PEER, &[file.as_path(), folder.path()], "numpy", threads)? {
        Peer::Missing(why) => Ok(Err(why)),
        Peer::Ran(answer) => {
            let numpy: NumPy =
                serde_json::from_value(answer).context("the output of the peer")?;
            let q = difference(&folder.path().join("q.npy"), ours, Part::Q)?;
            let u = difference(&folder.path().join("u.npy"), ours, Part::U)?;
            Ok(Ok((numpy, q.max(u))))
        }
    }
}

/// The largest absolute difference from a matrix in a file.
fn difference(path: &Path, ours: &Coefficients, part: Part) -> Result<f64> {
    let mut theirs: Vec<f64> = Vec::new();
    Npy::open(path)?.each(|_, _, value| {
        theirs.push(value);
        Ok(())
    })?;
    let mut worst = 0.0_f64;
    for (item, row) in theirs.chunks_exact(ours.classes()).enumerate() {
        let mut row = row.to_vec();
        let mine = ours.row(item);
        let values = if part == Part::Q { mine.q } else { mine.u };
        mine.labels.iter().zip(values).for_each(|(&s, value)| row[s as usize] -= value);
        worst = row.iter().fold(worst, |worst, value| worst.max(value.abs()));
    }
    Ok(worst)
}

/// Correlated, unbalanced labels: an item has one to three of 40 themes, a theme prefers some
/// of the labels, and popular themes and labels are much more frequent than others.
fn made_labels(n: usize) -> Result<Labels> {
    const THEMES: usize = 40;
    let mut rng = ChaCha8Rng::seed_from_u64(20);
    let themes: Vec<Vec<(u32, f64)>> = (0..THEMES)
        .map(|_| {
            (0..7).map(|_| (zipf(CLASSES, &mut rng), rng.random_range(0.05..0.8))).collect()
        })
        .collect();
    let mut labels = Labels::from_indices(CLASSES, [[0_u32; 0]; 0])?;
    let mut row = Vec::new();
    for _ in 0..n {
        row.clear();
        for _ in 0..rng.random_range(1..=3) {
            let theme = &themes[zipf(THEMES, &mut rng) as usize];
            row.extend(
                theme.iter().filter(|(_, p)| rng.random_bool(*p)).map(|(label, _)| label),
            );
        }
        if row.is_empty() || rng.random_bool(0.1) {
            row.push(rng.random_range(0..81));
        }
        labels.push(&row)?;
    }
    Ok(labels)
}

/// One of `0 .. k`, the first ones much more often.
fn zipf(k: usize, rng: &mut ChaCha8Rng) -> u32 {
    let x = (k as f64 + 1.0).powf(rng.random::<f64>());
    let mut pick = 0;
    while f64::from(pick) + 2.0 <= x && (pick as usize) + 1 < k {
        pick += 1;
    }
    pick
}

struct Table {
    json: bool,
    begun: bool,
}

impl Table {
    fn print(&mut self, row: &Measured) -> Result<()> {
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{}", serde_json::to_string(row)?)?;
            return Ok(());
        }
        if !self.begun {
            self.begun = true;
            writeln!(
                out,
                "{:>9} {:>6} {:>7} {:>9} {:>9} {:>9} {:>9} {:>8} {:>9}  note",
                "items",
                "labels",
                "per it.",
                "sets",
                "seconds",
                "peak MiB",
                "NumPy s",
                "ratio",
                "max diff"
            )?;
        }
        let or_dash = |value: Option<f64>, digits: usize| {
            value.map_or("-".into(), |value| format!("{value:.digits$}"))
        };
        writeln!(
            out,
            "{:>9} {:>6} {:>7.2} {:>9} {:>9.3} {:>9} {:>9} {:>8} {:>9}  {}",
            row.items,
            row.labels,
            row.labels_per_item,
            row.distinct_sets,
            row.seconds,
            or_dash(row.peak_rss_mib, 0),
            or_dash(row.peer_seconds, 1),
            or_dash(row.times_faster, 0),
            row.largest_difference.map_or("-".into(), |d| format!("{d:.1e}")),
            row.note
        )?;
        Ok(())
    }
}
