//! Networks on pictures, run by the tensor library: frozen as backbones, or fine-tuned in a tower.
//!
//! Each network is a file that lists its layers and an entry in [`NETWORKS`]. Parameters have the
//! names of torchvision or timm, so that their state dicts can be read (`state.rs`). To add a
//! network: a file here, a line in the table, reference values in `tests/networks.rs`.
//!
//! ```
//! let network = crosshash::network::named("resnet18")?;
//! assert_eq!((network.width, network.size), (512, 224));
//! assert!(crosshash::network::named("resnet19").is_err());
//! # Ok::<(), crosshash::Error>(())
//! ```

mod alexnet;
mod backbone;
mod conv4;
mod efficientnet_lite;
mod layer;
mod resnet;
mod run;
mod se_resnext;
mod state;
mod vgg;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use burn_tensor::{Device, Gradients, Tensor, TensorData};
use rand_chacha::ChaCha8Rng;

use crate::optimise::{Param, Sgd, floats};
use crate::weights::{Matrix, normal};
use crate::{Error, Result};
pub use backbone::BACKBONES;
use layer::{Layer, Role, Spec};
use run::Pass;
pub(crate) use run::{Observed, Statistics};
use state::StateDict;

/// All networks, in the order of printed tables.
pub const NETWORKS: &[&Architecture] = &[
    &alexnet::ALEXNET,
    &alexnet::CONVOLUTIONS,
    &alexnet::MEANS,
    &vgg::VGG16,
    &resnet::RESNET18,
    &resnet::RESNET50,
    &se_resnext::SE_RESNEXT101,
    &se_resnext::LEGACY,
    &conv4::CONV4,
];

/// Momentum of running statistics of batch normalisation (PyTorch's default).
const MOMENTUM: f32 = 0.1;
/// Batch size of inference.
const BLOCK: usize = 16;
/// Channels of a picture.
const CHANNELS: usize = 3;

/// A network without its weights.
pub struct Architecture {
    /// Name used in configurations.
    pub name: &'static str,
    /// Short description.
    pub title: &'static str,
    /// Features per picture.
    pub width: usize,
    /// Default height and width of pictures.
    pub size: usize,
    heads: &'static [&'static str], // prefixes of classifier parameters, which are not used
    layers: fn() -> Vec<Layer>,
}

/// A network by name.
pub fn named(name: &str) -> Result<&'static Architecture> {
    let found = NETWORKS.iter().copied().find(|network| network.name == name);
    found.ok_or_else(|| Error::unknown("network", name, NETWORKS.iter().map(|n| n.name)))
}

impl std::fmt::Debug for Architecture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Architecture {
    fn eq(&self, other: &Architecture) -> bool {
        self.name == other.name
    }
}

impl Eq for Architecture {}

impl Architecture {
    /// Names of the layers up to which the network can be frozen, in order.
    pub fn layers(&self) -> Vec<String> {
        (self.layers)().iter().filter_map(Layer::name).map(str::to_owned).collect()
    }

    /// Number of layers up to and including the named one (or the last one with this prefix, such
    /// as `layer2`) and the parameterless layers after it.
    pub(crate) fn up_to(&self, name: &str) -> Result<usize> {
        let layers = (self.layers)();
        let is = |layer: &Layer| {
            layer.name().is_some_and(|own| {
                own == name
                    || own.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
            })
        };
        let Some(last) = layers.iter().rposition(is) else {
            let known = self.layers();
            return Err(Error::unknown("layer", name, known.iter().map(String::as_str)));
        };
        let rest = layers[last + 1..].iter().take_while(|layer| layer.name().is_none());
        Ok(last + 1 + rest.count())
    }

    /// Number of layers.
    pub(crate) fn depth(&self) -> usize {
        (self.layers)().len()
    }

    fn specs(&self) -> Vec<Spec> {
        let mut specs = Vec::new();
        (self.layers)().iter().for_each(|layer| layer.specs(&mut specs));
        specs
    }

