//! `crosshash train`: from labelled data to a model and aligned codes, in one folder.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use crosshash::data::{LoadedDataset, Split, SplitSpec};
use crosshash::evaluate::Direction;
use crosshash::suggest::suggest;
use crosshash::{Config, FinishedTraining, RunDir, RunReport};

use crate::data_args::DataArgs;
use crate::evaluation::{encode_all, to_text};
use crate::fit::{Checkpoints, Fitted, Lines, fit, fit_with, split};
use crate::interrupt;
use crate::plot::convergence;
use crate::progress::{Progress, say};

const EXAMPLES: &str = "\
Examples:
  Train 64-bit codes on the built-in data set and evaluate them:
    crosshash train emoji --out run
    crosshash eval run

  Two modalities of a data set, 32 bits, other settings:
    crosshash train configs/data/iaprtc12.toml --root PATH/iaprtc12 --out run --bits 32 \\
      --set 'modalities=[\"image\", \"german\"]' --set epochs=15 --set jcch.lambda=0.0002

  From pictures and captions (the manifest specifies a backbone; docs/pictures.md):
    crosshash train configs/data/iaprtc12-raw.toml --root PATH/iaprtc12 --weights PATH --out run

  End to end: fine-tune a network on the pictures of a modality (docs/training.md):
    crosshash train configs/data/sketchy125.toml --root PATH/sketchy125 --out run \\
      --set modality.photo.network=resnet18 --set modality.photo.weights=resnet18.pth \\
      --set modality.sketch.network=resnet18 --set modality.sketch.weights=resnet18.pth \\
      --set modality.photo.micro_batch=16 --set modality.sketch.micro_batch=16

  Resume an interrupted training with its configuration:
    crosshash train emoji --out run --resume

  Encode the items that the data set has now with the model of the run, without training:
    crosshash train photos --out run --update

RUN contains config.toml (the complete configuration), model.safetensors and model.json (weights;
vocabularies and normalisers), codes/, history.csv, convergence.svg and report.json. It can be
copied to another machine. --set accepts every key of config.toml; docs/training.md lists them.
Ctrl-C saves a checkpoint, and so does every epoch. `crosshash methods` lists the methods.";

/// Train a model: one tower per modality, shared centres, aligned binary codes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data set: a manifest, a folder with one, or `emoji`.
    pub(crate) data: PathBuf,

    /// Folder of the run; created if it does not exist.
    #[arg(long, value_name = "RUN")]
    pub(crate) out: PathBuf,

    /// Configuration file to start from (TOML).
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Set one key; overrides the configuration file. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,

    /// Method, e.g. jcch+ (default), jcch, dcmh or cca; see `crosshash methods`.
    #[arg(long, value_name = "NAME")]
    pub(crate) method: Option<String>,

    /// Code length in bits.
    #[arg(long, value_name = "R")]
    pub(crate) bits: Option<usize>,

    /// Folder of the files that the manifest names [default: the manifest's folder].
    #[arg(long, value_name = "PATH")]
    pub(crate) root: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) data_args: DataArgs,

    /// Resume from the checkpoint in RUN.
    #[arg(long)]
    pub(crate) resume: bool,

    /// Keep the model of RUN, and replace its codes by those of the items that DATA has now. Features of
    /// known pictures come from the cache. The evaluation stays that of the training.
    #[arg(long, conflicts_with_all = ["resume", "refit", "config", "set", "method", "bits"])]
    pub(crate) update: bool,

    /// After the evaluation, train the final model again on all items, queries included.
    #[arg(long)]
    pub(crate) refit: bool,

    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.update {
        return update(args);
    }
    let config = configuration(args)?;
    if RunDir::is_run(&args.out) {
        check_existing(args, &RunDir::open(&args.out)?)?;
    } else if args.resume {
        say(NO_CHECKPOINT);
    }
    if !config.method().codes {
        bail!(
            "{} is a reference without codes: use it in `crosshash compare`; there is no model to \
             save",
            config.method().name
        );
    }
    let mut opened =
        args.data_args.open(&args.data, args.root.as_deref(), config.modalities())?;
    let split = split(&mut opened, config.validation())?;
    say("preparing");
    // The folder is created when the data and the configuration are known to fit.
    let run_dir = RunDir::planned(&args.out);
    let checkpoints = Checkpoints::new(&run_dir, args.resume);
    let Some(fitted) = fit(&config, &opened, &split, Some(&checkpoints))? else {
        let out = args.out.display();
        say(format!(
            "checkpoint saved in {out}; run the same command with --resume to continue"
        ));
        return Ok(interrupt::exit_code());
    };
    if let Some(best) = fitted.best {
        let epochs = fitted.history.epochs.len();
        say(format!("best epoch by validation: {best} of {epochs}"));
    }
    let data = DataSource { path: &args.data, root: args.root.as_deref() };
    let (report, directions) = complete(&run_dir, data, &config, &opened, &split, &fitted)?;
    let lines = Lines::EveryEpoch;
    if args.refit && !refit(&run_dir, &config, &opened, &split, &fitted, lines)? {
        return Ok(interrupt::exit_code());
    }
    run_dir.remove_checkpoint()?;
    run_dir.seal()?;
    let text = if args.json { report } else { to_text(&directions, &[]) };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Encodes the items of the data set with the model of the run.
