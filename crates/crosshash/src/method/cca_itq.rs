//! CCA-ITQ: canonical variates rotated to the nearest codes (Gong and Lazebnik, CVPR 2011; Gong,
//! Lazebnik, Gordo and Perronnin, *Iterative Quantization*, TPAMI 2013, section on supervised codes).
//!
//! ```text
//! V_m = (X_m - mean_m) W_m diag(rho^p),   V all V_m below each other
//! min over B, R of |B - V R|_F^2,   B in {-1, 1},  R R^T = I         (`itq.rs`)
//! h = sgn((x - mean_m) W_m diag(rho^p) R)
//! ```
//!
//! W_m are the directions of `cca.rs`, rho their correlations. One rotation for all modalities, so that
//! bits keep their meaning. The power p (`cca_itq.power`) weighs directions as Gong et al. (IJCV 2014, p =
//! 4) do for real-valued retrieval; 0 is the plain method.
//!
//! Differences from the paper: the two views are modalities, where the paper's are features and labels;
//! ridge and more than two modalities as in `cca.rs`; with fewer directions than bits, as in `itq.rs`.

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::closed_form::{self, Linear, Progress, Solution, linear};
use super::modality_data::pairs;
use super::range::Range;
use super::{Begun, Entry, Method, MethodInfo, ModalityData, cca, itq};
use crate::Result;
use crate::algebra::{Matrix, procrustes};
use crate::config::{Config, Settings as _, check};
use crate::data::Training;
use crate::model::outputs;

/// The section `[cca_itq]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Directions are scaled by this power of their correlation.
    pub(crate) power: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { power: 1.0 }
    }
}

impl crate::config::Settings for Settings {
    const SECTION: &'static str = "cca_itq";

    fn check(&self) -> Result<()> {
        check::not_negative("cca_itq.power", self.power)
    }
}

/// CCA-ITQ.
pub(super) const ENTRY: Entry = Entry {
    info: MethodInfo {
        name: "cca-itq",
        title: "canonical variates, rotated to the nearest codes",
        paper: "Gong, Lazebnik, Gordo, Perronnin: Iterative Quantization, TPAMI",
        year: 2013,
        cost: "O(n d^2 + d^3 + iterations n r^2), once",
        seeded: true,
        ..cca::INFO
    },
    sections: &[cca::Settings::SECTION, itq::Settings::SECTION, Settings::SECTION],
    search: &[Range::log("cca.ridge", 1e-4, 1.0), Range::linear("cca_itq.power", 0.0, 4.0)],
    build: |sections| {
        Ok(Box::new(CcaItq {
            ridge: sections.read::<cca::Settings>()?.ridge,
            iterations: sections.read::<itq::Settings>()?.iterations,
            power: sections.read::<Settings>()?.power,
        }))
    },
};

#[derive(Debug, Clone)]
struct CcaItq {
    ridge: f64,
    iterations: usize,
    power: f64,
}

impl Method for CcaItq {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        closed_form::begin(config, training, |items| {
            let pairs = pairs(ENTRY.info.name, training, items)?;
            let (config, settings) = (config.clone(), self.clone());
            Ok(Box::new(move |items, progress| {
                settings.solve(&config, items, &pairs, progress)
            }))
        })
    }
}

impl CcaItq {
    fn solve(
        &self,
        config: &Config,
        items: &[ModalityData],
        pairs: &[Vec<usize>],
        progress: &mut Progress<'_>,
    ) -> Result<Option<Solution>> {
        let bits = config.bits().get();
        let (mut found, correlations) = cca::correlated(self.ridge, items, pairs, bits)?;
        let directions = found.iter().map(|one| one.weights.columns).min().unwrap_or(0);
        let factors: Vec<f64> =
            correlations.iter().take(directions).map(|rho| rho.powf(self.power)).collect();
        for one in &mut found {
            one.weights = one.weights.first_columns(directions);
            for i in 0..one.weights.rows() {
                let row = one.weights.row_mut(i).iter_mut().zip(&factors);
                row.for_each(|(w, factor)| *w *= factor);
            }
        }
        let mut pooled = Matrix { columns: directions, values: Vec::new() };
        for ((items, chosen), found) in items.iter().zip(pairs).zip(&found) {
            let rows = outputs(&linear(items, found), &items.rows, chosen, &|_| {})?;
            pooled.values.extend(rows.into_iter().map(f64::from));
        }
        let mut rng = ChaCha8Rng::seed_from_u64(config.seed());
        let mut rotation = procrustes::start(directions, bits, &mut rng);
        let mut loss = 0.0;
        for iteration in 0..self.iterations {
            (rotation, loss) = procrustes::turn(&pooled, &rotation);
            if !progress(iteration + 1, self.iterations) {
                return Ok(None);
            }
        }
        let towers = items.iter().zip(found).map(|(items, Linear { weights, mean })| {
            linear(items, &Linear { weights: weights.matmul(&rotation), mean })
        });
        let loss = loss / pooled.values.len().max(1) as f64;
        Ok(Some(Solution { towers: towers.collect(), loss }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_data::{small, train};

    /// The rotation is orthogonal: distances of outputs are those of the unrotated variates, and the
    /// quantisation is closer than theirs.
    #[test]
    fn outputs_are_rotated_variates() {
        let data = small();
        let of =
            |method: &str, settings: &[String]| train(method, &data, 1, settings).outputs;
        let bits = "bits=4".to_owned(); // fewer than the features
        let plain = of("cca", std::slice::from_ref(&bits));
        let turned = of("cca-itq", &[bits, "cca_itq.power=0.0".into()]);
        let distance = |rows: &[f32], i: usize, j: usize| -> f32 {
            (0..4).map(|k| (rows[i * 4 + k] - rows[j * 4 + k]).powi(2)).sum()
        };
        for (a, b) in plain.iter().zip(&turned) {
            for j in 1..20 {
                let (a, b) = (distance(a, 0, j), distance(b, 0, j));
                assert!((a - b).abs() < 1e-3 * (1.0 + a), "{a} {b}");
            }
        }
        let far = |rows: &[Vec<f32>]| -> f32 {
            rows.iter().flatten().map(|x| (x - x.signum()).powi(2)).sum()
        };
        assert!(far(&turned) < far(&plain), "{} {}", far(&turned), far(&plain));
    }
}
