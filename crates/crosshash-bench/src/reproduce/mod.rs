//! `crosshash-bench reproduce`: experiments of the paper, each with one command.

mod paper;
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
    /// Table 1: category-level sketch-to-image retrieval, with the published numbers beside ours.
    Table1(paper::Args),
    /// Table 2: text-image retrieval, with the published numbers beside ours.
    Table2(paper::Args),
    /// Table 3: JCCH against JCCH-B, with the published numbers beside ours.
    Table3(paper::Args),
    /// t-SNE of the outputs of both modalities with the centres.
    Figure2(paper::Args),
    /// MAP while training: JCCH, DCMH, JCCH+DCMH.
    Figure4(paper::Args),
    /// The number of anchors of the coefficients.
    Figure5(paper::Args),
    /// lambda and beta on texts and pictures.
    Figure6(paper::Args),
    /// lambda on sketches and photos.
    Figure7(paper::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.experiment {
        Experiment::Sketch(args) => sketch::run(args),
        Experiment::Table1(args) => paper::run(paper::TABLE1, args),
        Experiment::Table2(args) => paper::run(paper::TABLE2, args),
        Experiment::Table3(args) => paper::run(paper::TABLE3, args),
        Experiment::Figure2(args) => paper::run(paper::FIGURE2, args),
        Experiment::Figure4(args) => paper::run(paper::FIGURE4, args),
        Experiment::Figure5(args) => paper::run(paper::FIGURE5, args),
        Experiment::Figure6(args) => paper::run(paper::FIGURE6, args),
        Experiment::Figure7(args) => paper::run(paper::FIGURE7, args),
    }
}
