//! Training: the loop that gradient methods share. Towers of all modalities take one joint step
//! per batch; after each epoch the model is judged on held-out items, and the best epoch by
//! that judgement is what training returns. Test queries cannot be reached from here.
//!
//! A [`Trainer`] stands still between epochs: its state can be saved whole and resumed, and
//! goes on exactly as it would have. Batches depend on seed and epoch, weights on the seed.

use burn::tensor::{Device, Int, Tensor, TensorData};
use crosshash_codes::eval::Options;
use crosshash_codes::{Codes, Labels};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::alpha::Alpha;
use crate::checkpoint::Arrays;
use crate::config::Run;
use crate::data::{Analysis, Training};
use crate::evaluate::{Coded, every_direction, mean_map};
use crate::method::Method;
use crate::method::jcch::{Loss, Pairs, Part, objective};
use crate::model::{Model, Side, outputs};
use crate::optimise::{Param, Sgd, schedule};
use crate::prepare::{Normalise, Preparation, Rows};
use crate::sample::{Draw, Sampler};
use crate::supervise::{self, Coefficients};
use crate::tower::{Matrix, Outputs, Shape, Tower, normal};
use crate::{Error, Result};

/// The deviation of the first centres (paper).
const CENTRES: f64 = 0.5;
/// Centres shorter than this share of their first mean length, or outputs, are a collapse.
const COLLAPSE: f32 = 0.1;

/// What happened in one epoch; losses are means over its steps, unweighted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Its number, from 1.
    pub epoch: usize,
    /// The learning rate.
    pub rate: f64,
    /// What was minimised.
    pub loss: f64,
    /// The pair term, 0 where there are no pairs.
    pub pair: f64,
    /// By modality.
    pub modalities: Vec<EpochOf>,
    /// Mean tie-aware MAP of the validation items over all directions, if there are any.
    pub map: Option<f64>,
}

/// What happened to one modality in an epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EpochOf {
    /// Its name.
    pub name: String,
    /// The classification term.
    pub classification: f64,
    /// The attraction term.
    pub attraction: f64,
    /// The classifier's term.
    pub classifier: f64,
    /// The quantisation term.
    pub quantisation: f64,
    /// Its weight at the end.
    pub alpha: f64,
}

/// What is saved beside the matrices.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct State {
    split: String,
    config: String,
    history: Vec<Epoch>,
    alphas: Vec<Alpha>,
    best: Option<usize>, // epoch
}

/// A training in progress.
pub struct Trainer<'a> {
    run: &'a Run,
    labels: Vec<String>,
    sides: Vec<Learner>,
    centres: Param,
    sampler: Sampler,
    state: State,
    best: Option<Arrays>, // None: the last epoch is the best
    first_length: f32,
    device: Device,
}

