//! NumPy arrays as codes, features and labels, and back; without copies where possible.
//!
//! A borrowed array is kept alive by a reference. Its values are read while the interpreter lock is
//! released: like every extension that does so, the package asks callers not to write to an array that is
//! in use (`docs/python.md`).

use std::sync::Arc;

use crosshash_codes::{BitOrder, Bits, Codes, Labels};
use numpy::{PyArray1, PyArray2, PyArrayMethods as _, PyUntypedArrayMethods as _};
use pyo3::prelude::*;

use crate::errors::{OrRaise as _, invalid};

/// Memory of a NumPy array.
struct Borrowed<T> {
    /// Keeps the memory alive.
    _array: Py<PyAny>,
    start: *const T,
    len: usize,
}

#[expect(
    unsafe_code,
    reason = "the memory is only read, and the reference that keeps it alive may be dropped anywhere"
)]
// SAFETY: plain numbers behind a pointer that stays valid as long as the array does.
unsafe impl<T: Sync> Send for Borrowed<T> {}
#[expect(unsafe_code, reason = "as above")]
// SAFETY: as above; shared references only read.
unsafe impl<T: Sync> Sync for Borrowed<T> {}

impl<T> AsRef<[T]> for Borrowed<T> {
    #[expect(unsafe_code, reason = "the slice is the memory of the array")]
    fn as_ref(&self) -> &[T] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: `start` points to `len` values of a C-contiguous array that `_array` keeps alive;
        // NumPy does not move or free them while there are references to it. Callers are asked not to
        // write to it meanwhile.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

/// The bytes of an array.
pub(crate) fn bytes(
    array: &Bound<'_, PyArray1<u8>>,
) -> PyResult<Arc<dyn AsRef<[u8]> + Send + Sync>> {
    if !array.is_c_contiguous() {
        return Err(invalid("the array is not contiguous"));
    }
    Ok(Arc::new(Borrowed {
        start: array.data().cast_const(),
        len: array.len(),
        _array: array.clone().into_any().unbind(),
    }))
}

/// Packed codes, one row each, lowest bit first. Codes whose length is a multiple of 64 are not copied.
pub(crate) fn codes(array: &Bound<'_, PyArray2<u8>>, bits: usize) -> PyResult<Codes> {
    let bits = Bits::new(bits).or_raise()?;
    let &[rows, width] = array.shape() else {
        return Err(invalid("codes are a matrix"));
    };
    if width != bits.bytes() {
        return Err(invalid(format!(
            "codes of {bits} bits are rows of {} bytes, not {width}",
            bits.bytes()
        )));
    }
    if !array.is_c_contiguous() {
        return Err(invalid("the array is not contiguous"));
    }
    let start = array.data().cast_const();
    let words = start.cast::<u64>();
    let in_place = cfg!(target_endian = "little")
        && bits.get().is_multiple_of(64)
        && words.is_aligned();
    let borrowed =
        |start, len| Borrowed { start, len, _array: array.clone().into_any().unbind() };
    if in_place {
        let shared = Borrowed {
            start: words,
            len: rows * bits.words(),
            _array: array.clone().into_any().unbind(),
        };
        return Codes::over_words(bits, Arc::new(shared)).or_raise();
    }
    Codes::from_packed(bits, borrowed(start, rows * width).as_ref(), BitOrder::Lsb)
        .or_raise()
}

/// Codes as an array of packed rows.
pub(crate) fn to_array<'py>(py: Python<'py>, codes: Codes) -> PyResult<Bound<'py, PyAny>> {
    let (rows, bits) = (codes.len(), codes.bits());
    let shape = (rows, bits.bytes());
    if cfg!(target_endian = "little") && bits.get().is_multiple_of(64) {
        let words = PyArray1::from_vec(py, codes.into_words());
        return words.call_method1("view", ("u1",))?.call_method1("reshape", (shape,));
    }
    PyArray1::from_vec(py, codes.to_packed(BitOrder::Lsb)).call_method1("reshape", (shape,))
}

/// Rows of values as a matrix.
pub(crate) fn matrix<'py, T: numpy::Element>(
    py: Python<'py>,
    width: usize,
    values: Vec<T>,
) -> PyResult<Bound<'py, PyAny>> {
    let rows = values.len() / width.max(1);
    PyArray1::from_vec(py, values).call_method1("reshape", ((rows, width),))
}

/// Labels in compressed rows: number of labels, starts of the rows, label numbers.
pub(crate) type LabelRows<'py> =
    (usize, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>);

/// Labels from compressed rows.
pub(crate) fn labels(rows: &LabelRows<'_>) -> PyResult<Labels> {
    let (classes, starts, numbers) = rows;
    let (starts, numbers) = (starts.try_readonly()?, numbers.try_readonly()?);
    let (starts, numbers) = (starts.as_slice()?, numbers.as_slice()?);
    let wrong = || invalid("labels: not compressed rows");
    let mut labels =
        Labels::from_indices(*classes, std::iter::empty::<[u32; 0]>()).or_raise()?;
    let mut row = Vec::new();
    for (nth, pair) in starts.windows(2).enumerate() {
        let span = |at: i64| usize::try_from(at).map_err(|_| wrong());
        let span = span(pair[0])?..span(pair[1])?;
        row.clear();
        for &label in numbers.get(span).ok_or_else(wrong)? {
            let number = u32::try_from(label).map_err(|_| {
                invalid(format!("row {nth}: label {label} is not a label number"))
            })?;
            row.push(number);
        }
        labels.push(&row).or_raise()?;
    }
    Ok(labels)
}

/// Labels as compressed rows.
pub(crate) fn label_rows<'py>(py: Python<'py>, labels: &Labels) -> LabelRows<'py> {
    let (mut starts, mut numbers) = (vec![0_i64], Vec::new());
    for row in 0..labels.len() {
        numbers.extend(labels.indices(row).map(|label| label as i64));
        starts.push(numbers.len() as i64);
    }
    let array = |values| PyArray1::from_vec(py, values);
    (labels.classes(), array(starts), array(numbers))
}
