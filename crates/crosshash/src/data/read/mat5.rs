//! MATLAB version 5 to 7: numeric arrays and sparse matrices, plain or compressed.
//!
//! *MAT-File Format*, The MathWorks, chapter 1: a header of 128 bytes, then data elements with a tag
//! (type, length) and content; a matrix element has flags, dimensions, name and values. Not by a crate,
//! because the available ones panic on damaged files (matrw), do not support sparse matrices (matfile),
//! or reject a file because of one unsupported variable (mat5). An uncompressed matrix remains in the
//! mapped file; a compressed one is spooled.

use std::io::Read as _;
use std::ops::Range;
use std::path::Path;

use flate2::read::ZlibDecoder;

use super::mat;
use crate::data::bytes::Bytes;
use crate::data::limits::Budget;
use crate::data::spool::Spool;
use crate::data::{Dense, Features, ValueType};
use crate::{Error, Result};

const MATRIX: u32 = 14;
const COMPRESSED: u32 = 15;
const SPARSE_CLASS: u8 = 5;
/// Bytes of an inflated element that contain flags, dimensions and name.
const HEAD: u64 = 1 << 12;

pub(super) fn array(
    path: &Path,
    bytes: &Bytes,
    key: Option<&str>,
    budget: &Budget,
) -> Result<Features> {
    let file_size = bytes.len() as u64;
    let variables = variables(bytes)?;
    let chosen = mat::choose(&variables, |variable| &variable.head.name, key)?;
    let (bytes, content) = if chosen.compressed {
        let bytes = inflate(&bytes[chosen.content.clone()], &chosen.head.name, budget)?;
        let content = element(&bytes, 0)?.content;
        (bytes, content)
    } else {
        (bytes.clone(), chosen.content.clone())
    };
    let head = Head::read(&bytes[..content.end], content.start)?;
    if head.complex {
        return Err(Error::content(format!(
            "variable {} contains complex numbers; save its real part",
            head.name
        )));
    }
    match head.class {
        SPARSE_CLASS => sparse(&bytes[..content.end], &head, (file_size, budget)),
        6..=15 => dense(path, &bytes, content.end, &head),
        class => Err(Error::content(format!(
            "variable {} is of class {class} (cell, struct, text or object), not numbers",
            head.name
        ))),
    }
}

/// Decompresses an element, up to the size that its tag declares.
fn inflate(packed: &[u8], name: &str, budget: &Budget) -> Result<Bytes> {
    let mut inflated = ZlibDecoder::new(packed);
    let mut tag = [0; 8];
    inflated
        .read_exact(&mut tag)
        .map_err(|err| Error::content(format!("cannot be decompressed: {err}")))?;
    let length = u64::from(u32::from_le_bytes([tag[4], tag[5], tag[6], tag[7]]));
    let what = format!("variable {name}");
    let declared = budget.check(&what, Some(length), packed.len() as u64)?;
    let mut spool = Spool::with_size(budget, &what, declared)?;
    spool.push(&tag)?;
    spool.copy(inflated, declared)?;
    spool.finish()
}

pub(super) fn names(bytes: &[u8]) -> Result<Vec<String>> {
    Ok(variables(bytes)?.into_iter().map(|variable| variable.head.name).collect())
}

struct Variable {
    head: Head,
    content: Range<usize>,
    compressed: bool,
}

/// The header of a matrix element.
struct Head {
    class: u8,
    complex: bool,
    dims: Vec<usize>,
    name: String,
    numbers: usize, // offset of the values
}

impl Head {
    /// Reads the header of a matrix element whose content starts at `at`.
    fn read(bytes: &[u8], at: usize) -> Result<Head> {
        let flags = element(bytes, at)?;
        let dims = element(bytes, flags.next)?;
        let name = element(bytes, dims.next)?;
        let word = bytes[flags.content].get(..4).ok_or_else(cut_short)?;
        let dims = bytes[dims.content].chunks_exact(4).map(|axis| {
            let axis = i32::from_le_bytes([axis[0], axis[1], axis[2], axis[3]]);
            usize::try_from(axis).map_err(|_| damaged())
        });
        Ok(Head {
            complex: word[1] & 0x08 != 0,
            class: word[0],
            dims: dims.collect::<Result<_>>()?,
            name: String::from_utf8_lossy(&bytes[name.content]).into_owned(),
            numbers: name.next,
        })
    }
}

