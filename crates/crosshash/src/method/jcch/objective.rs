//! JCCH as an [`Objective`] of the training loop: towers of all modalities take one joint step per
//! batch, with the centres that they share.

use std::sync::Arc;

use burn_tensor::{Device, Tensor};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::alpha::Alpha;
use super::loss::{Weights, loss};
use super::modality::{ModalityTrainer, pairs, sgd};
use super::sampler::{Batches, Sampler};
use super::{Settings, misfit};
use crate::checkpoint::Arrays;
use crate::config::Config;
use crate::data::{Training, View};
use crate::method::ModalityData;
use crate::method::modality_data::modalities;
use crate::model::{ModalityModel, Model};
use crate::optimise::Param;
use crate::tower::{Tower, normal};
use crate::train::{Epoch, Objective, Position, Terms};
use crate::{Error, Result};

/// Standard deviation of the initial centres (paper).
const CENTRES: f64 = 0.5;
/// Centres or outputs shorter than this share of the initial centres' mean length: a collapse.
const COLLAPSE: f64 = 0.1;

/// A JCCH training.
pub(crate) struct JcchObjective {
    config: Config,
    settings: Settings,
    modalities: Vec<ModalityTrainer>,
    centres: Param,
    sampler: Arc<Sampler>,
    batches: Option<Batches>, // the rest of the present epoch
    alphas: Vec<Alpha>,
    first_length: f64,
    device: Device,
}

/// What is saved beside the arrays.
#[derive(Serialize, Deserialize)]
struct State {
    alphas: Vec<Alpha>,
}

impl JcchObjective {
    /// Fits preparations and coefficients on the training items, draws the initial weights.
    pub(super) fn new(
        config: &Config,
        settings: Settings,
        training: &Training<'_>,
    ) -> Result<JcchObjective> {
        let names = modalities(config, training)?;
        let device = crate::device::learning();
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed());
        let views: Vec<_> =
            names.iter().map(|&m| training.train(m)).collect::<Result<_>>()?;
        let labels: Vec<_> = views.iter().map(View::labels).collect();
        let sampler = Arc::new(Sampler::new(&views, &labels));
        let mut modalities = Vec::new();
        for &name in &names {
            let new =
                ModalityTrainer::new(config, &settings, training, name, &mut rng, &device);
            modalities.push(new?);
        }
        let bits = config.bits().get();
        let centres = normal(training.label_names().len() * bits, CENTRES, &mut rng);
        let first_length = mean(&lengths(&centres, bits));
        let alpha = match settings.alpha {
            Some(alpha) => Alpha::fixed(alpha),
            None => {
                let steps = sampler.epoch(config.seed(), 0, config.batch_size()).len();
                Alpha::controlled(settings.quantisation_target, steps * config.epochs())
            }
        };
        Ok(JcchObjective {
            config: config.clone(),
            settings,
            alphas: vec![alpha; modalities.len()],
            modalities,
            centres: Param::new(centres, bits, &device),
            sampler,
            batches: None,
            first_length,
            device,
        })
    }

    /// The data and the towers, for a method that starts from them; call `flush` before.
    pub(crate) fn into_towers(self) -> Vec<(ModalityData, Tower)> {
        self.modalities.into_iter().map(|one| (one.data, one.tower)).collect()
    }

    /// Updates the weights of the quantisation terms.
    fn update_alphas(&mut self, present: &[usize], losses: &[f64]) {
        if self.settings.alpha_tied {
            let mean = mean(losses);
            self.alphas.iter_mut().for_each(|alpha| alpha.record(mean));
        } else {
            let recorded = present.iter().zip(losses);
            recorded.for_each(|(&m, &loss)| self.alphas[m].record(loss));
        }
    }

    fn name(&self, m: usize) -> &str {
        &self.modalities[m].data.name
    }

    /// Which labels any training item has.
    fn used_labels(&self) -> Vec<bool> {
        let mut used = vec![false; self.centres.shape()[0]];
        for one in &self.modalities {
            let histogram = one.data.labels.histogram();
            histogram.iter().zip(&mut used).for_each(|(&n, used)| *used |= n > 0);
        }
        used
    }
}

impl Objective for JcchObjective {
    fn begin_epoch(&mut self, epoch: usize, done: usize) -> usize {
        let (seed, batch_size) = (self.config.seed(), self.config.batch_size());
        let mut batches = self.sampler.epoch(seed, epoch, batch_size);
        let all = batches.len();
        batches.by_ref().take(done).for_each(drop);
        self.batches = Some(batches);
        all
    }

