//! MATLAB version 7.3: HDF5 with reversed axes, read by `hdf5-pure`.
//!
//! Values are read in blocks and spooled, so the file may be larger than memory. The declared dimensions
//! of a data set are independent of the stored data: a few bytes can declare terabytes of the fill
//! value, so the declared size is first checked against the size of the file. A sparse matrix is a group
//! of `data`, `ir` and `jc` with the attribute `MATLAB_sparse`.

use std::path::Path;

use hdf5_pure::{AttrValue, DType, Dataset, File, Group};

use super::mat;
use crate::data::limits::Budget;
use crate::data::spool::Spool;
use crate::data::{Dense, Features, ValueType};
use crate::{Error, Result};

/// The size of the file, and the limits on its expanded size.
type Limits<'a> = (u64, &'a Budget);

/// Values read at a time.
const WINDOW: usize = 4 << 20;

pub(super) fn array(
    path: &Path,
    file_size: u64,
    key: Option<&str>,
    budget: &Budget,
) -> Result<Features> {
    let file = File::open_streaming(path).map_err(fault)?;
    let root = file.root();
    let groups = root.groups().map_err(fault)?;
    let names = variables(&root)?;
    let name = mat::choose(&names, String::as_str, key)?;
    let limits = (file_size, budget);
    if groups.contains(name) {
        sparse(&root.group(name).map_err(fault)?, name, limits)
    } else {
        dense(path, &root.dataset(name).map_err(fault)?, name, limits)
    }
}

pub(super) fn names(path: &Path) -> Result<Vec<String>> {
    let file = File::open_streaming(path).map_err(fault)?;
    variables(&file.root())
}

fn variables(root: &Group) -> Result<Vec<String>> {
    let mut names = root.datasets().map_err(fault)?;
    let groups = root.groups().map_err(fault)?;
    names.extend(groups.into_iter().filter(|name| !name.starts_with('#')));
    names.sort_unstable();
    Ok(names)
}

/// Checks the declared size of a data set, stored or fill values; returns it in bytes.
fn declared(set: &Dataset, name: &str, (file_size, budget): Limits<'_>) -> Result<u64> {
    let element = set.element_size().map_err(fault)?;
    let bytes = set.shape().map_err(fault)?.into_iter().try_fold(element, u64::checked_mul);
    budget.check(&format!("variable {name}"), bytes, file_size)
}

fn dense(path: &Path, set: &Dataset, name: &str, limits: Limits<'_>) -> Result<Features> {
    let size = declared(set, name, limits)?;
    let shape: Vec<usize> = set
        .shape()
        .map_err(fault)?
        .into_iter()
        .map(|axis| {
            usize::try_from(axis).map_err(|_| Error::content("an axis is too long"))
        })
        .collect::<Result<_>>()?;
    let number = match set.dtype().map_err(fault)? {
        DType::U8 => ValueType::U8,
        DType::F32 | DType::F64 => ValueType::F32,
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => ValueType::F32,
        DType::U16 | DType::U32 | DType::U64 => ValueType::F32,
        other => {
            return Err(Error::content(format!(
                "variable {name} contains {other}, not numbers"
            )));
        }
    };
    let dims: Vec<usize> = shape.iter().rev().copied().collect();
    let layout = mat::layout(&dims, 0, number)?;
    // An empty data set may declare 2^64 empty rows.
    let outer = if size == 0 { 0 } else { shape[0] };
    let inner = shape[1..].iter().fold(1, |n: usize, &axis| n.saturating_mul(axis)).max(1);
    let step = (WINDOW / inner).max(1);
    let mut spool = Spool::with_size(limits.1, &format!("variable {name}"), size)?;
    for start in (0..outer).step_by(step) {
        let (from, count) = (start as u64, step.min(outer - start) as u64);
        if number == ValueType::U8 {
            spool.push(&set.read_u8_rows(from, count).map_err(fault)?)?;
        } else {
            let rows = set.read_f32_rows(from, count).map_err(fault)?;
            rows.iter().try_for_each(|value| spool.push(&value.to_le_bytes()))?;
        }
    }
    Ok(Features::Dense(Dense::raw(spool.finish()?, layout, path)?))
}

fn sparse(group: &Group, name: &str, limits: Limits<'_>) -> Result<Features> {
    let attributes = group.attrs().map_err(fault)?;
    let n_rows = match attributes.get("MATLAB_sparse") {
        Some(AttrValue::U64(n)) => usize::try_from(*n).ok(),
        Some(AttrValue::U32(n)) => usize::try_from(*n).ok(),
        Some(AttrValue::I64(n)) => usize::try_from(*n).ok(),
        _ => None,
    };
    let n_rows = n_rows.ok_or_else(|| {
        Error::content(format!("variable {name} is a struct or object, not numbers"))
    })?;
    let part = |part: &str| {
        let set = group.dataset(part).map_err(fault)?;
        declared(&set, &format!("{name}/{part}"), limits)?;
        Ok::<Dataset, Error>(set)
    };
    let whole = |name: &str| -> Result<Vec<usize>> {
        let numbers = part(name)?.read_u64().map_err(fault)?;
        let each = numbers.into_iter().map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        Ok(each.collect())
    };
    let starts = whole("jc")?;
    let n_columns = starts.len().saturating_sub(1);
    // An empty matrix has neither values nor row numbers.
    let (rows, values) = match starts.last() {
        None | Some(0) => (Vec::new(), Vec::new()),
        Some(_) => (whole("ir")?, part("data")?.read_f64().map_err(fault)?),
    };
    mat::from_csc([n_rows, n_columns], &rows, &starts, &values, limits)
}

fn fault(err: hdf5_pure::Error) -> Error {
    Error::content(format!("cannot be read as MATLAB 7.3 (HDF5): {err}"))
}
