//! Multi-index hashing of different codes: exact search in codes that models learn.
//!
//! Multi-index hashing (Norouzi, Punjani, Fleet, TPAMI 2014) with four changes for learned codes, which have many
//! duplicates, skewed and correlated bits, and neighbours at small distances:
//!
//! 1. Only different codes are in the tables; each has a list of its items.
//! 2. Substrings are disjoint sets of bits that are chosen for small buckets (`substrings.rs`), and they are as
//!    long as 21 bits, because few of their values occur: a table has a bitmap of these with
//!    ranks, and a list of the buckets that are not empty.
//! 3. A bucket holds of every code 32 more bits, so that a vector rejects eight codes without
//!    reading anything else of them; the rest is compared with the code of their first item.
//! 4. The codes are numbered in the order of the first table, which needs no numbers for that reason.
//!
//! If two codes differ in at most `m s + j` bits, then one of the first `j + 1` of `m` substrings differs in at
//! most `s`, or another in fewer than `s`. So step `m s + j` looks up all values that differ in `s` bits from
//! substring `j` of the query; after it, everything within that distance has been found. Bits that
//! belong to no substring do not matter for this.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::distinct::{Distinct, number};
use super::huge_vec::HugeVec;
use super::mih::Progressed;
use super::substrings::{choose, mask_of};
use super::top::Unordered;
use super::{Hit, Index, Query, Scan, check_count};
use crate::kernel::Kernel;
use crate::kernel::threshold::{LANES, unkey};
use crate::{Codes, Error, Result};

/// Bits of a substring, at most;
const LONGEST: usize = 21;
/// there are up to this number of values per different code, as a power of two.
const SPREAD: usize = 3;
/// Bits of a code that a bucket holds.
const LANE: usize = 32;
/// Cost of looking up a value, and of a code that the lanes do not reject, in lanes compared.
const PROBE: usize = 8;
const VERIFY: usize = 24;
/// If less than one item in this number is allowed, allowed items are compared one by one.
const SPARSE: usize = 64;
/// A query is passed to the scan if it costs this number of times fewer lanes than there are items.
const SCAN: usize = 2;
/// Marks the only item of a code, which needs no list.
const ALONE: u32 = 1 << 31;
/// Codes that are compared together.
const GROUP: usize = 16;
/// Queries that a thread takes together.
const TASK: usize = 4;

/// Hash tables of different codes.
pub struct MihDistinct {
    scan: Scan,
    kernel: Kernel,
    tables: Vec<Table>,
    /// For every code its only item and [`ALONE`], or where its list begins: the number of
    /// items, then the items, ascending.
    lists: HugeVec<u32>,
    items: HugeVec<u32>,
}

/// The buckets of one substring.
struct Table {
    /// The bits of the substring, and those of the lanes.
    mask: Vec<u64>,
    lane: Vec<u64>,
    length: u32,
    /// For each 32 values: which of them occur, and how many smaller ones do.
    values: HugeVec<u64>,
    /// Where the bucket of every value that occurs begins; one more for the end.
    begins: HugeVec<u32>,
    /// The lanes by bucket, and [`LANES`] unused.
    lanes: HugeVec<u32>,
    /// The number of each code; none in the first table.
    ids: HugeVec<u32>,
}

