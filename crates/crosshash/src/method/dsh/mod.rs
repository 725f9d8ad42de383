//! DSH: deep sketch hashing (Liu, Shen, Shen, Liu and Shao, *Deep Sketch Hashing: Fast Free-hand
//! Sketch-Based Image Retrieval*, CVPR 2017).
//!
//! ```text
//! J = |r W - B_I^T B_S|_F^2 + lambda ( |Phi_I - D B_I|_F^2 + |Phi_S - D B_S|_F^2 )
//!     + gamma ( |F_1(x) - B_I|_F^2 + |F_2(s) - B_S|_F^2 ),   B in {-1, 1},  W_ij = 1 or -1
//! ```
//!
//! W tells whether items share a label, Phi are vectors of their labels. D has a closed form; codes are
//! found bit by bit (`codes.rs`); networks regress to them. Every `dsh.every` epochs of regression the codes
//! and D are updated, `dsh.sweeps` times. Codes of unseen items are the signs of the networks.
//!
//! Differences from the paper: networks d -> `hidden` -> 1024 -> r on features of both modalities, instead
//! of streams for sketches, photos and their contours ("sketch tokens", an external program); Adam.
//! Phi are rows of an orthogonal matrix for every label, unless `dsh.word_vectors` names an `.npy` file
//! with a row for every label (the paper: word2vec); several labels by their mean. W is used through
//! distinct label sets, without an n x n matrix. Only deployment networks were published, no training
//! code; lambda 0.01 and gamma 1e-5 are the paper's.

mod codes;

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::batchwise::number;
use super::deep::{At, Batching, DeepBatch, DeepObjective, Recipe, Work, adam, stepped};
use super::range::Range;
use super::{Begun, Entry, Method, MethodInfo, dcmh};
use crate::algebra::Matrix;
use crate::checkpoint::Array;
use crate::config::{Config, Settings as _, check};
use crate::data::{Features, Training};
use crate::tower::{MlpShape, Tower, Unit, normal};
use crate::train::{Position, Terms};
use crate::{Error, Result};
use codes::{CodeLearner, orthogonal};

/// Standard deviation of the initial weights of the hash layer.
const HASH: f64 = 0.01;

/// The section `[dsh]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Weight of the label vectors.
    pub(crate) lambda: f64,
    /// Weight of the networks in the codes.
    pub(crate) gamma: f64,
    /// Sweeps over all bits in an update of the codes.
    pub(crate) sweeps: usize,
    /// Epochs of regression between two updates of the codes.
    pub(crate) every: usize,
    /// Units of the second hidden layer.
    pub(crate) features: usize,
    /// An `.npy` file with a vector for every label; empty: orthogonal vectors.
    pub(crate) word_vectors: String,
    /// Learning rate of Adam.
    pub(crate) learning_rate: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            lambda: 0.01,
            gamma: 1e-5,
            sweeps: 3,
            every: 3,
            features: 1024,
            word_vectors: String::new(),
            learning_rate: 3e-4,
        }
    }
}

impl crate::config::Settings for Settings {
    const SECTION: &'static str = "dsh";

    fn check(&self) -> Result<()> {
        check::not_negative("dsh.lambda", self.lambda)?;
        check::not_negative("dsh.gamma", self.gamma)?;
        check::at_least_one("dsh.sweeps", self.sweeps)?;
        check::at_least_one("dsh.every", self.every)?;
        check::at_least_one("dsh.features", self.features)?;
        check::positive("dsh.learning_rate", self.learning_rate)
    }
}

/// DSH.
pub(super) const ENTRY: Entry = Entry {
    info: MethodInfo {
        name: "dsh",
        title: "discrete codes by label similarity and label vectors, then regression",
        paper: "Liu et al.: Deep Sketch Hashing, CVPR",
        year: 2017,
        cost: "O(n towers + n (C + r) r)",
        pairs: false,
        steps: 1500,
        on_features: "networks on features, without the stream of sketch tokens",
        ..dcmh::INFO
    },
    sections: &[Settings::SECTION],
    search: &[
        Range::log("dsh.learning_rate", 3e-5, 3e-3),
        Range::log("dsh.lambda", 1e-3, 10.0),
        Range::log("dsh.gamma", 1e-6, 1.0),
    ],
    build: |sections| Ok(Box::new(Dsh(sections.read()?))),
};

#[derive(Debug, Clone)]
struct Dsh(Settings);

fn code_buffer(m: usize) -> String {
    format!("codes{m}")
}

