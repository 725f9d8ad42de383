//! Fully connected networks trained with Adam: the towers of methods with several hidden layers, and
//! their auxiliary networks (generators, discriminators, label networks).
//!
//! ```text
//! h_0 = x,   h_k = unit(h_(k-1) W_k + b_k),   out = h_(K-1) W_K + b_K      without activation
//! ```
//!
//! Hidden layers start from N(0, 2 / inputs) (He et al. 2015), with tanh from N(0, 1 / inputs), the last
//! layer from N(0, sd^2) as configured, biases from 0. A network can be applied several times in a step:
//! gradients add up. Inputs can be tensors of a graph, so that gradients pass through a network to another.
//!
//! On sparse rows, the outputs of the first layer are a leaf of the graph, as in `sparse.rs`. Its step
//! updates only the rows of words that occur in the batch, with their moments (as PyTorch's `SparseAdam`).

use burn_tensor::{Device, Gradients, Tensor, TensorData};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::{Batch, Matrix, Shape, Tower, Unit, normal};
use crate::checkpoint::Arrays;
use crate::data::Sparse;
use crate::optimise::{Adam, Moments, floats};
use crate::{Error, Result};

/// Sizes of a network.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MlpShape {
    /// Inputs.
    pub(crate) width: usize,
    /// Whether inputs are sparse rows.
    pub(crate) sparse: bool,
    /// Outputs of every layer; the last are those of the network.
    pub(crate) layers: Vec<usize>,
    /// The hidden units.
    pub(crate) unit: Unit,
    /// Standard deviation of the initial weights of the last layer; `None` as for hidden layers.
    pub(crate) last: Option<f64>,
}

/// Inputs of a network.
#[derive(Debug, Clone)]
pub(crate) enum Input {
    /// Dense rows, possibly with a graph.
    Dense(Tensor<2>),
    /// Sparse rows.
    Sparse(Sparse),
}

impl Input {
    /// Inputs of a batch of features.
    pub(crate) fn new(batch: Batch, width: usize, device: &Device) -> Result<Input> {
        match batch {
            Batch::Dense(values) => {
                let shape = [values.len() / width.max(1), width];
                Ok(Input::Dense(Tensor::from_data(TensorData::new(values, shape), device)))
            }
            Batch::Sparse(rows) => Ok(Input::Sparse(rows)),
            Batch::Pixels(_) => Err(Error::content("this network takes features")),
        }
    }

    /// Dense rows of the same values.
    pub(crate) fn dense(self, device: &Device) -> Tensor<2> {
        match self {
            Input::Dense(rows) => rows,
            Input::Sparse(rows) => {
                let width = rows.width();
                let mut values = vec![0.0; rows.len() * width];
                for (i, out) in values.chunks_exact_mut(width.max(1)).enumerate() {
                    rows.read(i, out);
                }
                Tensor::from_data(TensorData::new(values, [rows.len(), width]), device)
            }
        }
    }
}

/// One application of a network.
pub(crate) struct Pass {
    /// The outputs.
    pub(crate) out: Tensor<2>,
    /// The units of every hidden layer.
    pub(crate) hidden: Vec<Tensor<2>>,
    /// The outputs of the first layer before its activation.
    pub(crate) first: Tensor<2>,
    sparse: Option<Sparse>, // `first` is a leaf
}

/// Weights (inputs x outputs) and bias of a layer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layer {
    /// Outputs.
    pub(crate) columns: usize,
    /// Weights by rows.
    pub(crate) weight: Vec<f32>,
    /// Bias.
    pub(crate) bias: Vec<f32>,
}

/// A network with the state of its optimiser.
#[derive(Debug)]
pub(crate) struct Mlp {
    shape: MlpShape,
    parts: Vec<Part>, // weight and bias of every layer
    steps: u64,
    device: Device,
}

/// A matrix with its moments. The tensor is a leaf of the graph, except for the weights of a sparse first
/// layer, which are only in `values`.
#[derive(Debug)]
struct Part {
    columns: usize,
    leaf: Option<Tensor<2>>,
    values: Vec<f32>, // empty if there is a leaf
    moments: Moments,
}

impl Part {
    fn new(values: Vec<f32>, columns: usize, leaf: bool, device: &Device) -> Part {
        let moments = Moments::zero(values.len());
        let mut part = Part { columns, leaf: None, values, moments };
        if leaf {
            part.make_leaf(device);
        }
        part
    }

    fn make_leaf(&mut self, device: &Device) {
        let values = std::mem::take(&mut self.values);
        let shape = [values.len() / self.columns.max(1), self.columns];
        let tensor = Tensor::from_data(TensorData::new(values, shape), device);
        self.leaf = Some(tensor.require_grad());
    }