/// Memory of a thread that searches.
#[derive(Default)]
struct Scratch {
    slots: Vec<u32>,
    ranges: Vec<Range<u32>>,
    found: Vec<u64>,
    sorted: Vec<u64>,
    lists: Vec<u32>,
    firsts: Vec<u32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl MihDistinct {
    /// Builds the tables on all threads; `progress` is called with the number of items.
    pub fn new(codes: Codes, progress: &(dyn Fn(usize) + Sync)) -> Result<MihDistinct> {
        check_count(&codes)?;
        if codes.len() >= ALONE as usize {
            return Err(Error::content(
                "mih-distinct holds less than 2^31 codes; use tree",
            ));
        }
        let (n, kernel) = (codes.len(), Kernel::best());
        let codes = codes.shared();
        let distinct = Distinct::of(&codes);
        progress(n / 2);
        let shape = Shape::of(codes.bits().get(), distinct.len());
        let (masks, by_variance) = choose(&codes, shape.tables, shape.length);
        let lane = |mask: &Vec<u64>| {
            let outside = |&&bit: &&usize| mask[bit / 64] >> (bit % 64) & 1 == 0;
            let bits = by_variance.iter().filter(outside).take(LANE).copied();
            mask_of(bits, mask.len())
        };
        // the first table numbers the codes
        let unnumbered: Vec<u32> = (0..number(distinct.len())).collect();
        let of = |mask: &Vec<u64>, ids: &[u32]| {
            Table::new(kernel, mask.clone(), lane(mask), &distinct.rows, ids)
        };
        let Some((one, others)) = masks.split_first() else {
            return Err(Error::content("codes without bits"));
        };
        let mut tables = vec![of(one, &unnumbered)];
        let order = std::mem::replace(&mut tables[0].ids, HugeVec::zeroed(0));
        tables.par_extend(others.par_iter().map(|mask| of(mask, &order)));
        let (lists, items) = lists(&distinct, &order);
        progress(n);
        Ok(MihDistinct { scan: Scan::new(codes)?, kernel, tables, lists, items })
    }

    /// Number of different codes.
    pub fn distinct(&self) -> usize {
        self.lists.len()
    }

    /// The hits of one query, unless the work would exceed `budget`.
    pub(super) fn one(&self, code: &[u64], query: &Query<'_>, budget: usize) -> Progressed {
        SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
            Ok(mut scratch) => self.visit(code, query, budget, &mut scratch),
            Err(_) => self.visit(code, query, budget, &mut Scratch::default()),
        })
    }

    fn visit(
        &self,
        code: &[u64],
        query: &Query<'_>,
        budget: usize,
        scratch: &mut Scratch,
    ) -> Progressed {
        let mut top = Unordered::new(query, query.below(self.codes()));
        let m = number(self.tables.len());
        let longest = self.tables.iter().map(|table| table.length).max().unwrap_or(0);
        let mut work = 0;
        for step in 0..(longest + 1) * m {
            if step >= top.below() {
                break;
            }
            let (differing, nth) = (step / m, (step % m) as usize);
            let table = &self.tables[nth];
            let probes = values_at(table.length, differing);
            work += probes.saturating_mul(PROBE);
            if work > budget {
                return Progressed { top, finished: false, work };
            }
            table.look_up(self.kernel, code, differing, scratch);
            work += scratch.ranges.iter().map(|range| range.len()).sum::<usize>();
            let lane = extract(self.kernel, code, &table.lane);
            scratch.found.clear();
            self.kernel.lanes32_in(
                lane,
                &table.lanes,
                &scratch.ranges,
                top.below() - differing,
                &mut scratch.found,
            );
            work += VERIFY * self.verify(code, query, step, scratch, &mut top);
        }
        Progressed { top, finished: true, work }
    }

    /// Offers the items of the codes that the lanes did not reject, nearest lanes first, as far as the
    /// k-th distance so far allows.
    fn verify(
        &self,
        code: &[u64],
        query: &Query<'_>,
        step: u32,
        scratch: &mut Scratch,
        top: &mut Unordered,
    ) -> usize {
        let differing = step / number(self.tables.len());
        sort_by_distance(&mut scratch.found, &mut scratch.sorted);
        let mut at = 0;
        while let Some(&next) = scratch.sorted.get(at)
            && unkey(next).0 + differing < top.below()
        {
            let end = (at + GROUP).min(scratch.sorted.len());
            self.compare(code, query, step, at..end, scratch, top);
            at = end;
        }
        at
    }

    /// A part of these. Their list, their first item and its code are read for all of them in turn, so
    /// that the memory is not waited for one by one.
    fn compare(
        &self,
        code: &[u64],
        query: &Query<'_>,
        step: u32,
        part: Range<usize>,
        scratch: &mut Scratch,
        top: &mut Unordered,
    ) {
        let m = number(self.tables.len());
        let table = &self.tables[(step % m) as usize];
        let Scratch { sorted, lists, firsts, .. } = scratch;
        lists.clear();
        lists.extend(sorted[part].iter().map(|&at| {
            let at = unkey(at).1 as usize;
            self.lists[if step.is_multiple_of(m) { at } else { table.ids[at] as usize }]
        }));
        firsts.clear();
        firsts.extend(lists.iter().map(|&list| {
            if list & ALONE == 0 { self.items[list as usize + 1] } else { list ^ ALONE }
        }));
        let codes = self.codes();
        for (&list, &item) in lists.iter().zip(firsts.iter()) {
            let row = codes.code(item as usize);
            let differing = |(a, b): (&u64, &u64)| (a ^ b).count_ones();
            let distance: u32 = row.iter().zip(code).map(differing).sum();
            if distance >= top.below() {
                continue;
            }
            // found before, if another substring differs in fewer bits
            let step_of =
                |(nth, table): (u32, &Table)| table.differing(code, row) * m + nth;
            if (0..m).zip(&self.tables).map(step_of).min() < Some(step) {
                continue;
            }
            let items = if list & ALONE == 0 {
                let start = list as usize + 1;
                &self.items[start..start + self.items[list as usize] as usize]
            } else {
                std::slice::from_ref(&item)
            };
            top.offer_all(query, distance, items, codes.len());
        }
    }
}

