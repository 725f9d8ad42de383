//! `crosshash features`: extracts features of pictures or texts into a file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use crosshash::backbone::{self, InputKind};
use crosshash::data::{self, Features, MANIFEST, emoji};
use crosshash_codes::npy;

use crate::data_args::ExtractArgs;
use crate::file;
use crate::progress::say;
use crate::weight_paths::WeightPaths;

const EXAMPLES: &str = "\
Examples:
  All pictures of a folder (or .zip, .tar, .tar.gz), one row each, sorted by name:
    crosshash features photos/ --backbone efficientnet-lite0 --weights PATH --out features.npy

  A modality of a data set, in the order of its items:
    crosshash features configs/data/iaprtc12-raw.toml --root PATH/iaprtc12 --modality image \\
      --backbone efficientnet-lite0 --weights PATH --out image.npy

  Texts, one per line:
    crosshash features texts.txt --backbone wordllama --weights PATH --out texts.npy

OUT.npy contains 32-bit floats, items x width; OUT.ids.txt lists the id of each row. Features are
cached: an interrupted extraction continues where it stopped. `crosshash backbones` lists the
available backbones.";

/// Extract features of pictures or texts with a backbone.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A data set (manifest, or folder with one), a folder, zip or tar of pictures, or texts
    /// (.txt, one per line).
    data: PathBuf,

    /// Backbone: a name listed by `crosshash backbones`, or the path of an .onnx file.
    #[arg(long, value_name = "NAME")]
    backbone: String,

    /// Modality of the data set.
    #[arg(long, value_name = "NAME")]
    modality: Option<String>,

    /// Output file.
    #[arg(long, value_name = "FILE.npy")]
    out: PathBuf,

    /// Folder of the files that the manifest names [default: the manifest's folder].
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,

    #[command(flatten)]
    weight_paths: WeightPaths,

    #[command(flatten)]
    extract_args: ExtractArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.out.extension().is_none_or(|ending| ending != "npy") {
        bail!("--out {}: the file name must end in .npy", args.out.display());
    }
    let weights = args.weight_paths.weights();
    let loaded = backbone::open(&args.backbone, &weights)?;
    let (features, ids) = items(args, loaded.backbone().input_kind())?;
    let given = args.extract_args.with_extractor(weights, |extractor| {
        extractor.extract(&loaded, &features, "features")
    })?;
    let width = given.rows.width();
    npy::write_matrix(&args.out, given.rows.len(), width, given.rows.into_values())?;
    let names: String = given.kept.iter().map(|&k| format!("{}\n", ids[k])).collect();
    let beside = args.out.with_extension("ids.txt");
    file::write(&beside, &names)?;
    say(format!("features in {}, ids in {}", args.out.display(), beside.display()));
    Ok(ExitCode::SUCCESS)
}

/// The items, with their ids.
fn items(args: &Args, takes: InputKind) -> Result<(Features, Vec<String>)> {
    let path = &args.data;
    if is_dataset(path) {
        let opened = crate::data_args::open_within_limits(path, args.root.as_deref())?;
        let all = opened.dataset.modalities();
        let fits: Vec<&str> = all
            .iter()
            .filter(|modality| match modality.features() {
                Features::Pictures(_) => takes == InputKind::Pictures,
                Features::Text(_) => takes == InputKind::Texts,
                _ => false,
            })
            .map(data::Modality::name)
            .collect();
        let name = match (&args.modality, &fits[..]) {
            (Some(name), _) => name.as_str(),
            (None, &[one]) => one,
            (None, _) => bail!(
                "--modality: specify the modality; {} can be used with this backbone",
                if fits.is_empty() { "none".into() } else { fits.join(", ") }
            ),
        };
        let modality = opened.dataset.modality(name).context("--modality")?;
        return Ok((modality.features().clone(), modality.ids().to_vec()));
    }
    if args.modality.is_some() {
        bail!("--modality requires a data set; {} is not one", path.display());
    }
    if takes == InputKind::Texts {
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
