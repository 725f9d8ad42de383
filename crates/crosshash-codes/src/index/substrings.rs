//! Which bits form the substrings of multi-index hashing.
//!
//! A bucket is small if the bits of its substring carry much information: bits with a large variance
//! that are hardly correlated with each other. Learned codes have constant, skewed and
//! correlated bits, and neighbouring bits are no better than others. Bits are assigned one after the other,
//! most variance first, each to the substring whose bits explain least of it; what does not
//! fit is left out, which the search allows: the substrings only have to be disjoint.

use crate::Codes;

/// Codes from which correlations are estimated.
const SAMPLE: usize = 4096;
/// Penalty of a bit that a substring has already, so that substrings grow evenly.
const EVEN: f32 = 0.02;

/// `count` disjoint masks of at most `length` bits, each of as many words as a code has, and all bits by falling
/// variance.
pub(super) fn choose(
    codes: &Codes,
    count: usize,
    length: usize,
) -> (Vec<Vec<u64>>, Vec<usize>) {
    let (bits, width) = (codes.bits().get(), codes.bits().words());
    let columns = columns(codes);
    let n = codes.len().clamp(1, SAMPLE);
    let share = 1.0 / n as f32;
    let ones = |column: &[u64]| column.iter().map(|w| w.count_ones()).sum::<u32>() as f32;
    let means: Vec<f32> = columns.iter().map(|column| ones(column) * share).collect();
    let variance = |bit: usize| means[bit] * (1.0 - means[bit]);
    let mut order: Vec<usize> = (0..bits).collect();
    order.sort_by(|&a, &b| variance(b).total_cmp(&variance(a)));
    // the squared correlation
    let explains = |a: usize, b: usize| {
        let pairs = columns[a].iter().zip(&columns[b]);
        let both: u32 = pairs.map(|(a, b)| (a & b).count_ones()).sum();
        let covariance = both as f32 * share - means[a] * means[b];
        covariance * covariance / (variance(a) * variance(b)).max(1e-9)
    };
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); count];
    for &bit in order.iter().take(count * length) {
        let cost = |group: &Vec<usize>| {
            let explained: f32 = group.iter().map(|&other| explains(bit, other)).sum();
            explained + EVEN * group.len() as f32
        };
        let open = groups.iter_mut().filter(|group| group.len() < length);
        let best =
            open.map(|group| (cost(group), group)).min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, group)) = best {
            group.push(bit);
        }
    }
    let mask = |group: &Vec<usize>| mask_of(group.iter().copied(), width);
    (groups.iter().map(mask).collect(), order)
}

/// Words with these bits set.
pub(super) fn mask_of(bits: impl Iterator<Item = usize>, width: usize) -> Vec<u64> {
    let mut mask = vec![0; width];
    bits.for_each(|bit| mask[bit / 64] |= 1 << (bit % 64));
    mask
}

/// Every bit of sampled codes, 64 codes per word.
fn columns(codes: &Codes) -> Vec<Vec<u64>> {
    let sampled = codes.len().min(SAMPLE);
    let mut columns = vec![vec![0_u64; sampled.div_ceil(64)]; codes.bits().get()];
    for nth in 0..sampled {
        let code = codes.code(nth * codes.len() / sampled);
        for (bit, column) in columns.iter_mut().enumerate() {
            column[nth / 64] |= (code[bit / 64] >> (bit % 64) & 1) << (nth % 64);
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bits;

    #[test]
    fn copies_of_a_bit_go_to_different_substrings_and_constant_bits_are_left_out() {
        // bits 0..3 are equal, 3..6 are equal, 6 and 7 are constant
        let row = |i: u64| ((i & 1) * 0b111) | ((i >> 1 & 1) * 0b11_1000) | 0b100_0000;
        let rows: Vec<u64> = (0..1000).map(row).collect();
        let codes = Codes::from_words(Bits::new(8).unwrap(), rows).unwrap();
        let (masks, order) = choose(&codes, 3, 2);
        for mask in &masks {
            assert_eq!((mask[0] & 0b111).count_ones(), 1, "{masks:?}");
            assert_eq!((mask[0] & 0b11_1000).count_ones(), 1, "{masks:?}");
        }
        assert_eq!(masks.iter().fold(0, |all, mask| all | mask[0]), 0b11_1111);
        assert_eq!(order.len(), 8);
        let empty = Codes::new(Bits::new(8).unwrap());
        assert_eq!(choose(&empty, 2, 4).0.len(), 2);
    }
}
