//! `crosshash compare`: compares methods under one protocol: table and figures.

mod figures;
mod page;
mod search;
mod significance;
mod table;
mod trial;

use std::collections::HashMap;
use std::io::Write as _;
use std::path::PathBuf;
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

  The same number of trials for every method, several splits and seeds:
    crosshash compare DATA --out comparison --budget 30 --splits 3 --seeds 3 --bits 16,32,64,128

Protocol: all methods use the same splits. Validation items are held out of the training part and
select the settings (--budget) and the best epoch of each method; then the queries are evaluated
once. With --budget N, every method is trained N times on the first split at the longest code length:
once with its defaults, and N - 1 times with random settings from the ranges that it declares; the
settings with the best validation result are used for all lengths, splits and seeds. search.csv lists
all trials.

Each training runs in its own process, so that peak memory is measured separately. DIR contains
comparison.md, .csv, .json, .html, .tex, convergence.svg, bits.svg, recall.svg, top.svg, and trials/
with one file per training; an interrupted comparison continues where it stopped. A result is used
again only if settings, data, split and version are the same. Methods that cannot use the data are
skipped, methods whose training fails keep a row, and the table gives the reason.";

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

    /// Number of splits; those after the first are drawn with other seeds.
    #[arg(long, value_name = "N", default_value_t = 1)]
    splits: u64,

    /// Trainings of each method that search its settings on validation items; 0 for the defaults.
    #[arg(long, value_name = "N", default_value_t = 0)]
    budget: u64,

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

    /// The split of this training (internal).
    #[arg(long, hide = true, default_value_t = 0)]
    split: u64,
}

