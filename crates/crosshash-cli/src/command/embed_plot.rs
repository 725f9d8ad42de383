//! `crosshash embed-plot`: a map of what a run learnt, all modalities and the centres.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use crosshash::data::Training;
use crosshash::embed::{Options, Spot, embed};
use crosshash::{Config, Model};

use crate::fit::{CONFIG, split};
use crate::opening::Raw;
use crate::plot::embedding;
use crate::progress::{Progress, say};
use crate::{file, report};

const EXAMPLES: &str = "\
Examples:
  The ten most frequent labels of a run, as a picture:
    crosshash embed-plot run --out map.svg

  Labels by name, and the places as a table for other tools:
    crosshash embed-plot run --labels cat,heart,clock --out map.csv

  A run that was copied from another machine: say where its data are now:
    crosshash embed-plot run --data configs/data/iaprtc12.toml --root PATH/iaprtc12 --out map.svg

It draws the real outputs of training items, divided by their lengths, and the centres, through
t-SNE. Shapes are modalities, colours are labels; where modalities lie on each other around
their centre, they are aligned.";

/// Draw a map (t-SNE) of a run's outputs: every modality and the centres.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of the run.
    run: PathBuf,

    /// The picture (.svg), or the places as a table (.csv).
    #[arg(long, value_name = "FILE")]
    out: PathBuf,

    /// The data set the run was trained on, if it is not where it was.
    #[arg(long, value_name = "DATA")]
    data: Option<PathBuf>,

    /// Where the files of the manifest are, if not beside it.
    #[arg(long, value_name = "PATH", requires = "data")]
    root: Option<PathBuf>,

    /// Labels to draw, by name; the most frequent ones if none are given.
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    labels: Vec<String>,

    /// How many labels, if none are named.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=14))]
    classes: u8,

    /// Items of each modality, at most.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    items: usize,

    /// About how many neighbours count.
    #[arg(long, value_name = "P", default_value_t = 30.0)]
    perplexity: f32,

    /// Iterations.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    iterations: usize,

    #[command(flatten)]
    raw: Raw,

    /// Seed of the sample and the start.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let ending = args.out.extension().and_then(|ext| ext.to_str()).unwrap_or("");
    if !["svg", "csv"].contains(&ending) {
        bail!("--out {}: name a file that ends in .svg or .csv", args.out.display());
    }
    let model = Model::load(&args.run)
        .with_context(|| format!("reading the model in {}", args.run.display()))?;
    let config = Config::parse(&fs_err::read_to_string(args.run.join(CONFIG))?, &[])
        .with_context(|| args.run.join(CONFIG).display().to_string())?;
    let (path, root) = place(args)?;
    let opened = args.raw.open_as(&path, root.as_deref(), &model)?;
    let split = split(&opened, config.validation())?;
    let training = opened.dataset.training(&split);
    check(args, &model, &training)?;
    let options = Options {
        labels: args.labels.clone(),
        n_labels: args.classes.into(),
        items: args.items,
        perplexity: args.perplexity,
        fewer: false,
        iterations: args.iterations,
        seed: args.seed,
    };
    let progress = Progress::new("arranging", args.iterations);
    let spots = embed(&model, &training, &options, &|done| progress.set(done))?;
    drop(progress);
    match ending {
        "svg" => embedding::draw(&args.out, opened.dataset.name(), &spots)?,
        _ => file::write(&args.out, &to_csv(&spots))?,
    }
    say(format!("{} places in {}", spots.len(), args.out.display()));
    Ok(ExitCode::SUCCESS)
}

/// The map is of the items that were learnt from: refuses other data.
fn check(args: &Args, model: &Model, training: &Training<'_>) -> Result<()> {
    let report = report::read(&args.run)?;
    let split = format!("{:016x}", training.split_hash());
    let same = report["split"].as_str().is_none_or(|known| known == split);
    if !same || model.labels() != training.label_names() {
        bail!(
            "the data are not those that {} was trained on (labels or split differ); give --data \
             and --root where they are now",
            args.run.display()
        );
    }
    Ok(())
}

/// Where the data are: as told, or as the run's report remembers.
fn place(args: &Args) -> Result<(PathBuf, Option<PathBuf>)> {
    if let Some(data) = &args.data {
        return Ok((data.clone(), args.root.clone()));
    }
    let (data, root) = report::learnt(&report::read(&args.run)?)
        .context("the run does not say which data it learnt; give --data")?;
    if !report::is_there(&data) {
        bail!(
            "{}, which the run learnt, is not there any more; give --data",
            data.display()
        );
    }
    Ok((data, root))
}

fn to_csv(spots: &[Spot]) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut out = String::from("kind,id,label,x,y\n");
    for Spot { modality, id, label, at: [x, y] } in spots {
        let kind = modality.as_deref().unwrap_or("centre");
        out += &format!("{},{},{},{x},{y}\n", quoted(kind), quoted(id), quoted(label));
    }
    out
}
