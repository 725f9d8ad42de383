//! The discrete step of DSH: codes bit by bit, and the basis of the label vectors.
//!
//! ```text
//! R    = r B_S W^T + lambda D^T Phi_I + gamma F_I
//! b_k <- sgn( R_k - (B_S B_S^T)_{k,not k} B_{I,not k} - lambda (D^T D)_{k,not k} B_{I,not k} )
//! D   <- (Phi_I B_I^T + Phi_S B_S^T)(B_I B_I^T + B_S B_S^T + eps I)^-1
//! ```
//!
//! Each update of a bit is the exact minimum over the bit of all items of a modality, so that the
//! objective cannot increase. W depends on label sets only: B_S W^T is computed for distinct label sets
//! from the sums of the codes of each, in O(U_I U_S r) for U distinct sets.

use std::collections::HashMap;

use crosshash_codes::Labels;
use rand_chacha::ChaCha8Rng;

use crate::Result;
use crate::algebra::{Cholesky, Matrix};
use crate::tower::normal;

/// Added to the diagonal of the inverted matrix.
const RIDGE: f64 = 1e-6;

/// Data and basis of the codes of two modalities.
pub(super) struct CodeLearner {
    sides: [Side; 2],
    similar: Matrix, // W of distinct label sets of both modalities
    vectors: Matrix, // of labels, by rows
    basis: Matrix,   // D, vector values x bits
    bits: usize,
    lambda: f64,
    gamma: f64,
}

/// Label sets of a modality.
struct Side {
    labels: Labels,
    sets: Vec<usize>, // the set of every item
    count: usize,
}

impl Side {
    fn new(labels: &Labels) -> (Side, Vec<usize>) {
        let (mut known, mut first) = (HashMap::new(), Vec::new());
        let mut sets = Vec::with_capacity(labels.len());
        for item in 0..labels.len() {
            let next = known.len();
            let set = *known.entry(labels.row(item).to_vec()).or_insert(next);
            if set == next {
                first.push(item);
            }
            sets.push(set);
        }
        let count = first.len();
        (Side { labels: labels.clone(), sets, count }, first)
    }

    /// Sums of the codes of the items of every set.
    fn sums(&self, codes: &[f32], bits: usize) -> Matrix {
        let mut sums = Matrix::zeros(self.count, bits);
        for (code, &set) in codes.chunks_exact(bits).zip(&self.sets) {
            let row = sums.row_mut(set).iter_mut().zip(code);
            row.for_each(|(sum, &x)| *sum += f64::from(x));
        }
        sums
    }
}

/// `B B^T`, bits x bits, of codes by rows.
fn gram(codes: &[f32], bits: usize) -> Matrix {
    let wide: Vec<f64> = codes.iter().map(|&x| f64::from(x)).collect();
    let codes = Matrix { columns: bits, values: wide };
    codes.transpose_matmul(&codes)
}

impl CodeLearner {
    pub(super) fn new(
        labels: [&Labels; 2],
        vectors: Matrix,
        bits: usize,
        lambda: f64,
        gamma: f64,
    ) -> CodeLearner {
        let [(left, first), (right, second)] = labels.map(Side::new);
        let similar = Matrix::from_fn(left.count, right.count, |a, b| {
            let shared = labels[0].shared(first[a], labels[1], second[b]);
            if shared > 0 { 1.0 } else { -1.0 }
        });
        let basis = Matrix::zeros(vectors.columns, bits);
        CodeLearner { sides: [left, right], similar, vectors, basis, bits, lambda, gamma }
    }

    /// Number of label vectors.
    pub(super) fn classes(&self) -> usize {
        self.vectors.rows()
    }

    /// The vector of an item: the mean of those of its labels.
    fn vector(&self, side: usize, item: usize) -> Vec<f64> {
        let labels = &self.sides[side].labels;
        let mut mean = vec![0.0; self.vectors.columns];
        let share = 1.0 / labels.count(item).max(1) as f64;
        for label in labels.indices(item) {
            let row = self.vectors.row(label);
            mean.iter_mut().zip(row).for_each(|(mean, x)| *mean += share * x);
        }
        mean
    }

    /// The best D for the present codes.
    pub(super) fn update_basis(&mut self, codes: &[Vec<f32>; 2]) -> Result<()> {
        let bits = self.bits;
        let mut both = Matrix::from_fn(bits, bits, |i, j| if i == j { RIDGE } else { 0.0 });
        let mut moment = Matrix::zeros(bits, self.vectors.columns); // B Phi^T
        for (side, codes) in codes.iter().enumerate() {
            both.add_block(0, 0, &gram(codes, bits), 1.0);
            for (item, code) in codes.chunks_exact(bits).enumerate() {
                let vector = self.vector(side, item);
                for (k, &b) in code.iter().enumerate() {
                    let row = moment.row_mut(k).iter_mut().zip(&vector);
                    row.for_each(|(sum, x)| *sum += f64::from(b) * x);
                }
            }
        }
        let factor = Cholesky::new(both)?;
        self.basis = factor.backward(&factor.forward(&moment)).transpose();
        Ok(())
    }

