//! `crosshash-bench reproduce`: experiments of the paper, each with one command.

mod sketch;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// Reproduce an experiment of the paper.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    Sketch(sketch::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.experiment {
        Experiment::Sketch(args) => sketch::run(args),
    }
}
