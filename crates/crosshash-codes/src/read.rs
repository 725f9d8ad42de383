//! Reads codes and labels: `.npy` arrays, crosshash code files, text.
//!
//! Two files that are compared are read together, because one file alone may be ambiguous:
//! a `uint8` matrix may hold packed bytes or one bit a column, and packed codes whose length
//! is no multiple of 8 may start at either end of the byte.

use std::fmt;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use serde::Serialize;

use crate::format::{self, CodeFile};
use crate::npy::{self, Kind, Npy, dims};
use crate::{BitOrder, Bits, Codes, Error, Labels, Result};

/// Interpretation of the values of a code matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Determined from the values: `uint8` is packed unless all of it is 0 and 1; any other type
    /// must hold -1/+1 or 0/1.
    #[default]
    Auto,
    /// `uint8`, eight bits a byte.
    Packed,
    /// 0 and 1, or -1 and +1, one value a bit.
    Matrix,
    /// Real values: bit 1 iff the value is >= 0.
    Real,
}

/// How to read codes.
#[derive(Clone, Copy, Debug, Default)]
pub struct CodeOptions {
    /// The code length, if the file does not contain it.
    pub bits: Option<Bits>,
    /// Interpretation of the values.
    pub layout: Layout,
    /// Which end of a packed byte comes first; determined from the padding if not given.
    pub order: Option<BitOrder>,
}

/// Reads one file of codes.
pub fn codes(path: &Path, options: &CodeOptions) -> Result<Codes> {
    let mut all = codes_together(&[path], options)?;
    all.pop().ok_or_else(|| Error::Empty { what: "no file of codes".into() })
}

/// Reads real values, one a bit, row by row: queries for re-ranking.
pub fn reals(path: &Path, bits: Bits) -> Result<Vec<f32>> {
    let npy = Npy::open(path)?;
    let read = || {
        let (rows, columns) = npy.matrix("real-valued queries are a matrix, n x bits")?;
        if columns != bits.get() {
            return Err(Error::content(format!(
                "{columns} columns; the codes have {bits} bits, and one value a bit is needed"
            )));
        }
        let mut values = Vec::with_capacity(rows * columns);
        #[expect(clippy::cast_possible_truncation, reason = "single precision is enough")]
        npy.each(|row, column, value| {
            if !value.is_finite() {
                let wanted = "is not a finite number".into();
                let value = value.to_string();
                return Err(Error::BadValue { row, column, value, wanted });
            }
            values.push(value as f32);
            Ok(())
        })?;
        Ok(values)
    };
    read().map_err(|err| err.at(path))
}

/// Reads files of codes that will be compared with each other, all in one reading.
pub fn codes_together(paths: &[&Path], options: &CodeOptions) -> Result<Vec<Codes>> {
    let sources = paths
        .iter()
        .map(|path| Source::open(path, options).map_err(|err| err.at(path)))
        .collect::<Result<Vec<_>>>()?;
    let bytes: Vec<&Bytes> = sources.iter().filter_map(Source::as_bytes).collect();
    let packed = is_packed(&bytes, options)?;
    let order = match options.order {
        Some(order) => order,
        None if packed => told_order(&bytes, bytes.len() < sources.len(), options)?,
        None => BitOrder::Lsb,
    };
    let finish = |(source, path): (Source, &&Path)| {
        source.finish(packed, order, options).map_err(|err| err.at(path))
    };
    sources.into_iter().zip(paths).map(finish).collect()
}

/// A file on its way to codes.
enum Source {
    Codes(Codes),
    Bytes(Bytes),
}

/// A `uint8` matrix, packed or not.
struct Bytes {
    columns: usize,
    values: Vec<u8>,
    path: String,
}

impl Source {
    fn open(path: &Path, options: &CodeOptions) -> Result<Source> {
        if starts_with(path, format::MAGIC)? {
            let codes = CodeFile::read(path)?.codes;
            return match options.bits {
                Some(bits) if bits != codes.bits() => Err(Error::content(format!(
                    "holds codes of {} bits, not {bits}",
                    codes.bits()
                ))),
                _ => Ok(Source::Codes(codes)),
            };
        }
        let npy = Npy::open(path)?;
        let (rows, columns) = npy.matrix(
            "codes are a matrix: n x bytes packed uint8, or n x bits of 0/1, -1/+1 or reals",
        )?;
        if npy.kind() == Kind::Uint(1)
            && matches!(options.layout, Layout::Auto | Layout::Packed)
        {
            let path = path.display().to_string();
            return Ok(Source::Bytes(Bytes { columns, values: npy.into_bytes()?, path }));
        }
        if options.layout == Layout::Packed {
            return Err(Error::content(format!(
                "dtype {}; packed codes are uint8",
                npy.kind().name()
            )));
        }
        matrix_codes(npy, rows, columns, options).map(Source::Codes)
    }

