//! `crosshash sweep`: the same training under varied settings and seeds, as a table and a figure.

mod figure;
mod plan;
mod table;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use crosshash::data::{LoadedDataset, Part, Split};
use crosshash::evaluate::every_direction;
use crosshash::{Config, add_user_metrics};
use crosshash_codes::eval::Options;
use serde::{Deserialize, Serialize};

use crate::data_args::DataArgs;
use crate::evaluation::encode_all;
use crate::fit::{fit, split};
use crate::progress::say;
use crate::{file, interrupt};
use figure::draw;
use plan::{Plan, Point};
pub(crate) use table::{Row, Table};

const VERSION: &str = env!("CARGO_PKG_VERSION");

const EXAMPLES: &str = "\
Examples:
  The paper's figures (sensitivity to lambda and beta, number of anchors, bits), one setting at a
  time, on the built-in data set:
    crosshash sweep emoji --out sweep --set hidden=512 --set hidden_sparse=512

  Select lambda and beta on validation items, without using the queries:
    crosshash sweep DATA --out choice --grid --vary jcch.lambda=0,0.0002,0.002,0.02 \\
      --vary jcch.beta=0,0.1,1 --validation-only

  A table of code lengths and methods with three seeds each:
    crosshash sweep DATA --out table --grid --vary bits=16,32,64 --vary method=jcch,jcch-b --seeds 3

DIR contains sweep.svg, sweep.md, sweep.csv, sweep.json, and trials/ with one file per training; an
interrupted sweep continues where it stopped. Every key of `crosshash train` that takes one value can
be varied; the value `none` keeps the configured value. The best setting is selected by the score of
the validation items (`select`), never by the queries.";

/// Train with varied settings and seeds: table, figure, best setting by validation.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data set: a manifest, a folder with one, or `emoji`.
    data: PathBuf,

    /// Folder for the results; created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// A key and its values. Can be repeated; keys are varied one at a time.
    #[arg(long, value_name = "KEY=V,V,..", default_values = plan::PAPER)]
    vary: Vec<String>,

    /// Train every combination of the varied keys.
    #[arg(long)]
    grid: bool,

    /// Number of seeds per setting: seed, seed + 1, ...
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u64,

    /// Evaluate only validation items, not the queries.
    #[arg(long)]
    validation_only: bool,

    /// Configuration file to start from (TOML).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Set one key; overrides the configuration file. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Folder of the files that the manifest names [default: the manifest's folder].
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,

    #[command(flatten)]
    data_args: DataArgs,

    /// Print the table as JSON.
    #[arg(long)]
    json: bool,
}

/// The results of one training.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Trial {
    /// The complete configuration.
    config: String,
    /// A fingerprint of the data and the split, and the program's version.
    data: String,
    /// Why the training failed, if it did.
    #[serde(default)]
    pub(crate) failed: Option<String>,
    /// The selected metric of the validation items.
    pub(crate) validation: Option<f64>,
    /// Seconds of training.
    pub(crate) seconds: f64,
    /// The quantisation loss of every modality in the best epoch.
    pub(crate) quantisation: Vec<(String, f64)>,
    /// The metrics of the queries in every direction; empty with --validation-only.
    pub(crate) directions: Vec<SweptDirection>,
}

/// The metrics of one direction.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SweptDirection {
    pub(crate) query: String,
    pub(crate) database: String,
    pub(crate) map: Option<f64>, // none without labels
    pub(crate) chance: Option<f64>,
    /// R@10 of pairs, if there are pairs.
    #[serde(default)]
    pub(crate) pair_recall: Option<f64>,
    /// P@5 of typed words, of what is possible, if there are texts.
    #[serde(default)]
    pub(crate) typed_words: Option<f64>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    anyhow::ensure!(args.seeds > 0, "--seeds: must be at least 1");
    let text = match &args.config {
        None => String::new(),
        Some(path) => fs_err::read_to_string(path)?,
    };
    let plan = Plan::parse(&args.vary, args.grid)?;
    // Check all settings before the first training.
    let mut jobs = Vec::new();
    for point in &plan.points {
        for seed in 0..args.seeds {
            jobs.push((point, configured(args, &text, point, seed)?));
        }
    }
    let wanted = jobs.first().map_or(&[][..], |(_, config)| config.modalities());
    let mut opened = args.data_args.open(&args.data, args.root.as_deref(), wanted)?;
    fs_err::create_dir_all(args.out.join("trials"))?;
    let mut table = Table::new(plan.keys, Vec::new());
    for (at, (point, config)) in jobs.iter().enumerate() {
        say(format!(
            "training {} of {}: {}, seed {}",
            at + 1,
            jobs.len(),
            point.text(),
            config.seed()
        ));
        let path =
            args.out.join("trials").join(format!("{}.json", point.file(config.seed())));
        let mut job = Job {
            path: &path,
            config,
            opened: &mut opened,
            validation_only: args.validation_only,
        };
        let Some(trial) = job.run()? else {
            say("run the same command again to continue");
            return Ok(interrupt::exit_code());
        };
        table.push(point, trial);
        // After every training, so that an interrupted sweep has a table.
        file::write(&args.out.join("sweep.md"), &table.to_markdown())?;
        file::write(&args.out.join("sweep.csv"), &table.to_csv())?;
    }
    let json = serde_json::to_string_pretty(&table.to_json())? + "\n";
    file::write(&args.out.join("sweep.json"), &json)?;
    draw(&args.out.join("sweep.svg"), opened.dataset.name(), &table, args.grid)?;
    let text = if args.json { json } else { table.to_text() };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    if let Some(best) = table.best() {
        say(format!("best by validation: {}", best.point.text()));
    }
    Ok(ExitCode::SUCCESS)
}

