//! How healthy a set of codes is: does each bit carry something, and something of its own.
//!
//! ```text
//! b_ik in {-1, +1}                         bit k of item i, n items, r bits
//! balance_k   = |mean_i b_ik|              0 is best, 1 is a dead bit
//! corr_kl     = corr_i(b_ik, b_il)         over pairs of bits k < l that are not constant
//! bit_entropy = mean_k H(p_k)              H in bits of the share of ones, 1 is best
//! marginal_entropy = sum_k H(p_k)         in bits, at most r
//! entropy     = -sum_c p_c log2 p_c        over distinct codes c; at most min(r, log2 n)
//! tie rate    = mean_q sum_d max(n_d - 1, 0) / (n - 1)
//!               share of neighbouring ranks that stand at one distance; 0 is a strict order
//! tie rate at k = share of queries for which the cut after rank k goes through a tie class, so
//!               that chance decides which items are among the first k
//! ```

use serde::Serialize;

use super::tally::Tally;
use crate::Codes;

/// The health report of one set of codes.
#[derive(Clone, Debug, Serialize)]
pub struct Health {
    /// Number of codes.
    pub codes: usize,
    /// The code length.
    pub bits: usize,
    /// How many different codes.
    pub unique_codes: usize,
    /// Share of codes that another item has too.
    pub shared_code_rate: f64,
    /// Largest |mean(b)| over bits.
    pub max_imbalance: f64,
    /// Mean |mean(b)| over bits.
    pub mean_imbalance: f64,
    /// Bits that are the same in every code.
    pub constant_bits: usize,
    /// Mean |correlation| over pairs of bits; null where fewer than two bits vary.
    pub mean_abs_correlation: Option<f64>,
    /// Largest |correlation| over pairs of bits.
    pub max_abs_correlation: Option<f64>,
    /// Mean entropy of a bit, at most 1.
    pub bit_entropy: f64,
    /// Sum of the entropies of the bits, at most the code length.
    pub marginal_entropy: f64,
    /// Entropy of the whole code, in bits.
    pub entropy: f64,
}

/// Examines codes.
pub fn health(codes: &Codes) -> Health {
    let (n, bits) = (codes.len(), codes.bits().get());
    let columns = columns(codes);
    let ones: Vec<u64> = columns.iter().map(|column| popcount(column)).collect();
    let share = |k: usize| if n == 0 { 0.0 } else { ones[k] as f64 / n as f64 };
    let imbalance: Vec<f64> = (0..bits).map(|k| (2.0 * share(k) - 1.0).abs()).collect();
    let varying: Vec<usize> =
        (0..bits).filter(|&k| ones[k] > 0 && ones[k] < n as u64).collect();
    let correlations = correlations(&columns, &ones, &varying, n);
    let groups = group_sizes(codes);
    let shared: usize = groups.iter().filter(|&&size| size > 1).sum();
    let marginal_entropy: f64 =
        (0..bits).map(|k| entropy(&[share(k), 1.0 - share(k)])).sum();
    let max = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    Health {
        codes: n,
        bits,
        unique_codes: groups.len(),
        shared_code_rate: if n == 0 { 0.0 } else { shared as f64 / n as f64 },
        max_imbalance: max(&imbalance),
        mean_imbalance: imbalance.iter().sum::<f64>() / bits as f64,
        constant_bits: bits - varying.len(),
        mean_abs_correlation: (!correlations.is_empty())
            .then(|| correlations.iter().sum::<f64>() / correlations.len() as f64),
        max_abs_correlation: (!correlations.is_empty()).then(|| max(&correlations)),
        bit_entropy: marginal_entropy / bits as f64,
        marginal_entropy,
        entropy: {
            let shares: Vec<f64> =
                groups.iter().map(|&size| size as f64 / n as f64).collect();
            entropy(&shares)
        },
    }
}

/// Share of neighbouring ranks of one query that are tied.
pub(super) fn tie_rate(tally: &Tally) -> f64 {
    let (mut items, mut tied) = (0, 0);
    for distance in 0..=tally.max_distance() {
        let (at, _) = tally.at(distance);
        items += at;
        tied += at.saturating_sub(1);
    }
    if items < 2 { 0.0 } else { tied as f64 / (items - 1) as f64 }
}