/// What is learnt of one modality, and from what.
struct Learner {
    name: String,
    preparation: Preparation,
    rows: Rows,
    labels: Labels,
    coefficients: Coefficients,
    validation: Rows,
    validation_labels: Labels,
    searched: Vec<usize>, // training items that validation searches
    tower: Tower,
    rate: f64,
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
        let labels: Vec<Labels> = names
            .iter()
            .map(|&m| Ok(training.train(m)?.labels()))
            .collect::<Result<_>>()?;
        let views: Vec<_> =
            names.iter().map(|&m| training.train(m)).collect::<Result<_>>()?;
        let sampler = Sampler::new(&views, &labels);
        let classes = training.label_names().len();
        let mut sides = Vec::new();
        for (&name, labels) in names.iter().zip(labels) {
            let options = supervise::Options {
                kind: run.coefficients,
                seed: run.raw.seed,
                ..supervise::Options::default()
            };
            let coefficients =
                supervise::supervise(&labels, &options, &|_| {})?.coefficients;
            sides.push(learner(
                run,
                training,
                name,
                (labels, coefficients),
                &analysis(name),
                (classes, &mut rng, &device),
            )?);
        }
        let bits = run.bits.get();
        let centres = normal(classes * bits, CENTRES, &mut rng);
        let first_length = mean_length(&centres, bits);
        let alpha = match run.raw.alpha {
            Some(alpha) => Alpha::fixed(alpha),
            None => Alpha::towards(run.raw.quantisation),
        };
        let state = State {
            split: format!("{:016x}", training.split_hash()),
            config: run.raw.to_toml()?,
            alphas: vec![alpha; sides.len()],
            ..State::default()
        };
        Ok(Trainer {
            run,
            labels: training.label_names().to_vec(),
            sides,
            centres: Param::new(centres, bits, &device),
            sampler,
            state,
            best: None,
            first_length,
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

    /// Trains one epoch and judges it. `progress` hears steps done and steps in all.
    pub fn epoch(&mut self, progress: &dyn Fn(usize, usize)) -> Result<&Epoch> {
        let epoch = self.state.history.len();
        let raw = &self.run.raw;
        let draws = self.sampler.epoch(raw.seed, epoch, raw.batch);
        let mut sums = Sums::new(self.sides.len());
        for (step, draw) in draws.iter().enumerate() {
            self.step(epoch, step, draw, &mut sums)?;
            progress(step + 1, draws.len());
        }
        self.guard(epoch)?;
        let map = self.validate()?;
        let row = sums.finish(self, epoch, map);
        self.keep_best(map);
        self.state.history.push(row);
        let last = self.state.history.len() - 1;
        Ok(&self.state.history[last])
    }

    /// The model of the best epoch.
    pub fn finish(mut self) -> Result<Model> {
        if let Some(best) = self.best.take() {
            self.restore(best, false)?;
        }
        let sides = self.sides.into_iter().map(|side| Side {
            name: side.name,
            preparation: side.preparation,
            tower: side.tower,
        });
        Ok(Model::new(self.run.bits, self.labels, sides.collect(), self.centres.values()))
    }

    /// Writes all that is needed to go on, to one file.
    pub fn save(&mut self, path: &std::path::Path) -> Result<()> {
        let mut arrays = self.arrays(true);
        if let Some(best) = &self.best {
            arrays.extend("best.", best);
        }
        // TOML, because its reader gives back every bit of a number.
        let state = toml::to_string(&self.state)
            .map_err(|err| Error::content(format!("the state of training: {err}")))?;
        arrays.write(path, &state)
    }

    /// Goes on from what [`Trainer::save`] wrote; refuses the state of another configuration
    /// or split.
    pub fn resume(&mut self, path: &std::path::Path) -> Result<()> {
        let (mut arrays, note) = Arrays::read(path)?;
        let fault = |what: String| Error::content(what).at(path);
        let state: State = toml::from_str(&note)
            .map_err(|err| fault(format!("not the checkpoint of a training: {err}")))?;
        if state.config != self.state.config || state.split != self.state.split {
            return Err(fault(
                "the checkpoint is of another configuration or data set; go on with the same, \
                 or train into another folder"
                    .into(),
            ));
        }
        let best = arrays.split("best.");
        self.restore(arrays, true).map_err(|err| err.at(path))?;
        self.best = best;
        self.state = state;
        Ok(())
    }

    fn step(
        &mut self,
        epoch: usize,
        step: usize,
        draw: &Draw,
        sums: &mut Sums,
    ) -> Result<()> {
        let present: Vec<usize> =
            (0..self.sides.len()).filter(|&m| !draw.items[m].is_empty()).collect();
        let (mut batches, mut outs, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for &m in &present {
            let side = &mut self.sides[m];
            let batch = side.rows.batch(&draw.items[m])?;
            let out = side.tower.forward(&batch);
            let alpha = self.state.alphas[m].value();
            parts.push(side.part(&draw.items[m], &out, alpha, &self.device));
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
        self.check(epoch, step, &present, &heard)?;
        let mut grads = loss.total.backward();
        drop(loss);
        let raw = &self.run.raw;
        #[expect(clippy::cast_possible_truncation, reason = "training is single precision")]
        let sgd = |rate: f64| Sgd {
            rate: schedule(rate as f32, epoch, raw.epochs),
            momentum: raw.momentum as f32,
            decay: raw.decay as f32,
        };
        for ((&m, batch), out) in present.iter().zip(&batches).zip(outs) {
            let side = &mut self.sides[m];
            side.tower.step(&mut grads, batch, out, sgd(side.rate));
        }
        self.centres.step(&mut grads, sgd(raw.rate));
        for (k, &m) in present.iter().enumerate() {
            self.state.alphas[m].hear(heard.terms[k][3]);
        }
        Ok(())
    }

    /// Stops at the first term that is no number.
    fn check(
        &self,
        epoch: usize,
        step: usize,
        present: &[usize],
        heard: &Heard,
    ) -> Result<()> {
        let names = ["classification", "attraction", "classifier", "quantisation"];
        let diverged = |term: String, value: f64| Error::Diverged {
            term,
            value,
            epoch: epoch + 1,
            step: step + 1,
        };
        for (&m, terms) in present.iter().zip(&heard.terms) {
            for (name, &value) in names.iter().zip(terms) {
                if !value.is_finite() {
                    let term = format!("{name} of modality {}", self.sides[m].name);
                    return Err(diverged(term, value));
                }
            }
        }
        match heard.pair {
            Some(pair) if !pair.is_finite() => Err(diverged("pair".into(), pair)),
            _ => Ok(()),
        }
    }

    /// Refuses to go on when the centres of used labels fall together at 0.
    fn guard(&self, epoch: usize) -> Result<()> {
        let bits = self.run.bits.get();
        let values = self.centres.values();
        let mut used = vec![false; self.labels.len()];
        for side in &self.sides {
            side.labels.histogram().iter().zip(&mut used).for_each(|(&n, u)| *u |= n > 0);
        }
        let lengths = values.chunks_exact(bits).zip(&used).filter(|(_, used)| **used);
        let shortest = lengths
            .map(|(centre, _)| centre.iter().map(|x| x * x).sum::<f32>().sqrt())
            .fold(f32::INFINITY, f32::min);
        if shortest < COLLAPSE * self.first_length {
            return Err(Error::Collapsed {
                epoch: epoch + 1,
                shortest,
                first: self.first_length,
            });
        }
        Ok(())
    }

    fn validate(&mut self) -> Result<Option<f64>> {
        let mut coded = Vec::new();
        for side in &mut self.sides {
            side.tower.settle();
            let codes = |rows: &Rows, items: &[usize]| -> Result<Codes> {
                let outputs = outputs(&side.tower, rows, items, &|_| {})?;
                Ok(Codes::from_signs(self.run.bits, &outputs)?)
            };
            let held_out: Vec<usize> = (0..side.validation.len()).collect();
            if held_out.is_empty() {
                continue;
            }
            coded.push(Coded {
                name: side.name.clone(),
                queries: codes(&side.validation, &held_out)?,
                query_labels: side.validation_labels.clone(),
                database: codes(&side.rows, &side.searched)?,
                database_labels: side.labels.select(&side.searched),
            });
        }
        Ok(mean_map(&every_direction(&coded, &Options::default(), &|_| {})?))
    }

    /// Remembers the matrices if the epoch that just ended is not the best any more.
    fn keep_best(&mut self, map: Option<f64>) {
        let epoch = self.state.history.len() + 1;
        let best = self.state.best.and_then(|best| self.state.history[best - 1].map);
        if self.state.best.is_none() || map.is_none() || map > best {
            self.state.best = Some(epoch);
            let last = epoch == self.run.raw.epochs;
            self.best = (!last).then(|| self.arrays(false));
        }
    }

    fn arrays(&mut self, velocity: bool) -> Arrays {
        let mut arrays = Arrays::default();
        let mut push = |name: String, columns: usize, values: Vec<f32>, speed: Vec<f32>| {
            if velocity {
                arrays.push(format!("velocity.{name}"), columns, speed);
            }
            arrays.push(name, columns, values);
        };
        let (values, speed) = (self.centres.values(), self.centres.velocity().to_vec());
        push("centres".into(), self.run.bits.get(), values, speed);
        for side in &mut self.sides {
            for m in side.tower.matrices() {
                push(format!("{}.{}", side.name, m.name), m.columns, m.values, m.velocity);
            }
        }
        arrays
    }

    fn restore(&mut self, mut arrays: Arrays, velocity: bool) -> Result<()> {
        let mut take = |name: &str| -> Result<(usize, Vec<f32>, Vec<f32>)> {
            let array = arrays.take(name)?;
            let speed = match velocity {
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
            for Matrix { name, .. } in side.tower.matrices() {
                let (columns, values, velocity) = take(&format!("{}.{name}", side.name))?;
                matrices.push(Matrix { name, columns, values, velocity });
            }
            side.tower = Tower::from_matrices(side.tower.shape(), matrices, &self.device)
                .ok_or_else(|| {
                Error::content(format!("the tower of {} is of another size", side.name))
            })?;
        }
        Ok(())
    }
}

impl Learner {
    fn part(&self, items: &[usize], out: &Outputs, alpha: f64, device: &Device) -> Part {
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

/// The modalities a run learns.
fn modalities<'t>(run: &Run, training: &Training<'t>) -> Result<Vec<&'t str>> {
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

fn learner(
    run: &Run,
    training: &Training<'_>,
    name: &str,
    (labels, coefficients): (Labels, Coefficients),
    analysis: &Analysis,
    (classes, rng, device): (usize, &mut ChaCha8Rng, &Device),
) -> Result<Learner> {
    let own = run.raw.modality.get(name).cloned().unwrap_or_default();
    let normalise = own.normalise.unwrap_or(Normalise::Standard);
    let preparation = Preparation::fit(training, name, normalise, analysis)?;
    let rows = preparation.rows(training.train(name)?.features())?;
    let held_out = training.validation(name)?;
    let default =
        if preparation.is_sparse() { run.raw.hidden_sparse } else { run.raw.hidden };
    let shape = Shape {
        width: preparation.width(),
        sparse: preparation.is_sparse(),
        hidden: own.hidden.unwrap_or(default),
        bits: run.bits.get(),
        classes,
    };
    let every = rows.len().div_ceil(run.raw.validation_database.max(1)).max(1);
    Ok(Learner {
        name: name.to_owned(),
        validation: preparation.rows(held_out.features())?,
        validation_labels: held_out.labels(),
        searched: (0..rows.len()).step_by(every).collect(),
        tower: Tower::new(shape, rng, device),
        rate: own.rate.unwrap_or(run.raw.rate),
        preparation,
        rows,
        labels,
        coefficients,
    })
}

/// The pairs of a batch, by the numbers of the parts that are present.
fn pairs(draw: &Draw, present: &[usize], device: &Device) -> Vec<Pairs> {
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

/// The terms of one step as numbers.
struct Heard {
    terms: Vec<[f64; 4]>,
    pair: Option<f64>,
}

/// Sums over the steps of an epoch.
struct Sums {
    steps: f64,
    total: f64,
    pair: (f64, f64),
    terms: Vec<([f64; 4], f64)>,
}

impl Sums {
    fn new(modalities: usize) -> Sums {
        Sums {
            steps: 0.0,
            total: 0.0,
            pair: (0.0, 0.0),
            terms: vec![([0.0; 4], 0.0); modalities],
        }
    }

    fn hear(&mut self, loss: &Loss, present: &[usize]) -> Heard {
        let number = |t: &Tensor<1>| f64::from(t.clone().into_scalar::<f32>());
        self.steps += 1.0;
        self.total += number(&loss.total);
        let pair = loss.pair.as_ref().map(number);
        if let Some(pair) = pair {
            self.pair = (self.pair.0 + pair, self.pair.1 + 1.0);
        }
        let mut heard = Vec::new();
        for (&m, t) in present.iter().zip(&loss.terms) {
            let values = [&t.classification, &t.attraction, &t.classifier, &t.quantisation]
                .map(number);
            let (sums, count) = &mut self.terms[m];
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            *count += 1.0;
            heard.push(values);
        }
        Heard { terms: heard, pair }
    }

    fn finish(self, trainer: &Trainer<'_>, epoch: usize, map: Option<f64>) -> Epoch {
        let raw = &trainer.run.raw;
        let sides = trainer.sides.iter().zip(&trainer.state.alphas);
        let of = |((side, alpha), (sums, count)): ((&Learner, &Alpha), ([f64; 4], f64))| {
            let [classification, attraction, classifier, quantisation] =
                sums.map(|sum| sum / count.max(1.0));
            EpochOf {
                name: side.name.clone(),
                classification,
                attraction,
                classifier,
                quantisation,
                alpha: alpha.value(),
            }
        };
        #[expect(clippy::cast_possible_truncation, reason = "training is single precision")]
        let rate = f64::from(schedule(raw.rate as f32, epoch, raw.epochs));
        Epoch {
            epoch: epoch + 1,
            rate,
            loss: self.total / self.steps.max(1.0),
            pair: self.pair.0 / self.pair.1.max(1.0),
            modalities: sides.zip(self.terms).map(of).collect(),
            map,
        }
    }
}

fn mean_length(rows: &[f32], columns: usize) -> f32 {
    let rows = rows.chunks_exact(columns);
    let count = rows.len().max(1) as f32;
    rows.map(|row| row.iter().map(|x| x * x).sum::<f32>().sqrt()).sum::<f32>() / count
}
