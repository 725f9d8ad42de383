//! LSH: signs of random projections (Charikar, *Similarity estimation techniques from rounding
//! algorithms*, STOC 2002): the baseline that learns nothing.
//!
//! ```text
//! h = sgn((x - mean) R),   R of independent N(0, 1)
//! ```
//!
//! Within a modality near rows get near codes. Where all modalities have rows of one width (and
//! so may live in one space) they share R, and codes can be compared across; elsewhere each has its
//! own, and retrieval across is at chance. Departure: rows are centred on the training items.

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::once::{Linear, Once, Solved, towers};
use super::pca::one_space;
use super::views::View;
use super::{About, Fitting, Items, Learning, Method, cca};
use crate::Result;
use crate::algebra::Matrix;
use crate::config::Run;
use crate::data::{Analysis, Training};
use crate::tower::normal;

/// LSH.
pub(super) struct Lsh;

impl Method for Lsh {
    fn about(&self) -> About {
        About {
            name: "lsh",
            title: "signs of random projections",
            paper: "Charikar: Similarity estimation techniques from rounding algorithms, STOC",
            year: 2002,
            cost: "O(n d), once",
            pairs: false,
            learning: Learning::Hardly,
            seeded: true,
            ..cca::ABOUT
        }
    }

    fn begin<'r>(
        &self,
        run: &'r Run,
        training: &Training<'_>,
        analysis: &dyn Fn(&str) -> Analysis,
    ) -> Result<Box<dyn Fitting<'r> + 'r>> {
        Once::begin(run, training, analysis, |_| {
            Ok(Box::new(move |items, tell| {
                let mut rng = ChaCha8Rng::seed_from_u64(run.raw.seed);
                let bits = run.bits.get();
                let mut draw = |items: &Items| {
                    let values = normal(items.preparation.width() * bits, 1.0, &mut rng);
                    let values = values.into_iter().map(f64::from).collect();
                    Matrix { columns: bits, values }
                };
                let shared = one_space(items).then(|| draw(&items[0]));
                let mut found = Vec::new();
                for side in &*items {
                    let weights = shared.clone().unwrap_or_else(|| draw(side));
                    found.push(Linear { weights, mean: mean(side)? });
                }
                let loss = f64::NAN;
                Ok(tell(1, 1).then(|| Solved { towers: towers(run, items, found), loss }))
            }))
        })
    }
}

/// The mean row of the training items.
pub(super) fn mean(items: &Items) -> Result<Vec<f64>> {
    let all: Vec<usize> = (0..items.rows.len()).collect();
    Ok(View::of(items, &all)?.mean())
}
