//! Training: the loop that gradient methods share. Towers of all modalities take one joint step
//! per batch; after each epoch the model is judged on held-out items, and the best epoch by
//! that judgement is what training returns. Test queries cannot be reached from here.
//!
//! A [`Trainer`] can stop after any step: its state is saved whole, and a resumed training goes
//! on exactly as it would have, to the last bit. Batches depend on seed and epoch, weights on the
//! seed.
//!
//! ```
//! use crosshash::config::RawRun;
//! use crosshash::data::{Analysis, Dataset, Dense, Features, Modality, Plan};
//! use crosshash::train::{Trainer, unwatched};
//! use crosshash_codes::Labels;
//!
//! let rows = Dense::from_floats(2, vec![0.0, 1.0, 0.1, 0.9, 1.0, 0.0, 0.9, 0.1])?;
//! let labels = Labels::from_indices(2, [[0], [0], [1], [1]])?;
//! let ids = ["a", "b", "c", "d"].map(String::from).to_vec();
//! let image = Modality::new("image", ids, Features::Dense(rows), labels)?;
//! let names = vec!["dark".to_owned(), "light".to_owned()];
//! let dataset = Dataset::new("tiny", names, vec![image])?;
//! let split = Plan::default().draw(&dataset)?;
//!
//! let run = RawRun::parse("method = \"scdh\"\nbits = 8\nhidden = 0\nepochs = 2", &[])?.check()?;
//! let training = dataset.training(&split);
//! let mut trainer = Trainer::new(&run, &training, &|_| Analysis::default())?;
//! while !trainer.is_done() {
//!     trainer.epoch(&mut unwatched)?;
//! }
//! assert_eq!(trainer.history().len(), 2);
//! # Ok::<(), crosshash::Error>(())
//! ```

mod epoch;
mod learner;

pub use epoch::{Epoch, EpochOf, Step, Watch, unwatched};

use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::alpha::Alpha;
use crate::checkpoint::Arrays;
use crate::config::Run;
use crate::data::{Analysis, Training};
use crate::method::jcch::objective;
use crate::method::{Items, modalities, validate};
use crate::model::{Model, Side};
use crate::optimise::Param;
use crate::sample::{Draw, Sampler};
use crate::tower::{Matrix, Tower, normal};
use crate::{Error, Result};
use epoch::Sums;
use learner::{Learner, pairs, sgd};

/// The deviation of the first centres (paper).
const CENTRES: f64 = 0.5;
/// Centres or outputs shorter than this share of the first centres' mean length: a collapse.
const COLLAPSE: f64 = 0.1;

/// What is saved beside the matrices.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct State {
    data: String, // a fingerprint
    config: String,
    note: String,        // the caller's
    best: Option<usize>, // epoch
    alphas: Vec<Alpha>,
    partial: Option<Sums>, // of an epoch that was left
    history: Vec<Epoch>,
}

/// A training in progress.
pub struct Trainer<'a> {
    run: &'a Run,
    labels: Vec<String>,
    sides: Vec<Learner>,
    centres: Param,
    sampler: Arc<Sampler>,
    state: State,
    best: Option<Arrays>, // None: the last epoch is the best
    first_length: f64,
    broken: bool, // by an error within an epoch: what there is now is no state to go on from
    device: Device,
}

