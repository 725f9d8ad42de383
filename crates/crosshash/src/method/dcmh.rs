//! DCMH: deep cross-modal hashing (Jiang and Li, *Deep Cross-Modal Hashing*, CVPR 2017).
//!
//! ```text
//! theta_ij = 1/2 F_i . G_j,   S_ij in {0, 1}
//! J = sum_ij ( log(1 + e^theta_ij) - S_ij theta_ij )
//!     + gamma ( |B - F|^2 + |B - G|^2 ) + eta ( |F 1|^2 + |G 1|^2 ),   B in {-1, 1}
//! dJ/dF_i = 1/2 sum_j (sigma(theta_ij) - S_ij) G_j + 2 gamma (F_i - B_i) + 2 eta sum_j F_j
//! ```
//!
//! F and G are buffers of the outputs of all n training pairs. An epoch: for each modality
//! ceil(n / batch) steps on fresh random batches, whose outputs overwrite the buffer before the
//! gradient, divided by batch x n, goes into the tower; then B = sgn(F + G). The pair term runs in
//! blocks (`loss/likelihood.rs`): no n x n matrix exists. Unseen items: sgn of the tower.
//!
//! Departures: towers on features with hidden layers as for JCCH, not CNN-F; momentum and decay of
//! the run, not plain SGD; the rate falls by 10^-1.5 over the epochs (the authors' MATLAB: 500 of
//! them, from 10^-1.5); buffers begin with the outputs of the first towers instead of 0 or noise;
//! more than two modalities as the sum over all pairs of them; the best epoch by validation; eta
//! 0.001 where the authors have 1: the balance is that of a buffer that is up to an epoch old, so
//! with larger weights steps overshoot, and training diverges unless the rate is so small that
//! hundreds of epochs are needed (IAPR TC-12, rate 0.03: infinite in the first epoch).

use burn::tensor::{Device, Tensor, TensorData};
use crosshash_codes::Labels;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::items::pairs;
use super::{About, Fitting, Items, Learning, Method, validate};
use crate::config::Run;
use crate::data::{Analysis, Training};
use crate::loss::likelihood;
use crate::model::{Model, Side, outputs};
use crate::optimise::Sgd;
use crate::tower::{Matrix, Tower};
use crate::train::{Epoch, Step, Trainer, Watch};
use crate::{Error, Result};

/// How far the rate falls over all epochs, as a power of ten.
const FALL: f64 = 1.5;

/// What can be set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Weight of the distance to the codes.
    pub gamma: f64,
    /// Weight of the balance of bits.
    pub eta: f64,
    /// Learning rate of the pairwise steps.
    pub rate: f64,
    /// Epochs of JCCH before those of DCMH (jcch+dcmh).
    pub warm: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { gamma: 1.0, eta: 0.001, rate: 0.3, warm: 10 }
    }
}

impl Settings {
    pub(crate) fn check(&self) -> Result<()> {
        for (key, value) in [("dcmh.gamma", self.gamma), ("dcmh.eta", self.eta)] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(Error::content(format!(
                    "{key} = {value}: it must be 0 or more"
                )));
            }
        }
        if !(self.rate > 0.0 && self.rate.is_finite()) {
            let rate = self.rate;
            return Err(Error::content(format!("dcmh.rate = {rate}: it must be above 0")));
        }
        Ok(())
    }
}

/// DCMH.
pub(super) struct Dcmh;

pub(super) const ABOUT: About = About {
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
};

impl Method for Dcmh {
    fn about(&self) -> About {
        ABOUT
    }

    fn begin<'r>(
        &self,
        run: &'r Run,
        training: &Training<'_>,
        analysis: &dyn Fn(&str) -> Analysis,
    ) -> Result<Box<dyn Fitting<'r> + 'r>> {
        let items = Items::every(run, training, analysis)?;
        let mut rng = ChaCha8Rng::seed_from_u64(run.raw.seed);
        let device = Device::flex().autodiff();
        let towers = items.iter().map(|items| {
            let shape = run.shape(&items.name, &items.preparation, 0);
            Tower::new(shape, &mut rng, &device)
        });
        let (towers, labels) = (towers.collect(), training.label_names().to_vec());
        let pairs = pairs(self.name(), training, items.iter())?;
        let fresh = Pairwise::new(run, labels, items, pairs, towers, Vec::new(), None)?;
        Ok(Box::new(fresh))
    }
}

