//! Methods with several networks, each with its own optimiser (Adam): what they share.
//!
//! A method implements [`Recipe`]: its steps on batches, the end of an epoch, and the tower of every
//! modality that its networks amount to. [`DeepObjective`] supplies batches, checkpoints and the model.
//! Everything that training changes is in [`Work`]: networks and buffers of all training items.

use std::collections::BTreeMap;
use std::sync::Arc;

use burn_tensor::{Device, Tensor, TensorData};
use crosshash_codes::Labels;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

use super::jcch::sampler::Sampler;
use super::modality_data::pairs;
use super::{Begun, ModalityData};
use crate::checkpoint::{Array, Arrays};
use crate::config::Config;
use crate::data::{Training, View};
use crate::model::{ModalityModel, Model};
use crate::optimise::{Adam, floats};
use crate::step_seed::StepSeed;
use crate::tower::{Input, Mlp, MlpShape, Pass, Tower};
use crate::train::{Epoch, Objective, Position, Terms};
use crate::{Error, Result};

/// Items per block when all items are coded.
const BLOCK: usize = 256;
/// Players diverge when a loss exceeds this many times its first value plus 1.
const PLAYERS: f64 = 20.0;

/// Networks, buffers and data of a training.
pub(super) struct Work {
    pub(super) config: Config,
    pub(super) data: Vec<ModalityData>,
    pub(super) nets: Vec<(String, Mlp)>,
    /// Arrays of all training items or pairs, by name; saved with a checkpoint.
    pub(super) buffers: BTreeMap<String, Array>,
    /// Items of every pair, by modality; empty without pairs.
    pub(super) pairs: Vec<Vec<usize>>,
    pub(super) device: Device,
}

/// A batch: items of every modality and, in a training by pairs, the pairs.
#[derive(Debug, Clone, Default)]
pub(super) struct DeepBatch {
    pub(super) items: Vec<Vec<usize>>,
    pub(super) rows: Vec<usize>,
}

/// Where a step is.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    pub(super) position: Position,
    /// The pass over the batches of this epoch, from 0.
    pub(super) pass: usize,
    /// The share of the training that is done.
    pub(super) share: f64,
}

/// A method on [`Work`].
pub(super) trait Recipe: Send {
    /// Passes over the training items in an epoch.
    fn passes(&self) -> usize {
        1
    }

    /// The learning rate of an epoch.
    fn learning_rate(&self, epoch: usize, epochs: usize) -> f64;

    /// The key of the learning rate.
    fn rate_key(&self) -> &'static str;

    /// One step.
    fn step(
        &mut self,
        work: &mut Work,
        batch: &DeepBatch,
        at: At,
        terms: &mut Terms,
    ) -> Result<()>;

    /// After the last step of an epoch.
    fn end_epoch(&mut self, _: &mut Work, _: Position) -> Result<()> {
        Ok(())
    }

    /// The terms of the two players, if there are two, and the keys that steady them.
    fn players(&self) -> Option<([&'static str; 2], &'static str)> {
        None
    }

    /// The tower of every modality.
    fn towers(&self, work: &Work) -> Result<Vec<Tower>>;
}

/// Which batches a method takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Batching {
    /// Pairs of items: the k-th items of all modalities are a pair.
    Pairs,
    /// Items of every modality, those of a pair together if there are pairs.
    Items,
}

/// A training of several networks.
pub(super) struct DeepObjective {
    work: Work,
    recipe: Box<dyn Recipe>,
    sampler: Option<Arc<Sampler>>, // none: pairs
    batches: std::vec::IntoIter<(usize, DeepBatch)>,
    steps: usize, // of an epoch
    towers: Vec<Tower>,
}

impl Work {
    /// Data of all modalities, without networks.
    pub(super) fn new(
        config: &Config,
        training: &Training<'_>,
        batching: Batching,
    ) -> Result<Work> {
        let data = ModalityData::every(config, training)?;
        let pairs = match batching {
            Batching::Pairs => pairs(config.method().name, training, &data)?,
            Batching::Items => Vec::new(),
        };
        Ok(Work {
            config: config.clone(),
            data,
            nets: Vec::new(),
            buffers: BTreeMap::new(),
            pairs,
            device: crate::device::learning(),
        })
    }

