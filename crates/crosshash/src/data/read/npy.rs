//! NumPy `.npy`: mapped, whatever its size.
//!
//! The head is read by `npyz` behind the guard of the codes' reader; the numbers stay where they are. Axes after the first are
//! flattened: an array of n pictures is n rows.

use std::path::Path;

use crosshash_codes::npy::read_header;
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar};

use crate::data::bytes::Bytes;
use crate::data::dense::Layout;
use crate::data::limits::Budget;
use crate::data::{Dense, Features, Number};
use crate::{Error, Result};

pub(super) fn array(
    path: &Path,
    key: Option<&str>,
    vectors: bool,
    _: &Budget,
) -> Result<Features> {
    if let Some(key) = key {
        return Err(Error::content(format!(
            "a .npy file holds one array; drop key = {key:?} or name an .npz"
        )));
    }
    let bytes = Bytes::open(path)?;
    let layout = layout(&bytes, 0, vectors)?;
    Ok(Features::Dense(Dense::raw(bytes, layout, path)?))
}

/// Where the numbers of the array that starts at `start` are, as rows.
pub(super) fn layout(bytes: &[u8], start: usize, vectors: bool) -> Result<Layout> {
    let head = Head::read(bytes, start)?;
    let (&rows, rest) = head.shape.split_first().ok_or_else(|| {
        Error::content("a single number is no set of features; wanted an array of rows")
    })?;
    if rest.is_empty() && !vectors {
        return Err(Error::content(format!(
            "an array of one axis ({rows} numbers) is no set of features; wanted rows x columns"
        )));
    }
    let width = rest.iter().try_fold(1_usize, |n, &axis| n.checked_mul(axis));
    let width =
        width.ok_or_else(|| Error::content("the head names a size that cannot be"))?;
    if head.by_columns && rest.len() > 1 {
        return Err(Error::content(
            "Fortran order with more than two axes is not read; save it in C order",
        ));
    }
    let Head { offset, number, by_columns, .. } = head;
    Ok(Layout { rows, width, offset, number, by_columns })
}

/// The head of an array, checked for what is read here.
pub(super) struct Head {
    pub(super) shape: Vec<usize>,
    pub(super) number: Number,
    pub(super) by_columns: bool,
    pub(super) offset: usize,
}

impl Head {
    pub(super) fn read(bytes: &[u8], start: usize) -> Result<Head> {
        let all = bytes.get(start..).unwrap_or_default();
        let text = read_header(&mut &*all)?;
        let head = NpyHeader::from_reader(&text[..])
            .map_err(|err| Error::content(format!("not a NumPy array: {err}")))?;
        let axis = |&axis: &u64| usize::try_from(axis);
        let shape = head.shape().iter().map(axis).collect::<Result<_, _>>();
        Ok(Head {
            shape: shape
                .map_err(|_| Error::content("the head names a size that cannot be"))?,
            number: number(&head.dtype())?,
            by_columns: head.order() == Order::Fortran,
            offset: start + text.len(),
        })
    }

    /// The numbers of a flat array.
    pub(super) fn numbers<'a>(
        &self,
        bytes: &'a [u8],
    ) -> Result<impl Iterator<Item = f64> + 'a> {
        let (size, number) = (self.number.size(), self.number);
        let count = self.shape.iter().try_fold(size, |n, &axis| n.checked_mul(axis));
        let end = count.and_then(|n| n.checked_add(self.offset));
        let data = end.and_then(|end| bytes.get(self.offset..end));
        let data = data.ok_or_else(|| Error::content("the array is cut short"))?;
        Ok(data.chunks_exact(size).map(move |bytes| number.wide(bytes)))
    }
}

fn number(dtype: &DType) -> Result<Number> {
    let refused = || {
        Error::content(format!(
            "numbers of type {} are not read; save the array as little-endian f16, f32, f64 or u8",
            dtype.descr()
        ))
    };
    let DType::Plain(plain) = dtype else { return Err(refused()) };
    if plain.endianness() == Endianness::Big {
        return Err(refused());
    }
    Ok(match (plain.type_char(), plain.size_field()) {
        (TypeChar::Float, 2) => Number::F16,
        (TypeChar::Float, 4) => Number::F32,
        (TypeChar::Float, 8) => Number::F64,
        (TypeChar::Uint | TypeChar::Bool, 1) => Number::U8,
        (TypeChar::Int, 1) => Number::I8,
        (TypeChar::Uint, 2) => Number::U16,
        (TypeChar::Int, 2) => Number::I16,
        (TypeChar::Uint, 4) => Number::U32,
        (TypeChar::Int, 4) => Number::I32,
        (TypeChar::Uint, 8) => Number::U64,
        (TypeChar::Int, 8) => Number::I64,
        _ => return Err(refused()),
    })
}
