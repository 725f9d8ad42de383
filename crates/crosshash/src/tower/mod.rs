//! Towers: one network per modality that maps features to `bits` real outputs.
//!
//! ```text
//! h = relu(x W_1 + b_1)            `hidden` units; h = x in a linear tower
//! h <- relu(h W + b)               up to two further layers (`inner`)
//! [ f | z ] = h W_2 + b_2          hash layer without activation | classifier
//! ```
//!
//! Hidden units can be hyperbolic tangents, and those of the first layer can be gated (`unit.rs`).
//! Further hidden layers and such units occur in models only: networks of this kind are trained as
//! `mlp.rs`, with Adam, and become towers afterwards.
//!
//! Both heads are columns of one matrix: one product instead of two. Heads are initialised from
//! N(0, 0.01^2) (paper), the hidden layer from N(0, 1/(3 width)), PyTorch's default variance (not
//! specified in the paper; He initialisation has six times this variance and starts with outputs far
//! from the centres), biases with 0. The cost of the first layer on sparse features is proportional
//! to the non-zeros (`sparse.rs`); on dense features it needs no gradient matrix (`first.rs`).
//!
//! For pictures, x is the output of a network (`tuned.rs`) that is fine-tuned with the tower.

mod dense;
mod dropout;
mod first;
mod mlp;
mod sparse;
mod tuned;
mod unit;

use std::borrow::Cow;

use burn_tensor::{Device, Gradients, Tensor, TensorData, activation::relu};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::data::Sparse;
use crate::network::{Architecture, Network};
use crate::optimise::{Sgd, floats};
use crate::step_seed::StepSeed;
pub(crate) use crate::weights::{Matrix, normal};
use dense::DenseLayer;
pub(crate) use dropout::dropout;
use first::FirstLayer;
pub(crate) use mlp::{Input, Layer, Mlp, MlpShape, Pass};
use sparse::SparseLayer;
pub(crate) use tuned::Depth;
pub(crate) use tuned::Pixels;
use tuned::{NETWORK, TunedLayer, unnamed};
pub(crate) use unit::{Unit, mask};

/// Standard deviation of the initial weights of the heads.
const HEADS: f64 = 0.01;

const HIDDEN: [&str; 2] = ["hidden.weight", "hidden.bias"];
const INNER: [[&str; 2]; 2] =
    [["inner1.weight", "inner1.bias"], ["inner2.weight", "inner2.bias"]];
pub(crate) const HEADS_OF: [&str; 2] = ["heads.weight", "heads.bias"];

const FORM: &str = "the batch has the form of the tower's features";

/// Sizes of a tower.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shape {
    /// Number of input values per item.
    pub(crate) width: usize,
    /// Whether inputs are sparse.
    pub(crate) sparse: bool,
    /// Hidden units; 0 for a linear tower.
    pub(crate) hidden: usize,
    /// Units of further hidden layers; 0 for none.
    #[serde(default, skip_serializing_if = "no_inner")]
    pub(crate) inner: [usize; 2],
    /// The kind of hidden units.
    #[serde(default, skip_serializing_if = "Unit::is_relu")]
    pub(crate) unit: Unit,
    /// Width of the hash layer.
    pub(crate) bits: usize,
    /// Width of the classifier.
    pub(crate) classes: usize,
    /// The fine-tuned network, for pictures.
    #[serde(skip)] // stored in the preparation
    pub(crate) network: Option<&'static Architecture>,
}

fn no_inner(inner: &[usize; 2]) -> bool {
    inner.iter().all(|&units| units == 0)
}

impl Shape {
    /// Outputs of the first layer of a tower without a network.
    fn first_columns(&self) -> usize {
        match (self.hidden, self.unit) {
            (0, _) => self.bits + self.classes,
            (hidden, Unit::Gated) => 2 * hidden,
            (hidden, _) => hidden,
        }
    }

    /// Units of the further hidden layers.
    fn inner(&self) -> impl Iterator<Item = usize> + '_ {
        self.inner.iter().copied().filter(|&units| self.hidden > 0 && units > 0)
    }

    /// Names of all matrices of the tower, in order.
    pub(crate) fn names(&self) -> Vec<Cow<'static, str>> {
        let parameters = self.network.map(Architecture::parameters).unwrap_or_default();
        let mut names: Vec<Cow<'static, str>> =
            parameters.iter().map(|(name, _)| format!("{NETWORK}{name}").into()).collect();
        if self.hidden > 0 {
            names.extend(HIDDEN.map(Cow::from));
        }
        names.extend(self.inner().zip(INNER).flat_map(|(_, of)| of.map(Cow::from)));
        names.extend(HEADS_OF.map(Cow::from));
        names
    }
}

