//! CYC-DGH: cycle-consistent deep generative hashing (Wu, Wang and Shao, *Cycle-Consistent Deep
//! Generative Hashing for Cross-Modal Retrieval*, IEEE TIP 2019). Needs neither labels nor pairs.
//!
//! ```text
//! b_m = sgn(E_m(x_m))   straight-through;   x_m -> m' by G_m'(b_m)
//! E, G:  sum_m |G_m(b_m) - x_m|^2 + c sum_{m != m'} |G_m(sgn E_m'(G_m'(b_m))) - x_m|^2
//!        + a sum_{m != m'} (D_m'(G_m'(b_m)) - 1)^2
//! D_m:   1/2 [ (D_m(x_m) - 1)^2 + D_m(G_m(b_m'))^2 ]
//! ```
//!
//! Encoders d -> 512 -> r, decoders G back, discriminators d -> 256 -> 1; distances are means over
//! values. Codes are the signs of E.
//!
//! Differences from the paper: features instead of pixels; the reconstruction is a squared distance
//! instead of the variational bound with its prior on bits; sgn with a straight-through gradient instead
//! of stochastic neurons; codes in {-1, 1}. There is no public code of the authors. Without labels or
//! pairs nothing ties the meaning of bits of two modalities except the cycle and the discriminators:
//! expect results close to chance where the domains differ much.

use burn_tensor::Tensor;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::batchwise::number;
use super::deep::{At, Batching, DeepBatch, DeepObjective, Recipe, Work, adam, stepped};
use super::range::Range;
use super::{Begun, Entry, Method, MethodInfo, dcmh};
use crate::Result;
use crate::config::{Config, Settings as _, check};
use crate::data::Training;
use crate::loss::{least_squares, straight_through_sign};
use crate::tower::{MlpShape, Pass, Tower, Unit};
use crate::train::Terms;

/// The section `[cyc_dgh]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Units of the hidden layers.
    pub(crate) hidden: usize,
    /// Weight of the cycle.
    pub(crate) cycle: f64,
    /// Weight of the adversarial terms.
    pub(crate) adversarial: f64,
    /// Learning rate of Adam.
    pub(crate) learning_rate: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { hidden: 512, cycle: 1.0, adversarial: 0.1, learning_rate: 3e-4 }
    }
}

impl crate::config::Settings for Settings {
    const SECTION: &'static str = "cyc_dgh";

    fn check(&self) -> Result<()> {
        check::at_least_one("cyc_dgh.hidden", self.hidden)?;
        check::not_negative("cyc_dgh.cycle", self.cycle)?;
        check::not_negative("cyc_dgh.adversarial", self.adversarial)?;
        check::positive("cyc_dgh.learning_rate", self.learning_rate)
    }
}

/// CYC-DGH.
pub(super) const ENTRY: Entry = Entry {
    info: MethodInfo {
        name: "cyc-dgh",
        title: "codes that reconstruct both modalities with cycle consistency",
        paper: "Wu, Wang, Shao: Cycle-Consistent Deep Generative Hashing, IEEE TIP",
        year: 2019,
        cost: "O(n networks)",
        pairs: false,
        labels: false,
        steps: 1000,
        on_features: "decoders of features, not of pictures",
        ..dcmh::INFO
    },
    sections: &[Settings::SECTION],
    search: &[
        Range::log("cyc_dgh.learning_rate", 3e-5, 3e-3),
        Range::log("cyc_dgh.cycle", 0.1, 10.0),
        Range::log("cyc_dgh.adversarial", 0.01, 1.0),
    ],
    build: |sections| Ok(Box::new(CycDgh(sections.read()?))),
};

#[derive(Debug, Clone)]
struct CycDgh(Settings);

/// The networks of a modality.
fn encoder(m: usize) -> usize {
    3 * m
}
fn decoder(m: usize) -> usize {
    3 * m + 1
}
fn judge(m: usize) -> usize {
    3 * m + 2
}

impl Method for CycDgh {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        let mut work = Work::new(config, training, Batching::Items)?;
        work.two_modalities()?;
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed());
        let (bits, hidden) = (config.bits().get(), self.0.hidden);
        for m in 0..2 {
            let name = work.data[m].name.clone();
            let (width, _) = work.input_shape(m);
            for (part, inputs, layers) in [
                ("encoder", width, vec![hidden, bits]),
                ("decoder", bits, vec![hidden, width]),
                ("discriminator", width, vec![hidden.div_ceil(2), 1]),
            ] {
                let shape = MlpShape {
                    width: inputs,
                    sparse: false,
                    layers,
                    unit: Unit::Relu,
                    last: None,
                };
                work.add(&format!("{name}.{part}"), shape, &mut rng);
            }
        }
        DeepObjective::begin(work, Box::new(self.clone()), training)
    }
}