/// The number of tables and the bits of each.
struct Shape {
    tables: usize,
    length: usize,
}

impl Shape {
    fn of(bits: usize, distinct: usize) -> Shape {
        let length = (distinct.max(2).ilog2() as usize + SPREAD).clamp(8, LONGEST);
        let tables = (bits / length).max(1);
        Shape { tables, length: length.min(bits) }
    }
}

/// The lists of all codes in a new order: see [`MihDistinct`].
fn lists(distinct: &Distinct, order: &[u32]) -> (HugeVec<u32>, HugeVec<u32>) {
    let len = |id: &u32| match distinct.items_of(*id as usize).len() {
        1 => 0,
        n => n + 1,
    };
    let mut lists: HugeVec<u32> = HugeVec::zeroed(order.len());
    let mut items: HugeVec<u32> = HugeVec::zeroed(order.par_iter().map(len).sum());
    let mut end = 0;
    for (list, &id) in lists.iter_mut().zip(order) {
        match distinct.items_of(id as usize) {
            [item] => *list = item | ALONE,
            own => {
                *list = number(end);
                items[end] = number(own.len());
                items[end + 1..=end + own.len()].copy_from_slice(own);
                end += own.len() + 1;
            }
        }
    }
    (lists, items)
}

impl Table {
    /// The table of the codes `ids` of `rows`; their numbers are their positions among these.
    fn new(
        kernel: Kernel,
        mask: Vec<u64>,
        lane: Vec<u64>,
        rows: &[u64],
        ids: &[u32],
    ) -> Table {
        let (width, n) = (mask.len(), ids.len());
        let row = |id: u32| &rows[id as usize * width..][..width];
        let length = mask.iter().map(|word| word.count_ones()).sum::<u32>();
        let mut order: Vec<u64> = (0..number(n))
            .into_par_iter()
            .map(|nth| {
                let value = extract(kernel, row(ids[nth as usize]), &mask);
                u64::from(value) << 32 | u64::from(nth)
            })
            .collect();
        order.par_sort_unstable();
        let value_of = |at: u64| unkey(at).0;
        let mut values: HugeVec<u64> = HugeVec::zeroed((1_usize << length).div_ceil(32));
        let new = |at: usize| at == 0 || value_of(order[at]) != value_of(order[at - 1]);
        let count = (0..n).into_par_iter().filter(|&at| new(at)).count();
        let mut begins: HugeVec<u32> = HugeVec::zeroed(count + 1);
        let mut bucket = 0;
        for at in (0..n).filter(|&at| new(at)) {
            let value = value_of(order[at]);
            values[value as usize / 32] |= 1 << (value % 32);
            begins[bucket] = number(at);
            bucket += 1;
        }
        begins[bucket] = number(n);
        let mut rank = 0;
        for block in values.iter_mut() {
            let here = u64::from(block.count_ones());
            *block |= rank << 32;
            rank += here;
        }
        let mut lanes: HugeVec<u32> = HugeVec::zeroed(n + LANES);
        let mut numbers: HugeVec<u32> = HugeVec::zeroed(n);
        lanes[..n].par_iter_mut().zip(&mut numbers[..]).zip(&order).for_each(
            |((to, number), &at)| {
                *number = unkey(at).1;
                *to = extract(kernel, row(ids[*number as usize]), &lane);
            },
        );
        Table { mask, lane, length, values, begins, lanes, ids: numbers }
    }