    /// Rejects other numbers of modalities than two.
    pub(super) fn two_modalities(&self) -> Result<()> {
        if self.data.len() == 2 {
            return Ok(());
        }
        let names: Vec<&str> = self.data.iter().map(|one| one.name.as_str()).collect();
        Err(Error::Unsuitable {
            method: self.config.method().name.into(),
            why: format!(
                "learns two modalities; choose two of {}, e.g. modalities = [\"{}\", \"{}\"]",
                names.join(", "),
                names[0],
                names.last().unwrap_or(&names[0])
            ),
        })
    }

    /// Adds a network; returns its number.
    pub(super) fn add(
        &mut self,
        name: &str,
        shape: MlpShape,
        rng: &mut ChaCha8Rng,
    ) -> usize {
        self.nets.push((name.to_owned(), Mlp::new(shape, rng, &self.device)));
        self.nets.len() - 1
    }

    /// Width and form of the features of a modality.
    pub(super) fn input_shape(&self, m: usize) -> (usize, bool) {
        let preparation = &self.data[m].preparation;
        (preparation.width(), preparation.is_sparse())
    }

    /// The hidden units that the configuration gives to the tower of a modality.
    pub(super) fn hidden(&self, m: usize) -> usize {
        let one = &self.data[m];
        self.config.shape(&one.name, &one.preparation, 0).hidden
    }

    /// The features of some items.
    pub(super) fn input(&self, m: usize, items: &[usize]) -> Result<Input> {
        let one = &self.data[m];
        Input::new(one.rows.batch(items)?, one.preparation.width(), &self.device)
    }

    /// The features of some items as dense rows.
    pub(super) fn dense(&self, m: usize, items: &[usize]) -> Result<Tensor<2>> {
        Ok(self.input(m, items)?.dense(&self.device))
    }

    /// The labels of some items.
    pub(super) fn labels(&self, m: usize, items: &[usize]) -> Labels {
        self.data[m].labels.select(items)
    }

    /// Applies a network.
    pub(super) fn forward(&self, net: usize, input: Input) -> Pass {
        self.nets[net].1.forward(input)
    }

    /// Applies a network to dense rows.
    pub(super) fn apply(&self, net: usize, rows: Tensor<2>) -> Tensor<2> {
        self.forward(net, Input::Dense(rows)).out
    }

    /// A function of the features of items, for all items of a modality or some, without gradients.
    pub(super) fn for_all(
        &self,
        m: usize,
        items: &[usize],
        of: impl Fn(Input) -> Tensor<2>,
    ) -> Result<Vec<f32>> {
        let mut out = Vec::new();
        for block in items.chunks(BLOCK) {
            out.extend(floats(of(self.input(m, block)?).inner()));
        }
        Ok(out)
    }

    /// The rows of a buffer.
    pub(super) fn rows(&self, name: &str, rows: &[usize]) -> Result<Tensor<2>> {
        let Array { columns, values } = self.buffer(name)?;
        let mut chosen: Vec<f32> = Vec::with_capacity(rows.len() * columns);
        rows.iter().for_each(|&row| chosen.extend(&values[row * columns..][..*columns]));
        let data = TensorData::new(chosen, [rows.len(), *columns]);
        Ok(Tensor::from_data(data, &self.device))
    }

    /// Replaces rows of a buffer.
    pub(super) fn set_rows(
        &mut self,
        name: &str,
        rows: &[usize],
        tensor: &Tensor<2>,
    ) -> Result<()> {
        let found = floats(tensor.clone().inner());
        let Some(Array { columns, values }) = self.buffers.get_mut(name) else {
            return Err(no_buffer(name));
        };
        for (&row, found) in rows.iter().zip(found.chunks_exact(*columns)) {
            values[row * *columns..][..*columns].copy_from_slice(found);
        }
        Ok(())
    }

    /// A buffer by name.
    pub(super) fn buffer(&self, name: &str) -> Result<&Array> {
        self.buffers.get(name).ok_or_else(|| no_buffer(name))
    }

    /// A random generator of a step.
    pub(super) fn generator(&self, at: Position, stream: u64) -> ChaCha8Rng {
        let Position { epoch, step } = at;
        StepSeed { seed: self.config.seed(), stream, epoch, step }.generator()
    }

    /// Steps several networks with the gradients of one backward pass.
    pub(super) fn update(
        &mut self,
        loss: Tensor<1>,
        passes: &[(usize, &[&Pass])],
        adam: Adam,
    ) {
        let mut grads = loss.backward();
        for (net, passes) in passes {
            self.nets[*net].1.step(&mut grads, passes, adam);
        }
    }
}

