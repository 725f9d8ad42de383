//! `crosshash start`: from a folder of pictures or a table to a search page, with one command.
//!
//! It recognises the data, asks what it cannot decide, and runs other commands, which it prints:
//! `data import`, `backbones fetch`, `data guess`, `train` and `serve`. A second start encodes what is
//! new with the existing model.

mod question;
mod settings;
mod state;
mod watch;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use crosshash::data::import::{self, Proposal};
use crosshash::data::{MANIFEST, Manifest};
use crosshash::{RunDir, backbone, guess};

use super::serve::ServeArgs;
use super::{backbones, data, train};
use crate::data_args::{DataArgs, ExtractArgs};
use crate::progress::{Progress, say};
use crate::serve::{DataLocation, StoreOptions};
use crate::weight_paths::WeightPaths;
use question::ask;
use state::State;

const EXAMPLES: &str = "\
Examples:
  A folder of photos, with or without captions, to a search page:
    crosshash start photos/

  A catalogue; every question is answered with yes:
    crosshash start shop/items.csv --yes --open

  Keep the page up to date while pictures are added and removed:
    crosshash start photos/ --watch

What is there is recognised: folders of pictures, a folder per class, captions in .txt files, CSV, TSV,
JSONL and Parquet tables with picture paths or embedded pictures. Labels are not needed. The results are
in a folder beside the data (--out): data/ with the manifest, run/ with the model. The steps are commands
of this program and are printed, so that they can be repeated with other settings. A second start
encodes new pictures with the existing model; --retrain trains again.";

/// The smallest number of items that can be trained on and evaluated.
const FEWEST: usize = 20;
/// The smallest database for which the share of queries that find their item is reported.
const FEW_TO_FIND: u64 = 50;
/// The backbone that is fetched.
const BACKBONE: &str = "efficientnet-lite0";
/// The built-in backbone.
const BUILT_IN: &str = "descriptor";

/// From a folder of pictures or a table to a search page, in one command.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of pictures, or a table (CSV, TSV, JSONL, Parquet).
    source: PathBuf,

    /// Folder of the results [default: NAME-crosshash beside the folder of the data].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Answer every question with yes: take guesses, and fetch weights.
    #[arg(long, short)]
    yes: bool,

    /// Train again, although there is a model.
    #[arg(long)]
    retrain: bool,

    /// While serving, look for new, changed and removed files, and update the index.
    #[arg(long)]
    watch: bool,

    /// Exit after the training.
    #[arg(long)]
    no_serve: bool,

    /// Backbone for pictures [default: efficientnet-lite0, or the built-in descriptor if it cannot be
    /// fetched].
    #[arg(long, value_name = "NAME")]
    backbone: Option<String>,

    /// Code length in bits.
    #[arg(long, value_name = "R", default_value_t = 64)]
    bits: usize,

    /// Set one key of the training configuration, e.g. epochs=5. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    #[command(flatten)]
    serve_args: ServeArgs,

    #[command(flatten)]
    weight_paths: WeightPaths,

    /// Folder of the feature cache, or `none` [default: $CROSSHASH_CACHE or the user's cache
    /// folder].
    #[arg(long, value_name = "DIR", help_heading = "Backbones")]
    cache: Option<PathBuf>,
}

/// The folders of a start.
#[derive(Debug, Clone)]
pub(super) struct Folders {
    pub(super) source: PathBuf,
    pub(super) out: PathBuf,
    pub(super) data: PathBuf,
    pub(super) run: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let folders = folders(args)?;
    if !args.no_serve {
        // Report a port in use before the training, not after it.
        let addr = args.serve_args.address()?;
        std::net::TcpListener::bind(addr)
            .with_context(|| format!("--addr {addr}: cannot listen on this address"))?;
    }
    let code = prepare(args, &folders)?;
    if code != ExitCode::SUCCESS || args.no_serve {
        return Ok(code);
    }
    step(&["serve".into(), shown(&folders.run)]);
    let watching =
        args.watch.then(|| watch::start(folders.clone(), args.update_args(&folders)));
    let data = DataLocation::default();
    let (weights, stores) = (args.weight_paths.clone(), StoreOptions::default());
    let served = args.serve_args.serve(folders.run.clone(), None, data, weights, stores);
    drop(watching);
    served
}

