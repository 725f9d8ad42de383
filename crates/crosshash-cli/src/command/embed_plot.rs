//! `crosshash embed-plot`: a t-SNE map of the outputs of a run, with all modalities and centres.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use crosshash::data::Training;
use crosshash::embed::{Options, Spot, embed};
use crosshash::{Model, RunDir};

use crate::data_args::DataArgs;
use crate::file;
use crate::fit::split;
use crate::plot::embedding;
use crate::progress::{Progress, say};

const EXAMPLES: &str = "\
Examples:
  The ten most frequent labels of a run, as a figure:
    crosshash embed-plot run --out map.svg

  Labels by name, with the coordinates as a table:
    crosshash embed-plot run --labels cat,heart,clock --out map.csv

  A run copied from another machine, with its data in another folder:
    crosshash embed-plot run --data configs/data/iaprtc12.toml --root PATH/iaprtc12 --out map.svg

The map shows the normalised real outputs of training items and the centres, projected by t-SNE.
Shapes are modalities, colours are labels. Modalities are aligned where their items surround the
same centre.";

/// Plot a t-SNE map of the outputs of a run: all modalities and the centres.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of the run.
    run: PathBuf,

    /// Output file: a figure (.svg), or the coordinates as a table (.csv).
    #[arg(long, value_name = "FILE")]
    out: PathBuf,

    /// Data set of the run, if it has moved.
    #[arg(long, value_name = "DATA")]
    data: Option<PathBuf>,

    /// Folder of the files that the manifest names [default: the manifest's folder].
    #[arg(long, value_name = "PATH", requires = "data")]
    root: Option<PathBuf>,

    /// Labels to show, by name [default: the most frequent ones].
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    labels: Vec<String>,

    /// Number of labels, if none are named.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=14))]
    classes: u8,

    /// Maximum items per modality.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    items: usize,

    /// Perplexity of t-SNE (effective number of neighbours).
    #[arg(long, value_name = "P", default_value_t = 30.0)]
    perplexity: f32,

    /// Iterations of t-SNE.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    iterations: usize,

    #[command(flatten)]
    data_args: DataArgs,

    /// Seed of the sample and the initial coordinates.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let ending = args.out.extension().and_then(|ext| ext.to_str()).unwrap_or("");
    if !["svg", "csv"].contains(&ending) {
        bail!("--out {}: the file name must end in .svg or .csv", args.out.display());
    }
    let run = RunDir::open(&args.run)?;
    let (model, config) = (run.model()?, run.config()?);
    let (path, root) = data_source(args, &run)?;
    let mut opened = args.data_args.open_for_model(&path, root.as_deref(), &model)?;
    let split = split(&mut opened, config.validation())?;
    let training = opened.dataset.training(&split);
    check(&run, &model, &training)?;
    let options = Options {
        labels: args.labels.clone(),
        n_labels: args.classes.into(),
        items: args.items,
        every_label: false,
        perplexity: args.perplexity,
        fewer: false,
        iterations: args.iterations,
        seed: args.seed,
    };
    let progress = Progress::new("t-SNE", args.iterations);
    let spots = embed(&model, &training, &options, &|done| progress.set(done))?;
    drop(progress);
    match ending {
        "svg" => embedding::draw(&args.out, opened.dataset.name(), &spots)?,
        _ => file::write(&args.out, &to_csv(&spots))?,
    }
    say(format!("{} points in {}", spots.len(), args.out.display()));
    Ok(ExitCode::SUCCESS)
}

/// The map shows the training items: rejects other data.
fn check(run: &RunDir, model: &Model, training: &Training<'_>) -> Result<()> {
    let split = format!("{:016x}", training.split_hash());
    let same = run.report()?.split == split;
    if !same || model.labels() != training.label_names() {
        bail!(
            "{} was trained on other data (labels or split differ); specify its data by --data \
             and --root",
            run.path().display()
        );
    }
    Ok(())
}

/// Where the data are: from --data, or from the report of the run.
fn data_source(args: &Args, run: &RunDir) -> Result<(PathBuf, Option<PathBuf>)> {
    if let Some(data) = &args.data {
        return Ok((data.clone(), args.root.clone()));
    }
    let report = run.report()?;
    if !report.is_data_available() {
        bail!(
            "the data set of the run, {}, does not exist any more; specify --data",
            report.data.display()
        );
    }
    Ok((report.data, report.root))
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
