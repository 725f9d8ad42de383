//! What a gradient method supplies to the training loop.

use crate::Result;
use crate::checkpoint::Arrays;
use crate::method::ModalityData;
use crate::model::Model;
use crate::rotation::Rotation;
use crate::tower::Tower;

use super::{Epoch, Terms};

/// A position in a training: both are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// The epoch.
    pub(crate) epoch: usize,
    /// The step of the epoch.
    pub(crate) step: usize,
}

/// A gradient method. It owns its networks and their optimisers, any number of each: a method with
/// two players owns both and alternates between them in [`Objective::step`]. The loop
/// ([`TrainingSession`](super::TrainingSession)) does everything else: epochs, validation, the best
/// epoch, the divergence guard, checkpoints and resuming.
///
/// Everything random depends on the seed, the epoch and the step only, so that a resumed training
/// is bit-identical to an uninterrupted one.
pub(crate) trait Objective: Send {
    /// Prepares an epoch of which `done` steps have been taken already; returns its number of steps.
    fn begin_epoch(&mut self, epoch: usize, done: usize) -> usize;

    /// One step: forward, backward, update. Records the terms of the loss; returns the number of
    /// items that were used.
    fn step(&mut self, at: Position, terms: &mut Terms) -> Result<usize>;

    /// Called after the last step of an epoch: alternating updates, guards of the method.
    fn end_epoch(&mut self, at: Position, terms: &Terms, history: &[Epoch]) -> Result<()>;

    /// The learning rate of an epoch, for the record.
    fn learning_rate(&self, epoch: usize) -> f64;

    /// The key of the learning rate, for messages.
    fn rate_key(&self) -> &'static str {
        "learning_rate"
    }

    /// Applies updates that are still pending (lazy rows of sparse layers).
    fn flush(&mut self);

    /// The data and the tower of every modality; call [`Objective::flush`] before.
    fn towers(&self) -> Vec<(&ModalityData, &Tower)>;

    /// Every array that training changes. `full`: with the state of the optimisers, pending updates and
    /// buffers, for an exact resume; otherwise only the arrays of the model.
    fn arrays(&self, full: bool) -> Arrays;

    /// Restores the arrays of [`Objective::arrays`]; `at` is the next step.
    fn restore(&mut self, arrays: Arrays, full: bool, at: Position) -> Result<()>;

    /// State other than arrays, saved with a checkpoint.
    fn state(&self) -> Result<toml::Table> {
        Ok(toml::Table::new())
    }

    /// Restores [`Objective::state`]; called before [`Objective::restore`].
    fn set_state(&mut self, _state: toml::Table) -> Result<()> {
        Ok(())
    }

    /// Whether this epoch begins another phase, which starts from the best epoch so far.
    fn begins_phase(&self, _epoch: usize) -> bool {
        false
    }

    /// Begins the next phase; the weights are those of the best epoch so far.
    fn next_phase(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether the rotation of the outputs is applied before this epoch, instead of after the training.
    fn rotates_before(&self, _epoch: usize) -> bool {
        false
    }

    /// Applies a rotation to the outputs of all modalities; the weights are those of the best epoch so far.
    fn rotate(&mut self, _rotation: &Rotation) -> Result<()> {
        Ok(())
    }

    /// The model with the present weights.
    fn into_model(self: Box<Self>, labels: Vec<String>) -> Result<Model>;
}