/// The folders; the results must not be among the data.
fn folders(args: &Args) -> Result<Folders> {
    let source = fs_err::canonicalize(&args.source)?;
    let folder =
        if source.is_dir() { source.as_path() } else { source.parent().unwrap_or(&source) };
    let out = match &args.out {
        Some(out) => std::path::absolute(out)?,
        None => {
            let name = folder.file_name().context("the root folder needs --out DIR")?;
            folder.with_file_name(format!("{}-crosshash", name.to_string_lossy()))
        }
    };
    if let Ok(below) = out.strip_prefix(folder) {
        let hidden = below.components().any(|part| {
            part.as_os_str().to_str().is_some_and(|part| part.starts_with('.'))
        });
        if !hidden {
            bail!(
                "--out {}: the results would be among the data; choose a folder outside {}, or a \
                 hidden one (.crosshash)",
                out.display(),
                folder.display()
            );
        }
    }
    Ok(Folders { data: out.join("data"), run: out.join("run"), source, out })
}

/// Everything before serving: only what is missing or has changed.
fn prepare(args: &Args, folders: &Folders) -> Result<ExitCode> {
    let state = State::read(&folders.out)?;
    if let Some(state) = state.as_ref().filter(|state| state.source != folders.source) {
        bail!(
            "{} belongs to {}; use another --out",
            folders.out.display(),
            state.source.display()
        );
    }
    let fingerprint = import::fingerprint(&folders.source)?;
    let finished = RunDir::open(&folders.run).is_ok_and(|run| run.is_finished());
    if finished && !args.retrain {
        if state.is_some_and(|state| state.fingerprint == fingerprint) {
            say(format!(
                "{}: nothing has changed since the last start",
                shown(&folders.out)
            ));
            return Ok(ExitCode::SUCCESS);
        }
        say(
            "the data have changed: the existing model encodes what is new (--retrain trains again)",
        );
        return update(folders, &args.update_args(folders), fingerprint);
    }
    let fresh = !folders.out.exists();
    let made = import_data(args, folders);
    let Some(backbone) = made.inspect_err(|_| clean(folders, fresh))? else {
        clean(folders, fresh);
        return Ok(ExitCode::SUCCESS);
    };
    let trained = train_on(args, folders, backbone);
    if trained.is_err() && !folders.run.exists() {
        clean(folders, fresh);
    }
    let code = trained?;
    if code == ExitCode::SUCCESS {
        State { source: folders.source.clone(), fingerprint }.write(&folders.out)?;
    }
    Ok(code)
}

/// Removes what a start wrote before it failed, if nothing was there before.
fn clean(folders: &Folders, fresh: bool) {
    if fresh && folders.out.exists() {
        let _ = fs_err::remove_dir_all(&folders.out);
    }
}

/// Recognises the data and writes the manifest. Returns the backbone of the pictures (empty if there are
/// none), or `None` if the user does not want to continue.
fn import_data(args: &Args, folders: &Folders) -> Result<Option<String>> {
    let mut proposal = import::import(&folders.source, &folders.data, None)?;
    say(format!("{}: {} items", shown(&folders.source), proposal.items));
    data::import::report(&proposal);
    if proposal.items < FEWEST {
        bail!(
            "{}: {} items are too few to learn from; at least {FEWEST} are needed",
            folders.source.display(),
            proposal.items
        );
    }
    if proposal.is_doubtful() && !ask("Some of this is a guess. Continue?", args.yes)? {
        say(format!(
            "Nothing was written. To decide yourself: crosshash data import {} --out DIR, edit \
             DIR/{MANIFEST}, then crosshash train DIR --out RUN",
            shown(&folders.source)
        ));
        return Ok(None);
    }
    let backbone = if has_pictures(&proposal.manifest) {
        choose_backbone(args)?
    } else {
        String::new()
    };
    write(&mut proposal, folders, &backbone)?;
    Ok(Some(backbone))
}

fn has_pictures(manifest: &Manifest) -> bool {
    manifest.modality.values().any(|source| source.pictures.is_some())
}