    /// Names and shapes of all parameters, in order.
    pub fn parameters(&self) -> Vec<(String, Vec<usize>)> {
        self.specs().into_iter().map(|spec| (spec.name, spec.shape)).collect()
    }
}

/// A network with its weights.
#[derive(Debug)]
pub struct Network {
    architecture: &'static Architecture,
    layers: Vec<Layer>,
    specs: Vec<Spec>,
    held: BTreeMap<String, Parameter>,
    device: Device, // without autodiff
}

/// The values of a parameter, as a matrix.
#[derive(Debug)]
enum Parameter {
    Frozen(Tensor<2>),
    Trainable(Param),
}

impl Network {
    /// Reads weights from a state dict (`.safetensors` or `.pth`); all parameters are frozen.
    pub fn open(architecture: &'static Architecture, path: &Path) -> Result<Network> {
        let specs = architecture.specs();
        let values = StateDict::open(path)?.read(&specs, architecture.heads)?;
        Ok(Network::fixed(architecture, values))
    }

    /// Creates a network from values, one list per parameter in the order of
    /// [`Architecture::parameters`].
    pub fn from_values(
        architecture: &'static Architecture,
        values: Vec<Vec<f32>>,
    ) -> Result<Network> {
        let specs = architecture.specs();
        let lengths = specs.iter().map(Spec::len);
        if !lengths.eq(values.iter().map(Vec::len)) {
            let name = architecture.name;
            return Err(Error::content(format!(
                "the sizes of the weights do not match {name}"
            )));
        }
        Ok(Network::fixed(architecture, values))
    }

    /// Random weights (He normal initialisation).
    pub(crate) fn random(
        architecture: &'static Architecture,
        rng: &mut ChaCha8Rng,
    ) -> Network {
        let first = |spec: &Spec| match spec.role {
            Role::Weight => {
                let inputs: usize = spec.shape[1..].iter().product();
                normal(spec.len(), (2.0 / inputs as f64).sqrt(), rng)
            }
            Role::Scale | Role::Variance => vec![1.0; spec.len()],
            Role::Shift | Role::Mean => vec![0.0; spec.len()],
        };
        let values = architecture.specs().iter().map(first).collect();
        Network::fixed(architecture, values)
    }

    fn fixed(architecture: &'static Architecture, values: Vec<Vec<f32>>) -> Network {
        let device = crate::device::device();
        let specs = architecture.specs();
        let hold = |(spec, values): (&Spec, Vec<f32>)| {
            (spec.name.clone(), Parameter::Frozen(matrix(values, spec.columns(), &device)))
        };
        let held = specs.iter().zip(values).map(hold).collect();
        Network { architecture, layers: (architecture.layers)(), specs, held, device }
    }

