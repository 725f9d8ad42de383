//! Features of pictures and texts.

use std::path::PathBuf;
use std::time::Instant;

use crosshash::backbone::{self, InputKind};
use crosshash::featurize::FeatureExtractor;
use crosshash::picture::Picture;
use crosshash_cli::weight_paths::WeightPaths;
use numpy::{PyArray3, PyArrayMethods as _, PyUntypedArrayMethods as _};
use pyo3::prelude::*;

use crate::arrays;
use crate::dataset::{ExtractionProgress, Features};
use crate::errors::{OrRaise as _, invalid};
use crate::work;

/// Arrays that a backbone gets at once.
const BATCH: usize = 32;

/// The backbones: (name, pictures or texts, width, description, whether it is built in).
#[pyfunction]
pub(crate) fn backbones() -> Vec<(&'static str, &'static str, usize, &'static str, bool)> {
    let row = |info: &'static backbone::BackboneInfo| {
        let kind = match info.input_kind {
            InputKind::Pictures => "pictures",
            InputKind::Texts => "texts",
        };
        (info.name, kind, info.width, info.what, info.files.is_empty())
    };
    backbone::all().map(row).collect()
}

/// Features of picture files or texts: (rows, numbers of the items that have a row).
#[pyfunction]
#[pyo3(signature = (backbone, items, weights, onnxruntime, cache, skip_bad, callback))]
#[expect(clippy::too_many_arguments, reason = "the keyword arguments of Python")]
pub(crate) fn extract<'py>(
    py: Python<'py>,
    backbone: &str,
    items: &Features,
    weights: Vec<PathBuf>,
    onnxruntime: Option<PathBuf>,
    cache: Option<PathBuf>,
    skip_bad: bool,
    callback: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyAny>, Vec<usize>)> {
    let weights = WeightPaths { weights, onnxruntime }.weights();
    let given = work::run(py, callback, (backbone, items.0.len()), |work| {
        let loaded = backbone::open(backbone, &weights).or_raise()?;
        let started = Instant::now();
        let extractor = FeatureExtractor {
            weights,
            cache,
            skip_bad,
            now: &|| started.elapsed().as_secs_f64(),
            callback: &ExtractionProgress(work),
            ..FeatureExtractor::default()
        };
        extractor.extract(&loaded, &items.0, "features").or_raise()
    })?;
    let width = given.rows.width();
    Ok((arrays::matrix(py, width, given.rows.into_values())?, given.kept))
}

/// Features of pictures as arrays, height x width x 3, uint8.
#[pyfunction]
#[pyo3(signature = (backbone, pictures, weights, onnxruntime, callback))]
pub(crate) fn extract_arrays<'py>(
    py: Python<'py>,
    backbone: &str,
    pictures: Vec<Bound<'py, PyArray3<u8>>>,
    weights: Vec<PathBuf>,
    onnxruntime: Option<PathBuf>,
    callback: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut all = Vec::with_capacity(pictures.len());
    for (nth, array) in pictures.iter().enumerate() {
        let &[height, width, channels] = array.shape() else {
            return Err(invalid("pictures have three dimensions"));
        };
        if channels != 3 || height == 0 || width == 0 {
            return Err(invalid(format!(
                "picture {nth} is {height} x {width} x {channels}; expected height x width x 3"
            )));
        }
        let values = array.try_readonly()?;
        all.push(Picture::new(width, height, values.as_slice()?.to_vec()));
    }
    let weights = WeightPaths { weights, onnxruntime }.weights();
    let (width, rows) = work::run(py, callback, (backbone, all.len()), |work| {
        let loaded = backbone::open(backbone, &weights).or_raise()?;
        let backbone = loaded.backbone();
        let mut rows = Vec::new();
        for batch in all.chunks(BATCH) {
            let found = backbone.pictures(batch).map_err(crosshash::Error::from);
            rows.extend(found.or_raise()?);
            work.set(rows.len() / backbone.width().max(1));
        }
        Ok((backbone.width(), rows))
    })?;
    arrays::matrix(py, width, rows)
}
