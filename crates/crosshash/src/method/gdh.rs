//! GDH: generative domain-migration hashing (Zhang, Shen, Liu, Liu, Wang, Song and Gool, *Generative
//! Domain-Migration Hashing for Sketch-to-Image Retrieval*, ECCV 2018).
//!
//! Sketches are migrated to the domain of photos by a generator with cycle consistency; one hash
//! network H codes photos and migrated sketches. Codes of classes are found in closed form.
//!
//! ```text
//! G-step: (D_A(G_A s) - 1)^2 + (D_B(G_B x) - 1)^2 + c |G_B G_A s - s|_1 + c |G_A G_B x - x|_1
//! D-step: 1/2 [ (D(real) - 1)^2 + D(fake)^2 ]   of D_A (photos) and D_B (sketches), fakes from a pool
//! codes:  D = (2 Y^T Y + I)^-1 Y^T (B_I + B_S),   B = sgn(Y D + 1e-5 H)
//! H-step: [ |B_I - H(x)|^2 + |B_S - H(G_A s)|^2 + |H(x) - H(G_A s)|^2 ] / b  on pairs of one class
//! ```
//!
//! G_A: d_s -> 1024 -> d_i, residual if both domains have
//! dense features of one width; G_B back; D: d -> 512 -> 256 -> 1; H: d_i -> 1024 -> r. The loss H-step
//! reaches G_A, too. The tower of sketches is G_A followed by H.
//!
//! Differences from the paper: generators and discriminators on feature vectors, not on pictures (no
//! residual blocks, no attention mask, no patches); B starts from rows of a Hadamard matrix for every class
//! instead of random codes, because with weight 1e-5 on H the codes are decided by the labels alone, and
//! random class codes can collide; several labels per item through Y; means over values in the norms.
//!
//! The published code of the categories cannot reproduce the paper: the lines that copy B into the targets
//! are commented out, its last layer has 2048 inputs on a network of 512, and codes of test photos are those
//! of the sketch path.

use burn_tensor::{Tensor, TensorData};
use crosshash_codes::Labels;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::batchwise::number;
use super::deep::{At, Batching, DeepBatch, DeepObjective, Recipe, Work, adam};
use super::domains::{Domains, composed, with_residual};
use super::range::Range;
use super::{Begun, Entry, Method, MethodInfo, dcmh};
use crate::algebra::{Cholesky, Matrix};
use crate::checkpoint::Array;
use crate::config::{Config, Settings as _, check};
use crate::data::Training;
use crate::loss::least_squares;
use crate::optimise::floats;
use crate::tower::{Input, MlpShape, Pass, Tower, Unit};
use crate::train::{Position, Terms};
use crate::{Error, Result};

/// Standard deviation of the initial weights of the hash layer.
const HASH: f64 = 0.01;
/// Share of the epochs after which the rate falls linearly to 0.
const CONSTANT: f64 = 25.0 / 30.0;
/// Fakes in a pool.
const POOL: usize = 50;
/// Weight of the network in the codes.
const NETWORK: f64 = 1e-5;
/// Rounds of the closed form at the end of an epoch.
const ROUNDS: usize = 3;

/// The section `[gdh]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// The modality with the hash network; empty: photos, or the modality with dense features.
    pub(crate) photos: String,
    /// Units of the hidden layers of generators and hash network.
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
        Settings {
            photos: String::new(),
            hidden: 1024,
            cycle: 10.0,
            adversarial: 1.0,
            learning_rate: 2e-4,
        }
    }
}

impl crate::config::Settings for Settings {
    const SECTION: &'static str = "gdh";

    fn check(&self) -> Result<()> {
        check::at_least_one("gdh.hidden", self.hidden)?;
        check::not_negative("gdh.cycle", self.cycle)?;
        check::not_negative("gdh.adversarial", self.adversarial)?;
        check::positive("gdh.learning_rate", self.learning_rate)
    }
}

/// GDH.
pub(super) const ENTRY: Entry = Entry {
    info: MethodInfo {
        name: "gdh",
        title: "sketches migrated to photos with cycle consistency, one hash network",
        paper: "Zhang et al.: Generative Domain-Migration Hashing, ECCV",
        year: 2018,
        cost: "O(n networks)",
        pairs: false,
        steps: 1000,
        on_features: "generators of features, not of pictures",
        ..dcmh::INFO
    },
    sections: &[Settings::SECTION],
    search: &[
        Range::log("gdh.learning_rate", 3e-5, 3e-3),
        Range::log("gdh.cycle", 0.3, 30.0),
        Range::log("gdh.adversarial", 0.03, 3.0),
    ],
    build: |sections| Ok(Box::new(Gdh(sections.read()?))),
};