    /// Its architecture.
    pub fn architecture(&self) -> &'static Architecture {
        self.architecture
    }

    /// Number of layers of the network.
    pub(crate) fn depth(&self) -> usize {
        self.layers.len()
    }

    /// Makes all parameters from a layer on trainable, with zero velocity.
    #[must_use]
    pub(crate) fn learning_from(mut self, layer: usize) -> Network {
        let mut specs = Vec::new();
        self.layers[layer..].iter().for_each(|layer| layer.specs(&mut specs));
        let device = self.device.clone().autodiff();
        for spec in specs.iter().filter(|spec| spec.is_trainable()) {
            if let Some(Parameter::Frozen(values)) = self.held.remove(&spec.name) {
                let param = Param::new(floats(values), spec.columns(), &device);
                self.held.insert(spec.name.clone(), Parameter::Trainable(param));
            }
        }
        self
    }

    /// Features of pictures, n x [`Architecture::width`]. `pixels` is n x 3 x `size` x `size`.
    pub fn features(&self, pixels: &[f32], size: usize) -> Vec<f32> {
        let all = 0..self.depth();
        floats(self.apply(&all, Activation::pixels(pixels, size), Statistics::Running))
    }

    /// Output of some layers, one row per picture, without gradients. Runs in blocks unless batch
    /// statistics are used.
    pub(crate) fn apply(
        &self,
        layers: &Range<usize>,
        input: Activation<'_>,
        statistics: Statistics,
    ) -> Tensor<2> {
        let n = input.len();
        let block = if statistics == Statistics::Running { BLOCK } else { n.max(1) };
        let blocks = (0..n).step_by(block).map(|start| {
            let x = input.part(start..(start + block).min(n), &self.device);
            let mut pass = Pass::new(self, false, statistics);
            rows(pass.through(&self.layers[layers.clone()], x))
        });
        let mut blocks: Vec<Tensor<2>> = blocks.collect();
        match blocks.len() {
            0 => Tensor::zeros([0, self.architecture.width], &self.device),
            1 => blocks.remove(0),
            _ => Tensor::cat(blocks, 0),
        }
    }

    /// Output of some layers as activations (values and shape), to be cached and continued from.
    pub(crate) fn kept(
        &self,
        layers: &Range<usize>,
        input: Activation<'_>,
    ) -> (Vec<f32>, [usize; 3]) {
        let n = input.len();
        let (mut out, mut shape) = (Vec::new(), input.shape);
        if layers.is_empty() {
            return (input.values.to_vec(), shape);
        }
        for start in (0..n).step_by(BLOCK) {
            let x = input.part(start..(start + BLOCK).min(n), &self.device);
            let mut pass = Pass::new(self, false, Statistics::Running);
            let y = pass.through(&self.layers[layers.clone()], x);
            let [_, channels, height, width] = y.dims();
            shape = [channels, height, width];
            out.extend(floats(y));
        }
        (out, shape)
    }

    /// Output of some layers with gradients recorded, and the batch statistics of their
    /// normalisations.
    pub(crate) fn learn(
        &self,
        layers: &Range<usize>,
        input: Activation<'_>,
        statistics: Statistics,
    ) -> (Tensor<2>, Vec<Observed>) {
        let x = input.part(0..input.len(), &self.device.clone().autodiff());
        let mut pass = Pass::new(self, true, statistics);
        let out = rows(pass.through(&self.layers[layers.clone()], x));
        (out, pass.observed)
    }

    /// Updates running statistics with batch statistics.
    pub(crate) fn observe(&mut self, observed: Vec<Observed>) {
        for Observed { name, mean, variance, count } in observed {
            // The running variance is unbiased.
            let sample = count as f32 / (count.max(2) - 1) as f32;
            let mut towards = |part: &str, to: Tensor<1>| {
                if let Some(Parameter::Frozen(value)) =
                    self.held.get_mut(&format!("{name}.{part}"))
                {
                    let columns = value.dims()[1];
                    let to = to.reshape([1, columns]);
                    *value = value.clone() * (1.0 - MOMENTUM) + to * MOMENTUM;
                }
            };
            towards("running_mean", mean);
            towards("running_var", variance * sample);
        }
    }

    /// Adds the gradients of a backward pass to `sums`, one per trainable parameter in name order.
    pub(crate) fn collect(&self, grads: &mut Gradients, sums: &mut Vec<Option<Vec<f32>>>) {
        let trainable = self.held.values().filter_map(|held| match held {
            Parameter::Trainable(param) => Some(param),
            Parameter::Frozen(_) => None,
        });
        for (at, param) in trainable.enumerate() {
            if sums.len() == at {
                sums.push(None);
            }
            let Some(found) = param.gradient(grads) else { continue };
            match &mut sums[at] {
                Some(sum) => sum.iter_mut().zip(&found).for_each(|(sum, g)| *sum += g),
                empty => *empty = Some(found),
            }
        }
    }

    /// One optimiser step with summed gradients.
    pub(crate) fn step(&mut self, sums: Vec<Option<Vec<f32>>>, sgd: Sgd) {
        let trainable = self.held.values_mut().filter_map(|held| match held {
            Parameter::Trainable(param) => Some(param),
            Parameter::Frozen(_) => None,
        });
        for (param, sum) in trainable.zip(sums) {
            if let Some(sum) = sum {
                param.follow(&sum, sgd);
            }
        }
    }

    /// Names of all parameters, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.specs.iter().map(|spec| spec.name.as_str())
    }

    /// Current values of all parameters, in order; with `moving`, also velocities of trainable ones.
    pub(crate) fn matrices(&self, moving: bool) -> Vec<Matrix> {
        let matrix = |spec: &Spec| {
            let (values, velocity) = match &self.held[&spec.name] {
                Parameter::Frozen(value) => (floats(value.clone()), Vec::new()),
                Parameter::Trainable(param) if moving => {
                    (param.values(), param.velocity().to_vec())
                }
                Parameter::Trainable(param) => (param.values(), Vec::new()),
            };
            Matrix {
                name: spec.name.clone().into(),
                columns: spec.columns(),
                values,
                velocity,
            }
        };
        self.specs.iter().map(matrix).collect()
    }

    /// Restores all parameters from [`Network::matrices`]; returns false if they do not match.
    pub(crate) fn restore(&mut self, matrices: Vec<Matrix>) -> bool {
        if matrices.len() != self.specs.len() {
            return false;
        }
        let autodiff = self.device.clone().autodiff();
        for (spec, m) in self.specs.iter().zip(matrices) {
            if m.name != spec.name
                || m.columns != spec.columns()
                || m.values.len() != spec.len()
            {
                return false;
            }
            let held = match &self.held[&spec.name] {
                Parameter::Frozen(_) => {
                    Parameter::Frozen(matrix(m.values, m.columns, &self.device))
                }
                Parameter::Trainable(_) => {
                    let still = vec![0.0; m.values.len()];
                    let velocity = if m.velocity.is_empty() { still } else { m.velocity };
                    if velocity.len() != m.values.len() {
                        return false;
                    }
                    Parameter::Trainable(Param::resume(
                        m.values, velocity, m.columns, &autodiff,
                    ))
                }
            };
            self.held.insert(spec.name.clone(), held);
        }
        true
    }

    /// Whether all weights are finite.
    pub(crate) fn is_finite(&self) -> bool {
        self.held.values().all(|held| match held {
            Parameter::Frozen(_) => true, // checked when they were read
            Parameter::Trainable(param) => param.values().iter().all(|x| x.is_finite()),
        })
    }

    fn param(&self, name: &str, learning: bool) -> Tensor<2> {
        match &self.held[name] {
            Parameter::Frozen(value) if learning => value.clone().autodiff(),
            Parameter::Frozen(value) => value.clone(),
            Parameter::Trainable(param) if learning => param.leaf(),
            Parameter::Trainable(param) => param.leaf().inner(),
        }
    }
}

