//! `crosshash features`: pictures or texts to rows of numbers, in a file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use crosshash::backbone::{self, Takes};
use crosshash::data::{self, Features, MANIFEST, emoji};
use crosshash_codes::npy;

use crate::file;
use crate::opening::Extracting;
use crate::places::Places;
use crate::progress::say;

const EXAMPLES: &str = "\
Examples:
  All pictures of a folder (or .zip, .tar, .tar.gz), a row each, in the order of their names:
    crosshash features photos/ --backbone efficientnet-lite0 --weights PATH --out features.npy

  A modality of a data set, in the order of its items:
    crosshash features configs/data/iaprtc12-raw.toml --root PATH/iaprtc12 --modality image \\
      --backbone efficientnet-lite0 --weights PATH --out image.npy

  Texts, one a line:
    crosshash features texts.txt --backbone wordllama --weights PATH --out texts.npy

OUT.npy holds floats of 32 bits, items x width; beside it, OUT.ids.txt names the item of each row.
Rows are kept: a second run computes nothing, a stopped one goes on. `crosshash backbones` lists
what there is.";

/// Make rows of numbers of pictures or texts by a backbone.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A data set (folder with a manifest, manifest), a folder, zip or tar of pictures, or texts
    /// (.txt, one a line).
    data: PathBuf,

    /// The backbone: a name of `crosshash backbones`, or the path of an .onnx file.
    #[arg(long, value_name = "NAME")]
    backbone: String,

    /// The modality of a data set.
    #[arg(long, value_name = "NAME")]
    modality: Option<String>,

    /// Where the rows go.
    #[arg(long, value_name = "FILE.npy")]
    out: PathBuf,

    /// Where the files of the manifest are, if not beside it.
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,

    #[command(flatten)]
    places: Places,

    #[command(flatten)]
    extracting: Extracting,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.out.extension().is_none_or(|ending| ending != "npy") {
        bail!("--out {}: name a file that ends in .npy", args.out.display());
    }
    let loaded = backbone::open(&args.backbone, &args.places.weights())?;
    let (features, ids) = items(args, loaded.backbone().takes())?;
    let given = args.extracting.extract(&loaded, &features, "features")?;
    let width = given.rows.width();
    npy::write_matrix(&args.out, given.rows.len(), width, given.rows.into_values())?;
    let names: String = given.kept.iter().map(|&k| format!("{}\n", ids[k])).collect();
    let beside = args.out.with_extension("ids.txt");
    file::write(&beside, &names)?;
    say(format!("rows in {}, their ids in {}", args.out.display(), beside.display()));
    Ok(ExitCode::SUCCESS)
}

/// The items, with their ids.
fn items(args: &Args, takes: Takes) -> Result<(Features, Vec<String>)> {
    let path = &args.data;
    if is_dataset(path) {
        let opened = crate::opening::open_within_limits(path, args.root.as_deref())?;
        let all = opened.dataset.modalities();
        let fits: Vec<&str> = all
            .iter()
            .filter(|modality| match modality.features() {
                Features::Pictures(_) => takes == Takes::Pictures,
                Features::Text(_) => takes == Takes::Texts,
                _ => false,
            })
            .map(data::Modality::name)
            .collect();
        let name = match (&args.modality, &fits[..]) {
            (Some(name), _) => name.as_str(),
            (None, &[one]) => one,
            (None, _) => bail!(
                "--modality: name the modality; {} fit the backbone",
                if fits.is_empty() { "none".into() } else { fits.join(", ") }
            ),
        };
        let modality = opened.dataset.modality(name).context("--modality")?;
        return Ok((modality.features().clone(), modality.ids().to_vec()));
    }
    if args.modality.is_some() {
        bail!("--modality goes with a data set; {} is none", path.display());
    }
    if takes == Takes::Texts {
        let texts = data::items(path, true)?;
        let ids = (0..texts.len()).map(|line| line.to_string()).collect();
        return Ok((texts, ids));
    }
    let (pictures, ids) = data::pictures(path, "")?;
    Ok((Features::Pictures(pictures), ids))
}

fn is_dataset(path: &Path) -> bool {
    let manifest = path.extension().is_some_and(|ending| ending == "toml");
    manifest
        || path.join(MANIFEST).is_file()
        || (path == Path::new(emoji::NAME) && !path.exists())
}
