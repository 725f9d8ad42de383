//! One training with its clock: live progress, a line per epoch, checkpoints, Ctrl-C.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result};
use crosshash::Model;
use crosshash::config::Run;
use crosshash::data::{Choice, Opened, Split};
use crosshash::method::{Fitting, Learning};
use crosshash::train::{Epoch, Step, Trainer};
use serde::{Deserialize, Serialize};

use crate::progress::{Progress, say};
use crate::{file, interrupt};

/// The file of a run folder that says all that was set.
pub const CONFIG: &str = "config.toml";

/// What training gave.
pub struct Fitted {
    /// The trained model.
    pub model: Model,
    /// Its epochs.
    pub history: History,
    /// The best epoch by validation, from 1.
    pub best: Option<usize>,
}

/// The epochs, and when each ended.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// One row per epoch.
    pub epochs: Vec<Epoch>,
    /// Seconds of training until the end of each epoch.
    pub seconds: Vec<f64>,
}

/// Where a training leaves what it needs to go on.
pub struct Folder {
    path: PathBuf,
    resume: bool,
}

/// What the checkpoint notes of the clock.
#[derive(Default, Serialize, Deserialize)]
struct Clock {
    ended: Vec<f64>, // seconds until the end of each epoch
    within: f64,     // seconds of the epoch that was left
}

impl Folder {
    /// A run folder; `resume` goes on from the checkpoint in it, if there is one.
    pub fn new(path: &Path, resume: bool) -> Folder {
        Folder { path: path.to_owned(), resume }
    }

    /// The file of the checkpoint.
    pub fn checkpoint(&self) -> PathBuf {
        self.path.join("checkpoint.safetensors")
    }

    fn save(&self, fitting: &mut dyn Fitting<'_>, clock: &Clock) -> Result<()> {
        if let Some(trainer) = fitting.trainer() {
            trainer.save(&self.checkpoint(), &serde_json::to_string(clock)?)?;
        }
        let history =
            History { epochs: fitting.history().to_vec(), seconds: clock.ended.clone() };
        file::write(&self.path.join("history.csv"), &history.to_csv())
    }

    /// Goes on from the checkpoint, if there is one and the method can.
    fn resume(&self, trainer: Option<&mut Trainer<'_>>) -> Result<Clock> {
        let path = self.checkpoint();
        let Some(trainer) = trainer.filter(|_| self.resume && path.exists()) else {
            return Ok(Clock::default());
        };
        let note = trainer.resume(&path)?;
        say(format!("going on after epoch {}", trainer.history().len()));
        serde_json::from_str(&note).with_context(|| path.display().to_string())
    }
}

/// The split of the manifest; if it names no validation items, a share of what training draws
/// from is held out. A number of training items that leaves no room for them makes room.
pub fn split(opened: &Opened, validation: f64) -> Result<Split> {
    let Some(mut plan) = opened.plan.clone() else { return Ok(opened.split()?) };
    if plan.validation.is_some() || validation == 0.0 {
        return Ok(plan.draw(&opened.dataset)?);
    }
    plan.validation = Some(Choice::Share(validation));
    match (plan.draw(&opened.dataset), &plan.train) {
        (Err(_), Some(Choice::Count(train))) => {
            #[expect(clippy::cast_possible_truncation, reason = "a part of a count")]
            #[expect(clippy::cast_sign_loss, reason = "not negative")]
            let held_out = (*train as f64 * validation).round() as usize;
            plan.train = Some(Choice::Count(train - held_out));
            plan.validation = Some(Choice::Count(held_out));
            Ok(plan.draw(&opened.dataset)?)
        }
        (drawn, _) => Ok(drawn?),
    }
}

/// Says what of a data set is not learnt from, and what its split notes.
fn say_what_is_left_out(opened: &Opened, split: &Split) {
    for left in opened.dataset.left_out().iter().chain(split.left_out()) {
        say(format!("{}: {} items left out: {}", left.modality, left.items, left.reason));
    }
    split.notes().iter().for_each(say);
    let training = opened.dataset.training(split);
    for name in training.modalities() {
        let Ok(view) = training.train(name) else { continue };
        let unlabelled = view.labels().unlabelled();
        if unlabelled > 0 {
            let of = view.len();
            say(format!(
                "{name}: {unlabelled} of {of} training items have no label, and are not learnt from"
            ));
        }
    }
}

