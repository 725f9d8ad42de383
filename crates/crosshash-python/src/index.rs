//! Indexes: in memory, or in a folder (the live index of the program).

use std::path::PathBuf;
use std::sync::Arc;

use crosshash::payload::{DisplayFields, Payload, PayloadFields};
use crosshash_codes::exchange::format_of;
use crosshash_codes::format::{CodeFile, Id, Ids};
use crosshash_codes::index::{Hit, ItemSet, Query, Rank};
use crosshash_codes::live::{self, LiveIndex};
use crosshash_codes::read::CodeOptions;
use crosshash_codes::segments::{
    CANDIDATES, ItemBatch, MemoryIndex, NewIndex, Ranking, Snapshot, Writer,
};
use crosshash_codes::{Bits, Cancel, Codes, Labels, Outputs};
use numpy::{PyArray1, PyArray2, PyArrayMethods as _};
use pyo3::prelude::*;

use crate::arrays::{self, LabelRows};
use crate::errors::{OrRaise as _, invalid};
use crate::work;

/// Comparisons of codes that the interpreter waits for without a thread of their own.
const FEW: usize = 1 << 24;

/// Items with codes, ids, labels, texts and fields.
#[pyclass(frozen, module = "crosshash._crosshash")]
pub(crate) struct Index(Store);

enum Store {
    Memory(MemoryIndex),
    Disk(LiveIndex),
}

/// Ids of items.
#[derive(FromPyObject)]
pub(crate) enum GivenIds<'py> {
    Numbers(Bound<'py, PyArray1<u64>>),
    Names(Vec<String>),
}

/// Ids of hits.
#[derive(IntoPyObject)]
pub(crate) enum FoundIds<'py> {
    Numbers(Bound<'py, PyArray1<u64>>),
    Names(Vec<String>),
}

/// The hits of all queries: starts of the rows, ids, distances, and scores if they were requested.
type Hits<'py> = (
    Bound<'py, PyArray1<i64>>,
    FoundIds<'py>,
    Bound<'py, PyArray1<u32>>,
    Option<Bound<'py, PyArray1<f32>>>,
);

/// One item: packed code as bytes, label numbers, text, fields as JSON.
type Item = (Vec<u8>, Vec<usize>, Option<String>, String);

#[pymethods]
impl Index {
    /// A new index in memory, or in an empty folder.
    #[new]
    #[pyo3(signature = (bits, label_names, outputs, kind, path))]
    fn new(
        py: Python<'_>,
        bits: usize,
        label_names: Vec<String>,
        outputs: bool,
        kind: &str,
        path: Option<PathBuf>,
    ) -> PyResult<Index> {
        let bits = Bits::new(bits).or_raise()?;
        let settings =
            NewIndex { bits, label_names: &label_names, outputs, after_commit: 0 };
        let Some(path) = path else {
            return Ok(Index(Store::Memory(MemoryIndex::new(settings, kind).or_raise()?)));
        };
        work::short(py, || {
            drop(Writer::create_with(&path, settings).or_raise()?);
            Ok(())
        })?;
        Index::open(py, path, kind)
    }

