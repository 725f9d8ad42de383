//! `crosshash-bench reproduce sketch`: category-level retrieval between sketches and photos, the paper's
//! table 1, on the available subset of Sketchy.
//!
//! The split is by source photo: a photo and all its sketches are in the same part. One model is
//! evaluated twice: in the paper's protocol the database is the training photos, in the other one
//! the photos of the query part, which were not used for training.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use crosshash::Config;
use crosshash::data::{self, Dataset, LoadedDataset};
use crosshash::evaluate::{Coded, every_direction};
use crosshash_codes::eval::Options;
use serde::Serialize;

use crosshash_cli::data_args::DataArgs;
use crosshash_cli::evaluation::encode_all;
use crosshash_cli::fit::{fit, split};
use crosshash_cli::progress::{Progress, say};
use crosshash_cli::{file, interrupt};

/// The manifest with the split; the backbone is chosen here.
const MANIFEST: &str = include_str!("../../../../configs/data/sketchy125.toml");
/// The frozen network.
const BACKBONE: &str = "efficientnet-lite0";
/// The fine-tuned network and its weight file.
const TUNED: [&str; 2] = ["alexnet-conv", "alexnet_conv.safetensors"];
/// The cutoff of the paper's precision.
const CUTOFF: usize = 200;

/// Chosen by validation MAP at 64 bits, before any query was evaluated (docs/results.md); the
/// coefficients are the paper's for single labels, q = u = 1.
const FROZEN: &str = include_str!("../../../../configs/train/sketchy125.toml");
const TUNING: &str = include_str!("../../../../configs/train/sketchy125-tune.toml");

const EXAMPLES: &str = "\
Examples:
  The table at 32, 64 and 128 bits, with frozen EfficientNet-Lite0 features:
    crosshash-bench reproduce sketch --data PATH/sketchy125 --weights PATH/weights --out sketch

  Beside it AlexNet tuned end to end on 25 of the categories, against the same network frozen:
    crosshash-bench reproduce sketch --data PATH/sketchy125 --weights PATH/weights --out sketch \\
      --bits 64 --tune 25

DIR gets sketch.md and sketch.json, rewritten after every training, and dataset.toml (the split).";

/// Sketch -> photo and photo -> sketch on Sketchy: MAP and P@200.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder with sketchy125_128px.zip.
    #[arg(long, value_name = "PATH")]
    data: PathBuf,

    /// Output folder; created if missing.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Code lengths.
    #[arg(long, value_name = "R,..", value_delimiter = ',', default_value = "32,64,128")]
    bits: Vec<usize>,

    /// Number of seeds per setting.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u64,

    /// Also fine-tune AlexNet's convolutions on this number of categories (64 bits, one seed).
    #[arg(long, value_name = "CATEGORIES")]
    tune: Option<usize>,

    /// Override a setting of every training (key=value).
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    #[command(flatten)]
    data_args: DataArgs,
}

/// One training and its evaluations.
#[derive(Debug, Clone, Serialize)]
struct Row {
    what: String,
    categories: usize,
    bits: usize,
    seed: u64,
    seconds: f64,
    best_epoch: Option<usize>,
    validation_map: Option<f64>,
    evaluated: Vec<Evaluated>,
}

