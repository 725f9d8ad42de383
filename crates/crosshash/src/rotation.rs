//! The final rotation: centres the outputs of all modalities and rotates them to reduce the
//! quantisation error.
//!
//! All terms except the quantisation loss depend only on distances or angles of outputs, so they do
//! not change under a rotation shared by all modalities, and a shift of each modality has no cost either.
//! The mean of all outputs carries information (frequent labels), so half of it can be better than all.
//! With `m_a` the mean of modality a over its training items, or half of it, and one rotation R for all,
//!
//! ```text
//! f' = (f - m_a) R,    R = argmin over R R^T = I, B in {-1, 1} of sum_i |b_i - sqrt(r) x_i R|^2
//! x_i = (f_i - m_a) / |f_i - m_a|
//! ```
//!
//! R is computed by ITQ (`method/itq.rs`) on the pooled training items of all modalities. Both are
//! folded into the hash layer, `W' = W R`, `b' = (b - m) R`, so the model format does not change. Centres
//! are transformed with the outputs: `c' = (c - mean of the m_a) R`.

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::algebra::{Matrix as Square, procrustes};
use crate::tower::{HEADS_OF, Matrix, Tower};

/// Maximum training items per modality to fit the rotation on, evenly spaced.
const ROWS: usize = 50_000;

/// Transformation of the outputs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Steps {
    /// Name in configurations and reports.
    pub(crate) name: &'static str,
    /// The share of the mean of each modality that is subtracted.
    shift: f32,
    /// Whether ITQ rotates the outputs, after the shift.
    itq: bool,
}

impl Steps {
    /// All variants.
    pub(crate) const ALL: [Steps; 5] = [
        Steps { name: "itq", shift: 0.0, itq: true },
        Steps { name: "half-mean", shift: 0.5, itq: false },
        Steps { name: "half-mean+itq", shift: 0.5, itq: true },
        Steps { name: "mean", shift: 1.0, itq: false },
        Steps { name: "mean+itq", shift: 1.0, itq: true },
    ];
}

/// A shift of each modality and a rotation of all.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rotation {
    bits: usize,
    /// What is subtracted from each modality, `bits` values each.
    pub(crate) means: Vec<Vec<f32>>,
    /// The rotation, bits x bits, row-major.
    pub(crate) matrix: Vec<f32>,
}

impl Rotation {
    /// Fits the steps to the outputs of the training items of every modality, by rows of `bits`.
    pub(crate) fn fit(
        outputs: &[Vec<f32>],
        bits: usize,
        steps: Steps,
        rounds: usize,
        seed: u64,
    ) -> Rotation {
        let part = |rows: &Vec<f32>| -> Vec<f32> {
            mean(rows, bits).into_iter().map(|m| steps.shift * m).collect()
        };
        let means: Vec<Vec<f32>> = outputs.iter().map(part).collect();
        let mut rotation = Rotation { bits, means, matrix: identity(bits) };
        if steps.itq {
            let pooled = rotation.pooled(outputs);
            let mut turned =
                procrustes::start(bits, bits, &mut ChaCha8Rng::seed_from_u64(seed));
            for _ in 0..rounds {
                turned = procrustes::turn(&pooled, &turned).0;
            }
            rotation.matrix = turned.values.iter().map(|&x| narrow(x)).collect();
        }
        rotation
    }

    /// Transforms outputs of one modality, by rows.
    pub(crate) fn apply(&self, modality: usize, outputs: &mut [f32]) {
        let mean = &self.means[modality];
        let turn = |row: &mut [f32]| {
            row.iter_mut().zip(mean).for_each(|(x, m)| *x -= m);
            self.turn(row);
        };
        outputs.par_chunks_exact_mut(self.bits).for_each(turn);
    }

    /// Transforms centres, by rows.
    pub(crate) fn apply_to_centres(&self, centres: &mut [f32]) {
        let count = self.means.len().max(1) as f32;
        let shift: Vec<f32> = (0..self.bits)
            .map(|k| self.means.iter().map(|mean| mean[k]).sum::<f32>() / count)
            .collect();
        for row in centres.chunks_exact_mut(self.bits) {
            row.iter_mut().zip(&shift).for_each(|(x, m)| *x -= m);
            self.turn(row);
        }
    }

