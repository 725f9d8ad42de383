//! The buckets of one substring.

use std::ops::Range;

use rayon::prelude::*;

use super::lists::Lists;
use super::{BucketForm, Reached, Scratch};
use crate::index::distinct::number;
use crate::index::huge_vec::HugeVec;
use crate::index::substrings::mask_of;
use crate::kernel::Kernel;
use crate::kernel::threshold::{LANES, Lanes, RANKED, Values, key, unkey};

/// Bits of a lane.
pub(super) const LONG: usize = 32;
const SHORT: usize = 16;

/// The buckets of one substring.
pub(super) struct Table {
    /// The bits of the substring, those of the lanes, and those that references hold.
    pub(super) mask: Vec<u64>,
    pub(super) lane: Vec<u64>,
    pub(super) further: Vec<u64>,
    /// All other bits, and whether all codes have them in common with `common`.
    pub(super) unknown: Vec<u64>,
    pub(super) exact: bool,
    pub(super) common: Vec<u64>,
    pub(super) length: u32,
    /// The values that occur: see [`Values`].
    pub(super) bits: HugeVec<u64>,
    pub(super) ranks: HugeVec<u32>,
    /// Where the bucket of every value that occurs begins; one more for the end.
    pub(super) begins: HugeVec<u32>,
    /// Lanes by bucket, of one of the two lengths, and [`LANES`] unused.
    pub(super) long: HugeVec<u32>,
    pub(super) short: HugeVec<u16>,
    /// The references.
    pub(super) references: HugeVec<u32>,
}

/// What all tables are built from.
pub(super) struct Build<'a> {
    pub(super) kernel: Kernel,
    pub(super) form: BucketForm,
    pub(super) by_variance: &'a [usize],
    pub(super) rows: &'a [u64],
    pub(super) lists: &'a Lists,
    /// The reference of every code.
    pub(super) references: &'a [u32],
}

impl Build<'_> {
    /// The table of a substring; `order` is that of [`by_value`].
    pub(super) fn table(&self, mask: &[u64], order: &[u64]) -> Table {
        let (width, n) = (mask.len(), order.len());
        let outside = |&&bit: &&usize| mask[bit / 64] >> (bit % 64) & 1 == 0;
        let mut others = self.by_variance.iter().filter(outside).copied();
        let (longs, shorts) = match self.form {
            BucketForm::Fast => (n + LANES, 0),
            BucketForm::Compact => (0, n + LANES),
        };
        let lane_bits = if longs > 0 { LONG } else { SHORT };
        let lane = mask_of(others.by_ref().take(lane_bits), width);
        let held = self.lists.others().count_ones() as usize;
        let further = mask_of(others.by_ref().take(held), width);
        let unknown = mask_of(others, width);
        let common = self.rows.get(..width).unwrap_or(&vec![0; width]).to_vec();
        let exact = self.rows.par_chunks_exact(width).all(|row| {
            let words = row.iter().zip(&common).zip(&unknown);
            words.fold(0, |all, ((a, b), mask)| all | (a ^ b) & mask) == 0
        });
        let length = mask.iter().map(|word| word.count_ones()).sum::<u32>();
        let mut bits: HugeVec<u64> = HugeVec::zeroed((1_usize << length).div_ceil(64));
        let value_of = |at: usize| unkey(order[at]).0;
        let new = |at: usize| at == 0 || value_of(at) != value_of(at - 1);
        let count = (0..n).into_par_iter().filter(|&at| new(at)).count();
        let mut begins: HugeVec<u32> = HugeVec::zeroed(count + 1);
        let mut bucket = 0;
        for at in (0..n).filter(|&at| new(at)) {
            let value = value_of(at);
            bits[value as usize / 64] |= 1 << (value % 64);
            begins[bucket] = number(at);
            bucket += 1;
        }
        begins[bucket] = number(n);
        let mut ranks: HugeVec<u32> = HugeVec::zeroed(bits.len().div_ceil(RANKED));
        let mut before = 0;
        for (rank, words) in ranks.iter_mut().zip(bits.chunks(RANKED)) {
            *rank = before;
            before += words.iter().map(|word| word.count_ones()).sum::<u32>();
        }
        let row = |at: u64| &self.rows[unkey(at).1 as usize * width..][..width];
        let lane_of = |at: u64| extract(self.kernel, row(at), &lane);
        let mut long: HugeVec<u32> = HugeVec::zeroed(longs);
        long.par_iter_mut().zip(order).for_each(|(to, &at)| *to = lane_of(at));
        let mut short: HugeVec<u16> = HugeVec::zeroed(shorts);
        #[expect(clippy::cast_possible_truncation, reason = "lanes of 16 bits")]
        short.par_iter_mut().zip(order).for_each(|(to, &at)| *to = lane_of(at) as u16);
        let mut references: HugeVec<u32> = HugeVec::zeroed(n);
        references.par_iter_mut().zip(order).for_each(|(to, &at)| {
            let more = extract(self.kernel, row(at), &further);
            *to = self.references[unkey(at).1 as usize] | self.lists.with(more);
        });
        Table {
            mask: mask.to_vec(),
            lane,
            further,
            unknown,
            exact,
            common,
            length,
            bits,
            ranks,
            begins,
            long,
            short,
            references,
        }
    }
}

