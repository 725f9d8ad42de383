//! DCMH: deep cross-modal hashing (Jiang and Li, *Deep Cross-Modal Hashing*, CVPR 2017).
//!
//! ```text
//! theta_ij = 1/2 F_i . G_j,   S_ij in {0, 1}
//! J = sum_ij ( log(1 + e^theta_ij) - S_ij theta_ij )
//!     + gamma ( |B - F|^2 + |B - G|^2 ) + eta ( |F 1|^2 + |G 1|^2 ),   B in {-1, 1}
//! dJ/dF_i = 1/2 sum_j (sigma(theta_ij) - S_ij) G_j + 2 gamma (F_i - B_i) + 2 eta sum_j F_j
//! ```
//!
//! F and G are buffers of the outputs of all n training pairs. An epoch has, for each modality,
//! ceil(n / batch) steps on random batches: their outputs overwrite the buffer, then the gradient,
//! divided by batch x n, updates the tower. Then B = sgn(F + G). The pair term is computed in blocks
//! (`loss/likelihood.rs`), without an n x n matrix. Codes of unseen items are the signs of the tower.
//!
//! Differences from the paper: towers on features with hidden layers as for JCCH, not CNN-F; momentum and weight decay of
//! the configuration, not plain SGD; the learning rate falls by 10^-1.5 over the epochs (the authors' MATLAB: 500 of
//! them, from 10^-1.5); buffers are initialised with the outputs of the initial towers instead of 0 or noise;
//! more than two modalities as the sum over all pairs of them; the best epoch by validation; eta
//! 0.001 instead of 1: the balance is computed from a buffer that is up to an epoch old, so steps with
//! larger weights overshoot, and training diverges unless the learning rate is so small that hundreds of
//! epochs are needed (IAPR TC-12, learning rate 0.03: infinite in the first epoch).

use burn_tensor::{Device, Tensor, TensorData};
use crosshash_codes::Labels;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::modality_data::pairs;
use super::range::Range;
use super::{Begun, Entry, Learning, Method, MethodInfo, ModalityData};
use crate::checkpoint::Arrays;
use crate::config::{Config, Settings as _, check};
use crate::data::Training;
use crate::loss::likelihood;
use crate::model::{ModalityModel, Model, outputs};
use crate::optimise::Sgd;
use crate::tower::Tower;
use crate::train::{Epoch, Objective, Position, Terms};
use crate::{Error, Result};

/// How far the learning rate falls over all epochs, as a power of ten.
const FALL: f64 = 1.5;

/// The section `[dcmh]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Weight of the distance to the codes.
    pub(crate) gamma: f64,
    /// Weight of the balance of bits.
    pub(crate) eta: f64,
    /// Learning rate of the pairwise steps.
    pub(crate) learning_rate: f64,
    /// Epochs of JCCH before those of DCMH (jcch+dcmh).
    pub(crate) warmup_epochs: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { gamma: 1.0, eta: 0.001, learning_rate: 0.3, warmup_epochs: 10 }
    }
}

impl crate::config::Settings for Settings {
    const SECTION: &'static str = "dcmh";

    fn check(&self) -> Result<()> {
        check::not_negative("dcmh.gamma", self.gamma)?;
        check::not_negative("dcmh.eta", self.eta)?;
        check::positive("dcmh.learning_rate", self.learning_rate)
    }
}

pub(super) const INFO: MethodInfo = MethodInfo {
    name: "dcmh",
    title: "pairwise likelihood, alternating codes",
    paper: "Jiang, Li: Deep Cross-Modal Hashing, CVPR",
    year: 2017,
    cost: "O(n towers + n^2 r)",
    pairs: true,
    single: false,
    labels: true,
    learning: Learning::Epochs,
    seeded: true,
    codes: true,
    networks: false,
    rotates: false,
    steps: 3000,
    on_features: "",
};

/// DCMH.
pub(super) const ENTRY: Entry = Entry {
    info: INFO,
    sections: &[Settings::SECTION],
    search: &[
        Range::log("dcmh.learning_rate", 0.03, 3.0),
        Range::log("dcmh.gamma", 0.01, 10.0),
        Range::log("dcmh.eta", 1e-5, 0.01),
    ],
    build: |sections| Ok(Box::new(Dcmh(sections.read()?))),
};

