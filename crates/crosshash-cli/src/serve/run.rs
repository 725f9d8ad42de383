//! Loads a folder: a run, or an index without a model.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use crosshash::calibrate::NearestDistances;
use crosshash::data::Analysis;
use crosshash::{Encoder as _, FileStamp, QueryEncoder, RunDir, Suggestion};
use crosshash_codes::Bits;
use crosshash_codes::segments::is_index;
use xxhash_rust::xxh3::Xxh3;

use super::content::DatasetContent;
use super::modality_files;
use super::modality_index::ModalityIndex;
use super::served_items::ServedItems;
use super::store_items::StoreItems;
use super::thumbnail;
use crate::weight_paths::WeightPaths;

/// The only modality of an index that is served without a model.
const ITEMS: &str = "items";

/// One model as it is at one time.
pub(crate) struct ServedModel {
    pub(crate) name: String,
    /// Counts reloads, from 1.
    pub(crate) number: u64,
    pub(crate) folder: PathBuf,
    pub(crate) title: String,
    pub(crate) method: Option<String>,
    pub(crate) bits: Bits,
    pub(crate) labels: Vec<String>,
    pub(crate) encoder: Option<QueryEncoder>,
    /// By modality, in the order of the model.
    pub(crate) items: Vec<ServedItems>,
    pub(crate) shown: DatasetContent,
    pub(crate) data: Option<(PathBuf, Option<PathBuf>)>,
    /// Hash of the codes and the weights.
    pub(crate) fingerprint: String,
    /// From the report of the run.
    pub(crate) suggestions: Vec<Suggestion>,
    nearest: Vec<NearestDistances>,
}

/// The location of a data set, if it differs from the run's.
#[derive(Clone, Debug, Default)]
pub(crate) struct DataLocation {
    pub(crate) data: Option<PathBuf>,
    pub(crate) root: Option<PathBuf>,
}

/// When the files of a run were written; compared by polling.
pub(crate) type Stamp = Vec<FileStamp>;

/// Whether a folder can be served on its own.
pub(crate) fn is_servable(folder: &Path) -> bool {
    is_index(folder) || RunDir::is_run(folder)
}

/// When the files of a served folder were written.
pub(crate) fn stamp(folder: &Path) -> Stamp {
    RunDir::open(folder).map_or_else(|_| Stamp::new(), |run| run.stamps(true))
}

/// Opens a folder. `before` is the model that was served from it until now: its indexes are used
/// further if the codes are the same, and replaced otherwise. Items in a store stay there: the store
/// must have the codes of the new model.
pub(crate) fn open(
    name: &str,
    folder: &Path,
    place: &DataLocation,
    weight_paths: &WeightPaths,
    stores: &[Arc<StoreItems>],
    before: Option<&ServedModel>,
) -> Result<ServedModel> {
    let number = before.map_or(1, |before| before.number + 1);
    if is_index(folder) {
        return open_index(name, folder, number, before);
    }
    let run = RunDir::open(folder)?;
    let encoder = QueryEncoder::open(&run, &weight_paths.weights())?
        .with_picture_limits(thumbnail::limits());
    let fingerprint = fingerprint(&run)?;
    let config = run.config().ok();
    let report = run.report_if_any()?;
    let data = data_place(&run, place);
    let shown = match &data {
        None => DatasetContent::Nothing,
        Some((path, root)) => DatasetContent::open(path, root.as_deref()).unwrap_or_else(|err| {
            tracing::warn!(model = name, error = %format!("{err:#}"), "the data set cannot be opened: items have neither texts nor pictures; pass its location with --data and --root");
            DatasetContent::Nothing
        }),
    };
    let names: Vec<String> =
        encoder.model().modalities().into_iter().map(str::to_owned).collect();
    for store in stores {
        store.check(&run, encoder.model().bits())?;
    }
    let same = before.filter(|before| before.fingerprint == fingerprint);
    let items = match (same, before) {
        (Some(before), _) => before.items.clone(),
        (None, before) => {
            // Items inserted until now are final; the new indexes copy them.
            let old = before.map_or(&[][..], |before| &before.items);
            let old: Vec<_> = old.iter().filter_map(ServedItems::index).collect();
            old.iter().for_each(|index| index.suspend());
            let opened = open_items(&run, &names, &encoder, &fingerprint, stores);
            if opened.is_err() {
                old.iter().for_each(|index| index.resume());
            }
            opened?
        }
    };
    for index in items.iter().filter_map(ServedItems::index) {
        index.open_words(&encoder.analysis(&index.modality), &shown)?;
    }
    let (suggestions, nearest) =
        report.map(|report| (report.suggestions, report.nearest)).unwrap_or_default();
    Ok(ServedModel {
        name: name.to_owned(),
        number,
        folder: folder.to_owned(),
        title: title(&run, name, data.as_ref()),
        method: config.map(|config| config.method().name.to_owned()),
        bits: encoder.model().bits(),
        labels: encoder.model().labels().to_vec(),
        encoder: Some(encoder),
        items,
        shown,
        data,
        fingerprint,
        suggestions,
        nearest,
    })
}