/// Whether the cut after rank `k` of one query goes through a tie class.
pub(super) fn is_cut(tally: &Tally, k: usize) -> bool {
    let (k, mut before) = (k as u64, 0);
    for distance in 0..=tally.max_distance() {
        let (items, _) = tally.at(distance);
        if before + items > k {
            return before < k;
        }
        before += items;
    }
    false
}

/// The bit matrix on its side: one packed column of `n` bits per code bit.
fn columns(codes: &Codes) -> Vec<Vec<u64>> {
    let mut columns = vec![vec![0_u64; codes.len().div_ceil(64)]; codes.bits().get()];
    for (i, code) in codes.iter().enumerate() {
        for (w, &word) in code.iter().enumerate() {
            let mut rest = word;
            while rest != 0 {
                let k = w * 64 + rest.trailing_zeros() as usize;
                if let Some(column) = columns.get_mut(k) {
                    column[i / 64] |= 1 << (i % 64);
                }
                rest &= rest - 1;
            }
        }
    }
    columns
}

fn popcount(words: &[u64]) -> u64 {
    words.iter().map(|w| u64::from(w.count_ones())).sum()
}

/// |corr| of every pair of varying bits, from counts of ones: exact integers until the end.
fn correlations(
    columns: &[Vec<u64>],
    ones: &[u64],
    varying: &[usize],
    n: usize,
) -> Vec<f64> {
    use rayon::prelude::*;
    let n = n as f64;
    varying
        .par_iter()
        .enumerate()
        .flat_map_iter(|(at, &k)| {
            varying[at + 1..].iter().map(move |&l| {
                let pairs = columns[k].iter().zip(&columns[l]);
                let both: u64 = pairs.map(|(a, b)| u64::from((a & b).count_ones())).sum();
                let (pk, pl) = (ones[k] as f64 / n, ones[l] as f64 / n);
                let covariance = both as f64 / n - pk * pl;
                (covariance / (pk * (1.0 - pk) * pl * (1.0 - pl)).sqrt()).abs()
            })
        })
        .collect()
}

/// How many items each distinct code has, in order of the codes.
fn group_sizes(codes: &Codes) -> Vec<usize> {
    use rayon::prelude::*;
    if codes.bits().words() == 1 {
        let mut sorted = codes.words().to_vec();
        sorted.par_sort_unstable();
        return sorted.chunk_by(|a, b| a == b).map(<[_]>::len).collect();
    }
    let mut sorted: Vec<&[u64]> = codes.iter().collect();
    sorted.par_sort_unstable();
    sorted.chunk_by(|a, b| a == b).map(<[_]>::len).collect()
}

fn entropy(shares: &[f64]) -> f64 {
    shares.iter().filter(|&&p| p > 0.0).map(|p| -p * p.log2()).sum::<f64>().max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bits;

    #[test]
    fn a_known_set_of_codes() {
        // bits:  b0 b1 b2   b0 balanced, b1 = b0, b2 constant one
        let rows = [[true, true, true], [true, true, true], [false, false, true]];
        let mut flat: Vec<bool> = rows.concat();
        flat.extend([false, false, true]);
        let codes = Codes::from_bools(Bits::new(3).unwrap(), &flat).unwrap();
        let h = health(&codes);
        assert_eq!((h.codes, h.bits, h.unique_codes, h.constant_bits), (4, 3, 2, 1));
        assert_eq!((h.max_imbalance, h.mean_imbalance), (1.0, 1.0 / 3.0));
        assert_eq!((h.mean_abs_correlation, h.max_abs_correlation), (Some(1.0), Some(1.0)));
        assert_eq!((h.entropy, h.shared_code_rate), (1.0, 1.0));
        assert!((h.bit_entropy - 2.0 / 3.0).abs() < 1e-12);
        assert!((h.marginal_entropy - 2.0).abs() < 1e-12);
    }
}