fn variables(bytes: &[u8]) -> Result<Vec<Variable>> {
    match bytes.get(124..128) {
        Some([_, _, b'I', b'M']) => {}
        Some([_, _, b'M', b'I']) => {
            return Err(Error::content(
                "big-endian MATLAB files are not supported; save the file again on a \
                 little-endian machine",
            ));
        }
        _ => return Err(Error::content("not a MATLAB file of version 5, 7 or 7.3")),
    }
    let mut variables = Vec::new();
    let mut at = 128;
    while at + 8 <= bytes.len() {
        let Element { kind, content, next } = element(bytes, at)?;
        at = next;
        let compressed = kind == COMPRESSED;
        let head = match kind {
            MATRIX => Head::read(&bytes[..content.end], content.start),
            COMPRESSED => {
                let mut start = Vec::new();
                // A truncated or damaged stream is detected when the whole variable is read.
                let inflated = ZlibDecoder::new(&bytes[content.clone()]);
                let _ = inflated.take(HEAD).read_to_end(&mut start);
                Head::read(&start, 8)
            }
            _ => continue,
        };
        // Function handles and objects have other headers and are skipped.
        if let Ok(head) = head
            && !head.name.is_empty()
        {
            variables.push(Variable { head, content, compressed });
        }
    }
    Ok(variables)
}

fn dense(path: &Path, bytes: &Bytes, end: usize, head: &Head) -> Result<Features> {
    let numbers = element(&bytes[..end], head.numbers)?;
    let number = number(numbers.kind)?;
    let layout = mat::layout(&head.dims, numbers.content.start, number)?;
    let expected = layout.rows.checked_mul(layout.width);
    let expected = expected.and_then(|n| n.checked_mul(number.size()));
    if expected != Some(numbers.content.len()) {
        return Err(damaged());
    }
    Ok(Features::Dense(Dense::raw(bytes.clone(), layout, path)?))
}

fn sparse(bytes: &[u8], head: &Head, limits: (u64, &Budget)) -> Result<Features> {
    let &[n_rows, n_columns] = head.dims.as_slice() else { return Err(damaged()) };
    let rows = element(bytes, head.numbers)?;
    let starts = element(bytes, rows.next)?;
    let values = element(bytes, starts.next)?;
    let numbers = |part: &Element| -> Result<Vec<f64>> {
        let number = number(part.kind)?;
        let each = bytes[part.content.clone()].chunks_exact(number.size());
        Ok(each.map(|bytes| number.wide(bytes)).collect())
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates"
    )]
    let whole = |part| -> Result<Vec<usize>> {
        Ok(numbers(part)?.into_iter().map(|n| n as usize).collect())
    };
    let (starts, values) = (whole(&starts)?, numbers(&values)?);
    let mut rows = whole(&rows)?;
    rows.truncate(starts.last().copied().unwrap_or(0)); // the file may reserve space beyond
    mat::from_csc([n_rows, n_columns], &rows, &starts, &values, limits)
}

struct Element {
    kind: u32,
    content: Range<usize>,
    next: usize,
}

fn element(bytes: &[u8], at: usize) -> Result<Element> {
    let word = |at: usize| {
        let word = bytes.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
    };
    let first = word(at).ok_or_else(cut_short)?;
    let (kind, start, length, next) = match first >> 16 {
        0 => {
            let length = word(at + 4).ok_or_else(cut_short)? as usize;
            let end = (at + 8).checked_add(length).ok_or_else(cut_short)?;
            let padded = if first == COMPRESSED { end } else { end.next_multiple_of(8) };
            (first, at + 8, length, padded)
        }
        length => (first & 0xffff, at + 4, length as usize, at + 8),
    };
    let content = start..start + length;
    if content.end > bytes.len() || content.end > next {
        return Err(cut_short());
    }
    Ok(Element { kind, content, next })
}

fn number(kind: u32) -> Result<ValueType> {
    Ok(match kind {
        1 => ValueType::I8,
        2 => ValueType::U8,
        3 => ValueType::I16,
        4 => ValueType::U16,
        5 => ValueType::I32,
        6 => ValueType::U32,
        7 => ValueType::F32,
        9 => ValueType::F64,
        12 => ValueType::I64,
        13 => ValueType::U64,
        _ => return Err(damaged()),
    })
}

fn cut_short() -> Error {
    Error::content("the MATLAB file is truncated")
}

fn damaged() -> Error {
    Error::content("the MATLAB file is damaged")
}
