//! CCA: signs of canonical variates (Hotelling, *Relations between two sets of variates*,
//! Biometrika 1936; as hashing: Gong and Lazebnik, CVPR 2011).
//!
//! ```text
//! C_xy C_yy^-1 C_xy^T w = rho^2 C_xx w,   W_y = C_yy^-1 C_xy^T W_x diag(1/rho)
//! h = sgn((x - mean_x) W_x),   sgn((y - mean_y) W_y)
//! ```
//!
//! Solved by the singular value decomposition of L_x^-1 C_xy L_y^-T with Cholesky factors of C_xx and
//! C_yy; the singular values are the correlations rho. Covariances are those of the paired training
//! items, centred. Differences from the paper: a ridge of `cca.ridge` times the mean variance; more than two
//! modalities by the sum of all correlations (`views.rs`); more bits than directions by a random
//! projection of the directions (`closed_form.rs`).

use serde::{Deserialize, Serialize};

use super::closed_form::{self, Linear, Solution, towers};
use super::modality_data::pairs;
use super::range::Range;
use super::views::{View, covariance, directions, ridged};
use super::{Begun, Entry, Learning, Method, MethodInfo, ModalityData};
use crate::Result;
use crate::algebra::{Cholesky, Matrix, largest};
use crate::config::{Config, Settings as _, check};
use crate::data::Training;

/// Correlations below this are treated as zero.
const NO_CORRELATION: f64 = 1e-7;

/// The section `[cca]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// The ridge of every covariance, as a share of its mean variance.
    pub(crate) ridge: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { ridge: 0.01 }
    }
}

impl crate::config::Settings for Settings {
    const SECTION: &'static str = "cca";

    fn check(&self) -> Result<()> {
        check::positive("cca.ridge", self.ridge)
    }
}

pub(super) const INFO: MethodInfo = MethodInfo {
    name: "cca",
    title: "signs of canonical variates",
    paper: "Hotelling: Relations between two sets of variates, Biometrika",
    year: 1936,
    cost: "O(n d^2 + d^3), once",
    pairs: true,
    single: false,
    labels: false,
    learning: Learning::ClosedForm,
    seeded: false,
    codes: true,
    networks: false,
    rotates: false,
    steps: 3000,
    on_features: "",
};

pub(super) const SECTIONS: &[&str] = &[Settings::SECTION];
pub(super) const SEARCH: &[Range] = &[Range::log("cca.ridge", 1e-4, 1.0)];

/// CCA.
pub(super) const ENTRY: Entry = Entry {
    info: INFO,
    sections: SECTIONS,
    search: SEARCH,
    build: |sections| Ok(Box::new(Cca(sections.read()?))),
};

#[derive(Debug)]
struct Cca(Settings);

impl Method for Cca {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        solve_correlated(INFO.name, config, training, self.0.ridge)
    }
}

/// Towers of the canonical directions.
pub(super) fn solve_correlated(
    name: &str,
    config: &Config,
    training: &Training<'_>,
    ridge: f64,
) -> Result<Begun> {
    closed_form::begin(config, training, |items| {
        let pairs = pairs(name, training, items)?;
        let config = config.clone();
        Ok(Box::new(move |items, progress| {
            let (found, _) = correlated(ridge, items, &pairs, config.bits().get())?;
            let loss = f64::NAN;
            let solution = || Solution { towers: towers(&config, items, found), loss };
            Ok(progress(1, 1).then(solution))
        }))
    })
}

/// The canonical directions of all modalities from their paired items, and the mean correlation of every
/// direction between modalities.
pub(super) fn correlated(
    ridge: f64,
    items: &[ModalityData],
    pairs: &[Vec<usize>],
    count: usize,
) -> Result<(Vec<Linear>, Vec<f64>)> {
    let views: Vec<View> = items
        .iter()
        .zip(pairs)
        .map(|(items, chosen)| View::of(items, chosen))
        .collect::<Result<_>>()?;
    let own = |view: &View| ridged(covariance(view, view, None), ridge);
    let (weights, correlations) = match &views[..] {
        [x, y] => {
            let both = covariance(x, y, None);
            let (weights, rho) = canonical(own(x), own(y), &both, count)?;
            (weights.to_vec(), rho)
        }
        _ => {
            let block = |a: usize, b: usize| covariance(&views[a], &views[b], None);
            let found = directions(block, views.iter().map(own).collect(), count)?;
            // The value of a direction is 1 plus the sum of its correlations with the others.
            let others = (views.len() - 1).max(1) as f64;
            let mean = |value: &f64| ((value - 1.0) / others).clamp(0.0, 1.0);
            (found.weights, found.values.iter().map(mean).collect())
        }
    };
    let mean = |(weights, view): (Matrix, &View)| Linear { weights, mean: view.mean() };
    Ok((weights.into_iter().zip(&views).map(mean).collect(), correlations))
}

