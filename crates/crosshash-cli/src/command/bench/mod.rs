//! `crosshash bench`: speed against the peer, in one run, as a ratio.

mod coefficients;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// Measure speed and memory against the usual tools, in one run.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Coefficients(coefficients::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.what {
        What::Coefficients(args) => coefficients::run(args),
    }
}
