//! A network on pictures as the first layer of a tower. Its features are a leaf of the tower's graph;
//! the gradient of the leaf is then propagated through the network.
//!
//! ```text
//! forward    Z = network(X)                        without gradients, or for the whole batch
//! backward   dL/dW = sum over micro-batches of d<Z_k, dL/dZ_k>/dW
//! ```
//!
//! The loss always uses the whole batch. If memory does not suffice, micro-batches are computed once
//! without gradients for Z, and again one by one for the gradient. A step is the same as without
//! micro-batches, at a third more work; only batch statistics are those of a micro-batch. Frozen
//! layers record no gradients and use running statistics.

use std::ops::Range;

use burn_tensor::{Device, Tensor};

use super::Matrix;
use crate::network::{Activation, Network, Observed, Statistics};
use crate::optimise::Sgd;

/// How a network is fine-tuned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Depth {
    /// Number of frozen layers at the beginning.
    pub(crate) frozen: usize,
    /// Size of a micro-batch.
    pub(crate) micro: usize,
    /// Statistics used by normalisations.
    pub(crate) statistics: Statistics,
}

/// Network inputs, or outputs of its first layers.
#[derive(Debug, Clone)]
pub(crate) struct Pixels {
    /// Values, item by item.
    pub(crate) values: Vec<f32>,
    /// Channels, height, width of an item.
    pub(crate) shape: [usize; 3],
    /// Index of the layer that takes these values; 0 for pictures.
    pub(crate) layer: usize,
}

#[derive(Debug)]
pub(super) struct TunedLayer {
    network: Network,
    depth: Depth,
    kept: Option<(Tensor<2>, Vec<Observed>)>, // recorded output of a batch without micro-batches
}

impl TunedLayer {
    pub(super) fn new(network: Network, depth: Depth) -> TunedLayer {
        let network = network.learning_from(depth.frozen);
        TunedLayer { network, depth, kept: None }
    }

    /// A frozen network.
    pub(super) fn fixed(network: Network) -> TunedLayer {
        let (frozen, statistics) = (network.depth(), Statistics::Running);
        TunedLayer::new(network, Depth { frozen, micro: usize::MAX, statistics })
    }

    pub(super) fn network(&self) -> &Network {
        &self.network
    }

    /// Features without gradients, for evaluation and encoding.
    pub(super) fn apply(&self, batch: &Pixels) -> Tensor<2> {
        let layers = batch.layer..self.network.depth();
        self.network.apply(&layers, batch.activation(), Statistics::Running)
    }

    /// Features of a training batch, as a constant.
    pub(super) fn forward(&mut self, batch: &Pixels, device: &Device) -> Tensor<2> {
        let learns = self.depth.frozen < self.network.depth();
        let features = if !learns {
            self.apply(batch)
        } else if batch.len() <= self.depth.micro {
            let (features, observed) = self.part(batch, 0..batch.len());
            let constant = features.clone().inner();
            self.kept = Some((features, observed));
            constant
        } else {
            let parts = self.parts(batch).map(|items| {
                let first = batch.layer..self.depth.frozen.max(batch.layer);
                let input = batch.activation().slice(items);
                let (values, shape) = self.network.kept(&first, input);
                let rest = first.end..self.network.depth();
                let input = Activation::new(&values, shape);
                self.network.apply(&rest, input, self.depth.statistics)
            });
            Tensor::cat(parts.collect(), 0)
        };
        if device.is_autodiff() { features.autodiff() } else { features }
    }

    /// One optimiser step with the gradient of the features of that batch.
    pub(super) fn step(&mut self, batch: &Pixels, gradient: Tensor<2>, sgd: Sgd) {
        if self.depth.frozen >= self.network.depth() {
            return;
        }
        let gradient = gradient.inner();
        let mut sums = Vec::new();
        if let Some((features, observed)) = self.kept.take() {
            let mut grads = (features * gradient.autodiff()).sum().backward();
            self.network.collect(&mut grads, &mut sums);
            self.network.observe(observed);
        } else {
            for items in self.parts(batch) {
                let (features, observed) = self.part(batch, items.clone());
                let part = gradient.clone().narrow(0, items.start, items.len());
                let mut grads = (features * part.autodiff()).sum().backward();
                self.network.collect(&mut grads, &mut sums);
                self.network.observe(observed);
            }
        }
        self.network.step(sums, sgd);
    }

