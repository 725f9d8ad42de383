//! `crosshash-bench features`: feature extraction compared with onnxruntime in Python: same network,
//! pictures and number of threads, in one run.
//!
//! Each measurement runs in its own process; rounds alternate between the competitors. Python decodes
//! in threads while the network runs. Its network alone, on decoded inputs, is measured too; this is
//! the stricter comparison, because crosshash always includes decoding.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use crosshash::backbone::{self, Weights};
use crosshash::data::{self, Features};
use crosshash::extract::{Extraction, extract};
use crosshash::isolate::{Decoder, WorkerPool, WorkerSettings};
use crosshash::picture::{Channels, Layout, Limits, Resize};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::peer::{self, Peer, family_cpu_seconds, peak_mib, this_program};
use crosshash_cli::progress::{Progress, say};
use crosshash_cli::weight_paths::WeightPaths;

const PEER: &str = include_str!("peers/features.py");
/// Batch size of the Python peer, equal to that of crosshash.
const BATCH: usize = 8;

const EXAMPLES: &str = "\
Examples:
  Both runtimes against Python (python3 -m pip install onnxruntime pillow):
    crosshash-bench --threads 2 features PATH/sketchy125_128px.zip --under photo \\
      --weights PATH --onnxruntime SITE-PACKAGES/onnxruntime

  The cost of decoding in worker processes, as the program does, against decoding in the process itself:
    crosshash-bench features PATH/photos.zip --weights PATH --isolation
    crosshash-bench features PATH/photos.zip --backbone descriptor --isolation";

/// Compare feature extraction with onnxruntime in Python.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A zip of pictures.
    place: PathBuf,
    /// Only the pictures in this folder of the zip.
    #[arg(long, default_value = "")]
    under: String,
    /// The backbone.
    #[arg(long, default_value = "efficientnet-lite0")]
    backbone: String,
    /// Number of pictures, evenly spaced.
    #[arg(long, default_value_t = 1000)]
    items: usize,
    /// Number of rounds; each measures every competitor once.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Compare decoding in worker processes with decoding in the process itself, instead of Python.
    #[arg(long)]
    isolation: bool,
    /// Do not run the Python peer.
    #[arg(long)]
    no_peer: bool,
    /// Decode in worker processes (used internally).
    #[arg(long, hide = true)]
    isolated: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Run one measurement of crosshash (used internally).
    #[arg(long, hide = true)]
    measure: bool,
    #[command(flatten)]
    weight_paths: WeightPaths,
}