/// The directions of the largest correlations of two views, and those correlations.
pub(super) fn canonical(
    cxx: Matrix,
    cyy: Matrix,
    cxy: &Matrix,
    count: usize,
) -> Result<([Matrix; 2], Vec<f64>)> {
    let (lx, ly) = (Cholesky::new(cxx)?, Cholesky::new(cyy)?);
    let t = ly.forward(&lx.forward(cxy).transpose()).transpose(); // L_x^-1 C_xy L_y^-T
    let flat = t.rows() > t.columns;
    let t = if flat { t.transpose() } else { t };
    let found = largest(&t.matmul(&t.transpose()), count);
    let rho: Vec<f64> = found.values.iter().map(|v| v.max(0.0).sqrt()).collect();
    let kept = rho.iter().filter(|rho| **rho > NO_CORRELATION).count();
    let u = found.vectors.first_columns(kept);
    let mut v = t.transpose_matmul(&u);
    for i in 0..v.rows() {
        v.row_mut(i).iter_mut().zip(&rho).for_each(|(v, rho)| *v /= rho);
    }
    let (u, v) = if flat { (v, u) } else { (u, v) };
    Ok(([lx.backward(&u), ly.backward(&v)], rho[..kept].to_vec()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::tower::Batch;

    /// Two views and their correlations, by NumPy.
    #[derive(Deserialize)]
    pub(crate) struct Golden {
        x: Vec<Vec<f64>>,
        y: Vec<Vec<f64>>,
        ridge: f64,
        correlations: Vec<f64>,
    }

    pub(crate) struct Case {
        pub(crate) views: [View; 2],
        pub(crate) own: [Matrix; 2],
        pub(crate) correlations: Vec<f64>,
    }

    pub(crate) fn case() -> Case {
        let text = include_str!("../../tests/golden/cca.json");
        let golden: Golden = serde_json::from_str(text).unwrap();
        let view = |rows: &[Vec<f64>]| {
            #[expect(clippy::cast_possible_truncation, reason = "rows are single")]
            let values = rows.iter().flatten().map(|&x| x as f32).collect();
            View::new(rows[0].len(), Batch::Dense(values))
        };
        let views = [view(&golden.x), view(&golden.y)];
        let own = [&views[0], &views[1]].map(|view| {
            let mut own = covariance(view, view, None);
            (0..own.rows()).for_each(|i| own.row_mut(i)[i] += golden.ridge);
            own
        });
        Case { views, own, correlations: golden.correlations }
    }

    #[test]
    fn correlations_match_numpy() {
        let Case { views: [x, y], own: [cxx, cyy], correlations } = case();
        let cxy = covariance(&x, &y, None);
        let ([wx, wy], rho) = canonical(cxx.clone(), cyy, &cxy, 99).unwrap();
        assert_eq!(rho.len(), correlations.len());
        for (found, wanted) in rho.iter().zip(&correlations) {
            assert!((found - wanted).abs() < 1e-6, "{found} for {wanted}");
        }
        // unit variance, and the covariance of a pair of directions is its correlation
        let (own, both) =
            (wx.transpose_matmul(&cxx.matmul(&wx)), wx.transpose_matmul(&cxy.matmul(&wy)));
        for i in 0..rho.len() {
            for j in 0..rho.len() {
                let same = f64::from(u8::from(i == j));
                assert!((own.at(i, j) - same).abs() < 1e-9);
                assert!((both.at(i, j) - same * rho[i]).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn sum_of_correlations_equals_cca_for_two_views() {
        let Case { views, own, correlations } = case();
        let block = |a: usize, b: usize| {
            if a == b { own[a].clone() } else { covariance(&views[a], &views[b], None) }
        };
        let found = directions(block, own.to_vec(), correlations.len()).unwrap();
        for (found, wanted) in found.values.iter().zip(&correlations) {
            assert!((found - 1.0 - wanted).abs() < 1e-6, "{found} for 1 + {wanted}");
        }
    }
}
