//! From a folder to a model that can be asked: a run, or an index without a model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use crosshash::{
    Encoder as _, FileStamp, QueryEncoder, QueryInput, QueryKind, RunDir, Subset,
};
use crosshash_codes::format::{CodeFile, Ids};
use crosshash_codes::segments::{Snapshot, Writer, is_index};
use crosshash_codes::{Bits, Codes, Labels};
use xxhash_rust::xxh3::Xxh3;

use super::content::DatasetContent;
use super::records::{Change, Record, Records};
use super::shelf::{New, Open, Shelf, code_file};
use super::view::from_hex;
use crate::progress::{Progress, say};
use crate::weight_paths::WeightPaths;

/// The folder in an index that the server keeps its own files in.
const FOLDER: &str = "serve";
/// What was inserted, beside the index of a modality.
const RECORDS: &str = "records.log";
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
    pub(crate) shelves: Vec<Arc<Shelf>>,
    pub(crate) shown: DatasetContent,
    pub(crate) data: Option<(PathBuf, Option<PathBuf>)>,
    /// What the codes and the weights are, as a hash.
    pub(crate) fingerprint: String,
}

/// Where a data set is, if not where the run says.
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

/// Opens a folder. `before` is what was served of it until now: what it wrote is taken over, and
/// its writers, if the codes have changed.
pub(crate) fn open(
    name: &str,
    folder: &Path,
    place: &DataLocation,
    weight_paths: &WeightPaths,
    before: Option<&ServedModel>,
) -> Result<ServedModel> {
    let number = before.map_or(1, |before| before.number + 1);
    if is_index(folder) {
        return open_index(name, folder, number, before);
    }
    let run = RunDir::open(folder)?;
    let encoder = QueryEncoder::open(&run, &weight_paths.weights())?;
    let fingerprint = fingerprint(&run)?;
    let config = run.config().ok();
    let data = data_place(&run, place);
    let shown = match &data {
        None => DatasetContent::Nothing,
        Some((path, root)) => DatasetContent::open(path, root.as_deref()).unwrap_or_else(|err| {
            tracing::warn!(model = name, error = %format!("{err:#}"), "the data set cannot be opened: items show neither texts nor pictures; say where it is with --data and --root");
            DatasetContent::Nothing
        }),
    };
    let names: Vec<String> =
        encoder.model().modalities().into_iter().map(str::to_owned).collect();
    let same = before.filter(|before| before.fingerprint == fingerprint);
    let shelves = match same {
        Some(before) => before.shelves.clone(),
        None => {
            let retired: Vec<(&Arc<Shelf>, Option<Open>)> = before
                .map_or(&[][..], |before| &before.shelves)
                .iter()
                .map(|shelf| (shelf, shelf.retire()))
                .collect();
            let made = names.iter().map(|modality| {
                let old = retired
                    .iter()
                    .map(|(shelf, _)| *shelf)
                    .find(|s| &s.modality == modality);
                shelf(&run, modality, &encoder, &fingerprint, old)
                    .with_context(|| format!("the index of modality {modality}"))
            });
            match made.collect::<Result<Vec<_>>>() {
                Ok(shelves) => shelves,
                Err(err) => {
                    // What was served goes on as it was.
                    for (shelf, open) in retired {
                        open.into_iter().for_each(|open| shelf.restore(open));
                    }
                    return Err(err);
                }
            }
        }
    };
    Ok(ServedModel {
        name: name.to_owned(),
        number,
        folder: folder.to_owned(),
        title: title(&run, name, data.as_ref()),
        method: config.map(|config| config.method().name.to_owned()),
        bits: encoder.model().bits(),
        labels: encoder.model().labels().to_vec(),
        encoder: Some(encoder),
        shelves,
        shown,
        data,
        fingerprint,
    })
}

fn open_index(
    name: &str,
    folder: &Path,
    number: u64,
    before: Option<&ServedModel>,
) -> Result<ServedModel> {
    let shelf = match before {
        Some(before) => Arc::clone(&before.shelves[0]),
        None => {
            let own = folder.join(FOLDER);
            fs_err::create_dir_all(&own)?;
            let writer = Writer::open(folder)?;
            let commit = writer.snapshot().info().commit;
            let records = Arc::new(Records::open(&own.join(RECORDS), &|_| Some(commit))?);
            let progress = Progress::new("preparing the search", writer.snapshot().len());
            let open = Open::new(writer, folder, ITEMS);
            Arc::new(Shelf::start(ITEMS, open, records, None, &|done| progress.set(done))?)
        }
    };
    let view = shelf.view();
    Ok(ServedModel {
        name: name.to_owned(),
        number,
        folder: folder.to_owned(),
        title: name.to_owned(),
        method: None,
        bits: view.snapshot.bits(),
        labels: view.snapshot.label_names().to_vec(),
        encoder: None,
        shelves: vec![shelf],
        shown: DatasetContent::Nothing,
        data: None,
        fingerprint: String::new(),
    })
}

impl ServedModel {
    /// The shelf of a modality.
    pub(crate) fn shelf(&self, modality: &str) -> Option<&Arc<Shelf>> {
        self.shelves.iter().find(|shelf| shelf.modality == modality)
    }
}

/// A name for people: the data set and the run.
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

