//! Tables of the Arrow C stream interface (PyCapsule), as columns of NumPy arrays and lists.
//!
//! pyarrow, Polars, DuckDB and pandas (with pyarrow) offer it; none of them is needed here.

use std::ptr::NonNull;

use arrow_array::cast::AsArray as _;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader as _};
use arrow_schema::DataType;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

use crate::errors::invalid;

/// Name, form, values and width of a column.
type NamedColumn<'py> = (String, &'static str, Bound<'py, PyAny>, usize);

/// Reads a stream: (name, form, values, width) per column. The form is `number` (float64 or int64),
/// `text` (list of str or None), `texts` (list of lists) or `vector` (float32, `width` per row).
#[pyfunction]
pub(crate) fn read_arrow<'py>(
    py: Python<'py>,
    capsule: &Bound<'py, PyCapsule>,
) -> PyResult<Vec<NamedColumn<'py>>> {
    let pointer: NonNull<FFI_ArrowArrayStream> =
        capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast();
    #[expect(unsafe_code, reason = "the interface passes a pointer in a capsule")]
    // SAFETY: a capsule of this name contains a valid ArrowArrayStream; `from_raw` moves it out and
    // leaves a released one, as the interface demands of a consumer.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
    let reader = RecordBatchStreamReader::try_new(stream).map_err(fault)?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<RecordBatch>, _>>().map_err(fault)?;
    let mut all = Vec::new();
    for (nth, field) in schema.fields().iter().enumerate() {
        let arrays: Vec<&ArrayRef> =
            batches.iter().map(|batch| batch.column(nth)).collect();
        let (form, values, width) = column(py, field.name(), field.data_type(), &arrays)?;
        all.push((field.name().clone(), form, values, width));
    }
    Ok(all)
}

fn fault(err: arrow_schema::ArrowError) -> PyErr {
    invalid(format!("Arrow: {err}"))
}

type Column<'py> = (&'static str, Bound<'py, PyAny>, usize);

fn column<'py>(
    py: Python<'py>,
    name: &str,
    kind: &DataType,
    arrays: &[&ArrayRef],
) -> PyResult<Column<'py>> {
    match kind {
        DataType::Dictionary(_, _) => {
            let mut all = Vec::new();
            for array in arrays {
                let dictionary = array.as_any_dictionary();
                let values = texts(name, dictionary.values())?;
                let keys = dictionary.normalized_keys();
                all.extend((0..array.len()).map(|row| {
                    (!array.is_null(row)).then(|| values[keys[row]].clone()).flatten()
                }));
            }
            Ok(("text", PyList::new(py, all)?.into_any(), 0))
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let mut all = Vec::new();
            for array in arrays {
                all.extend(texts(name, array)?);
            }
            Ok(("text", PyList::new(py, all)?.into_any(), 0))
        }
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(_, _) => {
            lists(py, name, arrays)
        }
        kind if kind.is_integer() => {
            let mut all = Vec::new();
            for array in arrays {
                no_nulls(name, array)?;
                all.extend(integers(name, array)?);
            }
            Ok(("number", PyArray1::from_vec(py, all).into_any(), 0))
        }
        _ => {
            let mut all = Vec::new();
            for array in arrays {
                no_nulls(name, array)?;
                all.extend(numbers(name, array)?);
            }
            Ok(("number", PyArray1::from_vec(py, all).into_any(), 0))
        }
    }
}

