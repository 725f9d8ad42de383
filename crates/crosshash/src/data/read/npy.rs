//! NumPy `.npy`, memory-mapped.
//!
//! The header is parsed by crosshash-codes. Axes after the first are flattened: an array of n pictures
//! has n rows.

use std::path::Path;

use crosshash_codes::npy::{Header, Kind};

use crate::data::bytes::Bytes;
use crate::data::dense::Layout;
use crate::data::limits::Budget;
use crate::data::{Dense, Features, ValueType};
use crate::{Error, Result};

pub(super) fn array(
    path: &Path,
    key: Option<&str>,
    vectors: bool,
    _: &Budget,
) -> Result<Features> {
    if let Some(key) = key {
        return Err(Error::content(format!(
            "a .npy file contains one array; remove key = {key:?} or use an .npz file"
        )));
    }
    let bytes = Bytes::open(path)?;
    let layout = layout(&bytes, 0, vectors)?;
    Ok(Features::Dense(Dense::raw(bytes, layout, path)?))
}

/// The layout of the array that starts at `start`.
pub(super) fn layout(bytes: &[u8], start: usize, vectors: bool) -> Result<Layout> {
    let head = Head::read(bytes, start)?;
    let (&rows, rest) = head.shape.split_first().ok_or_else(|| {
        Error::content("features must be an array of rows, not a single number")
    })?;
    if rest.is_empty() && !vectors {
        return Err(Error::content(format!(
            "features must be rows x columns, not an array of one axis ({rows} values)"
        )));
    }
    let width = rest.iter().try_fold(1_usize, |n, &axis| n.checked_mul(axis));
    let width =
        width.ok_or_else(|| Error::content("the size in the header is too large"))?;
    if head.by_columns && rest.len() > 1 {
        return Err(Error::content(
            "Fortran order with more than two axes is not supported; save the array in C order",
        ));
    }
    let Head { offset, number, by_columns, .. } = head;
    Ok(Layout { rows, width, offset, number, by_columns })
}

/// The checked header of an array.
pub(super) struct Head {
    pub(super) shape: Vec<usize>,
    pub(super) number: ValueType,
    pub(super) by_columns: bool,
    pub(super) offset: usize,
}

impl Head {
    pub(super) fn read(bytes: &[u8], start: usize) -> Result<Head> {
        let all = bytes.get(start..).unwrap_or_default();
        let header = Header::read(&mut &*all)?;
        Ok(Head {
            number: number(&header)?,
            by_columns: header.fortran_order,
            offset: start + header.length,
            shape: header.shape,
        })
    }

    /// The values of a one-dimensional array.
    pub(super) fn numbers<'a>(
        &self,
        bytes: &'a [u8],
    ) -> Result<impl Iterator<Item = f64> + 'a> {
        let (size, number) = (self.number.size(), self.number);
        let count = self.shape.iter().try_fold(size, |n, &axis| n.checked_mul(axis));
        let end = count.and_then(|n| n.checked_add(self.offset));
        let data = end.and_then(|end| bytes.get(self.offset..end));
        let data = data.ok_or_else(|| Error::content("the array is truncated"))?;
        Ok(data.chunks_exact(size).map(move |bytes| number.wide(bytes)))
    }
}

fn number(header: &Header) -> Result<ValueType> {
    let kind =
        header.number().filter(|number| !number.big_endian).map(|number| number.kind);
    Ok(match kind {
        Some(Kind::Float(2)) => ValueType::F16,
        Some(Kind::Float(4)) => ValueType::F32,
        Some(Kind::Float(_)) => ValueType::F64,
        Some(Kind::Uint(1) | Kind::Bool) => ValueType::U8,
        Some(Kind::Int(1)) => ValueType::I8,
        Some(Kind::Uint(2)) => ValueType::U16,
        Some(Kind::Int(2)) => ValueType::I16,
        Some(Kind::Uint(4)) => ValueType::U32,
        Some(Kind::Int(4)) => ValueType::I32,
        Some(Kind::Uint(_)) => ValueType::U64,
        Some(Kind::Int(_)) => ValueType::I64,
        None => {
            return Err(Error::content(format!(
                "values of type {} are not supported; save the array as little-endian f16, f32, \
                 f64 or u8",
                header.descr
            )));
        }
    })
}
