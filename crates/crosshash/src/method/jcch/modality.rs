//! One modality of a JCCH training: its data, its tower and its coefficients.

use burn_tensor::{Device, Int, Tensor, TensorData};
use crosshash_codes::Labels;
use rand_chacha::ChaCha8Rng;
use xxhash_rust::xxh3::xxh3_64;

use super::loss::{LabelledPart, Pairs, Part};
use super::sampler::BatchIndices;
use super::{Reduction, Settings};
use crate::config::Config;
use crate::data::{Features, KeptWords, TextAugmentation, TokenizedTexts, Training};
use crate::image_rows::{Augment, AugmentSeed};
use crate::method::ModalityData;
use crate::method::jcch_plus::Plus;
use crate::optimise::Sgd;
use crate::prepare::{Preparation, Rows};
use crate::step_seed::StepSeed;
use crate::supervise::{self, Coefficients, Kind};
use crate::tower::{Batch, Outputs, Tower};
use crate::train::Position;
use crate::{Error, Result};

/// Streams of random choices.
const WORDS: u64 = 1;
const DROPOUT: u64 = 2;

pub(crate) struct ModalityTrainer {
    pub(crate) data: ModalityData,
    pub(crate) tower: Tower,
    coefficients: Option<Coefficients>, // none without labels
    learning_rates: [f64; 2],           // of the first layer (or network) and of the heads
    classifier: Reduction,
    augment: Option<Augment>,
    seed: u64, // of the augmentation
    /// The words of training texts and how they are augmented.
    texts: Option<(TokenizedTexts, TextAugmentation)>,
    dropout: f64,
}

/// What a modality is made from.
pub(super) struct Sources<'a> {
    pub(super) config: &'a Config,
    pub(super) settings: &'a Settings,
    pub(super) plus: Option<&'a Plus>,
    pub(super) training: &'a Training<'a>,
    /// The labels of the other modalities, if they supervise this one because there are no pairs.
    pub(super) others: Option<Labels>,
}

impl ModalityTrainer {
    /// Fits the preparation and the coefficients on the training items, draws the initial weights.
    pub(super) fn new(
        sources: &Sources<'_>,
        name: &str,
        rng: &mut ChaCha8Rng,
        device: &Device,
    ) -> Result<ModalityTrainer> {
        let Sources { config, settings, plus, training, others } = sources;
        let text = plus.map(Plus::text);
        let mut data = ModalityData::with_text(config, training, name, text.as_ref())?;
        let options = supervise::Options {
            kind: settings.coefficients.unwrap_or(Kind::Auto),
            anchors: settings.anchors,
            scale: settings.scale,
            seed: config.seed(),
            ..supervise::Options::default()
        };
        let coefficients = if training.has_labels() {
            let context = |err| Error::content(format!("modality {name}: {err}"));
            let crossed = others
                .as_ref()
                .map(|others| supervise::between(&data.labels, others, &options));
            let crossed = crossed.transpose().map_err(context)?.flatten();
            Some(match crossed {
                Some(found) => found,
                None => {
                    let found = supervise::supervise(&data.labels, &options, &|_| {});
                    found.map_err(context)?.coefficients
                }
            })
        } else {
            None
        };
        let shape = config.shape(name, &data.preparation, data.labels.classes());
        let Some(finetune) = config.finetune(name) else {
            let texts = match plus.and_then(Plus::augmentation) {
                Some(how) => tokenized(&data, training)?.map(|texts| (texts, how)),
                None => None,
            };
            return Ok(ModalityTrainer {
                tower: Tower::new(shape, rng, device),
                learning_rates: config.learning_rates(name, shape.hidden),
                augment: None,
                seed: config.seed() ^ xxh3_64(name.as_bytes()),
                texts,
                dropout: plus.map_or(0.0, |plus| plus.dropout),
                classifier: settings.classifier,
                data,
                coefficients,
            });
        };
        let network = finetune.network(rng)?;
        let (depth, augment) = (finetune.depth, finetune.augment);
        for rows in [&mut data.rows, &mut data.validation] {
            // Outputs of fixed layers on fixed pictures are computed once.
            if let (Rows::Pixels(rows), None) = (rows, augment) {
                rows.keep(&network, depth.frozen)?;
            }
        }
        let tower = Tower::tuned(shape, network, depth, rng, device);
        let learning_rates = finetune.learning_rates;
        let seed = config.seed() ^ xxh3_64(name.as_bytes());
        Ok(ModalityTrainer {
            tower,
            learning_rates,
            augment,
            seed,
            texts: None,
            dropout: 0.0,
            classifier: settings.classifier,
            data,
            coefficients,
        })
    }

