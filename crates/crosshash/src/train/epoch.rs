//! What happened in an epoch: the terms of every step, their means, and what a watcher is told.

use std::ops::ControlFlow;

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::method::jcch::Loss;
use crate::{Error, Result};

/// The terms of one modality, in the order of [`EpochOf`].
const TERMS: [&str; 4] = ["classification", "attraction", "classifier", "quantisation"];

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

impl Epoch {
    /// An epoch of a method that has no terms to tell of.
    pub(crate) fn numbered(epoch: usize, rate: f64) -> Epoch {
        Epoch { epoch, rate, loss: f64::NAN, pair: 0.0, modalities: Vec::new(), map: None }
    }
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
    /// The mean length of the real outputs in the last step.
    pub length: f64,
}

/// What a watcher is told after every step; it answers whether to go on.
pub struct Step<'a> {
    /// Steps of this epoch that are done.
    pub done: usize,
    /// Steps of this epoch in all.
    pub all: usize,
    /// Items of this step, of all modalities.
    pub batch: usize,
    /// Items of all steps of this epoch that are done.
    pub items: usize,
    /// The epoch so far, without judgement.
    pub so_far: &'a dyn Fn() -> Epoch,
}

/// Who watches a training: hears every step, and can ask it to stop after it.
pub type Watch<'a> = dyn FnMut(&Step<'_>) -> ControlFlow<()> + 'a;

/// Goes on, whatever happens: a watcher for those who need none.
pub fn unwatched(_: &Step<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The terms of one step as numbers.
pub(super) struct Heard {
    pub(super) terms: Vec<[f64; 4]>,
    pair: Option<f64>,
}

impl Heard {
    /// Refuses the first term that is no number.
    pub(super) fn check(&self, names: &[&str], epoch: usize, step: usize) -> Result<()> {
        let diverged = |term: String, value: f64| Error::Diverged {
            term,
            value,
            epoch: epoch + 1,
            step: step + 1,
        };
        for (modality, terms) in names.iter().zip(&self.terms) {
            for (term, &value) in TERMS.iter().zip(terms) {
                if !value.is_finite() {
                    let term = format!("{term} loss of modality {modality}");
                    return Err(diverged(term, value));
                }
            }
        }
        match self.pair {
            Some(pair) if !pair.is_finite() => Err(diverged("pair loss".into(), pair)),
            _ => Ok(()),
        }
    }
}

/// Sums over the steps of an epoch; saved with a training that stops within one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Sums {
    /// Steps done.
    pub(super) done: usize,
    /// Items taken, of all modalities.
    pub(super) items: usize,
    /// The mean length of the outputs in the last step, by modality.
    pub(super) lengths: Vec<f64>,
    heard: f64, // steps that had a loss
    total: f64,
    pair: (f64, f64),
    terms: Vec<([f64; 4], f64)>,
}

impl Sums {
    pub(super) fn new(modalities: usize) -> Sums {
        Sums {
            done: 0,
            items: 0,
            lengths: vec![0.0; modalities],
            heard: 0.0,
            total: 0.0,
            pair: (0.0, 0.0),
            terms: vec![([0.0; 4], 0.0); modalities],
        }
    }

    pub(super) fn hear(&mut self, loss: &Loss, present: &[usize]) -> Heard {
        let number = |t: &Tensor<1>| f64::from(t.clone().into_scalar::<f32>());
        self.heard += 1.0;
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

    /// The means; `sides` are the names and alphas of the modalities.
    pub(super) fn means<'a>(
        &self,
        epoch: usize,
        rate: f64,
        sides: impl Iterator<Item = (&'a str, f64)>,
    ) -> Epoch {
        let mut modalities = Vec::new();
        for ((m, (name, alpha)), (sums, count)) in sides.enumerate().zip(&self.terms) {
            let [classification, attraction, classifier, quantisation] =
                sums.map(|sum| sum / count.max(1.0));
            modalities.push(EpochOf {
                name: name.to_owned(),
                classification,
                attraction,
                classifier,
                quantisation,
                alpha,
                length: self.lengths[m],
            });
        }
        Epoch {
            epoch: epoch + 1,
            rate,
            loss: self.total / self.heard.max(1.0),
            pair: self.pair.0 / self.pair.1.max(1.0),
            modalities,
            map: None,
        }
    }
}
