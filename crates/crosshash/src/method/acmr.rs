//! ACMR: adversarial cross-modal retrieval (Wang, Yang, Xu, Hanjalic and Shen, *Adversarial Cross-Modal
//! Retrieval*, ACM MM 2017), hashed by sign.
//!
//! ```text
//! v = tanh(F_1(x)),   t = tanh(F_2(y))                         embeddings of r units
//! L = 100 sum_m CE(classifier(f_m), labels) + sum_{m != m'} T(f_m -> f_m') - w(p) CE(modality(f))
//! T = mean over triplets of max(0, 0.1 + 5 |f_i - g_j|^2 - |f_i - g_k|^2)
//! w(p) = 2 / (1 + e^(-10 p)) - 1                               p: share of the training that is done
//! ```
//!
//! The modality classifier minimises its cross-entropy; the gradient that reaches the embeddings is
//! reversed (`loss/gradient.rs`). Networks: dense rows d -> 512 -> 100 -> r, sparse rows d -> r -> 100
//! -> r, tanh; classifier r -> C; modality classifier r -> r/2 -> r/4 -> modalities.
//!
//! Differences from the paper: the embedding has as many units as bits, and codes are its signs (the
//! paper has no codes); triplets as a mean over the active ones, at most `acmr.triplets` positives and
//! negatives per anchor; the classifier takes several labels by the uniform distribution over them; ReLU
//! in the modality classifier. In the released script the reversed gradient never reaches the embeddings.

use burn_tensor::Tensor;
use crosshash_codes::Labels;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::batchwise::{label_rows, number, sum};
use super::deep::{At, Batching, DeepBatch, DeepObjective, Recipe, Work, adam, stepped};
use super::range::Range;
use super::{Begun, Entry, Method, MethodInfo, dcmh};
use crate::Result;
use crate::config::{Config, Settings as _, check};
use crate::data::Training;
use crate::loss::{Triplets, classifier, reversed, triplet};
use crate::tower::{MlpShape, Pass, Tower, Unit};
use crate::train::Terms;

/// Margin and scale of the triplets.
const MARGIN: f64 = 0.1;
const SCALE: f64 = 5.0;

/// The section `[acmr]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Weight of the classifier.
    pub(crate) classifier: f64,
    /// Largest weight of the modality classifier in the embeddings.
    pub(crate) adversarial: f64,
    /// Positives and negatives per anchor, at most.
    pub(crate) triplets: usize,
    /// Units of the first and second hidden layer on dense features.
    pub(crate) hidden: [usize; 2],
    /// Learning rate of Adam.
    pub(crate) learning_rate: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            classifier: 100.0,
            adversarial: 1.0,
            triplets: 8,
            hidden: [512, 100],
            learning_rate: 3e-4,
        }
    }
}

impl crate::config::Settings for Settings {
    const SECTION: &'static str = "acmr";

    fn check(&self) -> Result<()> {
        check::not_negative("acmr.classifier", self.classifier)?;
        check::not_negative("acmr.adversarial", self.adversarial)?;
        check::at_least_one("acmr.triplets", self.triplets)?;
        self.hidden.iter().try_for_each(|&h| check::at_least_one("acmr.hidden", h))?;
        check::positive("acmr.learning_rate", self.learning_rate)
    }
}

/// ACMR.
pub(super) const ENTRY: Entry = Entry {
    info: MethodInfo {
        name: "acmr",
        title: "classifier and triplets against a modality classifier",
        paper: "Wang et al.: Adversarial Cross-Modal Retrieval, ACM MM",
        year: 2017,
        cost: "O(n (towers + r C + triplets))",
        pairs: false,
        steps: 1500,
        on_features: "the published embedding, hashed by sign",
        ..dcmh::INFO
    },
    sections: &[Settings::SECTION],
    search: &[
        Range::log("acmr.learning_rate", 3e-5, 3e-3),
        Range::log("acmr.classifier", 1.0, 300.0),
        Range::log("acmr.adversarial", 0.01, 3.0),
    ],
    build: |sections| Ok(Box::new(Acmr(sections.read()?))),
};

#[derive(Debug, Clone)]
struct Acmr(Settings);

