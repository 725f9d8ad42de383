//! `crosshash train`: from labelled data to a model and aligned codes, in one folder.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use crosshash::config::RawRun;
use crosshash::data::{self, Choice, Opened, Split};
use crosshash::evaluate::every_direction;
use crosshash::train::{Epoch, Trainer};
use crosshash_codes::eval::Options;
use crosshash_codes::write::atomically;
use serde_json::json;

use crate::directions::{encode_all, to_text, write_codes};
use crate::progress::{Progress, say};

const EXAMPLES: &str = "\
Examples:
  Train 64-bit codes on the built-in data set, and judge them:
    crosshash train emoji --out run
    crosshash eval run

  Two of the modalities of a data set, 32 bits, other settings:
    crosshash train configs/data/iaprtc12.toml --root PATH/iaprtc12 --out run --bits 32 \\
      --set 'modalities=[\"image\", \"german\"]' --set epochs=15 --set lambda=0.0002

  Go on where a stopped training left off:
    crosshash train emoji --out run --resume

RUN holds config.toml (everything that was set), model.safetensors and model.json (weights;
vocabularies and normalisers), codes/, history.csv and report.json. It can be copied.
Every key of config.toml can be given by --set; [modality.NAME] sets hidden, rate, normalise.";

/// Train a model: towers for every modality, one set of centres, aligned binary codes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A data set: its folder, its manifest, or `emoji`.
    data: PathBuf,

    /// Folder for the run; made if it is not there.
    #[arg(long, value_name = "RUN")]
    out: PathBuf,

    /// A configuration to start from (TOML).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Sets one key, over the configuration.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// jcch, jcch-b or scdh.
    #[arg(long, value_name = "NAME")]
    method: Option<String>,

    /// Code length.
    #[arg(long, value_name = "R")]
    bits: Option<usize>,

    /// Where the files of the manifest are, if not beside it.
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,

    /// Go on from the checkpoint in RUN.
    #[arg(long)]
    resume: bool,

    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let raw = configuration(args)?;
    let run = raw.check().context("configuration")?;
    let (config, checkpoint) =
        (args.out.join("config.toml"), args.out.join("checkpoint.safetensors"));
    if config.exists() && !args.resume {
        bail!(
            "{} holds a run already; give --resume to go on with it, or another --out",
            args.out.display()
        );
    }
    let opened = data::open(&args.data, args.root.as_deref())?;
    let split = split(&opened, &raw)?;
    let training = opened.dataset.training(&split);
    let analysis = |name: &str| opened.analysis.get(name).cloned().unwrap_or_default();
    say("preparing");
    let mut trainer = Trainer::new(&run, &training, &analysis)?;
    fs_err::create_dir_all(&args.out)?;
    write(&config, &raw.to_toml()?)?;
    let mut history = History::default();
    if args.resume && checkpoint.exists() {
        trainer.resume(&checkpoint)?;
        history = History::read(&args.out.join("history.csv"))?;
        history.seconds.truncate(trainer.history().len());
        say(format!("going on after epoch {}", trainer.history().len()));
    }
    while !trainer.is_done() {
        epoch(&mut trainer, &mut history, raw.epochs)?;
        trainer.save(&checkpoint)?;
        write(&args.out.join("history.csv"), &history.to_csv(trainer.history()))?;
    }
    let best = trainer.best_epoch();
    let epochs = trainer.history().to_vec();
    let mut model = trainer.finish()?;
    model.save(&args.out)?;
    let coded = encode_all(&model, &opened.dataset, &split)?;
    write_codes(&args.out, &coded)?;
    let coded: Vec<_> = coded.into_iter().map(|(coded, _)| coded).collect();
    let progress = Progress::new("judging directions", coded.len() * coded.len());
    let directions =
        every_direction(&coded, &Options::default(), &|done| progress.set(done))?;
    drop(progress);
    let report = json!({
        "data": args.data.display().to_string(),
        "split": format!("{:016x}", split.hash()),
        "method": raw.method,
        "bits": raw.bits,
        "best_epoch": best,
        "validation_map": best.and_then(|best| epochs[best - 1].map),
        "seconds": history.seconds.last(),
        "directions": directions,
    });
    let report = serde_json::to_string_pretty(&report)? + "\n";
    write(&args.out.join("report.json"), &report)?;
    if checkpoint.exists() {
        fs_err::remove_file(&checkpoint)?;
    }
    if let Some(best) = best {
        say(format!("best epoch by validation: {best} of {}", epochs.len()));
    }
    let text = if args.json { report } else { to_text(&directions, &[]) };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// What the file, the settings and the flags say, each over what was before.
