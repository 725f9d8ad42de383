//! The record of an epoch: named terms of the loss, and what callbacks receive.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::Validation;
use crate::{Error, Result};

/// The record of one epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Its number, from 1.
    pub epoch: usize,
    /// The learning rate.
    pub learning_rate: f64,
    /// The loss, a mean over the steps; NaN for methods without.
    pub loss: f64,
    /// The terms of the loss, unweighted means over the steps, and further quantities of the method.
    pub terms: Vec<Term>,
    /// The metrics of the validation items, if there are any.
    pub validation: Option<Validation>,
}

impl Epoch {
    /// The selected metric of the validation items.
    pub fn score(&self) -> Option<f64> {
        self.validation.map(|found| found.score)
    }

    /// The MAP of the validation items.
    pub fn map(&self) -> Option<f64> {
        self.validation.and_then(|found| found.map)
    }

    /// A term by name, e.g. `image.classification`.
    pub fn term(&self, name: &str) -> Option<f64> {
        self.terms.iter().find(|term| term.name == name).map(|term| term.value)
    }
}

/// One quantity of an epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// Its name; those of one modality begin with the name of the modality and a dot.
    pub name: String,
    /// Its value.
    pub value: f64,
}

/// The progress of an epoch after one of its steps.
pub struct Step<'a> {
    /// The epoch, from 1.
    pub epoch: usize,
    /// Steps of this epoch that are done.
    pub done: usize,
    /// Steps of this epoch in all.
    pub all: usize,
    /// Items of this step, of all modalities.
    pub batch: usize,
    /// Items of all steps of this epoch that are done.
    pub items: usize,
    /// The record of the epoch so far, without validation.
    pub so_far: &'a dyn Fn() -> Epoch,
}

/// Observes a training; every method has a default that does nothing.
pub trait Callback {
    /// After every step. `Break` stops the training within the epoch; it can be saved and resumed.
    fn step(&mut self, _step: &Step<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// After every epoch. `Break` stops the training.
    fn epoch(&mut self, _session: &super::TrainingSession) -> Result<ControlFlow<()>> {
        Ok(ControlFlow::Continue(()))
    }
}

/// No callback.
impl Callback for () {}

/// A closure that is called after every step.
impl<F: FnMut(&Step<'_>) -> ControlFlow<()>> Callback for F {
    fn step(&mut self, step: &Step<'_>) -> ControlFlow<()> {
        self(step)
    }
}

/// The terms of the steps of an epoch; saved with a training that stops within one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Terms {
    /// Steps done.
    pub(super) done: usize,
    /// Items used, of all modalities.
    pub(super) items: usize,
    loss: f64,
    losses: f64, // steps that had a loss
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry {
    name: String,
    sum: f64,
    count: f64, // 0: the last value counts
}

impl Terms {
    /// Records the loss of a step.
    pub(crate) fn loss(&mut self, value: f64) {
        self.loss += value;
        self.losses += 1.0;
    }

    /// Records a term of which the mean over the steps is reported.
    pub(crate) fn mean(&mut self, name: &str, value: f64) {
        let entry = self.entry(name);
        entry.sum += value;
        entry.count += 1.0;
    }

    /// Records a quantity of which the last value is reported.
    pub(crate) fn last(&mut self, name: &str, value: f64) {
        self.entry(name).sum = value;
    }

    /// The value of a term so far.
    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        self.entries.iter().find(|entry| entry.name == name).map(Entry::value)
    }

    fn entry(&mut self, name: &str) -> &mut Entry {
        let at = self.entries.iter().position(|entry| entry.name == name);
        let at = at.unwrap_or_else(|| {
            self.entries.push(Entry { name: name.to_owned(), sum: 0.0, count: 0.0 });
            self.entries.len() - 1
        });
        &mut self.entries[at]
    }

    /// Fails with the name of the first term that is not finite; `key` is that of the learning rate.
    pub(crate) fn check(&self, at: super::Position, key: &'static str) -> Result<()> {
        let bad = self.entries.iter().find(|entry| !entry.sum.is_finite());
        let (term, value) = match bad {
            Some(entry) => (entry.name.clone(), entry.sum),
            None if self.loss.is_finite() => return Ok(()),
            None => ("loss".to_owned(), self.loss),
        };
        Err(Error::Diverged { term, value, epoch: at.epoch + 1, step: at.step + 1, key })
    }

    /// The record of an epoch.
    pub(super) fn record(&self, epoch: usize, learning_rate: f64) -> Epoch {
        let term = |entry: &Entry| Term { name: entry.name.clone(), value: entry.value() };
        Epoch {
            epoch: epoch + 1,
            learning_rate,
            loss: self.loss / self.losses.max(1.0),
            terms: self.entries.iter().map(term).collect(),
            validation: None,
        }
    }
}

impl Entry {
    fn value(&self) -> f64 {
        self.sum / self.count.max(1.0)
    }
}
