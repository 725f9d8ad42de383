//! The command line.

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::{command, isolation};

/// Cross-modal hashing: train, evaluate and search short binary codes of pictures, texts, sketches
/// and other labelled data.
#[derive(Parser)]
#[command(
    name = "crosshash",
    version = env!("CROSSHASH_VERSION"),
    propagate_version = true,
    arg_required_else_help = true
)]
#[command(max_term_width = 100)]
pub(crate) struct Cli {
    /// Number of threads [default: one per core].
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands; each has its own file in `command/`.
#[derive(Subcommand)]
pub(crate) enum Command {
    Start(Box<command::start::Args>),
    Demo(Box<command::demo::Args>),
    Data(command::data::Args),
    Train(command::train::Args),
    Encode(command::encode::Args),
    Eval(command::eval::Args),
    Methods(command::methods::Args),
    Backbones(command::backbones::Args),
    Features(command::features::Args),
    Compare(Box<command::compare::Args>),
    Sweep(command::sweep::Args),
    EmbedPlot(command::embed_plot::Args),
    Index(command::index::Args),
    Search(command::search::Args),
    Serve(Box<command::serve::Args>),
    Store(command::store::Args),
    Verify(command::verify::Args),
    Coefficients(command::coefficients::Args),
    Doctor(command::doctor::Args),
    Completions(command::completions::Args),
    Man(command::man::Args),
    /// Decode pictures for the process that started this one.
    #[command(name = isolation::WORKER, hide = true)]
    DecodeWorker,
}

/// Runs the subcommand.
pub(crate) fn run(cli: Cli) -> Result<ExitCode> {
    if matches!(cli.command, Command::DecodeWorker) {
        return isolation::work();
    }
    crate::set_threads(cli.threads)?;
    crosshash_codes::survive_cut_files()?;
    isolation::install(matches!(cli.command, Command::Serve(_) | Command::Demo(_)));
    match cli.command {
        Command::Start(args) => command::start::run(&args),
        Command::DecodeWorker => isolation::work(),
        Command::Demo(args) => command::demo::run(&args),
        Command::Data(args) => command::data::run(&args),
        Command::Train(args) => command::train::run(&args),
        Command::Encode(args) => command::encode::run(&args),
        Command::Eval(args) => command::eval::run(&args),
        Command::Compare(args) => command::compare::run(&args),
        Command::Methods(args) => command::methods::run(&args),
        Command::Backbones(args) => command::backbones::run(&args),
        Command::Features(args) => command::features::run(&args),
        Command::Sweep(args) => command::sweep::run(&args),
        Command::EmbedPlot(args) => command::embed_plot::run(&args),
        Command::Index(args) => command::index::run(&args),
        Command::Search(args) => command::search::run(&args),
        Command::Serve(args) => command::serve::run(&args),
        Command::Store(args) => command::store::run(&args),
        Command::Verify(args) => command::verify::run(&args),
        Command::Coefficients(args) => command::coefficients::run(&args),
        Command::Doctor(args) => command::doctor::run(&args),
        Command::Completions(args) => command::completions::run(&args, Cli::command()),
        Command::Man(args) => command::man::run(&args, Cli::command()),
    }
}
