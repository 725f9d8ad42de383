//! Ranges of settings that a comparison searches: every method declares its own.

use std::ops::RangeInclusive;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// A setting and the values among which a search draws.
#[derive(Debug, Clone, PartialEq)]
pub struct Range {
    /// The key, e.g. `jcch.lambda`.
    pub key: &'static str,
    /// Its values.
    pub values: Values,
}

/// Values of a setting.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Uniform in the logarithm.
    Log(RangeInclusive<f64>),
    /// Uniform.
    Linear(RangeInclusive<f64>),
    /// One of these, as in a configuration file.
    Choice(&'static [&'static str]),
}

impl Range {
    /// A range that is uniform in the logarithm.
    pub(crate) const fn log(key: &'static str, from: f64, to: f64) -> Range {
        Range { key, values: Values::Log(from..=to) }
    }

    /// A uniform range.
    pub(crate) const fn linear(key: &'static str, from: f64, to: f64) -> Range {
        Range { key, values: Values::Linear(from..=to) }
    }

    /// A choice.
    pub(crate) const fn choice(key: &'static str, of: &'static [&'static str]) -> Range {
        Range { key, values: Values::Choice(of) }
    }

    /// A random setting `key=value`, rounded to three digits.
    pub fn draw(&self, rng: &mut ChaCha8Rng) -> String {
        let value = match &self.values {
            Values::Log(range) => {
                let (from, to) = (range.start().ln(), range.end().ln());
                rounded(rng.random_range(from..=to).exp())
            }
            Values::Linear(range) => rounded(rng.random_range(range.clone())),
            Values::Choice(values) => values[rng.random_range(0..values.len())].to_owned(),
        };
        format!("{}={value}", self.key)
    }
}

/// The settings of trial `number` of a search: none for trial 0, so that every search contains the
/// defaults; else one value of every range, which depends on the seed and the number only.
pub fn trial_settings(ranges: &[Range], number: u64, seed: u64) -> Vec<String> {
    if number == 0 {
        return Vec::new();
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(number);
    ranges.iter().map(|range| range.draw(&mut rng)).collect()
}

/// Three significant digits.
fn rounded(value: f64) -> String {
    let text = format!("{value:.2e}");
    let value: f64 = text.parse().unwrap_or(value);
    // A TOML float has a decimal point.
    format!("{value:?}")
}

/// The learning rate of methods that learn by stochastic gradient descent.
pub(crate) const LEARNING_RATE: Range = Range::log("learning_rate", 0.01, 0.5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_trial_has_the_defaults_and_others_differ() {
        let ranges = [Range::log("a", 0.1, 10.0), Range::linear("b", 0.0, 1.0)];
        assert!(trial_settings(&ranges, 0, 1).is_empty());
        assert_eq!(trial_settings(&ranges, 3, 1), trial_settings(&ranges, 3, 1));
        assert_ne!(trial_settings(&ranges, 3, 1), trial_settings(&ranges, 4, 1));
        assert_ne!(trial_settings(&ranges, 3, 1), trial_settings(&ranges, 3, 2));
    }

    #[test]
    fn draws_are_in_range_and_are_settings() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for range in [
            Range::log("a.b", 1e-4, 0.3),
            Range::linear("a.b", 0.0, 0.5),
            Range::choice("a.b", &["true", "false"]),
        ] {
            for _ in 0..50 {
                let drawn = range.draw(&mut rng);
                let (key, value) = drawn.split_once('=').unwrap();
                assert_eq!(key, "a.b");
                match &range.values {
                    Values::Log(within) | Values::Linear(within) => {
                        let value: f64 = value.parse().unwrap();
                        assert!(
                            value > 0.999 * within.start() && value < 1.001 * within.end()
                        );
                    }
                    Values::Choice(of) => assert!(of.contains(&value)),
                }
            }
        }
    }
}
