//! TUCH: cross-view hashing as single-view hashing (Zhao, Ding, Guo, Han and Gao, *TUCH: Turning
//! Cross-view Hashing into Single-view Hashing via Generative Adversarial Nets*, IJCAI 2017).
//!
//! A generator G translates texts to features of pictures; one hash network H codes pictures and
//! translated texts.
//!
//! ```text
//! D:     BCE(D(x, t), 1) + 1/2 BCE(D(G t, t), 0) + 1/2 BCE(D(x', t), 0)     x' of another item
//! G, H:  NLL(S, 1/2 <H(x), H(G t)>) both ways + gamma (|H(x) - B|^2 + |H(G t) - B|^2)/(b r)
//!        + delta BCE(D(G t, t), 1)
//! ```
//!
//! NLL is DCMH's, of a batch against the outputs of all training pairs in buffers, B = sgn of their sum.
//! D is matching-aware: it sees the picture's features and the hidden units of the text. A text is coded
//! as sgn H(G(t)); G and H together are one tower with two hidden layers.
//!
//! Differences from the paper: the generator makes feature vectors, not pictures (and needs no text
//! encoder, no noise); D is conditioned on the generator's hidden units; Adam for all; the discriminator
//! and then both others step on every batch. There is no public code of the authors.

use burn_tensor::Tensor;
use crosshash_codes::Labels;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::batchwise::number;
use super::deep::{At, Batching, DeepBatch, DeepObjective, Recipe, Work, adam, stepped};
use super::domains::{Domains, composed};
use super::range::Range;
use super::{Begun, Entry, Method, MethodInfo, dcmh};
use crate::checkpoint::Array;
use crate::config::{Config, Settings as _, check};
use crate::data::Training;
use crate::loss::{judged, likelihood_term};
use crate::tower::{Input, MlpShape, Tower, Unit};
use crate::train::{Position, Terms};
use crate::{Error, Result};

/// Standard deviation of the initial weights of the hash layer.
const HASH: f64 = 0.01;

/// The section `[tuch]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// The modality with the hash network; empty: pictures, or the modality with dense features.
    pub(crate) pictures: String,
    /// Units of the hidden layers.
    pub(crate) hidden: usize,
    /// Weight of the distance to the codes.
    pub(crate) gamma: f64,
    /// Weight of the adversarial term.
    pub(crate) delta: f64,
    /// Learning rate of Adam.
    pub(crate) learning_rate: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            pictures: String::new(),
            hidden: 1024,
            gamma: 0.1,
            delta: 0.1,
            learning_rate: 3e-4,
        }
    }
}

impl crate::config::Settings for Settings {
    const SECTION: &'static str = "tuch";

    fn check(&self) -> Result<()> {
        check::at_least_one("tuch.hidden", self.hidden)?;
        check::not_negative("tuch.gamma", self.gamma)?;
        check::not_negative("tuch.delta", self.delta)?;
        check::positive("tuch.learning_rate", self.learning_rate)
    }
}

/// TUCH.
pub(super) const ENTRY: Entry = Entry {
    info: MethodInfo {
        name: "tuch",
        title: "texts translated to features of pictures, one hash network",
        paper: "Zhao et al.: Turning Cross-view Hashing into Single-view Hashing, IJCAI",
        year: 2017,
        cost: "O(n networks + n^2 r)",
        steps: 1000,
        on_features: "the generator makes features, not pictures",
        ..dcmh::INFO
    },
    sections: &[Settings::SECTION],
    search: &[
        Range::log("tuch.learning_rate", 3e-5, 3e-3),
        Range::log("tuch.gamma", 0.01, 3.0),
        Range::log("tuch.delta", 0.01, 3.0),
    ],
    build: |sections| Ok(Box::new(Tuch(sections.read()?))),
};

#[derive(Debug, Clone)]
struct Tuch(Settings);

/// The networks.
const GENERATOR: usize = 0;
const HASHING: usize = 1;
const JUDGE: usize = 2;
/// Buffers: outputs of pictures and texts, and B.
const PICTURES: &str = "pictures";
const TEXTS: &str = "texts";
const CODES: &str = "B";