impl Method for Dsh {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        let mut work = Work::new(config, training, Batching::Items)?;
        work.two_modalities()?;
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed());
        let (bits, classes) = (config.bits().get(), training.label_names().len());
        for m in 0..2 {
            let (width, sparse) = work.input_shape(m);
            let hidden = work.hidden(m);
            let layers = if hidden == 0 {
                vec![self.0.features, bits]
            } else {
                vec![hidden, self.0.features, bits]
            };
            let shape =
                MlpShape { width, sparse, layers, unit: Unit::Relu, last: Some(HASH) };
            let name = work.data[m].name.clone();
            work.add(&name, shape, &mut rng);
            let n = work.data[m].rows.len();
            let values = normal(n * bits, 1.0, &mut rng);
            let values = values.into_iter().map(|x| if x >= 0.0 { 1.0 } else { -1.0 });
            let codes = Array { columns: bits, values: values.collect() };
            work.buffers.insert(code_buffer(m), codes);
        }
        let vectors = vectors(&self.0.word_vectors, training.label_names(), &mut rng)?;
        let labels = [0, 1].map(|m| &work.data[m].labels);
        let learner = CodeLearner::new(labels, vectors, bits, self.0.lambda, self.0.gamma);
        debug_assert!(learner.classes() == classes, "one vector per label");
        let mut recipe = Regression { settings: self.0.clone(), learner };
        recipe.update_codes(&mut work)?;
        DeepObjective::begin(work, Box::new(recipe), training)
    }
}

/// The vectors of labels, from a file or orthogonal.
fn vectors(path: &str, labels: &[String], rng: &mut ChaCha8Rng) -> Result<Matrix> {
    if path.is_empty() {
        return Ok(orthogonal(labels.len(), rng));
    }
    let path = std::path::Path::new(path);
    let Features::Dense(found) = crate::data::items(path, false)? else {
        return Err(Error::content("dsh.word_vectors must be a dense matrix").at(path));
    };
    let mut values = vec![0.0_f32; found.len() * found.width()];
    found.read(0..found.len(), &mut values).map_err(|err| err.at(path))?;
    let values = values.into_iter().map(f64::from).collect();
    let rows = Matrix { columns: found.width(), values };
    if rows.rows() != labels.len() {
        let what = format!(
            "dsh.word_vectors has {} rows: it must have one for each of the {} labels, in their \
             order",
            rows.rows(),
            labels.len()
        );
        return Err(Error::content(what).at(path));
    }
    Ok(rows)
}

struct Regression {
    settings: Settings,
    learner: CodeLearner,
}

impl Regression {
    /// Updates D and the codes.
    fn update_codes(&mut self, work: &mut Work) -> Result<()> {
        let mut outputs = [Vec::new(), Vec::new()];
        for (m, outputs) in outputs.iter_mut().enumerate() {
            let all: Vec<usize> = (0..work.data[m].rows.len()).collect();
            *outputs = work.for_all(m, &all, |input| work.forward(m, input).out)?;
        }
        let mut codes = [0, 1].map(|m| work.buffers[&code_buffer(m)].values.clone());
        for _ in 0..self.settings.sweeps {
            self.learner.update_basis(&codes)?;
            self.learner.sweep(&mut codes, &outputs);
        }
        let columns = work.config.bits().get();
        for (m, values) in codes.into_iter().enumerate() {
            work.buffers.insert(code_buffer(m), Array { columns, values });
        }
        Ok(())
    }
}

impl Recipe for Regression {
    fn learning_rate(&self, epoch: usize, epochs: usize) -> f64 {
        stepped(self.settings.learning_rate, epoch, epochs)
    }

    fn rate_key(&self) -> &'static str {
        "dsh.learning_rate"
    }

    fn step(
        &mut self,
        work: &mut Work,
        batch: &DeepBatch,
        at: At,
        terms: &mut Terms,
    ) -> Result<()> {
        let rate = self.learning_rate(at.position.epoch, work.config.epochs());
        let mut sum = 0.0;
        for m in 0..2 {
            let pass = work.forward(m, work.input(m, &batch.items[m])?);
            let codes = work.rows(&code_buffer(m), &batch.items[m])?;
            let loss = (pass.out.clone() - codes).square().mean();
            terms.mean(&format!("{}.regression", work.data[m].name), number(&loss));
            sum += number(&loss);
            terms.check(at.position, self.rate_key())?;
            work.update(loss, &[(m, &[&pass])], adam(rate, 0.9));
        }
        terms.loss(sum);
        Ok(())
    }

    fn end_epoch(&mut self, work: &mut Work, at: Position) -> Result<()> {
        if (at.epoch + 1).is_multiple_of(self.settings.every) {
            self.update_codes(work)?;
        }
        Ok(())
    }

    fn towers(&self, work: &Work) -> Result<Vec<Tower>> {
        work.nets.iter().map(|(_, net)| net.tower()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_data::{small, train};

    #[test]
    fn the_regression_falls_and_vectors_may_come_from_a_file() {
        let settings = ["dsh.features=8".to_owned(), "dsh.learning_rate=0.01".into()];
        let history = train("dsh", &small(), 12, &settings).history;
        let term = |epoch: usize| history[epoch].term("a.regression").unwrap();
        assert!(term(11) < 0.5 * term(0), "{} to {}", term(0), term(11));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing.npy");
        let text = format!("method = \"dsh\"\n[dsh]\nword_vectors = {path:?}\n");
        let config = crate::Config::parse(&text, &[]).unwrap();
        let data = small();
        let split = crate::data::SplitSpec::default().draw(&data).unwrap();
        let err = config.begin(&data.training(&split)).unwrap_err().to_string();
        assert!(err.contains("missing.npy"), "{err}");
    }
}
