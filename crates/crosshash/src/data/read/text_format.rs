//! Encoding and separator of a text table, recognised by its content.
//!
//! UTF-8 and UTF-16 are recognised by their byte order mark. A file without one is UTF-8 if all its bytes
//! are valid; otherwise it is Windows-1252, the encoding that spreadsheet programs write in western
//! Europe, unless most of its characters beyond ASCII are valid UTF-8: then it is damaged UTF-8. UTF-16
//! without a mark is recognised by its zero bytes.

use std::fmt;
use std::io::{BufReader, Cursor, Read};
use std::path::Path;

use crate::{Error, Result};

/// Separators that are recognised.
const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// Bytes of the beginning from which the separator is recognised.
const SAMPLE: usize = 1 << 16;
/// Records of the beginning from which the separator is recognised.
const RECORDS: usize = 50;

/// Encoding of a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
    Windows1252,
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Encoding::Utf8 => "UTF-8",
            Encoding::Utf16Le | Encoding::Utf16Be => "UTF-16",
            Encoding::Windows1252 => "Windows-1252",
        })
    }
}

/// How a text table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextFormat {
    pub(crate) encoding: Encoding,
    pub(crate) separator: u8,
    /// Whether cells may be quoted.
    pub(crate) quoting: bool,
}

impl fmt::Display for TextFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = match self.separator {
            b',' => "commas",
            b';' => "semicolons",
            b'\t' => "tabs",
            _ => "vertical bars",
        };
        write!(f, "{}, separated by {separator}", self.encoding)
    }
}

/// Recognises the format of a file whose usual separator is `usual`.
pub(crate) fn recognise(path: &Path, usual: u8) -> Result<TextFormat> {
    let encoding = encoding(path)?;
    let mut sample = Vec::new();
    decoded(path, encoding)?.take(SAMPLE as u64).read_to_end(&mut sample)?;
    let whole = sample.len() < SAMPLE;
    let separator = separator(&sample, usual, whole);
    // A TSV cell is not quoted; a quotation mark is an ordinary character.
    let quoting = usual != b'\t' || separator != b'\t';
    Ok(TextFormat { encoding, separator, quoting })
}