    /// Opens the index in a folder.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf, kind: &str) -> PyResult<Index> {
        work::short(py, || {
            let options = live::Options { kind, ..live::Options::default() };
            Ok(Index(Store::Disk(LiveIndex::open(&path, options).or_raise()?)))
        })
    }

    /// Adds items; returns how many were replaced.
    #[pyo3(signature = (codes, ids, labels, texts, metas, outputs, upsert))]
    #[expect(clippy::too_many_arguments, reason = "the columns of the items")]
    fn add(
        &self,
        py: Python<'_>,
        codes: &Bound<'_, PyArray2<u8>>,
        ids: Option<GivenIds<'_>>,
        labels: Option<LabelRows<'_>>,
        texts: Option<Vec<Option<String>>>,
        metas: Option<Vec<Option<String>>>,
        outputs: Option<&Bound<'_, PyArray1<f32>>>,
        upsert: bool,
    ) -> PyResult<usize> {
        let bits = self.snapshot().bits();
        let codes = arrays::codes(codes, bits.get())?;
        // The index keeps the codes; the array may change later.
        let codes = Codes::from_words(bits, codes.words().to_vec()).or_raise()?;
        let ids = ids.map(given_ids).transpose()?;
        let labels = labels.map(|labels| arrays::labels(&labels)).transpose()?;
        let outputs = match outputs {
            None => None,
            Some(outputs) => {
                let outputs = outputs.try_readonly()?;
                Some(Outputs::from_reals(bits, outputs.as_slice()?).or_raise()?)
            }
        };
        work::run(py, None, ("adding", codes.len()), |_| {
            let names = self.snapshot().label_names().to_vec();
            let payloads = payloads(codes.len(), texts, metas, labels.as_ref(), &names)?;
            let items = ItemBatch { codes, ids, labels, payloads, flags: None, outputs };
            match (&self.0, upsert) {
                (Store::Memory(index), true) => index.upsert(items).or_raise(),
                (Store::Memory(index), false) => index.insert(items).map(|_| 0).or_raise(),
                (Store::Disk(index), _) => index
                    .write(|writer| {
                        let ids = items.ids.as_ref();
                        let ids: Vec<Id> = ids
                            .map(|ids| (0..ids.len()).map(|row| ids.get(row)).collect())
                            .unwrap_or_default();
                        let replaced = if upsert {
                            writer.upsert(items)?
                        } else {
                            writer.insert(items)?;
                            0
                        };
                        Ok((replaced, ids))
                    })
                    .or_raise(),
            }
        })
    }

    /// Deletes ids; returns how many there were.
    fn delete(&self, py: Python<'_>, ids: GivenIds<'_>) -> PyResult<usize> {
        let ids = given_ids(ids)?;
        let ids: Vec<Id> = (0..ids.len()).map(|row| ids.get(row)).collect();
        work::short(py, || match &self.0 {
            Store::Memory(index) => index.delete(&ids).or_raise(),
            Store::Disk(index) => {
                index.write(|writer| Ok((writer.delete(&ids)?, ids.clone()))).or_raise()
            }
        })
    }

    /// Deletes the items for which a filter holds; returns how many there were.
    fn delete_where(&self, py: Python<'_>, filter: &str) -> PyResult<usize> {
        let choose =
            |now: &Snapshot| now.filter_with(filter, &PayloadFields, &Cancel::default());
        work::short(py, || match &self.0 {
            Store::Memory(index) => index.delete_items(choose).or_raise(),
            Store::Disk(index) => index
                .write(|writer| {
                    let items = choose(writer.snapshot())?;
                    let now = Arc::clone(writer.snapshot());
                    let ids = items.iter().map(|item| now.id(item));
                    let ids = ids.collect::<crosshash_codes::Result<Vec<Id>>>()?;
                    Ok((writer.delete_items(&items)?, ids))
                })
                .or_raise(),
        })
    }

    /// The nearest items of every query.
    #[pyo3(signature = (queries, k, radius, skip, filter, rank, candidates, outputs, callback))]
    #[expect(clippy::too_many_arguments, reason = "the keyword arguments of Python")]
    fn search<'py>(
        &self,
        py: Python<'py>,
        queries: &Bound<'py, PyArray2<u8>>,
        k: Option<usize>,
        radius: Option<u32>,
        skip: usize,
        filter: Option<String>,
        rank: &str,
        candidates: Option<usize>,
        outputs: Option<&Bound<'py, PyArray1<f32>>>,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<Hits<'py>> {
        let snapshot = self.snapshot();
        let queries = arrays::codes(queries, snapshot.bits().get())?;
        let reals: Vec<f32> = match outputs {
            Some(outputs) => outputs.try_readonly()?.as_slice()?.to_vec(),
            None => Vec::new(),
        };
        let rank = match rank {
            "auto" => snapshot.best_rank(!reals.is_empty()),
            name => name.parse::<Rank>().or_raise()?,
        };
        let ranking = Ranking { rank, candidates: candidates.unwrap_or(CANDIDATES) };
        let (k, count) = (k.unwrap_or(usize::MAX), queries.len());
        let search = |set: &(dyn Fn(usize) + Sync)| -> PyResult<Columns> {
            let allowed: Option<ItemSet> = filter
                .as_deref()
                .map(|filter| {
                    snapshot.filter_with(filter, &PayloadFields, &Cancel::default())
                })
                .transpose()
                .or_raise()?;
            let query =
                Query { radius, skip, allowed: allowed.as_ref(), ..Query::nearest(k) };
            if rank == Rank::Hamming {
                let hits = snapshot.hits(&queries, &query, set).or_raise()?;
                return Columns::of(&snapshot, hits.iter().map(|row| row.iter().copied()));
            }
            let found = snapshot.search_ranked(&queries, &reals, ranking, &query, set);
            let found = found.or_raise()?;
            let hits = found.iter().map(|row| row.iter().map(|found| found.hit));
            let mut columns = Columns::of(&snapshot, hits)?;
            let scores =
                found.iter().flatten().map(|found| found.score.unwrap_or(f32::NAN));
            columns.scores = Some(scores.collect());
            Ok(columns)
        };
        let columns = if count.saturating_mul(snapshot.len()) <= FEW && callback.is_none() {
            work::short(py, || search(&|_| ()))?
        } else {
            work::run(py, callback, ("searching", count), |work| {
                search(&|done| work.set(done))
            })?
        };
        let ids = match columns.ids {
            Ids::Numbers(ids) => FoundIds::Numbers(PyArray1::from_vec(py, ids)),
            Ids::Names(ids) => FoundIds::Names(ids),
        };
        Ok((
            PyArray1::from_vec(py, columns.starts),
            ids,
            PyArray1::from_vec(py, columns.distances),
            columns.scores.map(|scores| PyArray1::from_vec(py, scores)),
        ))
    }

    /// One item by its id; None if it does not exist.
    fn get(&self, py: Python<'_>, id: &str) -> PyResult<Option<Item>> {
        let snapshot = self.snapshot();
        work::short(py, || {
            let Some(id) = snapshot.typed_id(id) else { return Ok(None) };
            let Some(item) = snapshot.find(&id).or_raise()? else { return Ok(None) };
            let code = snapshot.code(item).or_raise()?;
            let bytes = code.iter().flat_map(|word| word.to_le_bytes());
            let code = bytes.take(snapshot.bits().bytes()).collect();
            let payload = snapshot.payload(item).or_raise()?;
            let shown = if payload.is_empty() {
                DisplayFields::default()
            } else {
                DisplayFields::decode(payload).or_raise()?.0
            };
            let meta = serde_json::Value::Object(shown.meta).to_string();
            Ok(Some((code, snapshot.labels(item).or_raise()?, shown.text, meta)))
        })
    }

    fn __len__(&self) -> usize {
        self.snapshot().len()
    }

    #[getter]
    fn bits(&self) -> usize {
        self.snapshot().bits().get()
    }

    #[getter]
    fn label_names(&self) -> Vec<String> {
        self.snapshot().label_names().to_vec()
    }

    /// Whether the outputs of a model are stored.
    #[getter]
    fn has_outputs(&self) -> bool {
        self.snapshot().has_outputs()
    }

    /// The folder, if there is one.
    #[getter]
    fn path(&self) -> Option<String> {
        match &self.0 {
            Store::Memory(_) => None,
            Store::Disk(index) => Some(index.folder().display().to_string()),
        }
    }

    /// Counts and sizes, as JSON.
    fn info(&self) -> PyResult<String> {
        serde_json::to_string(&self.snapshot().info())
            .map_err(|err| invalid(err.to_string()))
    }

    /// How every part is searched.
    fn explain(&self) -> PyResult<Vec<String>> {
        self.snapshot().explain().or_raise()
    }

    /// Builds the search structures now instead of in the background.
    #[pyo3(signature = (kind, callback=None))]
    fn prepare(
        &self,
        py: Python<'_>,
        kind: &str,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let snapshot = self.snapshot();
        work::run(py, callback, ("building", snapshot.len()), |work| {
            snapshot.prepare(kind, &|done| work.set(done)).or_raise()
        })
    }

    /// Drops deleted items from memory or disk.
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        work::short(py, || match &self.0 {
            Store::Memory(index) => index.compact().or_raise(),
            Store::Disk(index) => index.compact().or_raise(),
        })
    }

    /// All items: packed codes, ids, labels.
    fn items<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Option<FoundIds<'py>>, Option<LabelRows<'py>>)> {
        let snapshot = self.snapshot();
        let CodeFile { codes, ids, labels } =
            work::short(py, || snapshot.to_code_file().or_raise())?;
        let ids = ids.map(|ids| match ids {
            Ids::Numbers(ids) => FoundIds::Numbers(PyArray1::from_vec(py, ids)),
            Ids::Names(ids) => FoundIds::Names(ids),
        });
        let labels = labels.map(|labels| arrays::label_rows(py, &labels));
        Ok((arrays::to_array(py, codes)?, ids, labels))
    }

    /// Writes the codes of all items in the format of the file name (.faiss, .npy, .codes, .jsonl).
    fn export(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let snapshot = self.snapshot();
        work::short(py, || {
            let format = format_of(&path).or_raise()?;
            (format.write)(&path, &snapshot.to_code_file().or_raise()?).or_raise()
        })
    }

    /// Reads codes in the format of the file name: (bits, packed codes, ids, labels).
    #[staticmethod]
    #[pyo3(signature = (path, bits=None))]
    #[expect(clippy::type_complexity, reason = "the columns of a file")]
    fn read<'py>(
        py: Python<'py>,
        path: PathBuf,
        bits: Option<usize>,
    ) -> PyResult<(usize, Bound<'py, PyAny>, Option<FoundIds<'py>>, Option<LabelRows<'py>>)>
    {
        let bits = bits.map(Bits::new).transpose().or_raise()?;
        let CodeFile { codes, ids, labels } = work::short(py, || {
            let options = CodeOptions { bits, ..CodeOptions::default() };
            (format_of(&path).or_raise()?.read)(&path, &options).or_raise()
        })?;
        let ids = ids.map(|ids| match ids {
            Ids::Numbers(ids) => FoundIds::Numbers(PyArray1::from_vec(py, ids)),
            Ids::Names(ids) => FoundIds::Names(ids),
        });
        let labels = labels.map(|labels| arrays::label_rows(py, &labels));
        Ok((codes.bits().get(), arrays::to_array(py, codes)?, ids, labels))
    }
}