#[derive(Debug, Clone)]
struct Gdh(Settings);

/// The networks.
const TO_PHOTO: usize = 0;
const TO_SKETCH: usize = 1;
const JUDGE_PHOTO: usize = 2;
const JUDGE_SKETCH: usize = 3;
const HASHING: usize = 4;

impl Method for Gdh {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        let mut work = Work::new(config, training, Batching::Items)?;
        let domains = Domains::new(&work, "gdh.photos", &self.0.photos)?;
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed());
        let (bits, hidden) = (config.bits().get(), self.0.hidden);
        let (sketch, sketch_sparse) = work.input_shape(domains.source);
        let (photo, photo_sparse) = work.input_shape(domains.target);
        let net = |width, sparse, layers, last| MlpShape {
            width,
            sparse,
            layers,
            unit: Unit::Relu,
            last,
        };
        let residual = sketch == photo && !sketch_sparse && !photo_sparse;
        work.add("to photo", net(sketch, false, vec![hidden, photo], None), &mut rng);
        work.add("to sketch", net(photo, false, vec![hidden, sketch], None), &mut rng);
        let judge = vec![hidden.div_ceil(2), hidden.div_ceil(4), 1];
        work.add("photo discriminator", net(photo, false, judge.clone(), None), &mut rng);
        work.add("sketch discriminator", net(sketch, false, judge, None), &mut rng);
        work.add("hash", net(photo, false, vec![hidden, bits], Some(HASH)), &mut rng);
        let classes = training.label_names().len();
        for m in 0..2 {
            let values = class_codes(&work.data[m].labels, classes, bits, &mut rng.clone());
            work.buffers.insert(code_buffer(m), Array { columns: bits, values });
        }
        for (k, columns) in [photo, sketch].into_iter().enumerate() {
            let values = vec![0.0; POOL * columns];
            work.buffers.insert(pool_buffer(k), Array { columns, values });
        }
        work.buffers.insert(POOLED.into(), Array { columns: 2, values: vec![0.0; 2] });
        let recipe = Migration { settings: self.0.clone(), domains, residual };
        DeepObjective::begin(work, Box::new(recipe), training)
    }
}

fn code_buffer(m: usize) -> String {
    format!("codes{m}")
}

/// The pool of fake photos (0) or sketches (1), and how many each has.
fn pool_buffer(k: usize) -> String {
    format!("pool{k}")
}
const POOLED: &str = "pooled";

struct Migration {
    settings: Settings,
    domains: Domains,
    residual: bool,
}

impl Migration {
    /// Applies a generator.
    fn migrate(&self, work: &Work, net: usize, rows: &Tensor<2>) -> Tensor<2> {
        let made = work.apply(net, rows.clone());
        if self.residual { made + rows.clone() } else { made }
    }

    /// For every item of one batch an item of the other that shares a label, by chance; items without one
    /// are left out.
    fn partners(own: &Labels, other: &Labels, rng: &mut ChaCha8Rng) -> [Vec<usize>; 2] {
        let mut pairs = [Vec::new(), Vec::new()];
        for i in 0..own.len() {
            let alike: Vec<usize> =
                (0..other.len()).filter(|&j| own.shared(i, other, j) > 0).collect();
            if !alike.is_empty() {
                pairs[0].push(i);
                pairs[1].push(alike[rng.random_range(0..alike.len())]);
            }
        }
        pairs
    }
}

impl Recipe for Migration {
    fn learning_rate(&self, epoch: usize, epochs: usize) -> f64 {
        let (epoch, epochs) = (epoch as f64, epochs.max(1) as f64);
        let constant = CONSTANT * epochs;
        let left = (epochs - epoch) / (epochs - constant).max(1.0);
        self.settings.learning_rate
            * if epoch < constant { 1.0 } else { left.clamp(0.0, 1.0) }
    }