#[derive(Debug)]
struct Dcmh(Settings);

impl Method for Dcmh {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        let modalities = ModalityData::every(config, training)?;
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed());
        let device = crate::device::learning();
        let towers = modalities.iter().map(|data| {
            let shape = config.shape(&data.name, &data.preparation, 0);
            Tower::new(shape, &mut rng, &device)
        });
        let towers: Vec<Tower> = towers.collect();
        let pairs = pairs(INFO.name, training, &modalities)?;
        let modalities = modalities.into_iter().zip(towers).collect();
        let new = PairwiseObjective::new(config, self.0.clone(), modalities, pairs, 0)?;
        Ok(Begun::Gradient(Box::new(new)))
    }
}

/// A training by pairs.
pub(super) struct PairwiseObjective {
    config: Config,
    settings: Settings,
    first_epoch: usize, // epochs of another method before
    modalities: Vec<PairModality>,
    codes: Vec<f32>, // B, n x bits
    rng: ChaCha8Rng, // of the batches of the present epoch
    device: Device,
}

/// One modality; rows of the buffer are pairs, in one order for all modalities.
struct PairModality {
    data: ModalityData,
    pairs: Vec<usize>,
    labels: Labels, // of the pairs
    tower: Tower,
    buffer: Vec<f32>, // F, n x bits
}

impl PairwiseObjective {
    /// From towers without classifiers, whose outputs fill the buffers.
    pub(super) fn new(
        config: &Config,
        settings: Settings,
        towers: Vec<(ModalityData, Tower)>,
        pairs: Vec<Vec<usize>>,
        first_epoch: usize,
    ) -> Result<PairwiseObjective> {
        let mut modalities = Vec::new();
        for ((data, tower), pairs) in towers.into_iter().zip(pairs) {
            let labels = data.labels.select(&pairs);
            let buffer = outputs(&tower, &data.rows, &pairs, &|_| {})?;
            modalities.push(PairModality { data, pairs, labels, tower, buffer });
        }
        let codes = codes(modalities.iter().map(|one| &one.buffer[..]));
        Ok(PairwiseObjective {
            config: config.clone(),
            settings,
            first_epoch,
            modalities,
            codes,
            rng: ChaCha8Rng::seed_from_u64(config.seed()),
            device: crate::device::learning(),
        })
    }

    /// Number of pairs, items per batch and steps per modality.
    fn sizes(&self) -> (usize, usize, usize) {
        let n = self.modalities[0].pairs.len();
        let size = self.config.batch_size().min(n);
        (n, size, n.div_ceil(size))
    }

    /// The optimiser step of an epoch.
    fn sgd(&self, epoch: usize) -> Sgd {
        let config = &self.config;
        let last = config.epochs().saturating_sub(self.first_epoch + 1).max(1);
        let share = epoch.saturating_sub(self.first_epoch) as f64 / last as f64;
        let rate = self.settings.learning_rate * 10_f64.powf(-FALL * share);
        #[expect(clippy::cast_possible_truncation, reason = "training is single precision")]
        let [rate, momentum, decay] =
            [rate, config.momentum(), config.weight_decay()].map(|x| x as f32);
        Sgd { rate, momentum, decay }
    }

    /// One step of one modality on some pairs; returns their part of J.
    fn update(&mut self, m: usize, batch: &[usize], sgd: Sgd) -> Result<f64> {
        let bits = self.config.bits().get();
        let (before, rest) = self.modalities.split_at_mut(m);
        let Some((one, after)) = rest.split_first_mut() else { return Ok(0.0) };
        let chosen: Vec<usize> = batch.iter().map(|&pair| one.pairs[pair]).collect();
        let rows = one.data.rows.batch(&chosen)?;
        let out = one.tower.forward(&rows);
        let f = crate::optimise::floats(out.hash.clone().inner());
        for (row, &pair) in f.chunks_exact(bits).zip(batch) {
            one.buffer[pair * bits..][..bits].copy_from_slice(row);
        }
        let own = one.labels.select(batch);
        let others = before.iter().chain(&*after).map(|s| (&s.buffer[..], &s.labels));
        let codes: Vec<f32> = batch
            .iter()
            .flat_map(|&pair| &self.codes[pair * bits..][..bits])
            .copied()
            .collect();
        let (value, gradient) =
            batch_loss(&f, &own, others, &codes, &one.buffer, bits, &self.settings);
        let shape = [batch.len(), bits];
        let slope = Tensor::<2>::from_data(TensorData::new(gradient, shape), &self.device);
        let mut grads = (out.hash.clone() * slope).sum().backward();
        one.tower.step(&mut grads, &rows, out, [sgd, sgd]);
        Ok(value)
    }
}

