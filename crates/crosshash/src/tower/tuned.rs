//! A network on pictures as the first layer of a tower: its features enter the rest as a leaf,
//! whose gradient comes back and goes on through the network.
//!
//! ```text
//! forward    Z = network(X)                        no history, or that of the whole batch
//! backward   dL/dW = sum over micro-batches of d<Z_k, dL/dZ_k>/dW
//! ```
//!
//! The loss sees the whole batch at once, whatever the memory allows: micro-batches are computed
//! once without history for Z, and again, one after the other, for the gradient. So a step is the
//! same as without them, at a third more work; only normalisations that take the statistics of
//! their batch take those of a micro-batch. Layers that are frozen keep no history, and running
//! statistics.

use std::ops::Range;

use burn_tensor::{Device, Tensor};

use super::Matrix;
use crate::network::{Activation, Network, Observed, Statistics};
use crate::optimise::Sgd;

/// How a network is tuned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Depth {
    /// Layers at its beginning that stay as they are.
    pub(crate) frozen: usize,
    /// Pictures that are computed at once, with history.
    pub(crate) micro: usize,
    /// What its normalisations take.
    pub(crate) statistics: Statistics,
}

/// Pictures as a network takes them, or what its first layers gave for them.
#[derive(Debug, Clone)]
pub(crate) struct Pixels {
    /// Numbers, item after item.
    pub(crate) values: Vec<f32>,
    /// Channels, height, width of an item.
    pub(crate) shape: [usize; 3],
    /// The layer that takes them: 0 for pictures.
    pub(crate) layer: usize,
}

#[derive(Debug)]
pub(super) struct TunedLayer {
    network: Network,
    depth: Depth,
    kept: Option<(Tensor<2>, Vec<Observed>)>, // the history of a batch that needed no parts
}

impl TunedLayer {
    pub(super) fn new(network: Network, depth: Depth) -> TunedLayer {
        let network = network.learning_from(depth.frozen);
        TunedLayer { network, depth, kept: None }
    }

    /// A network that learns no more.
    pub(super) fn fixed(network: Network) -> TunedLayer {
        let (frozen, statistics) = (network.depth(), Statistics::Running);
        TunedLayer::new(network, Depth { frozen, micro: usize::MAX, statistics })
    }

    pub(super) fn network(&self) -> &Network {
        &self.network
    }

    /// The features without history, as they are judged and encoded by.
    pub(super) fn apply(&self, batch: &Pixels) -> Tensor<2> {
        let layers = batch.layer..self.network.depth();
        self.network.apply(&layers, batch.activation(), Statistics::Running)
    }

    /// The features of a batch to learn from, as a constant.
    pub(super) fn forward(&mut self, batch: &Pixels, device: &Device) -> Tensor<2> {
        let learns = self.depth.frozen < self.network.depth();
        let features = match learns {
            false => self.apply(batch),
            true if batch.len() <= self.depth.micro => {
                let (features, observed) = self.part(batch, 0..batch.len());
                let constant = features.clone().inner();
                self.kept = Some((features, observed));
                constant
            }
            true => {
                let parts = self.parts(batch).map(|items| {
                    let first = batch.layer..self.depth.frozen.max(batch.layer);
                    let input = batch.activation().slice(items);
                    let (values, shape) = self.network.kept(&first, input);
                    let rest = first.end..self.network.depth();
                    let input = Activation::new(&values, shape);
                    self.network.apply(&rest, input, self.depth.statistics)
                });
                Tensor::cat(parts.collect(), 0)
            }
        };
        if device.is_autodiff() { features.autodiff() } else { features }
    }

    /// One step along the gradient of the features of that batch.
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

    /// Some items of a batch through the network, with the history of what learns.
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

    /// Sets everything, as [`TunedLayer::matrices`] gave it; false if it does not fit.
    pub(super) fn restore(&mut self, matrices: Vec<Matrix>) -> bool {
        self.kept = None;
        self.network.restore(matrices.into_iter().map(unnamed).collect())
    }

    pub(super) fn is_finite(&self) -> bool {
        self.network.is_finite()
    }
}

/// What stands before the names of a network's parameters in a tower.
pub(super) const NETWORK: &str = "network.";

/// A matrix under the name that the network knows it by.
pub(super) fn unnamed(m: Matrix) -> Matrix {
    let name = m.name.strip_prefix(NETWORK).unwrap_or(&m.name).to_owned();
    Matrix { name: name.into(), ..m }
}

impl Pixels {
    /// How many items there are.
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
        };
        Tower::tuned(shape, network, depth, &mut rng, &crate::device::learning())
    }

    /// A loss that is not linear in the outputs, and sees the whole batch.
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
            assert!(farthest(&whole, &start) > 1e-2, "it moved");
            assert!(farthest(&whole, &parts) < 1e-5, "{}", farthest(&whole, &parts));
        }
    }

    #[test]
    fn what_is_frozen_stays_and_kept_activations_are_the_same() {
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

    /// What the first layers give.
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

    /// Central differences along the gradient and along random directions, of every kind of layer.
    #[test]
    fn gradients_are_those_of_differences() {
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
            // One parameter at a time, a step along its gradient either way.
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
