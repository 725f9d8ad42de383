//! ITQ: iterative quantisation (Gong and Lazebnik, *Iterative Quantization: A Procrustean Approach
//! to Learning Binary Codes*, CVPR 2011).
//!
//! ```text
//! V = (X - mean) W_pca,   min over B, R of |B - V R|_F^2   B in {-1, 1},  R R^T = I
//! B <- sgn(V R);   R <- U S^T  with  V^T B = U diag S^T      (Procrustes)
//! ```
//!
//! Neither step can increase the objective. Differences from the paper: if all modalities have the same
//! width, their components are pooled and share R (`pca.rs`); with fewer components k than bits, R is
//! k x r with orthonormal rows, for which the same step is exact since |V R| does not depend on R; R is
//! computed as (M M^T)^(-1/2) M, M = V^T B, by eigenvectors.

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::closed_form::{self, Linear, Solution, linear};
use super::pca::{components, one_space};
use super::{Begun, Entry, Learning, Method, MethodInfo, ModalityData, cca};
use crate::Result;
use crate::algebra::{Matrix, procrustes};
use crate::config::{Config, Settings as _, check};
use crate::data::Training;
use crate::model::outputs;

/// The section `[itq]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Iterations of the two steps.
    pub(crate) iterations: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { iterations: 50 }
    }
}

impl crate::config::Settings for Settings {
    const SECTION: &'static str = "itq";

    fn check(&self) -> Result<()> {
        check::at_least_one("itq.iterations", self.iterations)
    }
}

/// ITQ.
pub(super) const ENTRY: Entry = Entry {
    info: MethodInfo {
        name: "itq",
        title: "principal components, rotated to the nearest codes",
        paper: "Gong, Lazebnik: Iterative Quantization, CVPR",
        year: 2011,
        cost: "O(n d^2 + d^3 + iterations n r^2), once",
        pairs: false,
        learning: Learning::Statistics,
        seeded: true,
        ..cca::INFO
    },
    sections: &[Settings::SECTION],
    search: &[],
    build: |sections| Ok(Box::new(Itq(sections.read()?))),
};

#[derive(Debug)]
struct Itq(Settings);

impl Method for Itq {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        let iterations = self.0.iterations;
        closed_form::begin(config, training, |_| {
            let config = config.clone();
            Ok(Box::new(move |items, progress| solve(&config, iterations, items, progress)))
        })
    }
}

fn solve(
    config: &Config,
    iterations: usize,
    items: &[ModalityData],
    progress: &mut closed_form::Progress<'_>,
) -> Result<Option<Solution>> {
    let found = components(items, config.bits().get())?;
    let mut projected = Vec::new();
    for (items, found) in items.iter().zip(&found) {
        let all: Vec<usize> = (0..items.rows.len()).collect();
        let rows = outputs(&linear(items, found), &items.rows, &all, &|_| {})?;
        let columns = found.weights.columns;
        projected
            .push(Matrix { columns, values: rows.into_iter().map(f64::from).collect() });
    }
    let groups: Vec<Matrix> = if one_space(items) {
        let values = projected.iter().flat_map(|v| v.values.clone()).collect();
        vec![Matrix { columns: projected[0].columns, values }]
    } else {
        projected
    };
    let mut rng = ChaCha8Rng::seed_from_u64(config.seed());
    let (mut rotations, mut loss) = (Vec::new(), 0.0);
    let all = iterations * groups.len();
    for (k, group) in groups.iter().enumerate() {
        let mut rotation = procrustes::start(group.columns, config.bits().get(), &mut rng);
        let mut last = 0.0;
        for iteration in 0..iterations {
            (rotation, last) = procrustes::turn(group, &rotation);
            if !progress(k * iterations + iteration + 1, all) {
                return Ok(None);
            }
        }
        loss += last / group.values.len() as f64;
        rotations.push(rotation);
    }
    let sides = items.iter().zip(found).enumerate();
    let towers = sides.map(|(k, (items, found))| {
        let weights = found.weights.matmul(&rotations[k.min(rotations.len() - 1)]);
        linear(items, &Linear { weights, mean: found.mean })
    });
    Ok(Some(Solution { towers: towers.collect(), loss }))
}
