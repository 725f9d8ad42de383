//! `ItemSet`: a set of item numbers, one bit each; what filters become.

use rayon::prelude::*;

/// A set of items out of `0 .. len`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemSet {
    len: usize,
    count: usize,
    words: Vec<u64>,
}

impl ItemSet {
    /// No item out of `len`.
    pub fn none(len: usize) -> ItemSet {
        ItemSet { len, count: 0, words: vec![0; len.div_ceil(64)] }
    }

    /// The items for which `keep` holds, asked in parallel.
    pub fn of(len: usize, keep: impl Fn(u32) -> bool + Sync) -> ItemSet {
        #[expect(clippy::cast_possible_truncation, reason = "an index has below 2^32 items")]
        let word = |at: usize| {
            let bit = |bit: usize| at * 64 + bit < len && keep((at * 64 + bit) as u32);
            (0..64).fold(0_u64, |word, k| word | u64::from(bit(k)) << k)
        };
        let words: Vec<u64> =
            (0..len.div_ceil(64)).into_par_iter().with_min_len(256).map(word).collect();
        let count = words.iter().map(|word| word.count_ones() as usize).sum();
        ItemSet { len, count, words }
    }

    /// How many items there could be.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no item is in it.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many items are in it.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether an item is in it.
    #[inline]
    pub fn contains(&self, item: u32) -> bool {
        let word = self.words.get(item as usize / 64).copied().unwrap_or(0);
        word >> (item % 64) & 1 == 1
    }

    /// Puts an item in; whether it was not there before.
    pub fn insert(&mut self, item: u32) -> bool {
        assert!((item as usize) < self.len, "item {item} of {}", self.len);
        let word = &mut self.words[item as usize / 64];
        let new = *word >> (item % 64) & 1 == 0;
        *word |= 1 << (item % 64);
        self.count += usize::from(new);
        new
    }

    /// The items, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| {
                u32::try_from(at * 64 + bit).unwrap_or(u32::MAX)
            })
        })
    }
}
