//! Data sets: arrays, texts and pictures of Python, or the files of a manifest.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use crosshash::data::{
    self, Dense, LoadedDataset, Manifest, Modality, OpenOptions, Part, PicturePlace,
    Pictures, Selection, Sparse, Split, SplitSpec, ValueType,
};
use crosshash::featurize::{FeatureCallback, FeatureExtractor, FeatureJob};
use crosshash_cli::weight_paths::WeightPaths;
use numpy::{PyArray1, PyArrayMethods as _};
use pyo3::prelude::*;

use crate::arrays::{self, LabelRows};
use crate::errors::{OrRaise as _, invalid};
use crate::work::{self, Work};

/// The features of the items of one modality.
#[pyclass(frozen, module = "crosshash._crosshash")]
pub(crate) struct Features(pub(crate) data::Features);

#[pymethods]
impl Features {
    /// A dense matrix over the bytes of an array, which is not copied.
    #[staticmethod]
    fn dense(
        bytes: &Bound<'_, PyArray1<u8>>,
        rows: usize,
        width: usize,
        dtype: &str,
        by_columns: bool,
    ) -> PyResult<Features> {
        let number = match dtype {
            "f2" => ValueType::F16,
            "f4" => ValueType::F32,
            "f8" => ValueType::F64,
            "u1" => ValueType::U8,
            "i1" => ValueType::I8,
            "u2" => ValueType::U16,
            "i2" => ValueType::I16,
            "u4" => ValueType::U32,
            "i4" => ValueType::I32,
            "u8" => ValueType::U64,
            "i8" => ValueType::I64,
            other => return Err(invalid(format!("arrays of {other} are not supported"))),
        };
        let bytes = arrays::bytes(bytes)?;
        let dense =
            Dense::from_shared(bytes, [rows, width], number, by_columns).or_raise()?;
        Ok(Features(data::Features::Dense(dense)))
    }

    /// A sparse matrix from the three arrays of CSR.
    #[staticmethod]
    fn sparse(
        width: usize,
        starts: &Bound<'_, PyArray1<i64>>,
        columns: &Bound<'_, PyArray1<i64>>,
        values: &Bound<'_, PyArray1<f32>>,
    ) -> PyResult<Features> {
        let (starts, columns) = (starts.try_readonly()?, columns.try_readonly()?);
        let values = values.try_readonly()?;
        let wrong = |_| invalid("not a CSR matrix: negative or too large numbers");
        let starts = starts.as_slice()?.iter().map(|&at| usize::try_from(at));
        let starts = starts.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        let columns = columns.as_slice()?.iter().map(|&at| u32::try_from(at));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        let sparse = Sparse::from_csr(width, &starts, &columns, values.as_slice()?);
        Ok(Features(data::Features::Sparse(sparse.or_raise()?)))
    }

    /// Texts.
    #[staticmethod]
    fn texts(texts: Vec<String>) -> Features {
        Features(data::Features::Text(texts.into_iter().collect()))
    }

    /// Picture files by path.
    #[staticmethod]
    fn pictures(paths: Vec<String>) -> Features {
        let place = PicturePlace::Folder(PathBuf::new());
        Features(data::Features::Pictures(Pictures::new(place, paths)))
    }

    /// Picture files in memory.
    #[staticmethod]
    fn picture_files(files: Vec<Vec<u8>>) -> Features {
        Features(data::Features::Pictures(Pictures::in_memory(files)))
    }

    /// Reads an array file of any format, or texts, one per line.
    #[staticmethod]
    #[pyo3(signature = (path, text=false))]
    fn read(py: Python<'_>, path: PathBuf, text: bool) -> PyResult<Features> {
        work::short(py, || Ok(Features(data::items(&path, text).or_raise()?)))
    }

    /// Number of items.
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Number of features, if it is known.
    #[getter]
    fn width(&self) -> Option<usize> {
        self.0.width()
    }

