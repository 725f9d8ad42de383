//! `crosshash train`: from labelled data to a model and aligned codes, in one folder.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use crosshash::data::{Opened, Split};
use crosshash::evaluate::{Direction, every_direction};
use crosshash::{Config, MODEL_JSON};
use crosshash_codes::eval::Options;
use serde_json::json;

use crate::directions::{encode_all, to_text, write_codes};
use crate::fit::{CONFIG, Fitted, Folder, fit, split};
use crate::opening::Raw;
use crate::plot::convergence;
use crate::progress::{Progress, say};
use crate::report::REPORT;
use crate::{file, interrupt};

const EXAMPLES: &str = "\
Examples:
  Train 64-bit codes on the built-in data set, and judge them:
    crosshash train emoji --out run
    crosshash eval run

  Two of the modalities of a data set, 32 bits, other settings:
    crosshash train configs/data/iaprtc12.toml --root PATH/iaprtc12 --out run --bits 32 \\
      --set 'modalities=[\"image\", \"german\"]' --set epochs=15 --set jcch.lambda=0.0002

  From pictures and captions (the manifest names pictures and a backbone; docs/pictures.md):
    crosshash train configs/data/iaprtc12-raw.toml --root PATH/iaprtc12 --weights PATH --out run

  End to end: a network learns from the pictures of a modality (docs/training.md):
    crosshash train configs/data/sketchy125.toml --root PATH/sketchy125 --out run \\
      --set modality.photo.network=resnet18 --set modality.photo.weights=resnet18.pth \\
      --set modality.sketch.network=resnet18 --set modality.sketch.weights=resnet18.pth \\
      --set modality.photo.micro_batch=16 --set modality.sketch.micro_batch=16

  Go on where a stopped training left off, with what it was set to:
    crosshash train emoji --out run --resume

RUN holds config.toml (everything that was set), model.safetensors and model.json (weights;
vocabularies and normalisers), codes/, history.csv, convergence.svg and report.json. It can be
copied to another machine. Every key of config.toml can be given by --set; [modality.NAME] sets
hidden, learning_rate, learning_rate_hidden, normalise; for pictures network, weights, freeze (none, all, up to
LAYER), learning_rate_network, size, micro_batch, batch_norm, augment, crop. Ctrl-C writes a checkpoint, and so does every
epoch of a gradient method. `crosshash methods` lists what --method takes.";

/// Train a model: towers for every modality, one set of centres, aligned binary codes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A data set: its folder, its manifest, or `emoji`.
    pub(crate) data: PathBuf,

    /// Folder for the run; made if it is not there.
    #[arg(long, value_name = "RUN")]
    pub(crate) out: PathBuf,

    /// A configuration to start from (TOML).
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Sets one key, over the configuration.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,

    /// One of `crosshash methods`, e.g. jcch (default), dcmh or cca.
    #[arg(long, value_name = "NAME")]
    pub(crate) method: Option<String>,

    /// Code length.
    #[arg(long, value_name = "R")]
    pub(crate) bits: Option<usize>,

    /// Where the files of the manifest are, if not beside it.
    #[arg(long, value_name = "PATH")]
    pub(crate) root: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) raw: Raw,

    /// Go on from the checkpoint in RUN.
    #[arg(long)]
    pub(crate) resume: bool,

    /// Print the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let config = configuration(args)?;
    if args.out.join(CONFIG).exists() && !args.resume {
        bail!(
            "{} holds a run already; give --resume to go on with it, or another --out",
            args.out.display()
        );
    }
    let folder = Folder::new(&args.out, args.resume);
    if args.resume && !folder.checkpoint().exists() {
        if args.out.join(MODEL_JSON).exists() {
            bail!(
                "{} is finished, there is nothing to go on with; give another --out to train anew",
                args.out.display()
            );
        }
        say("no checkpoint there: starting with the first epoch");
    }
    if !config.method().codes {
        bail!(
            "{} is a reference without codes: it can be compared (crosshash compare), but there \
             is nothing to keep",
            config.method().name
        );
    }
    let opened = args.raw.open(&args.data, args.root.as_deref(), config.modalities())?;
    let split = split(&opened, config.validation())?;
    say("preparing");
    let Some(fitted) = fit(&config, &opened, &split, Some(&folder))? else {
        let out = args.out.display();
        say(format!("go on with the same command and --resume: {out} holds a checkpoint"));
        return Ok(interrupt::exit_code());
    };
    if let Some(best) = fitted.best {
        let epochs = fitted.history.epochs.len();
        say(format!("best epoch by validation: {best} of {epochs}"));
    }
    let data = Data { path: &args.data, root: args.root.as_deref() };
    let (report, directions) =
        complete(&args.out, data, &config, &opened, &split, &fitted)?;
    let checkpoint = folder.checkpoint();
    if checkpoint.exists() {
        fs_err::remove_file(&checkpoint)?;
    }
    let text = if args.json { report } else { to_text(&directions, &[]) };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Where the data of a run are.
