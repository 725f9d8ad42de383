//! Exponential moving average of the weights, used for encoding (Polyak and Juditsky, 1992).
//!
//! ```text
//! a_t = d_t a_(t-1) + (1 - d_t) p_t,    d_t = min(d, t / (t + 10))
//! ```
//!
//! The warm-up reduces the influence of the initial weights. A pass over all weights in every step
//! would cost as much as a sparse layer saves, so the average is updated every `every` steps with the
//! product of the decays of these steps; with d = 0.995 and 16 steps the result is nearly the same.
//! The state consists of the arrays and the number of steps, so a restored average continues exactly.

use crate::checkpoint::Arrays;
use crate::{Error, Result};

/// Name of the number of steps in a checkpoint.
const STEPS: &str = "steps";
/// The number of steps is saved as two values below this, which are exact in single precision.
const LOW: u64 = 1 << 16;

/// The average of named matrices.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Average {
    decay: f64,
    every: u64,
    steps: u64,
    arrays: Arrays,
}

impl Average {
    /// Starts with the initial weights; updated every `every` steps.
    pub(crate) fn new(decay: f64, every: u64, first: Arrays) -> Average {
        Average { decay, every: every.max(1), steps: 0, arrays: first }
    }

    /// Counts a step; returns true if [`Average::update`] is due.
    pub(crate) fn step(&mut self) -> bool {
        self.steps += 1;
        self.steps.is_multiple_of(self.every)
    }

    /// Updates the average with the current weights; names and sizes must match.
    pub(crate) fn update(&mut self, weights: &Arrays) -> Result<()> {
        let past = (self.steps + 1).saturating_sub(self.every).max(1)..=self.steps;
        let kept: f64 =
            past.map(|t| (t as f64 / (t as f64 + 10.0)).min(self.decay)).product();
        #[expect(clippy::cast_possible_truncation, reason = "weights are single precision")]
        let taken = (1.0 - kept) as f32;
        self.arrays.approach(weights, taken)
    }

    /// The average.
    pub(crate) fn arrays(&self) -> &Arrays {
        &self.arrays
    }

    /// Adds the state to a checkpoint, with names that start with `prefix`.
    pub(crate) fn save(&self, prefix: &str, arrays: &mut Arrays) {
        let mut state = self.arrays.clone();
        let steps = [(self.steps / LOW) as f32, (self.steps % LOW) as f32];
        state.push(STEPS.into(), 2, steps.to_vec());
        arrays.extend(prefix, &state);
    }

    /// Restores the state from a checkpoint.
    pub(crate) fn restore(&mut self, prefix: &str, arrays: &mut Arrays) -> Result<()> {
        let state = arrays.split(prefix);
        let mut state = state.ok_or_else(|| {
            Error::content(format!("no array whose name starts with {prefix}"))
        })?;
        let steps = state.take(STEPS)?.values;
        let &[high, low] = &steps[..] else {
            return Err(Error::content(format!("{prefix}{STEPS} must have two values")));
        };
        #[expect(clippy::cast_possible_truncation, reason = "whole numbers, as saved")]
        #[expect(clippy::cast_sign_loss, reason = "not negative, as saved")]
        let steps = (high as u64) * LOW + low as u64;
        self.arrays.approach(&state, 0.0)?; // the same names and sizes
        (self.arrays, self.steps) = (state, steps);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(step: u64) -> Arrays {
        let mut arrays = Arrays::default();
        let values = (0..6).map(|k| ((step * 7 + k) as f32 * 0.3).sin()).collect();
        arrays.push("a".into(), 3, values);
        arrays
    }

    fn run(average: &mut Average, steps: std::ops::RangeInclusive<u64>) {
        for step in steps {
            if average.step() {
                average.update(&weights(step)).unwrap();
            }
        }
    }

    #[test]
    fn follows_the_formula() {
        let mut average = Average::new(0.9, 1, weights(0));
        run(&mut average, 1..=200);
        let mut wanted = weights(0).take("a").unwrap().values;
        for t in 1..=200_u64 {
            let decay = (t as f32 / (t as f32 + 10.0)).min(0.9);
            let now = weights(t).take("a").unwrap().values;
            wanted
                .iter_mut()
                .zip(now)
                .for_each(|(a, p)| *a = decay * *a + (1.0 - decay) * p);
        }
        let found = average.arrays().clone().take("a").unwrap().values;
        found.iter().zip(wanted).for_each(|(a, b)| assert!((a - b).abs() < 1e-5));
    }

    #[test]
    fn constant_weights_are_their_own_average() {
        for every in [1, 8] {
            let mut average = Average::new(0.995, every, weights(3));
            for _ in 0..100 {
                if average.step() {
                    average.update(&weights(5)).unwrap();
                }
            }
            let part = |arrays: &Arrays| arrays.clone().take("a").unwrap().values[1];
            // 96 of the steps are in whole groups of 8: the rest of the first weights is the
            // product of the decays.
            let taken = if every == 1 { 100 } else { 96 };
            let rest: f32 = (1..=taken).map(|t| t as f32 / (t as f32 + 10.0)).product();
            let wanted = rest * part(&weights(3)) + (1.0 - rest) * part(&weights(5));
            assert!((part(average.arrays()) - wanted).abs() < 1e-5);
        }
    }

    #[test]
    fn a_restored_average_continues_exactly() {
        let mut whole = Average::new(0.99, 3, weights(0));
        run(&mut whole, 1..=50);
        let mut half = Average::new(0.99, 3, weights(0));
        run(&mut half, 1..=23);
        let mut arrays = Arrays::default();
        half.save("average.", &mut arrays);
        let mut rest = Average::new(0.99, 3, weights(0));
        rest.restore("average.", &mut arrays).unwrap();
        run(&mut rest, 24..=50);
        assert_eq!(rest, whole);
    }

    #[test]
    fn weights_of_another_size_are_rejected() {
        let mut average = Average::new(0.9, 1, weights(0));
        let mut other = Arrays::default();
        other.push("a".into(), 1, vec![1.0; 5]);
        assert!(average.step() && average.update(&other).is_err());
        assert!(average.update(&Arrays::default()).is_err());
    }
}
