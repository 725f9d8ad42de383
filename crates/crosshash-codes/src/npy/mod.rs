//! NumPy `.npy` arrays, in and out.
//!
//! `header.rs` reads and writes headers; this file checks that a file holds what its header
//! promises, and turns every number type into `f64` values.

mod header;

use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use half::f16;

pub use header::{DType, Header, MAGIC};

use crate::write::atomically;
use crate::{BitOrder, Codes, Error, Labels, Result};

/// Values that are read at a time.
const BLOCK: usize = 1 << 14;

/// An opened `.npy` file whose header has been read and checked against its size.
pub struct Npy {
    header: Header,
    number: DType,
    data: BufReader<Box<dyn Read>>,
}

/// The number types that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `bool`.
    Bool,
    /// `int8` to `int64`, with the bytes of one value.
    Int(u8),
    /// `uint8` to `uint64`, with the bytes of one value.
    Uint(u8),
    /// `float16` to `float64`, with the bytes of one value.
    Float(u8),
}

impl Npy {
    /// Opens a file and checks that it holds what its header promises.
    pub fn open(path: &Path) -> Result<Npy> {
        let file = fs_err::File::open(path)?;
        let size = file.metadata()?.len();
        Self::from_reader(file, size).map_err(|err| err.at(path))
    }

    /// The same for any source of `size` bytes.
    pub fn from_reader(source: impl Read + 'static, size: u64) -> Result<Npy> {
        let source: Box<dyn Read> = Box::new(source);
        let mut data = BufReader::with_capacity(1 << 18, source);
        let header = Header::read(&mut data)?;
        let number = header.number().ok_or_else(|| {
            Error::content(format!(
                "dtype {}; expected bool, int8 to int64, uint8 to uint64 or float16 to float64 \
                 (in Python: array.astype(...))",
                header.descr
            ))
        })?;
        let kind = number.kind;
        let promised = header
            .shape
            .iter()
            .try_fold(kind.bytes() as u64, |bytes, &dim| bytes.checked_mul(dim as u64))
            .ok_or_else(|| Error::content("the array is larger than any file"))?;
        let held = size.saturating_sub(header.length as u64);
        if held != promised {
            let word = if held < promised { "truncated" } else { "not a single array" };
            return Err(Error::content(format!(
                "{word}: the header promises {} {} ({promised} bytes), the file holds {held} \
                 bytes of data",
                dims(&header.shape),
                kind.name()
            )));
        }
        Ok(Npy { header, number, data })
    }

    /// The dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.header.shape
    }

    /// The number type.
    pub fn kind(&self) -> Kind {
        self.number.kind
    }

    /// Rows and columns of a matrix; anything else is an error that states what was expected.
    pub fn matrix(&self, wanted: &str) -> Result<(usize, usize)> {
        match self.shape()[..] {
            [rows, columns] => Ok((rows, columns)),
            _ => Err(Error::content(format!(
                "an array of {} dimensions ({}); {wanted}",
                self.shape().len(),
                dims(self.shape())
            ))),
        }
    }

    /// Calls `take` with every value of a vector or matrix, its row and its column. The
    /// order is the file's; it is row by row unless the array is stored column by column.
    pub fn each(
        mut self,
        mut take: impl FnMut(usize, usize, f64) -> Result<()>,
    ) -> Result<()> {
        let rows = self.shape().first().copied().unwrap_or(1);
        let columns = self.shape().get(1).copied().unwrap_or(1);
        let size = self.number.kind.bytes();
        let mut left: usize = self.shape().iter().product();
        let mut next = 0_usize;
        let mut block = vec![0; size * left.min(BLOCK)];
        while left > 0 {
            let count = left.min(BLOCK);
            let block = &mut block[..count * size];
            self.data.read_exact(block).map_err(early_end)?;
            for bytes in block.chunks_exact(size) {
                let (row, column) = if self.header.fortran_order {
                    (next % rows, next / rows)
                } else {
                    (next / columns, next % columns)
                };
                take(row, column, self.number.value(bytes))?;
                next += 1;
            }
            left -= count;
        }
        Ok(())
    }

    /// The values of a `uint8` matrix, row by row.
    pub(crate) fn into_bytes(self) -> Result<Vec<u8>> {
        let columns = self.shape().get(1).copied().unwrap_or(1);
        let mut bytes = vec![0; self.shape().iter().product()];
        if self.kind() == Kind::Uint(1) && !self.header.fortran_order {
            let mut data = self.data;
            data.read_exact(&mut bytes).map_err(early_end)?;
            return Ok(bytes);
        }
        #[expect(clippy::cast_possible_truncation, reason = "bytes come from bytes")]
        #[expect(clippy::cast_sign_loss, reason = "bytes come from bytes")]
        self.each(|row, column, value| {
            bytes[row * columns + column] = value as u8;
            Ok(())
        })?;
        Ok(bytes)
    }
}