    /// The buckets of all values that differ in so many bits from the query's.
    fn look_up(&self, kernel: Kernel, code: &[u64], differing: u32, scratch: &mut Scratch) {
        let Scratch { slots, ranges, .. } = scratch;
        let own = extract(kernel, code, &self.mask);
        let probes = values_at(self.length, differing);
        if slots.len() < probes {
            slots.resize(probes, 0);
        }
        // without branches: whether a value occurs cannot be predicted
        let mut count = 0;
        let mut flips = (1_u64 << differing) - 1;
        for _ in 0..probes {
            let value = own ^ unkey(flips).1;
            let (rank, bits) = unkey(self.values[value as usize / 32]);
            let bit = 1_u32 << (value % 32);
            slots[count] = rank + (bits & (bit - 1)).count_ones();
            count += usize::from(bits & bit != 0);
            flips = next(flips);
        }
        ranges.clear();
        ranges.extend(slots[..count].iter().map(|&slot| {
            let slot = slot as usize;
            let range = self.begins[slot]..self.begins[slot + 1];
            kernel.fetch_lanes(&self.lanes, range.start as usize);
            range
        }));
    }

    /// In how many bits of the substring two codes differ.
    #[inline]
    fn differing(&self, a: &[u64], b: &[u64]) -> u32 {
        let words = a.iter().zip(b).zip(&self.mask);
        words.map(|((a, b), mask)| ((a ^ b) & mask).count_ones()).sum()
    }

    fn bytes(&self) -> usize {
        8 * self.values.len() + 4 * (self.begins.len() + self.lanes.len() + self.ids.len())
    }
}

/// How many values of `length` bits have so many ones.
fn values_at(length: u32, ones: u32) -> usize {
    if ones > length {
        return 0;
    }
    let (length, ones) = (length as usize, ones as usize);
    (1..=ones).fold(1, |all, nth| all * (length - nth + 1) / nth)
}

/// The next larger number with as many ones. Warren, *Hacker's Delight*, 2-1.
#[inline]
fn next(flips: u64) -> u64 {
    if flips == 0 {
        return 0;
    }
    let ripple = flips + (flips & flips.wrapping_neg());
    ripple | (flips ^ ripple) >> (2 + flips.trailing_zeros())
}

/// Moves keys with distances of at most [`LANE`] to `sorted`, by distance.
fn sort_by_distance(keys: &mut Vec<u64>, sorted: &mut Vec<u64>) {
    if keys.len() < GROUP {
        std::mem::swap(keys, sorted);
        sorted.sort_unstable();
        return;
    }
    let mut ends = [0_u32; LANE + 2];
    keys.iter().for_each(|&key| ends[unkey(key).0 as usize + 1] += 1);
    for distance in 1..ends.len() {
        ends[distance] += ends[distance - 1];
    }
    sorted.resize(keys.len(), 0);
    for &key in keys.iter() {
        let end = &mut ends[unkey(key).0 as usize];
        sorted[*end as usize] = key;
        *end += 1;
    }
}

