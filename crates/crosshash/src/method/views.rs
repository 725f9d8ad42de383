//! Second moments of two views of the same items, and correlated directions.
//!
//! ```text
//! C_ab = 1/n sum_i w_i (x_i - mean_a)(y_i - mean_b)^T
//! maximise  sum_ab w_a^T A_ab w_b   subject to   sum_a w_a^T B_a w_a = 1
//! ```
//!
//! The second is a generalised eigenproblem with block-diagonal B (Kettenring 1971 for A_ab =
//! C_ab); with Cholesky factors B_a = L_a L_a^T it is the symmetric one of L_a^-1 A_ab L_b^-T.
//! Sparse rows are not expanded: the cost of a moment depends on the non-zero values.

use rayon::prelude::*;

use super::ModalityData;
use crate::Result;
use crate::algebra::{Cholesky, Matrix, largest};
use crate::data::Sparse;
use crate::gemm::{Factor, accumulate};
use crate::tower::{Batch, Pixels};

/// Dense rows that are converted to double precision at a time.
const BLOCK: usize = 1024;

/// The rows of some items.
pub(super) struct View {
    width: usize,
    rows: Batch,
}

impl View {
    /// Chosen items of a modality.
    pub(super) fn of(items: &ModalityData, chosen: &[usize]) -> Result<View> {
        Ok(View { width: items.preparation.width(), rows: items.rows.batch(chosen)? })
    }

    /// Rows given as values.
    pub(super) fn new(width: usize, rows: Batch) -> View {
        View { width, rows }
    }

    pub(super) fn len(&self) -> usize {
        match &self.rows {
            Batch::Dense(values) | Batch::Pixels(Pixels { values, .. }) => {
                values.len() / self.width
            }
            Batch::Sparse(rows) => rows.len(),
        }
    }

    /// Number of columns with a non-zero value.
    pub(super) fn used(&self) -> usize {
        self.variance().iter().filter(|variance| **variance > 0.0).count()
    }

    /// `sum_i w_i x_i`, with weights 1 if none are given.
    pub(super) fn sum(&self, weights: Option<&[f64]>) -> Vec<f64> {
        let mut sum = vec![0.0; self.width];
        for i in 0..self.len() {
            let weight = weights.map_or(1.0, |w| w[i]);
            self.each(i, |j, x| sum[j] += weight * x);
        }
        sum
    }

    /// The mean row.
    pub(super) fn mean(&self) -> Vec<f64> {
        let n = self.len() as f64;
        self.sum(None).into_iter().map(|x| x / n).collect()
    }

    /// The variance of every column.
    pub(super) fn variance(&self) -> Vec<f64> {
        let (n, mean) = (self.len() as f64, self.mean());
        let mut squares = vec![0.0; self.width];
        for i in 0..self.len() {
            self.each(i, |j, x| squares[j] += x * x);
        }
        squares.iter().zip(&mean).map(|(s, m)| s / n - m * m).collect()
    }

    /// Every row times its factor.
    pub(super) fn scaled(mut self, factors: &[f64]) -> View {
        #[expect(clippy::cast_possible_truncation, reason = "rows are single precision")]
        let scaled = |x: f32, k: usize| (f64::from(x) * factors[k]) as f32;
        self.rows = match self.rows {
            Batch::Dense(mut values) | Batch::Pixels(Pixels { mut values, .. }) => {
                for (k, row) in values.chunks_exact_mut(self.width).enumerate() {
                    row.iter_mut().for_each(|x| *x = scaled(*x, k));
                }
                Batch::Dense(values)
            }
            Batch::Sparse(rows) => Batch::Sparse(rows.mapped(scaled)),
        };
        self
    }

