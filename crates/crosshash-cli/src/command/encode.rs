//! `crosshash encode`: codes of any items, computed by a trained model.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use crosshash::{QueryEncoder, RunDir, encode};
use crosshash_codes::format::{CodeFile, Ids};
use crosshash_codes::{BitOrder, npy};

use crate::data_args::ExtractArgs;
use crate::progress::{Progress, say};
use crate::weight_paths::WeightPaths;

const EXAMPLES: &str = "\
Examples:
  Features from a network, one row per item, to packed codes for NumPy and FAISS:
    crosshash encode run --modality image --input features.npy --out codes.npy

  Pictures of a folder, a zip, a tar or a list of paths (.txt), with the backbone of the run:
    crosshash encode run --modality image --input photos/ --weights PATH --out photos.codes

  Texts, one per line, to a code file:
    crosshash encode run --modality words --input texts.txt --out codes.codes

Codes in .npy are uint8, eight bits per byte, lowest bit first. A .codes file of pictures contains
their paths as ids.";

/// Encode items of one modality with a trained model.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of the run.
    run: PathBuf,

    /// Modality of the items.
    #[arg(long, value_name = "NAME")]
    modality: String,

    /// The items: features (.npy, .npz, .mat, .csv, ...), texts (one per line), or pictures (a
    /// folder, a zip, a tar, or a list of paths in a .txt file).
    #[arg(long, value_name = "FILE")]
    input: PathBuf,

    /// Output file: .npy (packed bits) or .codes.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,

    #[command(flatten)]
    weight_paths: WeightPaths,

    #[command(flatten)]
    extract_args: ExtractArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let ending = args.out.extension().and_then(|ext| ext.to_str()).unwrap_or("");
    if !["npy", "codes"].contains(&ending) {
        bail!("--out {}: the file name must end in .npy or .codes", args.out.display());
    }
    let weights = args.weight_paths.weights();
    let encoder = QueryEncoder::open(&RunDir::open(&args.run)?, &weights)?;
    let model = encoder.model();
    model.preparation(&args.modality).context("--modality")?;
    let items = args.extract_args.with_extractor(weights, |extractor| {
        encoder.items(&args.modality, &args.input, extractor)
    })?;
    let progress = Progress::new("encoding", items.features.len());
    let codes = encode(model, &args.modality, items.features, &|done| progress.set(done))
        .with_context(|| args.input.display().to_string())?;
    drop(progress);
    match ending {
        "npy" => npy::write_packed(&args.out, &codes, BitOrder::Lsb)?,
        _ => {
            let ids = items.ids.map(Ids::Names);
            CodeFile { ids, ..CodeFile::new(codes.clone()) }.write(&args.out)?;
        }
    }
    say(format!("{} codes of {} bits", codes.len(), codes.bits().get()));
    Ok(ExitCode::SUCCESS)
}