/// The bits of a code under a mask of at most 32 bits, moved together.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "at most 32 bits")]
fn extract(kernel: Kernel, code: &[u64], mask: &[u64]) -> u32 {
    let (mut all, mut shift) = (0, 0);
    for (&word, &mask) in code.iter().zip(mask).filter(|(_, mask)| **mask != 0) {
        all |= kernel.extract(word, mask) << shift;
        shift += mask.count_ones();
    }
    all as u32
}

impl Index for MihDistinct {
    fn codes(&self) -> &Codes {
        self.scan.codes()
    }

    fn search(
        &self,
        queries: &Codes,
        query: &Query<'_>,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Vec<Hit>>> {
        query.check(self.codes(), queries)?;
        if query.allowed.is_some_and(|items| items.count() < items.len() / SPARSE) {
            return self.scan.search(queries, query, progress);
        }
        let budget = self.codes().len() / SCAN;
        let done = AtomicUsize::new(0);
        let answer = |q: usize| {
            let found = self.one(queries.code(q), query, budget);
            let below = found.top.below();
            let hits = query.hits(found.top.into_keys());
            if found.finished {
                progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            }
            if found.finished { Ok(hits) } else { Err(below) }
        };
        let found: Vec<_> = match queries.len() {
            1 => vec![answer(0)],
            n => (0..n).into_par_iter().with_min_len(TASK).map(answer).collect(),
        };
        let left = |(q, hits): (u32, &std::result::Result<_, u32>)| {
            hits.as_ref().err().map(|&below| (q, below))
        };
        let (rest, below): (Vec<u32>, Vec<u32>) =
            (0..).zip(&found).filter_map(left).unzip();
        let mut scanned =
            self.scan.chosen(queries, &rest, &below, query, progress).into_iter();
        let settle = |hits: std::result::Result<_, u32>| {
            hits.unwrap_or_else(|_| scanned.next().unwrap_or_default())
        };
        Ok(found.into_iter().map(settle).collect())
    }

    fn extra_bytes(&self) -> usize {
        let tables: usize = self.tables.iter().map(Table::bytes).sum();
        tables + 4 * (self.lists.len() + self.items.len())
    }

    fn explain(&self) -> String {
        format!(
            "mih-distinct: {} different codes, {} tables of {} bits, {}",
            self.distinct(),
            self.tables.len(),
            self.tables.first().map_or(0, |table| table.length),
            self.kernel.name()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_enumerated_completely() {
        for length in 1..=12_u32 {
            for ones in 0..=length {
                let mut flips = (1_u64 << ones) - 1;
                let mut all = Vec::new();
                for _ in 0..values_at(length, ones) {
                    all.push(flips);
                    flips = next(flips);
                }
                let values = 0_u64..1 << length;
                let truth: Vec<u64> = values.filter(|v| v.count_ones() == ones).collect();
                assert_eq!(all, truth, "{length} {ones}");
            }
            assert_eq!(values_at(length, length + 1), 0);
        }
    }

    #[test]
    fn shapes_fit_the_codes() {
        for bits in 1..600 {
            for distinct in [0, 1, 1000, 400_000, 100_000_000] {
                let Shape { tables, length } = Shape::of(bits, distinct);
                assert!(tables >= 1 && (1..=LONGEST).contains(&length), "{bits}");
                assert!(tables * length <= bits, "{bits} {distinct}");
            }
        }
        let Shape { tables, length } = Shape::of(64, 370_000);
        assert_eq!((tables, length), (3, 21));
    }
}