/// One measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Measured {
    seconds: f64,
    /// crosshash: processor time with that of the worker processes.
    #[serde(default)]
    cpu_seconds: f64,
    peak_mib: Option<f64>,
    /// crosshash: share of the time that the network waited for pictures.
    #[serde(default)]
    waited: f64,
    /// crosshash: upper bound of the memory besides the network.
    #[serde(default)]
    bound_mib: f64,
    /// Python: the network alone, on decoded inputs.
    #[serde(default)]
    network_seconds: f64,
    norms: Vec<f64>,
    first: Vec<f64>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.measure {
        let measured = measure(args)?;
        writeln!(std::io::stdout(), "{}", serde_json::to_string(&measured)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.isolation {
        return isolation(args);
    }
    let weights = args.weight_paths.weights();
    let mut engines = vec![("pure Rust (rten)", PathBuf::from("none"))];
    if let Some(library) = &weights.onnxruntime {
        engines.push(("onnxruntime", library.clone()));
    }
    let mut ours: Vec<Vec<Measured>> = vec![Vec::new(); engines.len()];
    let mut theirs = Vec::new();
    let mut missing = args.no_peer.then(|| "skipped (--no-peer)".to_owned());
    for round in 1..=args.rounds.max(1) {
        say(format!("round {round} of {}", args.rounds.max(1)));
        for ((_, library), all) in engines.iter().zip(&mut ours) {
            all.push(child(args, library, false)?);
        }
        if missing.is_none() {
            match python(args, &weights)? {
                Ok(measured) => theirs.push(measured),
                Err(why) => missing = Some(why),
            }
        }
    }
    print(args, &engines, &ours, &theirs, missing.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

/// Extracts with decoding in this process and in worker processes, in turn, and prints the cost.
fn isolation(args: &Args) -> Result<ExitCode> {
    let weights = args.weight_paths.weights();
    let library = weights.onnxruntime.unwrap_or_else(|| PathBuf::from("none"));
    let mut rounds = Vec::new();
    for round in 1..=args.rounds.max(1) {
        say(format!("round {round} of {}", args.rounds.max(1)));
        // The second one finds warm files: each is the first in every other round.
        let first = child(args, &library, round % 2 == 0)?;
        let second = child(args, &library, round % 2 == 1)?;
        rounds.push(if round % 2 == 0 { [second, first] } else { [first, second] });
    }
    let [alone, workers] =
        [0, 1].map(|way| rounds.iter().map(|round| &round[way]).collect::<Vec<_>>());
    if alone[0].first != workers[0].first || alone[0].norms != workers[0].norms {
        bail!("the features depend on the way of decoding");
    }
    let items = alone[0].norms.len() as f64;
    // The cost is that of a round, in which both ran one after the other.
    let cost = |value: fn(&Measured) -> f64| {
        let mut all: Vec<f64> = rounds
            .iter()
            .map(|[alone, workers]| value(workers) / value(alone) - 1.0)
            .collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let (wall, cpu) = (cost(|one| one.seconds), cost(|one| one.cpu_seconds));
    let least = |all: &[&Measured], value: fn(&Measured) -> f64| {
        all.iter().map(|one| value(one)).fold(f64::INFINITY, f64::min)
    };
    let rows = [("in the process itself", &alone), ("in worker processes", &workers)];
    let rows = rows.map(|(name, all)| {
        let per_second = items / least(all, |one| one.seconds);
        (name, per_second, least(all, |one| one.cpu_seconds) * 1000.0 / items)
    });
    let mut out = std::io::stdout().lock();
    if args.json {
        let rows = rows.map(|(name, per_second, cpu_ms)| {
            json!({ "decoded": name, "per_second": per_second, "cpu_ms_per_item": cpu_ms })
        });
        let all = json!({
            "items": items, "rounds": rounds.len(), "rows": rows, "cost_wall": wall, "cost_cpu": cpu,
        });
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        out,
        "{} on {items} pictures, {} threads, best of {} rounds",
        args.backbone,
        rayon::current_num_threads(),
        rounds.len()
    )?;
    writeln!(out, "{:<34}{:>10}{:>14}", "decoded", "items/s", "CPU ms/item")?;
    for (name, per_second, cpu_ms) in rows {
        writeln!(out, "{name:<34}{per_second:>10.1}{cpu_ms:>14.2}")?;
    }
    writeln!(
        out,
        "cost of isolation, median of the rounds: {:+.1} % of wall time, {:+.1} % of CPU time; equal features",
        100.0 * wall,
        100.0 * cpu
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The pictures to measure.
fn pictures(args: &Args) -> Result<data::Pictures> {
    let (all, _) = data::pictures(&args.place, &args.under)?;
    let every = all.len().div_ceil(args.items.max(1)).max(1);
    let some: Vec<usize> = (0..all.len()).step_by(every).collect();
    Ok(all.select(&some))
}

fn measure(args: &Args) -> Result<Measured> {
    let loaded = backbone::open(&args.backbone, &args.weight_paths.weights())?;
    let features = Features::Pictures(pictures(args)?);
    let clock = Instant::now();
    let now = || clock.elapsed().as_secs_f64();
    let mut how = Extraction { now: &now, ..Extraction::new(&loaded) };
    how.decoder = if args.isolated {
        let program = std::env::current_exe()?;
        WorkerPool::new(WorkerSettings::new(program, ["decode-worker"])).into()
    } else {
        Decoder::in_process()
    };
    let few: Vec<usize> = (0..features.len().min(BATCH)).collect();
    extract(&how, &features.select(&few), &|_| {})?; // warms up
    let progress = Progress::new("extracting", features.len());
    let (started, used) = (now(), family_cpu_seconds());
    let given = extract(&how, &features, &|done| progress.set(done))?;
    let (seconds, cpu_seconds) = (now() - started, family_cpu_seconds() - used);
    drop(progress);
    let rows = given.rows.values();
    let norm = |row: &[f32]| row.iter().map(|x| f64::from(x * x)).sum::<f64>().sqrt();
    Ok(Measured {
        seconds,
        cpu_seconds,
        peak_mib: peak_mib(),
        waited: given.waited,
        #[expect(clippy::cast_precision_loss, reason = "a displayed value")]
        bound_mib: how.memory(features.len()) as f64 / f64::from(1 << 20),
        network_seconds: 0.0,
        norms: rows.chunks_exact(given.rows.width()).map(norm).collect(),
        first: rows[..given.rows.width()].iter().map(|&x| f64::from(x)).collect(),
    })
}

fn child(args: &Args, library: &Path, isolated: bool) -> Result<Measured> {
    let text = |path: &Path| path.display().to_string();
    let mut arguments: Vec<String> =
        ["features", "--measure", "--under"].map(String::from).to_vec();
    arguments.extend([args.under.clone(), "--items".into(), args.items.to_string()]);
    arguments.extend(["--backbone".into(), args.backbone.clone()]);
    arguments.extend(["--onnxruntime".into(), text(library)]);
    for folder in &args.weight_paths.weights {
        arguments.extend(["--weights".into(), text(folder)]);
    }
    arguments.extend(isolated.then(|| "--isolated".to_owned()));
    arguments.push(text(&args.place));
    this_program(&arguments)
}

fn python(args: &Args, weights: &Weights) -> Result<Result<Measured, String>> {
    let loaded = backbone::open(&args.backbone, weights)?;
    let preprocessing =
        loaded.backbone().preprocessing().context("the backbone is not a network")?;
    let plain = preprocessing.resize == Resize::Squash
        && preprocessing.channels == Channels::Rgb
        && preprocessing.layout == Layout::Planes;
    let network = match backbone::info(&args.backbone) {
        Ok(about) => about.find(weights)?.into_iter().next(),
        Err(_) => Some(PathBuf::from(&args.backbone)),
    };
    let network = network.context("the backbone has no file")?;
    if !plain || network.extension().is_none_or(|ending| ending != "onnx") {
        return Ok(Err("the peer runs ONNX networks of squashed RGB pictures only".into()));
    }
    let listed = tempfile::NamedTempFile::new()?;
    let some = pictures(args)?;
    let names: Vec<&str> = (0..some.len()).map(|k| some.name(k)).collect();
    fs_err::write(listed.path(), names.join("\n"))?;
    let threads = rayon::current_num_threads();
    let arguments = [
        args.place.display().to_string(),
        listed.path().display().to_string(),
        network.display().to_string(),
        "features".into(),
        serde_json::to_string(preprocessing)?,
        threads.to_string(),
        BATCH.to_string(),
    ];
    match peer::run(PEER, &arguments, "onnxruntime, PIL", threads)? {
        Peer::Missing(why) => Ok(Err(why)),
        Peer::Ran(value) => Ok(Ok(serde_json::from_value(value)?)),
    }
}

/// The fastest of several rounds.
fn best(all: &[Measured]) -> Option<&Measured> {
    all.iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds))
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn print(
    args: &Args,
    engines: &[(&str, PathBuf)],
    ours: &[Vec<Measured>],
    theirs: &[Measured],
    missing: Option<&str>,
) -> Result<()> {
    let peer = best(theirs);
    let alone = theirs.iter().map(|m| m.network_seconds).min_by(f64::total_cmp);
    let mut rows = Vec::new();
    for ((name, _), all) in engines.iter().zip(ours) {
        let Some(own) = best(all) else { bail!("no round was measured") };
        let items = own.norms.len() as f64;
        rows.push(json!({
            "engine": name,
            "items": own.norms.len(),
            "per_second": items / own.seconds,
            "peak_mib": own.peak_mib,
            "bound_mib": own.bound_mib,
            "waited": own.waited,
            "of_python": peer.map(|peer| peer.seconds / own.seconds),
            "of_network_alone": alone.map(|alone| alone / own.seconds),
            "cosine": peer.map(|peer| cosine(&own.first, &peer.first)),
        }));
    }
    let threads = rayon::current_num_threads();
    let mut out = std::io::stdout().lock();
    if args.json {
        let all = json!({
            "threads": threads, "rounds": args.rounds, "ours": rows, "missing": missing,
            "python": peer.map(|peer| json!({
                "per_second": peer.norms.len() as f64 / peer.seconds,
                "network_alone_per_second": alone.map(|alone| peer.norms.len() as f64 / alone),
                "peak_mib": peer.peak_mib,
            })),
        });
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        return Ok(());
    }
    writeln!(
        out,
        "{} on {} pictures, {threads} threads, best of {} rounds",
        args.backbone, rows[0]["items"], args.rounds
    )?;
    writeln!(
        out,
        "{:<34}{:>10}{:>10}{:>9}{:>9}",
        "", "items/s", "peak MiB", "ratio", "waited"
    )?;
    let number = |value: &serde_json::Value, digits: usize| {
        value.as_f64().map_or("-".to_owned(), |x| format!("{x:.digits$}"))
    };
    for row in &rows {
        writeln!(
            out,
            "{:<34}{:>10}{:>10}{:>9}{:>9}",
            format!("crosshash, {}", row["engine"].as_str().unwrap_or("")),
            number(&row["per_second"], 1),
            number(&row["peak_mib"], 0),
            number(&row["of_python"], 2),
            number(&row["waited"], 3),
        )?;
    }
    match (peer, alone, missing) {
        (Some(peer), Some(alone), _) => {
            let items = peer.norms.len() as f64;
            writeln!(
                out,
                "{:<34}{:>10.1}{:>10.0}{:>9.2}",
                "Python, onnxruntime, Pillow",
                items / peer.seconds,
                peer.peak_mib.unwrap_or(f64::NAN),
                1.0
            )?;
            writeln!(
                out,
                "{:<34}{:>10.1}{:>10}{:>9.2}",
                "Python, the network alone",
                items / alone,
                "",
                peer.seconds / alone
            )?;
            for row in &rows {
                writeln!(
                    out,
                    "{}: {} of the network alone; cosine of the first row to Python's {}",
                    row["engine"].as_str().unwrap_or(""),
                    number(&row["of_network_alone"], 2),
                    number(&row["cosine"], 6)
                )?;
            }
        }
        (_, _, why) => {
            writeln!(out, "no Python peer: {}", why.unwrap_or("it did not run"))?
        }
    }
    let largest = Limits::default();
    writeln!(
        out,
        "upper bound of memory besides the network, if every picture had {1} Mpx: {0} MiB",
        number(&rows[0]["bound_mib"], 0),
        largest.pixels / 1_000_000
    )?;
    Ok(())
}
