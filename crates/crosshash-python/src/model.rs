//! Models: training, encoding, and the folders of runs.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use crosshash::data::{LoadedDataset, Split};
use crosshash::method::METHODS;
use crosshash::train::{Callback, Epoch, Step, TrainingSession};
use crosshash::{
    Config, Encoder as _, FinishedTraining, HistoryTable, QueryEncoder, RunDir, data,
};
use crosshash_cli::weight_paths::WeightPaths;
use numpy::PyArray1;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays;
use crate::dataset::{Dataset, Features};
use crate::errors::{OrRaise as _, invalid};
use crate::work::{self, Event, Work};

/// Items that the interpreter encodes without a thread of their own.
const FEW: usize = 256;
/// Picture files that are decoded together.
const PICTURES: usize = 64;

/// A trained model.
#[pyclass(frozen, module = "crosshash._crosshash")]
pub(crate) struct Model {
    encoder: QueryEncoder,
    /// The complete configuration, as TOML.
    config: String,
    training: Option<Training>,
}

/// What is known of a training in this process.
struct Training {
    loaded: Arc<LoadedDataset>,
    split: Split,
    place: Option<(PathBuf, Option<PathBuf>)>,
    history: Vec<Epoch>,
    seconds: Vec<f64>,
    best_epoch: Option<usize>,
}

/// Checks a configuration and returns it completely, as JSON.
#[pyfunction]
pub(crate) fn check_config(text: &str, settings: Vec<String>) -> PyResult<String> {
    let config = Config::parse(text, &settings).or_raise()?;
    Ok(config.to_json().or_raise()?.to_string())
}

/// The methods: (name, whether it has codes, whether it is seeded).
#[pyfunction]
pub(crate) fn methods() -> Vec<(&'static str, bool, bool)> {
    METHODS.iter().map(|e| (e.info.name, e.info.codes, e.info.seeded)).collect()
}

#[pymethods]
impl Model {
    /// Trains on a data set.
    #[staticmethod]
    #[pyo3(signature = (dataset, settings, weights, onnxruntime, callback))]
    fn fit(
        py: Python<'_>,
        dataset: &Dataset,
        settings: Vec<String>,
        weights: Vec<PathBuf>,
        onnxruntime: Option<PathBuf>,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<Model> {
        let config = Config::parse("", &settings).or_raise()?;
        if !config.method().codes {
            return Err(invalid(format!(
                "{} is a reference without codes; there is no model to use",
                config.method().name
            )));
        }
        let weights = WeightPaths { weights, onnxruntime }.weights();
        let place = dataset.place.clone();
        let mut loaded = (*dataset.loaded).clone();
        work::run(py, callback, ("preparing", 1), |work| {
            let split = loaded.split_with_validation(config.validation()).or_raise()?;
            let mut session = config.begin(&loaded.dataset.training(&split)).or_raise()?;
            let config = session.config().to_toml().or_raise()?;
            let mut watch = Progress { work, epochs: session.epochs() };
            let (started, mut seconds) = (Instant::now(), Vec::new());
            while !session.is_done() {
                if session.epoch(&mut watch).or_raise()?.is_none() {
                    return Err(PyKeyboardInterrupt::new_err(()));
                }
                seconds.push(started.elapsed().as_secs_f64());
                watch.record(&session);
            }
            let fitted = session.finish().or_raise()?;
            let training = Training {
                loaded: Arc::new(loaded),
                split,
                place,
                history: fitted.history,
                seconds,
                best_epoch: fitted.best_epoch,
            };
            let encoder = QueryEncoder::new(fitted.model, &weights).or_raise()?;
            Ok(Model { encoder, config, training: Some(training) })
        })
    }

    /// Opens the model of a run.
    #[staticmethod]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        weights: Vec<PathBuf>,
        onnxruntime: Option<PathBuf>,
    ) -> PyResult<Model> {
        let weights = WeightPaths { weights, onnxruntime }.weights();
        work::short(py, || {
            let run = RunDir::open(&path).or_raise()?;
            let encoder = QueryEncoder::open(&run, &weights).or_raise()?;
            let config = run.config_text().or_raise()?;
            Ok(Model { encoder, config, training: None })
        })
    }