fn configuration(args: &Args) -> Result<RawRun> {
    let text = match &args.config {
        None => String::new(),
        Some(path) => fs_err::read_to_string(path)?,
    };
    let mut settings = args.set.clone();
    settings.extend(args.method.iter().map(|method| format!("method={method:?}")));
    settings.extend(args.bits.iter().map(|bits| format!("bits={bits}")));
    let place =
        args.config.as_ref().map_or("configuration".into(), |p| p.display().to_string());
    RawRun::parse(&text, &settings).with_context(|| place)
}

/// The split of the manifest, with validation items held out of training if it names none.
pub(crate) fn split(opened: &Opened, raw: &RawRun) -> Result<Split> {
    let Some(mut plan) = opened.plan.clone() else { return Ok(opened.split()?) };
    if plan.validation.is_none() && raw.validation > 0.0 {
        plan.validation = Some(Choice::Share(raw.validation));
    }
    Ok(plan.draw(&opened.dataset)?)
}

/// One epoch, with live progress and a line at its end.
pub(crate) fn epoch(
    trainer: &mut Trainer<'_>,
    history: &mut History,
    epochs: usize,
) -> Result<()> {
    let started = Instant::now();
    let before = history.seconds.last().copied().unwrap_or(0.0);
    let number = trainer.history().len() + 1;
    let progress = std::cell::OnceCell::new();
    let row = trainer.epoch(&|done, all| {
        let bar = progress.get_or_init(|| Progress::new(format!("epoch {number}"), all));
        bar.set(done);
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let left = seconds * epochs.saturating_sub(number) as f64;
    let parts = row.modalities.iter().map(|m| {
        format!(
            "{} {:.2}/{:.2}/{:.2}",
            m.name, m.classification, m.attraction, m.quantisation
        )
    });
    let map = row.map.map_or(String::new(), |map| format!(", validation MAP {map:.4}"));
    drop(progress);
    say(format!(
        "epoch {number} of {epochs}: loss {:.3}, {}, pair {:.2}{map}; {seconds:.1} s, {left:.0} s left",
        row.loss,
        parts.collect::<Vec<_>>().join(", "),
        row.pair,
    ));
    history.seconds.push(before + seconds);
    Ok(())
}

/// When each epoch ended, in seconds of training.
#[derive(Default)]
pub(crate) struct History {
    seconds: Vec<f64>,
}

impl History {
    fn read(path: &Path) -> Result<History> {
        let text = fs_err::read_to_string(path)?;
        let seconds =
            |line: &str| line.split(',').nth(1).and_then(|cell| cell.parse().ok());
        Ok(History { seconds: text.lines().skip(1).filter_map(seconds).collect() })
    }

    fn to_csv(&self, epochs: &[Epoch]) -> String {
        let mut out = String::from("epoch,seconds,rate,loss,pair,validation_map");
        for m in epochs.first().map_or(&[][..], |epoch| &epoch.modalities) {
            for part in
                ["classification", "attraction", "classifier", "quantisation", "alpha"]
            {
                out += &format!(",{}.{part}", m.name);
            }
        }
        for (epoch, seconds) in epochs.iter().zip(&self.seconds) {
            let map = epoch.map.map_or(String::new(), |map| map.to_string());
            out += &format!(
                "\n{},{seconds:.3},{},{},{},{map}",
                epoch.epoch, epoch.rate, epoch.loss, epoch.pair
            );
            for m in &epoch.modalities {
                out += &format!(
                    ",{},{},{},{},{}",
                    m.classification, m.attraction, m.classifier, m.quantisation, m.alpha
                );
            }
        }
        out + "\n"
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    atomically(path, |out| Ok(out.write_all(text.as_bytes())?))?;
    Ok(())
}