/// A batch of inputs.
#[derive(Debug, Clone)]
pub(crate) enum Batch {
    /// Dense rows.
    Dense(Vec<f32>),
    /// Sparse rows.
    Sparse(Sparse),
    /// Pictures.
    Pixels(Pixels),
}

/// Outputs of a tower for a batch.
pub(crate) struct Outputs {
    /// Real outputs of the hash layer, n x bits.
    pub(crate) hash: Tensor<2>,
    /// Outputs of the classifier, n x classes.
    pub(crate) logits: Tensor<2>,
    first: Tensor<2>, // output of the first layer, a leaf of the graph
}

/// The network of one modality.
#[derive(Debug)]
pub(crate) struct Tower {
    shape: Shape,
    first: First, // the hidden layer; the heads of a linear tower; a network
    hidden: Option<DenseLayer>, // only after a network
    inner: Vec<DenseLayer>, // further hidden layers
    heads: Option<DenseLayer>, // none in a linear tower
    device: Device,
}

#[derive(Debug)]
enum First {
    Dense(FirstLayer),
    Sparse(SparseLayer),
    Network(Box<TunedLayer>),
}

impl Tower {
    /// A tower with one hidden layer or none, with random initial weights.
    pub(crate) fn new(shape: Shape, rng: &mut ChaCha8Rng, device: &Device) -> Tower {
        let outputs = shape.bits + shape.classes;
        let (sd, inner) = ((1.0 / (3.0 * shape.width as f64)).sqrt(), shape.hidden);
        let (columns, sd) = if inner > 0 { (inner, sd) } else { (outputs, HEADS) };
        let weights = normal(shape.width * columns, sd, rng);
        let first = if shape.sparse {
            First::Sparse(SparseLayer::new(weights, columns))
        } else {
            First::Dense(FirstLayer::new(weights, columns))
        };
        let heads = (inner > 0)
            .then(|| DenseLayer::new(normal(inner * outputs, HEADS, rng), outputs, device));
        Tower {
            shape,
            first,
            hidden: None,
            inner: Vec::new(),
            heads,
            device: device.clone(),
        }
    }

    /// A tower on a network, with random initial weights for the layers after it.
    pub(crate) fn tuned(
        shape: Shape,
        network: Network,
        depth: Depth,
        rng: &mut ChaCha8Rng,
        device: &Device,
    ) -> Tower {
        let outputs = shape.bits + shape.classes;
        let sd = (1.0 / (3.0 * shape.width as f64)).sqrt();
        let hidden = (shape.hidden > 0).then(|| {
            DenseLayer::new(
                normal(shape.width * shape.hidden, sd, rng),
                shape.hidden,
                device,
            )
        });
        let inputs = if shape.hidden > 0 { shape.hidden } else { shape.width };
        let heads = DenseLayer::new(normal(inputs * outputs, HEADS, rng), outputs, device);
        let first = First::Network(Box::new(TunedLayer::new(network, depth)));
        let (inner, heads) = (Vec::new(), Some(heads));
        Tower { shape, first, hidden, inner, heads, device: device.clone() }
    }

    /// Restores all matrices from [`Tower::matrices`]; returns false if they do not match.
    pub(crate) fn restore(&mut self, mut matrices: Vec<Matrix>) -> bool {
        let (shape, device) = (self.shape, self.device.clone());
        let First::Network(layer) = &mut self.first else {
            let made = Tower::from_matrices(shape, matrices, &device);
            return made.map(|tower| *self = tower).is_some();
        };
        let rest = matrices.split_off(layer.network().names().count().min(matrices.len()));
        let Some((hidden, heads)) = after_network(shape, rest, &device) else {
            return false;
        };
        (self.hidden, self.heads) = (hidden, Some(heads));
        layer.restore(matrices)
    }

    /// Creates a tower from [`Tower::matrices`]; `None` if they do not match the shape.
    pub(crate) fn from_matrices(
        shape: Shape,
        matrices: Vec<Matrix>,
        device: &Device,
    ) -> Option<Tower> {
        if let Some(architecture) = shape.network {
            return Tower::on_network(shape, architecture, matrices, device);
        }
        let outputs = shape.bits + shape.classes;
        let mut matrices = matrices.into_iter();
        let mut layer =
            |rows: usize, columns: usize| layer_of(&mut matrices, rows, columns);
        let (weight, bias) = layer(shape.width, shape.first_columns())?;
        let first = if shape.sparse {
            First::Sparse(SparseLayer::resume(weight, bias))
        } else {
            First::Dense(FirstLayer::resume(weight, bias))
        };
        let (mut inner, mut inputs) = (Vec::new(), shape.hidden);
        for units in shape.inner() {
            let (weight, bias) = layer(inputs, units)?;
            inner.push(DenseLayer::resume(weight, bias, device));
            inputs = units;
        }
        let heads = match inputs {
            0 => None,
            inputs => {
                let (weight, bias) = layer(inputs, outputs)?;
                Some(DenseLayer::resume(weight, bias, device))
            }
        };
        Some(Tower { shape, first, hidden: None, inner, heads, device: device.clone() })
    }