    /// Features of some items of a batch, with gradients of trainable layers recorded.
    fn part(&self, batch: &Pixels, items: Range<usize>) -> (Tensor<2>, Vec<Observed>) {
        let input = batch.activation().slice(items);
        let (frozen, all) = (self.depth.frozen, self.network.depth());
        if frozen <= batch.layer {
            return self.network.learn(&(batch.layer..all), input, self.depth.statistics);
        }
        let (values, shape) = self.network.kept(&(batch.layer..frozen), input);
        let input = Activation::new(&values, shape);
        self.network.learn(&(frozen..all), input, self.depth.statistics)
    }

    fn parts(&self, batch: &Pixels) -> impl Iterator<Item = Range<usize>> + use<> {
        let (n, micro) = (batch.len(), self.depth.micro.max(1));
        (0..n).step_by(micro).map(move |start| start..(start + micro).min(n))
    }

    pub(super) fn matrices(&self, moving: bool) -> Vec<Matrix> {
        let named = |m: Matrix| Matrix { name: format!("{NETWORK}{}", m.name).into(), ..m };
        self.network.matrices(moving).into_iter().map(named).collect()
    }

    /// Restores everything from [`TunedLayer::matrices`]; returns false if it does not match.
    pub(super) fn restore(&mut self, matrices: Vec<Matrix>) -> bool {
        self.kept = None;
        self.network.restore(matrices.into_iter().map(unnamed).collect())
    }

    pub(super) fn is_finite(&self) -> bool {
        self.network.is_finite()
    }
}

/// Prefix of the names of network parameters in a tower.
pub(super) const NETWORK: &str = "network.";

/// Removes the prefix from the name of a matrix.
pub(super) fn unnamed(m: Matrix) -> Matrix {
    let name = m.name.strip_prefix(NETWORK).unwrap_or(&m.name).to_owned();
    Matrix { name: name.into(), ..m }
}

impl Pixels {
    /// Number of items.
    pub(crate) fn len(&self) -> usize {
        self.activation().len()
    }

    fn activation(&self) -> Activation<'_> {
        Activation::new(&self.values, self.shape)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    use super::super::{Batch, Shape, Tower, normal};
    use super::*;
    use crate::network::named;
    use crate::optimise::floats;

    const N: usize = 6;
    const SIZE: usize = 32;
    const SGD: Sgd = Sgd { rate: 0.02, momentum: 0.9, decay: 0.01 };

    fn pictures(rng: &mut ChaCha8Rng) -> Pixels {
        let values = normal(N * 3 * SIZE * SIZE, 1.0, rng);
        Pixels { values, shape: [3, SIZE, SIZE], layer: 0 }
    }

    fn tower(name: &str, hidden: usize, depth: Depth) -> Tower {
        let architecture = named(name).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let network = Network::random(architecture, &mut rng);
        let (width, network_of) = (architecture.width, Some(architecture));
        let shape = Shape {
            width,
            sparse: false,
            hidden,
            bits: 8,
            classes: 3,
            network: network_of,
            ..Shape::default()
        };
        Tower::tuned(shape, network, depth, &mut rng, &crate::device::learning())
    }

    /// A loss that is non-linear in the outputs and depends on the whole batch.
    fn loss(out: &super::super::Outputs) -> Tensor<1> {
        (out.hash.clone() * 30.0).tanh().mean_dim(0).square().sum()
            + out.logits.clone().exp().mean()
    }

    fn steps(tower: &mut Tower, count: usize) -> Vec<Vec<f32>> {
        let mut rng = ChaCha8Rng::seed_from_u64(8);
        for _ in 0..count {
            let batch = Batch::Pixels(pictures(&mut rng));
            let out = tower.forward(&batch);
            let mut grads = loss(&out).backward();
            tower.step(&mut grads, &batch, out, [SGD; 2]);
        }
        tower.matrices(false).into_iter().map(|m| m.values).collect()
    }

    fn depth(frozen: usize, micro: usize, statistics: Statistics) -> Depth {
        Depth { frozen, micro, statistics }
    }

    fn farthest(a: &[Vec<f32>], b: &[Vec<f32>]) -> f32 {
        let pairs = a.iter().flatten().zip(b.iter().flatten());
        pairs.map(|(x, y)| (x - y).abs()).fold(0.0, f32::max)
    }

    #[test]
    fn micro_batches_make_the_same_steps() {
        for hidden in [0, 12] {
            let run = |micro| {
                steps(&mut tower("conv4", hidden, depth(0, micro, Statistics::Running)), 3)
            };
            let (whole, parts, start) = (run(N), run(4), {
                let tower = tower("conv4", hidden, depth(0, N, Statistics::Running));
                tower.matrices(false).into_iter().map(|m| m.values).collect::<Vec<_>>()
            });
            assert!(farthest(&whole, &start) > 1e-2, "the weights changed");
            assert!(farthest(&whole, &parts) < 1e-5, "{}", farthest(&whole, &parts));
        }
    }