fn no_buffer(name: &str) -> Error {
    Error::content(format!("no buffer {name}"))
}

/// Adam of a learning rate, without weight decay.
pub(super) fn adam(rate: f64, beta1: f32) -> Adam {
    #[expect(clippy::cast_possible_truncation, reason = "training is single precision")]
    let rate = rate as f32;
    Adam { beta1, decoupled: false, ..Adam::decoupled(rate, 0.0) }
}

/// Multiplied by 0.1 at 60 % and 85 % of the epochs, as for all methods.
pub(super) fn stepped(rate: f64, epoch: usize, epochs: usize) -> f64 {
    rate * f64::from(crate::optimise::schedule(1.0, epoch, epochs))
}

impl DeepObjective {
    /// A training of a method whose networks are in `work`.
    pub(super) fn begin(
        work: Work,
        recipe: Box<dyn Recipe>,
        training: &Training<'_>,
    ) -> Result<Begun> {
        let sampler = if work.pairs.is_empty() {
            let views: Vec<View<'_>> = work
                .data
                .iter()
                .map(|one| training.train(&one.name))
                .collect::<Result<_>>()?;
            let labels: Vec<Labels> =
                work.data.iter().map(|one| one.labels.clone()).collect();
            Some(Arc::new(Sampler::new(&views, &labels, training.has_labels())))
        } else {
            None
        };
        let towers = recipe.towers(&work)?;
        let batches = Vec::new().into_iter();
        Ok(Begun::Gradient(Box::new(DeepObjective {
            work,
            recipe,
            sampler,
            batches,
            steps: 1,
            towers,
        })))
    }

    /// The batches of one pass.
    fn pass(&self, epoch: usize, pass: usize) -> Vec<DeepBatch> {
        let config = &self.work.config;
        let stream = epoch * self.recipe.passes() + pass;
        if let Some(sampler) = &self.sampler {
            let batches = sampler.epoch(config.seed(), stream, config.batch_size());
            let batch = |drawn: super::jcch::sampler::BatchIndices| DeepBatch {
                items: drawn.items,
                rows: Vec::new(),
            };
            let is_whole =
                |batch: &DeepBatch| batch.items.iter().all(|own| !own.is_empty());
            return batches.map(batch).filter(is_whole).collect();
        }
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed());
        rng.set_stream(1 + stream as u64);
        let mut order: Vec<usize> = (0..self.work.pairs[0].len()).collect();
        order.shuffle(&mut rng);
        let size = config.batch_size();
        let steps = ((order.len() + size / 2) / size).max(1);
        let batch = |rows: &[usize]| DeepBatch {
            items: {
                let of = |own: &Vec<usize>| rows.iter().map(|&row| own[row]).collect();
                self.work.pairs.iter().map(of).collect()
            },
            rows: rows.to_vec(),
        };
        order.chunks(order.len().div_ceil(steps).max(1)).map(batch).collect()
    }
}

impl Objective for DeepObjective {
    fn begin_epoch(&mut self, epoch: usize, done: usize) -> usize {
        let passes = 0..self.recipe.passes();
        let all: Vec<(usize, DeepBatch)> = passes
            .flat_map(|pass| self.pass(epoch, pass).into_iter().map(move |b| (pass, b)))
            .collect();
        self.steps = all.len();
        self.batches = all.into_iter();
        self.batches.by_ref().take(done).for_each(drop);
        self.steps
    }

    fn step(&mut self, position: Position, terms: &mut Terms) -> Result<usize> {
        let Some((pass, batch)) = self.batches.next() else { return Ok(0) };
        let epochs = self.work.config.epochs().max(1) as f64;
        let within = position.step as f64 / self.steps.max(1) as f64;
        let share = (position.epoch as f64 + within) / epochs;
        let at = At { position, pass, share };
        self.recipe.step(&mut self.work, &batch, at, terms)?;
        Ok(batch.items.iter().map(Vec::len).sum())
    }