impl Index {
    fn snapshot(&self) -> Arc<Snapshot> {
        match &self.0 {
            Store::Memory(index) => index.snapshot(),
            Store::Disk(index) => index.snapshot(),
        }
    }
}

/// Hits as columns.
struct Columns {
    starts: Vec<i64>,
    ids: Ids,
    distances: Vec<u32>,
    scores: Option<Vec<f32>>,
}

impl Columns {
    fn of<R: Iterator<Item = Hit>>(
        snapshot: &Snapshot,
        rows: impl Iterator<Item = R>,
    ) -> PyResult<Columns> {
        let (mut starts, mut distances) = (vec![0], Vec::new());
        let (mut numbers, mut names) = (Vec::new(), Vec::new());
        for row in rows {
            for hit in row {
                distances.push(hit.distance);
                match snapshot.id(hit.item).or_raise()? {
                    Id::Number(number) => numbers.push(number),
                    Id::Name(name) => names.push(name),
                }
            }
            starts.push(distances.len() as i64);
        }
        let has_names = snapshot.info().ids == Some("names");
        let ids = if has_names { Ids::Names(names) } else { Ids::Numbers(numbers) };
        Ok(Columns { starts, ids, distances, scores: None })
    }
}

fn given_ids(ids: GivenIds<'_>) -> PyResult<Ids> {
    Ok(match ids {
        GivenIds::Numbers(ids) => Ids::Numbers(ids.try_readonly()?.as_slice()?.to_vec()),
        GivenIds::Names(ids) => Ids::Names(ids),
    })
}