    #[test]
    fn frozen_layers_are_unchanged_and_cached_activations_match() {
        let frozen = named("conv4").unwrap().up_to("block1").unwrap();
        let mut tower = tower("conv4", 0, depth(frozen, N, Statistics::Batch));
        let before = tower.matrices(false);
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        let pixels = pictures(&mut rng);
        let First { values, shape } = First::of(&tower, &pixels, frozen);
        let kept = Pixels { values, shape, layer: frozen };
        let a = tower.hash(&Batch::Pixels(pixels.clone()));
        let b = tower.hash(&Batch::Pixels(kept.clone()));
        assert!(a.iter().zip(&b).all(|(x, y)| (x - y).abs() < 1e-6));
        for batch in [Batch::Pixels(pixels), Batch::Pixels(kept)] {
            let out = tower.forward(&batch);
            let mut grads = loss(&out).backward();
            tower.step(&mut grads, &batch, out, [SGD; 2]);
        }
        for (before, after) in before.iter().zip(tower.matrices(false)) {
            let early = ["block0.", "block1."].iter().any(|part| after.name.contains(part));
            assert_eq!(before.values == after.values, early, "{}", after.name);
        }
    }

    /// Output of the first layers.
    struct First {
        values: Vec<f32>,
        shape: [usize; 3],
    }

    impl First {
        fn of(tower: &Tower, pixels: &Pixels, layers: usize) -> First {
            let super::super::First::Network(layer) = &tower.first else { unreachable!() };
            let (values, shape) = layer.network.kept(&(0..layers), pixels.activation());
            First { values, shape }
        }
    }

    /// Compares gradients with central differences for every kind of layer.
    #[test]
    fn gradients_match_central_differences() {
        for (name, statistics) in [
            ("conv4", Statistics::Running),
            ("conv4", Statistics::Batch),
            ("alexnet-conv-mean", Statistics::Running),
        ] {
            let mut rng = ChaCha8Rng::seed_from_u64(10);
            let mut pixels = pictures(&mut rng);
            if name != "conv4" {
                pixels = Pixels {
                    values: normal(2 * 3 * 64 * 64, 1.0, &mut rng),
                    shape: [3, 64, 64],
                    layer: 0,
                };
            }
            let made = tower(name, 0, depth(0, N, statistics));
            let super::super::First::Network(layer) = made.first else { unreachable!() };
            let mut network = layer.network;
            let all = 0..network.depth();
            let weights =
                normal(pixels.len() * network.architecture().width, 1.0, &mut rng);
            let value = |network: &Network| -> f64 {
                let out = floats(network.apply(&all, pixels.activation(), statistics));
                out.iter().zip(&weights).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum()
            };
            let (out, _) = network.learn(&all, pixels.activation(), statistics);
            let shape = out.dims();
            let data = burn_tensor::TensorData::new(weights.clone(), shape);
            let by = Tensor::<2>::from_data(data, &crate::device::learning());
            let mut grads = (out * by).sum().backward();
            let mut sums = Vec::new();
            network.collect(&mut grads, &mut sums);
            let sums: Vec<Vec<f32>> = sums.into_iter().map(|s| s.unwrap()).collect();
            assert!(!sums.is_empty());
            // For each parameter, a small step along its gradient in both directions.
            for at in 0..sums.len() {
                let square: f64 = sums[at].iter().map(|g| f64::from(*g).powi(2)).sum();
                #[expect(clippy::cast_possible_truncation, reason = "a small step")]
                let step = (2e-3 / square.sqrt().max(1e-12)) as f32;
                let along = |network: &mut Network, by: f32| {
                    let only = (0..sums.len()).map(|k| (k == at).then(|| sums[k].clone()));
                    let sgd = Sgd { rate: -by, momentum: 0.0, decay: 0.0 };
                    network.step(only.collect(), sgd);
                };
                along(&mut network, step);
                let up = value(&network);
                along(&mut network, -2.0 * step);
                let down = value(&network);
                along(&mut network, step);
                let found = (up - down) / (2.0 * f64::from(step));
                let far = (found - square).abs() / square.max(1e-6);
                assert!(far < 0.03, "{name} parameter {at}: {found} and {square}");
            }
        }
    }
}
