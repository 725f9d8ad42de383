//! Cholesky decomposition of symmetric positive definite matrices, and solving with it.
//!
//! ```text
//! A = L L^T,   L_ij = (A_ij - sum_{k<j} L_ik L_jk) / L_jj,   L_jj = sqrt(A_jj - sum_{k<j} L_jk^2)
//! ```
//!
//! Column by column, with all rows below the diagonal in parallel.

use rayon::prelude::*;

use super::Matrix;
use crate::{Error, Result};

/// Minimum rows per thread.
const ROWS: usize = 64;

/// The lower factor.
pub(crate) struct Cholesky(Matrix);

impl Cholesky {
    /// Factorises a symmetric matrix; fails if it is not positive definite.
    pub(crate) fn new(mut a: Matrix) -> Result<Cholesky> {
        let n = a.rows();
        assert_eq!(n, a.columns, "square matrix");
        for j in 0..n {
            let (above, below) = a.values.split_at_mut((j + 1) * n);
            let own = &mut above[j * n..];
            let square = own[j] - dot(&own[..j], &own[..j]);
            if !(square > 0.0 && square.is_finite()) {
                return Err(Error::content(
                    "the covariance matrix is singular: features are linearly dependent, or there are \
                     fewer items than features; increase the ridge (cca.ridge)",
                ));
            }
            own[j] = square.sqrt();
            own[j + 1..].fill(0.0);
            let own = &own[..=j];
            below.par_chunks_mut(n).with_min_len(ROWS).for_each(|row| {
                row[j] = (row[j] - dot(&row[..j], &own[..j])) / own[j];
            });
        }
        Ok(Cholesky(a))
    }

    /// `L^-1 B`.
    pub(crate) fn forward(&self, b: &Matrix) -> Matrix {
        self.by_column(b, |l, x| {
            for i in 0..x.len() {
                x[i] = (x[i] - dot(&l.row(i)[..i], &x[..i])) / l.at(i, i);
            }
        })
    }

    /// `L^-T B`.
    pub(crate) fn backward(&self, b: &Matrix) -> Matrix {
        self.by_column(b, |l, x| {
            for i in (0..x.len()).rev() {
                x[i] /= l.at(i, i);
                let (before, at) = x.split_at_mut(i);
                before.iter_mut().zip(l.row(i)).for_each(|(x, l)| *x -= l * at[0]);
            }
        })
    }

    /// Solves for each column of the right-hand side.
    fn by_column(&self, b: &Matrix, solve: impl Fn(&Matrix, &mut [f64]) + Sync) -> Matrix {
        assert_eq!(b.rows(), self.0.rows(), "wrong number of rows");
        let mut columns = b.transpose();
        columns.values.par_chunks_mut(b.rows()).for_each(|column| solve(&self.0, column));
        columns.transpose()
    }
}

/// The inner product, in four lanes.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let (heads, tails) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest: f64 =
        heads.remainder().iter().zip(tails.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in heads.zip(tails) {
        for k in 0..4 {
            sums[k] += x[k] * y[k];
        }
    }
    rest + sums.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forward_and_backward_solve_a_system() {
        let half = Matrix::from_fn(9, 7, |i, j| ((i * 7 + j * 3) as f64).sin());
        let mut a = half.transpose_matmul(&half);
        (0..7).for_each(|i| a.values[i * 8] += 0.1);
        let l = Cholesky::new(a.clone()).unwrap();
        let b = Matrix::from_fn(7, 2, |i, j| (i as f64 - j as f64).cos());
        let back = a.matmul(&l.backward(&l.forward(&b)));
        for (found, wanted) in back.values.iter().zip(&b.values) {
            assert!((found - wanted).abs() < 1e-12);
        }
        let err = Cholesky::new(Matrix::zeros(2, 2)).err().unwrap().to_string();
        assert!(err.contains("increase the ridge"), "{err}");
    }
}