impl Objective for PairwiseObjective {
    fn begin_epoch(&mut self, epoch: usize, done: usize) -> usize {
        let (n, size, steps) = self.sizes();
        self.rng = ChaCha8Rng::seed_from_u64(self.config.seed());
        self.rng.set_stream(1 + epoch as u64);
        (0..done).for_each(|_| drop(draw(n, size, &mut self.rng)));
        steps * self.modalities.len()
    }

    fn step(&mut self, at: Position, terms: &mut Terms) -> Result<usize> {
        let (n, size, steps) = self.sizes();
        let batch = draw(n, size, &mut self.rng);
        let sgd = self.sgd(at.epoch);
        let value = self.update(at.step / steps, &batch, sgd)?;
        terms.loss(value / (size * n) as f64);
        Ok(size)
    }

    fn end_epoch(&mut self, _: Position, _: &Terms, _: &[Epoch]) -> Result<()> {
        self.codes = codes(self.modalities.iter().map(|one| &one.buffer[..]));
        Ok(())
    }

    fn learning_rate(&self, epoch: usize) -> f64 {
        f64::from(self.sgd(epoch).rate)
    }

    fn rate_key(&self) -> &'static str {
        "dcmh.learning_rate"
    }

    fn flush(&mut self) {
        self.modalities.iter_mut().for_each(|one| one.tower.flush());
    }

    fn towers(&self) -> Vec<(&ModalityData, &Tower)> {
        self.modalities.iter().map(|one| (&one.data, &one.tower)).collect()
    }

    fn arrays(&self, full: bool) -> Arrays {
        let mut arrays = Arrays::default();
        let bits = self.config.bits().get();
        for one in &self.modalities {
            arrays.push_tower(&one.data.name, &one.tower, full);
            if full {
                arrays.push(format!("buffer.{}", one.data.name), bits, one.buffer.clone());
            }
        }
        if full {
            arrays.push("codes".into(), bits, self.codes.clone());
        }
        arrays
    }

    fn restore(&mut self, mut arrays: Arrays, full: bool, at: Position) -> Result<()> {
        let sgd = self.sgd(at.epoch);
        for one in &mut self.modalities {
            let name = one.data.name.clone();
            arrays.take_tower(&name, &mut one.tower, full, sgd)?;
            if full {
                let buffer = arrays.take(&format!("buffer.{name}"))?.values;
                if buffer.len() != one.buffer.len() {
                    return Err(Error::content(format!(
                        "the buffer of modality {name} differs from the data set"
                    )));
                }
                one.buffer = buffer;
            }
        }
        if full {
            self.codes = arrays.take("codes")?.values;
        }
        Ok(())
    }

    fn into_model(self: Box<Self>, labels: Vec<String>) -> Result<Model> {
        let modalities = self.modalities.into_iter();
        let modalities = modalities.map(|one| ModalityModel::new(one.data, one.tower));
        Ok(Model::new(self.config.bits(), labels, modalities.collect(), Vec::new()))
    }
}

/// The part of J that belongs to a batch of one modality, and its gradient divided by (batch x n):
/// against all items of the others, its codes, and its own buffer.
fn batch_loss<'a>(
    f: &[f32],
    own: &Labels,
    others: impl Iterator<Item = (&'a [f32], &'a Labels)>,
    codes: &[f32],
    buffer: &[f32],
    bits: usize,
    settings: &Settings,
) -> (f64, Vec<f32>) {
    let mut balance = vec![0.0_f64; bits];
    for row in buffer.chunks_exact(bits) {
        balance.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
    }
    let n = (buffer.len() / bits) as f64;
    let (mut value, mut gradient) = (0.0, vec![0.0_f32; f.len()]);
    for (g, labels) in others {
        let (part, slope) = likelihood(f, own, g, labels, bits);
        value += part;
        gradient.iter_mut().zip(slope).for_each(|(g, s)| *g += s);
    }
    let share = (own.len() as f64 * n).recip();
    for (k, slope) in gradient.iter_mut().enumerate() {
        let off = f64::from(f[k] - codes[k]);
        value += settings.gamma * off * off;
        let whole = f64::from(*slope)
            + 2.0 * settings.gamma * off
            + 2.0 * settings.eta * balance[k % bits];
        #[expect(clippy::cast_possible_truncation, reason = "training is single precision")]
        {
            *slope = (whole * share) as f32;
        }
    }
    let balance: f64 = balance.iter().map(|sum| sum * sum).sum();
    (value + settings.eta * balance, gradient)
}

