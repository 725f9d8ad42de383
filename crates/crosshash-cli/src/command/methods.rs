//! `crosshash methods`: what there is to learn codes with.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use crosshash::method::{About, Learning, METHODS};
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  crosshash methods
  crosshash train emoji --out run --method dcmh --set 'modalities=[\"picture\", \"words\"]'
  crosshash compare emoji --out comparison --methods jcch,dcmh,cca

Cost per epoch: n items, r bits, C labels, width d. `once` learns all at once, `hardly` fits at most
means and variances. A reference has no codes: it ranks by the cosine of real outputs.";

/// List the methods: paper, year, cost, what they need.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let all: Vec<About> = METHODS.iter().map(|method| method.about()).collect();
    let text = if args.json { to_json(&all)? } else { to_text(&all) };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn learning(about: &About) -> &'static str {
    match about.learning {
        Learning::Epochs => "epochs",
        Learning::Once => "once",
        Learning::Hardly => "hardly",
    }
}

fn needs(about: &About) -> String {
    let all =
        [("pairs", about.pairs), ("labels", about.labels), ("one modality", about.single)];
    let named: Vec<&str> =
        all.into_iter().filter(|(_, needed)| *needed).map(|(name, _)| name).collect();
    if named.is_empty() { "-".into() } else { named.join(", ") }
}

fn to_text(all: &[About]) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:<11}{:<6}{:<8}{:<22}{:<44}what, and whence",
        "name", "year", "learns", "needs", "cost per epoch"
    );
    for about in all {
        let _ = writeln!(
            out,
            "{:<11}{:<6}{:<8}{:<22}{:<44}{}",
            about.name,
            about.year,
            learning(about),
            needs(about),
            about.cost,
            about.title
        );
        let _ = writeln!(out, "{:<91}{}", "", about.paper);
    }
    out
}

fn to_json(all: &[About]) -> Result<String> {
    let one = |about: &About| {
        json!({
            "name": about.name, "title": about.title, "paper": about.paper, "year": about.year,
            "cost": about.cost, "learns": learning(about), "needs_pairs": about.pairs,
            "needs_labels": about.labels, "one_modality": about.single,
            "seeded": about.seeded, "codes": about.codes,
        })
    };
    let all: Vec<_> = all.iter().map(one).collect();
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}
