//! Multi-index hashing: exact search in buckets of substrings.
//!
//! Norouzi, Punjani, Fleet, *Fast Exact Search in Hamming Space with Multi-Index Hashing*, TPAMI
//! 2014. A code is cut into `m` substrings of at most 16 bits, each with a table of buckets.
//! Step `s = a * m + j` visits the buckets of table `j` at substring distance exactly `a`; by the
//! pigeonhole principle every code at distance `s` or less has been met when step `s` is done.
//!
//! Departures: buckets are counting-sorted arrays, in the fast form with copies of the codes in
//! bucket order, so that a bucket is read in one stretch by the kernel of the scan. No set of
//! visited items: whether a candidate was met at an earlier step follows from its code, and
//! only the few nearer than the k-th so far are asked.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::top::{Unordered, first};
use super::{Hit, Index, Query, check_count};
use crate::kernel::Kernel;
use crate::kernel::nearer::{Planes, unkey};
use crate::{Codes, Result};

/// The longest substring; a table has 2^16 buckets.
const MAX_LENGTH: usize = 16;
/// Buckets looked up before they are read.
const PROBES: usize = 64;
/// What a look-up costs, counted in codes compared.
const PROBE_COST: usize = 12;

/// What a table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Item numbers: 4 bytes an item and table.
    Lean,
    /// Item numbers and copies of the codes.
    Fast,
}

/// Tables of substrings.
pub struct Mih {
    codes: Codes,
    tables: Vec<Table>,
    kernel: Kernel,
    form: Form,
}

struct Table {
    /// The first bit of the substring.
    start: usize,
    /// Its bits.
    length: usize,
    /// Substrings by their number of ones; `weights[a]` is where those of `a` ones lie.
    masks: Vec<u16>,
    weights: Vec<Range<usize>>,
    /// Where each bucket begins; one more for the end.
    begins: Vec<u32>,
    /// Items in bucket order, ascending inside a bucket.
    items: Vec<u32>,
    /// Their codes as planes, or nothing.
    planes: Vec<u64>,
}

/// How far a search got, and what it cost.
pub(super) struct Progressed {
    /// What was found; the answer if `finished`.
    pub(super) top: Unordered,
    /// Whether everything was found.
    pub(super) finished: bool,
    /// The work done, in codes compared.
    pub(super) work: usize,
}