/// A training by pairs in progress.
pub(super) struct Pairwise<'r> {
    run: &'r Run,
    first: usize, // epochs of another method before
    labels: Vec<String>,
    sides: Vec<PairSide>,
    codes: Vec<f32>, // B, n x bits
    history: Vec<Epoch>,
    best: Option<(usize, Vec<Vec<Matrix>>)>, // epoch from 1, matrices of every tower
    device: Device,
}

/// One modality; rows of the buffer are pairs, in one order for all modalities.
struct PairSide {
    items: Items,
    pairs: Vec<usize>,
    labels: Labels, // of the pairs
    tower: Tower,
    buffer: Vec<f32>, // F, n x bits
}

impl<'r> Pairwise<'r> {
    /// From towers without classifiers, whose outputs fill the buffers; `history` and its best
    /// epoch are of a method before.
    pub(super) fn new(
        run: &'r Run,
        labels: Vec<String>,
        items: Vec<Items>,
        pairs: Vec<Vec<usize>>,
        towers: Vec<Tower>,
        history: Vec<Epoch>,
        best: Option<usize>,
    ) -> Result<Pairwise<'r>> {
        let mut sides = Vec::new();
        for ((items, pairs), tower) in items.into_iter().zip(pairs).zip(towers) {
            let labels = items.labels.select(&pairs);
            let buffer = outputs(&tower, &items.rows, &pairs, &|_| {})?;
            sides.push(PairSide { items, pairs, labels, tower, buffer });
        }
        let codes = codes(sides.iter().map(|side| &side.buffer[..]));
        let (first, device) = (history.len(), Device::flex().autodiff());
        let mut new =
            Pairwise { run, first, labels, sides, codes, history, best: None, device };
        new.best = best.map(|best| (best, new.matrices()));
        Ok(new)
    }

    /// One step of one modality on some pairs; the part of J they have.
    fn step(&mut self, m: usize, batch: &[usize], sgd: Sgd) -> Result<f64> {
        let bits = self.run.bits.get();
        let (before, rest) = self.sides.split_at_mut(m);
        let Some((side, after)) = rest.split_first_mut() else { return Ok(0.0) };
        let chosen: Vec<usize> = batch.iter().map(|&pair| side.pairs[pair]).collect();
        let rows = side.items.rows.batch(&chosen)?;
        let out = side.tower.forward(&rows);
        let f = crate::optimise::floats(out.hash.clone().inner());
        for (row, &pair) in f.chunks_exact(bits).zip(batch) {
            side.buffer[pair * bits..][..bits].copy_from_slice(row);
        }
        let own = side.labels.select(batch);
        let others = before.iter().chain(&*after).map(|s| (&s.buffer[..], &s.labels));
        let codes: Vec<f32> = batch
            .iter()
            .flat_map(|&pair| &self.codes[pair * bits..][..bits])
            .copied()
            .collect();
        let settings = &self.run.raw.dcmh;
        let (value, gradient) =
            objective(&f, &own, others, &codes, &side.buffer, bits, settings);
        let shape = [batch.len(), bits];
        let slope = Tensor::<2>::from_data(TensorData::new(gradient, shape), &self.device);
        let mut grads = (out.hash.clone() * slope).sum().backward();
        side.tower.step(&mut grads, &rows, out, [sgd, sgd]);
        Ok(value)
    }

    /// The step size of an epoch.
    fn sgd(&self, epoch: usize) -> Sgd {
        let raw = &self.run.raw;
        let last = raw.epochs.saturating_sub(self.first + 1).max(1);
        let share = (epoch - self.first) as f64 / last as f64;
        let rate = raw.dcmh.rate * 10_f64.powf(-FALL * share);
        #[expect(clippy::cast_possible_truncation, reason = "training is single precision")]
        let [rate, momentum, decay] = [rate, raw.momentum, raw.decay].map(|x| x as f32);
        Sgd { rate, momentum, decay }
    }

    fn matrices(&self) -> Vec<Vec<Matrix>> {
        self.sides.iter().map(|side| side.tower.matrices(true)).collect()
    }
}

