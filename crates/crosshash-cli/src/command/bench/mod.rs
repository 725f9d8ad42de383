//! `crosshash bench`: speed against the peer, in one run, as a ratio.

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
enum What {}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match args.what {}
}