    fn rate_key(&self) -> &'static str {
        "gdh.learning_rate"
    }

    fn players(&self) -> Option<([&'static str; 2], &'static str)> {
        Some((["generator", "discriminator"], "gdh.learning_rate or gdh.adversarial"))
    }

    fn step(
        &mut self,
        work: &mut Work,
        batch: &DeepBatch,
        at: At,
        terms: &mut Terms,
    ) -> Result<()> {
        let Settings { cycle, adversarial, .. } = self.settings;
        let Domains { source, target } = self.domains;
        let optimiser =
            adam(self.learning_rate(at.position.epoch, work.config.epochs()), 0.5);
        let sketches = work.dense(source, &batch.items[source])?;
        let photos = work.dense(target, &batch.items[target])?;
        // Generators, with the hash network on pairs of one class.
        let fake_photos = self.migrate(work, TO_PHOTO, &sketches);
        let fake_sketches = self.migrate(work, TO_SKETCH, &photos);
        let fooled = least_squares(work.apply(JUDGE_PHOTO, fake_photos.clone()), 1.0)
            + least_squares(work.apply(JUDGE_SKETCH, fake_sketches.clone()), 1.0);
        let back = |net: usize, fake: &Tensor<2>, real: &Tensor<2>| {
            (self.migrate(work, net, fake) - real.clone()).abs().mean()
        };
        let cycles = back(TO_SKETCH, &fake_photos, &sketches)
            + back(TO_PHOTO, &fake_sketches, &photos);
        terms.mean("generator", number(&fooled));
        terms.mean("cycle", number(&cycles));
        let mut loss = fooled * adversarial + cycles * cycle;
        let labels = [source, target].map(|m| work.labels(m, &batch.items[m]));
        let mut rng = work.generator(at.position, 0);
        let [left, right] = Migration::partners(&labels[0], &labels[1], &mut rng);
        if !left.is_empty() {
            let chosen = |tensor: &Tensor<2>, rows: &[usize]| {
                let rows: Vec<i32> =
                    rows.iter().map(|&row| i32::try_from(row).unwrap_or(0)).collect();
                let rows = TensorData::new(rows.clone(), [rows.len()]);
                tensor.clone().select(0, Tensor::from_data(rows, &work.device))
            };
            let codes = |m: usize, rows: &[usize]| {
                let items: Vec<usize> =
                    rows.iter().map(|&row| batch.items[m][row]).collect();
                work.rows(&code_buffer(m), &items)
            };
            let f = work.apply(HASHING, chosen(&photos, &right));
            let g = work.apply(HASHING, chosen(&fake_photos, &left));
            let hashing = (f.clone() - codes(target, &right)?).square().mean()
                + (g.clone() - codes(source, &left)?).square().mean()
                + (f - g).square().mean();
            terms.mean("hash", number(&hashing));
            loss = loss + hashing * work.config.bits().get() as f64;
        }
        terms.loss(number(&loss));
        terms.check(at.position, self.rate_key())?;
        let none: &[&Pass] = &[];
        work.update(
            loss,
            &[(TO_PHOTO, none), (TO_SKETCH, none), (HASHING, none)],
            optimiser,
        );
        // Discriminators.
        let mut losses = 0.0;
        for (k, (judge, real, fake)) in
            [(JUDGE_PHOTO, photos, fake_photos), (JUDGE_SKETCH, sketches, fake_sketches)]
                .into_iter()
                .enumerate()
        {
            let fake = exchange(work, k, &fake, &mut rng)?;
            let loss = (least_squares(work.apply(judge, real), 1.0)
                + least_squares(work.apply(judge, fake), 0.0))
                * 0.5;
            losses += number(&loss);
            work.update(loss, &[(judge, none)], optimiser);
        }
        terms.mean("discriminator", losses);
        Ok(())
    }

    fn end_epoch(&mut self, work: &mut Work, _: Position) -> Result<()> {
        let Domains { source, target } = self.domains;
        let mut outputs = [Vec::new(), Vec::new()];
        for m in [source, target] {
            let all: Vec<usize> = (0..work.data[m].rows.len()).collect();
            outputs[m] = work.for_all(m, &all, |input: Input| {
                let rows = input.dense(&work.device);
                let photos =
                    if m == source { self.migrate(work, TO_PHOTO, &rows) } else { rows };
                work.apply(HASHING, photos)
            })?;
        }
        let labels = [0, 1].map(|m| work.data[m].labels.clone());
        let codes = [0, 1].map(|m| work.buffers[&code_buffer(m)].values.clone());
        let found =
            closed_form(&labels, &outputs, codes, work.config.bits().get(), ROUNDS)?;
        for (m, values) in found.into_iter().enumerate() {
            let columns = work.config.bits().get();
            work.buffers.insert(code_buffer(m), Array { columns, values });
        }
        Ok(())
    }

    fn towers(&self, work: &Work) -> Result<Vec<Tower>> {
        let hashing = work.nets[HASHING].1.layers();
        let tower = |m: usize| {
            let (width, sparse) = work.input_shape(m);
            let layers = if m == self.domains.target {
                hashing.clone()
            } else {
                let migration = work.nets[TO_PHOTO].1.layers();
                let [first, second] = if self.residual {
                    with_residual(width, &migration[0], &migration[1])
                } else {
                    [migration[0].clone(), migration[1].clone()]
                };
                vec![first, composed(&second, &hashing[0]), hashing[1].clone()]
            };
            Tower::of_layers(width, sparse, Unit::Relu, layers)
        };
        (0..2).map(tower).collect()
    }
}

