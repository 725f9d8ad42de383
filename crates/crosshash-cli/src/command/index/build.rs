//! `crosshash index build` and `crosshash index add`: items from files into an index.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use crosshash_codes::exchange::{format_of, read_ids};
use crosshash_codes::segments::{ItemBatch, NewIndex, Writer};
use crosshash_codes::{Bits, Outputs, read};

use crate::code_args::CodeArgs;
use crate::progress::say;

const BUILD_EXAMPLES: &str = "\
Examples:
  From packed codes of any tool; ids are numbers from 0:
    crosshash index build photos.index --codes codes.npy

  With ids and labels, one per line or row:
    crosshash index build photos.index --codes codes.npy --ids ids.txt --labels labels.npy

  From a trained run (with ids and labels); from a FAISS IndexBinaryFlat; from JSON lines:
    crosshash index build photos.index --codes run/codes/database.image.codes --outputs int8
    crosshash index build photos.index --codes flat.faiss
    crosshash index build photos.index --codes items.jsonl";

const ADD_EXAMPLES: &str = "\
Examples:
    crosshash index add photos.index --codes new.npy --ids new.txt
    crosshash index add photos.index --codes changed.jsonl --upsert

All items are added in one commit: after a crash either all or none of them are in the index.";

/// The items to index.
#[derive(clap::Args)]
struct Items {
    /// Codes: .npy, .codes, .faiss (IndexBinaryFlat) or .jsonl.
    #[arg(long, value_name = "FILE")]
    codes: PathBuf,

    /// Ids: a text file with one per line (all numbers, or names), or a .npy vector [default: those
    /// in the code file, or numbers from 0].
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,

    /// Labels: .npy matrix of 0/1, .npy vector of class numbers, or a text file with the label
    /// numbers of one item per line [default: those in the code file].
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,

    /// Outputs of the model to store with the codes, for --rank outputs: a .npy matrix (items x
    /// bits), or `int8` for those that `train` stored beside the code file of a run. Takes one byte
    /// per bit and item.
    #[arg(long, value_name = "FILE|int8")]
    outputs: Option<PathBuf>,

    #[command(flatten)]
    layout: CodeArgs,
}

impl Items {
    fn read(&self) -> Result<ItemBatch> {
        let format = format_of(&self.codes).context("--codes")?;
        let mut file = (format.read)(&self.codes, &self.layout.options()?)?;
        if let Some(path) = &self.ids {
            file.ids = Some(read_ids(path)?);
        }
        if let Some(path) = &self.labels {
            file.labels = Some(read::labels(path)?);
        }
        let outputs = self.outputs(file.codes.bits())?;
        Ok(ItemBatch { outputs, ..file.into() })
    }

    fn outputs(&self, bits: Bits) -> Result<Option<Outputs>> {
        let Some(path) = &self.outputs else { return Ok(None) };
        let beside = self.codes.with_extension("outputs.npy");
        let path = if path == Path::new("int8") { &beside } else { path };
        if !path.exists() {
            bail!(
                "--outputs: {} does not exist; `crosshash train` writes it for every modality of a \
                 run",
                path.display()
            );
        }
        Ok(Some(Outputs::from_reals(bits, &read::reals(path, bits)?)?))
    }
}

/// Create an index.
#[derive(clap::Args)]
#[command(after_help = BUILD_EXAMPLES)]
pub(super) struct BuildArgs {
    /// Folder of the new index.
    index: PathBuf,

    #[command(flatten)]
    items: Items,

    /// Names of the labels for filters, one per line in the order of their numbers.
    #[arg(long, value_name = "FILE")]
    label_names: Option<PathBuf>,
}

/// Add items to an index.
#[derive(clap::Args)]
#[command(after_help = ADD_EXAMPLES)]
pub(super) struct AddArgs {
    /// Folder of the index.
    index: PathBuf,

    #[command(flatten)]
    items: Items,

    /// Replace items with existing ids, instead of failing.
    #[arg(long)]
    upsert: bool,
}

pub(super) fn build(args: &BuildArgs) -> Result<ExitCode> {
    if crosshash_codes::segments::is_index(&args.index) {
        bail!("{} is already an index; use `crosshash index add`", args.index.display());
    }
    let items = args.items.read()?;
    let names = match &args.label_names {
        Some(path) => lines(path)?,
        None => Vec::new(),
    };
    let count = items.codes.len();
    let is_new = !args.index.exists();
    let make = || -> Result<()> {
        let new = NewIndex {
            bits: items.codes.bits(),
            label_names: &names,
            outputs: items.outputs.is_some(),
            after_commit: 0,
        };
        let mut writer = Writer::create_with(&args.index, new)?;
        writer.insert(items.clone())?;
        Ok(writer.flush()?)
    };
    if let Err(err) = make() {
        if is_new {
            fs_err::remove_dir_all(&args.index)?; // leave no incomplete index
        }
        return Err(err);
    }
    say(format!(
        "{count} items of {} bits in {}",
        items.codes.bits(),
        args.index.display()
    ));
    Ok(ExitCode::SUCCESS)
}

pub(super) fn add(args: &AddArgs) -> Result<ExitCode> {
    let mut writer = Writer::open(&args.index)?;
    let items = args.items.read()?;
    let count = items.codes.len();
    if args.upsert {
        let replaced = writer.upsert(items)?;
        say(format!("{} items added, {replaced} replaced", count - replaced));
    } else {
        writer.insert(items)?;
        say(format!("{count} items added"));
    }
    Ok(ExitCode::SUCCESS)
}

fn lines(path: &Path) -> Result<Vec<String>> {
    Ok(fs_err::read_to_string(path)?.lines().map(str::to_owned).collect())
}
