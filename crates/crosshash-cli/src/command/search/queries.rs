//! The queries of a search: codes from a file, or items encoded by the model of a run.

use anyhow::{Context as _, Result, bail};
use crosshash::encode::signs;
use crosshash::{Encoder as _, QueryEncoder, QueryKind, RunDir, Subset};
use crosshash_codes::segments::Snapshot;
use crosshash_codes::{Bits, Codes, exchange, read};

use super::Args;
use crate::data_args::ExtractArgs;
use crate::progress::Progress;

/// The queries.
pub(super) enum Queries {
    Codes(Codes),
    /// One value per bit.
    Reals(Vec<f32>),
}

impl Queries {
    /// How many there are.
    pub(super) fn len(&self, bits: Bits) -> usize {
        match self {
            Queries::Codes(codes) => codes.len(),
            Queries::Reals(values) => values.len() / bits.get(),
        }
    }
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
        return Ok(Queries::Reals(read::reals(path, snapshot.bits())?));
    }
    let path = args.codes.as_deref().context("no queries: specify --codes FILE")?;
    let mut options = args.layout.options()?;
    options.bits = options.bits.or(Some(snapshot.bits()));
    let format = exchange::format_of(path).context("--codes")?;
    Ok(Queries::Codes((format.read)(path, &options)?.codes))
}

/// The codes of one modality of a run, the queries, and the model that encoded them.
pub(super) fn for_run(args: &Args) -> Result<(Snapshot, Queries, QueryEncoder)> {
    let run = RunDir::open(&args.place)?;
    let encoder = QueryEncoder::open(&run, &args.weight_paths.weights())?;
    let model = encoder.model();
    let queries = encoded(args, &encoder)?;
    let target = target(args, &encoder)?;
    let file = run.codes(Subset::Database, &target)?;
    let snapshot = Snapshot::in_memory(file, model.labels())?;
    Ok((snapshot, queries, encoder))
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
        return Ok(Queries::Codes((format.read)(path, &args.layout.options()?)?.codes));
    }
    if let Some(path) = &args.rerank {
        return Ok(Queries::Reals(read::reals(path, model.bits())?));
    }
    let modality = query_modality(args, encoder)?;
    let features = match (&args.input, query_kind(args)) {
        (Some(path), _) => {
            let weights = args.weight_paths.weights();
            let items = ExtractArgs::default().with_extractor(weights, |extractor| {
                encoder.items(&modality, path, extractor)
            })?;
            items.features
        }
        (None, None) => {
            bail!("no queries: specify --text, --image, --drawing, --input or --codes")
        }
        (None, Some(QueryKind::Text)) => encoder.texts(&modality, &args.text)?,
        (None, Some(_)) => {
            let paths = args.image.iter().chain(&args.drawing);
            let files = paths.map(|path| Ok(fs_err::read(path)?)).collect::<Result<_>>()?;
            encoder.pictures(&modality, files)?
        }
    };
    let progress = Progress::new("encoding", features.len());
    let outputs = model.outputs(&modality, features, &|done| progress.set(done))?;
    if args.asymmetric {
        return Ok(Queries::Reals(outputs));
    }
    Ok(Queries::Codes(signs(model.bits(), &outputs)?))
}
