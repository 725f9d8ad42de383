//! JCCH as an [`Objective`] of the training loop: towers of all modalities take one joint step per
//! batch, with the centres that they share.

use std::sync::Arc;

use burn_tensor::{Device, Tensor};
use crosshash_codes::Labels;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::alpha::Alpha;
use super::loss::{Weights, loss};
use super::modality::{ModalityTrainer, Sources, pairs, sgd};
use super::pair_keys::PairKeys;
use super::sampler::{BatchIndices, Batches, Sampler};
use super::{Settings, misfit};
use crate::checkpoint::Arrays;
use crate::config::Config;
use crate::data::{KeptWords, Training, View};
use crate::loss::towards_signs;
use crate::method::ModalityData;
use crate::method::jcch_plus::{Extra, PairInputs, Plus};
use crate::method::modality_data::modalities;
use crate::model::{ModalityModel, Model};
use crate::optimise::{Average, Param, cosine, held, schedule};
use crate::rotation::Rotation;
use crate::supervise::{Kind, is_single_label};
use crate::tower::{Outputs, Tower, normal};
use crate::train::{Epoch, Objective, Position, Terms};
use crate::{Error, Result};

/// Standard deviation of the initial centres (paper).
const CENTRES: f64 = 0.5;
/// Centres or outputs shorter than this share of the initial mean length of centres are a collapse.
const COLLAPSE: f64 = 0.1;

/// Maximum number of warm-up steps of JCCH+.
const WARMUP: usize = 200;
/// Steps that share a learning rate: lazy rows of sparse layers are updated when it changes.
const HELD: usize = 32;

/// A JCCH training, or one of JCCH+.
pub(crate) struct JcchObjective {
    config: Config,
    settings: Settings,
    modalities: Vec<ModalityTrainer>,
    centres: Param,
    sampler: Arc<Sampler>,
    batches: Option<Batches>, // the rest of the present epoch
    alphas: Vec<Alpha>,
    steps: usize,                 // of an epoch
    extra: Option<Extra>,         // the terms of JCCH+
    keys: Option<PairKeys>,       // with a queue of the instance term
    averaged: Option<Vec<Tower>>, // of the moving average, after an epoch
    first_length: f64,
    device: Device,
}

