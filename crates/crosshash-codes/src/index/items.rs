//! `ItemSet`: a set of item numbers, one bit each; the result of a filter.

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

    /// All of `len` items.
    pub fn all(len: usize) -> ItemSet {
        Self::from_words(len, vec![u64::MAX; len.div_ceil(64)])
    }

    /// The items for which `keep` holds, evaluated in parallel.
    pub fn of(len: usize, keep: impl Fn(u32) -> bool + Sync) -> ItemSet {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "an index has below 2^32 items"
        )]
        let word = |at: usize| {
            let bit = |bit: usize| at * 64 + bit < len && keep((at * 64 + bit) as u32);
            (0..64).fold(0_u64, |word, k| word | u64::from(bit(k)) << k)
        };
        let words: Vec<u64> =
            (0..len.div_ceil(64)).into_par_iter().with_min_len(256).map(word).collect();
        Self::from_words(len, words)
    }

    /// The first `len` items from `start` on, counted from 0.
    #[must_use]
    pub fn slice(&self, start: usize, len: usize) -> ItemSet {
        assert!(start + len <= self.len, "a slice of {} items", self.len);
        let (at, shift) = (start / 64, start % 64);
        let word = |k: usize| {
            let low = self.words[at + k] >> shift;
            let high = self.words.get(at + k + 1).copied().unwrap_or(0);
            if shift == 0 { low } else { low | high << (64 - shift) }
        };
        Self::from_words(len, (0..len.div_ceil(64)).map(word).collect())
    }

    /// Adds the items of another set behind the last one.
    pub fn append(&mut self, other: &ItemSet) {
        let shift = self.len % 64;
        self.len += other.len;
        for &word in &other.words {
            if shift == 0 {
                self.words.push(word);
            } else {
                if let Some(last) = self.words.last_mut() {
                    *last |= word << shift;
                }
                self.words.push(word >> (64 - shift));
            }
        }
        self.words.truncate(self.len.div_ceil(64));
        self.count += other.count;
    }

    /// The items that are not in it.
    #[must_use]
    pub fn complement(&self) -> ItemSet {
        Self::from_words(self.len, self.words.iter().map(|word| !word).collect())
    }

    /// The items in both.
    #[must_use]
    pub fn intersection(&self, other: &ItemSet) -> ItemSet {
        self.combine(other, |a, b| a & b)
    }

    /// The items in either.
    #[must_use]
    pub fn union(&self, other: &ItemSet) -> ItemSet {
        self.combine(other, |a, b| a | b)
    }

    fn combine(&self, other: &ItemSet, word: impl Fn(u64, u64) -> u64) -> ItemSet {
        assert_eq!(self.len, other.len, "sets of different items");
        let words =
            self.words.iter().zip(&other.words).map(|(&a, &b)| word(a, b)).collect();
        Self::from_words(self.len, words)
    }

    /// Counts, after emptying what lies beyond the last item.
    fn from_words(len: usize, mut words: Vec<u64>) -> ItemSet {
        if let Some(last) = words.last_mut()
            && !len.is_multiple_of(64)
        {
            *last &= (1 << (len % 64)) - 1;
        }
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

    /// Takes an item out; whether it was there.
    pub fn remove(&mut self, item: u32) -> bool {
        let had = self.contains(item);
        if had {
            self.words[item as usize / 64] &= !(1 << (item % 64));
            self.count -= 1;
        }
        had
    }

    /// The items, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let words = self.words.iter().enumerate().filter(|(_, word)| **word != 0);
        words.flat_map(|(at, &word)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| u32::try_from(at * 64 + bit).unwrap_or(u32::MAX))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proptests::fixed;

    proptest! {
        #![proptest_config(fixed(256))]

        #[test]
        fn sets_are_sets(
            len in 0_usize..300,
            a in prop::collection::btree_set(0_u32..300, 0..60),
            b in prop::collection::btree_set(0_u32..300, 0..60),
            start in 0_usize..300,
        ) {
            let fits = |item: &&u32| (**item as usize) < len;
            let set = |items: &std::collections::BTreeSet<u32>| {
                let mut set = ItemSet::none(len);
                items.iter().filter(fits).for_each(|&item| assert!(set.insert(item)));
                set
            };
            let (x, y) = (set(&a), set(&b));
            let start = start.min(len);
            let all = u32::try_from(len).unwrap();
            let list = |set: &ItemSet| set.iter().collect::<Vec<_>>();
            let wanted = |keep: &dyn Fn(u32) -> bool| {
                (0..all).filter(|&item| keep(item)).collect::<Vec<_>>()
            };
            let (in_a, in_b) = (|i: u32| a.contains(&i), |i: u32| b.contains(&i));
            prop_assert_eq!(&x, &ItemSet::of(len, in_a));
            prop_assert_eq!(list(&x.union(&y)), wanted(&|i| in_a(i) || in_b(i)));
            prop_assert_eq!(list(&x.intersection(&y)), wanted(&|i| in_a(i) && in_b(i)));
            prop_assert_eq!(list(&x.complement()), wanted(&|i| !in_a(i)));
            let mut joined = x.slice(0, start);
            joined.append(&x.slice(start, len - start));
            prop_assert_eq!(&joined, &x);
            let mut fewer = x.clone();
            b.iter().for_each(|&item| assert_eq!(fewer.remove(item), x.contains(item)));
            prop_assert_eq!(&fewer, &x.intersection(&y.complement()));
            prop_assert_eq!(ItemSet::all(len), ItemSet::none(len).complement());
            let slice = x.slice(start, len - start);
            let first = u32::try_from(start).unwrap();
            let moved: Vec<u32> = slice.iter().map(|item| item + first).collect();
            prop_assert_eq!(slice.count(), moved.len());
            prop_assert_eq!(moved, wanted(&|i| in_a(i) && i >= first));
        }
    }
}
