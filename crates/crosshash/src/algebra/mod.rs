//! Dense linear algebra in double precision for the closed-form methods: products, Cholesky
//! decomposition (`cholesky.rs`), eigenvectors of symmetric matrices (`eigen.rs`).
//!
//! Implemented here because the methods need only four operations on matrices of a few thousand
//! rows, and a linear algebra crate would take longer to build than the rest of this crate.

mod cholesky;
mod eigen;
pub(crate) mod procrustes;

pub(crate) use cholesky::Cholesky;
pub(crate) use eigen::{eigen, largest};

use crate::gemm::{Factor, accumulate};

/// A row-major matrix.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Matrix {
    pub(crate) columns: usize,
    pub(crate) values: Vec<f64>,
}

impl Matrix {
    /// All zeros.
    pub(crate) fn zeros(rows: usize, columns: usize) -> Matrix {
        Matrix { columns, values: vec![0.0; rows * columns] }
    }

    /// Creates a matrix from a function of row and column.
    pub(crate) fn from_fn(
        rows: usize,
        columns: usize,
        mut cell: impl FnMut(usize, usize) -> f64,
    ) -> Matrix {
        let mut values = Vec::with_capacity(rows * columns);
        for i in 0..rows {
            values.extend((0..columns).map(|j| cell(i, j)));
        }
        Matrix { columns, values }
    }

    pub(crate) fn rows(&self) -> usize {
        self.values.len().checked_div(self.columns).unwrap_or(0)
    }

    pub(crate) fn row(&self, i: usize) -> &[f64] {
        &self.values[i * self.columns..][..self.columns]
    }

    pub(crate) fn row_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.values[i * self.columns..][..self.columns]
    }

    pub(crate) fn at(&self, i: usize, j: usize) -> f64 {
        self.values[i * self.columns + j]
    }

    /// The transpose.
    pub(crate) fn transpose(&self) -> Matrix {
        Matrix::from_fn(self.columns, self.rows(), |i, j| self.at(j, i))
    }

    /// `self other`.
    pub(crate) fn matmul(&self, other: &Matrix) -> Matrix {
        let mut out = Matrix::zeros(self.rows(), other.columns);
        accumulate(&mut out.values, 0.0, self.factor(), other.factor(), true);
        out
    }

    /// `self^T other`.
    pub(crate) fn transpose_matmul(&self, other: &Matrix) -> Matrix {
        let mut out = Matrix::zeros(self.columns, other.columns);
        accumulate(&mut out.values, 0.0, self.factor().transposed(), other.factor(), true);
        out
    }

    /// The first columns.
    pub(crate) fn first_columns(&self, count: usize) -> Matrix {
        Matrix::from_fn(self.rows(), count, |i, j| self.at(i, j))
    }

    /// A range of rows.
    pub(crate) fn rows_of(&self, range: std::ops::Range<usize>) -> Matrix {
        let values =
            self.values[range.start * self.columns..range.end * self.columns].to_vec();
        Matrix { columns: self.columns, values }
    }

    /// Adds `scale` times a matrix at row i and column j.
    pub(crate) fn add_block(&mut self, i: usize, j: usize, block: &Matrix, scale: f64) {
        for k in 0..block.rows() {
            let row = &mut self.row_mut(i + k)[j..][..block.columns];
            row.iter_mut().zip(block.row(k)).for_each(|(a, b)| *a += scale * b);
        }
    }

    /// The sum of the diagonal.
    pub(crate) fn trace(&self) -> f64 {
        (0..self.rows().min(self.columns)).map(|i| self.at(i, i)).sum()
    }

    fn factor(&self) -> Factor<'_, f64> {
        Factor::whole(&self.values, self.columns)
    }
}