    /// The rows of training items in one step, and the remaining words of augmented texts.
    pub(super) fn batch(
        &self,
        items: &[usize],
        at: Position,
    ) -> Result<(Batch, Option<KeptWords>)> {
        if let Some((texts, how)) = &self.texts {
            let mut rng = self.step_seed(at, WORDS).generator();
            let kept = texts.draw(items, *how, &mut rng);
            return Ok((Batch::Sparse(texts.rows(&kept)?), Some(kept)));
        }
        let look = AugmentSeed { seed: self.seed, epoch: at.epoch, step: at.step };
        Ok((self.data.rows.training_batch(items, look, self.augment)?, None))
    }

    /// Whether its items are texts whose words are known.
    pub(super) fn has_words(&self) -> bool {
        self.texts.is_some()
    }

    /// For every text of a batch, the positions of the items whose texts contain all its words.
    pub(super) fn containing(&self, kept: &KeptWords, items: &[usize]) -> Vec<Vec<usize>> {
        match &self.texts {
            Some((texts, _)) => texts.containing(kept, items),
            None => Vec::new(),
        }
    }

    /// The outputs for a batch of one step.
    pub(super) fn forward(&mut self, batch: &Batch, at: Position) -> Outputs {
        let seed = self.step_seed(at, DROPOUT);
        let drop = (self.dropout > 0.0).then_some((self.dropout, seed));
        self.tower.forward_dropping(batch, drop)
    }

    fn step_seed(&self, at: Position, stream: u64) -> StepSeed {
        StepSeed { seed: self.seed, stream, epoch: at.epoch, step: at.step }
    }

    /// The optimiser steps of the first layer and of the heads in an epoch.
    pub(super) fn sgd(&self, config: &Config, factor: f32) -> [Sgd; 2] {
        self.learning_rates.map(|rate| sgd(config, rate, config.weight_decay(), factor))
    }

    /// The part of the objective that belongs to this modality.
    pub(super) fn part(
        &self,
        items: &[usize],
        out: &Outputs,
        alpha: f64,
        device: &Device,
    ) -> Part {
        let labelled =
            self.coefficients.as_ref().map(|c| self.labelled(c, items, out, device));
        Part { hash: out.hash.clone(), labelled, alpha }
    }

    fn labelled(
        &self,
        coefficients: &Coefficients,
        items: &[usize],
        out: &Outputs,
        device: &Device,
    ) -> LabelledPart {
        let labels = &self.data.labels;
        let classes = labels.classes();
        let mut q = vec![0.0; items.len() * classes];
        let mut u = q.clone();
        coefficients.fill(items, &mut q, &mut u);
        let mut shares = vec![0.0_f32; items.len() * classes];
        for (row, &item) in shares.chunks_exact_mut(classes).zip(items) {
            let share = match self.classifier {
                Reduction::Mean => 1.0 / labels.count(item).max(1) as f32,
                Reduction::Sum => 1.0,
            };
            labels.indices(item).for_each(|label| row[label] = share);
        }
        let tensor = |values: Vec<f32>| -> Tensor<2> {
            Tensor::from_data(TensorData::new(values, [items.len(), classes]), device)
        };
        LabelledPart {
            logits: out.logits.clone(),
            q: tensor(q),
            u: tensor(u),
            shares: tensor(shares),
        }
    }
}

/// The words of the training texts of a modality; `None` if it has other features.
fn tokenized(
    data: &ModalityData,
    training: &Training<'_>,
) -> Result<Option<TokenizedTexts>> {
    let view = training.train(&data.name)?;
    Ok(match (&data.preparation, view.features()) {
        (Preparation::Text(vocabulary), Features::Text(texts)) => {
            Some(TokenizedTexts::new(vocabulary, &texts))
        }
        _ => None,
    })
}

/// The optimiser step for parameters of one learning rate; the schedule multiplies it by `factor`.
pub(super) fn sgd(config: &Config, rate: f64, decay: f64, factor: f32) -> Sgd {
    #[expect(clippy::cast_possible_truncation, reason = "training is single precision")]
    let [rate, momentum, decay] = [rate, config.momentum(), decay].map(|x| x as f32);
    Sgd { rate: rate * factor, momentum, decay }
}

/// The pairs of a batch, by the numbers of the parts that are present.
pub(super) fn pairs(
    indices: &BatchIndices,
    present: &[usize],
    device: &Device,
) -> Vec<Pairs> {
    let part = |m: usize| present.iter().position(|&other| other == m);
    let mut all = Vec::new();
    for (a, b, left, right) in &indices.pairs {
        let (Some(x), Some(y)) = (part(*a), part(*b)) else { continue };
        let in_order = |rows: &[usize], items: &[usize]| {
            rows.len() == items.len() && rows.iter().enumerate().all(|(k, &row)| k == row)
        };
        let whole =
            in_order(left, &indices.items[*a]) && in_order(right, &indices.items[*b]);
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