impl Table {
    pub(super) fn values(&self) -> Values<'_> {
        Values { bits: &self.bits, ranks: &self.ranks, length: self.length }
    }

    /// Positions of the codes with a value.
    pub(super) fn bucket(&self, value: u32) -> Range<u32> {
        self.values().rank(value).map_or(0..0, |slot| self.slot(slot))
    }

    #[inline]
    pub(super) fn slot(&self, slot: u32) -> Range<u32> {
        self.begins[slot as usize]..self.begins[slot as usize + 1]
    }

    /// The buckets of all values that differ from the query's in one bit more than the radius; how many codes these
    /// hold.
    pub(super) fn look_up(
        &self,
        kernel: Kernel,
        form: BucketForm,
        reached: Reached,
        scratch: &mut Scratch,
    ) -> usize {
        let Scratch { slots, ranges, .. } = scratch;
        slots.clear();
        kernel.occupied(self.values(), reached.own, reached.radius, slots);
        ranges.clear();
        let mut codes = 0;
        for &slot in slots.iter() {
            let range = self.slot(slot);
            match form {
                BucketForm::Fast => kernel.fetch_lanes(&self.long, range.start as usize),
                BucketForm::Compact => {
                    kernel.fetch_lanes(&self.short, range.start as usize)
                }
            }
            codes += range.len();
            ranges.push(range);
        }
        codes
    }

    pub(super) fn lanes(&self, form: BucketForm) -> Lanes<'_> {
        match form {
            BucketForm::Fast => Lanes::Long(&self.long),
            BucketForm::Compact => Lanes::Short(&self.short),
        }
    }

    /// In how many of the bits that all codes have in common, and that are in no other part, a query differs.
    pub(super) fn common_differing(&self, code: &[u64]) -> u32 {
        if !self.exact {
            return 0;
        }
        let words = code.iter().zip(&self.common).zip(&self.unknown);
        words.map(|((a, b), mask)| ((a ^ b) & mask).count_ones()).sum()
    }

    pub(super) fn bytes(&self) -> usize {
        let words = self.ranks.len() + self.begins.len() + self.long.len();
        8 * self.bits.len() + 4 * (words + self.references.len()) + 2 * self.short.len()
    }
}

/// The values of all codes under a mask with the number of their code, sorted.
pub(super) fn by_value(kernel: Kernel, mask: &[u64], rows: &[u64]) -> Vec<u64> {
    let rows = rows.par_chunks_exact(mask.len()).enumerate();
    let mut order: Vec<u64> =
        rows.map(|(id, row)| key(extract(kernel, row, mask), number(id))).collect();
    order.par_sort_unstable();
    order
}

/// The bits of a code under a mask of at most 32 bits, moved together.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "at most 32 bits")]
pub(super) fn extract(kernel: Kernel, code: &[u64], mask: &[u64]) -> u32 {
    let (mut all, mut shift) = (0, 0);
    for (&word, &mask) in code.iter().zip(mask).filter(|(_, mask)| **mask != 0) {
        all |= kernel.extract(word, mask) << shift;
        shift += mask.count_ones();
    }
    all as u32
}
