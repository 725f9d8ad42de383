//! JCCH+DCMH: DCMH that starts from JCCH (Zhang, Li and Zhang 2019, section on convergence).
//!
//! ```text
//! 1. JCCH for `dcmh.warmup_epochs` epochs (10)            2. the towers are carried over, without
//! 3. F, G <- outputs of all training pairs          centres and classifiers
//! 4. B = sgn(F + G), then DCMH for the other epochs (`dcmh.rs`)
//! ```
//!
//! `epochs` counts both phases. Differences: the paper does not state DCMH's learning rate after the start
//! (`dcmh.learning_rate`; 0.02 here, because the 0.3 of DCMH alone destroys the result of JCCH);
//! the learning rate of JCCH decreases within its own epochs; outputs are scaled once so that their mean square is 1,
//! the length that DCMH pulls to, because JCCH's are as long as its centres (this changes no code);
//! the best epoch by validation may be one of JCCH's.

use super::dcmh::{self, PairwiseObjective};
use super::jcch::{self, Jcch, JcchObjective};
use super::modality_data::pairs;
use super::range::{LEARNING_RATE, Range};
use super::{Begun, Entry, Method, MethodInfo, ModalityData};
use crate::checkpoint::Arrays;
use crate::config::{Config, Settings as _};
use crate::data::Training;
use crate::model::{Model, outputs};
use crate::supervise::Kind;
use crate::tower::{Matrix, Tower};
use crate::train::{Epoch, Objective, Position, Terms};
use crate::{Error, Result};

/// JCCH+DCMH.
pub(super) const ENTRY: Entry = Entry {
    info: MethodInfo {
        name: "jcch+dcmh",
        title: "DCMH after ten epochs of JCCH",
        paper: jcch::INFO.paper,
        year: jcch::INFO.year,
        cost: "O(n (towers + r C)), then O(n towers + n^2 r)",
        ..dcmh::INFO
    },
    sections: &[jcch::Settings::SECTION, dcmh::Settings::SECTION],
    search: &[
        LEARNING_RATE,
        Range::log("jcch.lambda", 0.0002, 0.05),
        Range::log("dcmh.learning_rate", 0.002, 0.2),
        Range::log("dcmh.gamma", 0.01, 10.0),
    ],
    build: |sections| {
        let jcch = Jcch { settings: sections.read()?, coefficients: Kind::Auto };
        let dcmh = sections
            .read_or(dcmh::Settings { learning_rate: 0.02, ..dcmh::Settings::default() })?;
        Ok(Box::new(JcchDcmh { jcch, dcmh }))
    },
};

#[derive(Debug)]
struct JcchDcmh {
    jcch: Jcch,
    dcmh: dcmh::Settings,
}

impl Method for JcchDcmh {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        let (epochs, warmup) = (config.epochs(), self.dcmh.warmup_epochs);
        if epochs <= warmup || warmup == 0 {
            return Err(Error::content(format!(
                "epochs = {epochs}, dcmh.warmup_epochs = {warmup}: jcch+dcmh needs at least one \
                 epoch of each, and epochs counts both"
            )));
        }
        let first = self.jcch.objective(&config.with_epochs(warmup), training)?;
        let data = first.towers().into_iter().map(|(data, _)| data);
        let pairs = pairs(ENTRY.info.name, training, data)?;
        Ok(Begun::Gradient(Box::new(Chain {
            config: config.clone(),
            settings: self.dcmh.clone(),
            pairs,
            phase: Phase::First(Box::new(first)),
        })))
    }
}

/// One objective after the other.
struct Chain {
    config: Config,
    settings: dcmh::Settings,
    pairs: Vec<Vec<usize>>,
    phase: Phase,
}

enum Phase {
    First(Box<JcchObjective>),
    Second(Box<PairwiseObjective>),
    Between,
}

/// The key of the state that marks the second phase.
const SECOND: &str = "second_phase";

impl Chain {
    fn now(&self) -> Result<&dyn Objective> {
        match &self.phase {
            Phase::First(objective) => Ok(&**objective),
            Phase::Second(objective) => Ok(&**objective),
            Phase::Between => Err(between()),
        }
    }

    fn now_mut(&mut self) -> Result<&mut dyn Objective> {
        match &mut self.phase {
            Phase::First(objective) => Ok(&mut **objective),
            Phase::Second(objective) => Ok(&mut **objective),
            Phase::Between => Err(between()),
        }
    }
}

fn between() -> Error {
    Error::content("the training failed between its phases")
}