impl Kind {
    /// Bytes of one value.
    pub fn bytes(self) -> usize {
        match self {
            Kind::Bool => 1,
            Kind::Int(bytes) | Kind::Uint(bytes) | Kind::Float(bytes) => usize::from(bytes),
        }
    }

    /// NumPy's name.
    pub fn name(self) -> String {
        match self {
            Kind::Bool => "bool".into(),
            Kind::Int(bytes) => format!("int{}", bytes * 8),
            Kind::Uint(bytes) => format!("uint{}", bytes * 8),
            Kind::Float(bytes) => format!("float{}", bytes * 8),
        }
    }
}

impl DType {
    /// The value in as many bytes as it takes; NaN if there are not as many.
    fn value(self, bytes: &[u8]) -> f64 {
        let mut eight = [0; 8]; // little-endian
        let Some(place) = eight.get_mut(..bytes.len()) else { return f64::NAN };
        place.copy_from_slice(bytes);
        if self.big_endian {
            place.reverse();
        }
        let [a, b, c, d, ..] = eight;
        match self.kind {
            Kind::Bool => f64::from(u8::from(a != 0)),
            Kind::Int(1) => f64::from(i8::from_le_bytes([a])),
            Kind::Int(2) => f64::from(i16::from_le_bytes([a, b])),
            Kind::Int(4) => f64::from(i32::from_le_bytes([a, b, c, d])),
            Kind::Int(_) => i64::from_le_bytes(eight) as f64,
            Kind::Uint(_) => u64::from_le_bytes(eight) as f64, // zeros above
            Kind::Float(2) => f16::from_le_bytes([a, b]).to_f64(),
            Kind::Float(4) => f64::from(f32::from_le_bytes([a, b, c, d])),
            Kind::Float(_) => f64::from_le_bytes(eight),
        }
    }
}

/// A number that can be written.
pub trait Element: Copy {
    /// NumPy's name of the type.
    const DTYPE: &'static str;

    /// Its bytes, little-endian.
    fn put(self, out: &mut impl Write) -> io::Result<()>;
}

impl Element for u8 {
    const DTYPE: &'static str = "|u1";

    fn put(self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&[self])
    }
}

impl Element for i8 {
    const DTYPE: &'static str = "|i1";

    fn put(self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.to_le_bytes())
    }
}

impl Element for f32 {
    const DTYPE: &'static str = "<f4";

    fn put(self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.to_le_bytes())
    }
}

impl Element for f64 {
    const DTYPE: &'static str = "<f8";

    fn put(self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.to_le_bytes())
    }
}

/// Writes codes as a packed `uint8` matrix, n x bytes.
pub fn write_packed(path: &Path, codes: &Codes, order: BitOrder) -> Result<()> {
    write_matrix(path, codes.len(), codes.bits().bytes(), codes.to_packed(order))
}

/// Writes codes as a matrix of 0 and 1 (`uint8`), n x bits.
pub fn write_bits(path: &Path, codes: &Codes) -> Result<()> {
    let bits = codes.bits().get();
    let bit = |k: usize| u8::from(codes.bit(k / bits, k % bits));
    write_matrix(path, codes.len(), bits, (0..codes.len() * bits).map(bit))
}

/// Writes codes as a matrix of -1 and +1 (`int8`), n x bits.
pub fn write_signs(path: &Path, codes: &Codes) -> Result<()> {
    let bits = codes.bits().get();
    let sign = |k: usize| if codes.bit(k / bits, k % bits) { 1_i8 } else { -1 };
    write_matrix(path, codes.len(), bits, (0..codes.len() * bits).map(sign))
}

/// Writes labels as a matrix of 0 and 1 (`uint8`), n x labels.
pub fn write_labels(path: &Path, labels: &Labels) -> Result<()> {
    let dense = (0..labels.len()).flat_map(|item_idx| {
        let row = labels.row(item_idx);
        (0..labels.classes())
            .map(move |label| u8::from(row[label / 64] >> (label % 64) & 1 == 1))
    });
    write_matrix(path, labels.len(), labels.classes(), dense)
}

/// Writes a matrix, row by row, from any stream of values; whole or not at all.
///
/// # Panics
/// If there are not `rows * columns` values.
pub fn write_matrix<T: Element>(
    path: &Path,
    rows: usize,
    columns: usize,
    values: impl IntoIterator<Item = T>,
) -> Result<()> {
    atomically(path, |out| {
        Header::write(out, T::DTYPE, &[rows, columns])?;
        let mut count = 0;
        for value in values {
            value.put(out)?;
            count += 1;
        }
        assert_eq!(count, rows * columns, "a matrix of {rows} x {columns}");
        Ok(out.flush()?)
    })
}

fn early_end(err: std::io::Error) -> Error {
    Error::content(format!("the data could not be read to its end: {err}"))
}

/// `3 x 4`, as messages print a shape.
pub(crate) fn dims(shape: &[usize]) -> String {
    let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
    if dims.is_empty() { "1".into() } else { dims.join(" x ") }
}
