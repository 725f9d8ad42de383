//! `crosshash-bench`: benchmarks against the usual Python tools, and the experiments of the paper.
//!
//! Each benchmark runs its peer on the same data in the same run and prints the ratio. The peers
//! are the scripts in `peers/`. `crosshash-bench program ...` runs the program `crosshash` itself:
//! benchmarks that need a server start it this way.

mod attack;
mod coefficients;
mod dcmh;
mod eval;
mod features;
mod peer;
mod python;
mod reproduce;
mod search;
mod serve;
mod stores;
mod train;
mod typed;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Compare speed and memory with the usual tools in one run, or reproduce an experiment of the
/// paper. From a checkout: cargo run --release -p crosshash-bench -- search
#[derive(Parser)]
#[command(version, propagate_version = true, arg_required_else_help = true)]
#[command(name = "crosshash-bench", max_term_width = 100)]
struct Cli {
    /// Number of threads (default: one per core).
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,

    #[command(subcommand)]
    command: Command,
}

/// The benchmarks; each has its own file.
#[derive(Subcommand)]
enum Command {
    Attack(attack::Args),
    Coefficients(coefficients::Args),
    Dcmh(dcmh::Args),
    Eval(eval::Args),
    Features(features::Args),
    Python(python::Args),
    Train(train::Args),
    Typed(typed::Args),
    Search(search::Args),
    Serve(serve::Args),
    Stores(stores::Args),
    Reproduce(Box<reproduce::Args>),
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == "program") {
        return crosshash_cli::main_from(arguments.into_iter().skip(1));
    }
    // A server of a benchmark starts its decoders through this program.
    if arguments.get(1).is_some_and(|first| first == "decode-worker") {
        return crosshash_cli::main_from(arguments);
    }
    crosshash_cli::exit_code("crosshash-bench", run(Cli::parse()))
}

fn run(cli: Cli) -> Result<ExitCode> {
    crosshash_cli::set_threads(cli.threads)?;
    match cli.command {
        Command::Attack(args) => attack::run(&args),
        Command::Coefficients(args) => coefficients::run(&args),
        Command::Dcmh(args) => dcmh::run(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Features(args) => features::run(&args),
        Command::Python(args) => python::run(&args),
        Command::Train(args) => train::run(&args),
        Command::Typed(args) => typed::run(&args),
        Command::Search(args) => search::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Stores(args) => stores::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
    }
}