/// The text of a file as UTF-8.
pub(crate) fn decoded(path: &Path, encoding: Encoding) -> Result<Box<dyn Read>> {
    if encoding == Encoding::Utf8 {
        let file = fs_err::File::open(path)?;
        return Ok(Box::new(BufReader::with_capacity(1 << 20, file)));
    }
    let bytes = fs_err::read(path)?;
    let text: String = match encoding {
        Encoding::Windows1252 => bytes.iter().map(|&byte| windows_1252(byte)).collect(),
        Encoding::Utf16Le => utf16(&bytes, u16::from_le_bytes)?,
        Encoding::Utf16Be => utf16(&bytes, u16::from_be_bytes)?,
        Encoding::Utf8 => String::new(),
    };
    Ok(Box::new(Cursor::new(text.into_bytes())))
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String> {
    if bytes.len() % 2 == 1 {
        return Err(Error::content("UTF-16 with an odd number of bytes: it is truncated"));
    }
    let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    let text: Result<String, _> = char::decode_utf16(units).collect();
    let text = text.map_err(|err| Error::content(format!("invalid UTF-16: {err}")))?;
    Ok(text.trim_start_matches('\u{feff}').to_owned())
}

/// The encoding of a file; reads all of it unless it has a byte order mark.
fn encoding(path: &Path) -> Result<Encoding> {
    let mut file = fs_err::File::open(path)?;
    let mut block = vec![0; 1 << 20];
    let (mut kept, mut first) = (0, true);
    let (mut valid, mut invalid) = (0_u64, 0_u64);
    loop {
        let read = file.read(&mut block[kept..])?;
        let bytes = &block[..kept + read];
        if first {
            first = false;
            match bytes {
                [0xff, 0xfe, ..] => return Ok(Encoding::Utf16Le),
                [0xfe, 0xff, ..] => return Ok(Encoding::Utf16Be),
                [0xef, 0xbb, 0xbf, ..] => return Ok(Encoding::Utf8),
                _ => {}
            }
            let sample = &bytes[..bytes.len().min(1024)];
            let zeros = |odd: usize| {
                sample.iter().skip(odd).step_by(2).filter(|b| **b == 0).count()
            };
            let many = sample.len() / 5;
            match (zeros(0), zeros(1)) {
                (0, odd) if odd > many => return Ok(Encoding::Utf16Le),
                (even, 0) if even > many => return Ok(Encoding::Utf16Be),
                _ => {}
            }
        }
        let at_end = read == 0;
        let used = count(bytes, at_end, &mut valid, &mut invalid);
        kept = bytes.len() - used;
        block.copy_within(used..used + kept, 0);
        if at_end {
            break;
        }
    }
    let damaged = valid > invalid;
    Ok(if invalid == 0 || damaged { Encoding::Utf8 } else { Encoding::Windows1252 })
}

/// Counts valid multi-byte characters and invalid bytes; gives the bytes that were looked at, without a
/// character that the block cuts.
fn count(bytes: &[u8], at_end: bool, valid: &mut u64, invalid: &mut u64) -> usize {
    let several = |text: &str| text.chars().filter(|c| !c.is_ascii()).count() as u64;
    let mut used = 0;
    while used < bytes.len() {
        match std::str::from_utf8(&bytes[used..]) {
            Ok(text) => {
                *valid += several(text);
                return bytes.len();
            }
            Err(err) => {
                let upto = used + err.valid_up_to();
                *valid += std::str::from_utf8(&bytes[used..upto]).map_or(0, several);
                match err.error_len() {
                    Some(length) => used = upto + length,
                    None if at_end => used = bytes.len(),
                    None => return upto,
                }
                *invalid += 1;
            }
        }
    }
    used
}

/// The separator with which the first records have the same number of cells, as many as possible.
fn separator(sample: &[u8], usual: u8, whole: bool) -> u8 {
    let judge = |separator: u8| {
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(separator)
            .quoting(usual != b'\t' || separator != b'\t')
            .flexible(true)
            .has_headers(false)
            .from_reader(sample);
        let records = reader.byte_records().take(RECORDS).filter_map(|record| record.ok());
        let mut widths: Vec<usize> = records.map(|record| record.len()).collect();
        if !whole && widths.len() < RECORDS {
            widths.pop(); // the last record is cut
        }
        let width = widths.first().copied().unwrap_or(0);
        let even = width > 1 && widths.iter().all(|&other| other == width);
        (even, width, separator == usual)
    };
    let best = SEPARATORS.into_iter().max_by_key(|&separator| judge(separator));
    best.unwrap_or(usual)
}

/// A character of Windows-1252; bytes without one are control characters, as in browsers.
fn windows_1252(byte: u8) -> char {
    const HIGH: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}',
        'Ž', '\u{8f}', '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›',
        'œ', '\u{9d}', 'ž', 'Ÿ',
    ];
    match byte {
        0x80..=0x9f => HIGH[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(bytes: &[u8]) -> (TextFormat, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        fs_err::write(&path, bytes).unwrap();
        let format = recognise(&path, b',').unwrap();
        let mut text = String::new();
        decoded(&path, format.encoding).unwrap().read_to_string(&mut text).unwrap();
        (format, text)
    }

    #[test]
    fn encodings_are_recognised() {
        let text = "id;título\n1;jalapeño – «5 €»\n";
        let plain = |c: char| {
            u8::try_from(u32::from(c)).unwrap_or(match c {
                '€' => 0x80,
                '–' => 0x96,
                _ => panic!("{c}"),
            })
        };
        let units = |order: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(order);
        let marked = |mark: &[u8], rest: Vec<u8>| [mark, &rest].concat();
        for (bytes, encoding) in [
            (text.as_bytes().to_vec(), Encoding::Utf8),
            (marked(&[0xef, 0xbb, 0xbf], text.as_bytes().to_vec()), Encoding::Utf8),
            (text.chars().map(plain).collect(), Encoding::Windows1252),
            (units(u16::to_le_bytes).collect(), Encoding::Utf16Le),
            (marked(&[0xff, 0xfe], units(u16::to_le_bytes).collect()), Encoding::Utf16Le),
            (marked(&[0xfe, 0xff], units(u16::to_be_bytes).collect()), Encoding::Utf16Be),
        ] {
            let (format, read) = written(&bytes);
            assert_eq!((format.encoding, format.separator), (encoding, b';'));
            assert_eq!(read.trim_start_matches('\u{feff}'), text, "{encoding}");
        }
    }

    /// A character at the border of two blocks is not an invalid byte.
    #[test]
    fn characters_at_the_border_of_blocks_are_valid() {
        let mut bytes = vec![b'a'; (1 << 20) - 1];
        bytes.extend("é\n".repeat(10).bytes());
        assert_eq!(written(&bytes).0.encoding, Encoding::Utf8);
    }

    #[test]
    fn damaged_utf8_is_not_windows_1252() {
        let mut bytes = "näher größer\n".as_bytes().to_vec();
        bytes.extend([0xc3, b'\n']);
        assert_eq!(written(&bytes).0.encoding, Encoding::Utf8);
    }

    #[test]
    fn separators_are_recognised() {
        for (text, separator) in [
            ("a,b\n1,2\n", b','),
            ("a;b;c\n1,5;2,5;x\n", b';'),
            ("a\tb\n1;2\t3\n", b'\t'),
            ("id|text\n1|x, y; z\n", b'|'),
            ("id,text\n1,\"a; b; c\"\n2,\"d\"\n", b','),
            ("only\none\n", b','),
            ("", b','),
        ] {
            assert_eq!(written(text.as_bytes()).0.separator, separator, "{text}");
        }
    }
}