/// Exchanges half of the fakes of a batch with earlier ones (Shrivastava et al., CVPR 2017).
fn exchange(
    work: &mut Work,
    k: usize,
    fakes: &Tensor<2>,
    rng: &mut ChaCha8Rng,
) -> Result<Tensor<2>> {
    let [n, columns] = fakes.dims();
    let mut rows = floats(fakes.clone().inner());
    let Some(mut filled) = work.buffers.remove(POOLED) else {
        return Err(Error::content("no pool of fakes"));
    };
    if let Some(pool) = work.buffers.get_mut(&pool_buffer(k)) {
        #[expect(clippy::cast_possible_truncation, reason = "at most the size of a pool")]
        #[expect(clippy::cast_sign_loss, reason = "not negative")]
        let mut count = filled.values[k] as usize;
        for row in rows.chunks_exact_mut(columns) {
            if count < POOL {
                pool.values[count * columns..][..columns].copy_from_slice(row);
                count += 1;
            } else if rng.random::<bool>() {
                let at = rng.random_range(0..POOL);
                pool.values[at * columns..][..columns].swap_with_slice(row);
            }
        }
        filled.values[k] = count as f32;
    }
    work.buffers.insert(POOLED.into(), filled);
    Ok(Tensor::from_data(TensorData::new(rows, [n, columns]), &work.device))
}