    fn values(&self) -> Vec<f32> {
        match &self.leaf {
            Some(leaf) => floats(leaf.clone().inner()),
            None => self.values.clone(),
        }
    }

    fn tensor(&self) -> Tensor<2> {
        self.leaf.clone().expect("only the first layer on sparse rows has no leaf")
    }

    /// One step of a leaf; none if it was not used.
    fn step(&mut self, grads: &mut Gradients, adam: Adam, t: u64, device: &Device) {
        let gradient = self.leaf.as_ref().and_then(|leaf| leaf.grad_remove(grads));
        let Some(gradient) = gradient else { return };
        self.values = self.values();
        adam.step(t, &mut self.values, &mut self.moments, &floats(gradient));
        self.make_leaf(device);
    }
}

impl Mlp {
    /// A network with random initial weights.
    pub(crate) fn new(shape: MlpShape, rng: &mut ChaCha8Rng, device: &Device) -> Mlp {
        let (mut parts, mut inputs) = (Vec::new(), shape.width);
        let gain = if shape.unit == Unit::Tanh { 1.0 } else { 2.0 };
        for (k, &columns) in shape.layers.iter().enumerate() {
            let sd = (gain / inputs.max(1) as f64).sqrt();
            let is_last = k + 1 == shape.layers.len();
            let sd = shape.last.filter(|_| is_last).unwrap_or(sd);
            let weights = normal(inputs * columns, sd, rng);
            let leaf = k > 0 || !shape.sparse;
            parts.push(Part::new(weights, columns, leaf, device));
            parts.push(Part::new(vec![0.0; columns], columns, true, device));
            inputs = match (k, shape.unit) {
                (0, Unit::Gated) => columns / 2,
                _ => columns,
            };
        }
        Mlp { shape, parts, steps: 0, device: device.clone() }
    }

    /// Its sizes.
    pub(crate) fn shape(&self) -> &MlpShape {
        &self.shape
    }

    /// Applies the network.
    pub(crate) fn forward(&self, input: Input) -> Pass {
        let (first, sparse) = match input {
            Input::Dense(x) => {
                (x.matmul(self.parts[0].tensor()) + self.parts[1].tensor(), None)
            }
            Input::Sparse(rows) => {
                let out = self.gather(&rows);
                (out.require_grad(), Some(rows))
            }
        };
        let (mut out, mut hidden) = (first.clone(), Vec::new());
        for (k, part) in self.parts.chunks_exact(2).enumerate().skip(1) {
            let unit = self.shape.unit;
            out = if k == 1 { unit.first(out) } else { unit.apply(out) };
            hidden.push(out.clone());
            out = out.matmul(part[0].tensor()) + part[1].tensor();
        }
        Pass { out, hidden, first, sparse }
    }

    /// Applies the layers after the first to given units of the first.
    pub(crate) fn after_first(&self, units: Tensor<2>) -> Tensor<2> {
        let mut out = units;
        for (k, part) in self.parts.chunks_exact(2).enumerate().skip(1) {
            if k > 1 {
                out = self.shape.unit.apply(out);
            }
            out = out.matmul(part[0].tensor()) + part[1].tensor();
        }
        out
    }

    /// The first layer on sparse rows.
    fn gather(&self, rows: &Sparse) -> Tensor<2> {
        let columns = self.parts[0].columns;
        let (weights, bias) = (&self.parts[0].values, self.parts[1].values());
        let mut out = vec![0.0_f32; rows.len() * columns];
        out.par_chunks_mut(columns.max(1)).enumerate().for_each(|(i, z)| {
            z.copy_from_slice(&bias);
            let (inputs, values) = rows.row(i);
            for (&j, &x) in inputs.iter().zip(values) {
                let line = &weights[j as usize * columns..][..columns];
                z.iter_mut().zip(line).for_each(|(z, w)| *z += x * w);
            }
        });
        Tensor::from_data(TensorData::new(out, [rows.len(), columns]), &self.device)
    }

    /// One step with the gradients of a backward pass over some applications of the network.
    pub(crate) fn step(&mut self, grads: &mut Gradients, passes: &[&Pass], adam: Adam) {
        self.steps += 1;
        let t = self.steps;
        for pass in passes {
            if let (Some(rows), Some(dz)) = (&pass.sparse, pass.first.grad_remove(grads)) {
                self.scatter(rows, &floats(dz), adam, t);
            }
        }
        let from = usize::from(self.shape.sparse) * 2;
        for part in &mut self.parts[from..] {
            part.step(grads, adam, t, &self.device);
        }
    }