/// The items of all modalities: in stores, or in indexes.
fn open_items(
    run: &RunDir,
    modalities: &[String],
    encoder: &QueryEncoder,
    fingerprint: &str,
    stores: &[Arc<StoreItems>],
) -> Result<Vec<ServedItems>> {
    let stored = |name: &str| stores.iter().find(|store| store.modality == name);
    let indexed: Vec<String> =
        modalities.iter().filter(|name| stored(name).is_none()).cloned().collect();
    let indexes = modality_files::open(run, &indexed, encoder, fingerprint)?;
    let mut indexes = indexes.into_iter();
    let items = modalities.iter().filter_map(|name| match stored(name) {
        Some(store) => Some(ServedItems::Store(Arc::clone(store))),
        None => indexes.next().map(ServedItems::Index),
    });
    Ok(items.collect())
}

fn open_index(
    name: &str,
    folder: &Path,
    number: u64,
    before: Option<&ServedModel>,
) -> Result<ServedModel> {
    let index = match before.and_then(|before| before.items.first()?.index()) {
        Some(index) => Arc::clone(index),
        None => Arc::new(ModalityIndex::open(ITEMS, folder)?),
    };
    index.open_words(&Analysis::default(), &DatasetContent::Nothing)?;
    let snapshot = index.snapshot();
    Ok(ServedModel {
        name: name.to_owned(),
        number,
        folder: folder.to_owned(),
        title: name.to_owned(),
        method: None,
        bits: snapshot.bits(),
        labels: snapshot.label_names().to_vec(),
        encoder: None,
        items: vec![ServedItems::Index(index)],
        shown: DatasetContent::Nothing,
        data: None,
        fingerprint: String::new(),
        suggestions: Vec::new(),
        nearest: Vec::new(),
    })
}

impl ServedModel {
    /// The items of a modality.
    pub(crate) fn items_of(&self, modality: &str) -> Option<&ServedItems> {
        self.items.iter().find(|items| items.modality() == modality)
    }

    /// The distance from which the nearest item of a query is not closer than chance, if it is known.
    pub(crate) fn weak_from(&self, query: Option<&str>, target: &str) -> Option<u32> {
        let fits = |one: &&NearestDistances| {
            Some(one.query.as_str()) == query && one.database == target
        };
        self.nearest.iter().find(fits).map(|found| found.weak_from)
    }
}

/// A display name: the data set and the run.
fn title(run: &RunDir, name: &str, data: Option<&(PathBuf, Option<PathBuf>)>) -> String {
    let method = run.report().ok().map(|report| report.method);
    let data =
        data.and_then(|(path, _)| Some(path.file_stem()?.to_string_lossy().into_owned()));
    match (method, data) {
        (Some(method), Some(data)) => format!("{name}: {data}, {method}"),
        (None, Some(data)) => format!("{name}: {data}"),
        _ => name.to_owned(),
    }
}

/// The location of a run's data: as given, or from its report.
pub(crate) fn data_place(
    run: &RunDir,
    place: &DataLocation,
) -> Option<(PathBuf, Option<PathBuf>)> {
    if let Some(data) = &place.data {
        return Some((data.clone(), place.root.clone()));
    }
    let report = run.report().ok()?;
    let available = report.is_data_available();
    if !available {
        tracing::warn!(data = %report.data.display(), "the data set of the run does not exist; specify --data and --root");
    }
    available.then(|| (report.data, place.root.clone().or(report.root)))
}

/// A hash of the model and its codes.
fn fingerprint(run: &RunDir) -> Result<String> {
    let mut state = Xxh3::new();
    for FileStamp { path, .. } in run.stamps(false) {
        let bytes = fs_err::read(&path)?;
        state.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        state.update(&(bytes.len() as u64).to_le_bytes());
        state.update(&bytes);
    }
    Ok(format!("{:016x}", state.digest()))
}

/// Removes the indexes of earlier models; requests that still read them are not disturbed.
pub(crate) fn sweep(generation: &ServedModel) -> Result<()> {
    for index in generation.items.iter().filter_map(ServedItems::index) {
        let folder = index.folder();
        let Some(own) = folder.parent().filter(|_| generation.encoder.is_some()) else {
            continue;
        };
        for entry in fs_err::read_dir(own)? {
            let path = entry?.path();
            if path.is_dir() && path != folder {
                fs_err::remove_dir_all(&path)?;
            }
        }
    }
    Ok(())
}
