//! Dropout masks (Srivastava et al., *Dropout*, JMLR 2014), inverted: kept units are scaled by
//! `1 / (1 - p)`, so that inference is unchanged.
//!
//! ```text
//! h <- h * mask,    mask_ij = 0 with probability p, else 1 / (1 - p)
//! ```
//!
//! A mask depends only on its [`StepSeed`], so that resumed training uses the same masks. Each unit
//! uses two random bytes, so p is a multiple of 2^-16.

use rand::Rng as _;

use crate::step_seed::StepSeed;

/// A mask of `cells` units with dropout rate `rate` (at least 0, below 1).
pub(crate) fn dropout(cells: usize, rate: f64, at: StepSeed) -> Vec<f32> {
    #[expect(clippy::cast_possible_truncation, reason = "at most 2^16")]
    #[expect(clippy::cast_sign_loss, reason = "clamped")]
    let limit = (rate.clamp(0.0, 1.0) * 65_536.0).round() as u32;
    if limit == 0 {
        return vec![1.0; cells];
    }
    let kept = 65_536_u32.saturating_sub(limit).max(1);
    #[expect(clippy::cast_possible_truncation, reason = "masks are single precision")]
    let scale = (65_536.0 / f64::from(kept)) as f32;
    let mut bytes = vec![0_u8; cells * 2];
    at.generator().fill_bytes(&mut bytes);
    let unit = |two: &[u8]| {
        let drawn = u32::from(u16::from_le_bytes([two[0], two[1]]));
        if drawn < limit { 0.0 } else { scale }
    };
    bytes.chunks_exact(2).map(unit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: StepSeed = StepSeed { seed: 1, stream: 2, epoch: 3, step: 4 };

    #[test]
    fn the_rate_is_respected_and_the_mean_is_preserved() {
        for rate in [0.1, 0.3, 0.5, 0.9] {
            let mask = dropout(200_000, rate, AT);
            let dropped = mask.iter().filter(|&&x| x == 0.0).count() as f64 / 2e5;
            assert!((dropped - rate).abs() < 0.005, "{dropped} for {rate}");
            let mean = mask.iter().map(|&x| f64::from(x)).sum::<f64>() / 2e5;
            assert!((mean - 1.0).abs() < 0.03, "{mean}");
            let mut kept = mask.iter().filter(|&&x| x > 0.0);
            let one = *kept.next().unwrap();
            assert!(kept.all(|&x| x == one));
            assert!((f64::from(one) - 1.0 / (1.0 - rate)).abs() < 1e-3);
        }
        assert_eq!(dropout(3, 0.0, AT), [1.0; 3]);
    }

    #[test]
    fn masks_depend_on_the_step() {
        let mask = |step| dropout(100, 0.5, StepSeed { step, ..AT });
        assert_eq!(mask(4), mask(4));
        assert_ne!(mask(4), mask(5));
    }
}
