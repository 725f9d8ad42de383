//! `crosshash methods`: lists the methods.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use crosshash::method::{Learning, METHODS, MethodInfo};
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  crosshash methods
  crosshash train emoji --out run --method dcmh --set 'modalities=[\"picture\", \"words\"]'
  crosshash compare emoji --out comparison --methods jcch,dcmh,cca

Cost per epoch: n items, r bits, C labels, width d. `closed form` has one step, `statistics` fits at
most means and variances. A reference has no codes: it ranks by the cosine of real outputs.";

/// List the methods with paper, year, cost and requirements.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let all: Vec<MethodInfo> = METHODS.iter().map(|entry| entry.info).collect();
    let text = if args.json { to_json(&all)? } else { to_text(&all) };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn learning(info: &MethodInfo) -> &'static str {
    match info.learning {
        Learning::Epochs => "epochs",
        Learning::ClosedForm => "closed form",
        Learning::Statistics => "statistics",
    }
}

fn needs(info: &MethodInfo) -> String {
    let all =
        [("pairs", info.pairs), ("labels", info.labels), ("one modality", info.single)];
    let named: Vec<&str> =
        all.into_iter().filter(|(_, needed)| *needed).map(|(name, _)| name).collect();
    if named.is_empty() { "-".into() } else { named.join(", ") }
}

fn to_text(all: &[MethodInfo]) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:<11}{:<6}{:<13}{:<22}{:<47}method, paper",
        "name", "year", "learns", "needs", "cost per epoch"
    );
    for info in all {
        let _ = writeln!(
            out,
            "{:<11}{:<6}{:<13}{:<22}{:<47}{}",
            info.name,
            info.year,
            learning(info),
            needs(info),
            info.cost,
            info.title
        );
        let _ = writeln!(out, "{:<99}{}", "", info.paper);
        if !info.on_features.is_empty() {
            let _ = writeln!(out, "{:<99}on features: {}", "", info.on_features);
        }
    }
    out
}

fn to_json(all: &[MethodInfo]) -> Result<String> {
    let one = |info: &MethodInfo| {
        json!({
            "name": info.name, "title": info.title, "paper": info.paper, "year": info.year,
            "cost": info.cost, "learns": learning(info), "needs_pairs": info.pairs,
            "needs_labels": info.labels, "one_modality": info.single,
            "seeded": info.seeded, "codes": info.codes,
            "on_features": info.on_features,
        })
    };
    let all: Vec<_> = all.iter().map(one).collect();
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}