fn update(args: &Args) -> Result<ExitCode> {
    let run = RunDir::open(&args.out)?;
    if !run.is_finished() {
        bail!("{} contains no finished run to update", args.out.display());
    }
    let (model, config) = (run.model()?, run.config()?);
    let mut opened =
        args.data_args.open_for_model(&args.data, args.root.as_deref(), &model)?;
    let split = split(&mut opened, config.validation())?;
    if opened.dataset.label_names() != model.labels() {
        say(
            "the labels of the data set have changed since the training; new ones are not learnt",
        );
        opened.dataset = opened.dataset.with_label_names(model.labels())?;
    }
    let coded = encode_all(&model, &opened.dataset, &split)?;
    let mut counts = Vec::new();
    for modality in &coded {
        run.save_codes(modality)?;
        let items = modality.coded.queries.len() + modality.coded.database.len();
        counts.push(format!("{items} {}", modality.coded.name));
    }
    say(format!("{}: updated, now {}", args.out.display(), counts.join(", ")));
    Ok(ExitCode::SUCCESS)
}

/// Rejects an existing run that cannot be resumed.
fn check_existing(args: &Args, run: &RunDir) -> Result<()> {
    let out = args.out.display();
    if !args.resume {
        if run.is_started() {
            bail!(
                "{out} already contains a run; use --resume to continue it, or another --out"
            );
        }
        return Ok(());
    }
    if !run.is_started() {
        bail!(
            "the run in {out} ended before its configuration was written; there is nothing to \
             resume: run the command without --resume"
        );
    }
    if !run.has_checkpoint() {
        if run.has_model() {
            bail!(
                "the run in {out} is complete; there is nothing to resume. Use another --out to \
                 train again"
            );
        }
        say(NO_CHECKPOINT);
    }
    Ok(())
}

const NO_CHECKPOINT: &str = "no checkpoint found: starting with the first epoch";

/// Where the data of a run are.
#[derive(Clone, Copy)]
pub(crate) struct DataSource<'a> {
    pub(crate) path: &'a Path,
    pub(crate) root: Option<&'a Path>,
}

/// Saves model, codes, plot and report of a finished training; returns the report.
pub(crate) fn complete(
    run: &RunDir,
    data: DataSource<'_>,
    config: &Config,
    opened: &LoadedDataset,
    split: &Split,
    fitted: &Fitted,
) -> Result<(String, Vec<Direction>)> {
    let Fitted { model, history, best, .. } = fitted;
    let training = FinishedTraining {
        data: data.path.to_owned(),
        root: data.root.map(Path::to_owned),
        config,
        dataset: &opened.dataset,
        split,
        model,
        history: &history.epochs,
        best_epoch: *best,
        seconds: history.seconds.last().copied(),
    };
    let shown: Mutex<Option<(String, Progress)>> = Mutex::new(None);
    let done = run.complete(&training, &|what, done, all| {
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.as_ref().is_none_or(|(now, _)| now != what) {
            *shown = Some((what.to_owned(), Progress::new(what, all)));
        }
        shown.iter().for_each(|(_, progress)| progress.set(done));
    })?;
    drop(shown);
    let name = format!("{}, {} bits", config.method().name, config.bits().get());
    convergence::draw(&run.convergence_plot_path(), &[(&name, history, *best)])?;
    Ok(done)
}

/// Trains again on all items with the settings of a finished training, and replaces its model and codes. The
/// evaluation stays that of the first model, which did not see the queries. False if it was interrupted:
/// the run is then as before.
pub(crate) fn refit(
    run: &RunDir,
    config: &Config,
    opened: &LoadedDataset,
    split: &Split,
    first: &Fitted,
    lines: Lines,
) -> Result<bool> {
    say("training the final model on all items");
    let all = SplitSpec::default().draw(&opened.dataset)?;
    let rotation = format!("rotation={}", first.rotation.unwrap_or("none"));
    let epochs = format!("epochs={}", first.history.epochs.len().max(1));
    let config = config.with(&[rotation, epochs])?;
    let fitted = fit_with(&config, opened, &all, None, lines)?;
    let Some(fitted) = fitted else { return Ok(false) };
    let coded = encode_all(&fitted.model, &opened.dataset, split)?;
    run.save_model(&fitted.model)?;
    for modality in &coded {
        run.save_codes(modality)?;
    }
    let suggestions = suggest(&fitted.model, &opened.dataset, split, &coded)?;
    run.save_report(&RunReport { refit: true, suggestions, ..run.report()? })?;
    Ok(true)
}

/// The configuration: file, then --set, then flags; later values override earlier ones.
fn configuration(args: &Args) -> Result<Config> {
    let existing = if args.resume {
        RunDir::open(&args.out).ok().filter(RunDir::is_started)
    } else {
        None
    };
    let text = match (&args.config, &existing) {
        (Some(path), _) => fs_err::read_to_string(path)?,
        (None, Some(run)) => run.config_text()?,
        (None, None) => String::new(),
    };
    let mut settings = args.set.clone();
    settings.extend(args.method.iter().map(|method| format!("method={method:?}")));
    settings.extend(args.bits.iter().map(|bits| format!("bits={bits}")));
    let place =
        args.config.as_ref().map_or("configuration".into(), |p| p.display().to_string());
    Config::parse(&text, &settings).with_context(|| place)
}