fn write(proposal: &mut Proposal, folders: &Folders, backbone: &str) -> Result<()> {
    let sources = proposal.manifest.modality.values_mut();
    for source in sources.filter(|source| source.pictures.is_some()) {
        source.backbone = Some(backbone.to_owned());
    }
    step(&[
        "data".into(),
        "import".into(),
        shown(&folders.source),
        "--out".into(),
        shown(&folders.data),
    ]);
    let progress = Progress::new("writing embedded pictures", proposal.items);
    proposal.write(&folders.data, &|done| progress.set(done))?;
    Ok(())
}

/// The backbone of pictures; its weights are fetched if the user agrees.
fn choose_backbone(args: &Args) -> Result<String> {
    let name = args.backbone.as_deref().unwrap_or(BACKBONE);
    let info = backbone::info(name).context("--backbone")?;
    if info.find(&args.weight_paths.weights()).is_ok() {
        return Ok(name.to_owned());
    }
    let question = format!(
        "The pictures need the network {name} ({}, {}), which is not here. Fetch it now?",
        info.what, info.licence
    );
    let to = WeightPaths::download_folder();
    if !ask(&question, args.yes)? {
        say(format!(
            "continuing with the built-in {BUILT_IN}: it sees colours and shapes, not things"
        ));
        return Ok(BUILT_IN.to_owned());
    }
    step(&["backbones".into(), "fetch".into(), name.into()]);
    let to = to.context("there is no cache folder; set CROSSHASH_CACHE")?;
    match backbones::fetch::fetch(info, &to) {
        Ok(()) => Ok(name.to_owned()),
        Err(err) if args.backbone.is_none() => {
            say(format!("{err:#}"));
            say(format!(
                "continuing with the built-in {BUILT_IN}: it sees colours and shapes, not things; \
                 once {name} is there, use --retrain"
            ));
            Ok(BUILT_IN.to_owned())
        }
        Err(err) => Err(err),
    }
}

/// Guesses words if there are none, and trains.
fn train_on(args: &Args, folders: &Folders, backbone: String) -> Result<ExitCode> {
    guess_words(folders, &args.update_args(folders), &backbone)?;
    let (manifest, _) = Manifest::read(&folders.data)?;
    if args.retrain && RunDir::is_run(&folders.run) {
        fs_err::remove_dir_all(&folders.run)?;
    }
    let resume = RunDir::open(&folders.run).is_ok_and(|run| run.is_started());
    let items = open_count(folders)?;
    let chosen = settings::choose(&manifest, items, args.bits);
    say(&chosen.why);
    let mut set = chosen.set;
    set.extend(args.set.clone());
    let train = train::Args {
        data: folders.data.clone(),
        out: folders.run.clone(),
        config: None,
        set,
        method: Some(chosen.method.to_owned()),
        bits: Some(chosen.bits),
        root: None,
        data_args: args.data_args(),
        resume,
        update: false,
        refit: chosen.refit,
        json: false,
    };
    let mut words =
        vec!["train".to_owned(), shown(&folders.data), "--out".into(), shown(&folders.run)];
    words.extend([
        "--method".into(),
        chosen.method.into(),
        "--bits".into(),
        chosen.bits.to_string(),
    ]);
    words.extend(train.set.iter().flat_map(|set| ["--set".to_owned(), set.clone()]));
    words.push("--skip-bad".into());
    words.extend(chosen.refit.then(|| "--refit".to_owned()));
    words.extend(resume.then(|| "--resume".to_owned()));
    step(&words);
    let code = train::run(&train)?;
    if code == ExitCode::SUCCESS {
        summarise(&folders.run)?;
    }
    Ok(code)
}

/// Says in plain words how well held-out items find each other.
fn summarise(run: &Path) -> Result<()> {
    for direction in RunDir::open(run)?.report()?.directions {
        let (from, to) = (&direction.query, &direction.database);
        let known = &direction.report["known_item"];
        let (Some(found), Some(of)) = (known["r10"].as_f64(), known["database"].as_u64())
        else {
            continue;
        };
        if of < FEW_TO_FIND {
            continue; // the first 10 of so few say nothing
        }
        say(format!(
            "{from} -> {to}: {:.0} % of held-out queries find their own item among the first 10 of {of} \
             (chance {:.0} %)",
            100.0 * found,
            1000.0 / of as f64
        ));
    }
    Ok(())
}

