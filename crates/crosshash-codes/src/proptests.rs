//! Configuration of property tests, shared by unit tests and integration tests.
//!
//! Property tests that run in `cargo test` use a fixed seed and a fixed number of cases. A long
//! run with random seeds is an ignored test that calls [`fuzz`]; see CONTRIBUTING.md.

#![allow(dead_code, reason = "no test file uses all of it")]

use std::time::{Duration, Instant};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseResult, TestRunner};

/// This number of cases, the same in every run.
pub(crate) fn fixed(cases: u32) -> Config {
    Config {
        cases,
        rng_seed: RngSeed::Fixed(20_261_116),
        failure_persistence: None,
        max_shrink_iters: 1_000,
        ..Config::default()
    }
}

/// Random cases for `CROSSHASH_FUZZ_SECONDS` seconds (default: 60). A failure names the seed.
pub(crate) fn fuzz<S: Strategy>(cases: &S, test: impl Fn(S::Value) -> TestCaseResult) {
    let seconds = std::env::var("CROSSHASH_FUZZ_SECONDS").ok();
    let seconds = seconds.map_or(60, |text| text.parse().expect("a number of seconds"));
    let begin = Instant::now();
    let mut seed = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
    while begin.elapsed() < Duration::from_secs(seconds) {
        seed += 1;
        let config = Config { rng_seed: RngSeed::Fixed(seed), ..fixed(64) };
        if let Err(err) = TestRunner::new(config).run(cases, &test) {
            panic!("seed {seed}: {err}");
        }
    }
}
