//! `crosshash data inspect`: statistics and problems of a data set.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use crosshash::data::inspect::{self, ModalityReport, Report};

use crate::plot;
use crate::progress::{Progress, say};

/// Print statistics and problems of a data set, warnings first.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  crosshash data inspect photos/                 a folder with a dataset.toml
  crosshash data inspect configs/data/iaprtc12.toml --root ~/iaprtc12
  crosshash data inspect photos/ --json | jq .split.hash
  crosshash data inspect photos/ --plot labels.svg
  crosshash data inspect emoji                   the built-in data set")]
pub(crate) struct Args {
    /// Data set: a manifest, a folder with a dataset.toml, or `emoji`.
    manifest: PathBuf,
    /// Folder of the files that the manifest names [default: the manifest's folder].
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Plot the label histogram.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Number of labels to list.
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let opened =
        crate::data_args::open_within_limits(&args.manifest, args.root.as_deref())?;
    let total = opened.dataset.modalities().iter().map(|modality| modality.len()).sum();
    let progress = Progress::new("inspecting", total);
    let report = inspect::inspect(&opened, &|done| progress.set(done))?;
    drop(progress);
    if let Some(path) = &args.plot {
        plot::labels::draw(&report, path).context("plotting the labels")?;
        say(format!("wrote {}", path.display()));
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else {
        print(&mut out, &report, args.top)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(out: &mut impl Write, report: &Report, top: usize) -> std::io::Result<()> {
    writeln!(out, "{}", report.name)?;
    for (what, text) in [("licence", &report.licence), ("source", &report.source)] {
        if let Some(text) = text {
            writeln!(out, "  {what}: {text}")?;
        }
    }
    for warning in &report.warnings {
        writeln!(out, "  warning: {warning}")?;
    }
    writeln!(
        out,
        "\nmodality        form        items   width  labels/item  unlabelled  empty  duplicates"
    )?;
    for modality in &report.modalities {
        row(out, modality)?;
    }
    for pair in &report.pairs {
        writeln!(
            out,
            "pairs {} - {}: {}{} (only {}: {}, only {}: {})",
            pair.left,
            pair.right,
            pair.both,
            if pair.item_pairs == pair.both {
                String::new()
            } else {
                format!(" keys, {} pairs of items", pair.item_pairs)
            },
            pair.left,
            pair.left_only,
            pair.right,
            pair.right_only
        )?;
    }
    print_labels(out, report, top)?;
    print_split(out, report)?;
    if !report.dropped.is_empty() {
        writeln!(out, "\nleft out")?;
    }
    for left in &report.dropped {
        writeln!(out, "  {:<14} {:>8}  {}", left.modality, left.items, left.reason)?;
    }
    Ok(())
}

fn row(out: &mut impl Write, modality: &ModalityReport) -> std::io::Result<()> {
    let content = &modality.content;
    let width = modality.width.map_or("-".to_owned(), |width| width.to_string());
    writeln!(
        out,
        "{:<15} {:<9} {:>7} {:>7} {:>12.2} {:>11} {:>6} {:>11}",
        modality.name,
        modality.form,
        modality.items,
        width,
        modality.labels_per_item,
        modality.unlabelled,
        content.empty,
        content.duplicates
    )?;
    if let Some(cells) = content.cells_per_item {
        writeln!(out, "                {cells:.2} non-zero numbers per item")?;
    }
    if let Some(groups) = modality.groups {
        writeln!(out, "                {groups} groups")?;
    }
    if let Some(keys) = modality.pair_keys {
        writeln!(out, "                {keys} pair keys")?;
    }
    if let Some(terms) = &content.terms {
        writeln!(
            out,
            "                {} terms in the training vocabulary, {:.2} per text, {} items without any",
            terms.count, terms.per_text, terms.without
        )?;
    }
    Ok(())
}

fn print_labels(out: &mut impl Write, report: &Report, top: usize) -> std::io::Result<()> {
    let labels = &report.labels;
    if labels.count == 0 {
        return writeln!(out, "\nno labels; {} ids", labels.ids);
    }
    if let Some(derived) = &labels.derived {
        writeln!(out, "\n{derived}")?;
    }
    writeln!(
        out,
        "\n{} labels over {} ids, {} distinct sets",
        labels.count, labels.ids, labels.distinct_sets
    )?;
    let most = labels.histogram.first().map_or(1, |label| label.items.max(1));
    for label in labels.histogram.iter().take(top) {
        let bar = "#".repeat((label.items * 30).div_ceil(most));
        writeln!(out, "  {:<24} {:>8}  {bar}", label.name, label.items)?;
    }
    if labels.histogram.len() > top {
        let rest = &labels.histogram[top..];
        let least = rest.last().map_or(0, |label| label.items);
        writeln!(out, "  ... {} more, down to {least}", rest.len())?;
    }
    if !labels.together.is_empty() {
        writeln!(out, "most frequent pairs")?;
    }
    for pair in labels.together.iter().take(top) {
        let names = format!("{} + {}", pair.left, pair.right);
        writeln!(out, "  {names:<32} {:>8}  {:.1} x chance", pair.items, pair.lift)?;
    }
    Ok(())
}

fn print_split(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    let Some(split) = &report.split else { return Ok(()) };
    writeln!(out, "\nsplit {} (seed {})", split.hash, split.seed)?;
    writeln!(
        out,
        "                  train  validation    query  database  query=train  query=database"
    )?;
    for part in &split.parts {
        writeln!(
            out,
            "  {:<14} {:>7} {:>11} {:>8} {:>9} {:>12} {:>15}",
            part.modality,
            part.train,
            part.validation,
            part.query,
            part.database,
            part.query_in_train,
            part.query_in_database
        )?;
    }
    Ok(())
}
