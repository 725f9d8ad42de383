//! ADAH: attention-aware deep adversarial hashing (Zhang, Lai and Feng, *Attention-Aware Deep Adversarial
//! Hashing for Cross-Modal Retrieval*, ECCV 2018; as *HashGAN* arXiv:1711.09347).
//!
//! An attention module selects a part of the features of an item; the hash network must code the
//! selected part well, and the attention module selects so that the rest is hard to code.
//!
//! ```text
//! e = relu(x W_1),   M = 1[softmax(x V) >= 1/K]            K units; straight-through gradient
//! h = tanh((M * e) W),   hhat = tanh(((1 - M) * e) W)
//! T(f -> g) = mean over triplets S_ij > S_ik of max(0, r/2 + |f_i - g_j|^2 - |f_i - g_k|^2)
//! min over W_1, W:  sum_{m, m'} T(h^m -> h^m') + sum_{m != m'} T(h^m -> hhat^m')
//! max over V:       sum_{m != m'} T(h^m -> hhat^m')
//! ```
//!
//! The mask is part of the model (`tower/unit.rs`): codes are the signs of (M * e) W.
//!
//! Differences from the paper: the mask selects K hidden units of a network on features; the paper's
//! selects positions of a convolution map, with threshold 1 / (height x width). Both players step at once
//! by gradient reversal (`loss/gradient.rs`) instead of in turns. Squared distances and margin r/2, as in
//! the port of the authors' group; triplets by shared labels within the batch, at most `adah.triplets`
//! positives and negatives per anchor, as a mean over the active ones. That port (ResNet18 and BERT) has no
//! attention at all.

use burn_tensor::activation::{relu, softmax};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::batchwise::{number, sum};
use super::deep::{At, Batching, DeepBatch, DeepObjective, Recipe, Work, adam, stepped};
use super::range::Range;
use super::{Begun, Entry, Method, MethodInfo, dcmh};
use crate::Result;
use crate::config::{Config, Settings as _, check};
use crate::data::Training;
use crate::loss::{Triplets, reversed, straight_through, triplet};
use crate::tower::{MlpShape, Tower, Unit, mask};
use crate::train::Terms;

/// Standard deviation of the initial weights of the hash layer.
const HASH: f64 = 0.01;

/// The section `[adah]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Hidden units, which the mask selects.
    pub(crate) features: usize,
    /// Margin of the triplets, as a share of the bits.
    pub(crate) margin: f64,
    /// Positives and negatives per anchor, at most.
    pub(crate) triplets: usize,
    /// Weight of the adversarial terms.
    pub(crate) adversarial: f64,
    /// Learning rate of Adam.
    pub(crate) learning_rate: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            features: 512,
            margin: 0.5,
            triplets: 16,
            adversarial: 1.0,
            learning_rate: 3e-4,
        }
    }
}

impl crate::config::Settings for Settings {
    const SECTION: &'static str = "adah";

    fn check(&self) -> Result<()> {
        check::at_least_one("adah.features", self.features)?;
        check::positive("adah.margin", self.margin)?;
        check::at_least_one("adah.triplets", self.triplets)?;
        check::not_negative("adah.adversarial", self.adversarial)?;
        check::positive("adah.learning_rate", self.learning_rate)
    }
}

/// ADAH.
pub(super) const ENTRY: Entry = Entry {
    info: MethodInfo {
        name: "adah",
        title: "triplets on features that an adversarial attention selects",
        paper: "Zhang, Lai, Feng: Attention-Aware Deep Adversarial Hashing, ECCV",
        year: 2018,
        cost: "O(n (towers + triplets))",
        pairs: false,
        steps: 1500,
        on_features: "the mask selects hidden units, not positions of a picture",
        ..dcmh::INFO
    },
    sections: &[Settings::SECTION],
    search: &[
        Range::log("adah.learning_rate", 3e-5, 3e-3),
        Range::linear("adah.margin", 0.1, 1.0),
        Range::log("adah.adversarial", 0.01, 1.0),
    ],
    build: |sections| Ok(Box::new(Adah(sections.read()?))),
};

#[derive(Debug, Clone)]
struct Adah(Settings);

impl Method for Adah {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        let mut work = Work::new(config, training, Batching::Items)?;
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed());
        for m in 0..work.data.len() {
            let (width, sparse) = work.input_shape(m);
            let shape = MlpShape {
                width,
                sparse,
                layers: vec![2 * self.0.features, config.bits().get()],
                unit: Unit::Gated,
                last: Some(HASH),
            };
            let name = work.data[m].name.clone();
            work.add(&name, shape, &mut rng);
        }
        DeepObjective::begin(work, Box::new(self.clone()), training)
    }
}

impl Recipe for Adah {
    fn learning_rate(&self, epoch: usize, epochs: usize) -> f64 {
        stepped(self.0.learning_rate, epoch, epochs)
    }

