//! What is learnt of one modality, and from what.

use burn::tensor::{Device, Int, Tensor, TensorData};
use crosshash_codes::Labels;
use rand_chacha::ChaCha8Rng;

use crate::config::Run;
use crate::data::{Analysis, Training};
use crate::method::Method;
use crate::method::jcch::{Pairs, Part};
use crate::optimise::{Sgd, schedule};
use crate::prepare::{Normalise, Preparation, Rows};
use crate::sample::Draw;
use crate::supervise::{self, Coefficients};
use crate::tower::{Outputs, Shape, Tower};
use crate::{Error, Result};

pub(super) struct Learner {
    pub(super) name: String,
    pub(super) preparation: Preparation,
    pub(super) rows: Rows,
    pub(super) labels: Labels,
    pub(super) validation: Rows,
    pub(super) validation_labels: Labels,
    pub(super) searched: Vec<usize>, // training items that validation searches
    pub(super) tower: Tower,
    coefficients: Coefficients,
    rates: [f64; 2], // of the first layer and of the heads
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
        let (raw, items) = (&run.raw, training.train(name)?);
        let labels = items.labels();
        let options = supervise::Options {
            kind: run.coefficients,
            anchors: raw.anchors,
            scale: run.scale,
            seed: raw.seed,
            ..supervise::Options::default()
        };
        let found = supervise::supervise(&labels, &options, &|_| {});
        let coefficients = found
            .map_err(|err| Error::content(format!("modality {name}: {err}")))?
            .coefficients;
        let own = raw.modality.get(name).cloned().unwrap_or_default();
        let normalise = own.normalise.unwrap_or(Normalise::Standard);
        let preparation = Preparation::fit(training, name, normalise, analysis)?;
        let rows = preparation.rows(items.features())?;
        let held_out = training.validation(name)?;
        let default = if preparation.is_sparse() { raw.hidden_sparse } else { raw.hidden };
        let shape = Shape {
            width: preparation.width(),
            sparse: preparation.is_sparse(),
            hidden: own.hidden.unwrap_or(default),
            bits: run.bits.get(),
            classes: labels.classes(),
        };
        let rate = own.rate.unwrap_or(raw.rate);
        let hidden = own.rate_hidden.unwrap_or(rate);
        let every = rows.len().div_ceil(raw.validation_database.max(1)).max(1);
        Ok(Learner {
            name: name.to_owned(),
            validation: preparation.rows(held_out.features())?,
            validation_labels: held_out.labels(),
            searched: (0..rows.len()).step_by(every).collect(),
            tower: Tower::new(shape, rng, device),
            rates: if shape.hidden > 0 { [hidden, rate] } else { [rate, rate] },
            preparation,
            rows,
            labels,
            coefficients,
        })
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
        let classes = self.labels.classes();
        let mut q = vec![0.0; items.len() * classes];
        let mut u = q.clone();
        self.coefficients.fill(items, &mut q, &mut u);
        let mut shares = vec![0.0_f32; items.len() * classes];
        for (row, &item) in shares.chunks_exact_mut(classes).zip(items) {
            let share = 1.0 / self.labels.count(item).max(1) as f32;
            self.labels.indices(item).for_each(|label| row[label] = share);
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

/// The modalities a run learns.
pub(super) fn modalities<'t>(run: &Run, training: &Training<'t>) -> Result<Vec<&'t str>> {
    let known: Vec<&str> = training.modalities().collect();
    let mut names = Vec::new();
    for name in &run.raw.modalities {
        let found = known.iter().find(|known| *known == name);
        names.push(*found.ok_or_else(|| {
            Error::unknown("modality", name.as_str(), known.iter().copied())
        })?);
    }
    if names.is_empty() {
        names.clone_from(&known);
    }
    if let Some(name) = run.raw.modality.keys().find(|name| !known.contains(&name.as_str()))
    {
        return Err(Error::unknown("modality", name.as_str(), known.iter().copied()));
    }
    if run.method == Method::Scdh && names.len() != 1 {
        return Err(Error::content(format!(
            "scdh learns one modality; choose one of {}, e.g. modalities = [\"{}\"]",
            names.join(", "),
            names[0]
        )));
    }
    Ok(names)
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
