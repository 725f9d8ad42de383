//! First layer on sparse rows; its cost is proportional to the non-zeros.
//!
//! ```text
//! forward    z_i = b + sum_j x_ij w_j              gather rows of W, add
//! backward   dL/dw_j = sum_i x_ij dL/dz_i          scatter-add, fused with the update
//! ```
//!
//! The outputs are a leaf of the graph; the gradient of the leaf updates only the rows used by the
//! batch, without a gradient matrix. Momentum and decay of other rows are pending; they are applied
//! at once when a row is next used ([`Sgd::idle`]) or when all rows are read.

use burn_tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;

use super::Matrix;
use crate::data::Sparse;
use crate::optimise::{Sgd, floats};

#[derive(Debug)]
pub(super) struct SparseLayer {
    columns: usize,
    rows: Vec<Row>,
    bias: Vec<f32>,
    bias_velocity: Vec<f32>,
    last: Option<Sgd>, // settings of pending updates
    steps: u32,        // since all rows were up to date
}

/// The weights of one input.
#[derive(Debug)]
struct Row {
    value: Vec<f32>,
    velocity: Vec<f32>,
    steps: u32, // number of layer steps applied to this row
}

impl SparseLayer {
    /// Creates a layer from weights (rows of `columns`) and a bias of 0.
    pub(super) fn new(weights: Vec<f32>, columns: usize) -> SparseLayer {
        let matrix = |values: Vec<f32>| Matrix {
            name: "".into(),
            columns,
            velocity: vec![0.0; values.len()],
            values,
        };
        SparseLayer::resume(matrix(weights), matrix(vec![0.0; columns]))
    }

    pub(super) fn resume(weight: Matrix, bias: Matrix) -> SparseLayer {
        let columns = weight.columns;
        let rows = weight.values.chunks_exact(columns);
        let rows = rows.zip(weight.velocity.chunks_exact(columns)).map(|(p, v)| Row {
            value: p.to_vec(),
            velocity: v.to_vec(),
            steps: 0,
        });
        SparseLayer {
            columns,
            rows: rows.collect(),
            bias: bias.values,
            bias_velocity: bias.velocity,
            last: None,
            steps: 0,
        }
    }

    /// Outputs for some rows, n x columns, without gradients; the used weights must be up to date.
    pub(super) fn forward(&self, batch: &Sparse, device: &Device) -> Tensor<2> {
        let mut out = vec![0.0_f32; batch.len() * self.columns];
        out.par_chunks_mut(self.columns).enumerate().for_each(|(i, z)| {
            z.copy_from_slice(&self.bias);
            let (inputs, values) = batch.row(i);
            for (&j, &x) in inputs.iter().zip(values) {
                let weights = &self.rows[j as usize].value;
                z.iter_mut().zip(weights).for_each(|(z, w)| *z += x * w);
            }
        });
        Tensor::from_data(TensorData::new(out, [batch.len(), self.columns]), device)
    }

    /// One optimiser step with the gradient of the outputs.
    pub(super) fn step(&mut self, batch: &Sparse, gradient: Tensor<2>, sgd: Sgd) {
        if self.last.is_some_and(|last| last != sgd) {
            self.catch_up(None);
        }
        self.last = Some(sgd);
        self.steps += 1;
        let (steps, columns) = (self.steps, self.columns);
        let dz = floats(gradient);
        let mut users: Vec<Vec<(usize, f32)>> = vec![Vec::new(); self.rows.len()];
        for i in 0..batch.len() {
            let (inputs, values) = batch.row(i);
            inputs.iter().zip(values).for_each(|(&j, &x)| users[j as usize].push((i, x)));
        }
        let used = self.rows.par_iter_mut().zip(&users).filter(|(_, by)| !by.is_empty());
        used.for_each_init(
            || vec![0.0_f32; columns],
            |sum, (row, by)| {
                sum.fill(0.0);
                for &(i, x) in by {
                    let dz = &dz[i * columns..(i + 1) * columns];
                    sum.iter_mut().zip(dz).for_each(|(s, d)| *s += x * d);
                }
                sgd.update(&mut row.value, &mut row.velocity, sum);
                row.steps = steps;
            },
        );
        let mut sum = vec![0.0_f32; columns];
        for dz in dz.chunks_exact(columns) {
            sum.iter_mut().zip(dz).for_each(|(s, d)| *s += d);
        }
        sgd.update(&mut self.bias, &mut self.bias_velocity, &sum);
    }

    /// Number of pending updates of each row; `None` if there are none.
    pub(super) fn pending(&self) -> Option<Vec<f32>> {
        let pending = |row: &Row| (self.steps - row.steps) as f32; // far below 2^24
        let all: Vec<f32> = self.rows.iter().map(pending).collect();
        all.iter().any(|&steps| steps > 0.0).then_some(all)
    }

    /// Sets the number of pending updates of each row; they will be applied with `sgd`.
    pub(super) fn set_pending(&mut self, pending: &[f32], sgd: Sgd) {
        #[expect(clippy::cast_possible_truncation, reason = "integers from `pending`")]
        #[expect(clippy::cast_sign_loss, reason = "not negative")]
        let pending: Vec<u32> = pending.iter().map(|&steps| steps as u32).collect();
        self.steps = pending.iter().copied().max().unwrap_or(0);
        self.last = Some(sgd);
        for (row, pending) in self.rows.iter_mut().zip(pending) {
            row.steps = self.steps - pending;
        }
    }

