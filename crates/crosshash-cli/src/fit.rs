//! Runs a training: live progress, a line per epoch, checkpoints, Ctrl-C.

use std::ops::ControlFlow;
use std::time::Instant;

use anyhow::{Context as _, Result};
use crosshash::data::{LoadedDataset, Split};
use crosshash::train::{self, Epoch, Step, TrainingSession};
use crosshash::{Config, HistoryTable, Model, RunDir};
use serde::{Deserialize, Serialize};

use crate::interrupt;
use crate::progress::{Progress, say};

/// The result of a training.
pub struct Fitted {
    /// The trained model.
    pub model: Model,
    /// Its epochs.
    pub history: History,
    /// The best epoch by validation, from 1.
    pub best: Option<usize>,
    /// The rotation of the outputs that was applied at the end.
    pub rotation: Option<&'static str>,
}

/// The epochs, with the time of each.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// One row per epoch.
    pub epochs: Vec<Epoch>,
    /// Seconds of training until the end of each epoch.
    pub seconds: Vec<f64>,
}

/// Where a training saves its checkpoints and history.
pub struct Checkpoints {
    run: RunDir,
    resume: bool,
}

/// Share of items with equal codes above which a training ends with a warning.
const MAX_TIED: f64 = 0.5;

/// Times that are saved in the checkpoint.
#[derive(Default, Serialize, Deserialize)]
struct Clock {
    ended: Vec<f64>, // seconds until the end of each epoch
    within: f64,     // seconds of the interrupted epoch
}

impl Checkpoints {
    /// In the folder of a run; `resume` continues from its checkpoint, if there is one.
    pub fn new(run: &RunDir, resume: bool) -> Checkpoints {
        Checkpoints { run: run.clone(), resume }
    }

    fn save(&self, session: &TrainingSession, clock: &Clock) -> Result<()> {
        if session.can_resume() {
            session.save(&self.run.checkpoint_path(), &serde_json::to_string(clock)?)?;
        }
        let history =
            History { epochs: session.history().to_vec(), seconds: clock.ended.clone() };
        Ok(self.run.save_history(&history.to_csv())?)
    }

    /// Resumes from the checkpoint, if there is one and the method can.
    fn resume(&self, session: &mut TrainingSession) -> Result<Clock> {
        let path = self.run.checkpoint_path();
        if !(self.resume && session.can_resume() && path.exists()) {
            return Ok(Clock::default());
        }
        let note = session.resume(&path)?;
        say(format!("resuming after epoch {}", session.history().len()));
        serde_json::from_str(&note).with_context(|| path.display().to_string())
    }
}

/// The split of the manifest. If it has no validation items, a share of the training items is held
/// out; a fixed number of training items is reduced if necessary. Labels from texts are chosen by the
/// training items of this split.
pub fn split(opened: &mut LoadedDataset, validation: f64) -> Result<Split> {
    Ok(opened.split_with_validation(validation)?)
}

/// Reports items that are not used for training, and notes of the split.
fn report_dropped(opened: &LoadedDataset, split: &Split) {
    for left in opened.dataset.dropped().iter().chain(split.dropped()) {
        say(format!("{}: {} items dropped: {}", left.modality, left.items, left.reason));
    }
    split.notes().iter().for_each(say);
    if !opened.dataset.has_labels() {
        say(
            "the data set has no labels: training uses pairs, metrics that need labels are omitted",
        );
        return;
    }
    opened.dataset.label_note().iter().for_each(say);
    let training = opened.dataset.training(split);
    for name in training.modalities() {
        let Ok(view) = training.train(name) else { continue };
        let unlabelled = view.labels().unlabelled();
        if unlabelled > 0 {
            let of = view.len();
            say(format!(
                "{name}: {unlabelled} of {of} training items have no label and are not used"
            ));
        }
    }
}

/// Trains; `None` if the user stopped it. With checkpoints, every epoch writes a checkpoint there, and so
/// does Ctrl-C.
pub fn fit(
    config: &Config,
    opened: &LoadedDataset,
    split: &Split,
    checkpoints: Option<&Checkpoints>,
) -> Result<Option<Fitted>> {
    fit_with(config, opened, split, checkpoints, Lines::EveryEpoch)
}

/// What a training prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// A line per epoch, with all terms of the loss.
    EveryEpoch,
    /// Only the progress over all epochs.
    None,
}

