//! What can be typed.

use clap::{Parser, Subcommand};

use crate::command;

/// Cross-modal hashing: learn, judge and search short binary codes of pictures, texts,
/// sketches and anything else with labels.
#[derive(Parser)]
#[command(
    name = "crosshash",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
#[command(max_term_width = 100)]
pub(crate) struct Cli {
    /// How many threads to use (default: one per core).
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// One line per subcommand; each lives in its own file under `command/`.
#[derive(Subcommand)]
pub(crate) enum Command {
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
    Coefficients(command::coefficients::Args),
}
