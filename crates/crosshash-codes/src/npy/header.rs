//! The header of a `.npy` file: magic, version, length, and a Python dictionary of three entries.
//!
//! ```text
//! \x93NUMPY 1 0 LEN {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }  \n
//! ```
//!
//! Versions 1 to 3 differ in the size of LEN and in the encoding of field names, which plain
//! arrays do not have. Dimensions may carry the `L` of Python 2.

use std::io::{self, Read, Write};

use super::Kind;
use crate::{Error, Result};

/// How every `.npy` file begins.
pub const MAGIC: &[u8] = b"\x93NUMPY";

/// The longest header text accepted; NumPy's own are below 200 bytes.
const MAX_HEADER: usize = 1 << 16;
/// The deepest nesting of brackets in a header; a plain array has two levels.
const MAX_DEPTH: usize = 8;
/// NumPy aligns the data to this number of bytes.
const ALIGN: usize = 64;

/// A header that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The element type as the file has it, e.g. `'<f4'` with its quotes.
    pub descr: String,
    /// Whether the values are stored column by column.
    pub fortran_order: bool,
    /// The dimensions.
    pub shape: Vec<usize>,
    /// Bytes from the start of the file to the data.
    pub length: usize,
}

/// A number type and its byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DType {
    /// The type.
    pub kind: Kind,
    /// Whether the most significant byte comes first.
    pub big_endian: bool,
}

impl Header {
    /// Reads a header from the start of a file; rejects headers that would take more memory or time
    /// than a header needs.
    pub fn read(source: &mut impl Read) -> Result<Header> {
        let not_npy = |_| Error::content("not a .npy file: it ends before its header does");
        let mut head = [0; 10];
        source.read_exact(&mut head).map_err(not_npy)?;
        if !head.starts_with(MAGIC) {
            return Err(Error::content(
                "not a .npy file: it does not begin with \\x93NUMPY",
            ));
        }
        let mut start = head.len();
        let mut length = usize::from(u16::from_le_bytes([head[8], head[9]]));
        if head[6] > 1 {
            let mut high = [0; 2];
            source.read_exact(&mut high).map_err(not_npy)?;
            start += high.len();
            length |= usize::from(u16::from_le_bytes(high)) << 16;
        }
        if length > MAX_HEADER {
            return Err(Error::content(format!(
                "a .npy header of {length} bytes is no header"
            )));
        }
        let mut text = vec![0; length];
        source.read_exact(&mut text).map_err(not_npy)?;
        guard(&text)?;
        let text = std::str::from_utf8(&text).map_err(|_| damaged("it is not UTF-8"))?;
        let mut header = parse(text)?;
        header.length = start + length;
        Ok(header)
    }

    /// The element type, if it is a number that is read here.
    pub fn number(&self) -> Option<DType> {
        let plain = self.descr.trim_matches(['\'', '"']);
        let (order, rest) = plain.split_at_checked(1)?;
        let big_endian = match order {
            "<" | "|" => false,
            ">" => true,
            "=" => cfg!(target_endian = "big"),
            _ => return None,
        };
        let (kind, size) = rest.split_at_checked(1)?;
        let kind = match (kind, size.parse().ok()?) {
            ("b", 1_u8) => Kind::Bool,
            ("i", size @ (1 | 2 | 4 | 8)) => Kind::Int(size),
            ("u", size @ (1 | 2 | 4 | 8)) => Kind::Uint(size),
            ("f", size @ (2 | 4 | 8)) => Kind::Float(size),
            _ => return None,
        };
        Some(DType { kind, big_endian })
    }

    /// Writes the header of an array stored row by row, padded so that the data are aligned.
    pub fn write(out: &mut impl Write, dtype: &str, shape: &[usize]) -> io::Result<()> {
        let shape = match shape {
            [one] => format!("({one},)"),
            many => {
                let many: Vec<String> = many.iter().map(usize::to_string).collect();
                format!("({})", many.join(", "))
            }
        };
        let text =
            format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}");
        let fixed = MAGIC.len() + 4; // the version, and the length
        let length = (fixed + text.len() + 1).next_multiple_of(ALIGN) - fixed;
        let short = u16::try_from(length)
            .map_err(|_| io::Error::other("an array of too many dimensions"))?;
        out.write_all(MAGIC)?;
        out.write_all(&[1, 0])?;
        out.write_all(&short.to_le_bytes())?;
        out.write_all(format!("{text:<width$}\n", width = length - 1).as_bytes())
    }
}

fn damaged(what: &str) -> Error {
    Error::content(format!("not a readable .npy header: {what}"))
}

/// Rejects deeply nested header texts, and shapes larger than any file.
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