/// State that is saved with the arrays.
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
        plus: Option<&Plus>,
    ) -> Result<JcchObjective> {
        let names = modalities(config, training)?;
        let device = crate::device::learning();
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed());
        let views: Vec<_> =
            names.iter().map(|&m| training.train(m)).collect::<Result<_>>()?;
        let labels: Vec<_> = views.iter().map(View::labels).collect();
        let kind = settings.coefficients.unwrap_or(Kind::Auto);
        let weighted = kind.is_bound() && !labels.iter().all(is_single_label);
        let sampler = Arc::new(Sampler::new(&views, &labels, !weighted));
        let has_pairs = sampler.is_joint() && names.len() > 1;
        if !training.has_labels() && !has_pairs {
            return Err(Error::Unsuitable {
                method: config.method().name.into(),
                why: format!(
                    "learns from labels or pairs, and these data have no labels and no pairs \
                     between {}; {} need neither",
                    names.join(", "),
                    crate::method::names(|info| !info.labels && !info.pairs && info.codes)
                ),
            });
        }
        let mut modalities = Vec::new();
        for (m, &name) in names.iter().enumerate() {
            let apart = weighted && names.len() > 1 && !sampler.is_joint();
            let others = if apart { Some(others(&labels, m)?) } else { None };
            let sources = Sources { config, settings: &settings, plus, training, others };
            modalities.push(ModalityTrainer::new(&sources, name, &mut rng, &device)?);
        }
        let bits = config.bits().get();
        let centres = normal(training.label_names().len() * bits, CENTRES, &mut rng);
        let first_length = mean(&lengths(&centres, bits));
        let steps = sampler.epoch(config.seed(), 0, config.batch_size()).len();
        let alpha = match settings.alpha {
            Some(alpha) => Alpha::fixed(alpha),
            None => {
                Alpha::controlled(settings.quantisation_target, steps * config.epochs())
            }
        };
        let has_labels = training.has_labels();
        let extra = plus.map(|plus| Extra::new(plus, bits, modalities.len(), has_labels));
        let mut new = JcchObjective {
            config: config.clone(),
            settings,
            alphas: {
                let most = plus.map(|plus| plus.max_alpha);
                let alpha = most.map_or(alpha, |most| alpha.at_most(most));
                vec![alpha; modalities.len()]
            },
            modalities,
            centres: Param::new(centres, bits, &device),
            sampler,
            batches: None,
            steps,
            extra,
            keys: plus
                .filter(|plus| plus.instance_queue > 0)
                .map(|_| PairKeys::new(&views)),
            averaged: None,
            first_length,
            device,
        };
        let weights = new.weights(false);
        if let Some(extra) = &mut new.extra {
            extra.start_average(weights);
        }
        Ok(new)
    }

    /// The data and the towers, for a method that starts from them; call `flush` before.
    pub(crate) fn into_towers(self) -> Vec<(ModalityData, Tower)> {
        let averaged = self.averaged.map(|towers| towers.into_iter().map(Some).collect());
        let averaged: Vec<Option<Tower>> = averaged.unwrap_or_default();
        let averaged = averaged.into_iter().chain(std::iter::repeat_with(|| None));
        let towers = self.modalities.into_iter().zip(averaged);
        towers.map(|(one, tower)| (one.data, tower.unwrap_or(one.tower))).collect()
    }

    /// Every learned matrix; `full`: with the state of the optimiser.
    fn weights(&self, full: bool) -> Arrays {
        let mut arrays = Arrays::default();
        arrays.push_param("centres", &self.centres, full);
        for one in &self.modalities {
            arrays.push_tower(&one.data.name, &one.tower, full);
        }
        arrays
    }

    /// The factor of the schedule for learning rates.
    fn factor(&self, at: Position) -> f32 {
        if self.extra.is_none() {
            return schedule(1.0, at.epoch, self.config.epochs());
        }
        let all = self.steps * self.config.epochs();
        let step = held(at.epoch * self.steps + at.step, HELD);
        cosine(1.0, step, all, WARMUP.min(all / 10))
    }

    /// The first epoch whose outputs are moved towards their signs in the terms of JCCH+.
    fn first_binarised(&self) -> Option<usize> {
        let epochs = self.config.epochs();
        let extra = self.extra.as_ref()?;
        Some(extra.settings.first_binarised(epochs)).filter(|&first| first < epochs)
    }

    /// The outputs that the terms of JCCH+ compare.
    fn compared(&self, outs: &[Outputs], at: Position) -> Vec<Tensor<2>> {
        let binarised = self.first_binarised().is_some_and(|first| at.epoch >= first);
        let share = self.extra.as_ref().filter(|_| binarised).map(|e| e.settings.binarise);
        let one = |out: &Outputs| match share {
            Some(share) => towards_signs(out.hash.clone(), share),
            None => out.hash.clone(),
        };
        outs.iter().map(one).collect()
    }

    /// Adds the terms of JCCH+ to the loss of a batch.
    fn extra_terms(
        &self,
        indices: &BatchIndices,
        present: &[usize],
        outs: &[Outputs],
        compared: &[Tensor<2>],
        kept: &[Option<KeptWords>],
        terms: &mut Terms,
    ) -> Option<Tensor<1>> {
        let extra = self.extra.as_ref()?;
        let mut sum: Option<Tensor<1>> = None;
        let mut add = |term: Option<Tensor<1>>| {
            let Some(term) = term else { return };
            sum = Some(match sum.take() {
                None => term,
                Some(sum) => sum + term,
            });
        };
        let labels: Vec<Labels> = present
            .iter()
            .map(|&m| self.modalities[m].data.labels.select(&indices.items[m]))
            .collect();
        for (x, out) in outs.iter().enumerate() {
            add(extra.balance(&out.hash));
            for y in x + 1..outs.len() {
                let pair = PairInputs {
                    modalities: [present[x], present[y]],
                    outputs: [&compared[x], &compared[y]],
                    labels: [&labels[x], &labels[y]],
                    positives: self.positives(
                        indices,
                        [present[x], present[y]],
                        kept,
                        [x, y],
                    ),
                    queued: [
                        self.queued(
                            &indices.items[present[x]],
                            present[x],
                            present[y],
                            &kept[x],
                        ),
                        self.queued(
                            &indices.items[present[y]],
                            present[y],
                            present[x],
                            &kept[y],
                        ),
                    ],
                };
                let all = [present[x], present[y]].map(|m| &self.modalities[m].data.labels);
                add(extra.pair_terms(&pair, all, &self.device, terms));
            }
        }
        sum
    }

    /// 1 for positives: all pairs of the batch, and the pairs of items whose text contains all remaining
    /// words of a text. Several items of one pair key are no negatives of each other.
    fn positives(
        &self,
        indices: &BatchIndices,
        modalities: [usize; 2],
        kept: &[Option<KeptWords>],
        parts: [usize; 2],
    ) -> Vec<f32> {
        let [a, b] = modalities;
        let columns = indices.items[b].len();
        let mut matrix = vec![0.0; indices.items[a].len() * columns];
        let pairs = indices.pairs.iter().find(|pair| (pair.0, pair.1) == (a, b));
        let Some((_, _, left, right)) = pairs else { return matrix };
        left.iter().zip(right).for_each(|(&i, &j)| matrix[i * columns + j] = 1.0);
        for (side, m) in modalities.into_iter().enumerate() {
            let Some(words) = &kept[parts[side]] else { continue };
            let (texts, others) = if side == 0 { (left, right) } else { (right, left) };
            let mut partners = vec![Vec::new(); indices.items[m].len()];
            texts.iter().zip(others).for_each(|(&text, &other)| partners[text].push(other));
            let containing = self.modalities[m].containing(words, &indices.items[m]);
            for (text, holders) in containing.iter().enumerate() {
                for &other in holders.iter().flat_map(|&holder| &partners[holder]) {
                    let (i, j) = if side == 0 { (text, other) } else { (other, text) };
                    matrix[i * columns + j] = 1.0;
                }
            }
        }
        matrix
    }

    /// 1 for positives among the queued outputs of another modality, by rows of a batch: pairs, and items
    /// with a text that contains all remaining words of a row. `None` without a queue. Queued outputs of
    /// truncated texts are not used, because their words are not known any more.
    fn queued(
        &self,
        rows: &[usize],
        modality: usize,
        other: usize,
        kept: &Option<KeptWords>,
    ) -> Option<Vec<f32>> {
        let (extra, keys) = (self.extra.as_ref()?, self.keys.as_ref()?);
        let slots = extra.queued_items(other);
        let is_truncated =
            self.modalities[other].has_words() && extra.settings.truncate > 0.0;
        if slots.is_empty() || is_truncated {
            return None;
        }
        let mut matrix = vec![0.0; rows.len() * slots.len()];
        for (row, &item) in rows.iter().enumerate() {
            let key = keys.key(modality, item);
            let is_pair = |&&slot: &&usize| keys.key(other, slot) == key;
            for (column, _) in slots.iter().enumerate().filter(|(_, slot)| is_pair(slot)) {
                matrix[row * slots.len() + column] = 1.0;
            }
        }
        if let Some(words) = kept {
            let (mut texts, mut columns) = (Vec::new(), Vec::new());
            for (column, &slot) in slots.iter().enumerate() {
                for &text in keys.partners(modality, (other, slot)) {
                    texts.push(text as usize);
                    columns.push(column);
                }
            }
            let containing = self.modalities[modality].containing(words, &texts);
            for (row, holders) in containing.iter().enumerate() {
                for &holder in holders {
                    matrix[row * slots.len() + columns[holder]] = 1.0;
                }
            }
        }
        Some(matrix)
    }

    /// Updates the moving average of the weights, if it is due.
    fn update_average(&mut self) -> Result<()> {
        let due = |extra: &mut Extra| extra.average.as_mut().is_some_and(Average::step);
        if !self.extra.as_mut().is_some_and(due) {
            return Ok(());
        }
        self.modalities.iter_mut().for_each(|one| one.tower.flush());
        let weights = self.weights(false);
        match self.extra.as_mut().and_then(|extra| extra.average.as_mut()) {
            Some(average) => average.update(&weights),
            None => Ok(()),
        }
    }

    /// The towers of the moving average, if there is one.
    fn average_towers(&self) -> Result<Option<Vec<Tower>>> {
        let average = self.extra.as_ref().and_then(|extra| extra.average.as_ref());
        let Some(average) = average else { return Ok(None) };
        let mut arrays = average.arrays().clone();
        let mut towers = Vec::new();
        for one in &self.modalities {
            let name = &one.data.name;
            let tower = arrays.tower(name, one.tower.shape(), &self.device)?;
            towers.push(tower);
        }
        Ok(Some(towers))
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

    /// The labels that occur in training items.
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
        self.averaged = None;
        all
    }

    fn step(&mut self, at: Position, terms: &mut Terms) -> Result<usize> {
        let Some(indices) = self.batches.as_mut().and_then(Iterator::next) else {
            return Ok(0);
        };
        let present: Vec<usize> =
            (0..self.modalities.len()).filter(|&m| !indices.items[m].is_empty()).collect();
        let (mut batches, mut outs, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        let mut kept = Vec::new();
        if let Some(extra) = &mut self.extra {
            extra.begin_step(&self.device);
        }
        for &m in &present {
            let one = &mut self.modalities[m];
            let (batch, words) = one.batch(&indices.items[m], at)?;
            let out = one.forward(&batch, at);
            kept.push(words);
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
        let plus =
            self.extra.as_ref().map(|extra| (extra.settings.unary, extra.settings.tight));
        let (unary, tight) = plus.unwrap_or((1.0, false));
        let weights = Weights { unary, tight, lambda, mu, beta };
        let Some(mut loss) = loss(parts, &pairs, &centres, weights) else {
            return Ok(items);
        };
        let compared = self.compared(&outs, at);
        let more = self.extra_terms(&indices, &present, &outs, &compared, &kept, terms);
        if let Some(more) = more {
            loss.total = loss.total + more;
        }
        if let Some(extra) = &mut self.extra {
            for (&m, outputs) in present.iter().zip(&compared) {
                extra.enqueue(m, outputs, &indices.items[m]);
            }
        }
        drop((centres, compared));
        let number = |t: &Tensor<1>| f64::from(t.clone().into_scalar::<f32>());
        terms.loss(number(&loss.total));
        let mut quantisation = Vec::new();
        for (&m, part) in present.iter().zip(&loss.terms) {
            let name = self.name(m);
            quantisation.push(number(&part.quantisation));
            if let Some(part) = &part.labelled {
                for (term, value) in [
                    ("classification", number(&part.classification)),
                    ("attraction", number(&part.attraction)),
                    ("classifier", number(&part.classifier)),
                ] {
                    terms.mean(&format!("{name}.{term}"), value);
                }
            }
            terms.mean(&format!("{name}.quantisation"), number(&part.quantisation));
        }
        if let Some(pair) = &loss.pair {
            terms.mean("pair", number(pair));
        }
        terms.check(at, self.rate_key())?;
        let mut grads = loss.total.backward();
        drop(loss);
        let factor = self.factor(at);
        for ((&m, batch), out) in present.iter().zip(&batches).zip(outs) {
            let one = &mut self.modalities[m];
            let sgd = one.sgd(&self.config, factor);
            one.tower.step(&mut grads, batch, out, sgd);
        }
        if let Some(extra) = &mut self.extra {
            let rate = sgd(&self.config, self.config.learning_rate(), 0.0, factor).rate;
            extra.step(&mut grads, 0.1 * rate);
        }
        let rate = self.settings.learning_rate_centres;
        let rate = rate.unwrap_or(self.config.learning_rate());
        let decay = self.settings.weight_decay_centres;
        let decay = decay.unwrap_or(self.config.weight_decay());
        self.centres.step(&mut grads, sgd(&self.config, rate, decay, factor));
        self.update_alphas(&present, &quantisation);
        for &m in &present {
            terms.last(&format!("{}.alpha", self.name(m)), self.alphas[m].value());
        }
        self.update_average()?;
        Ok(items)
    }

    /// Fails if weights are not finite, or if centres of labels that occur or outputs collapse to 0.
    fn end_epoch(&mut self, at: Position, terms: &Terms, history: &[Epoch]) -> Result<()> {
        self.batches = None;
        self.averaged = self.average_towers()?;
        let centres = lengths(&self.centres.values(), self.config.bits().get());
        if !centres.iter().all(|length| length.is_finite()) {
            return Err(Error::Diverged {
                term: "size of the weights (centres)".into(),
                value: f64::INFINITY,
                epoch: at.epoch + 1,
                step: at.step,
                key: self.rate_key(),
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
        // The terms of JCCH+ depend on angles: short outputs are no collapse there.
        let by_length = self.modalities.iter().filter(|_| self.extra.is_none());
        for one in by_length {
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
        let factor = self.factor(Position { epoch, step: 0 });
        f64::from(sgd(&self.config, self.config.learning_rate(), 0.0, factor).rate)
    }

    fn flush(&mut self) {
        self.modalities.iter_mut().for_each(|one| one.tower.flush());
    }

    fn towers(&self) -> Vec<(&ModalityData, &Tower)> {
        match &self.averaged {
            Some(towers) => {
                self.modalities.iter().zip(towers).map(|(one, t)| (&one.data, t)).collect()
            }
            None => self.modalities.iter().map(|one| (&one.data, &one.tower)).collect(),
        }
    }

    fn arrays(&self, full: bool) -> Arrays {
        if !full {
            let average = self.extra.as_ref().and_then(|extra| extra.average.as_ref());
            return average.map_or_else(|| self.weights(false), |a| a.arrays().clone());
        }
        let mut arrays = self.weights(true);
        if let Some(extra) = &self.extra {
            extra.save(&mut arrays);
        }
        arrays
    }

    fn restore(&mut self, mut arrays: Arrays, full: bool, at: Position) -> Result<()> {
        let [labels, bits] = self.centres.shape();
        self.centres = arrays
            .take_param("centres", [labels, bits], full, &self.device)?
            .ok_or_else(|| misfit("the centres"))?;
        self.averaged = None;
        // Pending updates belong to earlier steps.
        let factor = self.factor(Position { step: at.step.saturating_sub(1), ..at });
        for one in &mut self.modalities {
            let [first, _] = one.sgd(&self.config, factor);
            arrays.take_tower(&one.data.name, &mut one.tower, full, first)?;
        }
        match &mut self.extra {
            Some(extra) if full => extra.restore(&mut arrays),
            _ => Ok(()),
        }
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

    fn rotates_before(&self, epoch: usize) -> bool {
        self.first_binarised() == Some(epoch)
    }

    fn rotate(&mut self, rotation: &Rotation) -> Result<()> {
        for (m, one) in self.modalities.iter_mut().enumerate() {
            let mut matrices = one.tower.matrices(true);
            if !rotation.fold(m, &mut matrices) || !one.tower.restore(matrices) {
                return Err(misfit(&one.data.name));
            }
        }
        let (mut centres, [_, bits]) = (self.centres.values(), self.centres.shape());
        rotation.apply_to_centres(&mut centres);
        self.centres = Param::new(centres, bits, &self.device);
        let weights = self.weights(false);
        if let Some(extra) = &mut self.extra {
            extra.start_again(weights);
        }
        Ok(())
    }

    fn into_model(self: Box<Self>, labels: Vec<String>) -> Result<Model> {
        let (bits, centres) = (self.config.bits(), self.centres.values());
        let modalities = self.into_towers().into_iter();
        let modalities = modalities.map(|(data, tower)| ModalityModel::new(data, tower));
        Ok(Model::new(bits, labels, modalities.collect(), centres))
    }
}

/// The labels of all modalities but one.
fn others(labels: &[Labels], one: usize) -> Result<Labels> {
    let mut rest = labels.iter().enumerate().filter(|(m, _)| *m != one).map(|(_, all)| all);
    let first = rest.next().cloned().unwrap_or_else(|| labels[one].select(&[]));
    rest.try_fold(first, |all, more| Ok(all.concat(more)?))
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
