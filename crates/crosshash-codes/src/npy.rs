//! NumPy `.npy` arrays, in and out.
//!
//! The crate `npyz` knows the format; this file stands guard before it (a header must not
//! ask for more memory or recursion than a header needs, and the file must hold what its
//! header promises) and turns every dtype into `f64` values in row order.

use std::io::{BufReader, Read, Write};
use std::path::Path;

use half::f16;
use npyz::{DType, Deserialize, NpyFile, NpyHeader, Order, TypeChar, WriterBuilder as _};

use crate::write::atomically;
use crate::{BitOrder, Codes, Error, Labels, Result};

/// How every `.npy` file begins.
pub const MAGIC: &[u8] = b"\x93NUMPY";

/// The longest header text accepted; NumPy's own are below 200 bytes.
const MAX_HEADER: usize = 1 << 16;
/// The deepest nesting of brackets in a header; a plain array has two levels.
const MAX_DEPTH: usize = 8;

/// An opened `.npy` file whose header has been read and checked against its size.
pub struct Npy {
    header: NpyHeader,
    shape: Vec<usize>,
    kind: Kind,
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
        let head = read_header(&mut data)?;
        let header = NpyHeader::from_reader(&head[..])
            .map_err(|err| Error::content(format!("not a readable .npy header: {err}")))?;
        let kind = kind(&header.dtype())?;
        let shape = shape(header.shape())?;
        let promised = shape
            .iter()
            .try_fold(kind.bytes(), |bytes, &dim| bytes.checked_mul(dim as u64))
            .ok_or_else(|| Error::content("the array is larger than any file"))?;
        let held = size.saturating_sub(head.len() as u64);
        if held != promised {
            let word = if held < promised { "truncated" } else { "not a single array" };
            return Err(Error::content(format!(
                "{word}: the header promises {} {} ({promised} bytes), the file holds {held} \
                 bytes of data",
                dims(&shape),
                kind.name()
            )));
        }
        Ok(Npy { header, shape, kind, data })
    }

    /// The dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number type.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Rows and columns of a matrix; anything else is an error that says what was wanted.
    pub fn matrix(&self, wanted: &str) -> Result<(usize, usize)> {
        match self.shape[..] {
            [rows, columns] => Ok((rows, columns)),
            _ => Err(Error::content(format!(
                "an array of {} dimensions ({}); {wanted}",
                self.shape.len(),
                dims(&self.shape)
            ))),
        }
    }

    /// Hands every value of a vector or matrix, with its row and column, to `take`. The
    /// order is the file's; it is row by row unless the array is stored column by column.
    pub fn each(self, mut take: impl FnMut(usize, usize, f64) -> Result<()>) -> Result<()> {
        let rows = self.shape.first().copied().unwrap_or(1);
        let columns = self.shape.get(1).copied().unwrap_or(1);
        let fortran = self.header.order() == Order::Fortran;
        let mut next = 0_usize;
        let mut place = |value: f64| {
            let (row, column) = if fortran {
                (next % rows, next / rows)
            } else {
                (next / columns, next % columns)
            };
            next += 1;
            take(row, column, value)
        };
        let file = NpyFile::with_header(self.header, self.data);
        match self.kind {
            Kind::Bool => walk(file, |v: bool| place(f64::from(u8::from(v)))),
            Kind::Int(1) => walk(file, |v: i8| place(f64::from(v))),
            Kind::Int(2) => walk(file, |v: i16| place(f64::from(v))),
            Kind::Int(4) => walk(file, |v: i32| place(f64::from(v))),
            Kind::Int(_) => walk(file, |v: i64| place(v as f64)),
            Kind::Uint(1) => walk(file, |v: u8| place(f64::from(v))),
            Kind::Uint(2) => walk(file, |v: u16| place(f64::from(v))),
            Kind::Uint(4) => walk(file, |v: u32| place(f64::from(v))),
            Kind::Uint(_) => walk(file, |v: u64| place(v as f64)),
            Kind::Float(2) => walk(file, |v: f16| place(f64::from(v))),
            Kind::Float(4) => walk(file, |v: f32| place(f64::from(v))),
            Kind::Float(_) => walk(file, place),
        }
    }

    /// The values of a `uint8` matrix, row by row.
    pub(crate) fn into_bytes(self) -> Result<Vec<u8>> {
        let columns = self.shape.get(1).copied().unwrap_or(1);
        let mut bytes = vec![0; self.shape.iter().product()];
        if self.kind == Kind::Uint(1) && self.header.order() == Order::C {
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
    fn bytes(self) -> u64 {
        match self {
            Kind::Bool => 1,
            Kind::Int(bytes) | Kind::Uint(bytes) | Kind::Float(bytes) => u64::from(bytes),
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
pub fn write_matrix<T: npyz::AutoSerialize>(
    path: &Path,
    rows: usize,
    columns: usize,
    values: impl IntoIterator<Item = T>,
) -> Result<()> {
    atomically(path, |out| {
        let mut npy = npyz::WriteOptions::new()
            .default_dtype()
            .shape(&[rows as u64, columns as u64])
            .writer(&mut *out)
            .begin_nd()?;
        npy.extend(values)?;
        npy.finish()?;
        Ok(out.flush()?)
    })
}

/// The bytes of a header, from the magic to the start of the data, refused if parsing them
/// would take more memory, time or recursion than a header needs.
pub fn read_header(source: &mut impl Read) -> Result<Vec<u8>> {
    let not_npy = |_| Error::content("not a .npy file: it ends before its header does");
    let mut head = vec![0; 10];
    source.read_exact(&mut head).map_err(not_npy)?;
    if !head.starts_with(MAGIC) {
        return Err(Error::content("not a .npy file: it does not begin with \\x93NUMPY"));
    }
    let mut length = usize::from(u16::from_le_bytes([head[8], head[9]]));
    if head[6] > 1 {
        let mut high = [0; 2];
        source.read_exact(&mut high).map_err(not_npy)?;
        head.extend(high);
        length |= usize::from(u16::from_le_bytes(high)) << 16;
    }
    if length > MAX_HEADER {
        return Err(Error::content(format!(
            "a .npy header of {length} bytes is no header"
        )));
    }
    let start = head.len();
    head.resize(start + length, 0);
    source.read_exact(&mut head[start..]).map_err(not_npy)?;
    guard(&head[start..])?;
    Ok(head)
}

/// Refuses header texts that would overflow the parser's stack or its arithmetic.
fn guard(text: &[u8]) -> Result<()> {
    let mut depth = 0_usize;
    for byte in text {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(Error::content("a .npy header of brackets is no header"));
        }
    }
    let numbers = text.split(|byte| !byte.is_ascii_digit()).filter(|run| !run.is_empty());
    let mut product = 1_u64;
    for run in numbers {
        let number = std::str::from_utf8(run).ok().and_then(|run| run.parse::<u64>().ok());
        product = number
            .and_then(|number| product.checked_mul(number.max(1)))
            .filter(|&product| product < 1 << 60)
            .ok_or_else(|| Error::content("the array is larger than any file"))?;
    }
    Ok(())
}

fn kind(dtype: &DType) -> Result<Kind> {
    let refused = || {
        Err(Error::content(format!(
            "dtype {}; wanted are bool, int8 to int64, uint8 to uint64 or float16 to float64 \
             (in Python: array.astype(...))",
            dtype.descr()
        )))
    };
    let DType::Plain(plain) = dtype else { return refused() };
    let bytes = u8::try_from(plain.size_field()).unwrap_or(0);
    match (plain.type_char(), bytes) {
        (TypeChar::Bool, 1) => Ok(Kind::Bool),
        (TypeChar::Int, 1 | 2 | 4 | 8) => Ok(Kind::Int(bytes)),
        (TypeChar::Uint, 1 | 2 | 4 | 8) => Ok(Kind::Uint(bytes)),
        (TypeChar::Float, 2 | 4 | 8) => Ok(Kind::Float(bytes)),
        _ => refused(),
    }
}

fn shape(dims: &[u64]) -> Result<Vec<usize>> {
    dims.iter()
        .map(|&dim| {
            usize::try_from(dim)
                .map_err(|_| Error::content("the array is larger than any memory"))
        })
        .collect()
}

fn walk<T: Deserialize>(
    file: NpyFile<BufReader<Box<dyn Read>>>,
    mut take: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let values = file.data::<T>().map_err(|err| Error::content(err.to_string()))?;
    for value in values {
        take(value.map_err(early_end)?)?;
    }
    Ok(())
}

fn early_end(err: std::io::Error) -> Error {
    Error::content(format!("the data could not be read to its end: {err}"))
}

/// `3 x 4`, as messages print a shape.
pub(crate) fn dims(shape: &[usize]) -> String {
    let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
    if dims.is_empty() { "1".into() } else { dims.join(" x ") }
}