/// One training of a comparison.
struct Job {
    config: Config,
    split: u64,
    validation_only: bool,
    path: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(path) = &args.trial {
        return trial::run(args, path);
    }
    anyhow::ensure!(args.seeds > 0, "--seeds: must be at least 1");
    anyhow::ensure!(args.splits > 0, "--splits: must be at least 1");
    // Check all settings before the first training.
    let bases = configs(args)?;
    let trials = args.out.join("trials");
    let mut keys = Keys::default();
    for split in 0..args.splits {
        keys.get(args, &bases[0].1, split)?;
    }
    fs_err::create_dir_all(&trials)?;
    interrupt::catch();
    let stopped = || {
        say("run the same command again to continue");
        Ok(interrupt::exit_code())
    };
    let mut chosen: HashMap<&'static str, Vec<String>> = HashMap::new();
    if args.budget > 0 {
        let Some(found) = search::run(args, &bases, &mut keys)? else { return stopped() };
        chosen = found;
    }
    let jobs = jobs(args, &bases, &chosen)?;
    let mut rows: Vec<Row> = Vec::new();
    for (at, job) in jobs.iter().enumerate() {
        let config = &job.config;
        let (name, bits, seed) = (config.method().name, config.bits().get(), config.seed());
        let split =
            if args.splits > 1 { format!(", split {}", job.split) } else { String::new() };
        say(format!(
            "{} of {}: {name}, {bits} bits, seed {seed}{split}",
            at + 1,
            jobs.len()
        ));
        let Some(trial) = result(args, job, &mut keys)? else { return stopped() };
        match rows.iter_mut().find(|row| row.is_of(name, bits)) {
            Some(row) => row.trials.push(trial),
            None => rows.push(Row::new(*config.method(), bits, trial)),
        }
        // After every training, so that an interrupted comparison has a table.
        write(args, &Table::new(rows.clone())?)?;
    }
    let table = Table::new(rows)?;
    let text = if args.json { table.to_json()? } else { table.to_text() };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Every method with its configuration, without code length and seed.
fn configs(args: &Args) -> Result<Vec<(&'static Entry, Config)>> {
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
    let mut all = Vec::new();
    for method in chosen {
        let mut settings: Vec<String> = Vec::new();
        // Settings of one method override settings of all.
        for own in [false, true] {
            settings.extend(args.set.iter().filter_map(|setting| {
                let (name, setting) = addressed(setting);
                let fits = name.is_none_or(|name| name == method.info.name);
                (fits && name.is_some() == own).then(|| setting.to_owned())
            }));
        }
        settings.push(format!("method={:?}", method.info.name));
        let config =
            Config::parse(&text, &settings).with_context(|| method.info.name.to_owned())?;
        for bits in &args.bits {
            config.with(&[format!("bits={bits}")])?;
        }
        all.push((method, config));
    }
    Ok(all)
}

/// The trainings that are evaluated, in order; `chosen` are settings found by the search.
fn jobs(
    args: &Args,
    bases: &[(&'static Entry, Config)],
    chosen: &HashMap<&'static str, Vec<String>>,
) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for &bits in &args.bits {
        for (method, config) in bases {
            let mut settings = vec![format!("bits={bits}")];
            settings.extend(chosen.get(method.info.name).cloned().unwrap_or_default());
            let config = config.with(&settings)?;
            let seeds = if method.info.seeded { args.seeds } else { 1 };
            for split in 0..args.splits {
                for seed in 0..seeds {
                    let config = config.with_seed(config.seed() + seed);
                    let split_name =
                        if split > 0 { format!("_split{split}") } else { String::new() };
                    let name = method.info.name;
                    let file = format!("{name}_{bits}_{}{split_name}.json", config.seed());
                    jobs.push(Job {
                        path: args.out.join("trials").join(file),
                        validation_only: args.validation_only,
                        config,
                        split,
                    });
                }
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

/// What identifies data and split of a training; computed once for every split.
#[derive(Default)]
struct Keys(HashMap<(u64, String), String>);

impl Keys {
    fn get(&mut self, args: &Args, config: &Config, split: u64) -> Result<String> {
        let of = (split, format!("{:?} {}", config.modalities(), config.validation()));
        if let Some(key) = self.0.get(&of) {
            return Ok(key.clone());
        }
        let (opened, drawn) = trial::open(args, config, split)?;
        let key = trial::key(&opened, &drawn)?;
        self.0.insert(of, key.clone());
        Ok(key)
    }
}

/// The result of a training: that of an earlier comparison, or a new one; `None` if the user interrupted it.
fn result(args: &Args, job: &Job, keys: &mut Keys) -> Result<Option<Trial>> {
    match known(args, job, keys)? {
        Some(known) => Ok(Some(known)),
        None => train(args, job, keys),
    }
}

/// The trial of an earlier comparison with the same settings, data, split and version.
fn known(args: &Args, job: &Job, keys: &mut Keys) -> Result<Option<Trial>> {
    if !job.path.exists() {
        return Ok(None);
    }
    let trial: Trial =
        serde_json::from_slice(&fs_err::read(&job.path)?).with_context(|| {
            format!("{} is not a trial of a comparison", job.path.display())
        })?;
    let enough = job.validation_only || trial.is_evaluated();
    let same = trial.key == keys.get(args, &job.config, job.split)?
        && job.config.to_toml()? == trial.config;
    Ok(Some(trial).filter(|_| enough && same))
}

/// Runs one training in its own process; `None` if the user interrupted it.
fn train(args: &Args, job: &Job, keys: &mut Keys) -> Result<Option<Trial>> {
    let file = job.path.with_extension("toml");
    file::write(&file, &job.config.to_toml()?)?;
    let threads = rayon::current_num_threads().to_string();
    let mut child = program::command()?;
    child.args(["--threads", &threads, "compare"]).arg(&args.data);
    child.arg("--out").arg(&args.out).arg("--config").arg(&file);
    child.arg("--trial").arg(&job.path).args(["--split", &job.split.to_string()]);
    if let Some(root) = &args.root {
        child.arg("--root").arg(root);
    }
    child.args(args.data_args.arguments());
    if job.validation_only {
        child.arg("--validation-only");
    }
    let status = child.stdout(Stdio::null()).status().context("starting crosshash")?;
    if interrupt::requested() || status.code() == Some(130) {
        return Ok(None);
    }
    match status.code() {
        Some(0) => {
            let trial = serde_json::from_slice(&fs_err::read(&job.path)?);
            trial.map(Some).with_context(|| job.path.display().to_string())
        }
        Some(_) => {
            bail!("the training failed ({status}); see its error message above")
        }
        // Killed by a signal: other methods may still run. Not written, so that it is tried again.
        None => {
            let mut trial =
                Trial::new(&job.config, keys.get(args, &job.config, job.split)?)?;
            trial.failed = Some(format!(
                "its process was killed ({status}): too little memory? lower batch_size, hidden or \
                 hidden_sparse"
            ));
            Ok(Some(trial))
        }
    }
}

fn write(args: &Args, table: &Table) -> Result<()> {
    let out = |name: &str| args.out.join(name);
    file::write(&out("comparison.md"), &table.to_markdown())?;
    file::write(&out("comparison.csv"), &table.to_csv())?;
    file::write(&out("comparison.json"), &table.to_json()?)?;
    file::write(&out("comparison.tex"), &table.to_latex())?;
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