impl Method for Tuch {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        let mut work = Work::new(config, training, Batching::Pairs)?;
        let domains = Domains::new(&work, "tuch.pictures", &self.0.pictures)?;
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed());
        let (bits, hidden) = (config.bits().get(), self.0.hidden);
        let (width, sparse) = work.input_shape(domains.source);
        let (target, target_sparse) = work.input_shape(domains.target);
        let net = |width, sparse, layers, last| MlpShape {
            width,
            sparse,
            layers,
            unit: Unit::Relu,
            last,
        };
        work.add("generator", net(width, sparse, vec![hidden, target], None), &mut rng);
        work.add("hash", net(target, false, vec![hidden, bits], Some(HASH)), &mut rng);
        let judge = net(target + hidden, false, vec![hidden.div_ceil(2), 1], None);
        work.add("discriminator", judge, &mut rng);
        if target_sparse {
            return Err(Error::Unsuitable {
                method: ENTRY.info.name.into(),
                why: format!(
                    "translates to dense features, and modality {} is sparse; name a modality \
                     with dense features in tuch.pictures",
                    work.data[domains.target].name
                ),
            });
        }
        for name in [PICTURES, TEXTS, CODES] {
            let values = vec![0.0; work.pairs[0].len() * bits];
            work.buffers.insert(name.into(), Array { columns: bits, values });
        }
        let labels = work.labels(0, &work.pairs[0].clone());
        let mut recipe = Translated { settings: self.0.clone(), domains, labels };
        recipe.fill(&mut work)?;
        DeepObjective::begin(work, Box::new(recipe), training)
    }
}

struct Translated {
    settings: Settings,
    domains: Domains,
    labels: Labels, // of the pairs
}

impl Translated {
    /// Fills the buffers from the present networks.
    fn fill(&mut self, work: &mut Work) -> Result<()> {
        let Domains { source, target } = self.domains;
        let pictures = work.pairs[target].clone();
        let found =
            work.for_all(target, &pictures, |input| work.forward(HASHING, input).out)?;
        let texts = work.pairs[source].clone();
        let translated = work.for_all(source, &texts, |input| {
            work.apply(HASHING, work.forward(GENERATOR, input).out)
        })?;
        for (name, values) in [(PICTURES, found), (TEXTS, translated)] {
            let columns = work.config.bits().get();
            work.buffers.insert(name.into(), Array { columns, values });
        }
        update_codes(work)
    }
}

fn update_codes(work: &mut Work) -> Result<()> {
    let mut sum = work.buffer(PICTURES)?.values.clone();
    sum.iter_mut().zip(&work.buffer(TEXTS)?.values).for_each(|(a, b)| *a += b);
    let values = sum.into_iter().map(|x| if x >= 0.0 { 1.0 } else { -1.0 }).collect();
    let columns = work.config.bits().get();
    work.buffers.insert(CODES.into(), Array { columns, values });
    Ok(())
}

/// Features of pictures beside the units of texts.
fn beside(pictures: Tensor<2>, texts: &Tensor<2>) -> Tensor<2> {
    Tensor::cat(vec![pictures, texts.clone()], 1)
}

impl Recipe for Translated {
    fn learning_rate(&self, epoch: usize, epochs: usize) -> f64 {
        stepped(self.settings.learning_rate, epoch, epochs)
    }