    fn as_bytes(&self) -> Option<&Bytes> {
        match self {
            Source::Bytes(bytes) => Some(bytes),
            Source::Codes(_) => None,
        }
    }

    fn finish(self, packed: bool, order: BitOrder, options: &CodeOptions) -> Result<Codes> {
        let bytes = match self {
            Source::Codes(codes) => return Ok(codes),
            Source::Bytes(bytes) => bytes,
        };
        if packed {
            let bits = bytes.packed_bits(options)?;
            return Codes::from_packed(bits, &bytes.values, order);
        }
        let bits = matrix_bits(bytes.columns, options)?;
        Codes::from_values(bits, &bytes.values, |&value| match value {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        })
    }
}

impl Bytes {
    fn packed_bits(&self, options: &CodeOptions) -> Result<Bits> {
        match options.bits {
            None => Bits::new(self.columns * 8),
            Some(bits) if bits.bytes() == self.columns => Ok(bits),
            Some(bits) => Err(Error::content(format!(
                "{bits} bits do not fit rows of {} bytes: packed they take {} bytes, one value \
                 a bit {bits} columns",
                self.columns,
                bits.bytes()
            ))),
        }
    }

    fn is_zero_one(&self) -> bool {
        self.values.iter().all(|&value| value <= 1)
    }
}

/// Whether these `uint8` matrices are packed.
fn is_packed(all: &[&Bytes], options: &CodeOptions) -> Result<bool> {
    if options.layout == Layout::Packed {
        return Ok(true);
    }
    let zero_one = all.iter().all(|bytes| bytes.is_zero_one());
    match options.bits {
        Some(bits) => {
            Ok(!(zero_one && all.iter().all(|bytes| bytes.columns == bits.get())))
        }
        None => Ok(!zero_one),
    }
}

/// The order that leaves the padding of every packed row empty. Where both do, no code has
/// a bit in either padding and both readings give the same distances between packed codes;
/// beside codes that are not packed (`mixed`) the order matters and must be given.
fn told_order(all: &[&Bytes], mixed: bool, options: &CodeOptions) -> Result<BitOrder> {
    let mut possible = vec![BitOrder::Lsb, BitOrder::Msb];
    for bytes in all {
        let bits =
            bytes.packed_bits(options).map_err(|err| err.at(Path::new(&bytes.path)))?;
        let used = bits.get() % 8;
        if used == 0 {
            continue;
        }
        let last: u8 = bytes
            .values
            .chunks_exact(bytes.columns)
            .fold(0, |seen, row| seen | row[bytes.columns - 1]);
        possible.retain(|order| match order {
            BitOrder::Lsb => last >> used == 0,
            BitOrder::Msb => last << used == 0,
        });
    }
    if mixed && possible.len() > 1 {
        return Err(Error::content(
            "packed and unpacked codes together: state which bit of a byte comes first \
             (--bit-order msb for np.packbits, lsb for FAISS and bitorder=\"little\")",
        ));
    }
    possible.first().copied().ok_or_else(|| {
        Error::content(
            "bits beyond the code length are set, whichever end of the byte comes first; \
             check the length",
        )
    })
}

/// A matrix with one value a bit: 0/1, -1/+1 (bit 1 iff the value is 1), or reals (bit 1
/// iff the value is >= 0).
fn matrix_codes(
    npy: Npy,
    rows: usize,
    columns: usize,
    options: &CodeOptions,
) -> Result<Codes> {
    let bits = matrix_bits(columns, options)?;
    let real = options.layout == Layout::Real;
    if real && matches!(npy.kind(), Kind::Bool | Kind::Uint(_)) {
        return Err(Error::content(format!(
            "dtype {}: values that cannot be negative have no sign to take",
            npy.kind().name()
        )));
    }
    let mut words = vec![0_u64; rows * bits.words()];
    let mut seen = SignValues::default();
    npy.each(|row, column, value| {
        let on = if real {
            sign(row, column, value)?
        } else {
            seen.note(row, column, value)?;
            value == 1.0
        };
        words[row * bits.words() + column / 64] |= u64::from(on) << (column % 64);
        Ok(())
    })?;
    seen.check()?;
    Codes::from_words(bits, words)
}

fn matrix_bits(columns: usize, options: &CodeOptions) -> Result<Bits> {
    match options.bits {
        Some(bits) if bits.get() != columns => Err(Error::content(format!(
            "{columns} columns of one bit each, but {bits} bits were requested"
        ))),
        _ => Bits::new(columns),
    }
}

