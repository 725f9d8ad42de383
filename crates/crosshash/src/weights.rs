//! Weights of towers and networks: named matrices as they are saved, and random initial values.

use std::borrow::Cow;

use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// A named weight matrix: values and velocity by rows, and the number of columns.
pub(crate) struct Matrix {
    /// Its name in the tower.
    pub(crate) name: Cow<'static, str>,
    /// Columns.
    pub(crate) columns: usize,
    /// The values.
    pub(crate) values: Vec<f32>,
    /// The velocity; empty where only the values were requested.
    pub(crate) velocity: Vec<f32>,
}

/// Draws from N(0, sd^2), by the Box-Muller method.
pub(crate) fn normal(count: usize, sd: f64, rng: &mut ChaCha8Rng) -> Vec<f32> {
    let mut uniform = || (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    (0..count)
        .map(|_| {
            let radius = (-2.0 * (1.0 - uniform()).ln()).sqrt();
            #[expect(clippy::cast_possible_truncation, reason = "weights are single")]
            {
                (sd * radius * (std::f64::consts::TAU * uniform()).cos()) as f32
            }
        })
        .collect()
}
