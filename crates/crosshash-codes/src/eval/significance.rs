//! Whether one ranking method is better than another on the same queries.
//!
//! Paired bootstrap over queries (Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993): with the
//! differences `d_q = a_q - b_q` of a metric per query, resamples of the queries give the distribution of
//! the mean difference.
//!
//! ```text
//! difference  mean of d
//! interval    2.5 % and 97.5 % quantiles of the means of the resamples
//! p           2 min( (1 + #{mean <= 0}) / (1 + N), (1 + #{mean >= 0}) / (1 + N) ), at most 1
//! ```
//!
//! Several comparisons are corrected by Holm's method (Scandinavian Journal of Statistics, 1979): the k-th
//! smallest of m p-values is multiplied by m - k + 1, and corrected values do not decrease.

use serde::Serialize;

use crate::{Error, Result};

/// The result of a paired comparison.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PairedDifference {
    /// The mean difference.
    pub difference: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
    /// Two-sided p-value of no difference.
    pub p: f64,
}

/// Compares two methods by a metric of the same queries, with `resamples` resamples drawn from `seed`.
///
/// ```
/// use crosshash_codes::eval::paired_bootstrap;
///
/// let (a, b) = ([0.9, 0.8, 0.7, 0.9, 0.8], [0.5, 0.5, 0.3, 0.6, 0.4]);
/// let found = paired_bootstrap(&a, &b, 1000, 1)?;
/// assert!((found.difference - 0.36).abs() < 1e-12 && found.low > 0.0 && found.p < 0.05);
/// # Ok::<(), crosshash_codes::Error>(())
/// ```
pub fn paired_bootstrap(
    a: &[f64],
    b: &[f64],
    resamples: usize,
    seed: u64,
) -> Result<PairedDifference> {
    if a.len() != b.len() {
        return Err(Error::Mismatch {
            left: "the first method".into(),
            left_size: a.len(),
            right: "the second".into(),
            right_size: b.len(),
            unit: "queries",
            remedy: "a paired comparison needs the same queries",
        });
    }
    if a.is_empty() || resamples == 0 {
        return Err(Error::Empty { what: "a paired comparison needs queries".into() });
    }
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    let n = differences.len();
    let mut state = seed;
    let mut means: Vec<f64> = (0..resamples)
        .map(|_| {
            let drawn = (0..n).map(|_| differences[below(&mut state, n)]);
            drawn.sum::<f64>() / n as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |share: f64| {
        #[expect(clippy::cast_possible_truncation, reason = "an index")]
        #[expect(clippy::cast_sign_loss, reason = "not negative")]
        let index = (share * (resamples - 1) as f64).round() as usize;
        means[index.min(resamples - 1)]
    };
    let share = |count: usize| (1 + count) as f64 / (1 + resamples) as f64;
    let low = share(means.iter().filter(|mean| **mean <= 0.0).count());
    let high = share(means.iter().filter(|mean| **mean >= 0.0).count());
    Ok(PairedDifference {
        difference: differences.iter().sum::<f64>() / n as f64,
        low: at(0.025),
        high: at(0.975),
        p: (2.0 * low.min(high)).min(1.0),
    })
}

/// p-values corrected for their number by Holm's method, in the same order.
///
/// ```
/// use crosshash_codes::eval::holm;
///
/// let corrected = holm(&[0.01, 0.04, 0.03]);
/// assert!((corrected[0] - 0.03).abs() < 1e-12 && (corrected[1] - 0.06).abs() < 1e-12);
/// ```
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut corrected = vec![0.0; p.len()];
    let mut largest = 0.0_f64;
    for (k, &at) in order.iter().enumerate() {
        largest = largest.max((p[at] * (p.len() - k) as f64).min(1.0));
        corrected[at] = largest;
    }
    corrected
}

/// A number below n by SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn below(state: &mut u64, n: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    // The high part of the product: uniform up to 2^-64.
    let wide = u128::from(z) * n as u128;
    usize::try_from(wide >> 64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(seed: u64, n: usize) -> Vec<f64> {
        let mut state = seed;
        (0..n).map(|_| below(&mut state, 10_000) as f64 / 10_000.0).collect()
    }

    #[test]
    fn the_interval_is_that_of_the_normal_distribution_for_many_queries() {
        let (a, b) = (noise(1, 2000), noise(2, 2000));
        let shifted: Vec<f64> = a.iter().map(|x| x + 0.1).collect();
        let found = paired_bootstrap(&shifted, &b, 4000, 3).unwrap();
        let d: Vec<f64> = shifted.iter().zip(&b).map(|(a, b)| a - b).collect();
        let mean = d.iter().sum::<f64>() / 2000.0;
        let variance = d.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1999.0;
        let half = 1.96 * (variance / 2000.0).sqrt();
        assert!((found.difference - mean).abs() < 1e-12);
        assert!((found.low - (mean - half)).abs() < 0.1 * half, "{found:?} {mean} {half}");
        assert!((found.high - (mean + half)).abs() < 0.1 * half, "{found:?} {mean} {half}");
        assert!(found.p < 0.001);
    }

    #[test]
    fn p_values_of_equal_methods_are_uniform() {
        // The share of p below 0.1 over many pairs of equal methods is about 0.1.
        let pairs = 300;
        let small = (0..pairs).filter(|&k| {
            let (a, b) = (noise(2 * k + 10, 60), noise(2 * k + 11, 60));
            paired_bootstrap(&a, &b, 200, k).unwrap().p < 0.1
        });
        let share = small.count() as f64 / pairs as f64;
        assert!((0.05..0.16).contains(&share), "{share}");
    }

    #[test]
    fn identical_results_do_not_differ() {
        let a = noise(5, 20);
        let found = paired_bootstrap(&a, &a, 100, 1).unwrap();
        assert_eq!(
            (found.difference, found.low, found.high, found.p),
            (0.0, 0.0, 0.0, 1.0)
        );
        assert!(paired_bootstrap(&a, &a[..5], 100, 1).is_err());
        assert!(paired_bootstrap(&[], &[], 100, 1).is_err());
    }

    #[test]
    fn holm_corrects_and_keeps_the_order() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.5]);
        for (found, wanted) in corrected.iter().zip([0.04, 0.09, 0.09, 0.5]) {
            assert!((found - wanted).abs() < 1e-12, "{corrected:?}");
        }
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }
}
