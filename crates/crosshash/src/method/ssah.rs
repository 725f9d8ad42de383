//! SSAH: self-supervised adversarial hashing (Li, Deng, Li, Liu, Gao and Tao, *Self-Supervised
//! Adversarial Hashing Networks for Cross-Modal Retrieval*, CVPR 2018).
//!
//! A label network maps label vectors to features s_l and codes h_l; the network of every modality
//! follows them, and a discriminator of every modality tells its features from those of the labels.
//!
//! ```text
//! s = 512 hidden units,   h = tanh(r outputs),   yhat = sigmoid(C outputs)
//! L_* = alpha NLL(S, 1/2 <s_l, s_*>) + gamma NLL(S, 1/2 <h_l, h_*>)
//!     + eta |h_* - B|^2/(b r) + beta |yhat_* - y|^2/(b C) + delta BCE(D_*(s_*), 1)
//! L_D = mean_* of BCE(D_*(s_l), 1) + BCE(D_*(s_*), 0)
//! ```
//!
//! `*` is the label network (without the last term) or a modality. NLL is that of DCMH, as a mean over
//! the pairs of a batch with all training items, whose s_l, h_l are in buffers. B = sgn of the sum of all
//! h. An epoch is a pass of the label network, of the discriminators, and of every modality.
//!
//! Differences from the paper: networks on features (dense rows d -> 512, sparse rows d -> `hidden` ->
//! 512) instead of CNN-F; no multi-scale fusion of neighbouring tags, because the order of words in a
//! vocabulary has no meaning; no local response normalisation; one Adam with one falling rate.
//!
//! The published code differs from the paper: its pairwise terms are half squared differences of S theta
//! and log(1 + e^theta) with S = 0.999, B is the sign of the present outputs, and its discriminators read
//! values that are fed back, so that they never reach the networks. `ssah.loss = "official"` and
//! `ssah.adversarial = "official"` reproduce this.

use burn_tensor::Tensor;
use burn_tensor::activation::sigmoid;
use crosshash_codes::Labels;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::batchwise::{label_rows, number, similar};
use super::deep::{At, Batching, DeepBatch, DeepObjective, Recipe, Work, adam, stepped};
use super::range::Range;
use super::{Begun, Entry, Method, MethodInfo, dcmh};
use crate::Result;
use crate::checkpoint::Array;
use crate::config::{Config, Settings as _, check};
use crate::data::Training;
use crate::loss::{judged, likelihood_term, signs, squared_likelihood};
use crate::tower::{Input, Layer, MlpShape, Pass, Tower, Unit};
use crate::train::{Position, Terms};

/// Standard deviation of the initial weights of the heads.
const HEADS: f64 = 0.01;

/// The section `[ssah]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Weight of the likelihood of features.
    pub(crate) alpha: f64,
    /// Weight of the likelihood of codes.
    pub(crate) gamma: f64,
    /// Weight of the distance to the codes.
    pub(crate) eta: f64,
    /// Weight of the labels.
    pub(crate) beta: f64,
    /// Weight of the adversarial term.
    pub(crate) delta: f64,
    /// Units of the common features.
    pub(crate) features: usize,
    /// Units of the first layer of the label network and of networks on sparse features.
    pub(crate) hidden: usize,
    /// The pairwise terms: nll (paper) or official (published code).
    pub(crate) loss: Form,
    /// Whether discriminators reach the networks: paper, or official (they do not).
    pub(crate) adversarial: Reach,
    /// Learning rate of Adam.
    pub(crate) learning_rate: f64,
}

/// The pairwise terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Form {
    /// Negative log-likelihood.
    Nll,
    /// Half squared differences, codes of the batch as targets.
    Official,
}

/// Whether discriminators reach the networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reach {
    /// They do.
    Paper,
    /// They do not.
    Official,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            alpha: 1.0,
            gamma: 1.0,
            eta: 1.0,
            beta: 1.0,
            delta: 1.0,
            features: 512,
            hidden: 2048,
            loss: Form::Nll,
            adversarial: Reach::Paper,
            learning_rate: 1e-3,
        }
    }
}

impl crate::config::Settings for Settings {
    const SECTION: &'static str = "ssah";

