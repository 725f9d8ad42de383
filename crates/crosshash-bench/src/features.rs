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
use crosshash::isolate::{WorkerPool, WorkerSettings};
use crosshash::picture::{Channels, Layout, Limits, Resize};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::peer::{self, Peer, peak_mib, this_program};
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

  The cost of decoding in worker processes (compare both):
    crosshash-bench features PATH/photos.zip --weights PATH --no-peer
    crosshash-bench features PATH/photos.zip --weights PATH --no-peer --isolated";

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
    /// Decode in worker processes, as the program does.
    #[arg(long)]
    isolated: bool,
    /// Do not run the Python peer.
    #[arg(long)]
    no_peer: bool,
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
            all.push(child(args, library)?);
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
    if args.isolated {
        let program = std::env::current_exe()?;
        how.decoder =
            WorkerPool::new(WorkerSettings::new(program, ["decode-worker"])).into();
    }
    let few: Vec<usize> = (0..features.len().min(BATCH)).collect();
    extract(&how, &features.select(&few), &|_| {})?; // warms up
    let progress = Progress::new("extracting", features.len());
    let started = now();
    let given = extract(&how, &features, &|done| progress.set(done))?;
    let seconds = now() - started;
    drop(progress);
    let rows = given.rows.values();
    let norm = |row: &[f32]| row.iter().map(|x| f64::from(x * x)).sum::<f64>().sqrt();
    Ok(Measured {
        seconds,
        peak_mib: peak_mib(),
        waited: given.waited,
        #[expect(clippy::cast_precision_loss, reason = "a displayed value")]
        bound_mib: how.memory(features.len()) as f64 / f64::from(1 << 20),
        network_seconds: 0.0,
        norms: rows.chunks_exact(given.rows.width()).map(norm).collect(),
        first: rows[..given.rows.width()].iter().map(|&x| f64::from(x)).collect(),
    })
}

fn child(args: &Args, library: &Path) -> Result<Measured> {
    let text = |path: &Path| path.display().to_string();
    let mut arguments: Vec<String> =
        ["features", "--measure", "--under"].map(String::from).to_vec();
    arguments.extend([args.under.clone(), "--items".into(), args.items.to_string()]);
    arguments.extend(["--backbone".into(), args.backbone.clone()]);
    arguments.extend(["--onnxruntime".into(), text(library)]);
    for folder in &args.weight_paths.weights {
        arguments.extend(["--weights".into(), text(folder)]);
    }
    arguments.extend(args.isolated.then(|| "--isolated".to_owned()));
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
