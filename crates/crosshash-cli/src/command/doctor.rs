//! `crosshash doctor`: what this installation has, and whether it works.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Result, bail};
use crosshash::backbone::{self, Weights};
use crosshash::data::synth::{self, SynthForm, SynthModality, SynthSpec};
use crosshash_codes::kernel::Kernel;

use super::train;
use crate::data_args::DataArgs;
use crate::progress::say;
use crate::weight_paths::{self, WeightPaths};

/// Report kernels, threads, memory, weights and runtimes; test the installation.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  crosshash doctor
  crosshash doctor --self-test

The self-test trains a small model on synthetic data and evaluates it; it takes less than a minute.")]
pub(crate) struct Args {
    /// Train, evaluate and search small synthetic data.
    #[arg(long)]
    self_test: bool,

    #[command(flatten)]
    weight_paths: WeightPaths,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let text = report(&args.weight_paths.weights())?;
    std::io::stdout().lock().write_all(text.as_bytes())?;
    if args.self_test {
        self_test()?;
        say("self-test passed");
    }
    Ok(ExitCode::SUCCESS)
}

fn report(weights: &Weights) -> Result<String> {
    let mut out = format!("crosshash {}\n", env!("CROSSHASH_VERSION"));
    let kernels: Vec<&str> = Kernel::available().into_iter().map(Kernel::name).collect();
    check_kernels()?;
    let _ = writeln!(
        out,
        "kernels: {} (all give the same distances; {} is used)",
        kernels.join(", "),
        Kernel::best().name()
    );
    let _ = writeln!(out, "threads: {}", rayon::current_num_threads());
    if let Some(free) = free_mib() {
        let _ = writeln!(out, "memory available: {free} MiB");
    }
    match weight_paths::cache() {
        Some(folder) => {
            let _ = writeln!(out, "cache folder: {}", folder.display());
        }
        None => out.push_str("cache folder: none; set CROSSHASH_CACHE\n"),
    }
    for info in backbone::all().filter(|info| !info.files.is_empty()) {
        match info.find(weights) {
            Ok(files) => {
                let files: Vec<String> =
                    files.iter().map(|f| f.display().to_string()).collect();
                let _ = writeln!(out, "weights of {}: {}", info.name, files.join(", "));
            }
            Err(_) => {
                let fetched = info.files.iter().all(|file| file.source.is_some());
                let how = if fetched {
                    "; get them with `crosshash backbones fetch`"
                } else {
                    ""
                };
                let _ = writeln!(out, "weights of {}: not found{how}", info.name);
            }
        }
    }
    let _ = match &weights.onnxruntime {
        Some(library) if library.is_file() => {
            writeln!(out, "onnxruntime: {}", library.display())
        }
        Some(library) => writeln!(out, "onnxruntime: {} does not exist", library.display()),
        None => {
            writeln!(out, "onnxruntime: not set; ONNX networks run in the built-in runtime")
        }
    };
    Ok(out)
}

/// Compares the kernels of this processor with each other.
fn check_kernels() -> Result<()> {
    let numbers = |count: u64, step: u64| -> Vec<u64> {
        (0..count).map(|k| k.wrapping_mul(step).rotate_left(17) ^ step).collect()
    };
    let (one, many) =
        (numbers(4, 0x9e37_79b9_7f4a_7c15), numbers(4 * 100, 0xd1b5_4a32_d192_ed03));
    let expected: Vec<u16> = many
        .chunks_exact(4)
        .map(|code| code.iter().zip(&one).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>())
        .map(|distance| u16::try_from(distance).unwrap_or(u16::MAX))
        .collect();
    for kernel in Kernel::available() {
        let mut found = vec![0; 100];
        kernel.distances(&one, &many, &mut found);
        if found != expected {
            bail!("kernel {} gives wrong distances on this processor", kernel.name());
        }
    }
    Ok(())
}

fn free_mib() -> Option<u64> {
    let text = fs_err::read_to_string("/proc/meminfo").ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(value.split_whitespace().next()?.parse::<u64>().ok()? / 1024)
}

/// Synthetic data through training and evaluation; held-out queries must do better than chance.
fn self_test() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (data, run) = (dir.path().join("data"), dir.path().join("run"));
    fs_err::create_dir_all(&data)?;
    let modality =
        |name: &str, width, form| SynthModality { name: name.to_owned(), width, form };
    let spec = SynthSpec {
        first: 0,
        items: 800,
        labels: 8,
        per_item: 2.0,
        noise: 0.5,
        seed: 0,
        modalities: vec![
            modality("image", 32, SynthForm::Dense),
            modality("text", 100, SynthForm::Sparse),
        ],
    };
    synth::synth(&spec, &data, &|_| {})?;
    let set = ["hidden=64", "hidden_sparse=64", "epochs=8", "learning_rate=0.05"];
    let code = train::run(&train::Args {
        data,
        out: run.clone(),
        config: None,
        set: set.map(str::to_owned).to_vec(),
        method: None,
        bits: Some(32),
        root: None,
        data_args: DataArgs::default(),
        resume: false,
        update: false,
        refit: false,
        json: false,
    })?;
    if code != ExitCode::SUCCESS {
        bail!("the self-test was interrupted");
    }
    let report = crosshash::RunDir::open(&run)?.report()?;
    if report.directions.is_empty() {
        bail!("the self-test evaluated no direction");
    }
    for direction in &report.directions {
        let map = direction.report["map"]["tie_aware"].as_f64().unwrap_or(0.0);
        let chance = direction.report["chance"].as_f64().unwrap_or(1.0);
        if map <= chance {
            bail!("the self-test learnt nothing: MAP {map:.3}, chance {chance:.3}");
        }
    }
    Ok(())
}