    /// The non-zero values of one row.
    fn each(&self, i: usize, mut take: impl FnMut(usize, f64)) {
        match &self.rows {
            Batch::Dense(values) | Batch::Pixels(Pixels { values, .. }) => {
                let row = &values[i * self.width..][..self.width];
                row.iter().enumerate().for_each(|(j, &x)| take(j, f64::from(x)));
            }
            Batch::Sparse(rows) => {
                let (columns, values) = rows.row(i);
                let cells = columns.iter().zip(values);
                cells.for_each(|(&j, &x)| take(j as usize, f64::from(x)));
            }
        }
    }

    fn add_to(&self, i: usize, scale: f64, out: &mut [f64]) {
        self.each(i, |j, x| out[j] += scale * x);
    }
}

/// `sum_i w_i x_i y_i^T`.
pub(super) fn moment(a: &View, b: &View, weights: Option<&[f64]>) -> Matrix {
    assert_eq!(a.len(), b.len(), "views of the same items");
    match (&a.rows, &b.rows) {
        (Batch::Sparse(rows), _) => by_column(rows, b, weights),
        (_, Batch::Sparse(rows)) => by_column(rows, a, weights).transpose(),
        (
            Batch::Dense(x) | Batch::Pixels(Pixels { values: x, .. }),
            Batch::Dense(y) | Batch::Pixels(Pixels { values: y, .. }),
        ) => {
            let mut out = Matrix::zeros(a.width, b.width);
            let blocks = x.chunks(BLOCK * a.width).zip(y.chunks(BLOCK * b.width));
            for (k, (x, y)) in blocks.enumerate() {
                let x: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
                let mut y: Vec<f64> = y.iter().map(|&y| f64::from(y)).collect();
                if let Some(weights) = weights {
                    let rows = y.chunks_exact_mut(b.width).zip(&weights[k * BLOCK..]);
                    rows.for_each(|(row, w)| row.iter_mut().for_each(|y| *y *= w));
                }
                let x = Factor::whole(&x, a.width).transposed();
                let y = Factor::whole(&y, b.width);
                accumulate(&mut out.values, 1.0, x, y, true);
            }
            out
        }
    }
}

/// A moment with sparse rows: for every column the items that have it.
fn by_column(rows: &Sparse, other: &View, weights: Option<&[f64]>) -> Matrix {
    let mut users: Vec<Vec<(usize, f64)>> = vec![Vec::new(); rows.width()];
    for i in 0..rows.len() {
        let (columns, values) = rows.row(i);
        let weight = weights.map_or(1.0, |w| w[i]);
        let cells = columns.iter().zip(values);
        cells.for_each(|(&j, &x)| users[j as usize].push((i, weight * f64::from(x))));
    }
    let mut out = Matrix::zeros(rows.width(), other.width);
    let lines = out.values.par_chunks_mut(other.width).zip(&users);
    lines.for_each(|(line, by)| by.iter().for_each(|&(i, x)| other.add_to(i, x, line)));
    out
}

/// `1/n sum_i w_i (x_i - mean_a)(y_i - mean_b)^T`.
pub(super) fn covariance(a: &View, b: &View, weights: Option<&[f64]>) -> Matrix {
    let n = a.len() as f64;
    let total = weights.map_or(n, |w| w.iter().sum());
    let mut out = moment(a, b, weights);
    let (mean_a, mean_b) = (a.mean(), b.mean());
    let (sum_a, sum_b) = (a.sum(weights), b.sum(weights));
    for i in 0..a.width {
        let row = out.row_mut(i);
        for j in 0..b.width {
            row[j] +=
                total * mean_a[i] * mean_b[j] - mean_a[i] * sum_b[j] - sum_a[i] * mean_b[j];
            row[j] /= n;
        }
    }
    out
}

/// Adds `share` of the mean variance to the diagonal.
pub(super) fn ridged(mut covariance: Matrix, share: f64) -> Matrix {
    let n = covariance.rows();
    let ridge = share * covariance.trace() / n.max(1) as f64;
    (0..n).for_each(|i| covariance.row_mut(i)[i] += ridge.max(f64::MIN_POSITIVE));
    covariance
}