/// Trains; `None` if the user stopped it. With a folder, every epoch leaves a checkpoint there,
/// and so does Ctrl-C.
pub fn fit(
    run: &Run,
    opened: &Opened,
    split: &Split,
    folder: Option<&Folder>,
) -> Result<Option<Fitted>> {
    let training = opened.dataset.training(split);
    let analysis = |name: &str| opened.analysis.get(name).cloned().unwrap_or_default();
    let mut fitting = run.method.begin(run, &training, &analysis)?;
    let mut clock = Clock::default();
    if let Some(folder) = folder {
        say_what_is_left_out(opened, split);
        fs_err::create_dir_all(&folder.path)?;
        // What was set is written over only when it is known to go on from what is there.
        clock = folder.resume(fitting.trainer())?;
        file::write(&folder.path.join(CONFIG), &run.raw.to_toml()?)?;
    }
    let epochs = match run.method.about().learning {
        Learning::Epochs => run.raw.epochs,
        Learning::Once | Learning::Hardly => 1,
    };
    let asking = interrupt::catch();
    while !fitting.is_done() {
        let going_on = epoch(&mut *fitting, &mut clock, epochs)?;
        if let Some(folder) = folder {
            folder.save(&mut *fitting, &clock)?;
        }
        if !going_on {
            return Ok(None);
        }
    }
    drop(asking);
    let history = History { epochs: fitting.history().to_vec(), seconds: clock.ended };
    let best = fitting.best_epoch();
    Ok(Some(Fitted { model: fitting.finish()?, history, best }))
}

/// One epoch, with live progress and a line at its end; false if it was stopped.
fn epoch(fitting: &mut dyn Fitting<'_>, clock: &mut Clock, epochs: usize) -> Result<bool> {
    let started = Instant::now();
    let number = fitting.history().len() + 1;
    let map = fitting.history().last().and_then(|row| row.map);
    let mut bar: Option<(Progress, usize)> = None;
    let mut taken = 0;
    let mut watch = |step: &Step<'_>| {
        taken += step.batch;
        // Steps before this one were taken before the training was stopped.
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
        match interrupt::asked() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let row = fitting.epoch(&mut watch)?.cloned();
    drop(bar);
    let seconds = started.elapsed().as_secs_f64();
    let Some(row) = row else {
        clock.within += seconds;
        say(format!("stopped in epoch {number}"));
        return Ok(false);
    };
    let left = seconds * epochs.saturating_sub(number) as f64;
    let map = row.map.map_or(String::new(), |map| format!(", validation MAP {map:.4}"));
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

/// The loss and its terms, where there are any: classification / attraction / classifier /
/// quantisation of every modality.
fn terms(row: &Epoch) -> String {
    match (row.modalities.is_empty(), row.loss.is_finite()) {
        (true, true) => return format!("loss {:.4}", row.loss),
        (true, false) => return "in closed form".into(),
        (false, _) => {}
    }
    let parts = row.modalities.iter().map(|m| {
        format!(
            "{} {:.2}/{:.2}/{:.2}/{:.2}",
            m.name, m.classification, m.attraction, m.classifier, m.quantisation
        )
    });
    let parts: Vec<String> = parts.collect();
    format!("loss {:.3}, {}, pair {:.2}", row.loss, parts.join(", "), row.pair)
}

impl History {
    /// One line per epoch, for spreadsheets.
    pub fn to_csv(&self) -> String {
        let mut out = String::from("epoch,seconds,rate,loss,pair,validation_map");
        const PARTS: [&str; 6] = [
            "classification",
            "attraction",
            "classifier",
            "quantisation",
            "alpha",
            "length",
        ];
        let named = self.epochs.first().map_or(&[][..], |epoch| &epoch.modalities);
        for m in named {
            PARTS.iter().for_each(|part| out += &format!(",{}.{part}", m.name));
        }
        for (epoch, seconds) in self.epochs.iter().zip(&self.seconds) {
            let map = epoch.map.map_or(String::new(), |map| map.to_string());
            out += &format!(
                "\n{},{seconds:.3},{},{},{},{map}",
                epoch.epoch, epoch.rate, epoch.loss, epoch.pair
            );
            for m in &epoch.modalities {
                let (a, b, c) = (m.classification, m.attraction, m.classifier);
                let (d, e, f) = (m.quantisation, m.alpha, m.length);
                out += &format!(",{a},{b},{c},{d},{e},{f}");
            }
            // Epochs of another kind after the first have no terms.
            let missing = named.len() - epoch.modalities.len().min(named.len());
            out += &",".repeat(missing * PARTS.len());
        }
        out + "\n"
    }
}