    /// Saves a run: with codes, evaluation and report if it was trained in this process.
    #[pyo3(signature = (path, data, callback))]
    fn save(
        &self,
        py: Python<'_>,
        path: PathBuf,
        data: Option<PathBuf>,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        if RunDir::is_run(&path) {
            return Err(invalid(format!(
                "{} already contains a run; use another folder",
                path.display()
            )));
        }
        work::run(py, callback, ("saving", 1), |work| {
            let run = RunDir::create(&path).or_raise()?;
            run.save_config(&self.config).or_raise()?;
            let Some(training) = &self.training else {
                return run.save_model(self.encoder.model()).or_raise();
            };
            run.save_history(&HistoryTable::csv(&training.history, &training.seconds))
                .or_raise()?;
            let name = || PathBuf::from(training.loaded.dataset.name());
            let (known, root) = training.place.clone().unwrap_or_else(|| (name(), None));
            let (data, root) = data.map_or((known, root), |data| (data, None));
            let finished = FinishedTraining {
                data,
                root,
                config: &Config::parse(&self.config, &[]).or_raise()?,
                dataset: &training.loaded.dataset,
                split: &training.split,
                model: self.encoder.model(),
                history: &training.history,
                best_epoch: training.best_epoch,
                seconds: training.seconds.last().copied(),
            };
            let stage = std::sync::Mutex::new(String::new());
            run.complete(&finished, &|what, done, all| {
                let mut now =
                    stage.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                if *now != what {
                    work.stage(what, all);
                    *now = what.to_owned();
                }
                drop(now);
                work.set(done);
            })
            .or_raise()?;
            Ok(())
        })
    }

    /// The files of the model, for pickling: model.json and model.safetensors by name.
    fn to_files<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Vec<(String, Bound<'py, PyBytes>)>> {
        let files = work::short(py, || {
            let folder = tempfile::tempdir()?;
            self.encoder.model().save(folder.path()).or_raise()?;
            let mut files = Vec::new();
            for entry in fs_err::read_dir(folder.path())? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                files.push((name, fs_err::read(entry.path())?));
            }
            files.sort();
            Ok(files)
        })?;
        Ok(files.into_iter().map(|(name, f)| (name, PyBytes::new(py, &f))).collect())
    }

    /// The inverse of `to_files`.
    #[staticmethod]
    fn from_files(
        py: Python<'_>,
        files: Vec<(String, Vec<u8>)>,
        config: String,
        weights: Vec<PathBuf>,
        onnxruntime: Option<PathBuf>,
    ) -> PyResult<Model> {
        let weights = WeightPaths { weights, onnxruntime }.weights();
        work::short(py, || {
            let folder = tempfile::tempdir()?;
            for (name, bytes) in &files {
                if name.contains(['/', '\\']) {
                    return Err(invalid(format!("{name:?} is not the name of a file")));
                }
                fs_err::write(folder.path().join(name), bytes)?;
            }
            let model = crosshash::Model::load(folder.path()).or_raise()?;
            let encoder = QueryEncoder::new(model, &weights).or_raise()?;
            Ok(Model { encoder, config, training: None })
        })
    }

    #[getter]
    fn bits(&self) -> usize {
        self.encoder.model().bits().get()
    }

    #[getter]
    fn config(&self) -> &str {
        &self.config
    }

    #[getter]
    fn modalities(&self) -> Vec<String> {
        self.encoder.model().modalities().into_iter().map(str::to_owned).collect()
    }

    #[getter]
    fn label_names(&self) -> Vec<String> {
        self.encoder.model().labels().to_vec()
    }

    /// The kinds of queries that a modality accepts.
    fn kinds(&self, modality: &str) -> PyResult<Vec<&'static str>> {
        self.encoder.model().preparation(modality).or_raise()?;
        Ok(self.encoder.kinds(modality).iter().map(|kind| kind.name()).collect())
    }

    /// What a modality takes: (dense, sparse, text or pictures; number of values).
    fn input(&self, modality: &str) -> PyResult<(&'static str, usize)> {
        let preparation = self.encoder.model().preparation(modality).or_raise()?;
        let form = if preparation.is_text() {
            "text"
        } else if preparation.network().is_some() {
            "pictures"
        } else if preparation.is_sparse() {
            "sparse"
        } else {
            "dense"
        };
        Ok((form, preparation.width()))
    }

    /// The centres, labels x bits; None for methods without.
    #[getter]
    fn centres<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let model = self.encoder.model();
        let centres = model.centres();
        let array = || arrays::matrix(py, model.bits().get(), centres.to_vec());
        (!centres.is_empty()).then(array).transpose()
    }

    /// The epochs of the training: number, seconds, learning rate, loss, validation score and MAP.
    #[getter]
    #[expect(clippy::type_complexity, reason = "the columns of a table")]
    fn history(&self) -> Vec<(usize, f64, f64, f64, Option<f64>, Option<f64>)> {
        let Some(training) = &self.training else { return Vec::new() };
        let rows = training.history.iter().zip(&training.seconds);
        rows.map(|(row, &s)| {
            (row.epoch, s, row.learning_rate, row.loss, row.score(), row.map())
        })
        .collect()
    }

    #[getter]
    fn best_epoch(&self) -> Option<usize> {
        self.training.as_ref().and_then(|training| training.best_epoch)
    }

    /// Packed codes of items.
    #[pyo3(signature = (modality, features, callback=None))]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        modality: &str,
        features: &Features,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let model = self.encoder.model();
        let items = features.0.len();
        let codes = self.run(py, items, callback, |set| {
            let features = self.prepared(modality, &features.0)?;
            crosshash::encode(model, modality, features, set).or_raise()
        })?;
        arrays::to_array(py, codes)
    }

    /// Real outputs of items, float32, items x bits.
    #[pyo3(signature = (modality, features, callback=None))]
    fn outputs<'py>(
        &self,
        py: Python<'py>,
        modality: &str,
        features: &Features,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let model = self.encoder.model();
        let items = features.0.len();
        let outputs = self.run(py, items, callback, |set| {
            let features = self.prepared(modality, &features.0)?;
            model.outputs(modality, features, set).or_raise()
        })?;
        PyArray1::from_vec(py, outputs).call_method1("reshape", ((items, self.bits()),))
    }
}