    fn check(&self) -> Result<()> {
        for (key, value) in [
            ("ssah.alpha", self.alpha),
            ("ssah.gamma", self.gamma),
            ("ssah.eta", self.eta),
            ("ssah.beta", self.beta),
            ("ssah.delta", self.delta),
        ] {
            check::not_negative(key, value)?;
        }
        check::at_least_one("ssah.features", self.features)?;
        check::at_least_one("ssah.hidden", self.hidden)?;
        check::positive("ssah.learning_rate", self.learning_rate)
    }
}

/// SSAH.
pub(super) const ENTRY: Entry = Entry {
    info: MethodInfo {
        name: "ssah",
        title: "networks follow a label network, with discriminators",
        paper: "Li et al.: Self-Supervised Adversarial Hashing Networks, CVPR",
        year: 2018,
        cost: "O(n networks + n^2 (r + 512))",
        steps: 1000,
        on_features: "without multi-scale fusion of tags",
        ..dcmh::INFO
    },
    sections: &[Settings::SECTION],
    search: &[
        Range::log("ssah.learning_rate", 1e-4, 1e-2),
        Range::log("ssah.alpha", 0.03, 3.0),
        Range::log("ssah.eta", 0.01, 3.0),
        Range::log("ssah.delta", 0.01, 3.0),
    ],
    build: |sections| Ok(Box::new(Ssah(sections.read()?))),
};

#[derive(Debug, Clone)]
struct Ssah(Settings);

/// The number of the label network; that of a modality is 1 + its number.
const LABELS: usize = 0;

impl Method for Ssah {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        let mut work = Work::new(config, training, Batching::Pairs)?;
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed());
        let (bits, classes) = (config.bits().get(), training.label_names().len());
        let Settings { features, hidden, .. } = self.0;
        let heads = bits + classes;
        let net = |width: usize, sparse: bool, layers: Vec<usize>| MlpShape {
            width,
            sparse,
            layers,
            unit: Unit::Relu,
            last: Some(HEADS),
        };
        work.add("labels", net(classes, false, vec![hidden, features, heads]), &mut rng);
        let modalities = work.data.len();
        for m in 0..modalities {
            let (width, sparse) = work.input_shape(m);
            let layers =
                if sparse { vec![hidden, features, heads] } else { vec![features, heads] };
            let name = work.data[m].name.clone();
            work.add(&name, net(width, sparse, layers), &mut rng);
        }
        for m in 0..modalities {
            let judge = MlpShape {
                width: features,
                sparse: false,
                layers: vec![features, features.div_ceil(2), 1],
                unit: Unit::Relu,
                last: None,
            };
            let name = format!("discriminator.{}", work.data[m].name);
            work.add(&name, judge, &mut rng);
        }
        let n = work.pairs[0].len();
        for (name, columns) in [(FEATURES, features), (CODES, bits), (TARGETS, bits)] {
            let values = vec![0.0; n * columns];
            work.buffers.insert(name.into(), Array { columns, values });
        }
        for m in 0..modalities {
            let values = vec![0.0; n * bits];
            work.buffers.insert(code_buffer(&work, m), Array { columns: bits, values });
        }
        let pair_labels = work.labels(0, &work.pairs[0].clone());
        let mut recipe =
            Networks { settings: self.0.clone(), bits, modalities, pair_labels };
        recipe.fill(&mut work)?;
        DeepObjective::begin(work, Box::new(recipe), training)
    }
}

/// Buffers: features and codes of the label network, and B.
const FEATURES: &str = "features";
const CODES: &str = "codes";
const TARGETS: &str = "B";

fn code_buffer(work: &Work, m: usize) -> String {
    format!("codes.{}", work.data[m].name)
}

struct Networks {
    settings: Settings,
    bits: usize,
    modalities: usize,
    pair_labels: Labels,
}

/// What a network makes of a batch.
struct Made {
    pass: Pass,
    features: Tensor<2>,
    codes: Tensor<2>,
    labels: Tensor<2>,
}

impl Networks {
    fn make(&self, work: &Work, net: usize, input: Input) -> Made {
        let pass = work.forward(net, input);
        let outputs = pass.out.dims()[1];
        let codes = pass.out.clone().narrow(1, 0, self.bits).tanh();
        let labels = sigmoid(pass.out.clone().narrow(1, self.bits, outputs - self.bits));
        let features = pass.hidden.last().cloned().unwrap_or_else(|| pass.out.clone());
        Made { pass, features, codes, labels }
    }

