//! Dense features: a matrix that may be larger than memory.
//!
//! A `Dense` is a sequence of blocks. A block is a mapped array file or an array in memory. Values are
//! read as `f32`, by rows.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use half::f16;

use super::bytes::Bytes;
use crate::{Error, Place, Result};

/// The most columns of an array without rows.
const MAX_EMPTY_WIDTH: usize = 1 << 20;

/// Rows of equal width.
#[derive(Clone)]
pub struct Dense {
    width: usize,
    blocks: Vec<Block>,
    rows: Option<Arc<[usize]>>, // item -> row over all blocks; None: in stored order
}

/// The type of the values in a mapped file (little-endian).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision, rounded to single when read.
    F64,
    /// Bytes.
    U8,
    /// Signed bytes.
    I8,
    /// 16 bits, unsigned.
    U16,
    /// 16 bits, signed.
    I16,
    /// 32 bits, unsigned.
    U32,
    /// 32 bits, signed.
    I32,
    /// 64 bits, unsigned.
    U64,
    /// 64 bits, signed.
    I64,
}

impl ValueType {
    /// Size of a value in bytes.
    pub fn size(self) -> usize {
        match self {
            ValueType::U8 | ValueType::I8 => 1,
            ValueType::F16 | ValueType::U16 | ValueType::I16 => 2,
            ValueType::F32 | ValueType::U32 | ValueType::I32 => 4,
            ValueType::F64 | ValueType::U64 | ValueType::I64 => 8,
        }
    }

    /// Reads a value, rounded to `f32`.
    #[expect(clippy::cast_possible_truncation, reason = "features are single precision")]
    pub(crate) fn read(self, bytes: &[u8]) -> f32 {
        self.wide(bytes) as f32
    }

    /// Reads a value; NaN if the number of bytes is wrong.
    pub(crate) fn wide(self, bytes: &[u8]) -> f64 {
        match (self, bytes) {
            (ValueType::U8, &[a]) => f64::from(a),
            (ValueType::I8, &[a]) => f64::from(i8::from_le_bytes([a])),
            (ValueType::F16, &[a, b]) => f16::from_le_bytes([a, b]).to_f64(),
            (ValueType::U16, &[a, b]) => f64::from(u16::from_le_bytes([a, b])),
            (ValueType::I16, &[a, b]) => f64::from(i16::from_le_bytes([a, b])),
            (ValueType::F32, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
            (ValueType::U32, &[a, b, c, d]) => f64::from(u32::from_le_bytes([a, b, c, d])),
            (ValueType::I32, &[a, b, c, d]) => f64::from(i32::from_le_bytes([a, b, c, d])),
            (_, eight) => {
                let Ok(eight) = <[u8; 8]>::try_from(eight) else { return f64::NAN };
                match self {
                    ValueType::F64 => f64::from_le_bytes(eight),
                    ValueType::U64 => u64::from_le_bytes(eight) as f64,
                    ValueType::I64 => i64::from_le_bytes(eight) as f64,
                    _ => f64::NAN,
                }
            }
        }
    }
}

#[derive(Clone)]
struct Block {
    rows: usize,
    store: Store,
    path: Option<PathBuf>,
}

#[derive(Clone)]
enum Store {
    Floats(Arc<[f32]>),
    Raw { bytes: Bytes, offset: usize, number: ValueType, by_columns: bool },
}

/// The layout of a mapped array.
pub(crate) struct Layout {
    pub(crate) rows: usize,
    pub(crate) width: usize,
    pub(crate) offset: usize,
    pub(crate) number: ValueType,
    /// Column-major (Fortran, MATLAB) instead of row-major.
    pub(crate) by_columns: bool,
}

impl Dense {
    /// From values in memory, row by row; rejects values that are not finite.
    pub fn from_floats(width: usize, values: Vec<f32>) -> Result<Dense> {
        check_whole(width, values.len())?;
        if let Some(at) = values.iter().position(|v| !v.is_finite()) {
            return Err(not_finite(at / width, at % width, values[at]));
        }
        let rows = values.len() / width;
        Ok(Dense::of(width, rows, Store::Floats(values.into()), None))
    }

    /// From bytes in memory (pixels, counts, bits), row by row, read as 0 to 255.
    pub fn from_bytes(width: usize, values: Vec<u8>) -> Result<Dense> {
        check_whole(width, values.len())?;
        let rows = values.len() / width;
        let bytes = Bytes::Owned(values.into());
        let store =
            Store::Raw { bytes, offset: 0, number: ValueType::U8, by_columns: false };
        Ok(Dense::of(width, rows, store, None))
    }

