//! Supervision coefficients.

use crosshash::supervise::{Kind, Options, Scale, supervise};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::arrays::{self, LabelRows};
use crate::errors::{OrRaise as _, invalid};
use crate::work;

const KINDS: [Kind; 7] = [
    Kind::Auto,
    Kind::Exact,
    Kind::Anchors,
    Kind::Graded,
    Kind::Scul,
    Kind::Balanced,
    Kind::Uniform,
];

/// q and u in compressed rows: (starts, labels, q, u), and (kind, reason, distinct sets, unlabelled
/// items, scale).
type Found<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
    (&'static str, String, usize, usize, f64),
);

/// Computes the coefficients of labels.
#[pyfunction]
#[pyo3(signature = (labels, kind, anchors, seed, scale, include_self, callback))]
#[expect(clippy::too_many_arguments, reason = "the keyword arguments of Python")]
pub(crate) fn coefficients<'py>(
    py: Python<'py>,
    labels: LabelRows<'py>,
    kind: &str,
    anchors: Option<usize>,
    seed: u64,
    scale: &str,
    include_self: bool,
    callback: Option<Py<PyAny>>,
) -> PyResult<Found<'py>> {
    let labels = arrays::labels(&labels)?;
    let kind = KINDS.into_iter().find(|one| one.name() == kind).ok_or_else(|| {
        let names = KINDS.map(Kind::name).join(", ");
        pyo3::exceptions::PyKeyError::new_err(format!(
            "no kind of coefficients named {kind:?}; there are: {names}"
        ))
    })?;
    let scale = match scale {
        "paper" => Scale::Paper,
        "raw" => Scale::Raw,
        "mean-one" => Scale::MeanOne,
        other => {
            return Err(invalid(format!(
                "scale = {other:?}: it must be paper, raw or mean-one"
            )));
        }
    };
    let options = Options { kind, anchors, seed, scale, include_self };
    let (found, columns) = work::run(py, callback, ("coefficients", 1000), |work| {
        let found = supervise(&labels, &options, &|done| work.set(done)).or_raise()?;
        let all = &found.coefficients;
        let (mut starts, mut numbers) = (vec![0_i64], Vec::new());
        let (mut q, mut u) = (Vec::new(), Vec::new());
        for item in 0..all.len() {
            let row = all.row(item);
            numbers.extend(row.labels.iter().map(|&label| i64::from(label)));
            q.extend_from_slice(row.q);
            u.extend_from_slice(row.u);
            starts.push(numbers.len() as i64);
        }
        Ok((found, (starts, numbers, q, u)))
    })?;
    let (starts, numbers, q, u) = columns;
    Ok((
        PyArray1::from_vec(py, starts),
        PyArray1::from_vec(py, numbers),
        PyArray1::from_vec(py, q),
        PyArray1::from_vec(py, u),
        (found.kind.name(), found.reason, found.distinct, found.unlabelled, found.scale),
    ))
}
