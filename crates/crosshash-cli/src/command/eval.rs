//! `crosshash eval`: evaluates codes from any tool.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use crosshash_codes::eval::{
    ApDenominator, Bounds, EmptyQueries, METRICS, Options, Report, evaluate,
};
use crosshash_codes::read;
use crosshash_codes::{Codes, Labels};
use serde_json::{Map, Value, json};

use crosshash::RunDir;
use crosshash::evaluate::every_direction;

use crate::code_args::CodeArgs;
use crate::evaluation;
use crate::plot;
use crate::progress::{Progress, say};

const EXAMPLES: &str = "\
Examples:
  Evaluate a trained run in every direction, with precision at rank 50:
    crosshash eval run --at 50

  Evaluate codes from any source, with P, R, NDCG, ACG and MAP at ranks 200 and 1,000:
    crosshash eval --query q.npy --database d.npy \\
      --query-labels yq.npy --database-labels yd.npy --at 200,1000

  The same as JSON, with a plot of the precision-recall and top-N curves:
    crosshash eval --query q.npy --database d.npy \\
      --query-labels yq.npy --database-labels yd.npy --json --plot curves.svg

  48-bit codes packed by np.packbits; real-valued outputs of a network:
    crosshash eval --query q.npy --database d.npy --bits 48 ...
    crosshash eval --query q.npy --database d.npy --layout real ...

Codes:  .npy, packed uint8 (n x bytes) or one value per bit (0/1, -1/+1); or a crosshash code file.
Labels: .npy matrix of 0/1 (n x labels, uint8 or bool), .npy vector of class numbers, or a text
        file with the label numbers of one item per line. An item is relevant if it shares a label.
Ties:   the main value is the expectation over all orders of items at the same distance
        (tie-aware). Bounds and the value for database order (`stable`) are also reported.";

/// Evaluate codes: tie-aware MAP, precision, recall, NDCG, curves and code statistics.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of a run created by `train`; every direction between its modalities is evaluated.
    #[arg(conflicts_with_all = ["query", "database", "query_labels", "database_labels", "plot"])]
    run: Option<PathBuf>,

    /// Codes of the queries.
    #[arg(long, value_name = "FILE", required_unless_present = "run")]
    query: Option<PathBuf>,

    /// Codes of the database.
    #[arg(long, value_name = "FILE", required_unless_present = "run")]
    database: Option<PathBuf>,

    /// Labels of the queries [default: those in the code file].
    #[arg(long, value_name = "FILE")]
    query_labels: Option<PathBuf>,

    /// Labels of the database [default: those in the code file].
    #[arg(long, value_name = "FILE")]
    database_labels: Option<PathBuf>,

    /// Ranks at which MAP, P, R, NDCG and ACG are reported.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = rank)]
    at: Vec<usize>,

    #[command(flatten)]
    layout: CodeArgs,

    /// Denominator of MAP@K; MAP over the complete ranking always divides by R.
    #[arg(long, value_enum, default_value_t = DenominatorArg::Min)]
    denominator: DenominatorArg,

    /// How queries without a relevant item count in the means.
    #[arg(long, value_enum, default_value_t = EmptyArg::Zero)]
    empty_queries: EmptyArg,

    /// Hamming radii for which hash lookup is reported.
    #[arg(long, value_name = "T,T,...", value_delimiter = ',', default_value = "2")]
    radius: Vec<usize>,

    /// Print JSON, including the curves.
    #[arg(long)]
    json: bool,

    /// Plot precision-recall and top-N precision curves.
    #[arg(long, value_name = "OUT.svg")]
    plot: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum DenominatorArg {
    /// min(R, K)
    #[value(alias = "min(R,K)")]
    Min,
    /// the number of relevant items among the first K
    Found,
    /// R, the number of all relevant items
    #[value(alias = "R", alias = "total")]
    Relevant,
}

#[derive(Clone, Copy, ValueEnum)]
enum EmptyArg {
    /// count as 0
    Zero,
    /// exclude
    Skip,
}

fn rank(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(0) => Err("ranks start at 1".into()),
        Ok(rank) => Ok(rank),
        Err(_) => Err("a rank is a positive integer".into()),
    }
}