/// B, the signs of the sum of all buffers.
fn codes<'a>(buffers: impl Iterator<Item = &'a [f32]>) -> Vec<f32> {
    let mut sum: Vec<f32> = Vec::new();
    for buffer in buffers {
        sum.resize(buffer.len(), 0.0);
        sum.iter_mut().zip(buffer).for_each(|(sum, x)| *sum += x);
    }
    sum.into_iter().map(|x| if x >= 0.0 { 1.0 } else { -1.0 }).collect()
}

/// A random subset of n items, by a partial Fisher-Yates shuffle.
fn draw(n: usize, count: usize, rng: &mut ChaCha8Rng) -> Vec<usize> {
    let mut all: Vec<usize> = (0..n).collect();
    for k in 0..count {
        let other = rng.random_range(k..n);
        all.swap(k, other);
    }
    all.truncate(count);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// J of two buffers in plain loops.
    fn plain(f: &[f64], g: &[f32], b: &[f32], labels: &Labels, bits: usize) -> f64 {
        let n = labels.len();
        let mut sum = 0.0;
        for i in 0..n {
            for j in 0..n {
                let inner: f64 =
                    (0..bits).map(|k| f[i * bits + k] * f64::from(g[j * bits + k])).sum();
                let theta = 0.5 * inner;
                let similar = labels.shared(i, labels, j) > 0;
                sum += theta.exp().ln_1p() - if similar { theta } else { 0.0 };
            }
        }
        sum += 0.7 * f.iter().zip(b).map(|(f, b)| (f - f64::from(*b)).powi(2)).sum::<f64>();
        for k in 0..bits {
            sum += 0.3 * (0..n).map(|i| f[i * bits + k]).sum::<f64>().powi(2);
        }
        sum
    }

    #[test]
    fn gradient_matches_central_differences() {
        let (n, bits) = (6, 4);
        let labels = Labels::from_indices(3, (0..6_u32).map(|i| vec![i % 3])).unwrap();
        let rows = |seed: f32| -> Vec<f32> {
            (0..n * bits).map(|k| (k as f32 * seed).sin()).collect()
        };
        let (f, g) = (rows(0.7), rows(1.3));
        let b = codes([&f[..], &g[..]].into_iter());
        let settings = Settings { gamma: 0.7, eta: 0.3, ..Settings::default() };
        let others = std::iter::once((&g[..], &labels));
        let (value, gradient) = batch_loss(&f, &labels, others, &b, &f, bits, &settings);
        let wide: Vec<f64> = f.iter().map(|&x| f64::from(x)).collect();
        assert!((value - plain(&wide, &g, &b, &labels, bits)).abs() < 1e-4);
        for k in 0..f.len() {
            let shifted = |by: f64| {
                let mut f = wide.clone();
                f[k] += by;
                plain(&f, &g, &b, &labels, bits)
            };
            let slope = (shifted(1e-5) - shifted(-1e-5)) / 2e-5;
            let found = f64::from(gradient[k]) * (n * n) as f64;
            assert!((found - slope).abs() < 1e-4, "{k}: {found} for {slope}");
        }
    }

    #[test]
    fn codes_are_the_signs_of_the_sum() {
        let found = codes([&[1.0, -2.0, 0.0][..], &[-3.0, 1.0, 0.0][..]].into_iter());
        assert_eq!(found, [-1.0, -1.0, 1.0]);
        let mut drawn = draw(9, 9, &mut ChaCha8Rng::seed_from_u64(1));
        drawn.sort_unstable();
        assert_eq!(drawn, (0..9).collect::<Vec<_>>());
    }
}