fn sign(row: usize, column: usize, value: f64) -> Result<bool> {
    if value.is_nan() {
        return Err(bad(row, column, value, "has no sign"));
    }
    Ok(value >= 0.0)
}

/// Which of -1 and 0 occurred, and where first: a code matrix has one of them at most.
#[derive(Default)]
struct SignValues {
    minus: Option<(usize, usize)>,
    zero: Option<(usize, usize)>,
}

impl SignValues {
    fn note(&mut self, row: usize, column: usize, value: f64) -> Result<()> {
        if value == 1.0 {
            Ok(())
        } else if value == 0.0 {
            self.zero.get_or_insert((row, column));
            Ok(())
        } else if value == -1.0 {
            self.minus.get_or_insert((row, column));
            Ok(())
        } else if value.is_nan() {
            Err(bad(row, column, value, "is neither -1/+1 nor 0/1"))
        } else {
            let wanted = "is neither -1/+1 nor 0/1; to take the sign of real values, read them as real";
            Err(bad(row, column, value, wanted))
        }
    }

    fn check(&self) -> Result<()> {
        let (Some(_), Some((row, column))) = (self.minus, self.zero) else { return Ok(()) };
        let wanted = "in a matrix of -1 and +1: three values make no binary code (sign(0) must \
                      be +1); read the values as real to do that";
        Err(bad(row, column, 0.0, wanted))
    }
}

fn bad(row: usize, column: usize, value: impl fmt::Display, wanted: &str) -> Error {
    Error::BadValue { row, column, value: value.to_string(), wanted: wanted.into() }
}

/// Reads one file of labels.
pub fn labels(path: &Path) -> Result<Labels> {
    let mut all = labels_together(&[path])?;
    all.pop().ok_or_else(|| Error::Empty { what: "no file of labels".into() })
}

/// Reads files of labels over one vocabulary: a `.npy` matrix of 0/1 (n x labels), a `.npy`
/// vector of class numbers, a crosshash code file that carries labels, or a text file with
/// the label numbers of one item a line. Files that only list numbers are as wide as the
/// largest number in any of them, or as the matrix beside them.
pub fn labels_together(paths: &[&Path]) -> Result<Vec<Labels>> {
    let sources = paths
        .iter()
        .map(|path| LabelSource::open(path).map_err(|err| err.at(path)))
        .collect::<Result<Vec<_>>>()?;
    let fixed = sources.iter().filter_map(LabelSource::classes).max();
    let listed = sources.iter().filter_map(LabelSource::listed).max();
    let classes = fixed.or(listed).unwrap_or(0);
    let finish = |(source, path): (LabelSource, &&Path)| match source {
        LabelSource::Fixed(labels) => Ok(labels),
        LabelSource::Listed { rows, .. } => check_size(rows.len(), classes)
            .and_then(|()| Labels::from_indices(classes, rows))
            .map_err(|err| err.at(path)),
    };
    sources.into_iter().zip(paths).map(finish).collect()
}

/// Rejects lists of label numbers that would expand into an implausibly large matrix of bits: a
/// short file with one large number must not allocate gigabytes.
fn check_size(rows: usize, classes: usize) -> Result<()> {
    const ROW: usize = 4096; // bytes of label bits per item, accepted for any number of items
    let declared = rows.saturating_mul(classes.div_ceil(64)).saturating_mul(8);
    let limit = rows.saturating_mul(ROW).saturating_add(64 << 20);
    if declared > limit {
        return Err(Error::content(format!(
            "{rows} items with label numbers up to {} need {declared} bytes, but the limit is \
             {limit}; check the largest label number, or use a matrix of 0 and 1",
            classes.saturating_sub(1)
        )));
    }
    Ok(())
}

enum LabelSource {
    Fixed(Labels),
    Listed { rows: Vec<Vec<u32>>, classes: usize },
}

impl LabelSource {
    fn open(path: &Path) -> Result<LabelSource> {
        if starts_with(path, format::MAGIC)? {
            let labels = CodeFile::read(path)?.labels;
            return labels.map(LabelSource::Fixed).ok_or_else(|| {
                Error::content("this code file carries no labels; give them in a file")
            });
        }
        if !starts_with(path, npy::MAGIC)? {
            return listed_text(path);
        }
        let npy = Npy::open(path)?;
        match *npy.shape() {
            [_] => listed_npy(npy),
            [_, columns] => dense_npy(npy, columns),
            _ => Err(Error::content(format!(
                "an array of {} dimensions ({}); labels are a matrix n x labels of 0 and 1",
                npy.shape().len(),
                dims(npy.shape())
            ))),
        }
    }

