//! The bit that splits a set of codes best: the one that explains most of the variance of all bits.
//!
//! If bit `i` has the variance `v_i` and the covariance `c_ij` with bit `j`, splitting by it reduces
//! the sum of the variances inside the two halves by `sum_j c_ij^2 / v_i`. Measured on
//! learned codes, this needs 20 to 45 % fewer leaves per query than the bit with the largest variance (the
//! most balanced split). Estimated from a sample of at most 256 codes, turned into bit columns.

/// Codes in the sample.
const SAMPLE: usize = 256;
/// Words of a bit column.
const COLUMN: usize = SAMPLE / 64;
/// Bits that are compared with each other: those with the largest variance.
const MOST_BITS: usize = 96;

/// The best bit, or `None` if all codes of the sample are equal.
#[expect(clippy::cast_precision_loss, reason = "counts of at most 256")]
pub(super) fn best_bit(rows: &[u64], width: usize) -> Option<usize> {
    let n = rows.len() / width;
    let sampled = n.min(SAMPLE);
    let mut columns = vec![[0_u64; COLUMN]; width * 64];
    let mut block = [0_u64; 64];
    for w in 0..width {
        for group in 0..sampled.div_ceil(64) {
            block.fill(0);
            for (k, word) in block.iter_mut().enumerate().take(sampled - group * 64) {
                *word = rows[(group * 64 + k) * n / sampled * width + w];
            }
            transpose(&mut block);
            for (bit, &word) in block.iter().enumerate() {
                columns[w * 64 + bit][group] = word;
            }
        }
    }
    let ones = |column: &[u64; COLUMN]| column.iter().map(|w| w.count_ones()).sum::<u32>();
    // (bit, share of ones, variance)
    let share = 1.0 / sampled as f32;
    let mut bits: Vec<(usize, f32, f32)> = columns
        .iter()
        .map(|column| ones(column) as f32 * share)
        .enumerate()
        .map(|(bit, p)| (bit, p, p * (1.0 - p)))
        .filter(|(_, _, variance)| *variance > 0.0)
        .collect();
    if bits.len() > MOST_BITS {
        bits.select_nth_unstable_by(MOST_BITS, |a, b| b.2.total_cmp(&a.2));
        bits.truncate(MOST_BITS);
        bits.sort_unstable_by_key(|bit| bit.0);
    }
    let mut explained = vec![0.0_f32; bits.len()];
    for (i, &(bit, p, variance)) in bits.iter().enumerate() {
        explained[i] += variance * variance;
        for (j, &(other, q, _)) in bits.iter().enumerate().skip(i + 1) {
            let (a, b) = (&columns[bit], &columns[other]);
            let both: u32 = a.iter().zip(b).map(|(a, b)| (a & b).count_ones()).sum();
            let covariance = both as f32 * share - p * q;
            explained[i] += covariance * covariance;
            explained[j] += covariance * covariance;
        }
    }
    let scores =
        bits.iter().zip(explained).map(|(&(bit, _, variance), sum)| (sum / variance, bit));
    scores.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))).map(|(_, bit)| bit)
}

/// Transposes a matrix of 64 x 64 bits: bit `k` of word `i` becomes bit `i` of word `k`.
/// Warren, *Hacker's Delight*, 7-3.
fn transpose(block: &mut [u64; 64]) {
    let (mut size, mut mask) = (32, u64::from(u32::MAX));
    while size > 0 {
        let mut k = 0;
        while k < 64 {
            let swapped = (block[k] >> size ^ block[k + size]) & mask;
            block[k] ^= swapped << size;
            block[k + size] ^= swapped;
            k = (k + size + 1) & !size;
        }
        size /= 2;
        mask ^= mask << size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposing_swaps_rows_and_columns() {
        let mut state = 1_u64;
        let mut word = || {
            state =
                state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state ^ state >> 29
        };
        let original: [u64; 64] = std::array::from_fn(|_| word());
        let mut block = original;
        transpose(&mut block);
        for i in 0..64 {
            for k in 0..64 {
                assert_eq!(block[k] >> i & 1, original[i] >> k & 1, "{i} {k}");
            }
        }
    }

    #[test]
    fn a_bit_that_others_follow_is_better_than_an_independent_one() {
        // bits 1 to 5 are copies of bit 0, bit 6 is independent and as balanced
        let row = |i: u64| if i & 1 == 1 { 0b11_1111 } else { 0 } | (i >> 1 & 1) << 6;
        let rows: Vec<u64> = (0..1000).map(row).collect();
        assert!(best_bit(&rows, 1) < Some(6));
        assert_eq!(best_bit(&[5; 100], 1), None);
        // the same in the second word
        let wide: Vec<u64> = rows.iter().flat_map(|&row| [7, row]).collect();
        assert!((64..70).contains(&best_bit(&wide, 2).unwrap()));
    }
}
