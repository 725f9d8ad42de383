//! Towers: one network per modality, from features to real outputs of width `bits`.
//!
//! ```text
//! h = relu(x W_1 + b_1)            `hidden` units; a linear tower has none and h = x
//! [ f | z ] = h W_2 + b_2          hash layer without activation | classifier
//! ```
//!
//! The two heads stand side by side in one matrix: one product instead of two. Heads start as
//! N(0, 0.01^2) (paper), the hidden layer as N(0, 1/(3 width)), PyTorch's default variance (the
//! paper does not say; with He's, six times that, outputs run far from the centres at first),
//! biases at 0. On sparse features the first layer costs what its
//! non-zeros cost (`sparse.rs`).

mod dense;
mod sparse;

use burn::tensor::{Device, Gradients, Tensor, TensorData, activation::relu};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::data::Sparse;
use crate::optimise::{Sgd, floats};
use dense::DenseLayer;
use sparse::SparseLayer;

/// The deviation of the heads' first weights.
const HEADS: f64 = 0.01;

/// The sizes of a tower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Numbers per item.
    pub width: usize,
    /// Whether rows come sparse.
    pub sparse: bool,
    /// Hidden units; 0 for a linear tower.
    pub hidden: usize,
    /// Width of the hash layer.
    pub bits: usize,
    /// Width of the classifier.
    pub classes: usize,
}

/// Some rows of features.
#[derive(Debug, Clone)]
pub enum Batch {
    /// Numbers, row after row.
    Dense(Vec<f32>),
    /// Rows of mostly zeros.
    Sparse(Sparse),
}

/// What a tower gives for a batch.
pub struct Outputs {
    /// Real outputs of the hash layer, n x bits.
    pub hash: Tensor<2>,
    /// Of the classifier, n x classes.
    pub logits: Tensor<2>,
    first: Option<Tensor<2>>, // what a sparse first layer gave, where its gradient will be
}

/// The network of one modality.
#[derive(Debug)]
pub struct Tower {
    shape: Shape,
    hidden: Option<Layer>,
    heads: Layer,
    device: Device,
}

#[derive(Debug)]
enum Layer {
    Dense(Box<DenseLayer>),
    Sparse(SparseLayer),
}

/// One learnt matrix by name: values and velocity by rows, and how many columns.
pub struct Matrix {
    /// Its name in the tower.
    pub name: &'static str,
    /// Columns.
    pub columns: usize,
    /// The values.
    pub values: Vec<f32>,
    /// The velocity.
    pub velocity: Vec<f32>,
}

impl Tower {
    /// A tower with its first weights.
    pub fn new(shape: Shape, rng: &mut ChaCha8Rng, device: &Device) -> Tower {
        let outputs = shape.bits + shape.classes;
        let (sd, inner) = ((1.0 / (3.0 * shape.width as f64)).sqrt(), shape.hidden);
        let hidden = (inner > 0).then(|| first(shape, inner, sd, rng, device));
        let heads = match &hidden {
            None => first(shape, outputs, HEADS, rng, device),
            Some(_) => {
                let weights = normal(inner * outputs, HEADS, rng);
                Layer::Dense(Box::new(DenseLayer::new(weights, outputs, device)))
            }
        };
        Tower { shape, hidden, heads, device: device.clone() }
    }

    /// A tower from its matrices, as [`Tower::matrices`] gives them.
    pub fn from_matrices(
        shape: Shape,
        matrices: Vec<Matrix>,
        device: &Device,
    ) -> Option<Tower> {
        let outputs = shape.bits + shape.classes;
        let mut matrices = matrices.into_iter();
        let mut layer = |sparse: bool, rows: usize, columns: usize| {
            let (weight, bias) = (matrices.next()?, matrices.next()?);
            let fits = |m: &Matrix, rows: usize| {
                m.columns == columns
                    && m.values.len() == rows * columns
                    && m.velocity.len() == m.values.len()
            };
            (fits(&weight, rows) && fits(&bias, 1)).then(|| match sparse {
                true => Layer::Sparse(SparseLayer::resume(weight, bias)),
                false => Layer::Dense(Box::new(DenseLayer::resume(weight, bias, device))),
            })
        };
        let (hidden, heads) = match shape.hidden {
            0 => (None, layer(shape.sparse, shape.width, outputs)?),
            inner => {
                let hidden = layer(shape.sparse, shape.width, inner)?;
                (Some(hidden), layer(false, inner, outputs)?)
            }
        };
        Some(Tower { shape, hidden, heads, device: device.clone() })
    }

    /// Its sizes.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Every learnt matrix, in order.
    pub fn matrices(&mut self) -> Vec<Matrix> {
        self.settle();
        let names = |hidden: bool| match hidden {
            true => ["hidden.weight", "hidden.bias"],
            false => ["heads.weight", "heads.bias"],
        };
        let layers = self.hidden.iter().map(|layer| (true, layer));
        let layers = layers.chain([(false, &self.heads)]);
        layers
            .flat_map(|(hidden, layer)| match layer {
                Layer::Dense(layer) => layer.matrices(names(hidden)),
                Layer::Sparse(layer) => layer.matrices(names(hidden)),
            })
            .collect()
    }