    /// The discriminator of a modality.
    fn judge(&self, m: usize) -> usize {
        1 + self.modalities + m
    }

    /// The terms that all networks share.
    fn terms_of(
        &self,
        work: &Work,
        made: &Made,
        rows: &[usize],
        name: &str,
        terms: &mut Terms,
    ) -> Result<Tensor<1>> {
        let Settings { alpha, gamma, eta, beta, loss: form, .. } = self.settings;
        let own = self.pair_labels.select(rows);
        let likelihood = |f: &Tensor<2>, buffer: &str| -> Result<Tensor<1>> {
            let Array { columns, values } = work.buffer(buffer)?;
            Ok(match form {
                Form::Nll => likelihood_term(f.clone(), &own, values, &self.pair_labels),
                Form::Official => {
                    let n = values.len() / columns;
                    let all = work.rows(buffer, &(0..n).collect::<Vec<_>>())?;
                    let s = similar(&own, &self.pair_labels, [1.0, 0.0], &work.device);
                    squared_likelihood(f.clone(), all, s)
                }
            })
        };
        let features = likelihood(&made.features, FEATURES)?;
        let codes = likelihood(&made.codes, CODES)?;
        let targets = match form {
            Form::Nll => work.rows(TARGETS, rows)?,
            Form::Official => signs(made.codes.clone()),
        };
        let quantisation = (made.codes.clone() - targets).square().mean();
        let wanted = label_rows(&own, false, &work.device);
        let labels = (made.labels.clone() - wanted).square().mean();
        for (term, value) in [
            ("features", &features),
            ("codes", &codes),
            ("quantisation", &quantisation),
            ("labels", &labels),
        ] {
            terms.mean(&format!("{name}.{term}"), number(value));
        }
        Ok(features * alpha + codes * gamma + quantisation * eta + labels * beta)
    }

    /// Fills all buffers from the present networks.
    fn fill(&mut self, work: &mut Work) -> Result<()> {
        let rows: Vec<usize> = (0..self.pair_labels.len()).collect();
        for block in rows.chunks(256) {
            let input = Input::Dense(label_rows(
                &self.pair_labels.select(block),
                false,
                &work.device,
            ));
            let made = self.make(work, LABELS, input);
            work.set_rows(FEATURES, block, &made.features)?;
            work.set_rows(CODES, block, &made.codes)?;
            for m in 0..self.modalities {
                let items: Vec<usize> =
                    block.iter().map(|&row| work.pairs[m][row]).collect();
                let made = self.make(work, 1 + m, work.input(m, &items)?);
                work.set_rows(&code_buffer(work, m), block, &made.codes)?;
            }
        }
        self.update_targets(work)
    }

    /// B, the signs of the sum of all codes.
    fn update_targets(&self, work: &mut Work) -> Result<()> {
        let mut sum = work.buffer(CODES)?.values.clone();
        for m in 0..self.modalities {
            let own = work.buffer(&code_buffer(work, m))?;
            sum.iter_mut().zip(&own.values).for_each(|(sum, x)| *sum += x);
        }
        let values = sum.into_iter().map(|x| if x >= 0.0 { 1.0 } else { -1.0 }).collect();
        work.buffers.insert(TARGETS.into(), Array { columns: self.bits, values });
        Ok(())
    }

    /// One step of the discriminators.
    fn judge_step(
        &self,
        work: &mut Work,
        batch: &DeepBatch,
        rate: f64,
        terms: &mut Terms,
    ) -> Result<()> {
        let real = work.rows(FEATURES, &batch.rows)?;
        let mut losses = 0.0;
        for m in 0..self.modalities {
            let made = self.make(work, 1 + m, work.input(m, &batch.items[m])?);
            let net = self.judge(m);
            let loss = judged(work.apply(net, real.clone()), 1.0)
                + judged(work.apply(net, made.features.detach()), 0.0);
            losses += number(&loss) / (2 * self.modalities) as f64;
            work.update(loss * 0.5, &[(net, &[])], adam(rate, 0.9));
        }
        terms.mean(DISCRIMINATOR, losses);
        Ok(())
    }
}

/// The losses of the players.
const DISCRIMINATOR: &str = "discriminator";
const GENERATOR: &str = "generator";

impl Recipe for Networks {
    fn passes(&self) -> usize {
        2 + self.modalities
    }