/// Initial codes of items: the sign of the sum of the codes of their labels, which are rows of a Hadamard
/// matrix, or random where there are more labels than rows.
fn class_codes(
    labels: &Labels,
    classes: usize,
    bits: usize,
    rng: &mut ChaCha8Rng,
) -> Vec<f32> {
    let size = bits.next_power_of_two();
    let mut table = Vec::with_capacity(classes * bits);
    for class in 0..classes {
        for bit in 0..bits {
            let sign = if class + 1 < size {
                ((class + 1) & bit).count_ones().is_multiple_of(2)
            } else {
                rng.random::<bool>()
            };
            table.push(if sign { 1.0_f32 } else { -1.0 });
        }
    }
    let mut codes = Vec::with_capacity(labels.len() * bits);
    for item in 0..labels.len() {
        let mut sum = vec![0.0_f32; bits];
        for label in labels.indices(item) {
            let row = &table[label * bits..][..bits];
            sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
        codes.extend(sum.into_iter().map(|x| if x >= 0.0 { 1.0 } else { -1.0 }));
    }
    codes
}

/// Alternates `D = (2 Y^T Y + I)^-1 Y^T (B_I + B_S)` and `B = sgn(Y D + 1e-5 H)`. Y are the labels of both
/// modalities, whose numbers of items may differ: Y^T Y and Y^T B are sums over both.
fn closed_form(
    labels: &[Labels; 2],
    outputs: &[Vec<f32>; 2],
    mut codes: [Vec<f32>; 2],
    bits: usize,
    rounds: usize,
) -> Result<[Vec<f32>; 2]> {
    let classes = labels[0].classes();
    let mut gram = Matrix::from_fn(classes, classes, |i, j| f64::from(u8::from(i == j)));
    for labels in labels {
        for item in 0..labels.len() {
            for a in labels.indices(item) {
                let row = gram.row_mut(a);
                labels.indices(item).for_each(|b| row[b] += 1.0);
            }
        }
    }
    let factor = Cholesky::new(gram)?;
    for _ in 0..rounds {
        let mut sums = Matrix::zeros(classes, bits);
        for (labels, codes) in labels.iter().zip(&codes) {
            for (item, code) in codes.chunks_exact(bits).enumerate() {
                for label in labels.indices(item) {
                    let row = sums.row_mut(label).iter_mut().zip(code);
                    row.for_each(|(sum, &x)| *sum += f64::from(x));
                }
            }
        }
        let table = factor.backward(&factor.forward(&sums));
        for ((labels, outputs), codes) in labels.iter().zip(outputs).zip(&mut codes) {
            let rows = codes.chunks_exact_mut(bits).zip(outputs.chunks_exact(bits));
            for (item, (code, output)) in rows.enumerate() {
                for (k, (code, &h)) in code.iter_mut().zip(output).enumerate() {
                    let own: f64 = labels.indices(item).map(|l| table.at(l, k)).sum();
                    let value = own + NETWORK * f64::from(h);
                    *code = if value >= 0.0 { 1.0 } else { -1.0 };
                }
            }
        }
    }
    Ok(codes)
}

#[cfg(test)]
mod tests {
    use super::super::test_data::{small, train};
    use super::*;

    #[test]
    fn the_cycle_loss_falls_and_both_players_are_reported() {
        let settings = ["gdh.hidden=16".to_owned(), "gdh.learning_rate=0.002".into()];
        let history = train("gdh", &small(), 20, &settings).history;
        let term = |epoch: usize, name: &str| history[epoch].term(name).unwrap();
        assert!(term(19, "cycle") < 0.8 * term(0, "cycle"));
        assert!(term(19, "hash") < term(0, "hash"));
        assert!(term(19, "generator") > 0.0 && term(19, "discriminator") > 0.0);
    }

    #[test]
    fn class_codes_are_far_apart_and_stay() {
        let labels = Labels::from_indices(7, (0..14_u32).map(|i| vec![i % 7])).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let codes = class_codes(&labels, 7, 8, &mut rng);
        for a in 0..7 {
            for b in 0..a {
                let differ =
                    (0..8).filter(|k| codes[a * 8 + k] != codes[b * 8 + k]).count();
                assert_eq!(differ, 4);
            }
        }
        let both = [labels.clone(), labels];
        let outputs = [vec![0.0; 14 * 8], vec![0.0; 14 * 8]];
        let found =
            closed_form(&both, &outputs, [codes.clone(), codes.clone()], 8, 2).unwrap();
        assert_eq!(found, [codes.clone(), codes]);
    }

    /// The alternation cannot increase |B - Y D|^2 + |D|^2.
    #[test]
    fn the_closed_form_does_not_increase_its_objective() {
        let labels =
            Labels::from_indices(3, [vec![0], vec![0, 1], vec![1], vec![2], vec![0, 2]])
                .unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        let mut random = || -> Vec<f32> {
            (0..5 * 4).map(|_| if rng.random::<bool>() { 1.0 } else { -1.0 }).collect()
        };
        let mut codes = [random(), random()];
        let both = [labels.clone(), labels.clone()];
        let outputs = [vec![0.0; 20], vec![0.0; 20]];
        // The best D of the present codes, by gradient descent on the plain objective.
        let objective = |codes: &[Vec<f32>; 2]| {
            let mut table = [[0.0_f64; 4]; 3];
            let mut value = 0.0;
            for step in 0..3000 {
                let mut slope = table;
                value = table.iter().flatten().map(|x| x * x).sum::<f64>();
                for codes in codes {
                    for item in 0..5 {
                        for k in 0..4 {
                            let own: f64 = labels.indices(item).map(|l| table[l][k]).sum();
                            let off = own - f64::from(codes[item * 4 + k]);
                            value += off * off;
                            labels.indices(item).for_each(|l| slope[l][k] += off);
                        }
                    }
                }
                if step + 1 < 3000 {
                    for (row, slope) in table.iter_mut().zip(slope) {
                        row.iter_mut().zip(slope).for_each(|(x, s)| *x -= 0.05 * s);
                    }
                }
            }
            value
        };
        let mut last = objective(&codes);
        for _ in 0..4 {
            codes = closed_form(&both, &outputs, codes, 4, 1).unwrap();
            let now = objective(&codes);
            assert!(now <= last + 1e-6, "{last} to {now}");
            last = now;
        }
    }
}
