//! `crosshash-bench python`: the cost of Python over Rust, and the package beside the usual Python tools.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | arguments, rounds, tables |
//! | `prepare.rs` | the files that all programs read |
//! | `measure.rs` | the stages in Rust |
//! | `peers/python_package.py` | the same with the package `crosshash` |
//! | `peers/python_way.py` | the same with PyTorch, FAISS and a NumPy evaluation |
//!
//! First part, all programs: training, encoding of all items, searches from texts to pictures, MAP. Second
//! part, Rust and the package: a search of many codes in batches of 1,000, and the encoding of many rows.
//! Every measurement is a process of its own, so that peak memory is separate. Rounds alternate between the
//! programs, and the order changes from round to round. Times are medians over the rounds; the search of the
//! second part is the fastest of five passes and of all rounds, because the difference of the programs is
//! smaller than the noise of one pass.

mod measure;
mod prepare;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::ValueEnum;
use crosshash_cli::progress::say;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::peer::{self, Peer};

const PACKAGE: &str = include_str!("../peers/python_package.py");
const WAY: &str = include_str!("../peers/python_way.py");

const EXAMPLES: &str = "\
Examples:
  IAPR TC-12, with the package (pip install .) and PyTorch with FAISS (pip install torch faiss-cpu):
    crosshash-bench python --data configs/data/iaprtc12.toml --root PATH/iaprtc12 \\
      --image image --text german

  Without data: synthetic features and captions:
    crosshash-bench python

All programs train JCCH-B (its coefficients cost nothing) with the same towers, terms, batches, epochs, rates
and vocabulary. `python3` on the PATH is the Python that is measured.";

/// Compare the Python package with Rust, and with PyTorch, FAISS and NumPy.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data set with dense features and texts [default: synthetic].
    #[arg(long, value_name = "DATA")]
    data: Option<PathBuf>,

    /// Folder of its files.
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,

    /// Modality of dense features.
    #[arg(long, default_value = "image")]
    image: String,

    /// Modality of texts.
    #[arg(long, default_value = "text")]
    text: String,

    /// Epochs of training.
    #[arg(long, default_value_t = 5)]
    epochs: usize,

    /// Items per step.
    #[arg(long, default_value_t = 128)]
    batch: usize,

    /// Hidden units of both towers.
    #[arg(long, default_value_t = 1024)]
    hidden: usize,

    /// Code length.
    #[arg(long, default_value_t = 64)]
    bits: usize,

    /// Codes to search and rows to encode, in the second part.
    #[arg(long, default_value_t = 1_000_000)]
    items: usize,

    /// Number of rounds; each measures every program once.
    #[arg(long, default_value_t = 3)]
    rounds: usize,

    /// Do not run PyTorch with FAISS and NumPy.
    #[arg(long)]
    no_peer: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    /// Measure Rust in this process, with these settings (internal).
    #[arg(long, hide = true, requires = "part")]
    measure: Option<String>,

    /// The part of that measurement.
    #[arg(long, hide = true)]
    part: Option<Part>,
}

/// The two parts of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Part {
    /// Training, encoding, search and evaluation of a data set.
    Train,
    /// A search of many codes, the encoding of many rows.
    Large,
}

/// What every program does; peers get it as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Task {
    folder: PathBuf,
    epochs: usize,
    batch: usize,
    hidden: usize,
    bits: usize,
    /// The first rows are the queries, the next ones the training items; all but the queries are searched.
    queries: usize,
    train: usize,
    rate: f64,
    /// Weights of the terms of the loss.
    lambda: f64,
    mu: f64,
    alpha: f64,
    beta: f64,
    /// Results per query.
    k: usize,
    /// Of the second part: number of codes and of rows, batches of 1,000 queries, passes over them (the
    /// fastest counts), width of the rows.
    items: usize,
    batches: usize,
    passes: usize,
    width: usize,
}

/// The first part: seconds of the stages, MAP and peak memory.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Trained {
    who: String,
    fit: f64,
    encode: f64,
    search: f64,
    evaluate: f64,
    map: f64,
    peak_mib: f64,
}

/// The second part.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct LargeFigures {
    who: String,
    search: f64,
    encode: f64,
    /// Size of the rows, and the memory that their encoding adds to what the process has.
    rows_mib: f64,
    extra_mib: f64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let (Some(task), Some(part)) = (&args.measure, args.part) {
        let task: Task = serde_json::from_str(task)?;
        let measured = match part {
            Part::Train => serde_json::to_string(&measure::train(&task)?)?,
            Part::Large => serde_json::to_string(&measure::large(&task)?)?,
        };
        writeln!(std::io::stdout().lock(), "{measured}")?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.rounds == 0 {
        bail!("--rounds: at least one is needed");
    }
    let folder = tempfile::tempdir()?;
    let prepared = prepare::prepare(args, folder.path())?;
    let task = Task {
        folder: folder.path().to_owned(),
        epochs: args.epochs,
        batch: args.batch,
        hidden: args.hidden,
        bits: args.bits,
        queries: prepared.queries,
        train: prepared.train,
        rate: 0.1,
        lambda: 0.002,
        mu: 0.1,
        alpha: 0.1,
        beta: 0.1,
        k: 100,
        items: args.items,
        batches: 10,
        passes: 5,
        width: 128,
    };
    let mut found = Found::default();
    for round in 1..=args.rounds {
        say(format!("round {round} of {}", args.rounds));
        found.round(&task, args.no_peer, round % 2 == 0)?;
    }
    print(args, &task, prepared.items, &found)?;
    Ok(ExitCode::SUCCESS)
}

