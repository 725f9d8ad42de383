//! FAISS `IndexBinaryFlat` files, as `faiss.write_index_binary` writes them (faiss 1.15,
//! `impl/index_write.cpp`, and the bytes it made): all numbers little-endian,
//!
//! ```text
//! "IBxF", bits i32, bytes a code i32, codes i64, trained u8, metric i32, size u64, packed codes
//! ```
//!
//! FAISS wants a multiple of 8 bits: shorter codes are padded with zeros, which changes no
//! distance, and read back with their length given.

use std::io::Write as _;
use std::path::Path;

use crate::format::CodeFile;
use crate::read::CodeOptions;
use crate::write::atomically;
use crate::{BitOrder, Bits, Codes, Error, Result};

const MAGIC: &[u8; 4] = b"IBxF";
const HEAD: usize = 33;

pub(super) fn write(path: &Path, file: &CodeFile) -> Result<()> {
    let codes = &file.codes;
    let bytes = codes.bits().bytes();
    let small = |value: usize| i32::try_from(value).unwrap_or(0).to_le_bytes();
    atomically(path, |out| {
        out.write_all(MAGIC)?;
        out.write_all(&small(bytes * 8))?;
        out.write_all(&small(bytes))?;
        out.write_all(&(codes.len() as u64).to_le_bytes())?;
        out.write_all(&[1])?; // trained
        out.write_all(&small(1))?; // METRIC_L2, which FAISS writes for Hamming too
        out.write_all(&((codes.len() * bytes) as u64).to_le_bytes())?;
        Ok(out.write_all(&codes.to_packed(BitOrder::Lsb))?)
    })
}

pub(super) fn read(path: &Path, options: &CodeOptions) -> Result<CodeFile> {
    let bytes = fs_err::read(path)?;
    parse(&bytes, options).map(CodeFile::new).map_err(|err| err.at(path))
}

fn parse(bytes: &[u8], options: &CodeOptions) -> Result<Codes> {
    let Some(head) = bytes.first_chunk::<HEAD>().filter(|head| head.starts_with(MAGIC))
    else {
        return Err(Error::content(
            "not a FAISS IndexBinaryFlat: expected a file of faiss.write_index_binary that begins \
             with IBxF",
        ));
    };
    let number = |at: usize, size: usize| {
        let digits = head[at..at + size].iter().rev();
        digits.fold(0_u64, |number, &byte| number << 8 | u64::from(byte))
    };
    let (dimension, code_bytes) = (number(4, 4), number(8, 4));
    let (count, size) = (number(12, 8), number(25, 8));
    let bits = match options.bits {
        Some(bits) => bits,
        None => Bits::new(usize::try_from(dimension).unwrap_or(usize::MAX))?,
    };
    let packed = &bytes[HEAD..];
    let fits = code_bytes == bits.bytes() as u64
        && count.checked_mul(code_bytes) == Some(size)
        && size == packed.len() as u64;
    if !fits {
        return Err(Error::content(format!(
            "the header promises {count} codes of {dimension} bits in {code_bytes} bytes each; \
             the file holds {} bytes of codes, read as {bits} bits",
            packed.len()
        )));
    }
    Codes::from_packed(bits, packed, BitOrder::Lsb)
}