    /// Creates a tower on a frozen network from its matrices.
    fn on_network(
        shape: Shape,
        architecture: &'static Architecture,
        mut matrices: Vec<Matrix>,
        device: &Device,
    ) -> Option<Tower> {
        let rest = matrices.split_off(architecture.parameters().len().min(matrices.len()));
        let values = matrices.into_iter().map(|m| unnamed(m).values).collect();
        let network = Network::from_values(architecture, values).ok()?;
        let (hidden, heads) = after_network(shape, rest, device)?;
        let first = First::Network(Box::new(TunedLayer::fixed(network)));
        let (inner, heads) = (Vec::new(), Some(heads));
        Some(Tower { shape, first, hidden, inner, heads, device: device.clone() })
    }

    /// Sizes of the tower.
    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// Names of all matrices, in order.
    pub(crate) fn names(&self) -> Vec<Cow<'static, str>> {
        self.shape.names()
    }

    /// Current values of all matrices, in order; with `moving`, also velocities. Call
    /// [`Tower::flush`] first unless pending updates are saved too.
    pub(crate) fn matrices(&self, moving: bool) -> Vec<Matrix> {
        let names = if self.heads.is_some() { HIDDEN } else { HEADS_OF };
        let mut all = match &self.first {
            First::Dense(layer) => layer.matrices(names, moving),
            First::Sparse(layer) => layer.matrices(names, moving),
            First::Network(layer) => layer.matrices(moving),
        };
        all.extend(self.hidden.iter().flat_map(|layer| layer.matrices(HIDDEN, moving)));
        let inner = self.inner.iter().zip(INNER);
        all.extend(inner.flat_map(|(layer, names)| layer.matrices(names, moving)));
        all.extend(self.heads.iter().flat_map(|layer| layer.matrices(HEADS_OF, moving)));
        all
    }

    /// Outputs for a batch, with gradients recorded.
    pub(crate) fn forward(&mut self, batch: &Batch) -> Outputs {
        self.forward_dropping(batch, None)
    }

    /// Outputs for a batch with dropout on the hidden layer (rate and seed).
    pub(crate) fn forward_dropping(
        &mut self,
        batch: &Batch,
        drop: Option<(f64, StepSeed)>,
    ) -> Outputs {
        if let (First::Sparse(layer), Batch::Sparse(rows)) = (&mut self.first, batch) {
            layer.catch_up(Some(rows));
        }
        let first = self.first.learn(batch, &self.device).require_grad();
        let drop = |units: Tensor<2>| match drop {
            None => units,
            Some((rate, at)) => {
                let [n, columns] = units.dims();
                let mask = TensorData::new(dropout(n * columns, rate, at), [n, columns]);
                units * Tensor::from_data(mask, &self.device)
            }
        };
        let out = match (&self.heads, &self.hidden, &self.first) {
            (Some(heads), Some(hidden), _) => {
                heads.forward(drop(relu(hidden.forward(first.clone()))))
            }
            (Some(heads), None, First::Network(_)) => heads.forward(first.clone()),
            (Some(heads), None, _) => {
                let mut units = drop(self.shape.unit.first(first.clone()));
                for layer in &self.inner {
                    units = self.shape.unit.apply(layer.forward(units));
                }
                heads.forward(units)
            }
            (None, ..) => first.clone(),
        };
        let Shape { bits, classes, .. } = self.shape;
        let hash = out.clone().narrow(1, 0, bits);
        let logits = match classes {
            // The tensor library does not support empty slices.
            0 => {
                let empty = TensorData::new(Vec::<f32>::new(), [out.dims()[0], 0]);
                Tensor::from_data(empty, &self.device)
            }
            _ => out.narrow(1, bits, classes),
        };
        Outputs { hash, logits, first }
    }

    /// Real outputs of the hash layer for a batch, by rows. Call [`Tower::flush`] after the last
    /// step.
    pub(crate) fn hash(&self, batch: &Batch) -> Vec<f32> {
        let first = self.first.forward(batch, &self.device.clone().inner());
        let bits = self.shape.bits;
        floats(match (&self.heads, &self.hidden, &self.first) {
            (Some(heads), Some(hidden), _) => {
                heads.apply(relu(hidden.apply(first, self.shape.hidden)), bits)
            }
            (Some(heads), None, First::Network(_)) => heads.apply(first, bits),
            (Some(heads), None, _) => {
                let mut units = self.shape.unit.first(first);
                for (layer, columns) in self.inner.iter().zip(self.shape.inner()) {
                    units = self.shape.unit.apply(layer.apply(units, columns));
                }
                heads.apply(units, bits)
            }
            (None, ..) => first.narrow(1, 0, bits),
        })
    }

    /// Applies all pending updates of the rows of a sparse layer.
    pub(crate) fn flush(&mut self) {
        if let First::Sparse(layer) = &mut self.first {
            layer.catch_up(None);
        }
    }

    /// Number of pending updates of each row of a sparse first layer; `None` if there are none.
    pub(crate) fn pending(&self) -> Option<Vec<f32>> {
        match &self.first {
            First::Sparse(layer) => layer.pending(),
            First::Dense(_) | First::Network(_) => None,
        }
    }

    /// Sets the number of pending updates of each row; they will be applied with `sgd`.
    pub(crate) fn set_pending(&mut self, pending: &[f32], sgd: Sgd) {
        if let First::Sparse(layer) = &mut self.first {
            layer.set_pending(pending, sgd);
        }
    }

    /// Whether all weights are finite.
    pub(crate) fn is_finite(&self) -> bool {
        let first = match &self.first {
            First::Dense(layer) => layer.is_finite(),
            First::Sparse(layer) => layer.is_finite(),
            First::Network(layer) => layer.is_finite(),
        };
        first
            && self.hidden.as_ref().is_none_or(DenseLayer::is_finite)
            && self.inner.iter().all(DenseLayer::is_finite)
            && self.heads.as_ref().is_none_or(DenseLayer::is_finite)
    }

    /// One optimiser step with the gradients of a backward pass over `outputs` of `batch`. The two
    /// settings are those of the first layer and of the heads (a linear tower has only the first).
    pub(crate) fn step(
        &mut self,
        grads: &mut Gradients,
        batch: &Batch,
        outputs: Outputs,
        [sgd, heads_sgd]: [Sgd; 2],
    ) {
        if let Some(gradient) = outputs.first.grad_remove(grads) {
            match (&mut self.first, batch) {
                (First::Dense(layer), Batch::Dense(rows)) => {
                    layer.step(rows, gradient, sgd)
                }
                (First::Sparse(layer), Batch::Sparse(rows)) => {
                    layer.step(rows, gradient, sgd);
                }
                (First::Network(layer), Batch::Pixels(pixels)) => {
                    layer.step(pixels, gradient, sgd);
                }
                _ => unreachable!("{FORM}"),
            }
        }
        for layer in self.hidden.iter_mut().chain(&mut self.inner).chain(&mut self.heads) {
            layer.step(grads, heads_sgd);
        }
    }
}

