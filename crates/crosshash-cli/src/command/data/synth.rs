//! `crosshash data synth`: structured multi-label data of any size.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use crosshash::data::synth::{self, Recipe, SynthForm, SynthModality};

use crate::progress::{Progress, say};

/// Make a data set: correlated, unbalanced labels, modalities with private noise.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  crosshash data synth --out toy --items 2000
  crosshash data synth --out big --items 1000000 --labels 81 --modalities image:512,tags:1000:sparse
  crosshash data synth --out three --items 5000 --modalities photo:64,sketch:32,words:500:text --seed 7")]
pub(crate) struct Args {
    /// The folder to write into; made if it is not there.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// How many items.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    items: usize,
    /// How many labels.
    #[arg(long, value_name = "C", default_value_t = 24)]
    labels: usize,
    /// Labels per item, roughly.
    #[arg(long, value_name = "MEAN", default_value_t = 3.0)]
    per_item: f64,
    /// NAME:WIDTH for numbers, NAME:WIDTH:sparse for counted words, NAME:WIDTH:text for texts.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = modality,
        default_value = "image:128,text:500:sparse"
    )]
    modalities: Vec<SynthModality>,
    /// Private noise of each modality, relative to what the labels say.
    #[arg(long, value_name = "SD", default_value_t = 1.0)]
    noise: f64,
    /// The seed: the same seed gives the same files.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Write even if there is a dataset.toml already.
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let manifest = args.out.join(crosshash::data::MANIFEST);
    if manifest.exists() && !args.force {
        bail!("{} is there already; give --force to write over it", manifest.display());
    }
    let recipe = Recipe {
        items: args.items,
        labels: args.labels,
        per_item: args.per_item.min(args.labels as f64),
        noise: args.noise,
        seed: args.seed,
        modalities: args.modalities.clone(),
    };
    let fresh = !args.out.exists();
    fs_err::create_dir_all(&args.out)?;
    let progress = Progress::new("making", args.items * args.modalities.len());
    let paths =
        synth::synth(&recipe, &args.out, &|done| progress.set(done)).inspect_err(|_| {
            // Leave no empty folder behind; one with anything in it stays.
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
        || format!("{text:?} is not NAME:WIDTH, NAME:WIDTH:sparse or NAME:WIDTH:text");
    let (name, width, form) = match text.split(':').collect::<Vec<_>>()[..] {
        [name, width] => (name, width, SynthForm::Dense),
        [name, width, "sparse"] => (name, width, SynthForm::Sparse),
        [name, width, "text"] => (name, width, SynthForm::Text),
        _ => return Err(wanted()),
    };
    let width = width.parse().map_err(|_| wanted())?;
    Ok(SynthModality { name: name.to_owned(), width, form })
}
