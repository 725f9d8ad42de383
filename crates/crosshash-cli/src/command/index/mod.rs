//! `crosshash index`: indexes on disk: build, add, delete, info, compact, export, snapshot, rescue,
//! tree.

mod build;
mod change;
mod export;
mod info;
mod rescue;
mod tree;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

/// Create and change indexes on disk; items have ids and labels and can be added and deleted.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Build(build::BuildArgs),
    Add(build::AddArgs),
    Delete(change::DeleteArgs),
    Info(info::Args),
    Compact(change::CompactArgs),
    Export(export::ExportArgs),
    Snapshot(export::SnapshotArgs),
    Rescue(rescue::Args),
    Tree(tree::Args),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.what {
        What::Build(args) => build::build(args),
        What::Add(args) => build::add(args),
        What::Delete(args) => change::delete(args),
        What::Info(args) => info::run(args),
        What::Compact(args) => change::compact(args),
        What::Export(args) => export::export(args),
        What::Snapshot(args) => export::snapshot(args),
        What::Rescue(args) => rescue::run(args),
        What::Tree(args) => tree::run(args),
    }
}