    /// From memory of another owner (such as an array of another language) that stays alive as long as
    /// it is used; nothing is copied. Values are little-endian, row by row or, with `by_columns`, column by
    /// column. Values that are not finite are an error when they are read.
    pub fn from_shared(
        bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
        [rows, width]: [usize; 2],
        number: ValueType,
        by_columns: bool,
    ) -> Result<Dense> {
        let size = rows.checked_mul(width).and_then(|n| n.checked_mul(number.size()));
        let got = (*bytes).as_ref().len();
        if width == 0 || size != Some(got) {
            return Err(Error::content(format!(
                "an array of {rows} x {width} values of {} bytes each cannot have {got} bytes; \
                 features need at least one column",
                number.size()
            )));
        }
        let bytes = Bytes::Shared(bytes);
        let store = Store::Raw { bytes, offset: 0, number, by_columns };
        Ok(Dense::of(width, rows, store, None))
    }

    /// Rows that remain in the file.
    pub(crate) fn raw(bytes: Bytes, layout: Layout, path: &Path) -> Result<Dense> {
        let Layout { rows, width, offset, number, by_columns } = layout;
        if width == 0 {
            return Err(Error::content(format!(
                "an array of {rows} x 0: features need at least one column"
            ))
            .at(path));
        }
        // Readers of rows allocate one, which the size of the file bounds only if there is one.
        if rows == 0 && width > MAX_EMPTY_WIDTH {
            return Err(Error::content(format!(
                "an array of 0 x {width}: an array without rows may declare at most \
                 {MAX_EMPTY_WIDTH} columns"
            ))
            .at(path));
        }
        let expected = rows.checked_mul(width).and_then(|n| n.checked_mul(number.size()));
        let expected = expected.and_then(|n| n.checked_add(offset));
        if expected.is_none_or(|end| end > bytes.len()) {
            return Err(Error::content(format!(
                "{rows} rows of {width} values do not fit into the {} bytes of the file: it is \
                 truncated or its header is wrong",
                bytes.len()
            ))
            .at(path));
        }
        let store = Store::Raw { bytes, offset, number, by_columns };
        Ok(Dense::of(width, rows, store, Some(path.to_owned())))
    }

    fn of(width: usize, rows: usize, store: Store, path: Option<PathBuf>) -> Dense {
        Dense { width, blocks: vec![Block { rows, store, path }], rows: None }
    }

    /// The rows of `self` followed by those of `other`.
    pub fn append(mut self, other: Dense) -> Result<Dense> {
        if self.width != other.width {
            return Err(Error::content(format!(
                "arrays of {} and {} columns cannot be concatenated into one modality",
                self.width, other.width
            )));
        }
        assert!(self.rows.is_none() && other.rows.is_none(), "append before select");
        self.blocks.extend(other.blocks);
        Ok(self)
    }

    /// Transposes an array whose columns are the items.
    pub fn transpose(mut self) -> Result<Dense> {
        let refused = || Error::content("only a single array in a file can be transposed");
        let [block] = self.blocks.as_mut_slice() else { return Err(refused()) };
        let Store::Raw { by_columns, .. } = &mut block.store else { return Err(refused()) };
        if self.rows.is_some() || block.rows == 0 {
            return Err(refused());
        }
        *by_columns = !*by_columns;
        std::mem::swap(&mut self.width, &mut block.rows);
        Ok(self)
    }

    /// Number of features.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.as_ref().map_or_else(|| self.stored(), |rows| rows.len())
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether any rows are mapped from a file.
    pub fn is_mapped(&self) -> bool {
        self.blocks
            .iter()
            .any(|block| matches!(block.store, Store::Raw { bytes: Bytes::Mapped(_), .. }))
    }

    /// The rows with these numbers, in this order; nothing is copied.
    #[must_use]
    pub fn select(&self, items: &[usize]) -> Dense {
        let rows = items.iter().map(|&item| self.stored_row(item)).collect();
        Dense { rows: Some(rows), ..self.clone() }
    }

    /// Reads the rows of `items` into `out`. A value that is not finite is an error with file, row and
    /// column.
    ///
    /// # Panics
    /// If the size of `out` is not `items.len()` rows, or an item is out of range.
    pub fn read(&self, items: Range<usize>, out: &mut [f32]) -> Result<()> {
        let first = items.start;
        self.read_unchecked(items, out);
        self.check(|at| first + at, out)
    }