    /// Folds the shift and the rotation of one modality into the hash layer of its tower, given as
    /// [`crate::tower::Tower::matrices`]; the classifier is unchanged. Returns false if there is no
    /// hash layer.
    pub(crate) fn fold(&self, modality: usize, matrices: &mut [Matrix]) -> bool {
        let mut found = 0;
        for matrix in matrices {
            let is_bias = matrix.name == HEADS_OF[1];
            if (matrix.name != HEADS_OF[0] && !is_bias) || matrix.columns < self.bits {
                continue;
            }
            found += 1;
            let columns = matrix.columns;
            for row in matrix.values.chunks_exact_mut(columns) {
                let hash = &mut row[..self.bits];
                if is_bias {
                    let mean = &self.means[modality];
                    hash.iter_mut().zip(mean).for_each(|(x, m)| *x -= m);
                }
                self.turn(hash);
            }
            for row in matrix.velocity.chunks_exact_mut(columns) {
                self.turn(&mut row[..self.bits]);
            }
        }
        found == 2
    }

    /// A tower with the shift and the rotation of its modality folded in; `None` if it has no hash layer.
    pub(crate) fn folded(&self, modality: usize, tower: &Tower) -> Option<Tower> {
        let mut matrices = tower.matrices(true);
        if !self.fold(modality, &mut matrices) {
            return None;
        }
        Tower::from_matrices(tower.shape(), matrices, &crate::device::learning())
    }

    /// `row <- row R`.
    fn turn(&self, row: &mut [f32]) {
        let mut sum = vec![0.0_f64; self.bits];
        for (x, weights) in row.iter().zip(self.matrix.chunks_exact(self.bits)) {
            let x = f64::from(*x);
            sum.iter_mut().zip(weights).for_each(|(s, &w)| *s += x * f64::from(w));
        }
        row.iter_mut().zip(sum).for_each(|(x, sum)| *x = narrow(sum));
    }

    /// The rows that the rotation is fitted on, each of length sqrt(bits).
    fn pooled(&self, outputs: &[Vec<f32>]) -> Square {
        let mut values = Vec::new();
        for (rows, mean) in outputs.iter().zip(&self.means) {
            let count = rows.len() / self.bits;
            let every = count.div_ceil(ROWS).max(1);
            for row in rows.chunks_exact(self.bits).step_by(every) {
                let centred = row.iter().zip(mean).map(|(x, m)| f64::from(x - m));
                let square: f64 = centred.clone().map(|x| x * x).sum();
                let scale =
                    if square > 0.0 { (self.bits as f64 / square).sqrt() } else { 0.0 };
                values.extend(centred.map(|x| x * scale));
            }
        }
        Square { columns: self.bits, values }
    }
}

/// The mean row.
fn mean(rows: &[f32], bits: usize) -> Vec<f32> {
    let mut sum = vec![0.0_f64; bits];
    for row in rows.chunks_exact(bits) {
        sum.iter_mut().zip(row).for_each(|(s, &x)| *s += f64::from(x));
    }
    let count = (rows.len() / bits).max(1) as f64;
    sum.into_iter().map(|s| narrow(s / count)).collect()
}

fn identity(bits: usize) -> Vec<f32> {
    (0..bits * bits).map(|k| f32::from(u8::from(k / bits == k % bits))).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "weights are single precision")]
fn narrow(x: f64) -> f32 {
    x as f32
}

#[cfg(test)]
mod tests {
    use burn_tensor::Device;

    use super::*;
    use crate::tower::{Batch, Shape, Tower, normal};

    const BITS: usize = 8;

    /// Outputs of two modalities, shifted apart, mostly along few directions.
    fn outputs() -> Vec<Vec<f32>> {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let one = |shift: f32, rng: &mut ChaCha8Rng| {
            let values = normal(300 * BITS, 1.0, rng).into_iter().enumerate();
            values.map(|(k, x)| x / (1 + k % BITS) as f32 + shift).collect()
        };
        vec![one(0.7, &mut rng), one(-0.4, &mut rng)]
    }

