//! `crosshash compare`: compares methods under one protocol: table and figures.

mod figures;
mod page;
mod table;
mod trial;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::{Context as _, Result, bail};
use crosshash::Config;
use crosshash::method::{self, Entry, METHODS};

use crate::data_args::DataArgs;
use crate::progress::say;
use crate::{file, interrupt, program};
pub(crate) use table::{Row, Table};
pub(crate) use trial::Trial;

const EXAMPLES: &str = "\
Examples:
  All methods on two modalities of the built-in data set:
    crosshash compare emoji --out comparison --bits 16,32 --seeds 1 \\
      --set 'modalities=[\"picture\", \"words\"]' --set hidden=256 --set hidden_sparse=256

  Some methods, with their own settings:
    crosshash compare DATA --out comparison --methods jcch,dcmh,jcch+dcmh,cca --bits 64 \\
      --set batch_size=128 --set jcch:learning_rate=0.08 --set dcmh:epochs=60 --set dcmh:dcmh.learning_rate=1

Protocol: all methods use the same split. Validation items are held out of the training part and
select the best epoch of each method; then the queries are evaluated once. Each training runs in its
own process, so that peak memory is measured separately. DIR contains comparison.md, .csv, .json,
.html, convergence.svg, bits.svg, recall.svg, top.svg, and trials/ with one file per training; an
interrupted comparison continues where it stopped. Methods that cannot use the data are skipped, and
the table gives the reason.";

/// Compare methods under one protocol: table, figures, seconds, memory.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data set: a manifest, a folder with one, or `emoji`.
    data: PathBuf,

    /// Folder for the results; created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// `all`, or names listed by `crosshash methods`.
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', default_value = "all")]
    methods: Vec<String>,

    /// Code lengths in bits.
    #[arg(long, value_name = "R,..", value_delimiter = ',', default_value = "16,32,64")]
    bits: Vec<usize>,

    /// Number of seeds per method; deterministic methods use one.
    #[arg(long, value_name = "N", default_value_t = 3)]
    seeds: u64,

    /// Configuration file to start from (TOML).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Set one key for all methods, or for one method: METHOD:KEY=VALUE. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Evaluate only validation items, not the queries.
    #[arg(long)]
    validation_only: bool,

    /// Folder of the files that the manifest names [default: the manifest's folder].
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,

    #[command(flatten)]
    data_args: DataArgs,

    /// Print the table as JSON.
    #[arg(long)]
    json: bool,

    /// Run one training and write this file (internal).
    #[arg(long, hide = true, requires = "config")]
    trial: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(path) = &args.trial {
        return trial::run(args, path);
    }
    anyhow::ensure!(args.seeds > 0, "--seeds: must be at least 1");
    // Check all settings before the first training.
    let jobs = jobs(args)?;
    let trials = args.out.join("trials");
    fs_err::create_dir_all(&trials)?;
    interrupt::catch();
    let mut rows: Vec<Row> = Vec::new();
    for (at, config) in jobs.iter().enumerate() {
        let (name, bits, seed) = (config.method().name, config.bits().get(), config.seed());
        say(format!("{} of {}: {name}, {bits} bits, seed {seed}", at + 1, jobs.len()));
        let path = trials.join(format!("{name}_{bits}_{seed}.json"));
        let Some(trial) = known(&path, config, args)?
            .map_or_else(|| train(args, config, &path), |known| Ok(Some(known)))?
        else {
            say("run the same command again to continue");
            return Ok(interrupt::exit_code());
        };
        match rows.iter_mut().find(|row| row.is_of(name, bits)) {
            Some(row) => row.trials.push(trial),
            None => rows.push(Row::new(*config.method(), bits, trial)),
        }
        // After every training, so that an interrupted comparison has a table.
        write(args, &Table::new(rows.clone()))?;
    }
    let table = Table::new(rows);
    let text = if args.json { table.to_json()? } else { table.to_text() };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The trainings, in order.