#[derive(Debug, Clone, Serialize)]
struct Evaluated {
    protocol: &'static str,
    direction: String,
    queries: usize,
    database: usize,
    map: f64,
    p_at_200: f64,
    /// Upper bound of P@200: a category has fewer than 200 photos.
    p_at_200_at_most: f64,
    chance: f64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    ensure!(args.seeds > 0, "--seeds: at least one is needed");
    if let Some(tune) = args.tune {
        ensure!((2..=125).contains(&tune), "--tune: 2 to 125 categories, not {tune}");
    }
    fs_err::create_dir_all(&args.out)?;
    let manifest = args.out.join("dataset.toml");
    file::write(&manifest, MANIFEST)?;
    let mut jobs = Vec::new();
    for &bits in &args.bits {
        for seed in 0..args.seeds {
            jobs.push(configured(FROZEN, args, bits, &[])?.with_seed(seed));
        }
    }
    // Weights that are not there are better missed now than after the first part.
    let weights = args.tune.map(|_| tuned_weights(args)).transpose()?;
    let guard = interrupt::catch();
    let mut rows = Vec::new();
    if !jobs.is_empty() {
        let mut raw = args.data_args.clone();
        let given = !raw.backbone.is_empty();
        if !given {
            raw.backbone = ["photo", "sketch"].map(|m| format!("{m}={BACKBONE}")).to_vec();
        }
        let mut opened = raw.open(&manifest, Some(&args.data), &[])?;
        let what =
            if given { raw.backbone.join(", ") } else { format!("{BACKBONE}, frozen") };
        for job in &jobs {
            say(format!("{what}: {} bits, seed {}", job.bits(), job.seed()));
            let Some(row) = trained(&what, job, &mut opened)? else {
                return Ok(interrupt::exit_code());
            };
            rows.push(row);
            write(args, &rows)?;
        }
    }
    if let (Some(categories), Some(weights)) = (args.tune, weights) {
        let mut opened =
            some_categories(data::open(&manifest, Some(&args.data))?, categories)?;
        for (what, freeze) in [("frozen", "all"), ("tuned", "none")] {
            let settings: Vec<String> = ["photo", "sketch"]
                .iter()
                .flat_map(|name| {
                    [
                        format!(
                            "modality.{name}.weights={:?}",
                            weights.display().to_string()
                        ),
                        format!("modality.{name}.freeze={freeze:?}"),
                        // What is frozen is computed once, from pictures as they are.
                        format!("modality.{name}.augment={}", freeze == "none"),
                    ]
                })
                .collect();
            let raw = configured(TUNING, args, 64, &settings)?;
            let what = format!("{}, {what}", TUNED[0]);
            say(format!("{what}: {categories} categories, 64 bits"));
            let Some(row) = trained(&what, &raw, &mut opened)? else {
                return Ok(interrupt::exit_code());
            };
            rows.push(row);
            write(args, &rows)?;
        }
    }
    drop(guard);
    std::io::Write::write_all(&mut std::io::stdout().lock(), table(&rows).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The settings of the experiment, then those of one training, then the user's.
fn configured(text: &str, args: &Args, bits: usize, own: &[String]) -> Result<Config> {
    let settings = [own, &args.set, &[format!("bits={bits}")]].concat();
    Config::parse(text, &settings).context("configuration")
}

fn tuned_weights(args: &Args) -> Result<PathBuf> {
    let about = crosshash::backbone::info(TUNED[0])?;
    let found = about.find(&args.data_args.weight_paths.weights()).context("--tune")?;
    found.into_iter().next().context("--tune: no file of weights")
}

/// Trains once and evaluates twice; `None` if the user stopped it.
fn trained(what: &str, config: &Config, opened: &mut LoadedDataset) -> Result<Option<Row>> {
    let started = Instant::now();
    let split = split(opened, config.validation())?;
    let Some(fitted) = fit(config, opened, &split, None)? else { return Ok(None) };
    let seconds = started.elapsed().as_secs_f64();
    let seen = encode_all(&fitted.model, &opened.dataset, &split)?;
    let seen: Vec<Coded> = seen.into_iter().map(|modality| modality.coded).collect();
    let unseen: Vec<Coded> = seen
        .iter()
        .map(|coded| Coded {
            database: coded.queries.clone(),
            database_labels: coded.query_labels.clone(),
            ..coded.clone()
        })
        .collect();
    let mut evaluated = Vec::new();
    for (protocol, coded) in [("paper", &seen), ("unseen", &unseen)] {
        let progress = Progress::new("evaluating directions", 4);
        let options = Options { cutoffs: vec![CUTOFF], ..Options::default() };
        let directions = every_direction(coded, &options, &|done| progress.set(done))?;
        for direction in directions.iter().filter(|d| d.query != d.database) {
            let report = &direction.report;
            let precision = report.at.get("precision_at").and_then(|at| at.get(&CUTOFF));
            let database = report.protocol.database;
            // Categories are of nearly one size: the mean number of relevant items.
            let labels = "the data have labels";
            let chance = report.chance.context(labels)?;
            let relevant = chance * database as f64;
            evaluated.push(Evaluated {
                protocol,
                direction: format!("{} -> {}", direction.query, direction.database),
                queries: report.queries,
                database,
                map: report.mean_average_precision().context(labels)?,
                p_at_200: precision.map_or(f64::NAN, |p| p.tie_aware),
                p_at_200_at_most: (relevant / CUTOFF as f64).min(1.0),
                chance,
            });
        }
    }
    Ok(Some(Row {
        what: what.to_owned(),
        categories: categories(&opened.dataset),
        bits: config.bits().get(),
        seed: config.seed(),
        seconds,
        best_epoch: fitted.best,
        validation_map: fitted.best.and_then(|best| fitted.history.epochs[best - 1].map()),
        evaluated,
    }))
}

/// Evenly spaced categories, with all their photos and sketches.
fn some_categories(opened: LoadedDataset, count: usize) -> Result<LoadedDataset> {
    let names = opened.dataset.label_names().to_vec();
    let chosen: Vec<usize> = (0..count).map(|k| k * names.len() / count).collect();
    let mut modalities = Vec::new();
    for modality in opened.dataset.modalities() {
        let labels = modality.labels();
        let keeps =
            |&item: &usize| labels.indices(item).any(|label| chosen.contains(&label));
        let items: Vec<usize> = (0..modality.len()).filter(keeps).collect();
        modalities.push(modality.select(&items));
    }
    let dataset = Dataset::new(opened.dataset.name(), names, modalities)?;
    Ok(LoadedDataset { dataset, ..opened })
}

/// Number of categories with items.
fn categories(dataset: &Dataset) -> usize {
    let mut used = vec![false; dataset.label_names().len()];
    for modality in dataset.modalities() {
        let counts = modality.labels().histogram();
        used.iter_mut().zip(counts).for_each(|(used, count)| *used |= count > 0);
    }
    used.into_iter().filter(|used| *used).count()
}

fn write(args: &Args, rows: &[Row]) -> Result<()> {
    let command: Vec<String> = std::env::args().collect();
    let json = serde_json::json!({ "command": command, "rows": rows });
    write_to(&args.out, rows, &(serde_json::to_string_pretty(&json)? + "\n"))
}

fn write_to(out: &Path, rows: &[Row], json: &str) -> Result<()> {
    file::write(&out.join("sketch.json"), json)?;
    file::write(&out.join("sketch.md"), &table(rows))
}

/// One line per network, code length, protocol and direction: means over seeds.
fn table(rows: &[Row]) -> String {
    let mut out = String::from(
        "| features | categories | bits | searched | direction | MAP | P@200 (at most) | chance | \
         queries | database | seconds |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    type Key<'a> = (&'a str, usize, usize);
    let mut groups: BTreeMap<(usize, Key<'_>), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let key = (row.what.as_str(), row.categories, row.bits);
        let known = groups.keys().find(|(_, own)| *own == key).map(|(at, _)| *at);
        groups.entry((known.unwrap_or(groups.len()), key)).or_default().push(row);
    }
    for ((_, (what, categories, bits)), rows) in groups {
        let seconds = mean(rows.iter().map(|row| row.seconds));
        for (at, first) in rows[0].evaluated.iter().enumerate() {
            let of = |value: fn(&Evaluated) -> f64| {
                rows.iter().map(move |row| value(&row.evaluated[at]))
            };
            let maps: Vec<f64> = of(|j| j.map).collect();
            let spread = match deviation(&maps) {
                Some(deviation) => format!(" ± {deviation:.4}"),
                None => String::new(),
            };
            let searched = match first.protocol {
                "paper" => "training items (paper)",
                _ => "unseen items",
            };
            let _ = writeln!(
                out,
                "| {what} | {categories} | {bits} | {searched} | {} | {:.4}{spread} | {:.4} ({:.3}) | \
                 {:.4} | {} | {} | {seconds:.0} |",
                first.direction,
                mean(maps.iter().copied()),
                mean(of(|j| j.p_at_200)),
                first.p_at_200_at_most,
                first.chance,
                first.queries,
                first.database,
            );
        }
    }
    out
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let all: Vec<f64> = values.collect();
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

/// Standard deviation of a sample; `None` for a single value.
fn deviation(values: &[f64]) -> Option<f64> {
    let centre = mean(values.iter().copied());
    let squares: f64 = values.iter().map(|x| (x - centre).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(seed: u64, map: f64) -> Row {
        let evaluated = Evaluated {
            protocol: "unseen",
            direction: "sketch -> photo".into(),
            queries: 5,
            database: 7,
            map,
            p_at_200: 0.25,
            p_at_200_at_most: 0.5,
            chance: 0.01,
        };
        Row {
            what: "a network".into(),
            categories: 3,
            bits: 64,
            seed,
            seconds: 2.0,
            best_epoch: None,
            validation_map: None,
            evaluated: vec![evaluated],
        }
    }

    #[test]
    fn seeds_are_one_line_with_their_spread() {
        let text = table(&[row(0, 0.5), row(1, 0.6)]);
        let line = "| a network | 3 | 64 | unseen items | sketch -> photo | 0.5500 ± 0.0707 | 0.2500 \
                    (0.500) | 0.0100 | 5 | 7 | 2 |\n";
        assert!(text.ends_with(line), "{text}");
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn the_settings_of_the_experiment_are_valid() {
        for text in [FROZEN, TUNING] {
            let weights =
                ["photo", "sketch"].map(|m| format!("modality.{m}.weights=random"));
            let settings: &[String] = if text == TUNING { &weights } else { &[] };
            Config::parse(text, settings).unwrap();
        }
    }
}