impl<'r> Fitting<'r> for Pairwise<'r> {
    fn history(&self) -> &[Epoch] {
        &self.history
    }

    fn best_epoch(&self) -> Option<usize> {
        self.best.as_ref().map(|(epoch, _)| *epoch)
    }

    fn is_done(&self) -> bool {
        self.history.len() >= self.run.raw.epochs
    }

    fn epoch(&mut self, watch: &mut Watch<'_>) -> Result<Option<&Epoch>> {
        if self.is_done() {
            return Ok(self.history.last());
        }
        let epoch = self.history.len();
        let (raw, sgd) = (&self.run.raw, self.sgd(epoch));
        let mut rng = ChaCha8Rng::seed_from_u64(raw.seed);
        rng.set_stream(1 + epoch as u64);
        let n = self.sides[0].pairs.len();
        let size = raw.batch.min(n);
        let steps = n.div_ceil(size);
        let all = steps * self.sides.len();
        let (mut sum, mut done) = (0.0, 0);
        for m in 0..self.sides.len() {
            for _ in 0..steps {
                let batch = draw(n, size, &mut rng);
                let value = self.step(m, &batch, sgd)?;
                done += 1;
                if !value.is_finite() {
                    let term = "pairwise loss".into();
                    let step = done;
                    return Err(Error::Diverged { term, value, epoch: epoch + 1, step });
                }
                sum += value / (size * n) as f64;
                let loss = sum / done as f64;
                let row =
                    || Epoch { loss, ..Epoch::numbered(epoch + 1, f64::from(sgd.rate)) };
                let items = done * size;
                if watch(&Step { done, all, batch: size, items, so_far: &row }).is_break() {
                    return Ok(None);
                }
            }
        }
        self.codes = codes(self.sides.iter().map(|side| &side.buffer[..]));
        self.sides.iter_mut().for_each(|side| side.tower.settle());
        if let Some(side) = self.sides.iter().find(|side| !side.tower.is_finite()) {
            return Err(Error::Diverged {
                term: format!("size of the weights ({})", side.items.name),
                value: f64::INFINITY,
                epoch: epoch + 1,
                step: all,
            });
        }
        let sides = self.sides.iter().map(|side| (&side.items, &side.tower));
        let map = validate(self.run.bits, sides)?;
        let best = self.best.as_ref().and_then(|(best, _)| self.history[best - 1].map);
        if self.best.is_none() || map.is_none() || map > best {
            self.best = Some((epoch + 1, self.matrices()));
        }
        let loss = sum / all as f64;
        let row = Epoch { loss, map, ..Epoch::numbered(epoch + 1, f64::from(sgd.rate)) };
        self.history.push(row);
        Ok(self.history.last())
    }

    fn finish(self: Box<Self>) -> Result<Model> {
        let best = self.best.map(|(_, matrices)| matrices).unwrap_or_default();
        let mut best = best.into_iter();
        let mut sides = Vec::new();
        for side in self.sides {
            let Items { name, origin, preparation, .. } = side.items;
            let shape = side.tower.shape();
            let kept = best
                .next()
                .and_then(|matrices| Tower::from_matrices(shape, matrices, &self.device));
            let tower = kept.unwrap_or(side.tower);
            sides.push(Side { name, origin, preparation, tower });
        }
        Ok(Model::new(self.run.bits, self.labels, sides, Vec::new()))
    }

    fn trainer(&mut self) -> Option<&mut Trainer<'r>> {
        None
    }
}

/// The part of J that a batch of one modality has, and its gradient over (batch x n): against all
/// items of the others, its codes, and the buffer it stands in.
fn objective<'a>(
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

/// Some of n, each once: the first of a shuffle, by Fisher and Yates.
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
    fn the_gradient_is_the_slope_of_the_objective() {
        let (n, bits) = (6, 4);
        let labels = Labels::from_indices(3, (0..6_u32).map(|i| vec![i % 3])).unwrap();
        let rows = |seed: f32| -> Vec<f32> {
            (0..n * bits).map(|k| (k as f32 * seed).sin()).collect()
        };
        let (f, g) = (rows(0.7), rows(1.3));
        let b = codes([&f[..], &g[..]].into_iter());
        let settings = Settings { gamma: 0.7, eta: 0.3, ..Settings::default() };
        let others = std::iter::once((&g[..], &labels));
        let (value, gradient) = objective(&f, &labels, others, &b, &f, bits, &settings);
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