    /// dense, sparse, text or pictures.
    #[getter]
    fn form(&self) -> &'static str {
        self.0.form()
    }

    /// The items with these numbers.
    fn select(&self, items: Vec<usize>) -> PyResult<Features> {
        let all = self.0.len();
        if let Some(item) = items.iter().find(|&&item| item >= all) {
            return Err(pyo3::exceptions::PyIndexError::new_err(format!(
                "item {item} is out of range, there are {all}"
            )));
        }
        Ok(Features(self.0.select(&items)))
    }

    /// Dense features as float32, or texts as a list; None for others.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match &self.0 {
            data::Features::Dense(dense) => {
                let mut out = vec![0.0; dense.len() * dense.width()];
                dense.read_unchecked(0..dense.len(), &mut out);
                arrays::matrix(py, dense.width(), out).map(Some)
            }
            data::Features::Text(texts) => {
                let texts = (0..texts.len()).map(|item| texts.get(item));
                Ok(Some(
                    pyo3::types::PyList::new(py, texts.collect::<Vec<_>>())?.into_any(),
                ))
            }
            _ => Ok(None),
        }
    }
}

/// The items of one modality, as Python gives them.
type GivenModality<'py> = (
    String,
    Vec<String>,
    Py<Features>,
    LabelRows<'py>,
    Option<Vec<String>>,
    Option<Vec<String>>,
);

/// A data set with the specification of its split.
#[pyclass(frozen, module = "crosshash._crosshash")]
pub(crate) struct Dataset {
    pub(crate) loaded: Arc<LoadedDataset>,
    /// Where it is on disk: manifest and folder of its files.
    pub(crate) place: Option<(PathBuf, Option<PathBuf>)>,
}

#[pymethods]
impl Dataset {
    /// From arrays: modalities as (name, ids, features, labels, pair keys, groups).
    #[new]
    #[pyo3(signature = (name, label_names, modalities, split, seed, stratify))]
    fn new(
        py: Python<'_>,
        name: String,
        label_names: Vec<String>,
        modalities: Vec<GivenModality<'_>>,
        split: BTreeMap<String, SplitPart>,
        seed: u64,
        stratify: bool,
    ) -> PyResult<Dataset> {
        let mut all = Vec::new();
        for (name, ids, features, labels, pairs, groups) in modalities {
            let labels = arrays::labels(&labels)?;
            let features = features.get().0.clone();
            let mut modality = Modality::new(name, ids, features, labels).or_raise()?;
            if let Some(pairs) = pairs {
                modality = modality.with_pairs(pairs).or_raise()?;
            }
            if let Some(groups) = groups {
                modality = modality.with_groups(groups).or_raise()?;
            }
            all.push(modality);
        }
        let dataset =
            work::short(py, || data::Dataset::new(name, label_names, all).or_raise())?;
        let part = |name: &str| split.get(name).map(SplitPart::selection);
        let spec = SplitSpec {
            seed,
            stratify,
            query: part("query"),
            validation: part("validation"),
            train: part("train"),
            database: part("database"),
        };
        let loaded = LoadedDataset {
            dataset,
            split_spec: Some(spec),
            backbones: BTreeMap::new(),
            manifest: Manifest::default(),
        };
        Ok(Dataset { loaded: Arc::new(loaded), place: None })
    }

    /// Opens the data set of a manifest and extracts the features of raw modalities.
    #[staticmethod]
    #[pyo3(signature = (path, root, backbones, weights, onnxruntime, cache, callback))]
    #[expect(clippy::too_many_arguments, reason = "the keyword arguments of Python")]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        root: Option<PathBuf>,
        backbones: BTreeMap<String, Option<String>>,
        weights: Vec<PathBuf>,
        onnxruntime: Option<PathBuf>,
        cache: Option<PathBuf>,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<Dataset> {
        let place = Some((path.clone(), root.clone()));
        let weights = WeightPaths { weights, onnxruntime }.weights();
        let loaded = work::run(py, callback, ("opening", 1), |work| {
            let options = OpenOptions { root, ..OpenOptions::default() };
            let mut loaded = data::open_with(&path, &options).or_raise()?;
            for (modality, backbone) in &backbones {
                loaded.set_backbone(modality, backbone.as_deref()).or_raise()?;
            }
            let started = Instant::now();
            let extractor = FeatureExtractor {
                weights,
                cache,
                now: &|| started.elapsed().as_secs_f64(),
                callback: &ExtractionProgress(work),
                ..FeatureExtractor::default()
            };
            loaded.with_features(&[], &extractor).or_raise()
        })?;
        Ok(Dataset { loaded: Arc::new(loaded), place })
    }

    /// Writes `dataset.toml` and the files that it names; see `Dataset.save`.
    fn at(&self, path: PathBuf, root: Option<PathBuf>) -> Dataset {
        Dataset { loaded: Arc::clone(&self.loaded), place: Some((path, root)) }
    }

    #[getter]
    fn path(&self) -> Option<String> {
        self.place.as_ref().map(|(path, _)| path.display().to_string())
    }