impl Recipe for CycDgh {
    fn learning_rate(&self, epoch: usize, epochs: usize) -> f64 {
        stepped(self.0.learning_rate, epoch, epochs)
    }

    fn rate_key(&self) -> &'static str {
        "cyc_dgh.learning_rate"
    }

    fn players(&self) -> Option<([&'static str; 2], &'static str)> {
        Some((
            ["generator", "discriminator"],
            "cyc_dgh.learning_rate or cyc_dgh.adversarial",
        ))
    }

    fn step(
        &mut self,
        work: &mut Work,
        batch: &DeepBatch,
        at: At,
        terms: &mut Terms,
    ) -> Result<()> {
        let Settings { cycle, adversarial, .. } = self.0;
        let rate = self.learning_rate(at.position.epoch, work.config.epochs());
        let rows: Vec<Tensor<2>> =
            (0..2).map(|m| work.dense(m, &batch.items[m])).collect::<Result<_>>()?;
        let code = |m: usize, rows: &Tensor<2>| {
            straight_through_sign(work.apply(encoder(m), rows.clone()))
        };
        let far = |a: Tensor<2>, b: &Tensor<2>| (a - b.clone()).square().mean();
        let codes = [code(0, &rows[0]), code(1, &rows[1])];
        let mut fakes = Vec::new();
        let (mut rebuilt, mut cycled, mut fooled) = (Vec::new(), Vec::new(), Vec::new());
        for m in 0..2 {
            let other = 1 - m;
            rebuilt.push(far(work.apply(decoder(m), codes[m].clone()), &rows[m]));
            let fake = work.apply(decoder(other), codes[m].clone());
            let back = work.apply(decoder(m), code(other, &fake));
            cycled.push(far(back, &rows[m]));
            fooled.push(least_squares(work.apply(judge(other), fake.clone()), 1.0));
            fakes.push(fake);
        }
        let both = |mut terms: Vec<Tensor<1>>| terms.swap_remove(0) + terms.swap_remove(0);
        let (rebuilt, cycled, fooled) = (both(rebuilt), both(cycled), both(fooled));
        terms.mean("reconstruction", number(&rebuilt));
        terms.mean("cycle", number(&cycled));
        terms.mean("generator", number(&fooled));
        let loss = rebuilt + cycled * cycle + fooled * adversarial;
        terms.loss(number(&loss));
        terms.check(at.position, self.rate_key())?;
        let none: &[&Pass] = &[];
        let all = [encoder(0), decoder(0), encoder(1), decoder(1)].map(|net| (net, none));
        work.update(loss, &all, adam(rate, 0.9));
        let mut losses = 0.0;
        for m in 0..2 {
            let fake = fakes[1 - m].clone().detach();
            let loss = (least_squares(work.apply(judge(m), rows[m].clone()), 1.0)
                + least_squares(work.apply(judge(m), fake), 0.0))
                * 0.5;
            losses += number(&loss);
            work.update(loss, &[(judge(m), none)], adam(rate, 0.9));
        }
        terms.mean("discriminator", losses);
        Ok(())
    }

    fn towers(&self, work: &Work) -> Result<Vec<Tower>> {
        let tower = |m: usize| {
            let (width, sparse) = work.input_shape(m);
            let layers = work.nets[encoder(m)].1.layers();
            Tower::of_layers(width, sparse, Unit::Relu, layers)
        };
        (0..2).map(tower).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_data::{small, train};

    #[test]
    fn reconstruction_and_cycle_fall_and_both_players_are_reported() {
        let settings =
            ["cyc_dgh.hidden=24".to_owned(), "cyc_dgh.learning_rate=0.005".into()];
        let history = train("cyc-dgh", &small(), 20, &settings).history;
        let term = |epoch: usize, name: &str| history[epoch].term(name).unwrap();
        for name in ["reconstruction", "cycle"] {
            assert!(term(19, name) < 0.9 * term(0, name), "{name}");
        }
        assert!(term(19, "generator") > 0.0 && term(19, "discriminator") > 0.0);
    }
}
