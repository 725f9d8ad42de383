//! PRDH: pairwise relationship guided deep hashing (Yang, Deng, Liu, Liu, Tao and Gao, *Pairwise
//! Relationship Guided Deep Hashing for Cross-Modal Retrieval*, AAAI 2017).
//!
//! ```text
//! J = J_1 + J_2 + J_3 + lambda J_4 + gamma R
//! J_1..J_3 = sum_ij log(1 + e^theta_ij) - S_ij theta_ij,   theta = 1/2 <u_i, u_j>
//!            between modalities (J_1), within each of them (J_2, J_3)
//! J_4 = 1/2 ( |C|_F^2 - |diag C|^2 ) of every modality, C the covariance of bits in the batch
//! R = sum_m ( |B - U^m|_F^2 + |U^m 1|^2 ),   B = sgn( sum_m U^m )
//! ```
//!
//! A batch is compared with the outputs of all n training items, which are kept in buffers, as in DCMH
//! (`loss/likelihood.rs`); an epoch is one pass for each modality, then B is updated. J_1 to J_3 are
//! divided by batch x n, R by batch x r, J_4 is that of the batch (`loss/decorrelation.rs`).
//!
//! Differences from the paper: networks on features, d -> `hidden` -> 512 -> r, not VGG-F; Adam; the
//! balance |U 1|^2 is that of the batch, per item, because the sum over a buffer that is up to an epoch
//! old overshoots (as in `dcmh.rs`); more than two modalities as the sum over all pairs.
//!
//! Faults of the public port (torchcmh), not copied: its covariance is that of the mean of centred
//! codes, always 0, so that J_4 vanishes; the image step omits J_4; the quantisation reads a detached
//! buffer and has no gradient.

use burn_tensor::Tensor;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::batchwise::number;
use super::deep::{At, Batching, DeepBatch, DeepObjective, Recipe, Work, adam, stepped};
use super::range::Range;
use super::{Begun, Entry, Method, MethodInfo, dcmh};
use crate::Result;
use crate::checkpoint::Array;
use crate::config::{Config, Settings as _, check};
use crate::data::Training;
use crate::loss::{decorrelation, likelihood_term};
use crate::tower::{MlpShape, Tower, Unit};
use crate::train::{Position, Terms};

/// Standard deviation of the initial weights of the hash layer.
const HASH: f64 = 0.01;

/// The section `[prdh]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Weight of the decorrelation of bits.
    pub(crate) lambda: f64,
    /// Weight of the distance to the codes and of the balance of bits.
    pub(crate) gamma: f64,
    /// Units of the second hidden layer.
    pub(crate) features: usize,
    /// Learning rate of Adam.
    pub(crate) learning_rate: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { lambda: 1.0, gamma: 1.0, features: 512, learning_rate: 1e-4 }
    }
}

impl crate::config::Settings for Settings {
    const SECTION: &'static str = "prdh";

    fn check(&self) -> Result<()> {
        check::not_negative("prdh.lambda", self.lambda)?;
        check::not_negative("prdh.gamma", self.gamma)?;
        check::at_least_one("prdh.features", self.features)?;
        check::positive("prdh.learning_rate", self.learning_rate)
    }
}

/// PRDH.
pub(super) const ENTRY: Entry = Entry {
    info: MethodInfo {
        name: "prdh",
        title: "pairwise likelihood between and within modalities, decorrelated bits",
        paper: "Yang et al.: Pairwise Relationship Guided Deep Hashing, AAAI",
        year: 2017,
        cost: "O(n towers + 3 n^2 r)",
        steps: 1500,
        ..dcmh::INFO
    },
    sections: &[Settings::SECTION],
    search: &[
        Range::log("prdh.learning_rate", 3e-5, 3e-3),
        Range::log("prdh.lambda", 0.01, 10.0),
        Range::log("prdh.gamma", 0.01, 10.0),
    ],
    build: |sections| Ok(Box::new(Prdh(sections.read()?))),
};

