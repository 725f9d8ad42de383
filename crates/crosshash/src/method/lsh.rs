//! LSH: signs of random projections (Charikar, *Similarity estimation techniques from rounding
//! algorithms*, STOC 2002): a baseline without training.
//!
//! ```text
//! h = sgn((x - mean) R),   R of independent N(0, 1)
//! ```
//!
//! Within a modality, similar rows have similar codes. If all modalities have the same width (and thus may
//! be in one space), they share R, and codes can be compared across modalities; otherwise each has its
//! own, and cross-modal retrieval is at chance. Difference from the paper: rows are centred on the
//! training items.

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::closed_form::{self, Linear, Solution, towers};
use super::pca::one_space;
use super::views::View;
use super::{Begun, Entry, Learning, Method, MethodInfo, ModalityData, cca};
use crate::Result;
use crate::algebra::Matrix;
use crate::config::Config;
use crate::data::Training;
use crate::tower::normal;

/// LSH.
pub(super) const ENTRY: Entry = Entry {
    info: MethodInfo {
        name: "lsh",
        title: "signs of random projections",
        paper: "Charikar: Similarity estimation techniques from rounding algorithms, STOC",
        year: 2002,
        cost: "O(n d), once",
        pairs: false,
        learning: Learning::Statistics,
        seeded: true,
        ..cca::INFO
    },
    sections: &[],
    search: &[],
    build: |_| Ok(Box::new(Lsh)),
};

#[derive(Debug)]
struct Lsh;

impl Method for Lsh {
    fn begin(&self, config: &Config, training: &Training<'_>) -> Result<Begun> {
        closed_form::begin(config, training, |_| {
            let config = config.clone();
            Ok(Box::new(move |items, progress| {
                let mut rng = ChaCha8Rng::seed_from_u64(config.seed());
                let bits = config.bits().get();
                let mut draw = |items: &ModalityData| {
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
                Ok(progress(1, 1)
                    .then(|| Solution { towers: towers(&config, items, found), loss }))
            }))
        })
    }
}

/// The mean row of the training items.
pub(super) fn mean(items: &ModalityData) -> Result<Vec<f64>> {
    let all: Vec<usize> = (0..items.rows.len()).collect();
    Ok(View::of(items, &all)?.mean())
}