    fn named(name: &str) -> Steps {
        *Steps::ALL.iter().find(|steps| steps.name == name).unwrap()
    }

    /// Quantisation error of unit rows: 1 - the mean of cos(f, sign f).
    fn error(rows: &[f32]) -> f64 {
        let one = |row: &[f32]| {
            let (sum, square) = row.iter().fold((0.0, 0.0), |(s, q), &x| {
                (s + f64::from(x.abs()), q + f64::from(x * x))
            });
            sum / (square * BITS as f64).sqrt()
        };
        let all = rows.chunks_exact(BITS).map(one);
        1.0 - all.sum::<f64>() / (rows.len() / BITS) as f64
    }

    #[test]
    fn the_rotation_is_orthogonal_and_lowers_the_error() {
        let outputs = outputs();
        let rotation = Rotation::fit(&outputs, BITS, named("mean+itq"), 30, 1);
        for i in 0..BITS {
            for j in 0..BITS {
                let row = |k: usize| &rotation.matrix[k * BITS..][..BITS];
                let dot: f32 = row(i).iter().zip(row(j)).map(|(a, b)| a * b).sum();
                assert!((dot - f32::from(u8::from(i == j))).abs() < 1e-5);
            }
        }
        let (mut centred, mut turned) = (0.0, 0.0);
        for (m, rows) in outputs.iter().enumerate() {
            let (mut by_mean, mut by_both) = (rows.clone(), rows.clone());
            Rotation::fit(&outputs, BITS, named("mean"), 30, 1).apply(m, &mut by_mean);
            rotation.apply(m, &mut by_both);
            centred += error(&by_mean);
            turned += error(&by_both);
            let mean = mean(&by_both, BITS);
            assert!(mean.iter().all(|x| x.abs() < 1e-4), "{mean:?}");
        }
        assert!(turned < 0.8 * centred, "{turned} after {centred}");
    }

    #[test]
    fn folded_into_a_tower_it_gives_the_turned_outputs() {
        let device = Device::flex().autodiff();
        let outputs = outputs();
        for (hidden, sparse) in [(0, false), (16, false)] {
            let shape = Shape {
                width: 5,
                sparse,
                hidden,
                bits: BITS,
                classes: 3,
                ..Shape::default()
            };
            let mut rng = ChaCha8Rng::seed_from_u64(3);
            let mut tower = Tower::new(shape, &mut rng, &device);
            let batch = Batch::Dense(normal(7 * 5, 1.0, &mut rng));
            let before = tower.forward(&batch);
            let logits = crate::optimise::floats(before.logits.inner());
            let plain = tower.hash(&batch);
            for steps in Steps::ALL {
                let rotation = Rotation::fit(&outputs, BITS, steps, 20, 4);
                let mut wanted = plain.clone();
                rotation.apply(1, &mut wanted);
                let mut matrices = tower.matrices(true);
                assert!(rotation.fold(1, &mut matrices));
                let mut folded = Tower::from_matrices(shape, matrices, &device).unwrap();
                let found = folded.hash(&batch);
                for (found, wanted) in found.iter().zip(&wanted) {
                    assert!((found - wanted).abs() < 1e-5, "{found} for {wanted}");
                }
                let after = folded.forward(&batch).logits.inner();
                assert_eq!(crate::optimise::floats(after), logits);
            }
        }
    }

    #[test]
    fn centres_keep_their_distances_to_centred_outputs() {
        let outputs = outputs();
        let rotation = Rotation::fit(&outputs, BITS, named("itq"), 10, 5);
        let distance = |a: &[f32], b: &[f32]| {
            a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f32>().sqrt()
        };
        let (mut centre, mut row) = (vec![0.3; BITS], outputs[0][..BITS].to_vec());
        let before = distance(&centre, &row);
        rotation.apply_to_centres(&mut centre);
        rotation.apply(0, &mut row);
        assert!((distance(&centre, &row) - before).abs() < 1e-5);
    }
}