impl Objective for Chain {
    fn begin_epoch(&mut self, epoch: usize, done: usize) -> usize {
        self.now_mut().map_or(0, |now| now.begin_epoch(epoch, done))
    }

    fn step(&mut self, at: Position, terms: &mut Terms) -> Result<usize> {
        self.now_mut()?.step(at, terms)
    }

    fn end_epoch(&mut self, at: Position, terms: &Terms, history: &[Epoch]) -> Result<()> {
        self.now_mut()?.end_epoch(at, terms, history)
    }

    fn learning_rate(&self, epoch: usize) -> f64 {
        self.now().map_or(f64::NAN, |now| now.learning_rate(epoch))
    }

    fn rate_key(&self) -> &'static str {
        self.now().map_or("learning_rate", Objective::rate_key)
    }

    fn flush(&mut self) {
        if let Ok(now) = self.now_mut() {
            now.flush();
        }
    }

    fn towers(&self) -> Vec<(&ModalityData, &Tower)> {
        self.now().map(Objective::towers).unwrap_or_default()
    }

    fn arrays(&self, full: bool) -> Arrays {
        self.now().map(|now| now.arrays(full)).unwrap_or_default()
    }

    fn restore(&mut self, arrays: Arrays, full: bool, at: Position) -> Result<()> {
        self.now_mut()?.restore(arrays, full, at)
    }

    fn state(&self) -> Result<toml::Table> {
        let mut state = self.now()?.state()?;
        let second = matches!(self.phase, Phase::Second(_));
        state.insert(SECOND.into(), toml::Value::Boolean(second));
        Ok(state)
    }

    fn set_state(&mut self, mut state: toml::Table) -> Result<()> {
        if state.remove(SECOND) == Some(toml::Value::Boolean(true)) {
            return self.next_phase();
        }
        self.now_mut()?.set_state(state)
    }

    fn begins_phase(&self, epoch: usize) -> bool {
        epoch == self.settings.warmup_epochs && matches!(self.phase, Phase::First(_))
    }

    /// Carries the towers over.
    fn next_phase(&mut self) -> Result<()> {
        let Phase::First(first) = std::mem::replace(&mut self.phase, Phase::Between) else {
            return Err(between());
        };
        let mut towers = Vec::new();
        for ((data, tower), pairs) in first.into_towers().into_iter().zip(&self.pairs) {
            let tower = without_classifier(&data, &tower, pairs)?;
            towers.push((data, tower));
        }
        let (settings, pairs) = (self.settings.clone(), self.pairs.clone());
        let first_epoch = self.settings.warmup_epochs;
        let second =
            PairwiseObjective::new(&self.config, settings, towers, pairs, first_epoch)?;
        self.phase = Phase::Second(Box::new(second));
        Ok(())
    }

    fn into_model(self: Box<Self>, labels: Vec<String>) -> Result<Model> {
        match self.phase {
            Phase::First(objective) => objective.into_model(labels),
            Phase::Second(objective) => objective.into_model(labels),
            Phase::Between => Err(between()),
        }
    }
}

/// A tower without its classifier, whose outputs have mean square 1 over the pairs; codes are
/// the same.
fn without_classifier(
    data: &ModalityData,
    tower: &Tower,
    pairs: &[usize],
) -> Result<Tower> {
    let shape = tower.shape();
    let found = outputs(tower, &data.rows, pairs, &|_| {})?;
    let squares: f64 = found.iter().map(|&x| f64::from(x).powi(2)).sum();
    let size = (squares / found.len() as f64).sqrt().max(1e-6);
    #[expect(clippy::cast_possible_truncation, reason = "towers are single precision")]
    let scale = (1.0 / size) as f32;
    let heads = |matrix: Matrix| {
        if !matrix.name.starts_with("heads") {
            return Matrix { velocity: vec![0.0; matrix.values.len()], ..matrix };
        }
        let rows = matrix.values.chunks_exact(matrix.columns);
        let values: Vec<f32> =
            rows.flat_map(|row| row[..shape.bits].iter().map(|x| x * scale)).collect();
        let velocity = vec![0.0; values.len()];
        Matrix { name: matrix.name, columns: shape.bits, values, velocity }
    };
    let matrices = tower.matrices(true).into_iter().map(heads).collect();
    let shape = crate::tower::Shape { classes: 0, ..shape };
    Tower::from_matrices(shape, matrices, &crate::device::learning())
        .ok_or_else(|| Error::content("a tower of another size"))
}