#[derive(Debug, Clone)]
struct Prdh(Settings);

impl Method for Prdh {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        let mut work = Work::new(config, training, Batching::Pairs)?;
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed());
        let bits = config.bits().get();
        for m in 0..work.data.len() {
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
            let all = work.pairs[m].clone();
            let values = work.for_all(m, &all, |input| work.forward(m, input).out)?;
            work.buffers.insert(name, Array { columns: bits, values });
        }
        update_codes(&mut work, bits);
        let modalities = work.data.len();
        let recipe = Pairwise { settings: self.0.clone(), modalities };
        DeepObjective::begin(work, Box::new(recipe), training)
    }
}

/// Name of the buffer of B.
const CODES: &str = "B";

/// B, the signs of the sum of all buffers.
fn update_codes(work: &mut Work, bits: usize) {
    let n = work.pairs[0].len();
    let mut sum = vec![0.0_f32; n * bits];
    for one in &work.data {
        if let Some(buffer) = work.buffers.get(&one.name) {
            sum.iter_mut().zip(&buffer.values).for_each(|(sum, x)| *sum += x);
        }
    }
    let values = sum.into_iter().map(|x| if x >= 0.0 { 1.0 } else { -1.0 }).collect();
    work.buffers.insert(CODES.into(), Array { columns: bits, values });
}

struct Pairwise {
    settings: Settings,
    modalities: usize,
}

impl Recipe for Pairwise {
    fn passes(&self) -> usize {
        self.modalities
    }

    fn learning_rate(&self, epoch: usize, epochs: usize) -> f64 {
        stepped(self.settings.learning_rate, epoch, epochs)
    }

    fn rate_key(&self) -> &'static str {
        "prdh.learning_rate"
    }

    fn step(
        &mut self,
        work: &mut Work,
        batch: &DeepBatch,
        at: At,
        terms: &mut Terms,
    ) -> Result<()> {
        let m = at.pass;
        let Settings { lambda, gamma, .. } = self.settings;
        let name = work.data[m].name.clone();
        let own = work.labels(m, &batch.items[m]);
        let pass = work.forward(m, work.input(m, &batch.items[m])?);
        let u = pass.out.clone();
        work.set_rows(&name, &batch.rows, &u)?;
        let mut loss: Option<Tensor<1>> = None;
        for (k, other) in work.data.iter().enumerate() {
            let labels = other.labels.select(&work.pairs[k]);
            let buffer = &work.buffer(&other.name)?.values;
            let term = likelihood_term(u.clone(), &own, buffer, &labels);
            let kind = if k == m { "within" } else { "between" };
            terms.mean(&format!("{name}.{kind}"), number(&term));
            loss = Some(loss.map_or_else(|| term.clone(), |loss| loss + term.clone()));
        }
        let Some(loss) = loss else { return Ok(()) };
        let [b, bits] = u.dims();
        let correlated = decorrelation(u.clone());
        terms.mean(&format!("{name}.decorrelation"), number(&correlated));
        let codes = work.rows(CODES, &batch.rows)?;
        let quantisation = (u.clone() - codes).square().sum() / (b * bits) as f64;
        terms.mean(&format!("{name}.quantisation"), number(&quantisation));
        let balance = u.mean_dim(0).square().sum() / bits as f64;
        let loss = loss + correlated * lambda + (quantisation + balance) * gamma;
        terms.loss(number(&loss));
        terms.check(at.position, self.rate_key())?;
        let rate = self.learning_rate(at.position.epoch, work.config.epochs());
        work.update(loss, &[(m, &[&pass])], adam(rate, 0.9));
        Ok(())
    }

    fn end_epoch(&mut self, work: &mut Work, _: Position) -> Result<()> {
        let bits = work.config.bits().get();
        update_codes(work, bits);
        Ok(())
    }

    fn towers(&self, work: &Work) -> Result<Vec<Tower>> {
        work.nets.iter().map(|(_, net)| net.tower()).collect()
    }
}