fn matrix(values: Vec<f32>, columns: usize, device: &Device) -> Tensor<2> {
    let shape = [values.len() / columns.max(1), columns];
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn rows(x: Tensor<4>) -> Tensor<2> {
    let [n, channels, height, width] = x.dims();
    x.reshape([n, channels * height * width])
}

/// Input of some layers: pictures, or the output of previous layers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Activation<'a> {
    values: &'a [f32],
    shape: [usize; 3], // channels, height, width
}

impl<'a> Activation<'a> {
    pub(crate) fn new(values: &'a [f32], shape: [usize; 3]) -> Activation<'a> {
        Activation { values, shape }
    }

    fn pixels(values: &'a [f32], size: usize) -> Activation<'a> {
        Activation { values, shape: [CHANNELS, size, size] }
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len() / self.shape.iter().product::<usize>().max(1)
    }

    /// A range of items.
    pub(crate) fn slice(self, items: Range<usize>) -> Activation<'a> {
        let each: usize = self.shape.iter().product();
        Activation { values: &self.values[items.start * each..items.end * each], ..self }
    }

    fn part(&self, items: Range<usize>, device: &Device) -> Tensor<4> {
        let [channels, height, width] = self.shape;
        let shape = [items.len(), channels, height, width];
        let values = self.slice(items).values.to_vec();
        Tensor::from_data(TensorData::new(values, shape), device)
    }
}
