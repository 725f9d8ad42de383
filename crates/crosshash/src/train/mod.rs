//! Training: one loop for every method.
//!
//! A [`TrainingSession`] runs epochs, validates each on held-out items, keeps the weights of the best
//! epoch, stops with an error when a loss diverges, and saves checkpoints. A gradient method supplies
//! an `Objective`; a method in closed form has one epoch. Test queries cannot be reached from here.
//!
//! A session can be stopped after any step. Its complete state is saved, and a resumed training is
//! bit-identical to an uninterrupted one.
//!
//! ```
//! use crosshash::Config;
//! use crosshash::data::{Dataset, Dense, Features, Modality, SplitSpec};
//! use crosshash_codes::Labels;
//!
//! let rows = Dense::from_floats(2, vec![0.0, 1.0, 0.1, 0.9, 1.0, 0.0, 0.9, 0.1])?;
//! let labels = Labels::from_indices(2, [[0], [0], [1], [1]])?;
//! let ids = ["a", "b", "c", "d"].map(String::from).to_vec();
//! let image = Modality::new("image", ids, Features::Dense(rows), labels)?;
//! let names = vec!["dark".to_owned(), "light".to_owned()];
//! let dataset = Dataset::new("tiny", names, vec![image])?;
//! let split = SplitSpec::default().draw(&dataset)?;
//!
//! let config = Config::parse("method = \"scdh\"\nbits = 8\nhidden = 0\nepochs = 2", &[])?;
//! let fitted = config.fit(&dataset.training(&split), &mut ())?.expect("nothing stopped it");
//! assert_eq!(fitted.history.len(), 2);
//! # Ok::<(), crosshash::Error>(())
//! ```

mod arrays;
mod epoch;
mod objective;
mod rotate;
mod validate;

pub(crate) use epoch::Terms;
pub use epoch::{Callback, Epoch, Step, Term};
pub(crate) use objective::{Objective, Position};

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::checkpoint::Arrays;
use crate::config::Config;
use crate::data::Training;
use crate::method::{Begun, ClosedForm, Method};
use crate::model::Model;
use crate::{Error, Result};
pub use rotate::RotationChoice;
pub(crate) use validate::ValidationSet;
pub use validate::{Select, Validation};

/// State that is saved with the arrays.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct State {
    data: String, // a fingerprint
    config: String,
    note: String,                    // of the caller
    best: Option<usize>,             // epoch, from 1
    rotated: Option<RotationChoice>, // if outputs were rotated before an epoch
    objective: toml::Table,
    partial: Option<Terms>, // of an epoch that was interrupted
    history: Vec<Epoch>,
}

/// The result of a training.
#[derive(Debug)]
pub struct Fitted {
    /// The model of the best epoch.
    pub model: Model,
    /// The record of every epoch.
    pub history: Vec<Epoch>,
    /// The best epoch by validation, from 1; without validation, the last.
    pub best_epoch: Option<usize>,
    /// The rotation of the outputs that was applied at the end, if any.
    pub rotation: Option<&'static str>,
}

/// A training in progress; [`Config::begin`] starts one.
pub struct TrainingSession {
    config: Config,
    labels: Vec<String>,
    work: Work,
    state: State,
    validation: Option<ValidationSet>,
    best: Option<Arrays>, // None: the present weights are the best
    broken: bool,         // an error within an epoch left a state that cannot be resumed
}

enum Work {
    Gradient(Box<dyn Objective>),
    ClosedForm(Box<ClosedForm>),
}