/// Where the data of a run are: as told, or as its report says.
fn data_place(run: &RunDir, place: &DataLocation) -> Option<(PathBuf, Option<PathBuf>)> {
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

/// The shelf of a modality: what was built before, or a new index of the run's codes and of all
/// that was inserted and deleted since.
fn shelf(
    run: &RunDir,
    modality: &str,
    encoder: &QueryEncoder,
    fingerprint: &str,
    old: Option<&Arc<Shelf>>,
) -> Result<Arc<Shelf>> {
    let own = run.service_path().join(modality);
    let folder = own.join(fingerprint);
    fs_err::create_dir_all(&own)?;
    let records = match old {
        Some(old) => Arc::clone(&old.records),
        None => {
            let committed =
                |name: &str| Some(Snapshot::open(&own.join(name)).ok()?.info().commit);
            Arc::new(Records::open(&own.join(RECORDS), &committed)?)
        }
    };
    if !is_index(&folder) {
        let aside = own.join(format!("{fingerprint}.new"));
        if aside.exists() {
            fs_err::remove_dir_all(&aside)?;
        }
        build(run, modality, encoder, &aside, &records)?;
        fs_err::rename(&aside, &folder)?;
        fs_err::File::open(&own)?.sync_all()?;
    }
    let writer = Writer::open(&folder)?;
    let progress = Progress::new(
        format!("preparing the search of {modality}"),
        writer.snapshot().len(),
    );
    let open = Open::new(writer, &folder, fingerprint);
    let shelf = Shelf::start(modality, open, records, None, &|done| progress.set(done))?;
    Ok(Arc::new(shelf))
}

/// Removes the indexes of earlier models; who still reads them keeps them.
pub(crate) fn sweep(generation: &ServedModel) -> Result<()> {
    for shelf in &generation.shelves {
        let folder = shelf.folder();
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

fn build(
    run: &RunDir,
    modality: &str,
    encoder: &QueryEncoder,
    folder: &Path,
    records: &Records,
) -> Result<()> {
    let items = coded(run, modality)?;
    let mut writer =
        Writer::create(folder, encoder.model().bits(), encoder.model().labels())?;
    say(format!("{modality}: {} items are indexed", items.codes.len()));
    writer.insert(&items)?;
    // What became of every id since, the last word of each.
    let mut last: BTreeMap<String, Change> = BTreeMap::new();
    records.replay(|change| {
        let id = match &change {
            Change::Put(record, _) => record.id.clone(),
            Change::Gone(id) => id.clone(),
        };
        last.insert(id, change);
        Ok(())
    })?;
    let (mut puts, mut gone) = (Vec::new(), Vec::new());
    for (id, change) in last {
        match change {
            Change::Gone(_) => gone.extend(writer.snapshot().typed_id(&id)),
            Change::Put(record, picture) => {
                match again(encoder, modality, *record, picture) {
                    Ok(new) => puts.push(new),
                    Err(err) => {
                        tracing::warn!(modality, id, error = %err, "an inserted item cannot be encoded by this model and is not searched");
                        gone.extend(writer.snapshot().typed_id(&id));
                    }
                }
            }
        }
    }
    if !puts.is_empty() {
        let file = code_file(writer.snapshot(), &puts)?;
        writer.upsert(&file)?;
    }
    writer.delete(&gone)?;
    Ok(())
}

/// An inserted item for a model that did not encode it before.
fn again(
    encoder: &QueryEncoder,
    modality: &str,
    record: Record,
    picture: Option<Vec<u8>>,
) -> Result<New, String> {
    let is_text = encoder.kinds(modality).contains(&QueryKind::Text);
    let given = match (&record.features, &record.text, &picture) {
        (Some(values), _, _) => Some(QueryInput::Features(values.clone())),
        (_, Some(text), _) if is_text => Some(QueryInput::Text(text.clone())),
        (_, _, Some(picture)) => Some(QueryInput::Picture(picture.clone())),
        _ => None,
    };
    let code = match (&record.code, given) {
        (Some(code), _) => from_hex(encoder.model().bits(), code)
            .map_err(|_| "its code has another length".to_owned())?,
        (None, Some(given)) => {
            let encoded = encoder.encode(Some(modality), given);
            encoded.map_err(|err| err.to_string())?.code.words().to_vec()
        }
        (None, None) => return Err("nothing to encode is kept of it".into()),
    };
    let names = encoder.model().labels();
    let number = |label: &String| {
        names.iter().position(|name| name == label).and_then(|at| u32::try_from(at).ok())
    };
    let labels = record.labels.iter().filter_map(number).collect();
    Ok(New { code, labels, record, picture })
}

/// Database and queries of a modality, each id once.
fn coded(run: &RunDir, modality: &str) -> Result<CodeFile> {
    let database = run.codes(Subset::Database, modality)?;
    let queries = run.codes(Subset::Query, modality)?;
    let bits = database.codes.bits();
    let mut rows = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for file in [&database, &queries] {
        let Some(Ids::Names(ids)) = &file.ids else {
            bail!("{}: the codes have no ids; train again", run.path().display());
        };
        let fresh = ids.iter().enumerate().filter(|(_, id)| seen.insert(id.as_str()));
        rows.extend(fresh.map(|(row, id)| (file, row, id.clone())));
    }
    let classes = database.labels.as_ref().map_or(0, Labels::classes);
    let labels = |(file, row, _): &(&CodeFile, usize, String)| -> Vec<u32> {
        let labels = file.labels.as_ref();
        let own =
            labels.map(|l| l.indices(*row).filter_map(|l| u32::try_from(l).ok()).collect());
        own.unwrap_or_default()
    };
    let words =
        rows.iter().flat_map(|(file, row, _)| file.codes.code(*row)).copied().collect();
    Ok(CodeFile {
        codes: Codes::from_words(bits, words)?,
        labels: Some(Labels::from_indices(classes, rows.iter().map(labels))?),
        ids: Some(Ids::Names(rows.into_iter().map(|row| row.2).collect())),
    })
}
