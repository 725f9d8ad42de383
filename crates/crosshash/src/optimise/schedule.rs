//! Learning rate schedules.
//!
//! | name | rate at step k of K |
//! |---|---|
//! | step | eta, 0.1 eta from 60 % of the epochs on, 0.01 eta from 85 % on |
//! | cosine | eta min(1, k / warm-up) (1 + cos(pi k / K)) / 2 (Loshchilov and Hutter, *SGDR*, 2017) |
//!
//! A sparse layer updates all rows whenever the rate changes (`tower/sparse.rs`). [`held`] keeps the
//! rate constant for some steps, so that this is rare.

/// Multiplied by 0.1 at 60 % and again at 85 % of the epochs.
pub(crate) fn schedule(rate: f32, epoch: usize, epochs: usize) -> f32 {
    match epoch * 100 {
        at if at >= epochs * 85 => rate * 0.01,
        at if at >= epochs * 60 => rate * 0.1,
        _ => rate,
    }
}

/// Cosine decay from `rate` to 0 over `steps` steps, with a linear warm-up over the first `warmup`;
/// `step` counts from 0.
pub(crate) fn cosine(rate: f32, step: usize, steps: usize, warmup: usize) -> f32 {
    let k = (step + 1) as f64;
    let share = (k / steps.max(1) as f64).min(1.0);
    let rise = (k / warmup.max(1) as f64).min(1.0);
    #[expect(clippy::cast_possible_truncation, reason = "rates are single precision")]
    let factor = (rise * 0.5 * (1.0 + (std::f64::consts::PI * share).cos())) as f32;
    rate * factor
}

/// The first of the `every` steps that share a rate with this one.
pub(crate) fn held(step: usize, every: usize) -> usize {
    step - step % every.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_falls_twice() {
        let at = |epoch| schedule(1.0, epoch, 20);
        assert_eq!(
            [at(0), at(11), at(12), at(16), at(17), at(19)],
            [1.0, 1.0, 0.1, 0.1, 0.01, 0.01]
        );
    }

    #[test]
    fn the_cosine_rises_and_falls_to_zero() {
        let at = |step| cosine(2.0, step, 1000, 100);
        assert!(
            (at(49) - 1.0 * (1.0 + (0.05 * std::f32::consts::PI).cos()) / 2.0).abs() < 1e-6
        );
        assert!((at(499) - 1.0).abs() < 1e-6);
        assert!(at(999).abs() < 1e-6 && at(2000).abs() < 1e-6);
        assert!((0..99).all(|step| at(step) < at(step + 1)));
        assert!((100..998).all(|step| at(step) > at(step + 1)));
        // Without warm-up it starts at the rate.
        assert!((cosine(2.0, 0, 100_000, 0) - 2.0).abs() < 1e-6);
    }

    #[test]
    fn a_rate_is_held() {
        assert_eq!([0, 19, 20, 45].map(|step| held(step, 20)), [0, 0, 20, 40]);
        assert_eq!(held(7, 0), 7);
    }
}
