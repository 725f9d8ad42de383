//! `crosshash backbones`: lists the backbones and the locations of their weights.

pub(crate) mod fetch;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use crosshash::backbone::{self, BackboneInfo, InputKind, Weights};
use serde_json::json;

use crate::weight_paths::WeightPaths;

const EXAMPLES: &str = "\
Examples:
  crosshash backbones
  crosshash backbones fetch efficientnet-lite0
  crosshash features photos/ --backbone descriptor --out features.npy

Any other ONNX network can be used by its path, with a TOML file beside it that describes its input
(docs/pictures.md). Only `fetch` downloads files.";

/// List backbones and the locations of their weights; download weights.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,

    #[command(flatten)]
    weight_paths: WeightPaths,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    Fetch(fetch::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(What::Fetch(args)) = &args.what {
        return fetch::run(args);
    }
    let weights = args.weight_paths.weights();
    let text = if args.json { to_json(&weights)? } else { to_text(&weights) };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn takes(info: &BackboneInfo) -> &'static str {
    match info.input_kind {
        InputKind::Pictures if info.drawings => "drawings",
        InputKind::Pictures => "pictures",
        InputKind::Texts => "texts",
    }
}

fn to_text(weights: &Weights) -> String {
    let mut out = format!("{:<20}{:<10}{:>6}  what\n", "name", "takes", "width");
    for info in backbone::all() {
        let _ = writeln!(
            out,
            "{:<20}{:<10}{:>6}  {} ({})",
            info.name,
            takes(info),
            info.width,
            info.what,
            info.licence
        );
        let indent = " ".repeat(38);
        match info.find(weights) {
            Ok(files) if files.is_empty() => {
                let _ = writeln!(out, "{indent}built in");
            }
            Ok(files) => {
                for file in files {
                    let _ = writeln!(out, "{indent}found: {}", file.display());
                }
            }
            Err(_) => {
                let _ = writeln!(out, "{indent}not found; to get it:");
                for line in info.get.lines() {
                    let _ = writeln!(out, "{indent}  {}", line.trim_start());
                }
            }
        }
    }
    let folders: Vec<String> =
        weights.folders.iter().map(|folder| folder.display().to_string()).collect();
    let _ = writeln!(out, "\nfolders with weights: {}", folders.join(", "));
    let runtime = match &weights.onnxruntime {
        Some(library) => format!("onnxruntime, {}", library.display()),
        None => "built in (onnxruntime is about three times as fast: --onnxruntime or \
             $ORT_DYLIB_PATH)"
            .to_owned(),
    };
    let _ = writeln!(out, "ONNX runtime: {runtime}");
    out
}

fn to_json(weights: &Weights) -> Result<String> {
    let one = |info: &BackboneInfo| {
        let found = info.find(weights).ok();
        json!({
            "name": info.name, "takes": takes(info), "width": info.width,
            "what": info.what, "licence": info.licence, "get": info.get,
            "found": found,
        })
    };
    let all: Vec<_> = backbone::all().map(one).collect();
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}
