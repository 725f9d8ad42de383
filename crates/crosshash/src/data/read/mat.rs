//! MATLAB `.mat`: version 5 to 7 by `mat5.rs`, version 7.3 (HDF5) by `mat73.rs`.
//!
//! A matrix is items x features, as MATLAB shows it. An array of three or more axes has the
//! items last, as MATLAB stacks pictures (224 x 224 x 3 x n in DCMH's files): n rows.

use std::path::Path;

use super::{mat5, mat73};
use crate::data::bytes::Bytes;
use crate::data::dense::Layout;
use crate::data::limits::Budget;
use crate::data::{Features, Sparse, ValueType};
use crate::{Error, Result};

pub(super) fn array(
    path: &Path,
    key: Option<&str>,
    _vectors: bool,
    budget: &Budget,
) -> Result<Features> {
    let bytes = Bytes::open(path)?;
    if is_hdf5(&bytes) {
        mat73::array(path, bytes.len() as u64, key, budget)
    } else {
        mat5::array(path, &bytes, key, budget)
    }
}

pub(super) fn names(path: &Path) -> Result<Vec<String>> {
    let bytes = Bytes::open(path)?;
    if is_hdf5(&bytes) { mat73::names(path) } else { mat5::names(&bytes) }
}

fn is_hdf5(bytes: &[u8]) -> bool {
    // The signature is at the start or after a user block of 512, 1024, .. bytes.
    [0, 512, 1024, 2048]
        .iter()
        .any(|&at| bytes.get(at..at + 8) == Some(b"\x89HDF\r\n\x1a\n"))
}

/// The variable to read: the named one, or the only one.
pub(super) fn choose<'a, V>(
    variables: &'a [V],
    name: impl Fn(&V) -> &str,
    key: Option<&str>,
) -> Result<&'a V> {
    let names = || variables.iter().map(&name);
    match (key, variables) {
        (Some(key), _) => names()
            .position(|other| other == key)
            .map(|at| &variables[at])
            .ok_or_else(|| Error::unknown("variable", key, names())),
        (None, [only]) => Ok(only),
        (None, _) => {
            let names: Vec<&str> = names().collect();
            Err(Error::content(format!(
                "the file contains {} variables; select one with key = \"...\": {}",
                names.len(),
                names.join(", ")
            )))
        }
    }
}

/// The layout of a column-major array with the axes of MATLAB.
pub(super) fn layout(dims: &[usize], offset: usize, number: ValueType) -> Result<Layout> {
    let (rows, width, by_columns) = match dims {
        &[rows, width] => (rows, Some(width), true),
        [axes @ .., items] if axes.len() >= 2 => {
            (*items, axes.iter().try_fold(1_usize, |n, &axis| n.checked_mul(axis)), false)
        }
        _ => return Err(Error::content("an array needs two axes: items x features")),
    };
    let width =
        width.ok_or_else(|| Error::content("the size in the header is too large"))?;
    Ok(Layout { rows, width, offset, number, by_columns })
}

/// Converts a matrix in compressed columns to compressed rows.
pub(super) fn from_csc(
    [n_rows, n_columns]: [usize; 2],
    rows: &[usize],
    starts: &[usize],
    values: &[f64],
    (file_size, budget): (u64, &Budget),
) -> Result<Features> {
    // Rows and columns without cells need memory, too.
    let lines = (n_rows as u64).checked_add(n_columns as u64);
    let lines = lines.and_then(|lines| lines.checked_mul(size_of::<usize>() as u64));
    budget.check("the sparse matrix", lines, file_size)?;
    let whole = starts.len() == n_columns + 1
        && starts.first() == Some(&0)
        && starts.is_sorted()
        && starts.last().is_some_and(|&end| end <= rows.len().min(values.len()));
    if !whole || rows.iter().any(|&row| row >= n_rows) {
        return Err(Error::content(
            "the sparse matrix is inconsistent: the file is damaged",
        ));
    }
    if n_columns == 0 {
        return Err(Error::content("features need at least one column"));
    }
    // Counting sort: the cells of a row become adjacent, in the order of their columns.
    let n_cells = starts[n_columns];
    let mut ends = vec![0_usize; n_rows + 1];
    rows[..n_cells].iter().for_each(|&row| ends[row + 1] += 1);
    (0..n_rows).for_each(|row| ends[row + 1] += ends[row]);
    let row_starts = ends.clone();
    let mut next = ends;
    let mut columns = vec![0_u32; n_cells];
    let mut by_rows = vec![0.0_f32; n_cells];
    for column in 0..n_columns {
        let number = u32::try_from(column)
            .map_err(|_| Error::content("a sparse matrix may have at most 2^32 columns"))?;
        for at in starts[column]..starts[column + 1] {
            let to = next[rows[at]];
            next[rows[at]] += 1;
            columns[to] = number;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "features are single precision"
            )]
            let value = values[at] as f32;
            by_rows[to] = value;
        }
    }
    Sparse::from_csr(n_columns, &row_starts, &columns, &by_rows).map(Features::Sparse)
}
