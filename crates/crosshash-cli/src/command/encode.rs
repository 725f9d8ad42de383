//! `crosshash encode`: codes for any items, by a trained model.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use crosshash::encode::encode;
use crosshash::{Model, data};
use crosshash_codes::format::CodeFile;
use crosshash_codes::{BitOrder, npy};

use crate::progress::{Progress, say};

const EXAMPLES: &str = "\
Examples:
  Features from a network, one row an item, to packed codes for NumPy and FAISS:
    crosshash encode run --modality image --input features.npy --out codes.npy

  Texts, one a line, to a code file:
    crosshash encode run --modality words --input texts.txt --out codes.codes

Codes in .npy are uint8, eight bits a byte, lowest bit first.";

/// Encode items of one modality by a trained model.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of the run.
    run: PathBuf,

    /// The modality the items are of.
    #[arg(long, value_name = "NAME")]
    modality: String,

    /// The items: rows of numbers (.npy, .npz, .mat, .csv, ...), or a text file, one item a line.
    #[arg(long, value_name = "FILE")]
    input: PathBuf,

    /// Where the codes go: .npy (packed) or .codes.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let ending = args.out.extension().and_then(|ext| ext.to_str()).unwrap_or("");
    if !["npy", "codes"].contains(&ending) {
        bail!("--out {}: name a file that ends in .npy or .codes", args.out.display());
    }
    let model = Model::load(&args.run).with_context(|| in_run(&args.run))?;
    let preparation = model.preparation(&args.modality).context("--modality")?;
    let features = data::items(&args.input, preparation.is_text())?;
    let progress = Progress::new("encoding", features.len());
    let codes = encode(&model, &args.modality, features, &|done| progress.set(done))
        .with_context(|| args.input.display().to_string())?;
    drop(progress);
    match ending {
        "npy" => npy::write_packed(&args.out, &codes, BitOrder::Lsb)?,
        _ => CodeFile::new(codes.clone()).write(&args.out)?,
    }
    say(format!("{} codes of {} bits", codes.len(), codes.bits().get()));
    Ok(ExitCode::SUCCESS)
}

fn in_run(run: &Path) -> String {
    format!("reading the model in {}", run.display())
}