    /// Like [`Dense::read`], for any items in any order.
    pub fn gather(&self, items: &[usize], out: &mut [f32]) -> Result<()> {
        assert_eq!(out.len(), items.len() * self.width, "the buffer has the wrong size");
        for (&item, row) in items.iter().zip(out.chunks_exact_mut(self.width)) {
            self.read_row(item, row);
        }
        self.check(|at| items[at], out)
    }

    /// Like [`Dense::read`], but accepts NaN and infinity; used by the inspector.
    pub fn read_unchecked(&self, items: Range<usize>, out: &mut [f32]) {
        assert_eq!(out.len(), items.len() * self.width, "the buffer has the wrong size");
        for (item, row) in items.zip(out.chunks_exact_mut(self.width)) {
            self.read_row(item, row);
        }
    }

    fn stored(&self) -> usize {
        self.blocks.iter().map(|block| block.rows).sum()
    }

    fn stored_row(&self, item: usize) -> usize {
        self.rows.as_ref().map_or(item, |rows| rows[item])
    }

    /// The block of an item and its row there.
    fn locate(&self, item: usize) -> (&Block, usize) {
        let mut row = self.stored_row(item);
        for block in &self.blocks {
            if row < block.rows {
                return (block, row);
            }
            row -= block.rows;
        }
        panic!("item {item} is out of range, there are {}", self.len());
    }

    fn read_row(&self, item: usize, out: &mut [f32]) {
        let (block, row) = self.locate(item);
        let start = row * self.width;
        match &block.store {
            Store::Floats(values) => out.copy_from_slice(&values[start..][..self.width]),
            Store::Raw { bytes, offset, number, by_columns: false } => {
                let size = number.size();
                let row = &bytes[offset + start * size..][..self.width * size];
                if *number == ValueType::F32 {
                    let numbers = row.as_chunks().0.iter();
                    out.iter_mut()
                        .zip(numbers)
                        .for_each(|(o, b)| *o = f32::from_le_bytes(*b));
                    return;
                }
                let numbers = row.chunks_exact(size);
                out.iter_mut().zip(numbers).for_each(|(o, b)| *o = number.read(b));
            }
            Store::Raw { bytes, offset, number, by_columns: true } => {
                let size = number.size();
                for (column, o) in out.iter_mut().enumerate() {
                    let at = offset + (column * block.rows + row) * size;
                    *o = number.read(&bytes[at..][..size]);
                }
            }
        }
    }

    /// The file of an item, if there is one, and its row in the file.
    pub(crate) fn place(&self, item: usize) -> (Option<&Path>, usize) {
        let (block, row) = self.locate(item);
        (block.path.as_deref(), row)
    }

    fn check(&self, item_at: impl Fn(usize) -> usize, out: &[f32]) -> Result<()> {
        let Some(at) = out.iter().position(|v| !v.is_finite()) else { return Ok(()) };
        let (block, row) = self.locate(item_at(at / self.width));
        let err = not_finite(row, at % self.width, out[at]);
        Err(match &block.path {
            Some(path) => err.at(path),
            None => err,
        })
    }
}

impl std::fmt::Debug for Dense {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dense({} x {})", self.len(), self.width)
    }
}

fn check_whole(width: usize, got: usize) -> Result<()> {
    if width == 0 || !got.is_multiple_of(width) {
        let what = "features";
        return Err(crosshash_codes::Error::Ragged { what, got, width }.into());
    }
    Ok(())
}

pub(crate) fn not_finite(row: usize, column: usize, value: f32) -> Error {
    let what = format!("{value} is not a valid feature: every value must be finite");
    Error::cell(Place::Row(row), column.to_string(), what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_is_read_in_place() {
        let values: Vec<f32> = (0..6_u8).map(f32::from).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let bytes: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::new(bytes);
        let read = |by_columns| {
            let shared = Arc::clone(&bytes);
            let dense =
                Dense::from_shared(shared, [2, 3], ValueType::F32, by_columns).unwrap();
            let mut out = vec![0.0; 6];
            dense.read(0..2, &mut out).unwrap();
            out
        };
        assert_eq!(read(false), values);
        assert_eq!(read(true), [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
        let wrong = Dense::from_shared(Arc::clone(&bytes), [2, 4], ValueType::F32, false);
        let err = wrong.unwrap_err().to_string();
        assert!(err.starts_with("an array of 2 x 4 values of 4 bytes each"), "{err}");
        let nan = Arc::new(f32::NAN.to_le_bytes().to_vec());
        let dense = Dense::from_shared(nan, [1, 1], ValueType::F32, false).unwrap();
        let err = dense.read(0..1, &mut [0.0]).unwrap_err().to_string();
        assert!(err.starts_with("row 0, column 0: NaN is not a valid feature"), "{err}");
    }
}
