//! The queries of a search: codes from a file, or items encoded by the model of a run.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use crosshash::encode::signs;
use crosshash::{Encoder as _, QueryEncoder, QueryKind, RunDir};
use crosshash_codes::format::CodeFile;
use crosshash_codes::segments::{ItemBatch, Snapshot};
use crosshash_codes::{Bits, Codes, exchange, read};

use super::Args;
use super::items::Content;
use crate::data_args::ExtractArgs;
use crate::progress::Progress;

/// The queries.
pub(super) struct Queries {
    pub(super) codes: Codes,
    /// Real outputs, one value per bit, if they are known.
    pub(super) reals: Option<Vec<f32>>,
    /// Their texts, files, ids or numbers.
    pub(super) names: Vec<String>,
}

impl Queries {
    /// Queries that are known by their outputs.
    fn from_reals(
        bits: Bits,
        reals: Vec<f32>,
        names: Option<Vec<String>>,
    ) -> Result<Queries> {
        let codes = signs(bits, &reals)?;
        let names = names.filter(|names| names.len() == codes.len());
        let names = names.unwrap_or_else(|| numbers(codes.len()));
        Ok(Queries { codes, reals: Some(reals), names })
    }

    fn from_codes(file: CodeFile) -> Queries {
        let ids = file.ids.as_ref();
        let ids = ids.map(|ids| (0..ids.len()).map(|at| ids.get(at).to_string()).collect());
        let names = ids.unwrap_or_else(|| numbers(file.codes.len()));
        Queries { codes: file.codes, reals: None, names }
    }

    /// The real outputs; -1 and +1 by the codes if they are not known.
    pub(super) fn reals_or_signs(&self) -> Vec<f32> {
        let codes = &self.codes;
        let sign = |at: usize, k: usize| if codes.bit(at, k) { 1.0 } else { -1.0 };
        let signs = || {
            let bits = codes.bits().get();
            (0..codes.len() * bits).map(|at| sign(at / bits, at % bits)).collect()
        };
        self.reals.clone().unwrap_or_else(signs)
    }
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|at| at.to_string()).collect()
}

/// The queries for an index.
pub(super) fn for_index(args: &Args, snapshot: &Snapshot) -> Result<Queries> {
    if query_kind(args).is_some() || args.input.is_some() {
        bail!(
            "--text, --image, --drawing and --input require a model: specify the folder of a run \
             instead of an index, or encode the queries first (`crosshash encode`) and use --codes"
        );
    }
    if let Some(path) = &args.rerank {
        let reals = read::reals(path, snapshot.bits())?;
        return Queries::from_reals(snapshot.bits(), reals, None);
    }
    let path = args.codes.as_deref().context("no queries: specify --codes FILE")?;
    let mut options = args.layout.options()?;
    options.bits = options.bits.or(Some(snapshot.bits()));
    let format = exchange::format_of(path).context("--codes")?;
    Ok(Queries::from_codes((format.read)(path, &options)?))
}

/// The codes and outputs of all items of one modality of a run, the queries, the content of the items, and the model
/// that encoded the queries.
pub(super) fn for_run(args: &Args) -> Result<(Snapshot, Queries, Content, QueryEncoder)> {
    let run = RunDir::open(&args.place)?;
    let encoder = QueryEncoder::open(&run, &args.weight_paths.weights())?;
    let model = encoder.model();
    let queries = encoded(args, &encoder)?;
    let target = target(args, &encoder)?;
    let (file, outputs) = run.items(&target)?;
    let items = ItemBatch { outputs, ..file.into() };
    let content = Content::of_run(&run, &target);
    let snapshot = Snapshot::in_memory(items, model.labels())?;
    Ok((snapshot, queries, content, encoder))
}

/// The modality to search in a run.
pub(super) fn target(args: &Args, encoder: &QueryEncoder) -> Result<String> {
    let model = encoder.model();
    let target = match &args.target {
        Some(target) => target.clone(),
        None => {
            let modality = query_modality(args, encoder)?;
            let mut others = model.modalities();
            others.retain(|name| *name != modality);
            match others[..] {
                [one] => one.to_owned(),
                _ => {
                    bail!("--target: specify the modality to search: {}", others.join(", "))
                }
            }
        }
    };
    if !model.modalities().contains(&target.as_str()) {
        let known = model.modalities().join(", ");
        bail!("--target: {target} is not a modality of the run; there are {known}");
    }
    Ok(target)
}

/// The kind of the queries given by --text, --image or --drawing.
fn query_kind(args: &Args) -> Option<QueryKind> {
    if !args.text.is_empty() {
        Some(QueryKind::Text)
    } else if !args.image.is_empty() {
        Some(QueryKind::Picture)
    } else if !args.drawing.is_empty() {
        Some(QueryKind::Drawing)
    } else {
        None
    }
}

/// The modality of the queries.
pub(super) fn query_modality(args: &Args, encoder: &QueryEncoder) -> Result<String> {
    let named = args.modality.as_deref();
    if let Some(kind) = query_kind(args) {
        let modality = encoder.select_modality(named, kind).context("--modality")?;
        return Ok(modality.to_owned());
    }
    // A file can contain queries of any kind; the modality determines which.
    match (named, &encoder.model().modalities()[..]) {
        (Some(name), _) => {
            encoder.model().preparation(name).context("--modality")?;
            Ok(name.to_owned())
        }
        (None, [one]) => Ok((*one).to_owned()),
        (None, all) => {
            bail!("--modality: specify the modality of the queries: {}", all.join(", "))
        }
    }
}

fn encoded(args: &Args, encoder: &QueryEncoder) -> Result<Queries> {
    let model = encoder.model();
    if let Some(path) = &args.codes {
        let format = exchange::format_of(path).context("--codes")?;
        return Ok(Queries::from_codes((format.read)(path, &args.layout.options()?)?));
    }
    if let Some(path) = &args.rerank {
        let reals = read::reals(path, model.bits())?;
        return Queries::from_reals(model.bits(), reals, None);
    }
    let modality = query_modality(args, encoder)?;
    let (features, names) = match (&args.input, query_kind(args)) {
        (Some(path), _) => {
            let weights = args.weight_paths.weights();
            let items = ExtractArgs::default().with_extractor(weights, |extractor| {
                encoder.items(&modality, path, extractor)
            })?;
            (items.features, items.ids)
        }
        (None, None) => {
            bail!("no queries: specify --text, --image, --drawing, --input or --codes")
        }
        (None, Some(QueryKind::Text)) => {
            (encoder.texts(&modality, &args.text)?, Some(args.text.clone()))
        }
        (None, Some(_)) => {
            let paths: Vec<&PathBuf> = args.image.iter().chain(&args.drawing).collect();
            let names = paths.iter().map(|path| path.display().to_string()).collect();
            let files = paths.iter().map(|path| Ok(fs_err::read(path)?));
            let files = files.collect::<Result<_>>()?;
            (encoder.pictures(&modality, files)?, Some(names))
        }
    };
    let progress = Progress::new("encoding", features.len());
    let outputs = model.outputs(&modality, features, &|done| progress.set(done))?;
    Queries::from_reals(model.bits(), outputs, names)
}