fn jobs(args: &Args) -> Result<Vec<Config>> {
    let text = match &args.config {
        None => String::new(),
        Some(path) => fs_err::read_to_string(path)?,
    };
    let chosen: Vec<&'static Entry> = match &args.methods[..] {
        [all] if all == "all" => METHODS.iter().collect(),
        names => names.iter().map(|name| method::find(name)).collect::<Result<_, _>>()?,
    };
    for setting in &args.set {
        if let (Some(name), _) = addressed(setting) {
            method::find(name).with_context(|| format!("--set {setting}"))?;
        }
    }
    let mut jobs = Vec::new();
    for &bits in &args.bits {
        for &method in &chosen {
            let mut settings: Vec<String> = Vec::new();
            // Settings of one method override settings of all.
            for own in [false, true] {
                settings.extend(args.set.iter().filter_map(|setting| {
                    let (name, setting) = addressed(setting);
                    let fits = name.is_none_or(|name| name == method.info.name);
                    (fits && name.is_some() == own).then(|| setting.to_owned())
                }));
            }
            settings
                .extend([format!("method={:?}", method.info.name), format!("bits={bits}")]);
            let config = Config::parse(&text, &settings)
                .with_context(|| method.info.name.to_owned())?;
            let seeds = if method.info.seeded { args.seeds } else { 1 };
            for seed in 0..seeds {
                jobs.push(config.with_seed(config.seed() + seed));
            }
        }
    }
    Ok(jobs)
}

/// The method of a setting, if it names one, and the setting.
fn addressed(setting: &str) -> (Option<&str>, &str) {
    match setting.split_once(':') {
        Some((name, rest)) if !name.contains('=') => (Some(name), rest),
        _ => (None, setting),
    }
}

/// The trial of an earlier comparison with the same configuration.
fn known(path: &Path, config: &Config, args: &Args) -> Result<Option<Trial>> {
    if !path.exists() {
        return Ok(None);
    }
    let trial: Trial = serde_json::from_slice(&fs_err::read(path)?)
        .with_context(|| format!("{} is not a trial of a comparison", path.display()))?;
    let enough = args.validation_only || trial.is_evaluated();
    Ok(Some(trial)
        .filter(|trial| enough && config.to_toml().is_ok_and(|c| c == trial.config)))
}

/// Runs one training in its own process; `None` if the user interrupted it.
fn train(args: &Args, config: &Config, path: &Path) -> Result<Option<Trial>> {
    let file = path.with_extension("toml");
    file::write(&file, &config.to_toml()?)?;
    let threads = rayon::current_num_threads().to_string();
    let mut child = program::command()?;
    child.args(["--threads", &threads, "compare"]).arg(&args.data);
    child.arg("--out").arg(&args.out).arg("--config").arg(&file).arg("--trial").arg(path);
    if let Some(root) = &args.root {
        child.arg("--root").arg(root);
    }
    child.args(args.data_args.arguments());
    if args.validation_only {
        child.arg("--validation-only");
    }
    let status = child.stdout(Stdio::null()).status().context("starting crosshash")?;
    if interrupt::requested() || status.code() == Some(130) {
        return Ok(None);
    }
    if !status.success() {
        bail!("the training failed ({status}); see its error message above");
    }
    let trial = serde_json::from_slice(&fs_err::read(path)?);
    trial.map(Some).with_context(|| path.display().to_string())
}

fn write(args: &Args, table: &Table) -> Result<()> {
    let out = |name: &str| args.out.join(name);
    file::write(&out("comparison.md"), &table.to_markdown())?;
    file::write(&out("comparison.csv"), &table.to_csv())?;
    file::write(&out("comparison.json"), &table.to_json()?)?;
    let figures = figures::draw(&args.out, table)?;
    let command: Vec<String> = std::env::args().collect();
    let page =
        page::page(&args.data.display().to_string(), &command.join(" "), table, &figures)?;
    file::write(&out("comparison.html"), &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_may_be_for_one_method() {
        assert_eq!(addressed("dcmh:learning_rate=1"), (Some("dcmh"), "learning_rate=1"));
        assert_eq!(addressed("learning_rate=1"), (None, "learning_rate=1"));
        assert_eq!(addressed("modalities=[\"a:b\"]"), (None, "modalities=[\"a:b\"]"));
    }
}