    #[getter]
    fn name(&self) -> &str {
        self.loaded.dataset.name()
    }

    #[getter]
    fn label_names(&self) -> Vec<String> {
        self.loaded.dataset.label_names().to_vec()
    }

    #[getter]
    fn modalities(&self) -> Vec<&str> {
        self.loaded.dataset.modalities().iter().map(Modality::name).collect()
    }

    /// Number of items of a modality.
    fn size(&self, modality: &str) -> PyResult<usize> {
        Ok(self.modality(modality)?.len())
    }

    fn ids(&self, modality: &str) -> PyResult<Vec<String>> {
        Ok(self.modality(modality)?.ids().to_vec())
    }

    fn features(&self, modality: &str) -> PyResult<Features> {
        Ok(Features(self.modality(modality)?.features().clone()))
    }

    fn labels<'py>(&self, py: Python<'py>, modality: &str) -> PyResult<LabelRows<'py>> {
        Ok(arrays::label_rows(py, self.modality(modality)?.labels()))
    }

    /// The pair keys, unless they are the ids.
    fn pairs(&self, modality: &str) -> PyResult<Option<Vec<String>>> {
        let modality = self.modality(modality)?;
        let keys =
            || (0..modality.len()).map(|k| modality.pair_key(k).to_owned()).collect();
        Ok(modality.has_pair_keys().then(keys))
    }

    /// Items that were read but are not used: (modality, reason, number).
    #[getter]
    fn dropped(&self) -> Vec<(String, String, usize)> {
        let all = self.loaded.dataset.dropped().iter();
        all.map(|one| (one.modality.clone(), one.reason.clone(), one.items)).collect()
    }

    /// The item numbers of a part of the split: train, validation, query or database.
    fn part(&self, modality: &str, part: &str, validation: f64) -> PyResult<Vec<usize>> {
        let parts = [Part::Train, Part::Validation, Part::Query, Part::Database];
        let part = parts.into_iter().find(|one| one.name() == part).ok_or_else(|| {
            pyo3::exceptions::PyKeyError::new_err(format!(
                "no part named {part:?}; there are: train, validation, query, database"
            ))
        })?;
        let at = self.loaded.dataset.modality_idx(modality).or_raise()?;
        Ok(self.split(validation)?.items(at, part).to_vec())
    }
}

impl Dataset {
    fn modality(&self, name: &str) -> PyResult<&Modality> {
        self.loaded.dataset.modality(name).or_raise()
    }

    fn split(&self, validation: f64) -> PyResult<Split> {
        (*self.loaded).clone().split_with_validation(validation).or_raise()
    }
}

/// Writes a manifest into a folder for pictures, a table or arrays, and tells what became of every file and
/// column.
#[pyfunction]
#[pyo3(signature = (source, out, callback=None))]
pub(crate) fn import_data(
    py: Python<'_>,
    source: PathBuf,
    out: PathBuf,
    callback: Option<Py<PyAny>>,
) -> PyResult<Vec<String>> {
    let target = out.join(data::MANIFEST);
    if target.exists() {
        return Err(invalid(format!(
            "{} already exists; open it (Dataset.open), or name another folder",
            target.display()
        )));
    }
    work::run(py, callback, ("importing", 1), |work| {
        let proposal = data::import::import(&source, &out, None).or_raise()?;
        work.stage("writing embedded pictures", proposal.items);
        proposal.write(&out, &|done| work.set(done)).or_raise()?;
        Ok(proposal.findings.iter().map(ToString::to_string).collect())
    })
}

/// A part of a split: a number, a share, or a range of rows.
#[derive(FromPyObject)]
pub(crate) enum SplitPart {
    Count(usize),
    Share(f64),
    Rows((usize, usize)),
}

impl SplitPart {
    fn selection(&self) -> Selection {
        match *self {
            SplitPart::Count(count) => Selection::Count(count),
            SplitPart::Share(share) => Selection::Share(share),
            SplitPart::Rows((start, end)) => Selection::Rows(start, end),
        }
    }
}

/// Reports an extraction as progress.
pub(crate) struct ExtractionProgress<'a>(pub(crate) &'a Work);

impl FeatureCallback for ExtractionProgress<'_> {
    fn started(&self, job: FeatureJob<'_>) {
        self.0.stage(&format!("{}: {}", job.modality, job.backbone), job.items);
    }

    fn progress(&self, done: usize) {
        self.0.set(done);
    }
}