impl Model {
    /// Runs short work in this thread, long work in another.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        items: usize,
        callback: Option<Py<PyAny>>,
        work: impl FnOnce(&(dyn Fn(usize) + Sync)) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        if items <= FEW && callback.is_none() {
            return work::short(py, || work(&|_| ()));
        }
        work::run(py, callback, ("encoding", items), |state| work(&|done| state.set(done)))
    }

    /// Features as the model takes them: texts and pictures go through the backbone of the modality.
    fn prepared(
        &self,
        modality: &str,
        features: &data::Features,
    ) -> PyResult<data::Features> {
        let preparation = self.encoder.model().preparation(modality).or_raise()?;
        match features {
            data::Features::Text(texts) if !preparation.is_text() => {
                let texts: Vec<String> =
                    (0..texts.len()).map(|k| texts.get(k).to_owned()).collect();
                self.encoder.texts(modality, &texts).or_raise()
            }
            data::Features::Pictures(_) if preparation.network().is_none() => {
                self.pictures(modality, features)
            }
            other => Ok(other.clone()),
        }
    }

    fn pictures(
        &self,
        modality: &str,
        features: &data::Features,
    ) -> PyResult<data::Features> {
        let data::Features::Pictures(pictures) = features else {
            return Err(invalid("these features are not pictures"));
        };
        let most = crosshash::picture::Limits::default().bytes;
        let (mut files, mut all): (Vec<Vec<u8>>, Option<data::Features>) =
            (Vec::new(), None);
        let mut flush = |files: &mut Vec<Vec<u8>>| -> crosshash::Result<()> {
            if files.is_empty() {
                return Ok(());
            }
            let rows = self.encoder.pictures(modality, std::mem::take(files))?;
            all = Some(match all.take() {
                None => rows,
                Some(before) => before.append(rows)?,
            });
            Ok(())
        };
        let visited: crosshash::Result<()> = pictures.visit(most, |item, file| {
            let path = pictures.path(item);
            files.push(file.map_err(|err| crosshash::Error::from(err).at(&path))?);
            if files.len() >= PICTURES { flush(&mut files) } else { Ok(()) }
        });
        visited.and_then(|()| flush(&mut files)).or_raise()?;
        all.ok_or_else(|| invalid("there are no pictures"))
    }
}

/// Reports a training as progress.
struct Progress<'a> {
    work: &'a Work,
    epochs: usize,
}

impl Progress<'_> {
    /// Reports an epoch that is done.
    fn record(&self, session: &TrainingSession) {
        let Some(row) = session.history().last() else { return };
        let mut values = vec![
            ("epoch".to_owned(), row.epoch as f64),
            ("epochs".to_owned(), self.epochs as f64),
            ("loss".to_owned(), row.loss),
            ("learning_rate".to_owned(), row.learning_rate),
        ];
        values.extend(row.score().map(|score| ("validation".to_owned(), score)));
        let (stage, done, total) = ("training".to_owned(), row.epoch, self.epochs);
        self.work.send(Event { stage, done, total, values });
    }
}

impl Callback for Progress<'_> {
    fn step(&mut self, step: &Step<'_>) -> ControlFlow<()> {
        if self.work.is_stopped() {
            return ControlFlow::Break(());
        }
        if step.done == 1 {
            self.work.stage(&format!("epoch {} of {}", step.epoch, self.epochs), step.all);
        }
        self.work.set(step.done);
        ControlFlow::Continue(())
    }
}