    /// One sweep over all bits of both modalities, given the outputs of the networks.
    pub(super) fn sweep(&self, codes: &mut [Vec<f32>; 2], outputs: &[Vec<f32>; 2]) {
        let bits = self.bits;
        let inner = self.basis.transpose_matmul(&self.basis); // D^T D
        for side in 0..2 {
            let other = 1 - side;
            let sums = self.sides[other].sums(&codes[other], bits);
            let pulls = if side == 0 {
                self.similar.matmul(&sums)
            } else {
                self.similar.transpose_matmul(&sums)
            };
            let cross = gram(&codes[other], bits);
            for item in 0..self.sides[side].sets.len() {
                let pull = pulls.row(self.sides[side].sets[item]);
                let vector = self.vector(side, item);
                let mut towards = vec![0.0; bits]; // R
                for (i, x) in vector.iter().enumerate() {
                    let row = self.basis.row(i).iter().zip(&mut towards);
                    row.for_each(|(d, t)| *t += self.lambda * d * x);
                }
                let output = &outputs[side][item * bits..][..bits];
                for k in 0..bits {
                    towards[k] += bits as f64 * pull[k] + self.gamma * f64::from(output[k]);
                }
                let code = &mut codes[side][item * bits..][..bits];
                for k in 0..bits {
                    let weight = |l: usize| cross.at(k, l) + self.lambda * inner.at(k, l);
                    let others = (0..bits).filter(|&l| l != k);
                    let held: f64 = others.map(|l| weight(l) * f64::from(code[l])).sum();
                    code[k] = if towards[k] - held >= 0.0 { 1.0 } else { -1.0 };
                }
            }
        }
    }
}

/// Orthonormal rows, by Gram-Schmidt on random ones.
pub(super) fn orthogonal(count: usize, rng: &mut ChaCha8Rng) -> Matrix {
    let random = normal(count * count, 1.0, rng);
    let mut rows: Vec<Vec<f64>> = Vec::new();
    for row in random.chunks_exact(count.max(1)) {
        let mut row: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
        for _ in 0..2 {
            for other in &rows {
                let dot: f64 = row.iter().zip(other).map(|(a, b)| a * b).sum();
                row.iter_mut().zip(other).for_each(|(a, b)| *a -= dot * b);
            }
        }
        let length = row.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-12);
        row.iter_mut().for_each(|x| *x /= length);
        rows.push(row);
    }
    Matrix { columns: count.max(1), values: rows.concat() }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;

    const BITS: usize = 5;

    /// J in plain loops over all pairs of items.
    fn objective(
        learner: &CodeLearner,
        labels: &[Labels; 2],
        codes: &[Vec<f32>; 2],
        outputs: &[Vec<f32>; 2],
    ) -> f64 {
        let b = |side: usize, i: usize, k: usize| f64::from(codes[side][i * BITS + k]);
        let mut sum = 0.0;
        for i in 0..labels[0].len() {
            for j in 0..labels[1].len() {
                let shared = labels[0].shared(i, &labels[1], j) > 0;
                let wanted = if shared { BITS as f64 } else { -(BITS as f64) };
                let inner: f64 = (0..BITS).map(|k| b(0, i, k) * b(1, j, k)).sum();
                sum += (wanted - inner).powi(2);
            }
        }
        for side in 0..2 {
            for i in 0..labels[side].len() {
                let vector = learner.vector(side, i);
                for (d, x) in vector.iter().enumerate() {
                    let made: f64 =
                        (0..BITS).map(|k| learner.basis.at(d, k) * b(side, i, k)).sum();
                    sum += learner.lambda * (x - made).powi(2);
                }
                for k in 0..BITS {
                    let off = f64::from(outputs[side][i * BITS + k]) - b(side, i, k);
                    sum += learner.gamma * off * off;
                }
            }
        }
        sum
    }

    #[test]
    fn no_step_increases_the_objective() {
        let labels = [
            Labels::from_indices(
                4,
                [vec![0], vec![1], vec![0, 2], vec![3], vec![1], vec![0]],
            ),
            Labels::from_indices(4, [vec![2], vec![1, 3], vec![0], vec![3], vec![1]]),
        ]
        .map(|labels| labels.unwrap());
        for seed in 0..20 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut codes = [6, 5].map(|n: usize| -> Vec<f32> {
                let sign = |_| if rng.random::<bool>() { 1.0 } else { -1.0 };
                (0..n * BITS).map(sign).collect()
            });
            let outputs = [6, 5].map(|n: usize| normal(n * BITS, 1.0, &mut rng));
            let vectors = orthogonal(4, &mut rng);
            let mut learner =
                CodeLearner::new([&labels[0], &labels[1]], vectors, BITS, 3.0, 2.0);
            let mut last = objective(&learner, &labels, &codes, &outputs);
            let first = last;
            for _ in 0..4 {
                learner.update_basis(&codes).unwrap();
                let with_basis = objective(&learner, &labels, &codes, &outputs);
                assert!(with_basis <= last + 1e-4, "D: {last} to {with_basis}");
                learner.sweep(&mut codes, &outputs);
                last = objective(&learner, &labels, &codes, &outputs);
                assert!(last <= with_basis + 1e-6, "B: {with_basis} to {last}");
            }
            assert!(last < first, "{first} to {last}");
        }
    }

    #[test]
    fn label_vectors_are_orthonormal() {
        let rows = orthogonal(6, &mut ChaCha8Rng::seed_from_u64(1));
        for i in 0..6 {
            for j in 0..6 {
                let dot: f64 =
                    rows.row(i).iter().zip(rows.row(j)).map(|(a, b)| a * b).sum();
                assert!((dot - f64::from(u8::from(i == j))).abs() < 1e-9);
            }
        }
    }
}
