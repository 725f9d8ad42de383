//! One file per subcommand: parse, call the library, write.

pub(crate) mod backbones;
pub(crate) mod coefficients;
pub(crate) mod compare;
pub(crate) mod data;
pub(crate) mod demo;
pub(crate) mod embed_plot;
pub(crate) mod encode;
pub(crate) mod eval;
pub(crate) mod features;
pub(crate) mod index;
pub(crate) mod methods;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod sweep;
pub(crate) mod train;

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::{Cli, Command};

pub(crate) fn run(cli: Cli) -> Result<ExitCode> {
    crate::set_threads(cli.threads)?;
    match cli.command {
        Command::Demo(args) => demo::run(&args),
        Command::Data(args) => data::run(&args),
        Command::Train(args) => train::run(&args),
        Command::Encode(args) => encode::run(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Methods(args) => methods::run(&args),
        Command::Backbones(args) => backbones::run(&args),
        Command::Features(args) => features::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::EmbedPlot(args) => embed_plot::run(&args),
        Command::Index(args) => index::run(&args),
        Command::Search(args) => search::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Coefficients(args) => coefficients::run(&args),
    }
}