    fn step(&mut self, at: Position, terms: &mut Terms) -> Result<usize> {
        let Some(indices) = self.batches.as_mut().and_then(Iterator::next) else {
            return Ok(0);
        };
        let present: Vec<usize> =
            (0..self.modalities.len()).filter(|&m| !indices.items[m].is_empty()).collect();
        let (mut batches, mut outs, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for &m in &present {
            let one = &mut self.modalities[m];
            let batch = one.batch(&indices.items[m], at.epoch, at.step)?;
            let out = one.tower.forward(&batch);
            let alpha = self.alphas[m].value();
            parts.push(one.part(&indices.items[m], &out, alpha, &self.device));
            terms.last(&format!("{}.length", one.data.name), mean_length(&out.hash));
            batches.push(batch);
            outs.push(out);
        }
        let items = indices.items.iter().map(Vec::len).sum();
        let pairs = pairs(&indices, &present, &self.device);
        let centres = self.centres.leaf();
        let Settings { lambda, mu, beta, .. } = self.settings;
        let Some(loss) = loss(parts, &pairs, &centres, Weights { lambda, mu, beta }) else {
            return Ok(items);
        };
        drop(centres);
        let number = |t: &Tensor<1>| f64::from(t.clone().into_scalar::<f32>());
        terms.loss(number(&loss.total));
        let mut quantisation = Vec::new();
        for (&m, part) in present.iter().zip(&loss.terms) {
            let name = self.name(m);
            quantisation.push(number(&part.quantisation));
            for (term, value) in [
                ("classification", number(&part.classification)),
                ("attraction", number(&part.attraction)),
                ("classifier", number(&part.classifier)),
                ("quantisation", number(&part.quantisation)),
            ] {
                terms.mean(&format!("{name}.{term}"), value);
            }
        }
        if let Some(pair) = &loss.pair {
            terms.mean("pair", number(pair));
        }
        terms.check(at)?;
        let mut grads = loss.total.backward();
        drop(loss);
        for ((&m, batch), out) in present.iter().zip(&batches).zip(outs) {
            let one = &mut self.modalities[m];
            let sgd = one.sgd(&self.config, at.epoch);
            one.tower.step(&mut grads, batch, out, sgd);
        }
        let rate = self.settings.learning_rate_centres;
        let rate = rate.unwrap_or(self.config.learning_rate());
        let decay = self.settings.weight_decay_centres;
        let decay = decay.unwrap_or(self.config.weight_decay());
        self.centres.step(&mut grads, sgd(&self.config, rate, decay, at.epoch));
        self.update_alphas(&present, &quantisation);
        for &m in &present {
            terms.last(&format!("{}.alpha", self.name(m)), self.alphas[m].value());
        }
        Ok(items)
    }

    /// Fails when weights are not finite, when the centres of used labels collapse to 0, or when
    /// outputs that had grown do.
    fn end_epoch(&mut self, at: Position, terms: &Terms, history: &[Epoch]) -> Result<()> {
        self.batches = None;
        let centres = lengths(&self.centres.values(), self.config.bits().get());
        if !centres.iter().all(|length| length.is_finite()) {
            return Err(Error::Diverged {
                term: "size of the weights (centres)".into(),
                value: f64::INFINITY,
                epoch: at.epoch + 1,
                step: at.step,
            });
        }
        let first = self.first_length;
        let collapsed = |what: String, length: f64| {
            Err(Error::Collapsed { what, length, epoch: at.epoch + 1, first })
        };
        let limit = COLLAPSE * first;
        let used = self.used_labels();
        let used = centres.iter().zip(&used).filter(|(_, used)| **used);
        let shortest = used.map(|(&length, _)| length).fold(f64::INFINITY, f64::min);
        if shortest < limit {
            return collapsed("the shortest centre".into(), shortest);
        }
        for one in &self.modalities {
            let term = format!("{}.length", one.data.name);
            let length = terms.value(&term).unwrap_or(0.0);
            let grown = |row: &Epoch| row.term(&term).is_some_and(|length| length >= limit);
            if length < limit && history.iter().any(grown) {
                return collapsed(
                    format!("the mean output of modality {}", one.data.name),
                    length,
                );
            }
        }
        Ok(())
    }

    fn learning_rate(&self, epoch: usize) -> f64 {
        let config = &self.config;
        f64::from(sgd(config, config.learning_rate(), config.weight_decay(), epoch).rate)
    }

    fn flush(&mut self) {
        self.modalities.iter_mut().for_each(|one| one.tower.flush());
    }

    fn towers(&self) -> Vec<(&ModalityData, &Tower)> {
        self.modalities.iter().map(|one| (&one.data, &one.tower)).collect()
    }

    fn arrays(&self, full: bool) -> Arrays {
        let mut arrays = Arrays::default();
        arrays.push_param("centres", &self.centres, full);
        for one in &self.modalities {
            arrays.push_tower(&one.data.name, &one.tower, full);
        }
        arrays
    }

    fn restore(&mut self, mut arrays: Arrays, full: bool, epoch: usize) -> Result<()> {
        let [labels, bits] = self.centres.shape();
        self.centres = arrays
            .take_param("centres", [labels, bits], full, &self.device)?
            .ok_or_else(|| misfit("the centres"))?;
        for one in &mut self.modalities {
            let [first, _] = one.sgd(&self.config, epoch);
            arrays.take_tower(&one.data.name, &mut one.tower, full, first)?;
        }
        Ok(())
    }

    fn state(&self) -> Result<toml::Table> {
        toml::Table::try_from(State { alphas: self.alphas.clone() })
            .map_err(|err| Error::content(err.to_string()))
    }

    fn set_state(&mut self, state: toml::Table) -> Result<()> {
        let State { alphas } = state
            .try_into()
            .map_err(|err| Error::content(format!("not the state of JCCH: {err}")))?;
        if alphas.len() != self.modalities.len() {
            return Err(misfit("the state"));
        }
        self.alphas = alphas;
        Ok(())
    }

    fn into_model(self: Box<Self>, labels: Vec<String>) -> Result<Model> {
        let (bits, centres) = (self.config.bits(), self.centres.values());
        let modalities = self.into_towers().into_iter();
        let modalities = modalities.map(|(data, tower)| ModalityModel::new(data, tower));
        Ok(Model::new(bits, labels, modalities.collect(), centres))
    }
}

/// The mean length of the rows of outputs.
fn mean_length(outputs: &Tensor<2>) -> f64 {
    let lengths = outputs.clone().inner().square().sum_dim(1).sqrt();
    f64::from(lengths.mean().into_scalar::<f32>())
}

/// The length of every row.
fn lengths(rows: &[f32], columns: usize) -> Vec<f64> {
    let length =
        |row: &[f32]| row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    rows.chunks_exact(columns).map(length).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
