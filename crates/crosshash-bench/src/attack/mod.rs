//! `crosshash-bench attack`: a server and its files under attack. Every part is bounded and runs on
//! loopback and in a temporary folder.
//!
//! | file | attack |
//! |---|---|
//! | `files.rs`, `pictures.rs` | pictures that crash decoders or ask for much |
//! | `schema.rs` | random requests by the schemas of the OpenAPI document |
//! | `clients.rs` | greedy and slow clients beside an honest one |
//! | `crash.rs`, `kill.rs`, `disk.rs` | kill -9 and full disks under mixed changes |
//! | `flips.rs` | flipped bits in the files of a run and an index |

mod clients;
mod crash;
mod disk;
mod files;
mod flips;
mod kill;
mod pictures;
mod schema;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::serve::Server;

const EXAMPLES: &str = "\
Examples:
  Everything, in the sizes of docs/security.md (about half an hour):
    crosshash-bench attack

  Single parts:
    crosshash-bench attack --only pictures
    crosshash-bench attack --only clients --greedy 200 --slow 200 --seconds 20
    crosshash-bench attack --only kill --rounds 100
    crosshash-bench attack --only full --rounds 20      (as root: mounts a small file system)
    crosshash-bench attack --only flips --flips 1000
    crosshash-bench attack --only schema --requests 20000";

/// Attack a server and its files; fails if something acknowledged is lost, a request ends the server,
/// or damage is not detected.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Parts to run: pictures, schema, clients, kill, full, flips [default: all].
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<String>,

    /// A run to copy and serve [default: a small one is trained].
    #[arg(long, value_name = "RUN")]
    run: Option<PathBuf>,

    /// Rounds of kill -9 and of full disks [default: 100 and 20].
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,

    /// Flipped bits.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    flips: usize,

    /// Random requests.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    requests: usize,

    /// Clients that send as much as they can.
    #[arg(long, value_name = "N", default_value_t = 200)]
    greedy: usize,

    /// Clients that send and read slowly.
    #[arg(long, value_name = "N", default_value_t = 200)]
    slow: usize,

    /// Seconds with these clients.
    #[arg(long, value_name = "S", default_value_t = 20)]
    seconds: u64,

    /// Seed of all random choices.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

const PARTS: [&str; 6] = ["pictures", "schema", "clients", "kill", "full", "flips"];

/// What a part found: figures, and what must not happen.
pub(super) struct Outcome {
    figures: Value,
    faults: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(unknown) = args.only.iter().find(|part| !PARTS.contains(&part.as_str())) {
        bail!("--only {unknown}: the parts are {}", PARTS.join(", "));
    }
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    match &args.run {
        Some(given) => copy(given, &run)?,
        None => train(&run, 0)?,
    }
    let mut report = json!({});
    let mut failed = false;
    for part in PARTS {
        if !args.only.is_empty() && !args.only.iter().any(|only| only == part) {
            continue;
        }
        let outcome = match part {
            "pictures" => pictures::run(&run)?,
            "schema" => schema::run(&run, args.requests, args.seed)?,
            "clients" => clients::run(
                &run,
                args.greedy,
                args.slow,
                Duration::from_secs(args.seconds),
            )?,
            "kill" => kill::kill(folder.path(), args.rounds.unwrap_or(100), args.seed)?,
            "full" => crash::full(folder.path(), args.rounds.unwrap_or(20), args.seed)?,
            _ => flips::run(&run, folder.path(), args.flips, args.seed)?,
        };
        failed |= !outcome.faults.is_empty();
        report[part] = json!({ "figures": outcome.figures, "faults": outcome.faults });
        if !args.json {
            let mut out = std::io::stdout().lock();
            writeln!(out, "{part}: {}", outcome.figures)?;
            for fault in &outcome.faults {
                writeln!(out, "  FAULT {fault}")?;
            }
        }
    }
    if args.json {
        writeln!(std::io::stdout().lock(), "{}", serde_json::to_string_pretty(&report)?)?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Trains a small run on the built-in data set.
pub(super) fn train(run: &Path, seed: u64) -> Result<()> {
    let seed = format!("seed={seed}");
    let settings =
        ["epochs=1", "hidden=16", "hidden_sparse=16", "bits=32", "validation=0.0", &seed];
    let output = Command::new(std::env::current_exe()?)
        .args(["program", "train", "emoji", "--out"])
        .arg(run)
        .args(settings.iter().flat_map(|setting| ["--set", setting]))
        .output()?;
    if !output.status.success() {
        bail!("training failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// Copies a folder.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    fs_err::create_dir_all(to)?;
    for entry in fs_err::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            fs_err::copy(&path, &target)?;
        }
    }
    Ok(())
}

/// Measures the memory of a server and its decoders in the background.
pub(super) struct PeakMemory {
    stop: Arc<AtomicBool>,
    peak: Arc<AtomicU64>,
}

impl PeakMemory {
    /// The peaks of the processes that there are at present, in MiB.
    #[expect(clippy::cast_possible_truncation, reason = "MiB")]
    #[expect(clippy::cast_sign_loss, reason = "not negative")]
    pub(super) fn now(server: &Server) -> u64 {
        server.family_peak_mib() as u64
    }

    /// Calls `work` and returns the peak in MiB meanwhile.
    pub(super) fn during<T>(server: &Server, work: impl FnOnce() -> T) -> (T, u64) {
        let memory = PeakMemory { stop: Arc::default(), peak: Arc::default() };
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !memory.stop.load(Ordering::Relaxed) {
                    memory.peak.fetch_max(PeakMemory::now(server), Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            let result = work();
            memory.stop.store(true, Ordering::Relaxed);
            result
        });
        (result, memory.peak.load(Ordering::Relaxed))
    }
}