    fn rate_key(&self) -> &'static str {
        "adah.learning_rate"
    }

    fn players(&self) -> Option<([&'static str; 2], &'static str)> {
        Some((["retrieval", "adversarial"], "adah.learning_rate or adah.adversarial"))
    }

    fn step(
        &mut self,
        work: &mut Work,
        batch: &DeepBatch,
        at: At,
        terms: &mut Terms,
    ) -> Result<()> {
        let Settings { margin, triplets: most, adversarial, .. } = self.0;
        let modalities = work.data.len();
        let margin = margin * work.config.bits().get() as f64;
        let (mut passes, mut codes, mut rest, mut labels) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for m in 0..modalities {
            let net = &work.nets[m].1;
            let pass = net.forward(work.input(m, &batch.items[m])?);
            let half = pass.first.dims()[1] / 2;
            let units = relu(pass.first.clone().narrow(1, 0, half));
            let scores = pass.first.clone().narrow(1, half, half);
            // The attention maximises: its gradient is reversed. The first codes do not teach it.
            let hard = mask(scores.clone());
            let soft = softmax(reversed(scores, 1.0), 1) * half as f64;
            let open = straight_through(hard.clone(), soft);
            terms.mean(
                &format!("{}.mask", work.data[m].name),
                f64::from(hard.clone().mean().into_scalar::<f32>()),
            );
            codes.push(net.after_first(units.clone() * hard).tanh());
            rest.push(net.after_first(units * (open.neg() + 1.0)).tanh());
            labels.push(work.labels(m, &batch.items[m]));
            passes.push(pass);
        }
        let mut rng = work.generator(at.position, 0);
        let (mut retrieval, mut hidden) = (Vec::new(), Vec::new());
        for a in 0..modalities {
            for b in 0..modalities {
                let drawn = Triplets::new(&labels[a], &labels[b], most, a == b, &mut rng);
                if drawn.is_empty() {
                    continue;
                }
                retrieval.push(triplet(&codes[a], &codes[b], &drawn, margin, 1.0));
                if a != b {
                    hidden.push(triplet(&codes[a], &rest[b], &drawn, margin, 1.0));
                }
            }
        }
        let Some(mut loss) = sum(retrieval) else { return Ok(()) };
        terms.mean("retrieval", number(&loss));
        if let Some(hidden) = sum(hidden) {
            terms.mean("adversarial", number(&hidden));
            loss = loss + hidden * adversarial;
        }
        terms.loss(number(&loss));
        terms.check(at.position, self.rate_key())?;
        let rate = self.learning_rate(at.position.epoch, work.config.epochs());
        let mut grads = loss.backward();
        for (m, pass) in passes.iter().enumerate() {
            work.nets[m].1.step(&mut grads, &[pass], adam(rate, 0.9));
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
    use super::*;
    use crate::optimise::floats;
    use crate::tower::Matrix;
    use burn_tensor::Tensor;

    /// The mask of the model on inputs that are unit vectors, which shows every row of V.
    fn masks(matrices: &[Matrix]) -> Vec<f32> {
        let (weight, bias) = (&matrices[0], &matrices[1]);
        let half = weight.columns / 2;
        let scores = weight.values.chunks_exact(weight.columns).flat_map(|row| {
            let scores = row[half..].iter().zip(&bias.values[half..]);
            scores.map(|(x, b)| x + b).collect::<Vec<f32>>()
        });
        let scores: Vec<f32> = scores.collect();
        let shape = [scores.len() / half, half];
        let data = burn_tensor::TensorData::new(scores, shape);
        floats(mask(Tensor::from_data(data, &burn_tensor::Device::flex())))
    }

    #[test]
    fn the_mask_changes_with_training_and_items_select_some_units() {
        let data = small();
        let found = |epochs: usize, adversarial: &str| {
            let settings = [
                "adah.features=12".to_owned(),
                "adah.learning_rate=0.01".into(),
                format!("adah.adversarial={adversarial}"),
            ];
            train("adah", &data, epochs, &settings)
        };
        let mask_of = |epochs: usize, adversarial: &str| {
            masks(&found(epochs, adversarial).model.tower("a").unwrap().matrices(false))
        };
        assert_ne!(mask_of(1, "1.0"), mask_of(15, "1.0"));
        // Without the adversarial terms nothing teaches the attention.
        assert_eq!(mask_of(1, "0.0"), mask_of(15, "0.0"));
        let history = found(15, "1.0").history;
        let share = history[14].term("a.mask").unwrap();
        assert!(share > 0.05 && share < 0.95, "{share}");
        let (first, last) = (history[0].term("retrieval"), history[14].term("retrieval"));
        assert!(last < first, "{first:?} to {last:?}");
    }
}