/// The measurements of all rounds; one list per program.
#[derive(Debug, Default, Serialize)]
struct Found {
    rust: Vec<Trained>,
    package: Vec<Trained>,
    peer: Vec<Trained>,
    large_rust: Vec<LargeFigures>,
    large_package: Vec<LargeFigures>,
    missing: Vec<String>,
}

impl Found {
    /// Measures every program once.
    fn round(&mut self, task: &Task, no_peer: bool, package_first: bool) -> Result<()> {
        for is_package in [package_first, !package_first] {
            if is_package {
                let package = self.python(PACKAGE, peer::OWN, task, Part::Train)?;
                self.package.extend(package);
            } else {
                self.rust.push(rust(task, Part::Train)?);
            }
        }
        if !no_peer {
            let peer = self.python(WAY, "torch, faiss", task, Part::Train)?;
            self.peer.extend(peer);
        }
        for is_package in [package_first, !package_first] {
            if is_package {
                let package = self.python(PACKAGE, peer::OWN, task, Part::Large)?;
                self.large_package.extend(package);
            } else {
                self.large_rust.push(rust(task, Part::Large)?);
            }
        }
        Ok(())
    }

    /// Runs a script; `None` if it cannot run.
    fn python<T: DeserializeOwned>(
        &mut self,
        script: &str,
        modules: &str,
        task: &Task,
        part: Part,
    ) -> Result<Option<T>> {
        let arguments = [serde_json::to_string(task)?, json!(part).to_string()];
        match peer::run(script, &arguments, modules, rayon::current_num_threads())? {
            Peer::Ran(answer) => Ok(Some(serde_json::from_value(answer)?)),
            Peer::Missing(why) => {
                if !self.missing.contains(&why) {
                    self.missing.push(why);
                }
                Ok(None)
            }
        }
    }
}

fn rust<T: DeserializeOwned>(task: &Task, part: Part) -> Result<T> {
    let part = if part == Part::Train { "train" } else { "large" };
    let task = serde_json::to_string(task)?;
    peer::this_program(&["python", "--measure", &task, "--part", part].map(String::from))
}

/// The median of a value over the rounds.
fn median<T>(rounds: &[T], value: impl Fn(&T) -> f64) -> f64 {
    let mut all: Vec<f64> = rounds.iter().map(value).collect();
    all.sort_by(f64::total_cmp);
    match all.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => all[n / 2],
        n => f64::midpoint(all[n / 2 - 1], all[n / 2]),
    }
}

/// The smallest value of the rounds.
fn fastest<T>(rounds: &[T], value: impl Fn(&T) -> f64) -> f64 {
    rounds.iter().map(value).fold(f64::NAN, f64::min)
}

fn print(args: &Args, task: &Task, items: usize, found: &Found) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let over = |rust: f64, python: f64| 100.0 * (python / rust - 1.0);
    let fit_over = over(median(&found.rust, |m| m.fit), median(&found.package, |m| m.fit));
    let search_over = over(
        fastest(&found.large_rust, |m| m.search),
        fastest(&found.large_package, |m| m.search),
    );
    if args.json {
        let all = json!({
            "items": items, "task": task, "found": found,
            "fit_overhead_percent": fit_over, "search_overhead_percent": search_over,
        });
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        return Ok(());
    }
    writeln!(
        out,
        "{items} items, {} for training, {} queries, {} bits, {} hidden units, {} epochs in batches of {}, \
         {} threads; seconds, median of {} rounds\n",
        task.train,
        task.queries,
        task.bits,
        task.hidden,
        task.epochs,
        task.batch,
        rayon::current_num_threads(),
        args.rounds,
    )?;
    writeln!(
        out,
        "{:<34}{:>8}{:>8}{:>8}{:>10}{:>8}{:>8}{:>10}",
        "", "train", "encode", "search", "evaluate", "total", "MAP", "peak MiB"
    )?;
    for rounds in [&found.rust, &found.package, &found.peer] {
        let Some(first) = rounds.first() else { continue };
        let total = |m: &Trained| m.fit + m.encode + m.search + m.evaluate;
        writeln!(
            out,
            "{:<34}{:>8.2}{:>8.3}{:>8.3}{:>10.3}{:>8.2}{:>8.4}{:>10.0}",
            first.who,
            median(rounds, |m| m.fit),
            median(rounds, |m| m.encode),
            median(rounds, |m| m.search),
            median(rounds, |m| m.evaluate),
            median(rounds, total),
            median(rounds, |m| m.map),
            rounds.iter().map(|m| m.peak_mib).fold(0.0, f64::max),
        )?;
    }
    writeln!(
        out,
        "\n{} codes searched by {} batches of 1,000 queries, k = 10; {} rows of {} encoded",
        task.items, task.batches, task.items, task.width
    )?;
    writeln!(
        out,
        "{:<34}{:>8}{:>8}{:>12}{:>20}",
        "", "search", "encode", "rows MiB", "MiB while encoding"
    )?;
    for rounds in [&found.large_rust, &found.large_package] {
        let Some(first) = rounds.first() else { continue };
        writeln!(
            out,
            "{:<34}{:>8.3}{:>8.3}{:>12.0}{:>20}",
            first.who,
            fastest(rounds, |m| m.search),
            median(rounds, |m| m.encode),
            first.rows_mib,
            format!("+{:.0}", rounds.iter().map(|m| m.extra_mib).fold(0.0, f64::max)),
        )?;
    }
    if !found.package.is_empty() {
        writeln!(
            out,
            "\nPython over Rust: train {fit_over:+.1} %, search of {} codes {search_over:+.1} %",
            task.items
        )?;
    }
    for why in &found.missing {
        writeln!(out, "NOT measured: {why}")?;
    }
    Ok(())
}
