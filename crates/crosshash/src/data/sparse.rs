//! Sparse features in compressed sparse rows (CSR): words, tags.

use crate::{Error, Place, Result};

/// A sparse matrix; the columns of a row are ascending.
#[derive(Debug, Clone, PartialEq)]
pub struct Sparse {
    width: usize,
    starts: Vec<usize>, // invariant: rows + 1 values, ascending, from 0 to columns.len()
    columns: Vec<u32>,  // invariant: below `width`, strictly ascending within a row
    values: Vec<f32>,   // invariant: finite, as many as columns
}

impl Sparse {
    /// An empty matrix.
    pub fn new(width: usize) -> Sparse {
        Sparse { width, starts: vec![0], columns: Vec::new(), values: Vec::new() }
    }

    /// From the three arrays of a CSR matrix; columns need not be sorted within a row.
    pub fn from_csr(
        width: usize,
        starts: &[usize],
        columns: &[u32],
        values: &[f32],
    ) -> Result<Sparse> {
        if width == 0 {
            return Err(Error::content("features need at least one column"));
        }
        let ends = starts.first() == Some(&0) && starts.last() == Some(&columns.len());
        if !ends || !starts.is_sorted() || columns.len() != values.len() {
            return Err(Error::content(format!(
                "not a CSR matrix: indptr must ascend from 0 to the {} indices, and there \
                 must be as many values ({})",
                columns.len(),
                values.len()
            )));
        }
        let mut sparse = Sparse::new(width);
        let mut row = Vec::new();
        for pair in starts.windows(2) {
            let cells = pair[0]..pair[1];
            row.clear();
            row.extend(cells.map(|at| (columns[at], values[at])));
            sparse.push(&mut row)?;
        }
        Ok(sparse)
    }

    /// Appends a row of (column, value) cells in any order; zeros are not stored.
    pub fn push(&mut self, cells: &mut [(u32, f32)]) -> Result<()> {
        let row = self.len();
        let place = Place::Row(row);
        cells.sort_unstable_by_key(|cell| cell.0);
        let kept = self.columns.len();
        let mut last = None;
        for &(column, value) in cells.iter() {
            let fault = if column as usize >= self.width {
                Some(format!("out of range, there are {} columns", self.width))
            } else if last == Some(column) {
                Some("occurs twice in the row".to_owned())
            } else if !value.is_finite() {
                Some(format!("{value} is not a valid feature: every value must be finite"))
            } else {
                None
            };
            if let Some(what) = fault {
                self.columns.truncate(kept);
                self.values.truncate(kept);
                return Err(Error::cell(place, column.to_string(), what));
            }
            last = Some(column);
            if value != 0.0 {
                self.columns.push(column);
                self.values.push(value);
            }
        }
        self.starts.push(self.columns.len());
        Ok(())
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of stored cells.
    pub fn cells(&self) -> usize {
        self.columns.len()
    }

    /// Columns and values of a row.
    pub fn row(&self, item: usize) -> (&[u32], &[f32]) {
        let cells = self.starts[item]..self.starts[item + 1];
        (&self.columns[cells.clone()], &self.values[cells])
    }

    /// Reads one row into `out`, as a dense row.
    pub fn read(&self, item: usize, out: &mut [f32]) {
        assert_eq!(out.len(), self.width, "the buffer has the wrong size");
        out.fill(0.0);
        let (columns, values) = self.row(item);
        columns.iter().zip(values).for_each(|(&c, &v)| out[c as usize] = v);
    }

    /// The rows with these numbers, in this order.
    #[must_use]
    pub fn select(&self, items: &[usize]) -> Sparse {
        let mut chosen = Sparse::new(self.width);
        for &item in items {
            let (columns, values) = self.row(item);
            chosen.columns.extend(columns);
            chosen.values.extend(values);
            chosen.starts.push(chosen.columns.len());
        }
        chosen
    }

    /// Applies `value` to every stored value and its row; the results must be finite and not 0.
    pub(crate) fn mapped(mut self, value: impl Fn(f32, usize) -> f32) -> Sparse {
        for row in 0..self.len() {
            let cells = self.starts[row]..self.starts[row + 1];
            self.values[cells].iter_mut().for_each(|x| *x = value(*x, row));
        }
        self
    }

    /// The rows of `self` followed by those of `other`.
    pub fn append(mut self, other: &Sparse) -> Result<Sparse> {
        if self.width != other.width {
            return Err(Error::content(format!(
                "matrices of {} and {} columns cannot be concatenated into one modality",
                self.width, other.width
            )));
        }
        let base = self.columns.len();
        self.starts.extend(other.starts[1..].iter().map(|start| base + start));
        self.columns.extend(&other.columns);
        self.values.extend(&other.values);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_without_zeros() {
        let m = Sparse::from_csr(5, &[0, 3, 3], &[4, 0, 2], &[1.0, 2.0, 0.0]).unwrap();
        assert_eq!(m.row(0), (&[0, 4][..], &[2.0, 1.0][..]));
        assert_eq!(m.row(1), (&[][..], &[][..]));
        assert_eq!(m.select(&[1, 0, 0]).cells(), 4);
        let both = m.clone().append(&m).unwrap();
        assert_eq!((both.len(), both.row(2)), (4, m.row(0)));
    }

    #[test]
    fn bad_cells_are_rejected() {
        let fault = |columns: &[u32], values: &[f32]| {
            Sparse::from_csr(3, &[0, 0, 2], columns, values).unwrap_err().to_string()
        };
        assert_eq!(
            fault(&[0, 3], &[1.0; 2]),
            "row 1, column 3: out of range, there are 3 columns"
        );
        assert_eq!(fault(&[1, 1], &[1.0; 2]), "row 1, column 1: occurs twice in the row");
        assert_eq!(
            fault(&[0, 1], &[1.0, f32::NAN]),
            "row 1, column 1: NaN is not a valid feature: every value must be finite"
        );
        let err = Sparse::from_csr(3, &[0, 2, 1], &[0], &[1.0]).unwrap_err();
        assert!(err.to_string().starts_with("not a CSR matrix"), "{err}");
    }
}