impl Method for Acmr {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        let mut work = Work::new(config, training, Batching::Items)?;
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed());
        let (bits, classes) = (config.bits().get(), training.label_names().len());
        let [first, second] = self.0.hidden;
        let modalities = work.data.len();
        for m in 0..modalities {
            let (width, sparse) = work.input_shape(m);
            let layers = vec![if sparse { bits.max(16) } else { first }, second, bits];
            let shape = MlpShape { width, sparse, layers, unit: Unit::Tanh, last: None };
            let name = work.data[m].name.clone();
            work.add(&name, shape, &mut rng);
        }
        let head = |layers: Vec<usize>| MlpShape {
            width: bits,
            sparse: false,
            layers,
            unit: Unit::Relu,
            last: None,
        };
        work.add("classifier", head(vec![classes]), &mut rng);
        let layers = vec![(bits / 2).max(4), (bits / 4).max(4), modalities];
        work.add("modality classifier", head(layers), &mut rng);
        DeepObjective::begin(work, Box::new(self.clone()), training)
    }
}

impl Recipe for Acmr {
    fn learning_rate(&self, epoch: usize, epochs: usize) -> f64 {
        stepped(self.0.learning_rate, epoch, epochs)
    }

    fn rate_key(&self) -> &'static str {
        "acmr.learning_rate"
    }

    fn players(&self) -> Option<([&'static str; 2], &'static str)> {
        Some((["embedding", "modality"], "acmr.learning_rate or acmr.adversarial"))
    }

    fn step(
        &mut self,
        work: &mut Work,
        batch: &DeepBatch,
        at: At,
        terms: &mut Terms,
    ) -> Result<()> {
        let Settings { classifier: weight, adversarial, triplets: most, .. } = self.0;
        let modalities = work.data.len();
        let (classes, judge) = (modalities, modalities + 1);
        let reverse = adversarial * (2.0 / (1.0 + (-10.0 * at.share).exp()) - 1.0);
        let passes: Vec<Pass> = (0..modalities)
            .map(|m| Ok(work.forward(m, work.input(m, &batch.items[m])?)))
            .collect::<Result<_>>()?;
        let f: Vec<Tensor<2>> = passes.iter().map(|pass| pass.out.clone().tanh()).collect();
        let labels: Vec<Labels> =
            (0..modalities).map(|m| work.labels(m, &batch.items[m])).collect();
        let mut rng = work.generator(at.position, 0);
        let (mut classified, mut judged, mut triplets) =
            (Vec::new(), Vec::new(), Vec::new());
        for a in 0..modalities {
            let shares = label_rows(&labels[a], true, &work.device);
            classified.push(classifier(work.apply(classes, f[a].clone()), shares));
            let logits = work.apply(judge, reversed(f[a].clone(), reverse));
            let own = Labels::from_indices(
                modalities,
                (0..labels[a].len()).map(|_| vec![u32::try_from(a).unwrap_or(0)]),
            )?;
            judged.push(classifier(logits, label_rows(&own, true, &work.device)));
            for b in (0..modalities).filter(|&b| b != a) {
                let drawn = Triplets::new(&labels[a], &labels[b], most, false, &mut rng);
                if !drawn.is_empty() {
                    triplets.push(triplet(&f[a], &f[b], &drawn, MARGIN, SCALE));
                }
            }
        }
        let (Some(classified), Some(judged)) = (sum(classified), sum(judged)) else {
            return Ok(());
        };
        terms.mean("classifier", number(&classified));
        let judged = judged / modalities as f64;
        terms.mean("modality", number(&judged));
        let mut own = classified * weight;
        if let Some(triplets) = sum(triplets) {
            terms.mean("triplets", number(&triplets));
            own = own + triplets;
        }
        terms.mean("embedding", number(&own));
        terms.loss(number(&own));
        terms.check(at.position, self.rate_key())?;
        let rate = self.learning_rate(at.position.epoch, work.config.epochs());
        let mut grads = (own + judged).backward();
        for (net, (_, network)) in work.nets.iter_mut().enumerate() {
            let pass: Vec<&Pass> = passes.get(net).into_iter().collect();
            network.step(&mut grads, &pass, adam(rate, 0.5));
        }
        Ok(())
    }

    fn towers(&self, work: &Work) -> Result<Vec<Tower>> {
        work.nets[..work.data.len()].iter().map(|(_, net)| net.tower()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_data::{small, train};

    /// The reversed gradient reaches the embeddings.
    #[test]
    fn the_modality_classifier_reaches_the_embeddings() {
        let data = small();
        let found = |weight: &str| {
            let settings =
                ["acmr.hidden=[8, 8]".to_owned(), format!("acmr.adversarial={weight}")];
            train("acmr", &data, 3, &settings)
        };
        assert_ne!(found("0.0").outputs, found("1.0").outputs);
        let history = found("1.0").history;
        assert!(history[2].term("modality").unwrap() > 0.0);
        assert!(history[2].term("embedding") < history[0].term("embedding"));
    }
}
