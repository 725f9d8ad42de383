//! The items of the different codes.

use rayon::prelude::*;

use crate::index::distinct::{Distinct, number};
use crate::index::huge_vec::HugeVec;
use crate::kernel::threshold::unkey;

/// The items of the codes that have more than one, in lists, and how codes refer to their items: the low
/// bits of a reference are the only item of a code with [`Lists::alone`], or where its list begins.
/// The other bits belong to the code.
pub(super) struct Lists {
    /// Marks the only item of a code in a reference, and the last item of a list in an entry.
    pub(super) alone: u32,
    /// Entries of `width` bytes each: items, ascending by list.
    pub(super) bytes: HugeVec<u8>,
    pub(super) width: usize,
}

impl Lists {
    /// The lists of the codes in an order, which the keys of `order` contain, and the reference of every code.
    pub(super) fn of(distinct: &Distinct, order: &[u64]) -> (Lists, Vec<u32>) {
        let alone = Lists::mark(distinct.items.len());
        let width = (alone.ilog2() as usize + 1).div_ceil(8);
        let len = |id: usize| match distinct.items_of(id).len() {
            1 => 0,
            n => n,
        };
        let entries: usize = (0..distinct.len()).into_par_iter().map(len).sum();
        // an entry is read as four bytes
        let mut bytes: HugeVec<u8> = HugeVec::zeroed(entries * width + 4);
        let mut references = vec![0; distinct.len()];
        let mut end = 0;
        for &at in order {
            let id = unkey(at).1 as usize;
            let items = distinct.items_of(id);
            if let [item] = items {
                references[id] = item | alone;
                continue;
            }
            references[id] = number(end);
            for (nth, &item) in items.iter().enumerate() {
                let last = if nth + 1 == items.len() { alone } else { 0 };
                let entry = (item | last).to_le_bytes();
                bytes[end * width..][..width].copy_from_slice(&entry[..width]);
                end += 1;
            }
        }
        (Lists { alone, bytes, width }, references)
    }

    /// The lowest bit that neither numbers of this many items nor positions in lists of them need.
    fn mark(items: usize) -> u32 {
        1 << items.max(2).next_power_of_two().ilog2().min(31)
    }

    /// The bits of a reference that belong to the code.
    pub(super) fn others(&self) -> u32 {
        !(self.alone | (self.alone - 1))
    }

    /// These bits with the given content.
    pub(super) fn with(&self, content: u32) -> u32 {
        content.checked_shl(self.alone.ilog2() + 1).unwrap_or(0)
    }

    fn entry(&self, at: usize) -> u32 {
        let bytes: Option<&[u8; 4]> = self.bytes[at * self.width..].first_chunk();
        let all = bytes.map_or(self.alone, |bytes| u32::from_le_bytes(*bytes));
        all & (self.alone | (self.alone - 1))
    }

    /// The first item of a code.
    pub(super) fn first(&self, reference: u32) -> u32 {
        let alone = reference & self.alone != 0;
        (if alone { reference } else { self.entry(reference as usize) }) & !self.alone
    }

    /// The items of a code, ascending.
    pub(super) fn items(&self, reference: u32) -> impl Iterator<Item = u32> {
        let alone = reference & self.alone != 0;
        let mut next = (!alone).then_some(reference as usize);
        let one = alone.then_some(reference ^ self.alone);
        let list = std::iter::from_fn(move || {
            let at = next?;
            let entry = self.entry(at);
            next = (entry & self.alone == 0).then_some(at + 1);
            Some(entry & !self.alone)
        });
        one.into_iter().chain(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bits, Codes};

    #[test]
    fn references_hold_items_lists_and_bits_of_codes() {
        for items in [0, 1, 2, 3, 255, 256, 1000, 1 << 20, (1 << 20) + 1, (1 << 30) - 1] {
            let lists = |alone| Lists { alone, bytes: HugeVec::zeroed(0), width: 4 };
            let lists = lists(Lists::mark(items));
            assert!(items.saturating_sub(1) < lists.alone as usize, "{items}");
            assert_eq!(lists.alone & lists.others(), 0);
            assert_eq!(lists.others().count_ones() + lists.alone.ilog2() + 1, 32);
            assert_eq!(lists.with(u32::MAX), lists.others(), "{items}");
        }
        for n in [1_u64, 10, 300, 70_000] {
            // one code in three has one item
            let row = |i: u64| if i.is_multiple_of(3) { i } else { i % 7 };
            let codes =
                Codes::from_words(Bits::new(64).unwrap(), (0..n).map(row).collect());
            let distinct = Distinct::of(&codes.unwrap());
            let order: Vec<u64> = (0..distinct.len() as u64).rev().collect();
            let (lists, references) = Lists::of(&distinct, &order);
            for (id, &reference) in references.iter().enumerate() {
                let items: Vec<u32> = lists.items(reference).collect();
                assert_eq!(items, distinct.items_of(id), "{n} {id}");
                assert_eq!(lists.first(reference), items[0]);
            }
        }
    }
}
