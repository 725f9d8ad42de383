//! Evaluation of codes.

use crosshash_codes::eval::{self, ApDenominator, EmptyQueries, Options};
use crosshash_codes::{Bits, Codes, Labels};
use numpy::{PyArray1, PyArray2, PyArrayMethods as _};
use pyo3::prelude::*;

use crate::arrays::{self, LabelRows};
use crate::errors::{OrRaise as _, invalid};
use crate::work;

/// The evaluation of one set of query codes against a database.
#[pyclass(frozen, module = "crosshash._crosshash")]
pub(crate) struct Report(eval::Report);

#[pymethods]
impl Report {
    /// All values as JSON.
    fn json(&self) -> PyResult<String> {
        serde_json::to_string(&self.0).map_err(|err| invalid(err.to_string()))
    }

    /// The curves as SVG.
    fn svg(&self, py: Python<'_>) -> PyResult<String> {
        work::short(py, || {
            crosshash_cli::plot::curves::svg(&self.0)
                .map_err(|err| invalid(err.to_string()))
        })
    }
}

/// Evaluates packed codes.
#[pyfunction]
#[pyo3(signature = (query, database, bits, labels, at, denominator, empty_queries, radii, callback))]
#[expect(clippy::too_many_arguments, reason = "the keyword arguments of Python")]
pub(crate) fn evaluate(
    py: Python<'_>,
    query: &Bound<'_, PyArray2<u8>>,
    database: &Bound<'_, PyArray2<u8>>,
    bits: usize,
    labels: Option<(LabelRows<'_>, LabelRows<'_>)>,
    at: Vec<usize>,
    denominator: &str,
    empty_queries: &str,
    radii: Vec<usize>,
    callback: Option<Py<PyAny>>,
) -> PyResult<Report> {
    let (query, database) = (arrays::codes(query, bits)?, arrays::codes(database, bits)?);
    let none =
        |rows| Labels::from_indices(0, std::iter::repeat_n([0_u32; 0], rows)).or_raise();
    let (query_labels, database_labels) = match labels {
        Some((query, database)) => (arrays::labels(&query)?, arrays::labels(&database)?),
        None => (none(query.len())?, none(database.len())?),
    };
    let options = Options {
        cutoffs: at,
        denominator: match denominator {
            "min" => ApDenominator::Min,
            "found" => ApDenominator::Found,
            "relevant" => ApDenominator::Total,
            other => {
                return Err(invalid(format!(
                    "denominator = {other:?}: it must be min, found or relevant"
                )));
            }
        },
        empty_queries: match empty_queries {
            "zero" => EmptyQueries::Zero,
            "skip" => EmptyQueries::Skip,
            other => {
                return Err(invalid(format!(
                    "empty_queries = {other:?}: it must be zero or skip"
                )));
            }
        },
        radii,
        ..Options::default()
    };
    work::run(py, callback, ("evaluating queries", query.len()), |work| {
        let report = eval::evaluate(
            &query,
            &database,
            &query_labels,
            &database_labels,
            &options,
            &|done| work.set(done),
        );
        Ok(Report(report.or_raise()?))
    })
}

/// Packs real values, one per bit: a bit is 1 if its value is at least 0.
#[pyfunction]
pub(crate) fn pack_signs<'py>(
    py: Python<'py>,
    values: &Bound<'py, PyArray1<f32>>,
    bits: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let values = values.try_readonly()?;
    let codes = Codes::from_signs(Bits::new(bits).or_raise()?, values.as_slice()?);
    arrays::to_array(py, codes.or_raise()?)
}
