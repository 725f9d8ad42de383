//! Which bits form the substrings of multi-index hashing.
//!
//! A bucket is small if the bits of its substring carry much information. Learned codes have constant, skewed and
//! correlated bits, and neighbouring bits are no better than others. The substrings take bits in turns, each
//! the bit that makes its buckets of sampled codes smallest: the one with the least sum of
//! squared bucket sizes. What does not fit is left out, which the search allows: the substrings only have to be disjoint.

/// Codes from which the sizes of buckets are estimated, at most and at least;
const SAMPLE: usize = 4096;
const FEWEST: usize = 512;
/// and the product of these and the squared number of bits, which the time is proportional to.
const TIME: usize = 1 << 26;

/// `count` disjoint masks of at most `length` bits, each of as many words as a code has, and all bits by falling
/// variance. The codes are `rows` of `bits` bits.
pub(super) fn choose(
    rows: &[u64],
    bits: usize,
    count: usize,
    length: usize,
) -> (Vec<Vec<u64>>, Vec<usize>) {
    let width = bits.div_ceil(64);
    let n = rows.len() / width;
    let most = (TIME / (bits * bits)).clamp(FEWEST, SAMPLE).min(n);
    let sample: Vec<&[u64]> =
        (0..most).map(|nth| &rows[nth * n / most * width..][..width]).collect();
    let ones: Vec<usize> = (0..bits)
        .map(|bit| sample.iter().filter(|row| bit_of(row, bit) == 1).count())
        .collect();
    let mut by_variance: Vec<usize> = (0..bits).collect();
    by_variance.sort_by_key(|&bit| std::cmp::Reverse(ones[bit] * (most - ones[bit])));
    let mut free = by_variance.clone();
    let mut substrings = vec![Substring::of(most, width); count];
    for _ in 0..length {
        for substring in &mut substrings {
            substring.take_best(&sample, &mut free);
        }
    }
    (substrings.into_iter().map(|substring| substring.mask).collect(), by_variance)
}

/// A substring that grows.
#[derive(Clone)]
struct Substring {
    mask: Vec<u64>,
    /// The bucket of every sampled code, and the number of buckets.
    buckets: Vec<usize>,
    count: usize,
}

impl Substring {
    fn of(sampled: usize, width: usize) -> Substring {
        Substring { mask: vec![0; width], buckets: vec![0; sampled], count: 1 }
    }

    /// Takes the bit that makes the buckets smallest; of several, the first.
    fn take_best(&mut self, sample: &[&[u64]], free: &mut Vec<usize>) {
        let mut sizes = vec![0_u64; 2 * self.count];
        let mut cost = |bit: usize| {
            sizes.fill(0);
            for (bucket, row) in self.buckets.iter().zip(sample) {
                sizes[2 * bucket + bit_of(row, bit)] += 1;
            }
            sizes.iter().map(|size| size * size).sum::<u64>()
        };
        let costs = free.iter().enumerate().map(|(at, &bit)| (cost(bit), at));
        let Some((_, at)) = costs.min() else { return };
        let bit = free.remove(at);
        self.mask[bit / 64] |= 1 << (bit % 64);
        let mut names = vec![usize::MAX; 2 * self.count];
        self.count = 0;
        for (bucket, row) in self.buckets.iter_mut().zip(sample) {
            let name = &mut names[2 * *bucket + bit_of(row, bit)];
            if *name == usize::MAX {
                *name = self.count;
                self.count += 1;
            }
            *bucket = *name;
        }
        self.count = self.count.max(1);
    }
}

fn bit_of(row: &[u64], bit: usize) -> usize {
    usize::from(row[bit / 64] >> (bit % 64) & 1 == 1)
}

/// Words with these bits set.
pub(super) fn mask_of(bits: impl Iterator<Item = usize>, width: usize) -> Vec<u64> {
    let mut mask = vec![0; width];
    bits.for_each(|bit| mask[bit / 64] |= 1 << (bit % 64));
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_a_bit_go_to_different_substrings_and_constant_bits_are_left_out() {
        // bits 0..3 are equal, 3..6 are equal, 6 and 7 are constant
        let row = |i: u64| ((i & 1) * 0b111) | ((i >> 1 & 1) * 0b11_1000) | 0b100_0000;
        let rows: Vec<u64> = (0..1000).map(row).collect();
        let (masks, order) = choose(&rows, 8, 3, 2);
        for mask in &masks {
            assert_eq!((mask[0] & 0b111).count_ones(), 1, "{masks:?}");
            assert_eq!((mask[0] & 0b11_1000).count_ones(), 1, "{masks:?}");
        }
        assert_eq!(masks.iter().fold(0, |all, mask| all | mask[0]), 0b11_1111);
        assert_eq!(order.len(), 8);
        assert_eq!(choose(&[], 8, 2, 4).0.len(), 2);
    }
}
