//! `crosshash data`: inspect data sets, write manifests, generate data.

pub(crate) mod guess;
pub(crate) mod import;
mod inspect;
mod synth;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// Inspect data sets, write manifests, generate synthetic data.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Inspect(inspect::Args),
    Import(import::Args),
    Guess(guess::Args),
    Synth(synth::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.what {
        What::Inspect(args) => inspect::run(args),
        What::Import(args) => import::run(args),
        What::Guess(args) => guess::run(args),
        What::Synth(args) => synth::run(args),
    }
}