impl First {
    /// Outputs of the layer without gradients.
    fn forward(&self, batch: &Batch, device: &Device) -> Tensor<2> {
        match (self, batch) {
            (First::Dense(layer), Batch::Dense(rows)) => layer.forward(rows, device),
            (First::Sparse(layer), Batch::Sparse(rows)) => layer.forward(rows, device),
            (First::Network(layer), Batch::Pixels(pixels)) => layer.apply(pixels),
            _ => unreachable!("{FORM}"),
        }
    }

    /// Outputs of the layer for a training step.
    fn learn(&mut self, batch: &Batch, device: &Device) -> Tensor<2> {
        match (self, batch) {
            (First::Network(layer), Batch::Pixels(pixels)) => layer.forward(pixels, device),
            (other, batch) => other.forward(batch, device),
        }
    }
}

/// The next two matrices, if they are weights and bias of these sizes.
fn layer_of(
    matrices: &mut impl Iterator<Item = Matrix>,
    rows: usize,
    columns: usize,
) -> Option<(Matrix, Matrix)> {
    let (weight, bias) = (matrices.next()?, matrices.next()?);
    let fits = |m: &Matrix, rows: usize| {
        m.columns == columns
            && m.values.len() == rows * columns
            && m.velocity.len() == m.values.len()
    };
    (fits(&weight, rows) && fits(&bias, 1)).then_some((weight, bias))
}

/// Layers after a network, from the remaining matrices.
fn after_network(
    shape: Shape,
    matrices: Vec<Matrix>,
    device: &Device,
) -> Option<(Option<DenseLayer>, DenseLayer)> {
    let outputs = shape.bits + shape.classes;
    let mut matrices = matrices.into_iter();
    let mut layer = |inputs: usize, columns: usize| {
        let (weight, bias) = layer_of(&mut matrices, inputs, columns)?;
        Some(DenseLayer::resume(weight, bias, device))
    };
    let (hidden, inputs) = match shape.hidden {
        0 => (None, shape.width),
        inner => (Some(layer(shape.width, inner)?), inner),
    };
    Some((hidden, layer(inputs, outputs)?))
}
