//! SePH: semantics-preserving hashing (Lin, Ding, Hu and Wang, *Semantics-Preserving Hashing for
//! Cross-View Retrieval*, CVPR 2015).
//!
//! 1. Codes of the training items whose Hamming distances follow the labels (`codes.rs`).
//! 2. For every modality and bit, a kernel logistic regression from features to those codes
//!    (`regression.rs`), on RBF features (`rbf.rs`) with centres by k-means (seph-km) or drawn from the
//!    training items (seph-rnd).
//! 3. Codes of unseen items: sgn(k(x) w), separately for each modality.
//!
//! Differences from the paper: at most `seph.items` random pairs (5,000, as in the paper) are used,
//! because step 1 costs n^2; step 1 reverts steps that increase its objective; database items are encoded
//! from one modality, so that retrieval is cross-modal as for all other methods; 15 iterations of k-means
//! from random rows.
//!
//! With `seph.unified`, the published protocol: a database item that is in both modalities has one code,
//! sgn(P_1 P_2 - (1 - P_1)(1 - P_2)) with the probabilities P_m of a bit, which is the sign of the sum of the
//! outputs (logits). The prior of the bit in the paper is left out, as in the authors' code. Such results are not
//! comparable with cross-modal ones. A public variant (BMC-SDNU) encodes per modality and swaps the names of
//! the directions.

mod codes;
mod regression;

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::closed_form::{self, Progress, Solution};
use super::modality_data::pairs;
use super::range::Range;
use super::views::View;
use super::{Begun, Entry, Learning, Method, MethodInfo, ModalityData};
use crate::Result;
use crate::config::{Config, Settings as _, check};
use crate::data::Training;
use crate::prepare::Preparation;
use crate::rbf::{Kernel, dense, distances};
use crate::tower::{Batch, Matrix, Pixels, Shape, Tower};
use codes::{Divergence, descend};
use regression::{ROUNDS, regress};

/// Iterations of k-means.
const MEANS: usize = 15;

/// The section `[seph]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Number of training pairs, at most.
    pub(crate) items: usize,
    /// Kernel centres.
    pub(crate) centres: usize,
    /// Iterations of the codes.
    pub(crate) iterations: usize,
    /// Weight of `w^T K w` in the regression, beside the sum of the losses of the items.
    pub(crate) penalty: f64,
    /// Whether database items have one code from all modalities (the published protocol).
    pub(crate) unified: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            items: 5000,
            centres: 500,
            iterations: 100,
            penalty: 0.01,
            unified: false,
        }
    }
}

impl crate::config::Settings for Settings {
    const SECTION: &'static str = "seph";

    fn check(&self) -> Result<()> {
        check::at_least_one("seph.items", self.items)?;
        check::at_least_one("seph.centres", self.centres)?;
        check::at_least_one("seph.iterations", self.iterations)?;
        check::positive("seph.penalty", self.penalty)
    }
}

/// SePH with kernel centres by k-means.
pub(super) const KM: Entry = Entry {
    info: MethodInfo {
        name: "seph-km",
        title: "codes by label divergence, kernel regression on k-means",
        ..INFO
    },
    sections: &[Settings::SECTION],
    search: &[Range::log("seph.penalty", 1e-3, 100.0)],
    build: |sections| {
        Ok(Box::new(Seph {
            name: KM.info.name,
            by_means: true,
            settings: sections.read()?,
        }))
    },
};

/// SePH with kernel centres drawn from the training items.
pub(super) const RND: Entry = Entry {
    info: MethodInfo {
        name: "seph-rnd",
        title: "codes by label divergence, kernel regression on items",
        ..INFO
    },
    sections: &[Settings::SECTION],
    search: &[Range::log("seph.penalty", 1e-3, 100.0)],
    build: |sections| {
        Ok(Box::new(Seph {
            name: RND.info.name,
            by_means: false,
            settings: sections.read()?,
        }))
    },
};

const INFO: MethodInfo = MethodInfo {
    name: "seph",
    title: "",
    paper: "Lin, Ding, Hu, Wang: Semantics-Preserving Hashing, CVPR",
    year: 2015,
    cost: "O(iterations n^2 r), once; n at most 5,000",
    pairs: true,
    single: false,
    labels: true,
    learning: Learning::ClosedForm,
    seeded: true,
    codes: true,
    networks: false,
    rotates: false,
    steps: 3000,
    on_features: "",
};

#[derive(Debug)]
struct Seph {
    name: &'static str,
    by_means: bool,
    settings: Settings,
}

impl Method for Seph {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        let (by_means, settings) = (self.by_means, self.settings.clone());
        let begun = closed_form::begin(config, training, |items| {
            let mut pairs = pairs(self.name, training, items)?;
            let mut rng = ChaCha8Rng::seed_from_u64(config.seed());
            let mut chosen: Vec<usize> = (0..pairs[0].len()).collect();
            chosen.shuffle(&mut rng);
            chosen.truncate(settings.items);
            for side in &mut pairs {
                *side = chosen.iter().map(|&pair| side[pair]).collect();
            }
            let config = config.clone();
            Ok(Box::new(move |items, progress| {
                solve(&config, &settings, items, &pairs, by_means, progress)
            }))
        })?;
        Ok(match begun {
            Begun::ClosedForm(mut solver) => {
                solver.unified = self.settings.unified;
                Begun::ClosedForm(solver)
            }
            gradient => gradient,
        })
    }
}