    /// The outputs for a batch, with the history that a backward pass needs.
    pub fn forward(&mut self, batch: &Batch) -> Outputs {
        if let Batch::Sparse(rows) = batch {
            self.layers().for_each(|layer| layer.catch_up(Some(rows)));
        }
        let (out, first) = match (&self.hidden, &self.heads) {
            (Some(hidden), Layer::Dense(heads)) => {
                let (z, first) = hidden.forward(batch, self.shape.width, &self.device);
                (heads.forward(relu(z)), first)
            }
            (_, heads) => heads.forward(batch, self.shape.width, &self.device),
        };
        let Shape { bits, classes, .. } = self.shape;
        let hash = out.clone().narrow(1, 0, bits);
        let logits = out.narrow(1, bits, classes);
        Outputs { hash, logits, first }
    }

    /// The real outputs of the hash layer for a batch, by rows; call [`Tower::settle`] after
    /// the last step.
    pub fn hash(&self, batch: &Batch) -> Vec<f32> {
        let plain = self.device.clone().inner();
        let bits = self.shape.bits;
        let out = match (&self.hidden, &self.heads) {
            (Some(hidden), Layer::Dense(heads)) => {
                let z = hidden.apply(batch, self.shape.width, &plain);
                heads.apply(relu(z), bits)
            }
            (_, heads) => heads.apply(batch, self.shape.width, &plain).narrow(1, 0, bits),
        };
        floats(out)
    }

    /// Takes all steps that rows of a sparse layer still owe.
    pub fn settle(&mut self) {
        self.layers().for_each(|layer| layer.catch_up(None));
    }

    fn layers(&mut self) -> impl Iterator<Item = &mut Layer> {
        self.hidden.iter_mut().chain([&mut self.heads])
    }

    /// One step along the gradients of a backward pass over `outputs` of `batch`.
    pub fn step(
        &mut self,
        grads: &mut Gradients,
        batch: &Batch,
        outputs: Outputs,
        sgd: Sgd,
    ) {
        let at = outputs.first.and_then(|leaf| leaf.grad_remove(grads));
        for layer in self.layers() {
            match layer {
                Layer::Dense(layer) => layer.step(grads, sgd),
                Layer::Sparse(layer) => {
                    if let (Some(gradient), Batch::Sparse(rows)) = (&at, batch) {
                        layer.step(rows, gradient.clone(), sgd);
                    }
                }
            }
        }
    }
}

impl Layer {
    fn catch_up(&mut self, rows: Option<&Sparse>) {
        if let Layer::Sparse(layer) = self {
            layer.catch_up(rows);
        }
    }

    /// The layer's outputs, and the leaf that will hold their gradient if it is sparse.
    fn forward(
        &self,
        batch: &Batch,
        width: usize,
        device: &Device,
    ) -> (Tensor<2>, Option<Tensor<2>>) {
        match (self, batch) {
            (Layer::Dense(layer), Batch::Dense(values)) => {
                (layer.forward(rows(values, width, device)), None)
            }
            (Layer::Sparse(layer), Batch::Sparse(rows)) => {
                let leaf = layer.forward(rows, device).require_grad();
                (leaf.clone(), Some(leaf))
            }
            _ => unreachable!("a tower is made for the form of its features"),
        }
    }

    /// The layer's outputs without history.
    fn apply(&self, batch: &Batch, width: usize, device: &Device) -> Tensor<2> {
        match (self, batch) {
            (Layer::Dense(layer), Batch::Dense(values)) => {
                layer.apply(rows(values, width, device), usize::MAX)
            }
            (Layer::Sparse(layer), Batch::Sparse(rows)) => layer.forward(rows, device),
            _ => unreachable!("a tower is made for the form of its features"),
        }
    }
}

fn rows(values: &[f32], width: usize, device: &Device) -> Tensor<2> {
    let data = TensorData::new(values.to_vec(), [values.len() / width, width]);
    Tensor::from_data(data, device)
}

fn first(
    shape: Shape,
    columns: usize,
    sd: f64,
    rng: &mut ChaCha8Rng,
    device: &Device,
) -> Layer {
    let weights = normal(shape.width * columns, sd, rng);
    match shape.sparse {
        true => Layer::Sparse(SparseLayer::new(weights, columns)),
        false => Layer::Dense(Box::new(DenseLayer::new(weights, columns, device))),
    }
}

/// Draws from N(0, sd^2), by Box and Muller.
pub(crate) fn normal(count: usize, sd: f64, rng: &mut ChaCha8Rng) -> Vec<f32> {
    let mut uniform = || (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    (0..count)
        .map(|_| {
            let radius = (-2.0 * (1.0 - uniform()).ln()).sqrt();
            #[expect(clippy::cast_possible_truncation, reason = "weights are single")]
            {
                (sd * radius * (std::f64::consts::TAU * uniform()).cos()) as f32
            }
        })
        .collect()
}
