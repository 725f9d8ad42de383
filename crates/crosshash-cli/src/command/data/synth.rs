//! `crosshash data synth`: generates structured multi-label data of any size.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use crosshash::data::synth::{self, SynthForm, SynthModality, SynthSpec};

use crate::progress::{Progress, say};

/// Generate a data set with correlated, unbalanced labels and noisy modalities.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  crosshash data synth --out toy --items 2000
  crosshash data synth --out big --items 1000000 --labels 81 --modalities image:512,tags:1000:sparse
  crosshash data synth --out three --items 5000 --modalities photo:64,sketch:32,words:500:text --seed 7")]
pub(crate) struct Args {
    /// Output folder; created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Number of items.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    items: usize,
    /// Number of labels.
    #[arg(long, value_name = "C", default_value_t = 24)]
    labels: usize,
    /// Approximate number of labels per item.
    #[arg(long, value_name = "MEAN", default_value_t = 3.0)]
    per_item: f64,
    /// Modalities: NAME:WIDTH (dense), NAME:WIDTH:sparse (word counts) or NAME:WIDTH:text.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = modality,
        default_value = "image:128,text:500:sparse"
    )]
    modalities: Vec<SynthModality>,
    /// Noise of each modality, relative to the signal of the labels.
    #[arg(long, value_name = "SD", default_value_t = 1.0)]
    noise: f64,
    /// Seed; the same seed gives the same files.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Overwrite an existing dataset.toml.
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let manifest = args.out.join(crosshash::data::MANIFEST);
    if manifest.exists() && !args.force {
        bail!("{} already exists; use --force to overwrite it", manifest.display());
    }
    let spec = SynthSpec {
        items: args.items,
        first: 0,
        labels: args.labels,
        per_item: args.per_item.min(args.labels as f64),
        noise: args.noise,
        seed: args.seed,
        modalities: args.modalities.clone(),
    };
    let fresh = !args.out.exists();
    fs_err::create_dir_all(&args.out)?;
    let progress = Progress::new("generating", args.items * args.modalities.len());
    let paths =
        synth::synth(&spec, &args.out, &|done| progress.set(done)).inspect_err(|_| {
            // Remove the new folder if it is empty.
            if fresh {
                let _ = fs_err::remove_dir(&args.out);
            }
        })?;
    drop(progress);
    for path in paths {
        say(format!("wrote {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn modality(text: &str) -> Result<SynthModality, String> {
    let wanted =
        || format!("{text:?}: expected NAME:WIDTH, NAME:WIDTH:sparse or NAME:WIDTH:text");
    let (name, width, form) = match text.split(':').collect::<Vec<_>>()[..] {
        [name, width] => (name, width, SynthForm::Dense),
        [name, width, "sparse"] => (name, width, SynthForm::Sparse),
        [name, width, "text"] => (name, width, SynthForm::Text),
        _ => return Err(wanted()),
    };
    let width = width.parse().map_err(|_| wanted())?;
    Ok(SynthModality { name: name.to_owned(), width, form })
}
