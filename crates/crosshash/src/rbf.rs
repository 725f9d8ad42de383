//! RBF kernel features: similarity of a row to each of a set of centres.
//!
//! ```text
//! k_j(x) = exp( -|x - z_j|^2 / s )
//! ```
//!
//! s is the mean squared distance between two training rows. Distances are computed with one matrix
//! product: `|x|^2 + |z|^2 - 2 <x, z>`.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::Sparse;
use crate::gemm::{Factor, accumulate};
use crate::tower::{Batch, Pixels};

/// Centres and scale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    width: usize,
    centres: Vec<f32>, // by rows of `width`
    scale: f32,
}

impl Kernel {
    /// Creates a kernel from centres (rows of `width`) and s.
    pub(crate) fn new(width: usize, centres: Vec<f32>, scale: f32) -> Kernel {
        Kernel { width, centres, scale: scale.max(f32::MIN_POSITIVE) }
    }

    /// Number of centres.
    pub(crate) fn len(&self) -> usize {
        self.centres.len() / self.width
    }

    /// Kernel features of some rows, n x [`Kernel::len`].
    pub(crate) fn apply(&self, rows: &Batch) -> Vec<f32> {
        let mut out = distances(rows, &self.centres, self.width);
        out.par_iter_mut().for_each(|d| *d = (-*d / self.scale).exp());
        out
    }

    /// Kernel features of the centres.
    pub(crate) fn own(&self) -> Vec<f32> {
        self.apply(&Batch::Dense(self.centres.clone()))
    }
}

/// Squared distances between rows and centres, rows x centres.
pub(crate) fn distances(rows: &Batch, centres: &[f32], width: usize) -> Vec<f32> {
    let count = centres.len() / width;
    let squares = |row: &[f32]| row.iter().map(|x| x * x).sum::<f32>();
    let own: Vec<f32> = centres.chunks_exact(width).map(squares).collect();
    match rows {
        Batch::Dense(values) | Batch::Pixels(Pixels { values, .. }) => {
            let mut out = vec![0.0_f32; values.len() / width * count];
            let (x, z) = (Factor::whole(values, width), Factor::whole(centres, width));
            accumulate(&mut out, 0.0, x, z.transposed(), true);
            let lines = out.par_chunks_mut(count).zip(values.par_chunks(width));
            lines.for_each(|(line, row)| finish(line, squares(row), &own));
            out
        }
        Batch::Sparse(rows) => {
            // Transpose the centres for contiguous access.
            let mut transposed = vec![0.0_f32; centres.len()];
            for (k, centre) in centres.chunks_exact(width).enumerate() {
                centre.iter().enumerate().for_each(|(j, &x)| transposed[j * count + k] = x);
            }
            let mut out = vec![0.0_f32; rows.len() * count];
            out.par_chunks_mut(count).enumerate().for_each(|(i, line)| {
                let (columns, values) = rows.row(i);
                for (&j, &x) in columns.iter().zip(values) {
                    let column = &transposed[j as usize * count..][..count];
                    line.iter_mut().zip(column).for_each(|(sum, z)| *sum += x * z);
                }
                finish(line, squares(values), &own);
            });
            out
        }
    }
}

/// Converts inner products to squared distances.
fn finish(line: &mut [f32], square: f32, own: &[f32]) {
    let cells = line.iter_mut().zip(own);
    cells.for_each(|(d, own)| *d = (square + own - 2.0 * *d).max(0.0));
}

/// Converts rows to dense.
pub(crate) fn dense(rows: Batch, width: usize) -> Vec<f32> {
    let full = |rows: &Sparse| {
        let mut out = vec![0.0; rows.len() * width];
        out.chunks_exact_mut(width).enumerate().for_each(|(i, row)| rows.read(i, row));
        out
    };
    match rows {
        Batch::Dense(values) | Batch::Pixels(Pixels { values, .. }) => values,
        Batch::Sparse(rows) => full(&rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_and_sparse_rows_match_the_formula() {
        let rows = [1.0_f32, 0.0, 2.0, 0.0, 0.0, -1.0];
        let centres = [1.0_f32, 1.0, 1.0, 0.0, 0.0, -1.0, 0.5, 0.0, 0.0];
        let mut sparse = Sparse::new(3);
        sparse.push(&mut [(0, 1.0), (2, 2.0)]).unwrap();
        sparse.push(&mut [(2, -1.0)]).unwrap();
        let kernel = Kernel::new(3, centres.to_vec(), 2.0);
        for batch in [Batch::Dense(rows.to_vec()), Batch::Sparse(sparse)] {
            let found = kernel.apply(&batch);
            for i in 0..2 {
                for k in 0..3 {
                    let square: f32 = (0..3)
                        .map(|j| (rows[i * 3 + j] - centres[k * 3 + j]).powi(2))
                        .sum();
                    assert!((found[i * 3 + k] - (-square / 2.0).exp()).abs() < 1e-6);
                }
            }
        }
    }
}
