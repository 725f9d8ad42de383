//! Synthetic codes for the search benchmark.

use anyhow::Result;
use clap::ValueEnum;
use crosshash_codes::{Bits, Codes};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Probability of a flipped bit around a centre.
const FLIPS: f64 = 0.08;
/// Items per cluster.
const CLUSTER: usize = 1000;

/// Distribution of the codes.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Data {
    /// uniformly random bits
    Random,
    /// clustered around centres
    Clustered,
    /// learned by training jcch and jcch+ on synthetic items; queries of the other modality
    Learned,
}

impl Data {
    pub(super) fn name(self) -> &'static str {
        match self {
            Data::Random => "random",
            Data::Clustered => "clustered",
            Data::Learned => "learned",
        }
    }
}

impl std::fmt::Display for Data {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.name().fmt(f)
    }
}

/// Random or clustered codes: a database and queries. `learned.rs` makes the others.
pub(crate) fn make(
    data: Data,
    bits: Bits,
    n: usize,
    n_queries: usize,
    seed: u64,
) -> Result<(Codes, Codes)> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let width = bits.words();
    let last = match bits.get() % 64 {
        0 => u64::MAX,
        used => (1 << used) - 1,
    };
    let word = |w: usize, noise: f64, rng: &mut ChaCha8Rng| {
        let bits: u64 = if noise < 0.5 {
            (0..64).fold(0, |word, bit| word | u64::from(rng.random_bool(noise)) << bit)
        } else {
            rng.random()
        };
        if w + 1 == width { bits & last } else { bits }
    };
    let centres: Vec<u64> = (0..n.div_ceil(CLUSTER) * width)
        .map(|at| word(at % width, 0.5, &mut rng))
        .collect();
    let mut codes = |n: usize| -> Result<Codes> {
        let mut words = Vec::with_capacity(n * width);
        for _ in 0..n {
            let centre = rng.random_range(0..centres.len() / width) * width;
            for w in 0..width {
                words.push(match data {
                    Data::Random => word(w, 0.5, &mut rng),
                    Data::Clustered | Data::Learned => {
                        centres[centre + w] ^ word(w, FLIPS, &mut rng)
                    }
                });
            }
        }
        Ok(Codes::from_words(bits, words)?.shared())
    };
    Ok((codes(n)?, codes(n_queries)?))
}