/// The three entries of the dictionary, in any order.
fn parse(text: &str) -> Result<Header> {
    let inside = text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let mut rest = inside.ok_or_else(|| damaged("it is no dictionary"))?.trim_start();
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    while !rest.is_empty() {
        let (key, after) = value(rest)?;
        let after = after.trim_start().strip_prefix(':');
        let after = after.ok_or_else(|| damaged("an entry has no value"))?.trim_start();
        let (given, after) = value(after)?;
        match key.trim_matches(['\'', '"']) {
            "descr" => descr = Some(given.to_owned()),
            "fortran_order" => {
                fortran_order = Some(match given {
                    "True" => true,
                    "False" => false,
                    _ => return Err(damaged("fortran_order is neither True nor False")),
                });
            }
            "shape" => shape = Some(dimensions(given)?),
            _ => return Err(damaged(&format!("an entry {key} is not known"))),
        }
        let after = after.trim_start();
        rest = match after.strip_prefix(',') {
            Some(after) => after.trim_start(),
            None if after.is_empty() => after,
            None => return Err(damaged("a comma is missing")),
        };
    }
    let missing = |name: &str| damaged(&format!("{name} is missing"));
    Ok(Header {
        descr: descr.ok_or_else(|| missing("descr"))?,
        fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
        shape: shape.ok_or_else(|| missing("shape"))?,
        length: 0,
    })
}

/// The first value of a text (a quoted string, something in brackets, or a word), and what
/// follows it.
fn value(text: &str) -> Result<(&str, &str)> {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        match (quote, c) {
            (Some(open), _) if c == open => {
                quote = None;
                if depth == 0 {
                    return Ok(text.split_at(end));
                }
            }
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => {
                depth = depth.checked_sub(1).ok_or_else(|| damaged("a stray bracket"))?;
                if depth == 0 {
                    return Ok(text.split_at(end));
                }
            }
            (None, ',' | ':') if depth == 0 => {
                let (word, rest) = text.split_at(at);
                return Ok((word.trim_end(), rest));
            }
            _ => {}
        }
    }
    if depth > 0 || quote.is_some() {
        return Err(damaged("a bracket or a quote is not closed"));
    }
    Ok((text.trim_end(), ""))
}

fn dimensions(text: &str) -> Result<Vec<usize>> {
    let inside = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let inside = inside.ok_or_else(|| damaged("the shape is no tuple"))?.trim();
    let inside = inside.strip_suffix(',').unwrap_or(inside);
    if inside.is_empty() {
        return Ok(Vec::new());
    }
    let dimension = |text: &str| {
        let text = text.trim();
        let digits = text.strip_suffix('L').unwrap_or(text);
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|_| plain)
    };
    inside
        .split(',')
        .map(|text| {
            dimension(text).ok_or_else(|| damaged("the shape is no tuple of sizes"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numpy_headers_are_read() {
        for (text, descr, fortran_order, shape) in [
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }",
                "'<f4'",
                false,
                &[3, 4][..],
            ),
            (
                "{'descr': '>i8', 'fortran_order': True, 'shape': (7,), }  \n",
                "'>i8'",
                true,
                &[7],
            ),
            (
                "{'shape': (), 'descr': \"|b1\", 'fortran_order': False}",
                "\"|b1\"",
                false,
                &[],
            ),
            (
                "{'descr': '|u1', 'fortran_order': False, 'shape': (2L, 3L), }",
                "'|u1'",
                false,
                &[2, 3],
            ),
            (
                "{'descr': [('a, :)', '<f4'), ('b', '<i2', (2,))], 'fortran_order': False, 'shape': (1,), }",
                "[('a, :)', '<f4'), ('b', '<i2', (2,))]",
                false,
                &[1],
            ),
        ] {
            let header = parse(text).unwrap();
            assert_eq!(header.descr, descr);
            assert_eq!((header.fortran_order, &header.shape[..]), (fortran_order, shape));
        }
    }

    #[test]
    fn damaged_texts_are_rejected() {
        for text in [
            "",
            "{",
            "{}",
            "{'descr': '<f4'}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': 3}",
            "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}",
            "{'descr', 'fortran_order': False, 'shape': (1,)}",
        ] {
            let err = parse(text).unwrap_err().to_string();
            assert!(err.starts_with("not a readable .npy header: "), "{text}: {err}");
        }
    }

    #[test]
    fn a_written_header_is_read_back_and_aligned() {
        for shape in [&[][..], &[5], &[5, 6], &[1, 2, 3]] {
            let mut bytes = Vec::new();
            Header::write(&mut bytes, "<f8", shape).unwrap();
            let header = Header::read(&mut &bytes[..]).unwrap();
            assert_eq!((&header.shape[..], header.length), (shape, bytes.len()));
            assert_eq!(header.length % ALIGN, 0);
            let number = header.number().unwrap();
            assert_eq!(number, DType { kind: Kind::Float(8), big_endian: false });
        }
    }
}