    /// The step of a sparse first layer.
    fn scatter(&mut self, rows: &Sparse, dz: &[f32], adam: Adam, t: u64) {
        let columns = self.parts[0].columns;
        let mut users: Vec<Vec<(usize, f32)>> = vec![Vec::new(); self.shape.width];
        for i in 0..rows.len() {
            let (inputs, values) = rows.row(i);
            inputs.iter().zip(values).for_each(|(&j, &x)| users[j as usize].push((i, x)));
        }
        let Part { values, moments, .. } = &mut self.parts[0];
        let cells =
            values.par_chunks_mut(columns).zip(moments.first.par_chunks_mut(columns));
        let cells = cells.zip(moments.second.par_chunks_mut(columns)).zip(&users);
        cells.filter(|(_, by)| !by.is_empty()).for_each_init(
            || vec![0.0_f32; columns],
            |sum, (((p, m), v), by)| {
                sum.fill(0.0);
                for &(i, x) in by {
                    let dz = &dz[i * columns..][..columns];
                    sum.iter_mut().zip(dz).for_each(|(s, d)| *s += x * d);
                }
                adam.update(t, p, m, v, sum);
            },
        );
        let mut sum = vec![0.0_f32; columns];
        for dz in dz.chunks_exact(columns) {
            sum.iter_mut().zip(dz).for_each(|(s, d)| *s += d);
        }
        let bias = &mut self.parts[1];
        bias.values = bias.values();
        adam.step(t, &mut bias.values, &mut bias.moments, &sum);
        bias.make_leaf(&self.device);
    }

    /// Whether all weights are finite.
    pub(crate) fn is_finite(&self) -> bool {
        self.parts.iter().all(|part| part.values().iter().all(|x| x.is_finite()))
    }

    /// The weights of all layers.
    pub(crate) fn layers(&self) -> Vec<Layer> {
        let layer = |part: &[Part]| Layer {
            columns: part[0].columns,
            weight: part[0].values(),
            bias: part[1].values(),
        };
        self.parts.chunks_exact(2).map(layer).collect()
    }

    /// The tower of this network.
    pub(crate) fn tower(&self) -> Result<Tower> {
        let MlpShape { width, sparse, unit, .. } = self.shape;
        Tower::of_layers(width, sparse, unit, self.layers())
    }

    /// Adds all arrays to a checkpoint; `full`: with the state of the optimiser.
    pub(crate) fn save(&self, name: &str, arrays: &mut Arrays, full: bool) {
        for (k, part) in self.parts.iter().enumerate() {
            arrays.push(format!("net.{name}.{k}"), part.columns, part.values());
            if full {
                let Moments { first, second } = part.moments.clone();
                arrays.push(format!("first.{name}.{k}"), part.columns, first);
                arrays.push(format!("second.{name}.{k}"), part.columns, second);
            }
        }
        if full {
            let steps = [(self.steps / LOW) as f32, (self.steps % LOW) as f32];
            arrays.push(format!("steps.{name}"), 2, steps.to_vec());
        }
    }

    /// Restores what [`Mlp::save`] saved.
    pub(crate) fn restore(
        &mut self,
        name: &str,
        arrays: &mut Arrays,
        full: bool,
    ) -> Result<()> {
        let misfit =
            || Error::content(format!("network {name} differs from the configuration"));
        for (k, part) in self.parts.iter_mut().enumerate() {
            let size = part.moments.first.len();
            let mut take = |kind: &str| {
                let found = arrays.take(&format!("{kind}.{name}.{k}"))?;
                let fits = found.columns == part.columns && found.values.len() == size;
                if fits { Ok(found.values) } else { Err(misfit()) }
            };
            let values = take("net")?;
            if full {
                part.moments = Moments { first: take("first")?, second: take("second")? };
            }
            let is_leaf = part.leaf.is_some();
            part.values = values;
            if is_leaf {
                part.make_leaf(&self.device);
            }
        }
        if full {
            let steps = arrays.take(&format!("steps.{name}"))?.values;
            let &[high, low] = &steps[..] else { return Err(misfit()) };
            #[expect(clippy::cast_possible_truncation, reason = "whole numbers, as saved")]
            #[expect(clippy::cast_sign_loss, reason = "not negative, as saved")]
            let steps = (high as u64) * LOW + low as u64;
            self.steps = steps;
        }
        Ok(())
    }
}

/// Step counts are saved as two numbers below this, which are exact in single precision.
const LOW: u64 = 1 << 16;