/// Like [`fit`], with a choice of what is printed.
pub fn fit_with(
    config: &Config,
    opened: &LoadedDataset,
    split: &Split,
    checkpoints: Option<&Checkpoints>,
    lines: Lines,
) -> Result<Option<Fitted>> {
    let training = opened.dataset.training(split);
    let mut session = config.begin(&training)?;
    let mut clock = Clock::default();
    if let Some(checkpoints) = checkpoints {
        report_dropped(opened, split);
        RunDir::create(checkpoints.run.path())?;
        // The configuration is overwritten only when it is known to fit the checkpoint.
        clock = checkpoints.resume(&mut session)?;
        checkpoints.run.save_config(&session.config().to_toml()?)?;
    }
    let guard = interrupt::catch();
    let name = format!("training {}, epoch", session.config().method().name);
    let overall = (lines == Lines::None).then(|| Progress::new(name, session.epochs()));
    while !session.is_done() {
        let going_on = match &overall {
            None => epoch(&mut session, &mut clock)?,
            Some(overall) => quiet_epoch(&mut session, &mut clock, overall)?,
        };
        if let Some(checkpoints) = checkpoints {
            checkpoints.save(&session, &clock)?;
        }
        if !going_on {
            return Ok(None);
        }
    }
    drop(overall);
    drop(guard);
    let train::Fitted { model, history, best_epoch, rotation } = session.finish()?;
    if let Some(rotation) = rotation {
        say(format!("outputs rotated ({rotation}): validation improves"));
    }
    let history = History { epochs: history, seconds: clock.ended };
    warn_of_ties(&history, best_epoch);
    Ok(Some(Fitted { model, history, best: best_epoch, rotation }))
}

/// Warns if many items have the same code: the order of such items in search results is arbitrary.
fn warn_of_ties(history: &History, best: Option<usize>) {
    let best = best.and_then(|best| history.epochs.get(best - 1));
    let Some(found) = best.and_then(|epoch| epoch.validation) else { return };
    if found.tied > MAX_TIED {
        say(format!(
            "warning: {:.0} % of the items share their code with another item, so the order of \
             search results is arbitrary among them; use more bits, or jcch+ with a larger \
             plus.instance",
            100.0 * found.tied
        ));
    }
}

/// Runs one epoch and prints nothing; false if it was interrupted.
fn quiet_epoch(
    session: &mut TrainingSession,
    clock: &mut Clock,
    overall: &Progress,
) -> Result<bool> {
    let started = Instant::now();
    let mut on_step = |_: &Step<'_>| {
        if interrupt::requested() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let going_on = session.epoch(&mut on_step)?.is_some();
    let seconds = started.elapsed().as_secs_f64();
    if going_on {
        let until = clock.ended.last().copied().unwrap_or(0.0);
        clock.ended.push(until + clock.within + seconds);
        clock.within = 0.0;
        overall.set(session.history().len());
    } else {
        clock.within += seconds;
    }
    Ok(going_on)
}

/// Runs one epoch with live progress and prints a line at its end; false if it was interrupted.
fn epoch(session: &mut TrainingSession, clock: &mut Clock) -> Result<bool> {
    let started = Instant::now();
    let (number, epochs) = (session.history().len() + 1, session.epochs());
    let map = session.history().last().and_then(Epoch::map);
    let mut bar: Option<(Progress, usize)> = None;
    let mut taken = 0;
    let mut on_step = |step: &Step<'_>| {
        taken += step.batch;
        // Earlier steps were taken before the training was stopped.
        let (bar, before) = bar.get_or_insert_with(|| {
            let before = step.done - 1;
            let what = format!("epoch {number} of {epochs}, step");
            (Progress::new(what, step.all - before), before)
        });
        bar.set_with(step.done - *before, || {
            let row = (step.so_far)();
            let last = map.map_or(String::new(), |map| format!(", last MAP {map:.4}"));
            let rate = taken as f64 / started.elapsed().as_secs_f64();
            format!("{}{last}, {rate:.0} items/s", terms(&row))
        });
        if interrupt::requested() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let row = session.epoch(&mut on_step)?.cloned();
    drop(bar);
    let seconds = started.elapsed().as_secs_f64();
    let Some(row) = row else {
        clock.within += seconds;
        say(format!("interrupted in epoch {number}"));
        return Ok(false);
    };
    let left = seconds * epochs.saturating_sub(number) as f64;
    let map = row.validation.map_or(String::new(), |found| {
        let part = |name: &str, value: Option<f64>| {
            value.map_or(String::new(), |value| format!(", {name} {value:.3}"))
        };
        let map = part("MAP", found.map);
        let (recall, words) = (part("R@10", found.recall), part("words P@5", found.words));
        let unseen = part("of unseen items", found.words_unseen);
        let distinct = part("distinct codes", Some(found.distinct));
        format!("; validation{map}{recall}{words}{unseen}{distinct}")
    });
    let rate = taken as f64 / seconds;
    say(format!(
        "epoch {number} of {epochs}: {}{map}; {seconds:.1} s, {rate:.0} items/s, {left:.0} s left",
        terms(&row)
    ));
    let until = clock.ended.last().copied().unwrap_or(0.0);
    clock.ended.push(until + clock.within + seconds);
    clock.within = 0.0;
    Ok(true)
}

/// The loss and its terms.
fn terms(row: &Epoch) -> String {
    if !row.loss.is_finite() {
        return "closed form".into();
    }
    let mut out = format!("loss {:.3}", row.loss);
    for term in &row.terms {
        out += &format!(", {} {:.2}", term.name, term.value);
    }
    out
}

impl History {
    /// One line per epoch, for spreadsheets.
    pub fn to_csv(&self) -> String {
        HistoryTable::csv(&self.epochs, &self.seconds)
    }
}
