//! Named arrays of an `.npz` file (a zip of `.npy` files).

use std::io::Read as _;
use std::path::Path;

use crosshash_codes::npy::{Header, Kind};
use zip::ZipArchive;

use super::Matrix;
use crate::{Error, Result};

/// The largest array in bytes.
const LARGEST: u64 = 256 << 20;

/// An open `.npz` file.
pub(super) struct Arrays {
    zip: ZipArchive<fs_err::File>,
}

impl Arrays {
    pub(super) fn open(path: &Path) -> Result<Arrays> {
        let zip = ZipArchive::new(fs_err::File::open(path)?);
        let zip = zip.map_err(|err| Error::content(format!("not an .npz file: {err}")))?;
        Ok(Arrays { zip })
    }

    /// The header and the data of an array.
    fn array(&mut self, name: &str) -> Result<(Header, Vec<u8>)> {
        let fault = |what: String| Error::content(format!("array {name}: {what}"));
        let entry = self.zip.by_name(&format!("{name}.npy"));
        let mut entry = entry.map_err(|err| fault(err.to_string()))?;
        if entry.size() > LARGEST {
            return Err(fault(format!("{} bytes are too many", entry.size())));
        }
        let header = Header::read(&mut entry).map_err(|err| fault(err.to_string()))?;
        let number = header.number();
        let bytes = number.map_or(0, |number| number.kind.bytes());
        let size = header.shape.iter().try_fold(bytes, |size, &dim| size.checked_mul(dim));
        let size = size.filter(|&size| size as u64 <= LARGEST);
        let size = size.ok_or_else(|| fault("it is too large".to_owned()))?;
        if number.is_none_or(|number| number.big_endian && bytes > 1) {
            return Err(fault(format!("dtype {} is not supported", header.descr)));
        }
        if header.fortran_order && header.shape.len() > 1 {
            return Err(fault("stored column by column; store it row by row".to_owned()));
        }
        let mut data = vec![0; size];
        entry.read_exact(&mut data).map_err(|err| fault(err.to_string()))?;
        Ok((header, data))
    }

    /// A matrix of bytes: rows and columns, and the values.
    pub(super) fn bytes(&mut self, name: &str) -> Result<((usize, usize), Vec<u8>)> {
        let (header, data) = self.array(name)?;
        match (&header.shape[..], header.number().map(|number| number.kind)) {
            (&[rows, columns], Some(Kind::Uint(1))) => Ok(((rows, columns), data)),
            _ => Err(Error::content(format!("array {name}: expected a matrix of uint8"))),
        }
    }

    /// Values in single precision, with the shape.
    fn floats(&mut self, name: &str) -> Result<(Vec<usize>, Vec<f32>)> {
        let (header, data) = self.array(name)?;
        let values: Vec<f32> = match header.number().map(|number| number.kind) {
            Some(Kind::Float(4)) => {
                let four = data.chunks_exact(4);
                four.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
            }
            #[expect(clippy::cast_possible_truncation, reason = "features are single")]
            Some(Kind::Float(8)) => data
                .chunks_exact(8)
                .map(|b| {
                    f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])
                        as f32
                })
                .collect(),
            _ => {
                return Err(Error::content(format!(
                    "array {name}: expected float32 or float64"
                )));
            }
        };
        if values.iter().any(|value| !value.is_finite()) {
            return Err(Error::content(format!("array {name} has a NaN or infinity")));
        }
        Ok((header.shape, values))
    }

    /// A vector, or a single number.
    pub(super) fn vector(&mut self, name: &str) -> Result<Vec<f32>> {
        let (shape, values) = self.floats(name)?;
        if shape.len() > 1 || values.is_empty() {
            return Err(Error::content(format!("array {name}: expected a vector")));
        }
        Ok(values)
    }

    /// A vector of this length.
    pub(super) fn sized(&mut self, name: &str, length: usize) -> Result<Vec<f32>> {
        let values = self.vector(name)?;
        if values.len() == length {
            return Ok(values);
        }
        Err(Error::content(format!(
            "array {name}: {} values, expected {length}",
            values.len()
        )))
    }

    /// A matrix of this shape.
    pub(super) fn matrix(
        &mut self,
        name: &str,
        rows: usize,
        columns: usize,
    ) -> Result<Matrix> {
        let (shape, values) = self.floats(name)?;
        if shape == [rows, columns] && !values.is_empty() {
            return Ok(Matrix { values, columns });
        }
        Err(Error::content(format!(
            "array {name}: shape {shape:?}, expected {rows} x {columns}"
        )))
    }

    /// Number of columns of a matrix.
    pub(super) fn columns(&mut self, name: &str) -> Result<usize> {
        match self.floats(name)?.0[..] {
            [_, columns] => Ok(columns),
            _ => Err(Error::content(format!("array {name}: expected a matrix"))),
        }
    }
}