impl Tower {
    /// A tower of one to four layers, the last of which is the hash layer.
    pub(crate) fn of_layers(
        width: usize,
        sparse: bool,
        unit: Unit,
        layers: Vec<Layer>,
    ) -> Result<Tower> {
        let misfit = || Error::content("a tower has one to four layers of matching sizes");
        let (Some(last), 1..=4) = (layers.last(), layers.len()) else {
            return Err(misfit());
        };
        let bits = last.columns;
        let units = |k: usize| {
            let inner = layers[..layers.len() - 1].get(k);
            inner.map_or(0, |layer| layer.columns)
        };
        let hidden = if unit == Unit::Gated { units(0) / 2 } else { units(0) };
        let inner = [units(1), units(2)];
        let shape = Shape { width, sparse, hidden, inner, unit, bits, ..Shape::default() };
        let matrix = |columns: usize, values: Vec<f32>| Matrix {
            name: "".into(),
            columns,
            velocity: vec![0.0; values.len()],
            values,
        };
        let parts = layers.into_iter().flat_map(|Layer { columns, weight, bias }| {
            [matrix(columns, weight), matrix(columns, bias)]
        });
        let device = crate::device::learning();
        Tower::from_matrices(shape, parts.collect(), &device).ok_or_else(misfit)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    fn rows(sparse: bool) -> Batch {
        let values = [0.0, 1.0, 0.0, 2.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0];
        if !sparse {
            return Batch::Dense(values.to_vec());
        }
        let mut rows = Sparse::new(4);
        for row in values.chunks(4) {
            let mut cells: Vec<(u32, f32)> = (0..).zip(row.iter().copied()).collect();
            cells.retain(|cell| cell.1 != 0.0);
            rows.push(&mut cells).unwrap();
        }
        Batch::Sparse(rows)
    }

    fn network(sparse: bool, layers: &[usize], unit: Unit) -> Mlp {
        let shape =
            MlpShape { width: 4, sparse, layers: layers.to_vec(), unit, last: Some(0.3) };
        Mlp::new(shape, &mut ChaCha8Rng::seed_from_u64(1), &crate::device::learning())
    }

    fn train(net: &mut Mlp, batch: &Batch, steps: usize) -> f32 {
        let adam = Adam { decoupled: false, ..Adam::decoupled(0.02, 0.0) };
        let mut value = 0.0;
        for _ in 0..steps {
            let input = Input::new(batch.clone(), 4, &net.device).unwrap();
            let pass = net.forward(input);
            let loss = (pass.out.clone() - 1.0).square().mean();
            value = loss.clone().into_scalar();
            let mut grads = loss.backward();
            net.step(&mut grads, &[&pass], adam);
        }
        value
    }

    #[test]
    fn learns_equally_from_sparse_and_dense_rows_and_becomes_a_tower() {
        for (layers, unit) in [
            (&[2][..], Unit::Relu),
            (&[6, 2], Unit::Tanh),
            (&[12, 5, 2], Unit::Gated),
            (&[6, 5, 7, 2], Unit::Relu),
        ] {
            // Every word occurs in the batch: lazy and ordinary moments are equal.
            let (mut dense, mut sparse) =
                (network(false, layers, unit), network(true, layers, unit));
            let before = train(&mut dense, &rows(false), 1);
            let after = train(&mut dense, &rows(false), 60);
            assert!(after < 0.3 * before, "{layers:?}: {before} to {after}");
            train(&mut sparse, &rows(true), 61);
            for (net, is_sparse) in [(&dense, false), (&sparse, true)] {
                let tower = net.tower().unwrap();
                let input = Input::new(rows(is_sparse), 4, &net.device).unwrap();
                let wanted = floats(net.forward(input).out.inner());
                let found = tower.hash(&rows(is_sparse));
                assert_eq!(found.len(), wanted.len());
                for (a, b) in found.iter().zip(&wanted) {
                    assert!((a - b).abs() < 1e-5, "{layers:?}: {a} for {b}");
                }
            }
            let (a, b) = (dense.layers(), sparse.layers());
            let cells = a.iter().zip(&b).flat_map(|(a, b)| a.weight.iter().zip(&b.weight));
            for (a, b) in cells {
                assert!((a - b).abs() < 1e-3, "{layers:?}: {a} and {b}");
            }
        }
    }

    #[test]
    fn a_restored_network_continues_exactly() {
        let layers = [6, 5, 2];
        let mut whole = network(true, &layers, Unit::Relu);
        train(&mut whole, &rows(true), 3);
        let mut arrays = Arrays::default();
        whole.save("a", &mut arrays, true);
        let mut resumed = network(true, &layers, Unit::Relu);
        resumed.restore("a", &mut arrays.clone(), true).unwrap();
        train(&mut whole, &rows(true), 4);
        train(&mut resumed, &rows(true), 4);
        assert_eq!(whole.layers(), resumed.layers());
        let mut other = network(true, &[7, 5, 2], Unit::Relu);
        let err = other.restore("a", &mut arrays, true).unwrap_err().to_string();
        assert!(err.contains("differs from the configuration"), "{err}");
    }
}