/// Lists of texts, or vectors of one length.
fn lists<'py>(py: Python<'py>, name: &str, arrays: &[&ArrayRef]) -> PyResult<Column<'py>> {
    let mut rows: Vec<Option<ArrayRef>> = Vec::new();
    for array in arrays {
        for row in 0..array.len() {
            rows.push((!array.is_null(row)).then(|| match array.data_type() {
                DataType::LargeList(_) => array.as_list::<i64>().value(row),
                DataType::FixedSizeList(_, _) => array.as_fixed_size_list().value(row),
                _ => array.as_list::<i32>().value(row),
            }));
        }
    }
    let is_text = |row: &ArrayRef| {
        matches!(row.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
    };
    if rows.iter().flatten().any(is_text) {
        let mut all: Vec<Vec<String>> = Vec::new();
        for row in &rows {
            all.push(match row {
                Some(row) => texts(name, row)?.into_iter().flatten().collect(),
                None => Vec::new(),
            });
        }
        return Ok(("texts", PyList::new(py, all)?.into_any(), 0));
    }
    let mut values: Vec<f32> = Vec::new();
    let mut width = None;
    for (nth, row) in rows.iter().enumerate() {
        let Some(row) = row else {
            return Err(invalid(format!(
                "column {name:?}, row {nth}: the vector is missing"
            )));
        };
        no_nulls(name, row)?;
        let width = *width.get_or_insert(row.len());
        if row.len() != width {
            return Err(invalid(format!(
                "column {name:?}, row {nth}: {} values, the rows before have {width}",
                row.len()
            )));
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "features are single precision"
        )]
        values.extend(numbers(name, row)?.into_iter().map(|value| value as f32));
    }
    Ok(("vector", PyArray1::from_vec(py, values).into_any(), width.unwrap_or(0)))
}

fn no_nulls(name: &str, array: &ArrayRef) -> PyResult<()> {
    match (0..array.len()).find(|&row| array.is_null(row)) {
        None => Ok(()),
        Some(row) => {
            Err(invalid(format!("column {name:?}, row {row}: the value is missing")))
        }
    }
}

fn texts(name: &str, array: &ArrayRef) -> PyResult<Vec<Option<String>>> {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    match array.data_type() {
        DataType::Utf8 => Ok(array.as_string::<i32>().iter().map(owned).collect()),
        DataType::LargeUtf8 => Ok(array.as_string::<i64>().iter().map(owned).collect()),
        DataType::Utf8View => Ok(array.as_string_view().iter().map(owned).collect()),
        other => Err(invalid(format!("column {name:?}: {other} is not text"))),
    }
}

fn integers(name: &str, array: &ArrayRef) -> PyResult<Vec<i64>> {
    let large = |value: u64| {
        i64::try_from(value)
            .map_err(|_| invalid(format!("column {name:?}: {value} is too large")))
    };
    match array.data_type() {
        DataType::Int8 => Ok(array
            .as_primitive::<Int8Type>()
            .values()
            .iter()
            .map(|&v| v.into())
            .collect()),
        DataType::Int16 => Ok(array
            .as_primitive::<Int16Type>()
            .values()
            .iter()
            .map(|&v| v.into())
            .collect()),
        DataType::Int32 => Ok(array
            .as_primitive::<Int32Type>()
            .values()
            .iter()
            .map(|&v| v.into())
            .collect()),
        DataType::Int64 => Ok(array.as_primitive::<Int64Type>().values().to_vec()),
        DataType::UInt8 => Ok(array
            .as_primitive::<UInt8Type>()
            .values()
            .iter()
            .map(|&v| v.into())
            .collect()),
        DataType::UInt16 => Ok(array
            .as_primitive::<UInt16Type>()
            .values()
            .iter()
            .map(|&v| v.into())
            .collect()),
        DataType::UInt32 => Ok(array
            .as_primitive::<UInt32Type>()
            .values()
            .iter()
            .map(|&v| v.into())
            .collect()),
        DataType::UInt64 => {
            array.as_primitive::<UInt64Type>().values().iter().map(|&v| large(v)).collect()
        }
        other => Err(invalid(format!("column {name:?}: {other} is not a whole number"))),
    }
}

fn numbers(name: &str, array: &ArrayRef) -> PyResult<Vec<f64>> {
    match array.data_type() {
        DataType::Float16 => Ok(array
            .as_primitive::<Float16Type>()
            .values()
            .iter()
            .map(|value| value.to_f64())
            .collect()),
        DataType::Float32 => Ok(array
            .as_primitive::<Float32Type>()
            .values()
            .iter()
            .map(|&value| value.into())
            .collect()),
        DataType::Float64 => Ok(array.as_primitive::<Float64Type>().values().to_vec()),
        DataType::Boolean => {
            Ok(array.as_boolean().values().iter().map(|v| f64::from(u8::from(v))).collect())
        }
        kind if kind.is_integer() => {
            Ok(integers(name, array)?.into_iter().map(|value| value as f64).collect())
        }
        other => Err(invalid(format!(
            "column {name:?}: {other} is neither a number nor a text; convert it first"
        ))),
    }
}