/// Number of items of the largest modality.
fn open_count(folders: &Folders) -> Result<usize> {
    let opened = crate::data_args::open_within_limits(&folders.data, None)?;
    Ok(opened.dataset.modalities().iter().map(|modality| modality.len()).max().unwrap_or(0))
}

/// Adds guessed words to pictures without text, if the backbone classifies.
fn guess_words(folders: &Folders, args: &train::Args, name: &str) -> Result<()> {
    let (manifest, _) = Manifest::read(&folders.data)?;
    let [(modality, source)] = &manifest.modality.iter().collect::<Vec<_>>()[..] else {
        return Ok(());
    };
    if source.pictures.is_none() || manifest.items.is_some() || name.is_empty() {
        return Ok(());
    }
    let weights = args.data_args.weight_paths.weights();
    let classifies = backbone::open(name, &weights)?.backbone().classifier().is_some();
    if !classifies {
        return Ok(());
    }
    step(&[
        "data".into(),
        "guess".into(),
        shown(&folders.data),
        "--backbone".into(),
        name.into(),
        "--skip-bad".into(),
    ]);
    data::guess::run(&data::guess::Args {
        data: folders.data.clone(),
        modality: Some((*modality).clone()),
        backbone: name.to_owned(),
        weight_paths: args.data_args.weight_paths.clone(),
        extract_args: args.data_args.extract_args.clone(),
    })?;
    Ok(())
}

/// Encodes the data as they are now with the existing model.
pub(super) fn update(
    folders: &Folders,
    args: &train::Args,
    fingerprint: u64,
) -> Result<ExitCode> {
    let (before, _) = Manifest::read(&folders.data)?;
    let mut proposal = import::import(&folders.source, &folders.data, None)?;
    let backbone = before.modality.values().find_map(|source| source.backbone.clone());
    let names = |manifest: &Manifest| -> Vec<String> {
        let own = manifest.modality.keys().filter(|name| *name != guess::MODALITY);
        own.cloned().collect()
    };
    if names(&before) != names(&proposal.manifest) {
        bail!(
            "the data are of another kind now ({}, before {}); use --retrain",
            names(&proposal.manifest).join(", "),
            names(&before).join(", ")
        );
    }
    let backbone = backbone.unwrap_or_default();
    write(&mut proposal, folders, &backbone)?;
    guess_words(folders, args, &backbone)?;
    step(&[
        "train".into(),
        shown(&folders.data),
        "--out".into(),
        shown(&folders.run),
        "--update".into(),
        "--skip-bad".into(),
    ]);
    let code = train::run(args)?;
    State { source: folders.source.clone(), fingerprint }.write(&folders.out)?;
    Ok(code)
}

impl Args {
    fn data_args(&self) -> DataArgs {
        DataArgs {
            weight_paths: self.weight_paths.clone(),
            backbone: Vec::new(),
            extract_args: ExtractArgs { skip_bad: true, cache: self.cache.clone() },
        }
    }

    /// Arguments of `train --update`.
    fn update_args(&self, folders: &Folders) -> train::Args {
        train::Args {
            data: folders.data.clone(),
            out: folders.run.clone(),
            config: None,
            set: Vec::new(),
            method: None,
            bits: None,
            root: None,
            data_args: self.data_args(),
            resume: false,
            update: true,
            refit: false,
            json: false,
        }
    }
}

/// Prints a step as the command that does it.
fn step(words: &[String]) {
    let quoted = |word: &String| {
        let plain = |c: char| c.is_alphanumeric() || "-_./=:,+".contains(c);
        if word.chars().all(plain) { word.clone() } else { format!("'{word}'") }
    };
    let words: Vec<String> = words.iter().map(quoted).collect();
    say(format!("$ crosshash {}", words.join(" ")));
}

/// A path relative to the current folder, if it is below it.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let below = here.as_deref().and_then(|here| path.strip_prefix(here).ok());
    match below {
        Some(below) if below.as_os_str().is_empty() => ".".to_owned(),
        Some(below) => below.display().to_string(),
        None => path.display().to_string(),
    }
}