/// The best directions of every view, as columns, and their objective values.
pub(super) struct Directions {
    pub(super) weights: Vec<Matrix>,
    pub(super) values: Vec<f64>,
}

/// Solves the generalised problem; `a` returns the blocks A_ab with a <= b, `b` the B_a.
pub(super) fn directions(
    a: impl Fn(usize, usize) -> Matrix,
    b: Vec<Matrix>,
    count: usize,
) -> Result<Directions> {
    let widths: Vec<usize> = b.iter().map(Matrix::rows).collect();
    let starts: Vec<usize> = widths
        .iter()
        .scan(0, |at, width| {
            let start = *at;
            *at += width;
            Some(start)
        })
        .collect();
    let total = widths.iter().sum();
    let factors: Vec<Cholesky> = b.into_iter().map(Cholesky::new).collect::<Result<_>>()?;
    let mut whole = Matrix::zeros(total, total);
    for i in 0..factors.len() {
        for j in i..factors.len() {
            let left = factors[i].forward(&a(i, j));
            let block = factors[j].forward(&left.transpose()); // its transpose
            whole.add_block(starts[j], starts[i], &block, 1.0);
            if i != j {
                whole.add_block(starts[i], starts[j], &block.transpose(), 1.0);
            }
        }
    }
    let found = largest(&whole, count);
    let part = |(k, factor): (usize, &Cholesky)| {
        factor.backward(&unit(found.vectors.rows_of(starts[k]..starts[k] + widths[k])))
    };
    let weights = factors.iter().enumerate().map(part).collect();
    Ok(Directions { weights, values: found.values })
}

/// Normalises columns: directions have variance 1 in each view, so that a projection mixes all views
/// equally.
fn unit(mut columns: Matrix) -> Matrix {
    let mut squares = vec![0.0; columns.columns];
    for i in 0..columns.rows() {
        squares.iter_mut().zip(columns.row(i)).for_each(|(sum, x)| *sum += x * x);
    }
    for i in 0..columns.rows() {
        let row = columns.row_mut(i).iter_mut().zip(&squares);
        row.for_each(|(x, square)| *x /= square.sqrt().max(f64::MIN_POSITIVE));
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_sums_dense_or_sparse() {
        let number = |k: usize| {
            ((k * 7 % 5) as f32 - 2.0) * if k.is_multiple_of(3) { 0.0 } else { 1.0 }
        };
        let (n, p, q) = (11, 4, 3);
        let x: Vec<f32> = (0..n * p).map(number).collect();
        let y: Vec<f32> = (0..n * q).map(|k| number(k + 2)).collect();
        let sparse = |values: &[f32], width: usize| {
            let mut rows = Sparse::new(width);
            for row in values.chunks(width) {
                let mut cells: Vec<(u32, f32)> = (0..).zip(row.iter().copied()).collect();
                rows.push(&mut cells).unwrap();
            }
            Batch::Sparse(rows)
        };
        let weights: Vec<f64> = (0..n).map(|i| 1.0 + (i % 3) as f64).collect();
        let forms = |values: &[f32], width: usize| {
            [Batch::Dense(values.to_vec()), sparse(values, width)]
                .map(|rows| View::new(width, rows))
        };
        for a in forms(&x, p) {
            for b in forms(&y, q) {
                for w in [None, Some(&weights[..])] {
                    let found = covariance(&a, &b, w);
                    let (ma, mb) = (a.mean(), b.mean());
                    for i in 0..p {
                        for j in 0..q {
                            let term = |k: usize| {
                                w.map_or(1.0, |w| w[k])
                                    * (f64::from(x[k * p + i]) - ma[i])
                                    * (f64::from(y[k * q + j]) - mb[j])
                            };
                            let wanted = (0..n).map(term).sum::<f64>() / n as f64;
                            assert!((found.at(i, j) - wanted).abs() < 1e-12);
                        }
                    }
                }
            }
        }
    }
}