/// Texts and fields as the payloads that the program writes, too.
fn payloads(
    items: usize,
    texts: Option<Vec<Option<String>>>,
    metas: Option<Vec<Option<String>>>,
    labels: Option<&Labels>,
    names: &[String],
) -> PyResult<Option<Vec<Arc<[u8]>>>> {
    if texts.is_none() && metas.is_none() {
        return Ok(None);
    }
    for (what, got) in
        [("texts", texts.as_ref().map(Vec::len)), ("meta", metas.as_ref().map(Vec::len))]
    {
        if let Some(got) = got.filter(|&got| got != items) {
            return Err(invalid(format!(
                "{items} codes but {got} {what}; there must be one per code"
            )));
        }
    }
    let mut all = Vec::with_capacity(items);
    for item in 0..items {
        let mut payload = Payload::default();
        payload.shown.text = texts.as_ref().and_then(|texts| texts[item].clone());
        if let Some(meta) = metas.as_ref().and_then(|metas| metas[item].as_ref()) {
            payload.shown.meta = serde_json::from_str(meta)
                .map_err(|err| invalid(format!("row {item}: meta: {err}")))?;
        }
        if let Some(labels) = labels.filter(|labels| item < labels.len()) {
            let named = labels.indices(item).filter_map(|label| names.get(label));
            payload.source.labels = named.cloned().collect();
        }
        all.push(Arc::from(payload.encode().or_raise()?));
    }
    Ok(Some(all))
}