    fn learning_rate(&self, epoch: usize, epochs: usize) -> f64 {
        stepped(self.settings.learning_rate, epoch, epochs)
    }

    fn rate_key(&self) -> &'static str {
        "ssah.learning_rate"
    }

    fn players(&self) -> Option<([&'static str; 2], &'static str)> {
        Some(([GENERATOR, DISCRIMINATOR], "ssah.learning_rate or ssah.delta"))
    }

    fn step(
        &mut self,
        work: &mut Work,
        batch: &DeepBatch,
        at: At,
        terms: &mut Terms,
    ) -> Result<()> {
        let rate = self.learning_rate(at.position.epoch, work.config.epochs());
        let (net, name, m) = match at.pass {
            0 => (LABELS, "labels".to_owned(), None),
            1 => return self.judge_step(work, batch, rate, terms),
            pass => (pass - 1, work.data[pass - 2].name.clone(), Some(pass - 2)),
        };
        let input = match m {
            None => {
                let own = self.pair_labels.select(&batch.rows);
                Input::Dense(label_rows(&own, false, &work.device))
            }
            Some(m) => work.input(m, &batch.items[m])?,
        };
        let made = self.make(work, net, input);
        match m {
            None => {
                work.set_rows(FEATURES, &batch.rows, &made.features)?;
                work.set_rows(CODES, &batch.rows, &made.codes)?;
            }
            Some(m) => work.set_rows(&code_buffer(work, m), &batch.rows, &made.codes)?,
        }
        let mut loss = self.terms_of(work, &made, &batch.rows, &name, terms)?;
        if let Some(m) = m {
            let features = match self.settings.adversarial {
                Reach::Paper => made.features.clone(),
                Reach::Official => made.features.clone().detach(),
            };
            let fooled = judged(work.apply(self.judge(m), features), 1.0);
            terms.mean(GENERATOR, number(&fooled));
            loss = loss + fooled * self.settings.delta;
        }
        terms.loss(number(&loss));
        terms.check(at.position, self.rate_key())?;
        work.update(loss, &[(net, &[&made.pass])], adam(rate, 0.9));
        Ok(())
    }

    fn end_epoch(&mut self, work: &mut Work, _: Position) -> Result<()> {
        self.update_targets(work)
    }

    fn towers(&self, work: &Work) -> Result<Vec<Tower>> {
        let tower = |m: usize| {
            let net = &work.nets[1 + m].1;
            let shape = net.shape();
            let mut layers = net.layers();
            if let Some(last) = layers.last_mut() {
                *last = first_outputs(last, self.bits);
            }
            Tower::of_layers(shape.width, shape.sparse, shape.unit, layers)
        };
        (0..self.modalities).map(tower).collect()
    }
}

/// The first outputs of a layer.
fn first_outputs(layer: &Layer, count: usize) -> Layer {
    let rows = layer.weight.chunks_exact(layer.columns);
    Layer {
        columns: count,
        weight: rows.flat_map(|row| &row[..count]).copied().collect(),
        bias: layer.bias[..count].to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_data::{small, train};

    /// The discriminators reach the networks: their weight changes the result; in the published code
    /// they do not, and it does not.
    #[test]
    fn discriminators_reach_the_networks_unless_official() {
        let data = small();
        let outputs = |reach: &str, delta: &str| {
            let settings = [
                format!("ssah.adversarial={reach}"),
                format!("ssah.delta={delta}"),
                "ssah.hidden=16".into(),
                "ssah.features=8".into(),
            ];
            train("ssah", &data, 2, &settings).outputs
        };
        assert_ne!(outputs("paper", "0.0"), outputs("paper", "1.0"));
        assert_eq!(outputs("official", "0.0"), outputs("official", "1.0"));
    }

    #[test]
    fn both_forms_of_the_loss_learn_and_report_both_players() {
        let data = small();
        for form in ["nll", "official"] {
            let settings = [
                format!("ssah.loss={form}"),
                "ssah.hidden=16".into(),
                "ssah.features=8".into(),
                "ssah.learning_rate=0.01".into(),
            ];
            let history = train("ssah", &data, 12, &settings).history;
            let term = |epoch: usize, name: &str| history[epoch].term(name).unwrap();
            assert!(term(11, "a.labels") < 0.7 * term(0, "a.labels"), "{form}");
            assert!(term(11, "generator") > 0.0 && term(11, "discriminator") > 0.0);
        }
    }
}