fn configured(args: &Args, text: &str, point: &Point, seed: u64) -> Result<Config> {
    let mut settings = args.set.clone();
    settings.extend(point.settings());
    let config = Config::parse(text, &settings).with_context(|| point.text())?;
    Ok(config.with_seed(config.seed() + seed))
}

/// One training of a sweep.
struct Job<'a> {
    path: &'a Path,
    config: &'a Config,
    opened: &'a mut LoadedDataset,
    validation_only: bool,
}

impl Job<'_> {
    /// The saved result, or a new one; `None` if the user interrupted it.
    fn run(&mut self) -> Result<Option<Trial>> {
        let split = split(self.opened, self.config.validation())?;
        let training = self.opened.dataset.training(&split);
        let print = training.fingerprint()?;
        let data = format!("{} {print:016x} {VERSION}", self.opened.dataset.name());
        if self.validation_only && split.count(Part::Validation) == 0 {
            bail!(
                "--validation-only: the split has no validation items; set validation above 0"
            );
        }
        if let Some(known) = self.known(&data)? {
            return Ok(Some(known));
        }
        let config = self.config.to_toml()?;
        let mut trial = Trial { config, data, ..Trial::default() };
        match self.fill(&split, &mut trial) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            // A setting that fails is reported in the table; the others continue.
            Err(err)
                if err
                    .downcast_ref::<crosshash::Error>()
                    .is_some_and(crosshash::Error::is_of_training) =>
            {
                say(format!("training failed with this setting: {err:#}"));
                trial.failed = Some(format!("{err:#}"));
            }
            Err(err) => return Err(err),
        }
        file::write(self.path, &(serde_json::to_string_pretty(&trial)? + "\n"))?;
        Ok(Some(trial))
    }

    /// The trial of an earlier sweep with the same data, configuration and program.
    fn known(&self, data: &str) -> Result<Option<Trial>> {
        if !self.path.exists() {
            return Ok(None);
        }
        let mut trial: Trial = serde_json::from_slice(&fs_err::read(self.path)?)
            .with_context(|| {
                format!("{} is not a trial of a sweep", self.path.display())
            })?;
        let enough =
            self.validation_only || trial.failed.is_some() || !trial.directions.is_empty();
        let same = trial.config == self.config.to_toml()? && trial.data == data;
        if self.validation_only {
            trial.directions.clear();
        }
        Ok(Some(trial).filter(|_| enough && same))
    }

    /// Trains and evaluates; false if the user interrupted it.
    fn fill(&self, split: &Split, trial: &mut Trial) -> Result<bool> {
        let Some(fitted) = fit(self.config, self.opened, split, None)? else {
            return Ok(false);
        };
        if !self.validation_only {
            let coded = encode_all(&fitted.model, &self.opened.dataset, split)?;
            let coded: Vec<_> = coded.into_iter().map(|modality| modality.coded).collect();
            let mut found = every_direction(&coded, &Options::default(), &|_| {})?;
            let dataset = &self.opened.dataset;
            add_user_metrics(&fitted.model, dataset, split, &mut found, &|_| {})?;
            for direction in found {
                let user = &direction.report.user;
                trial.directions.push(SweptDirection {
                    pair_recall: user.known_item.as_ref().map(|found| found.r10),
                    typed_words: user.words.as_ref().map(|found| found.p5_possible),
                    query: direction.query,
                    database: direction.database,
                    map: direction.report.mean_average_precision(),
                    chance: direction.report.chance,
                });
            }
        }
        let kept = fitted.best.map(|best| &fitted.history.epochs[best - 1]);
        let terms = kept.map_or(&[][..], |row| &row.terms).iter();
        trial.validation = kept.and_then(crosshash::train::Epoch::score);
        trial.seconds = fitted.history.seconds.last().copied().unwrap_or(0.0);
        let quantisation = terms.filter_map(|term| {
            Some((term.name.strip_suffix(".quantisation")?.to_owned(), term.value))
        });
        trial.quantisation = quantisation.collect();
        Ok(true)
    }
}