    fn end_epoch(&mut self, at: Position, terms: &Terms, history: &[Epoch]) -> Result<()> {
        if let Some((players, keys)) = self.recipe.players() {
            check_players(
                self.work.config.method().name,
                at,
                terms,
                history,
                players,
                keys,
            )?;
        }
        if let Some((name, _)) = self.work.nets.iter().find(|(_, net)| !net.is_finite()) {
            return Err(Error::Diverged {
                term: format!("size of the weights ({name})"),
                value: f64::INFINITY,
                epoch: at.epoch + 1,
                step: at.step,
                key: self.recipe.rate_key(),
            });
        }
        self.recipe.end_epoch(&mut self.work, at)?;
        self.towers = self.recipe.towers(&self.work)?;
        Ok(())
    }

    fn learning_rate(&self, epoch: usize) -> f64 {
        self.recipe.learning_rate(epoch, self.work.config.epochs())
    }

    fn rate_key(&self) -> &'static str {
        self.recipe.rate_key()
    }

    fn flush(&mut self) {}

    fn towers(&self) -> Vec<(&ModalityData, &Tower)> {
        self.work.data.iter().zip(&self.towers).collect()
    }

    fn arrays(&self, full: bool) -> Arrays {
        let mut arrays = Arrays::default();
        self.work.nets.iter().for_each(|(name, net)| net.save(name, &mut arrays, full));
        for (name, Array { columns, values }) in &self.work.buffers {
            if full {
                arrays.push(format!("buffer.{name}"), *columns, values.clone());
            }
        }
        arrays
    }

    fn restore(&mut self, mut arrays: Arrays, full: bool, _: Position) -> Result<()> {
        for (name, net) in &mut self.work.nets {
            net.restore(name, &mut arrays, full)?;
        }
        for (name, buffer) in &mut self.work.buffers {
            if full {
                let found = arrays.take(&format!("buffer.{name}"))?;
                if found.values.len() != buffer.values.len() {
                    return Err(Error::content(format!(
                        "buffer {name} differs from the data set"
                    )));
                }
                *buffer = found;
            }
        }
        self.towers = self.recipe.towers(&self.work)?;
        Ok(())
    }

    fn into_model(self: Box<Self>, labels: Vec<String>) -> Result<Model> {
        let modalities = self.work.data.into_iter().zip(self.towers);
        let modalities = modalities.map(|(data, tower)| ModalityModel::new(data, tower));
        Ok(Model::new(self.work.config.bits(), labels, modalities.collect(), Vec::new()))
    }
}

/// Fails if the loss of a player grew far beyond its value in the first epoch.
fn check_players(
    method: &str,
    at: Position,
    terms: &Terms,
    history: &[Epoch],
    players: [&'static str; 2],
    keys: &'static str,
) -> Result<()> {
    let first = |name: &str| history.first().and_then(|row| row.term(name));
    let grown = |name: &&str| {
        let (Some(first), Some(now)) = (first(name), terms.value(name)) else {
            return false;
        };
        now > PLAYERS * (1.0 + first.abs())
    };
    if !players.iter().any(grown) {
        return Ok(());
    }
    let told = players.map(|name| {
        let (now, first) = (terms.value(name), first(name));
        format!(
            "{name} {:.3} ({:.3} in epoch 1)",
            now.unwrap_or(f64::NAN),
            first.unwrap_or(f64::NAN)
        )
    });
    Err(Error::PlayersDiverged {
        method: method.to_owned(),
        epoch: at.epoch + 1,
        losses: told.join(", "),
        keys,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::Term;

    #[test]
    fn players_that_diverge_are_reported_with_both_losses() {
        let term = |name: &str, value| Term { name: name.into(), value };
        let first = Epoch {
            epoch: 1,
            learning_rate: 0.1,
            loss: 1.0,
            terms: vec![term("generator", 0.5), term("discriminator", 0.7)],
            validation: None,
        };
        let check = |generator: f64| {
            let mut terms = Terms::default();
            terms.mean("generator", generator);
            terms.mean("discriminator", 1e-5);
            let at = Position { epoch: 4, step: 9 };
            let players = ["generator", "discriminator"];
            check_players("gdh", at, &terms, std::slice::from_ref(&first), players, "gdh.x")
        };
        assert!(check(29.0).is_ok());
        let err = check(31.0).unwrap_err().to_string();
        assert_eq!(
            err,
            "the players of gdh diverged in epoch 5: generator 31.000 (0.500 in epoch 1), \
             discriminator 0.000 (0.700 in epoch 1); lower gdh.x"
        );
    }
}