impl<'a> Trainer<'a> {
    /// Prepares everything: fits preparations and coefficients on the training items, draws
    /// the first weights. `analysis` says how the texts of a modality are read.
    pub fn new(
        run: &'a Run,
        training: &Training<'_>,
        analysis: &dyn Fn(&str) -> Analysis,
    ) -> Result<Trainer<'a>> {
        let names = modalities(run, training)?;
        let device = Device::flex().autodiff();
        let mut rng = ChaCha8Rng::seed_from_u64(run.raw.seed);
        let views: Vec<_> =
            names.iter().map(|&m| training.train(m)).collect::<Result<_>>()?;
        let labels: Vec<_> = views.iter().map(crate::data::View::labels).collect();
        let sampler = Arc::new(Sampler::new(&views, &labels));
        let mut sides = Vec::new();
        for &name in &names {
            let analysis = analysis(name);
            sides.push(Learner::new(run, training, name, &analysis, &mut rng, &device)?);
        }
        let bits = run.bits.get();
        let labels = training.label_names().to_vec();
        let centres = normal(labels.len() * bits, CENTRES, &mut rng);
        let first_length = mean(&lengths(&centres, bits));
        let alpha = match run.raw.alpha {
            Some(alpha) => Alpha::fixed(alpha),
            None => {
                let steps = sampler.epoch(run.raw.seed, 0, run.raw.batch).len();
                Alpha::towards(run.raw.quantisation, steps * run.raw.epochs)
            }
        };
        let state = State {
            data: format!("{:016x}", training.fingerprint()?),
            config: run.raw.to_toml()?,
            alphas: vec![alpha; sides.len()],
            ..State::default()
        };
        let centres = Param::new(centres, bits, &device);
        Ok(Trainer {
            run,
            labels,
            sides,
            centres,
            sampler,
            state,
            best: None,
            first_length,
            broken: false,
            device,
        })
    }

    /// The epochs so far.
    pub fn history(&self) -> &[Epoch] {
        &self.state.history
    }

    /// The best epoch so far by validation, from 1; without validation, the last.
    pub fn best_epoch(&self) -> Option<usize> {
        self.state.best
    }

    /// Whether modalities have items in common.
    pub fn is_paired(&self) -> bool {
        self.sampler.is_joint()
    }

    /// Whether all epochs are done.
    pub fn is_done(&self) -> bool {
        self.state.history.len() >= self.run.raw.epochs
    }

    /// Trains one epoch, or the rest of one that was left, and judges it; `None` if the watcher
    /// asked to stop within it. A training that is done gives its last epoch.
    pub fn epoch(&mut self, watch: &mut Watch<'_>) -> Result<Option<&Epoch>> {
        if self.is_done() {
            return Ok(self.state.history.last());
        }
        let epoch = self.state.history.len();
        let raw = &self.run.raw;
        let sampler = Arc::clone(&self.sampler);
        let draws = sampler.epoch(raw.seed, epoch, raw.batch);
        let all = draws.len();
        let n_sides = self.sides.len();
        let mut sums = self.state.partial.take().unwrap_or_else(|| Sums::new(n_sides));
        self.broken = true; // until this returns without an error
        for draw in draws.skip(sums.done) {
            self.step(epoch, &draw, &mut sums)?;
            sums.done += 1;
            let batch = draw.items.iter().map(Vec::len).sum::<usize>();
            sums.items += batch;
            let so_far = || self.means(epoch, &sums);
            let (done, items) = (sums.done, sums.items);
            if watch(&Step { done, all, batch, items, so_far: &so_far }).is_break() {
                self.state.partial = Some(sums);
                self.broken = false;
                return Ok(None);
            }
        }
        self.guard(epoch, &sums)?;
        let map = self.validate()?;
        let row = Epoch { map, ..self.means(epoch, &sums) };
        self.keep_best(map);
        self.state.history.push(row);
        self.broken = false;
        Ok(self.state.history.last())
    }

    /// What is learnt from, by modality.
    pub(crate) fn items(&self) -> impl Iterator<Item = &Items> {
        self.sides.iter().map(|side| &side.items)
    }

    /// The model of the best epoch.
    pub fn finish(mut self) -> Result<Model> {
        self.settle()?;
        let side = |side: Learner| {
            let Items { name, origin, preparation, .. } = side.items;
            Side { name, origin, preparation, tower: side.tower }
        };
        let sides = self.sides.into_iter().map(side).collect();
        Ok(Model::new(self.run.bits, self.labels, sides, self.centres.values()))
    }

    /// The items and the towers of the best epoch.
    pub(crate) fn into_sides(mut self) -> Result<Vec<(Items, Tower)>> {
        self.settle()?;
        Ok(self.sides.into_iter().map(|side| (side.items, side.tower)).collect())
    }

    /// Goes back to the best epoch, and takes all steps that are owed.
    fn settle(&mut self) -> Result<()> {
        if let Some(best) = self.best.take() {
            self.restore(best, false)?;
        }
        self.sides.iter_mut().for_each(|side| side.tower.settle());
        Ok(())
    }

    /// Writes all that is needed to go on, to one file, and a note of the caller's (say, how long
    /// it took so far). Refuses after an epoch that failed, and weights that are no numbers, so
    /// that a good file is never replaced by one of no use.
    pub fn save(&self, path: &std::path::Path, note: &str) -> Result<()> {
        let finite = self.sides.iter().all(|side| side.tower.is_finite());
        if self.broken || !finite {
            return Err(Error::content(
                "this training has failed and cannot be saved; go on from its last checkpoint",
            ));
        }
        let mut arrays = self.arrays(true);
        if let Some(best) = &self.best {
            arrays.extend("best.", best);
        }
        // TOML, because its reader gives back every bit of a number.
        let state = State { note: note.to_owned(), ..self.state.clone() };
        let state = toml::to_string(&state)
            .map_err(|err| Error::content(format!("the state of training: {err}")))?;
        arrays.write(path, &state)
    }

    /// Goes on from what [`Trainer::save`] wrote, and gives the note back; refuses the state of
    /// another configuration or split.
    pub fn resume(&mut self, path: &std::path::Path) -> Result<String> {
        let (mut arrays, note) = Arrays::read(path)?;
        let fault = |what: String| Error::content(what).at(path);
        let state: State = toml::from_str(&note)
            .map_err(|err| fault(format!("not the checkpoint of a training: {err}")))?;
        if state.config != self.state.config || state.data != self.state.data {
            return Err(fault(
                "the checkpoint is of another configuration or data set; go on with the same, \
                 or train into another folder"
                    .into(),
            ));
        }
        let best = arrays.split("best.");
        let mut owed = arrays.split("owed.").unwrap_or_default();
        self.restore(arrays, true).map_err(|err| err.at(path))?;
        let epoch = state.history.len();
        for side in &mut self.sides {
            let first = side.steps(self.run, epoch)[0];
            if let Ok(owed) = owed.take(&side.items.name) {
                side.tower.owe(&owed.values, first);
            }
        }
        self.best = best;
        self.state = state;
        Ok(self.state.note.clone())
    }

    fn step(&mut self, epoch: usize, draw: &Draw, sums: &mut Sums) -> Result<()> {
        let present: Vec<usize> =
            (0..self.sides.len()).filter(|&m| !draw.items[m].is_empty()).collect();
        let (mut batches, mut outs, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for &m in &present {
            let side = &mut self.sides[m];
            let batch = side.items.rows.batch(&draw.items[m])?;
            let out = side.tower.forward(&batch);
            let alpha = self.state.alphas[m].value();
            parts.push(side.part(&draw.items[m], &out, alpha, &self.device));
            sums.lengths[m] = mean_length(&out.hash);
            batches.push(batch);
            outs.push(out);
        }
        let pairs = pairs(draw, &present, &self.device);
        let centres = self.centres.leaf();
        let Some(loss) = objective(parts, &pairs, &centres, self.run.weights) else {
            return Ok(());
        };
        drop(centres);
        let heard = sums.hear(&loss, &present);
        let names: Vec<&str> =
            present.iter().map(|&m| self.sides[m].items.name.as_str()).collect();
        heard.check(&names, epoch, sums.done)?;
        let mut grads = loss.total.backward();
        drop(loss);
        for ((&m, batch), out) in present.iter().zip(&batches).zip(outs) {
            let side = &mut self.sides[m];
            let steps = side.steps(self.run, epoch);
            side.tower.step(&mut grads, batch, out, steps);
        }
        let raw = &self.run.raw;
        let rate = raw.rate_centres.unwrap_or(raw.rate);
        let decay = raw.decay_centres.unwrap_or(raw.decay);
        self.centres.step(&mut grads, sgd(self.run, rate, decay, epoch));
        self.steer(&present, &heard.terms);
        Ok(())
    }

    /// Lets the controllers hear the quantisation losses of a step.
    fn steer(&mut self, present: &[usize], terms: &[[f64; 4]]) {
        let losses: Vec<f64> = terms.iter().map(|terms| terms[3]).collect();
        if self.run.raw.alpha_tied {
            let mean = mean(&losses);
            self.state.alphas.iter_mut().for_each(|alpha| alpha.hear(mean));
        } else {
            let heard = present.iter().zip(losses);
            heard.for_each(|(&m, loss)| self.state.alphas[m].hear(loss));
        }
    }

    fn means(&self, epoch: usize, sums: &Sums) -> Epoch {
        let raw = &self.run.raw;
        let rate = f64::from(sgd(self.run, raw.rate, raw.decay, epoch).rate);
        let sides = self.sides.iter().zip(&self.state.alphas);
        sums.means(
            epoch,
            rate,
            sides.map(|(side, alpha)| (&*side.items.name, alpha.value())),
        )
    }

    /// Refuses to go on when weights are no numbers, when the centres of used labels fall
    /// together at 0, or when outputs that had grown do.
    fn guard(&self, epoch: usize, sums: &Sums) -> Result<()> {
        let bits = self.run.bits.get();
        let mut used = vec![false; self.labels.len()];
        for side in &self.sides {
            side.items
                .labels
                .histogram()
                .iter()
                .zip(&mut used)
                .for_each(|(&n, u)| *u |= n > 0);
        }
        let centres = lengths(&self.centres.values(), bits);
        let towers = self.sides.iter().map(|s| (&*s.items.name, s.tower.is_finite()));
        let finite = centres.iter().all(|length| length.is_finite());
        if let Some((name, _)) = towers.chain([("centres", finite)]).find(|(_, fine)| !fine)
        {
            return Err(Error::Diverged {
                term: format!("size of the weights ({name})"),
                value: f64::INFINITY,
                epoch: epoch + 1,
                step: sums.done,
            });
        }
        let collapsed = |what: String, length: f64| Error::Collapsed {
            what,
            length,
            epoch: epoch + 1,
            first: self.first_length,
        };
        let limit = COLLAPSE * self.first_length;
        let centres = centres.iter().zip(&used).filter(|(_, used)| **used);
        let shortest = centres.map(|(&length, _)| length).fold(f64::INFINITY, f64::min);
        if shortest < limit {
            return Err(collapsed("the shortest centre".into(), shortest));
        }
        for (m, (side, &length)) in self.sides.iter().zip(&sums.lengths).enumerate() {
            let grown = |row: &Epoch| row.modalities[m].length >= limit;
            if length < limit && self.state.history.iter().any(grown) {
                let what = format!("the mean output of modality {}", side.items.name);
                return Err(collapsed(what, length));
            }
        }
        Ok(())
    }

    /// Mean MAP of the held-out items; a modality without any is still searched by the others.
    fn validate(&mut self) -> Result<Option<f64>> {
        self.sides.iter_mut().for_each(|side| side.tower.settle());
        let sides = self.sides.iter().map(|side| (&side.items, &side.tower));
        validate(self.run.bits, sides)
    }

    /// Remembers the matrices of the best epoch, where there is a judgement and more to come.
    fn keep_best(&mut self, map: Option<f64>) {
        let epoch = self.state.history.len() + 1;
        let best = self.state.best.and_then(|best| self.state.history[best - 1].map);
        if self.state.best.is_none() || map.is_none() || map > best {
            self.state.best = Some(epoch);
            let last = epoch == self.run.raw.epochs;
            self.best = (map.is_some() && !last).then(|| self.arrays(false));
        }
    }

    /// Every matrix as it is, and where it is moving, what its rows still owe.
    fn arrays(&self, moving: bool) -> Arrays {
        let mut arrays = Arrays::default();
        let mut push = |name: String, columns: usize, values: Vec<f32>, speed: Vec<f32>| {
            if moving {
                arrays.push(format!("velocity.{name}"), columns, speed);
            }
            arrays.push(format!("now.{name}"), columns, values);
        };
        let (values, speed) = (self.centres.values(), self.centres.velocity().to_vec());
        push("centres".into(), self.run.bits.get(), values, speed);
        for side in &self.sides {
            for m in side.tower.matrices(moving) {
                let name = format!("{}.{}", side.items.name, m.name);
                push(name, m.columns, m.values, m.velocity);
            }
        }
        for side in self.sides.iter().filter(|_| moving) {
            if let Some(owed) = side.tower.owed() {
                arrays.push(format!("owed.{}", side.items.name), 1, owed);
            }
        }
        arrays
    }

    fn restore(&mut self, mut arrays: Arrays, moving: bool) -> Result<()> {
        let mut take = |name: &str| -> Result<(usize, Vec<f32>, Vec<f32>)> {
            let array = arrays.take(&format!("now.{name}"))?;
            let speed = match moving {
                true => arrays.take(&format!("velocity.{name}"))?.values,
                false => vec![0.0; array.values.len()],
            };
            Ok((array.columns, array.values, speed))
        };
        let (columns, values, speed) = take("centres")?;
        if values.len() != self.labels.len() * columns || speed.len() != values.len() {
            return Err(Error::content("the centres are of another size"));
        }
        self.centres = Param::resume(values, speed, columns, &self.device);
        for side in &mut self.sides {
            let mut matrices = Vec::new();
            for name in side.tower.names() {
                let (columns, values, velocity) =
                    take(&format!("{}.{name}", side.items.name))?;
                matrices.push(Matrix { name, columns, values, velocity });
            }
            let misfit = || {
                Error::content(format!(
                    "the tower of {} is of another size",
                    side.items.name
                ))
            };
            let shape = side.tower.shape();
            side.tower =
                Tower::from_matrices(shape, matrices, &self.device).ok_or_else(misfit)?;
        }
        Ok(())
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