    /// Whether all weights are finite.
    pub(super) fn is_finite(&self) -> bool {
        let fine = |values: &[f32]| values.iter().all(|x| x.is_finite());
        self.rows.par_iter().all(|row| fine(&row.value)) && fine(&self.bias)
    }

    /// Weights and bias without pending updates.
    pub(super) fn matrices(&self, names: [&'static str; 2], moving: bool) -> Vec<Matrix> {
        let all = |part: fn(&Row) -> &Vec<f32>| {
            let mut all = Vec::with_capacity(self.rows.len() * self.columns);
            self.rows.iter().for_each(|row| all.extend_from_slice(part(row)));
            all
        };
        let weight = Matrix {
            name: names[0].into(),
            columns: self.columns,
            values: all(|row| &row.value),
            velocity: if moving { all(|row| &row.velocity) } else { Vec::new() },
        };
        let bias = Matrix {
            name: names[1].into(),
            columns: self.columns,
            values: self.bias.clone(),
            velocity: if moving { self.bias_velocity.clone() } else { Vec::new() },
        };
        vec![weight, bias]
    }

    /// Applies pending updates of the rows used by a batch, or of all rows.
    pub(super) fn catch_up(&mut self, batch: Option<&Sparse>) {
        let Some(sgd) = self.last else { return };
        let mut used = vec![batch.is_none(); self.rows.len()];
        if let Some(batch) = batch {
            for i in 0..batch.len() {
                batch.row(i).0.iter().for_each(|&j| used[j as usize] = true);
            }
        }
        let steps = self.steps;
        let rows = self.rows.par_iter_mut().zip(used);
        rows.filter(|(row, used)| *used && row.steps < steps).for_each(|(row, _)| {
            #[expect(clippy::cast_possible_truncation, reason = "weights are single")]
            let [[pp, pv], [vp, vv]] =
                sgd.idle(steps - row.steps).map(|line| line.map(|x| x as f32));
            for (p, v) in row.value.iter_mut().zip(&mut row.velocity) {
                (*p, *v) = (pp * *p + pv * *v, vp * *p + vv * *v);
            }
            row.steps = steps;
        });
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    use super::super::{Batch, Shape, Tower, normal};
    use super::*;

    const WIDTH: usize = 30;

    fn batch(seed: u64) -> (Batch, Batch) {
        let mut sparse = Sparse::new(WIDTH);
        for i in 0..6_u64 {
            let mut cells: Vec<(u32, f32)> = (0..3_u64)
                .map(|k| (((seed * 7 + i * 5 + k * 11) % 30) as u32, 1.0 + k as f32))
                .collect();
            sparse.push(&mut cells).unwrap();
        }
        let mut dense = vec![0.0; 6 * WIDTH];
        dense.chunks_exact_mut(WIDTH).enumerate().for_each(|(i, row)| sparse.read(i, row));
        (Batch::Sparse(sparse), Batch::Dense(dense))
    }

    /// The same tower, sparse and dense, over steps with a change of learning rate: equal up to
    /// rounding.
    #[test]
    fn equals_the_dense_layer() {
        let device = Device::flex().autodiff();
        for hidden in [0, 16] {
            let shape = |sparse| Shape {
                width: WIDTH,
                sparse,
                hidden,
                bits: 4,
                classes: 3,
                ..Shape::default()
            };
            let made = |sparse| {
                let mut rng = ChaCha8Rng::seed_from_u64(5);
                Tower::new(shape(sparse), &mut rng, &device)
            };
            let (mut sparse, mut dense) = (made(true), made(false));
            let mut rng = ChaCha8Rng::seed_from_u64(6);
            let target = normal(6 * 4, 1.0, &mut rng);
            for step in 0..12 {
                let (a, b) = batch(step);
                let rate = if step < 7 { 0.2 } else { 0.02 };
                let sgd = Sgd { rate, momentum: 0.9, decay: 0.01 };
                for (tower, batch) in [(&mut sparse, &a), (&mut dense, &b)] {
                    let target = TensorData::new(target.clone(), [6, 4]);
                    let target = Tensor::<2>::from_data(target, &device);
                    let outputs = tower.forward(batch);
                    let loss = (outputs.hash.clone() - target).square().mean()
                        + outputs.logits.clone().square().mean();
                    let mut grads = loss.backward();
                    tower.step(&mut grads, batch, outputs, [sgd; 2]);
                }
            }
            sparse.flush();
            let pairs = sparse.matrices(true).into_iter().zip(dense.matrices(true));
            for (a, b) in pairs {
                assert_eq!(
                    (a.name, a.columns, a.values.len()),
                    (b.name, b.columns, b.values.len())
                );
                let near = |x: &[f32], y: &[f32]| {
                    x.iter().zip(y).all(|(x, y)| (x - y).abs() < 1e-5)
                };
                assert!(near(&a.values, &b.values) && near(&a.velocity, &b.velocity));
            }
        }
    }
}