    fn rate_key(&self) -> &'static str {
        "tuch.learning_rate"
    }

    fn players(&self) -> Option<([&'static str; 2], &'static str)> {
        Some((["generator", "discriminator"], "tuch.learning_rate or tuch.delta"))
    }

    fn step(
        &mut self,
        work: &mut Work,
        batch: &DeepBatch,
        at: At,
        terms: &mut Terms,
    ) -> Result<()> {
        let Settings { gamma, delta, .. } = self.settings;
        let Domains { source, target } = self.domains;
        let rate = self.learning_rate(at.position.epoch, work.config.epochs());
        let pictures = work.dense(target, &batch.items[target])?;
        let made = work.forward(GENERATOR, work.input(source, &batch.items[source])?);
        let texts = made.hidden[0].clone().detach();
        // The discriminator: pairs, translations, and pictures of the next item of the batch.
        let n = pictures.dims()[0];
        let turned = if n > 1 {
            let [first, others] = [(0, 1), (1, n - 1)]
                .map(|(from, count)| pictures.clone().narrow(0, from, count));
            Tensor::cat(vec![others, first], 0)
        } else {
            pictures.clone()
        };
        let judge = |rows: Tensor<2>| work.apply(JUDGE, beside(rows, &texts));
        let loss = judged(judge(pictures.clone()), 1.0)
            + judged(judge(made.out.clone().detach()), 0.0) * 0.5
            + judged(judge(turned), 0.0) * 0.5;
        terms.mean("discriminator", number(&loss));
        work.update(loss, &[(JUDGE, &[])], adam(rate, 0.5));
        // The generator and the hash network.
        let own = self.labels.select(&batch.rows);
        let (f, g) = (
            work.apply(HASHING, pictures),
            work.forward(HASHING, Input::Dense(made.out.clone())).out,
        );
        work.set_rows(PICTURES, &batch.rows, &f)?;
        work.set_rows(TEXTS, &batch.rows, &g)?;
        let likelihood = |f: &Tensor<2>, buffer: &str| -> Result<Tensor<1>> {
            let buffer = &work.buffer(buffer)?.values;
            Ok(likelihood_term(f.clone(), &own, buffer, &self.labels))
        };
        let likelihood = likelihood(&f, TEXTS)? + likelihood(&g, PICTURES)?;
        let codes = work.rows(CODES, &batch.rows)?;
        let quantisation =
            (f - codes.clone()).square().mean() + (g - codes).square().mean();
        let fooled = judged(work.apply(JUDGE, beside(made.out.clone(), &texts)), 1.0);
        terms.mean("likelihood", number(&likelihood));
        terms.mean("quantisation", number(&quantisation));
        terms.mean("generator", number(&fooled));
        let loss = likelihood + quantisation * gamma + fooled * delta;
        terms.loss(number(&loss));
        terms.check(at.position, self.rate_key())?;
        work.update(loss, &[(GENERATOR, &[&made]), (HASHING, &[])], adam(rate, 0.5));
        Ok(())
    }

    fn end_epoch(&mut self, work: &mut Work, _: Position) -> Result<()> {
        update_codes(work)
    }

    fn towers(&self, work: &Work) -> Result<Vec<Tower>> {
        let hash = work.nets[HASHING].1.tower()?;
        let generator = work.nets[GENERATOR].1.layers();
        let hashing = work.nets[HASHING].1.layers();
        let (width, sparse) = work.input_shape(self.domains.source);
        let layers = vec![
            generator[0].clone(),
            composed(&generator[1], &hashing[0]),
            hashing[1].clone(),
        ];
        let translated = Tower::of_layers(width, sparse, Unit::Relu, layers)?;
        Ok(if self.domains.target == 0 {
            vec![hash, translated]
        } else {
            vec![translated, hash]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_data::{small, train};

    #[test]
    fn the_likelihood_falls_and_both_players_are_reported() {
        let settings = ["tuch.hidden=16".to_owned(), "tuch.learning_rate=0.005".into()];
        let history = train("tuch", &small(), 15, &settings).history;
        let term = |epoch: usize, name: &str| history[epoch].term(name).unwrap();
        assert!(term(14, "likelihood") < 0.9 * term(0, "likelihood"));
        assert!(term(14, "generator") > 0.0 && term(14, "discriminator") > 0.0);
    }

    #[test]
    fn an_unknown_modality_is_named_with_its_key() {
        let text = "method = \"tuch\"\n[tuch]\npictures = \"film\"";
        let config = crate::Config::parse(text, &[]).unwrap();
        let data = small();
        let split = crate::data::SplitSpec::default().draw(&data).unwrap();
        let err = config.begin(&data.training(&split)).unwrap_err().to_string();
        assert_eq!(
            err,
            "tuch.pictures = \"film\": it must be a modality of the data set: a or b"
        );
    }
}