fn solve(
    config: &Config,
    settings: &Settings,
    items: &mut [ModalityData],
    pairs: &[Vec<usize>],
    by_means: bool,
    progress: &mut Progress<'_>,
) -> Result<Option<Solution>> {
    let mut rng = ChaCha8Rng::seed_from_u64(config.seed());
    rng.set_stream(1);
    let bits = config.bits().get();
    let all = settings.iterations + items.len() * ROUNDS;
    let divergence = Divergence::new(items[0].labels.select(&pairs[0]), bits);
    let mut done = 0;
    let mut on = |done: &mut usize| {
        *done += 1;
        progress((*done).min(all), all)
    };
    let Some((codes, loss)) =
        descend(&divergence, settings.iterations, &mut rng, &mut |_| on(&mut done))
    else {
        return Ok(None);
    };
    let mut towers = Vec::new();
    for (side, chosen) in items.iter_mut().zip(pairs) {
        let kernel = kernel(side, chosen, settings.centres, by_means, &mut rng)?;
        let features = kernel.apply(&side.rows.batch(chosen)?);
        let own = kernel.own();
        let penalty = settings.penalty / chosen.len().max(1) as f64; // beside the mean
        let Some(weights) =
            regress(&features, &own, &codes, bits, penalty, &mut || on(&mut done))
        else {
            return Ok(None);
        };
        (side.rows, side.validation) =
            (side.rows.rbf_features(&kernel)?, side.validation.rbf_features(&kernel)?);
        let rows = Box::new(side.preparation.clone());
        let width = kernel.len();
        side.preparation = Preparation::Kernel { rows, kernel };
        let matrix = |name: &'static str, values: Vec<f32>| Matrix {
            name: name.into(),
            columns: bits,
            velocity: vec![0.0; values.len()],
            values,
        };
        let matrices =
            vec![matrix("heads.weight", weights), matrix("heads.bias", vec![0.0; bits])];
        let shape =
            Shape { width, sparse: false, hidden: 0, bits, classes: 0, ..Shape::default() };
        let tower = Tower::from_matrices(shape, matrices, &crate::device::learning());
        towers.push(tower.expect("sizes made here"));
    }
    Ok(Some(Solution { towers, loss }))
}

/// The kernel of one modality.
fn kernel(
    items: &ModalityData,
    chosen: &[usize],
    count: usize,
    by_means: bool,
    rng: &mut ChaCha8Rng,
) -> Result<Kernel> {
    let width = items.preparation.width();
    let spread = View::of(items, chosen)?.variance().iter().sum::<f64>();
    let mut drawn = chosen.to_vec();
    drawn.shuffle(rng);
    drawn.truncate(count);
    let centres = dense(items.rows.batch(&drawn)?, width);
    let centres =
        if by_means { means(&items.rows.batch(chosen)?, centres, width) } else { centres };
    #[expect(clippy::cast_possible_truncation, reason = "features are single precision")]
    let scale = (2.0 * spread) as f32;
    Ok(Kernel::new(width, centres, scale))
}

/// Lloyd's algorithm; a centre without rows does not move.
fn means(rows: &Batch, mut centres: Vec<f32>, width: usize) -> Vec<f32> {
    let count = centres.len() / width;
    for _ in 0..MEANS {
        let distances = distances(rows, &centres, width);
        let mut sums = vec![0.0_f32; centres.len()];
        let mut sizes = vec![0.0_f32; count];
        for (i, line) in distances.chunks_exact(count).enumerate() {
            let nearest = (0..count).min_by(|&a, &b| line[a].total_cmp(&line[b]));
            let at = nearest.unwrap_or(0);
            let sum = &mut sums[at * width..][..width];
            sizes[at] += 1.0;
            match rows {
                Batch::Dense(values) | Batch::Pixels(Pixels { values, .. }) => {
                    let row = &values[i * width..][..width];
                    sum.iter_mut().zip(row).for_each(|(s, x)| *s += x);
                }
                Batch::Sparse(rows) => {
                    let (columns, values) = rows.row(i);
                    let cells = columns.iter().zip(values);
                    cells.for_each(|(&j, x)| sum[j as usize] += x);
                }
            }
        }
        let all = centres.chunks_exact_mut(width).zip(sums.chunks_exact(width)).zip(&sizes);
        for ((centre, sum), &size) in all.filter(|(_, size)| **size > 0.0) {
            centre.iter_mut().zip(sum).for_each(|(c, s)| *c = s / size);
        }
    }
    centres
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k_means_finds_cluster_centres() {
        let rows = vec![0.0, 0.0, 0.0, 2.0, 10.0, 10.0, 10.0, 12.0];
        let found = means(&Batch::Dense(rows), vec![0.0, 0.0, 9.0, 9.0], 2);
        assert_eq!(found, [0.0, 1.0, 10.0, 11.0]);
    }
}
