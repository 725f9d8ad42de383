//! `crosshash coefficients`: computes the coefficients q and u of the unary loss from labels.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use crosshash::supervise::{
    Coefficients, Kind, Options, Part, Scale, Supervision, supervise,
};
use crosshash_codes::write::atomically;

use crate::progress::{Progress, say};

/// Compute the supervision coefficients of JCCH (q and u of its unary loss).
///
/// Writes q.npy and u.npy (float64, items x labels) and prints a report. The coefficients of items
/// without labels are 0, and such items are not used as negatives.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Labels: a .npy matrix of 0/1 (items x labels), a .npy vector of class numbers, or a
    /// text file with the label numbers of one item per line.
    #[arg(long, value_name = "FILE")]
    labels: PathBuf,

    /// Output folder for q.npy and u.npy; created if it does not exist.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Kind of coefficients.
    #[arg(long, value_enum, default_value = "auto")]
    kind: KindArg,

    /// Number of anchors; every label gets at least one.
    #[arg(long, value_name = "L")]
    anchors: Option<usize>,

    /// Seed of the sample of anchors.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    /// Do not divide by the mean of q.
    #[arg(long)]
    raw: bool,

    /// Divide by the mean of q for every kind, also for scul and balanced.
    #[arg(long, conflicts_with = "raw")]
    mean_one: bool,

    /// Do not count an item as its own positive.
    #[arg(long)]
    no_self: bool,

    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  crosshash coefficients --labels labels.npy --out coefficients
  crosshash coefficients --labels labels.npy --out c --kind anchors --anchors 2000 --seed 7
  crosshash coefficients --labels labels.txt --out c --kind scul --json";

#[derive(Clone, Copy, ValueEnum)]
enum KindArg {
    /// 1 for single-label data; otherwise exact, or anchors if exact would take too long.
    Auto,
    /// The improved bound over all items.
    Exact,
    /// The improved bound over a sample of anchors (Algorithm 1).
    Anchors,
    /// The improved bound, rare labels and large overlaps weighing more.
    Graded,
    /// q = 1/|Y|, u = 1 (JCCH-B).
    Scul,
    /// Closed forms for balanced, uncorrelated labels.
    Balanced,
    /// q = u = 1.
    Uniform,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    reject_unused(args)?;
    let labels = crosshash_codes::read::labels(&args.labels)?;
    let started = Instant::now();
    let found = {
        let progress = Progress::new("coefficients (thousandths)", 1000);
        supervise(&labels, &options(args), &|done| progress.set(done))
            .with_context(|| format!("{}", args.labels.display()))?
    };
    let seconds = started.elapsed().as_secs_f64();
    fs_err::create_dir_all(&args.out)?;
    for (name, part) in [("q.npy", Part::Q), ("u.npy", Part::U)] {
        write(args, name, &found.coefficients, part)?;
    }
    report(args, &found, seconds)?;
    Ok(ExitCode::SUCCESS)
}

/// Rejects options that have no effect for the selected kind.
fn reject_unused(args: &Args) -> Result<()> {
    let kind = args.kind.to_possible_value();
    let kind = kind.as_ref().map_or("auto", |kind| kind.get_name());
    if args.anchors.is_some() && !matches!(args.kind, KindArg::Auto | KindArg::Anchors) {
        bail!(
            "--anchors has no effect with --kind {kind}; remove it, or use --kind anchors"
        );
    }
    if args.raw && matches!(args.kind, KindArg::Scul | KindArg::Uniform) {
        bail!(
            "--raw has no effect with --kind {kind}, which does not scale the coefficients"
        );
    }
    Ok(())
}

/// Warnings about the result.
fn warnings(args: &Args, found: &Supervision) -> Vec<String> {
    let mut all = Vec::new();
    if found.coefficients.sums().0 == 0.0 {
        all.push(
            "every q is 0: all items share a label, so no item has a negative".to_owned(),
        );
    }
    if found.kind == Kind::Uniform && args.anchors.is_some() {
        all.push("--anchors had no effect: every item has one label".to_owned());
    }
    if found.kind == Kind::Uniform && args.raw {
        all.push("--raw had no effect: every item has one label".to_owned());
    }
    all
}

fn options(args: &Args) -> Options {
    let kind = match args.kind {
        KindArg::Auto => Kind::Auto,
        KindArg::Exact => Kind::Exact,
        KindArg::Anchors => Kind::Anchors,
        KindArg::Graded => Kind::Graded,
        KindArg::Scul => Kind::Scul,
        KindArg::Balanced => Kind::Balanced,
        KindArg::Uniform => Kind::Uniform,
    };
    let scale = match (args.raw, args.mean_one) {
        (true, _) => Scale::Raw,
        (_, true) => Scale::MeanOne,
        _ => Scale::Paper,
    };
    let include_self = !args.no_self;
    Options { kind, anchors: args.anchors, seed: args.seed, scale, include_self }
}

fn write(args: &Args, name: &str, coefficients: &Coefficients, part: Part) -> Result<()> {
    let path = args.out.join(name);
    let progress = Progress::new(format!("writing {name}"), coefficients.len());
    atomically(&path, |out| {
        Ok(coefficients.write_npy(part, out, &|done| progress.set(done))?)
    })?;
    say(format_args!("wrote {}", path.display()));
    Ok(())
}

fn report(args: &Args, found: &Supervision, seconds: f64) -> Result<()> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    let coefficients = &found.coefficients;
    let anchors = found.anchors.as_ref().map(Vec::len);
    let warnings = warnings(args, found);
    warnings.iter().for_each(|warning| say(format_args!("warning: {warning}")));
    if args.json {
        let report = serde_json::json!({
            "kind": found.kind.name(),
            "reason": found.reason,
            "items": coefficients.len(),
            "labels": coefficients.classes(),
            "unlabelled": found.unlabelled,
            "distinct_sets": found.distinct,
            "anchors": anchors,
            "seed": args.seed,
            "scale": found.scale,
            "seconds": seconds,
            "warnings": warnings,
            "files": [args.out.join("q.npy"), args.out.join("u.npy")],
        });
        writeln!(out, "{report}")?;
        return Ok(());
    }
    writeln!(out, "kind           {} ({})", found.kind.name(), found.reason)?;
    writeln!(out, "items          {}", coefficients.len())?;
    writeln!(out, "unlabelled     {} (their coefficients are 0)", found.unlabelled)?;
    writeln!(out, "labels         {}", coefficients.classes())?;
    writeln!(out, "distinct sets  {}", found.distinct)?;
    if let Some(anchors) = anchors {
        writeln!(out, "anchors        {anchors} (seed {})", args.seed)?;
    }
    writeln!(out, "scale M        {:.6e}", found.scale)?;
    writeln!(out, "seconds        {seconds:.3}")?;
    Ok(())
}