impl Args {
    /// The two files; clap requires them unless there is a run.
    fn query(&self) -> &Path {
        self.query.as_deref().unwrap_or(Path::new(""))
    }

    fn database(&self) -> &Path {
        self.database.as_deref().unwrap_or(Path::new(""))
    }

    fn options(&self) -> Options {
        Options {
            cutoffs: sorted(&self.at),
            denominator: match self.denominator {
                DenominatorArg::Min => ApDenominator::Min,
                DenominatorArg::Found => ApDenominator::Found,
                DenominatorArg::Relevant => ApDenominator::Total,
            },
            empty_queries: match self.empty_queries {
                EmptyArg::Zero => EmptyQueries::Zero,
                EmptyArg::Skip => EmptyQueries::Skip,
            },
            radii: sorted(&self.radius),
            ..Options::default()
        }
    }
}

/// Evaluates every direction of a run.
fn every(run: &Path, args: &Args) -> Result<ExitCode> {
    let folder = RunDir::open(run)?;
    if folder.report().is_ok_and(|report| report.refit) {
        say(
            "warning: the model of this run was trained on all items, queries included, so these values \
             are too high; report.json contains the evaluation on held-out queries",
        );
    }
    let coded = folder.all_codes()?;
    let progress = Progress::new("evaluating directions", coded.len() * coded.len());
    let directions = every_direction(&coded, &args.options(), &|done| progress.set(done))?;
    drop(progress);
    let text = if args.json {
        serde_json::to_string_pretty(&directions)? + "\n"
    } else {
        evaluation::to_text(&directions, &sorted(&args.at))
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(run) = &args.run {
        return every(run, args);
    }
    let (query, database) = read_codes(args)?;
    let (query_labels, database_labels) = read_labels(args)?;
    check_rows("--query", args.query(), &query, "--query-labels", &query_labels)?;
    check_rows(
        "--database",
        args.database(),
        &database,
        "--database-labels",
        &database_labels,
    )?;
    let options = args.options();
    let progress = Progress::new("evaluating queries", query.len());
    let report =
        evaluate(&query, &database, &query_labels, &database_labels, &options, &|done| {
            progress.set(done);
        })?;
    drop(progress);
    if let Some(path) = &args.plot {
        plot::curves::draw(path, &report)
            .with_context(|| format!("plotting {}", path.display()))?;
    }
    let text = if args.json {
        serde_json::to_string_pretty(&to_json(&report, args))? + "\n"
    } else {
        to_text(&report)
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn read_codes(args: &Args) -> Result<(Codes, Codes)> {
    let options = args.layout.options()?;
    let mut codes = read::codes_together(&[args.query(), args.database()], &options)?;
    match (codes.pop(), codes.pop()) {
        (Some(database), Some(query)) => Ok((query, database)),
        _ => bail!("two files of codes are required"),
    }
}

fn read_labels(args: &Args) -> Result<(Labels, Labels)> {
    let query = args.query_labels.as_deref().unwrap_or(args.query());
    let database = args.database_labels.as_deref().unwrap_or(args.database());
    for (flag, given, codes) in [
        ("--query-labels", &args.query_labels, args.query()),
        ("--database-labels", &args.database_labels, args.database()),
    ] {
        if given.is_none() && codes.extension().is_some_and(|ext| ext == "npy") {
            bail!("{flag} is required: {} contains only codes", codes.display());
        }
    }
    let mut labels = read::labels_together(&[query, database])?;
    match (labels.pop(), labels.pop()) {
        (Some(database), Some(query)) => Ok((query, database)),
        _ => bail!("two files of labels are required"),
    }
}

fn check_rows(
    codes_flag: &str,
    path: &Path,
    codes: &Codes,
    labels_flag: &str,
    labels: &Labels,
) -> Result<()> {
    if codes.len() != labels.len() {
        bail!(
            "{labels_flag} has {} rows, {codes_flag} ({}) has {}; one row of labels per code is \
             required",
            labels.len(),
            path.display(),
            codes.len()
        );
    }
    Ok(())
}

fn sorted(values: &[usize]) -> Vec<usize> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.dedup();
    values
}

/// The report as JSON: main values by name, the other tie rules under `bounds`.
fn to_json(report: &Report, args: &Args) -> Value {
    let mut root = Map::new();
    if report.map.is_some() {
        root.insert("map".into(), json!(report.map));
    }
    let mut bounds = Map::new();
    for metric in METRICS {
        let Some(by_rank) = report.at.get(metric.name) else { continue };
        let headline: Map<String, Value> =
            by_rank.iter().map(|(k, b)| (k.to_string(), json!(b.tie_aware))).collect();
        root.insert(metric.name.into(), headline.into());
        bounds.insert(metric.name.into(), json!(by_rank));
    }
    root.insert("bounds".into(), bounds.into());
    root.insert("ndcg_idf_at".into(), json!(report.ndcg_idf_at));
    if let Value::Object(user) = json!(report.user) {
        root.extend(user);
    }
    root.insert("radius".into(), json!(report.radius));
    if let Some(chance) = report.chance {
        root.insert("chance".into(), json!(chance));
    }
    root.insert("queries".into(), json!(report.queries));
    if let Some(count) = report.queries_without_relevant {
        root.insert("queries_without_relevant".into(), json!(count));
    }
    let mut health = json!(report.database_health);
    health["tie_rate"] = json!(report.tie_rate);
    health["tie_rate_at"] = json!(report.tie_rate_at);
    health["query"] = json!(report.query_health);
    root.insert("health".into(), health);
    let mut protocol = json!(report.protocol);
    protocol["query_file"] = json!(args.query().display().to_string());
    protocol["database_file"] = json!(args.database().display().to_string());
    root.insert("protocol".into(), protocol);
    if let Some(curves) = &report.curves {
        root.insert("curves".into(), json!(curves));
    }
    Value::Object(root)
}

/// The report as text.
fn to_text(report: &Report) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    let protocol = &report.protocol;
    line(format!(
        "{} queries against {} items, {} bits, {} labels",
        protocol.queries, protocol.database, protocol.bits, protocol.labels
    ));
    if let Some(n) = report.queries_without_relevant.filter(|&n| n > 0) {
        let rule = match protocol.empty_queries {
            EmptyQueries::Zero => "they count as 0",
            EmptyQueries::Skip => "they are excluded",
        };
        line(format!("{n} of the queries have no relevant item; {rule}"));
    }
    line(String::new());
    line("             tie-aware  pessimistic   optimistic       stable".into());
    let row = |name: String, b: &Bounds| {
        format!(
            "{name:<12}{:>10.4}{:>13.4}{:>13.4}{:>13.4}",
            b.tie_aware, b.pessimistic, b.optimistic, b.stable
        )
    };
    if let Some(map) = &report.map {
        line(row("MAP".into(), map));
    }
    for metric in METRICS {
        for (k, bounds) in report.at.get(metric.name).into_iter().flatten() {
            line(row(format!("{}@{k}", metric.title), bounds));
        }
    }
    if let Some(chance) = report.chance {
        line(format!("{:<12}{chance:>10.4}   (a random ranking)", "chance"));
    }
    report.user.notes.iter().for_each(|note| line(note.clone()));
    line(String::new());
    for (radius, at) in &report.radius {
        line(format!(
            "within radius {radius}: precision {:.4} (pooled {:.4}), recall {:.4}, empty for \
             {:.1} % of queries",
            at.precision,
            at.precision_pooled,
            at.recall,
            100.0 * at.empty
        ));
    }
    let health = &report.database_health;
    line(format!(
        "database codes: {} of {} distinct, entropy {:.2} bits, worst bit balance {:.3} \
         (0 is even), mean |bit correlation| {}, {} constant bits",
        health.unique_codes,
        health.codes,
        health.entropy,
        health.max_imbalance,
        health.mean_abs_correlation.map_or("-".into(), |c| format!("{c:.3}")),
        health.constant_bits,
    ));
    line(format!(
        "tie rate: {:.4} of neighbouring ranks have the same distance",
        report.tie_rate
    ));
    line(String::new());
    line(format!(
        "protocol: relevant = {}; headline = {}; MAP@K divides by {}; evaluated by {} ({})",
        protocol.relevance,
        protocol.tie_rule,
        match protocol.ap_denominator {
            ApDenominator::Min => "min(R,K)",
            ApDenominator::Found => "the relevant items found",
            ApDenominator::Total => "R",
        },
        protocol.evaluated_by,
        protocol.kernel,
    ));
    out
}