    fn classes(&self) -> Option<usize> {
        match self {
            LabelSource::Fixed(labels) => Some(labels.classes()),
            LabelSource::Listed { .. } => None,
        }
    }

    fn listed(&self) -> Option<usize> {
        match self {
            LabelSource::Fixed(_) => None,
            LabelSource::Listed { classes, .. } => Some(*classes),
        }
    }
}

/// A matrix of 0 and 1.
fn dense_npy(npy: Npy, columns: usize) -> Result<LabelSource> {
    let rows = npy.shape()[0];
    if columns == 0 {
        return Err(Error::content("a label matrix without columns"));
    }
    let stride = columns.div_ceil(64);
    let mut words = vec![0_u64; rows * stride];
    npy.each(|row, column, value| {
        if value == 1.0 {
            words[row * stride + column / 64] |= 1 << (column % 64);
        } else if value != 0.0 {
            return Err(bad(row, column, value, "is neither 0 nor 1"));
        }
        Ok(())
    })?;
    Labels::from_words(columns, rows, words).map(LabelSource::Fixed)
}

/// A vector of class numbers, one an item.
fn listed_npy(npy: Npy) -> Result<LabelSource> {
    if !matches!(npy.kind(), Kind::Int(_) | Kind::Uint(_)) {
        return Err(Error::content(format!(
            "a vector of {}; labels are a matrix n x labels of 0 and 1, or a vector of whole \
             class numbers",
            npy.kind().name()
        )));
    }
    let mut rows = Vec::with_capacity(npy.shape()[0]);
    npy.each(|row, _, value| {
        if !(0.0..f64::from(MAX_LABEL)).contains(&value) {
            let wanted = format!("is not a class number (0 to {})", MAX_LABEL - 1);
            return Err(bad(row, 0, value, &wanted));
        }
        #[expect(clippy::cast_possible_truncation, reason = "checked above")]
        #[expect(clippy::cast_sign_loss, reason = "checked above")]
        rows.push(vec![value as u32]);
        Ok(())
    })?;
    Ok(LabelSource::listing(rows))
}

/// Label numbers stay below this; beyond it they are slips of the pen.
const MAX_LABEL: u32 = 1 << 20;

/// A line an item, label numbers separated by blanks, tabs, commas or semicolons.
fn listed_text(path: &Path) -> Result<LabelSource> {
    let mut rows = Vec::new();
    for (number, line) in BufReader::new(fs_err::File::open(path)?).lines().enumerate() {
        let at = number + 1;
        let line = line.map_err(|err| match err.kind() {
            std::io::ErrorKind::InvalidData => Error::content(format!(
                "line {at} is not text; labels are .npy or text with label numbers a line"
            )),
            _ => Error::Io(err),
        })?;
        let fields =
            line.split([' ', '\t', ',', ';', '\r']).filter(|field| !field.is_empty());
        let row =
            fields.map(|field| label_number(field, at)).collect::<Result<Vec<_>>>()?;
        let mut sorted = row.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::content(format!(
                "line {at}: label {} stands twice; {NOT_A_MATRIX}",
                twice[0]
            )));
        }
        rows.push(row);
    }
    // two columns of 0 and 1 repeat nothing, and are a matrix all the same
    if !rows.is_empty() && rows.iter().all(|row| matches!(row[..], [0, 1] | [1, 0])) {
        return Err(Error::content(format!("every line holds 0 and 1; {NOT_A_MATRIX}")));
    }
    Ok(LabelSource::listing(rows))
}

const NOT_A_MATRIX: &str = "a line lists the numbers of an item's labels; a matrix of 0 and 1 \
                            is handed in as .npy";

fn label_number(field: &str, line: usize) -> Result<u32> {
    field.parse().ok().filter(|&label| label < MAX_LABEL).ok_or_else(|| {
        let short: String = field.chars().take(40).collect();
        Error::content(format!(
            "line {line}: {short:?} is no label number (0 to {}); a line lists the label \
             numbers of one item",
            MAX_LABEL - 1
        ))
    })
}

impl LabelSource {
    fn listing(rows: Vec<Vec<u32>>) -> LabelSource {
        let largest = rows.iter().flatten().max();
        let classes = largest.map_or(0, |&label| label as usize + 1);
        LabelSource::Listed { rows, classes }
    }
}

/// Whether a file begins with these bytes.
fn starts_with(path: &Path, magic: &[u8]) -> Result<bool> {
    let mut start = Vec::new();
    fs_err::File::open(path)?.take(magic.len() as u64).read_to_end(&mut start)?;
    Ok(start == magic)
}
