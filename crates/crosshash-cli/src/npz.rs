//! Search results as a NumPy `.npz`: an uncompressed zip of `.npy` arrays. The crate `zip` knows
//! the container, `crosshash_codes::npy` the headers.

use std::io::{Seek, Write};
use std::path::Path;

use anyhow::Result;
use crosshash_codes::npy::Header;
use crosshash_codes::write::atomically;
use zip::write::{SimpleFileOptions, ZipWriter};

/// A matrix to write: name, NumPy type, and the bytes of its values by rows.
pub(crate) struct Array {
    pub(crate) name: &'static str,
    pub(crate) dtype: String,
    pub(crate) shape: (usize, usize),
    pub(crate) bytes: Vec<u8>,
}

impl Array {
    pub(crate) fn numbers<T: Copy, const N: usize>(
        name: &'static str,
        dtype: &str,
        shape: (usize, usize),
        values: &[T],
        bytes: impl Fn(T) -> [u8; N],
    ) -> Array {
        let bytes = values.iter().flat_map(|&value| bytes(value)).collect();
        Array { name, dtype: dtype.into(), shape, bytes }
    }

    /// Texts of fixed width, padded with zeros (NumPy type `<U`).
    pub(crate) fn texts(
        name: &'static str,
        shape: (usize, usize),
        texts: &[String],
    ) -> Array {
        let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
        let mut bytes = Vec::with_capacity(texts.len() * width * 4);
        for text in texts {
            let letters = text.chars().map(u32::from).chain(std::iter::repeat(0));
            letters.take(width).for_each(|letter| bytes.extend(letter.to_le_bytes()));
        }
        Array { name, dtype: format!("<U{width}"), shape, bytes }
    }
}

/// Writes the file atomically.
pub(crate) fn write(path: &Path, arrays: &[Array]) -> Result<()> {
    atomically(path, |out| Ok(fill(out, arrays)?))?;
    Ok(())
}

fn fill(out: &mut (impl Write + Seek), arrays: &[Array]) -> std::io::Result<()> {
    let mut zip = ZipWriter::new(out);
    let options = SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Stored)
        .large_file(true);
    for array in arrays {
        zip.start_file(format!("{}.npy", array.name), options)?;
        let (rows, columns) = array.shape;
        Header::write(&mut zip, &array.dtype, &[rows, columns])?;
        zip.write_all(&array.bytes)?;
    }
    zip.finish()?;
    Ok(())
}
