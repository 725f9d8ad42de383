//! `crosshash data`: look at data sets, make manifests, make data.

mod import;
mod inspect;
mod synth;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// Look at data sets, write manifests for them, make synthetic ones.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Inspect(inspect::Args),
    Import(import::Args),
    Synth(synth::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.what {
        What::Inspect(args) => inspect::run(args),
        What::Import(args) => import::run(args),
        What::Synth(args) => synth::run(args),
    }
}
