//! `crosshash encode`: codes for any items, by a trained model.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use crosshash::encode::encode;
use crosshash_codes::format::{CodeFile, Ids};
use crosshash_codes::{BitOrder, npy};

use crate::asking::Asker;
use crate::opening::Extracting;
use crate::places::Places;
use crate::progress::{Progress, say};

const EXAMPLES: &str = "\
Examples:
  Features from a network, one row an item, to packed codes for NumPy and FAISS:
    crosshash encode run --modality image --input features.npy --out codes.npy

  Pictures of a folder, a zip, a tar, or of a list of paths (.txt), by the run's backbone:
    crosshash encode run --modality image --input photos/ --weights PATH --out photos.codes

  Texts, one a line, to a code file:
    crosshash encode run --modality words --input texts.txt --out codes.codes

Codes in .npy are uint8, eight bits a byte, lowest bit first. A .codes file of pictures has their
paths as ids.";

/// Encode items of one modality by a trained model.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of the run.
    run: PathBuf,

    /// The modality the items are of.
    #[arg(long, value_name = "NAME")]
    modality: String,

    /// The items: rows of numbers (.npy, .npz, .mat, .csv, ...), a text file, one item a line, or
    /// pictures: a folder, a zip, a tar, or a list of paths (.txt).
    #[arg(long, value_name = "FILE")]
    input: PathBuf,

    /// Where the codes go: .npy (packed) or .codes.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,

    #[command(flatten)]
    places: Places,

    #[command(flatten)]
    extracting: Extracting,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let ending = args.out.extension().and_then(|ext| ext.to_str()).unwrap_or("");
    if !["npy", "codes"].contains(&ending) {
        bail!("--out {}: name a file that ends in .npy or .codes", args.out.display());
    }
    let asker = Asker::open(&args.run, &args.places)?;
    let model = asker.model();
    model.preparation(&args.modality).context("--modality")?;
    let (features, ids) = asker.input(&args.modality, &args.input, &args.extracting)?;
    let progress = Progress::new("encoding", features.len());
    let codes = encode(model, &args.modality, features, &|done| progress.set(done))
        .with_context(|| args.input.display().to_string())?;
    drop(progress);
    match ending {
        "npy" => npy::write_packed(&args.out, &codes, BitOrder::Lsb)?,
        _ => {
            let ids = ids.map(Ids::Names);
            CodeFile { ids, ..CodeFile::new(codes.clone()) }.write(&args.out)?;
        }
    }
    say(format!("{} codes of {} bits", codes.len(), codes.bits().get()));
    Ok(ExitCode::SUCCESS)
}
