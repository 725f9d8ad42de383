//! `crosshash data guess`: words for pictures without text, from a backbone that classifies.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use crosshash::backbone;
use crosshash::data::Features;
use crosshash::guess::{self, GuessOptions};

use crate::data_args::{ExtractArgs, open_within_limits};
use crate::progress::say;
use crate::weight_paths::WeightPaths;

/// Add guessed words to pictures without text: the classes that a backbone recognises.
#[derive(clap::Args)]
#[command(after_help = "Example:
  crosshash data import photos/ --out set/
  crosshash data guess set/
  crosshash train set/ --out run

The words are in a modality of their own, `guessed`, with the probability of every class, and the most
likely classes are the labels, if the data set has none. They are guesses: the backbone knows 1,000
classes of ImageNet and always answers with one of them.")]
pub(crate) struct Args {
    /// Folder of a data set with pictures and without an item table.
    pub(crate) data: PathBuf,

    /// Modality of the pictures [default: the only one].
    #[arg(long, value_name = "NAME")]
    pub(crate) modality: Option<String>,

    /// Backbone that classifies.
    #[arg(long, value_name = "NAME", default_value = "efficientnet-lite0")]
    pub(crate) backbone: String,

    #[command(flatten)]
    pub(crate) weight_paths: WeightPaths,

    #[command(flatten)]
    pub(crate) extract_args: ExtractArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let opened = open_within_limits(&args.data, None)?;
    let pictures = opened.dataset.modalities().iter();
    let pictures: Vec<&str> = pictures
        .filter(|modality| matches!(modality.features(), Features::Pictures(_)))
        .map(|modality| modality.name())
        .collect();
    let modality = match (&args.modality, &pictures[..]) {
        (Some(name), _) => name.as_str(),
        (None, [only]) => only,
        (None, _) => anyhow::bail!(
            "--modality: {} modalities have pictures; name one",
            pictures.len()
        ),
    };
    let weights = args.weight_paths.weights();
    let loaded = backbone::open(&args.backbone, &weights).context("--backbone")?;
    let options = GuessOptions::default();
    let guesses = args.extract_args.with_extractor(weights, |extractor| {
        guess::guess(&opened, modality, &loaded, extractor, &options)
    })?;
    let folder = if args.data.is_dir() {
        args.data.as_path()
    } else {
        args.data.parent().unwrap_or(Path::new("."))
    };
    guess::add(folder, &guesses, &options)?;
    say(format!(
        "{}: guessed words of {} pictures; e.g. {}",
        folder.join(guess::TABLE).display(),
        guesses.len(),
        guesses.first().map(guess::Guess::text).unwrap_or_default()
    ));
    Ok(ExitCode::SUCCESS)
}