#[derive(Clone, Copy)]
pub(crate) struct Data<'a> {
    pub(crate) path: &'a Path,
    pub(crate) root: Option<&'a Path>,
}

impl Data<'_> {
    /// As text that is true in every folder; the built-in data set has only a name.
    fn text(path: &Path) -> String {
        let absolute = match path.exists() {
            true => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            false => path.to_owned(),
        };
        absolute.display().to_string()
    }
}

/// Writes what a finished run holds beside its configuration; gives the report.
pub(crate) fn complete(
    out: &Path,
    data: Data<'_>,
    config: &Config,
    opened: &Opened,
    split: &Split,
    fitted: &Fitted,
) -> Result<(String, Vec<Direction>)> {
    let Fitted { model, history, best } = fitted;
    model.save(out)?;
    let coded = encode_all(model, &opened.dataset, split)?;
    write_codes(out, &coded)?;
    let coded: Vec<_> = coded.into_iter().map(|(coded, _)| coded).collect();
    let progress = Progress::new("judging directions", coded.len() * coded.len());
    let directions =
        every_direction(&coded, &Options::default(), &|done| progress.set(done))?;
    drop(progress);
    let name = format!("{}, {} bits", config.method().name, config.bits());
    convergence::draw(&out.join("convergence.svg"), &[(&name, history, *best)])?;
    let left_out = opened.dataset.left_out().iter().chain(split.left_out());
    let left_out = left_out.map(|left| json!([left.modality, left.reason, left.items]));
    let report = json!({
        "data": Data::text(data.path),
        "root": data.root.map(Data::text),
        "split": format!("{:016x}", split.hash()),
        "left_out": left_out.collect::<Vec<_>>(),
        "notes": split.notes(),
        "method": config.method().name,
        "bits": config.bits().get(),
        "seed": config.seed(),
        "best_epoch": best,
        "validation_map": best.and_then(|best| history.epochs[best - 1].map),
        "seconds": history.seconds.last(),
        "directions": directions,
    });
    let report = serde_json::to_string_pretty(&report)? + "\n";
    file::write(&out.join(REPORT), &report)?;
    Ok((report, directions))
}

/// What the file, the settings and the flags say, each over what was before.
fn configuration(args: &Args) -> Result<Config> {
    // A run that goes on starts from what it was set to.
    let begun = Some(args.out.join(CONFIG)).filter(|path| args.resume && path.exists());
    let text = match args.config.as_ref().or(begun.as_ref()) {
        None => String::new(),
        Some(path) => fs_err::read_to_string(path)?,
    };
    let mut settings = args.set.clone();
    settings.extend(args.method.iter().map(|method| format!("method={method:?}")));
    settings.extend(args.bits.iter().map(|bits| format!("bits={bits}")));
    let place =
        args.config.as_ref().map_or("configuration".into(), |p| p.display().to_string());
    Config::parse(&text, &settings).with_context(|| place)
}
