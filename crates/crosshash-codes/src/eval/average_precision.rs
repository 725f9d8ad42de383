//! Average precision, the heart of MAP, over the whole ranking or its first K ranks.
//!
//! He, Cakir, Bargal, Sclaroff, *Hashing as Tie-Aware Learning to Rank*, CVPR 2018; closed
//! form with harmonic numbers H:
//!
//! ```text
//! AP@K = 1/Z sum_classes (n+/n) sum_{t=1}^{T} [ N+ + 1 + (t-1) m ] / (N + t)
//!      = 1/Z sum_classes (n+/n) ( m T + (N+ + 1 - m (N+1)) (H_{N+T} - H_N) )
//! m = (n+ - 1)/(n - 1), 0 if n = 1;   T = min(n, K - N), the ranks of the class above the cut
//! Z = min(R, K) | hits among the first K ranks | R
//! ```
//!
//! With `found` as Z the quotient is not linear where the cut runs through a class: there
//! the expectation is taken over the hypergeometric number h of relevant items above the
//! cut, given which the class above the cut is a class of T items with h relevant ones.

use serde::Serialize;

use super::ranking::{Ranking, TieClass};

/// What the precisions are divided by in AP@K. Over the whole ranking all are R.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum ApDenominator {
    /// min(R, K): 1 is reached iff the top is as good as it can be.
    #[default]
    #[serde(rename = "min(R,K)")]
    Min,
    /// The relevant items found among the first K: the habit of DeepHash and HashNet, which
    /// favours fewer hits.
    #[serde(rename = "found")]
    Found,
    /// R, all relevant items.
    #[serde(rename = "R")]
    Total,
}

/// AP over the first `cutoff` ranks, or all; 0 for a query without relevant items.
pub fn average_precision(
    ranking: &Ranking,
    cutoff: Option<usize>,
    denominator: ApDenominator,
) -> f64 {
    let k = cutoff.map_or(u64::MAX, |k| k as u64);
    let (mut before, mut hits) = (0, 0);
    let mut sum = 0.0;
    for class in &ranking.classes {
        let room = k.saturating_sub(before);
        if room == 0 {
            break;
        }
        if room < class.items && denominator == ApDenominator::Found {
            return found_through_class(sum, before, hits, class, room);
        }
        sum += precisions(before, hits, class.items, class.relevant, room);
        before += class.items;
        hits += class.relevant;
    }
    let z = match denominator {
        ApDenominator::Min => ranking.relevant.min(k),
        ApDenominator::Found => hits,
        ApDenominator::Total => ranking.relevant,
    };
    if z == 0 { 0.0 } else { sum / z as f64 }
}

/// Expected sum of precisions at the relevant ranks of one class, cut after `room` ranks.
fn precisions(before: u64, hits: u64, items: u64, relevant: u64, room: u64) -> f64 {
    if relevant == 0 {
        return 0.0;
    }
    let ranks = items.min(room);
    let m = if items == 1 { 0.0 } else { (relevant - 1) as f64 / (items - 1) as f64 };
    let slope = hits as f64 + 1.0 - m * (before as f64 + 1.0);
    let inner = m * ranks as f64 + slope * harmonic_span(before, before + ranks);
    relevant as f64 / items as f64 * inner
}

/// Expectation of (sum + precisions inside the cut class) / (hits + h) over h.
fn found_through_class(
    sum: f64,
    before: u64,
    hits: u64,
    class: &TieClass,
    room: u64,
) -> f64 {
    let value = |h: u64| {
        if hits + h == 0 {
            return 0.0;
        }
        (sum + precisions(before, hits, room, h, room)) / (hits + h) as f64
    };
    hypergeometric_mean(class.items, class.relevant, room, value)
}

/// E[f(h)], h = marked items among `drawn` of `items`, `marked` of which are marked. The
/// probabilities are built from the mode outwards by their ratios and then normalised.
fn hypergeometric_mean(items: u64, marked: u64, drawn: u64, f: impl Fn(u64) -> f64) -> f64 {
    let low = (drawn + marked).saturating_sub(items);
    let high = drawn.min(marked);
    let mode = ((drawn + 1) as f64 * (marked + 1) as f64 / (items + 2) as f64).floor();
    #[expect(clippy::cast_possible_truncation, reason = "not negative, at most `drawn`")]
    #[expect(clippy::cast_sign_loss, reason = "not negative")]
    let mode = (mode as u64).clamp(low, high);
    // P(h+1) / P(h)
    let ratio = |h: u64| {
        let up = (marked - h) as f64 * (drawn - h) as f64;
        up / ((h + 1) as f64 * (items + h + 1 - marked - drawn) as f64)
    };
    let (mut weights, mut mean) = (1.0, f(mode));
    let mut weight = 1.0;
    for h in mode..high {
        weight *= ratio(h);
        weights += weight;
        mean += weight * f(h + 1);
    }
    weight = 1.0;
    for h in (low..mode).rev() {
        weight /= ratio(h);
        weights += weight;
        mean += weight * f(h);
    }
    mean / weights
}

/// H_b - H_a = sum of 1/t for t = a+1..=b, to full relative precision in constant time.
///
/// Far out it is the difference of two Euler-Maclaurin expansions of H, taken term by term
/// so that nothing cancels; near the origin it is the sum itself.
fn harmonic_span(a: u64, b: u64) -> f64 {
    const FAR: u64 = 64;
    if b <= a {
        return 0.0;
    }
    if b - a <= FAR {
        return (a + 1..=b).map(|t| 1.0 / t as f64).sum();
    }
    if a < FAR {
        return harmonic_span(a, FAR) + harmonic_span(FAR, b);
    }
    let (x, y) = (a as f64, b as f64);
    let step = y - x;
    // the expansion is ln n + 1/(2n) - 1/(12n^2) + 1/(120n^4) - 1/(252n^6): with
    // u = 1/x^2 and v = 1/y^2 each difference of powers has the factor (v - u)
    let (u, v) = (1.0 / (x * x), 1.0 / (y * y));
    let inverse = -step / (x * y);
    let squares = inverse * (1.0 / x + 1.0 / y);
    let series = -1.0 / 12.0 + (u + v) / 120.0 - (u * u + u * v + v * v) / 252.0;
    (step / x).ln_1p() + inverse / 2.0 + squares * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmonic_spans_are_the_sums() {
        for (a, b) in [(0, 0), (0, 1), (0, 50), (5, 200), (31, 64), (32, 1000), (999, 5000)]
        {
            let sum: f64 = (a + 1..=b).rev().map(|t| 1.0 / t as f64).sum();
            let span = harmonic_span(a, b);
            assert!(
                (span - sum).abs() <= 1e-14 * sum.max(1e-300),
                "{a}..{b}: {span} {sum}"
            );
        }
        // far out, where a difference of two values of H would lose nine digits
        let span = harmonic_span(1_000_000_000, 1_000_000_100);
        assert!((span - 9.999_999_495e-8).abs() < 1e-16, "{span:e}");
    }

    #[test]
    fn hypergeometric_mean_is_the_sum_over_draws() {
        // 5 items, 2 marked, draw 3: P(0) = 1/10, P(1) = 6/10, P(2) = 3/10
        let mean = hypergeometric_mean(5, 2, 3, |h| {
            100.0 / 10_f64.powi(i32::try_from(h).unwrap())
        });
        assert!((mean - 16.3).abs() < 1e-12, "{mean}");
    }
}