impl Mih {
    /// Builds the tables, one after the other in parallel; `progress` hears items.
    pub fn new(
        codes: Codes,
        form: Form,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Mih> {
        check_count(&codes)?;
        let bits = codes.bits().get();
        let m = bits.div_ceil(MAX_LENGTH);
        let done = AtomicUsize::new(0);
        let tables = (0..m)
            .into_par_iter()
            .map(|j| {
                let (start, end) = (bits * j / m, bits * (j + 1) / m);
                let table = Table::new(&codes, start, end - start, form);
                progress(codes.len() * (done.fetch_add(1, Ordering::Relaxed) + 1) / m);
                table
            })
            .collect();
        Ok(Mih { codes: codes.shared(), tables, kernel: Kernel::best(), form })
    }

    /// The hits of one query, unless the work would pass `budget`.
    pub(super) fn one(&self, code: &[u64], query: &Query<'_>, budget: usize) -> Progressed {
        let m = self.tables.len();
        let mut top = Unordered::new(query.depth(), query.below(&self.codes));
        let mut work = 0_usize;
        let mut found = Vec::new();
        let mut ranges: Vec<Range<u32>> = Vec::with_capacity(PROBES);
        for step in 0..(MAX_LENGTH + 1) * m {
            // steps before this one have met every code at distance `step - 1` and less
            if step >= top.below() as usize {
                break;
            }
            let table = &self.tables[step % m];
            let Some(masks) = table.weights.get(step / m) else { continue };
            let expected = self.codes.len() >> table.length;
            let probes = masks.len();
            if work.saturating_add(probes.saturating_mul(PROBE_COST + expected)) > budget {
                return Progressed { top, finished: false, work };
            }
            let own = usize::from(table.key(code));
            for masks in table.masks[masks.clone()].chunks(PROBES) {
                ranges.clear();
                work += masks.len() * PROBE_COST;
                for &mask in masks {
                    let bucket = own ^ usize::from(mask);
                    let range = table.begins[bucket]..table.begins[bucket + 1];
                    if !range.is_empty() {
                        work += range.len();
                        ranges.push(range);
                    }
                }
                self.visit(table, code, query, step, &ranges, &mut top, &mut found);
                if work > budget {
                    return Progressed { top, finished: false, work };
                }
            }
        }
        Progressed { top, finished: true, work }
    }

    /// Offers what lies in some buckets and was not met at an earlier step.
    #[expect(clippy::too_many_arguments, reason = "the state of one query's walk")]
    fn visit(
        &self,
        table: &Table,
        code: &[u64],
        query: &Query<'_>,
        step: usize,
        ranges: &[Range<u32>],
        top: &mut Unordered,
        found: &mut Vec<u64>,
    ) {
        found.clear();
        let below = top.below();
        match self.form {
            Form::Fast => {
                let planes = Planes { words: &table.planes, stride: table.items.len() };
                self.kernel.nearer(code, planes, ranges, below, found);
            }
            Form::Lean => {
                for range in ranges {
                    let items = &table.items[range.start as usize..range.end as usize];
                    let rows = self.codes.words();
                    self.kernel
                        .nearer_listed(code, rows, items, range.start, below, found);
                }
            }
        }
        for &key in found.iter() {
            let (distance, at) = unkey(key);
            if distance >= top.below() {
                continue;
            }
            let item = table.items[at as usize];
            if self.is_first_met(table, code, at as usize, item, step) && query.allows(item)
            {
                top.offer(distance, item);
            }
        }
    }

    /// Whether no step before this one has met the item.
    #[inline]
    fn is_first_met(
        &self,
        table: &Table,
        code: &[u64],
        at: usize,
        item: u32,
        step: usize,
    ) -> bool {
        let m = self.tables.len();
        let n = table.items.len();
        let row = match self.form {
            Form::Lean => self.codes.code(item as usize),
            Form::Fast => &[],
        };
        let difference = |w: usize| match self.form {
            Form::Lean => row[w] ^ code[w],
            Form::Fast => table.planes[w * n + at] ^ code[w],
        };
        let earlier = |(j, other): (usize, &Table)| {
            let ones = substring(difference, other.start, other.length).count_ones();
            ones as usize * m + j < step
        };
        !self.tables.iter().enumerate().any(earlier)
    }
}

impl Table {
    fn new(codes: &Codes, start: usize, length: usize, form: Form) -> Table {
        let width = codes.bits().words();
        let n = codes.len();
        let key = |code: &[u64]| substring(|w| code[w], start, length);
        let mut begins = vec![0_u32; (1 << length) + 1];
        codes.iter().for_each(|code| begins[usize::from(key(code)) + 1] += 1);
        for bucket in 0..1 << length {
            begins[bucket + 1] += begins[bucket];
        }
        let mut next = begins.clone();
        let mut items = vec![0; n];
        let mut planes = vec![0; if form == Form::Fast { n * width } else { 0 }];
        for (item, code) in codes.iter().enumerate() {
            let place = &mut next[usize::from(key(code))];
            let at = *place as usize;
            *place += 1;
            items[at] = u32::try_from(item).unwrap_or(u32::MAX);
            if form == Form::Fast {
                code.iter().enumerate().for_each(|(w, &word)| planes[w * n + at] = word);
            }
        }
        let (masks, weights) = by_weight(length);
        Table { start, length, masks, weights, begins, items, planes }
    }

    /// The bucket of a code.
    fn key(&self, code: &[u64]) -> u16 {
        substring(|w| code[w], self.start, self.length)
    }

    fn bytes(&self) -> usize {
        4 * (self.begins.len() + self.items.len())
            + 8 * self.planes.len()
            + 2 * self.masks.len()
    }
}

/// Bits `start .. start + length`, at most 16 of them, of words that are asked for one by one.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "masked to 16 bits")]
fn substring(word: impl Fn(usize) -> u64, start: usize, length: usize) -> u16 {
    let (at, shift) = (start / 64, start % 64);
    let mut bits = word(at) >> shift;
    if shift + length > 64 {
        bits |= word(at + 1) << (64 - shift);
    }
    (bits & ((1 << length) - 1)) as u16
}

/// All numbers of `length` bits by their number of ones, and where each number of ones lies.
fn by_weight(length: usize) -> (Vec<u16>, Vec<Range<usize>>) {
    let mut masks = Vec::with_capacity(1 << length);
    let mut weights = Vec::with_capacity(length + 1);
    for ones in 0..=length {
        let begin = masks.len();
        let all = 0..=u16::MAX >> (MAX_LENGTH - length);
        masks.extend(all.filter(|mask| mask.count_ones() as usize == ones));
        weights.push(begin..masks.len());
    }
    (masks, weights)
}

impl Index for Mih {
    fn codes(&self) -> &Codes {
        &self.codes
    }

    fn search(
        &self,
        queries: &Codes,
        query: &Query<'_>,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Vec<Hit>>> {
        query.check(&self.codes, queries)?;
        let done = AtomicUsize::new(0);
        let answers = (0..queries.len()).into_par_iter().map(|q| {
            let found = self.one(queries.code(q), query, usize::MAX);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            query.page(first(found.top.into_keys(), query.depth()))
        });
        Ok(answers.collect())
    }

    fn extra_bytes(&self) -> usize {
        self.tables.iter().map(Table::bytes).sum()
    }

    fn explain(&self) -> String {
        let form = if self.form == Form::Fast { "copies of the codes" } else { "items only" };
        format!("mih: {} tables, {form}, {}", self.tables.len(), self.kernel.name())
    }
}
