//! `crosshash bench`: speed and memory against the usual tools, in one run, as a ratio.

mod coefficients;
mod dcmh;
pub(crate) mod eval;
mod features;
mod peer;
mod search;
mod serve;
mod train;

pub(crate) use peer::peak_mib;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// Measure speed and memory against the usual tools, in one run.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

/// One line per benchmark; each lives in its own file.
#[derive(Subcommand)]
enum What {
    Coefficients(coefficients::Args),
    Dcmh(dcmh::Args),
    Eval(eval::Args),
    Features(features::Args),
    Train(train::Args),
    Search(search::Args),
    Serve(serve::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.what {
        What::Coefficients(args) => coefficients::run(args),
        What::Dcmh(args) => dcmh::run(args),
        What::Eval(args) => eval::run(args),
        What::Features(args) => features::run(args),
        What::Train(args) => train::run(args),
        What::Search(args) => search::run(args),
        What::Serve(args) => serve::run(args),
    }
}
