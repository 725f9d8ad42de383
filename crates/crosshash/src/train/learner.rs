//! What is learnt of one modality, and from what.

use burn::tensor::{Device, Int, Tensor, TensorData};
use rand_chacha::ChaCha8Rng;
use xxhash_rust::xxh3::xxh3_64;

use crate::config::Run;
use crate::data::{Analysis, Training};
use crate::method::Items;
use crate::method::jcch::{Pairs, Part};
use crate::optimise::{Sgd, schedule};
use crate::pixels::{Augment, Look};
use crate::prepare::Rows;
use crate::sample::Draw;
use crate::supervise::{self, Coefficients};
use crate::tower::{Batch, Outputs, Tower};
use crate::{Error, Result};

pub(super) struct Learner {
    pub(super) items: Items,
    pub(super) tower: Tower,
    coefficients: Coefficients,
    rates: [f64; 2], // of the first layer (or network) and of the heads
    augment: Option<Augment>,
    seed: u64, // of what varies in pictures
}

impl Learner {
    /// Fits the preparation and the coefficients on the training items, draws first weights.
    pub(super) fn new(
        run: &Run,
        training: &Training<'_>,
        name: &str,
        analysis: &Analysis,
        rng: &mut ChaCha8Rng,
        device: &Device,
    ) -> Result<Learner> {
        let raw = &run.raw;
        let mut items = Items::new(run, training, name, analysis)?;
        let options = supervise::Options {
            kind: run.coefficients,
            anchors: raw.anchors,
            scale: run.scale,
            seed: raw.seed,
            ..supervise::Options::default()
        };
        let found = supervise::supervise(&items.labels, &options, &|_| {});
        let coefficients = found
            .map_err(|err| Error::content(format!("modality {name}: {err}")))?
            .coefficients;
        let shape = run.shape(name, &items.preparation, items.labels.classes());
        let Some(tuning) = run.tuning(name)? else {
            return Ok(Learner {
                tower: Tower::new(shape, rng, device),
                rates: run.rates(name, shape.hidden, raw.rate),
                augment: None,
                seed: 0,
                items,
                coefficients,
            });
        };
        let network = tuning.network(rng)?;
        let (depth, augment) = (tuning.depth, tuning.augment);
        for rows in [&mut items.rows, &mut items.validation] {
            // What does not change need not be computed again.
            if let (Rows::Pixels(rows), None) = (rows, augment) {
                rows.keep(&network, depth.frozen)?;
            }
        }
        let tower = Tower::tuned(shape, network, depth, rng, device);
        let (rates, seed) = (tuning.rates, raw.seed ^ xxh3_64(name.as_bytes()));
        Ok(Learner { tower, rates, augment, seed, items, coefficients })
    }

    /// Some training items, as this step sees them.
    pub(super) fn batch(
        &self,
        items: &[usize],
        epoch: usize,
        step: usize,
    ) -> Result<Batch> {
        let look = Look { seed: self.seed, epoch, step };
        self.items.rows.training_batch(items, look, self.augment)
    }

    /// How the first layer and the heads are stepped in an epoch.
    pub(super) fn steps(&self, run: &Run, epoch: usize) -> [Sgd; 2] {
        self.rates.map(|rate| sgd(run, rate, run.raw.decay, epoch))
    }

    /// This modality's part of the objective.
    pub(super) fn part(
        &self,
        items: &[usize],
        out: &Outputs,
        alpha: f64,
        device: &Device,
    ) -> Part {
        let labels = &self.items.labels;
        let classes = labels.classes();
        let mut q = vec![0.0; items.len() * classes];
        let mut u = q.clone();
        self.coefficients.fill(items, &mut q, &mut u);
        let mut shares = vec![0.0_f32; items.len() * classes];
        for (row, &item) in shares.chunks_exact_mut(classes).zip(items) {
            let share = 1.0 / labels.count(item).max(1) as f32;
            labels.indices(item).for_each(|label| row[label] = share);
        }
        let tensor = |values: Vec<f32>| -> Tensor<2> {
            Tensor::from_data(TensorData::new(values, [items.len(), classes]), device)
        };
        Part {
            hash: out.hash.clone(),
            logits: out.logits.clone(),
            q: tensor(q),
            u: tensor(u),
            shares: tensor(shares),
            alpha,
        }
    }
}

/// The step of an epoch for parameters of one rate.
pub(super) fn sgd(run: &Run, rate: f64, decay: f64, epoch: usize) -> Sgd {
    #[expect(clippy::cast_possible_truncation, reason = "training is single precision")]
    let [rate, momentum, decay] = [rate, run.raw.momentum, decay].map(|x| x as f32);
    Sgd { rate: schedule(rate, epoch, run.raw.epochs), momentum, decay }
}

/// The pairs of a batch, by the numbers of the parts that are present.
pub(super) fn pairs(draw: &Draw, present: &[usize], device: &Device) -> Vec<Pairs> {
    let part = |m: usize| present.iter().position(|&other| other == m);
    let mut all = Vec::new();
    for (a, b, left, right) in &draw.pairs {
        let (Some(x), Some(y)) = (part(*a), part(*b)) else { continue };
        let whole =
            left.len() == draw.items[*a].len() && left.len() == draw.items[*b].len();
        let index = |rows: &[usize]| {
            let rows: Vec<i64> = rows.iter().map(|&row| row as i64).collect();
            let shape = [rows.len()];
            Tensor::<1, Int>::from_data(TensorData::new(rows, shape), device)
        };
        let rows = (!whole).then(|| [index(left), index(right)]);
        all.push(Pairs { parts: [x, y], rows });
    }
    all
}