impl TrainingSession {
    pub(crate) fn new(
        config: &Config,
        method: &dyn Method,
        training: &Training<'_>,
    ) -> Result<TrainingSession> {
        crate::method::check_labels(config.method(), training)?;
        let work = match method.begin(config, training)? {
            Begun::Gradient(objective) => Work::Gradient(objective),
            Begun::ClosedForm(solver) => Work::ClosedForm(Box::new(solver)),
        };
        let validation = {
            let data = match &work {
                Work::Gradient(objective) => {
                    objective.towers().into_iter().map(|(data, _)| data).collect()
                }
                Work::ClosedForm(solver) => solver.modalities(),
            };
            let most = config.validation_database();
            ValidationSet::new(config.select(), training, most, &data)?
        };
        let state = State {
            data: format!("{:016x}", training.fingerprint()?),
            config: config.to_toml()?,
            ..State::default()
        };
        Ok(TrainingSession {
            config: config.clone(),
            labels: training.label_names().to_vec(),
            work,
            validation,
            state,
            best: None,
            broken: false,
        })
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The records of the epochs so far.
    pub fn history(&self) -> &[Epoch] {
        &self.state.history
    }

    /// The best epoch so far by validation, from 1; without validation, the last.
    pub fn best_epoch(&self) -> Option<usize> {
        self.state.best
    }

    /// Number of epochs in all.
    pub fn epochs(&self) -> usize {
        match self.work {
            Work::Gradient(_) => self.config.epochs(),
            Work::ClosedForm(_) => 1,
        }
    }

    /// Whether all epochs are done.
    pub fn is_done(&self) -> bool {
        self.state.history.len() >= self.epochs()
    }

    /// Whether it can be saved and resumed; methods in closed form start again.
    pub fn can_resume(&self) -> bool {
        matches!(self.work, Work::Gradient(_))
    }

    /// Runs all epochs that are left; `None` if the callback stopped the training.
    pub fn fit(mut self, callback: &mut dyn Callback) -> Result<Option<Fitted>> {
        while !self.is_done() {
            if self.epoch(callback)?.is_none() || callback.epoch(&self)?.is_break() {
                return Ok(None);
            }
        }
        self.finish().map(Some)
    }

    /// Runs one epoch, or the rest of an interrupted one, and validates it; `None` if the callback
    /// stopped it. A training that is done returns its last epoch.
    pub fn epoch(&mut self, callback: &mut dyn Callback) -> Result<Option<&Epoch>> {
        if self.is_done() {
            return Ok(self.state.history.last());
        }
        self.broken = true; // until this returns without an error
        let completed = match &mut self.work {
            Work::Gradient(objective) => gradient_epoch(
                &mut **objective,
                &self.config,
                self.validation.as_ref(),
                &mut self.state,
                &mut self.best,
                callback,
            )?,
            Work::ClosedForm(solver) => {
                let row = solver.solve(&self.config, self.validation.as_ref(), callback)?;
                let done = row.is_some();
                self.state.history.extend(row);
                self.state.best = done.then_some(1);
                done
            }
        };
        self.broken = false;
        Ok(if completed { self.state.history.last() } else { None })
    }

    /// The model of the best epoch.
    pub fn finish(mut self) -> Result<Fitted> {
        if !self.can_resume() && !self.is_done() {
            self.epoch(&mut ())?;
        }
        let best = self.best.take();
        let epoch = self.state.history.len();
        let mut rotation = None;
        let mut model = match self.work {
            Work::Gradient(mut objective) => {
                if let Some(best) = best {
                    objective.restore(best, false, Position { epoch, step: 0 })?;
                }
                objective.flush();
                if self.state.rotated.is_none() {
                    let validation = self.validation.as_ref();
                    rotation =
                        rotate::choose(&self.config, validation, &objective.towers())?;
                }
                objective.into_model(self.labels)?
            }
            Work::ClosedForm(solver) => solver.into_model(self.labels)?,
        };
        if let Some((_, rotation)) = &rotation {
            model.rotate(rotation);
        }
        let State { history, best: best_epoch, rotated, .. } = self.state;
        let rotation = match rotated {
            Some(choice) => choice.steps().map(|steps| steps.name),
            None => rotation.map(|(steps, _)| steps.name),
        };
        Ok(Fitted { model, history, best_epoch, rotation })
    }

    /// Saves a checkpoint with a note of the caller (e.g. the time used so far). Fails after an error
    /// within an epoch, so that a valid checkpoint is never replaced by an invalid one.
    pub fn save(&self, path: &Path, note: &str) -> Result<()> {
        let Work::Gradient(objective) = &self.work else {
            return Err(Error::content(format!(
                "{} is solved in closed form: there is no checkpoint to save",
                self.config.method().name
            )));
        };
        let mut arrays = objective.arrays(true);
        if self.broken || !arrays.is_finite() {
            return Err(Error::content(
                "this training has failed and cannot be saved; resume from its last checkpoint",
            ));
        }
        if let Some(best) = &self.best {
            arrays.extend("best.", best);
        }
        let state = State {
            note: note.to_owned(),
            objective: objective.state()?,
            ..self.state.clone()
        };
        // TOML, because its reader restores every bit of a number.
        let state = toml::to_string(&state).map_err(|err| {
            Error::content(format!("the state of the training cannot be saved: {err}"))
        })?;
        arrays.write(path, &state)
    }

    /// Restores a checkpoint of [`TrainingSession::save`] and returns its note; rejects checkpoints of
    /// another configuration or data set.
    pub fn resume(&mut self, path: &Path) -> Result<String> {
        let (mut arrays, text) = Arrays::read(path)?;
        let fault = |what: String| Error::content(what).at(path);
        let state: State = toml::from_str(&text)
            .map_err(|err| fault(format!("not a checkpoint of a training: {err}")))?;
        if state.config != self.state.config || state.data != self.state.data {
            return Err(fault(
                "the checkpoint belongs to another configuration or data set; use the same, or \
                 train into another folder"
                    .into(),
            ));
        }
        let Work::Gradient(objective) = &mut self.work else {
            return Err(fault("methods in closed form do not resume".into()));
        };
        let best = arrays.split("best.");
        let step = state.partial.as_ref().map_or(0, |terms| terms.done);
        let at = Position { epoch: state.history.len(), step };
        let restored = objective
            .set_state(state.objective.clone())
            .and_then(|()| objective.restore(arrays, true, at));
        restored.map_err(|err| err.at(path))?;
        self.best = best;
        self.state = state;
        Ok(self.state.note.clone())
    }
}

/// One epoch of a gradient method; false if the callback stopped it.
fn gradient_epoch(
    objective: &mut dyn Objective,
    config: &Config,
    validation: Option<&ValidationSet>,
    state: &mut State,
    best: &mut Option<Arrays>,
    callback: &mut dyn Callback,
) -> Result<bool> {
    let epoch = state.history.len();
    let mut terms = state.partial.take().unwrap_or_default();
    if terms.done == 0 && objective.begins_phase(epoch) {
        if let Some(best) = best.take() {
            objective.restore(best, false, Position { epoch, step: 0 })?;
        }
        objective.flush();
        objective.next_phase()?;
        *best = state.best.map(|_| objective.arrays(false));
    }
    if terms.done == 0 && state.rotated.is_none() && objective.rotates_before(epoch) {
        if let Some(best) = best.take() {
            objective.restore(best, false, Position { epoch, step: 0 })?;
        }
        objective.flush();
        let found = rotate::choose(config, validation, &objective.towers())?;
        if let Some((_, rotation)) = &found {
            objective.rotate(rotation)?;
        }
        state.rotated = Some(RotationChoice::of(found.map(|(steps, _)| steps)));
        *best = state.best.map(|_| objective.arrays(false));
    }
    let all = objective.begin_epoch(epoch, terms.done);
    let learning_rate = objective.learning_rate(epoch);
    while terms.done < all {
        let at = Position { epoch, step: terms.done };
        let batch = objective.step(at, &mut terms)?;
        terms.check(at, objective.rate_key())?;
        terms.done += 1;
        terms.items += batch;
        let so_far = || terms.record(epoch, learning_rate);
        let (done, items) = (terms.done, terms.items);
        let step = Step { epoch: epoch + 1, done, all, batch, items, so_far: &so_far };
        if callback.step(&step).is_break() {
            state.partial = Some(terms);
            return Ok(false);
        }
    }
    let at = Position { epoch, step: terms.done };
    objective.end_epoch(at, &terms, &state.history)?;
    objective.flush();
    let towers = objective.towers();
    if let Some((data, _)) = towers.iter().find(|(_, tower)| !tower.is_finite()) {
        return Err(Error::Diverged {
            term: format!("size of the weights ({})", data.name),
            value: f64::INFINITY,
            epoch: epoch + 1,
            step: terms.done,
            key: objective.rate_key(),
        });
    }
    let found = validation.map(|set| set.validate(config.bits(), &towers)).transpose()?;
    drop(towers);
    let score = found.map(|found| found.score);
    let reached = state.best.and_then(|best| state.history[best - 1].score());
    if state.best.is_none() || score.is_none() || score > reached {
        state.best = Some(epoch + 1);
        let last = epoch + 1 == config.epochs();
        *best = (score.is_some() && !last).then(|| objective.arrays(false));
    }
    let record = terms.record(epoch, learning_rate);
    state.history.push(Epoch { validation: found, ..record });
    Ok(true)
}

impl std::fmt::Debug for TrainingSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrainingSession")
            .field("method", &self.config.method().name)
            .field("epochs", &self.state.history.len())
            .finish_non_exhaustive()
    }
}
