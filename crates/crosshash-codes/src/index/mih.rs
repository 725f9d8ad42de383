//! Multi-index hashing: exact search in buckets of substrings.
//!
//! Norouzi, Punjani, Fleet, *Fast Exact Search in Hamming Space with Multi-Index Hashing*, TPAMI
//! 2014. A code is cut into `m` substrings of at most 16 bits, each with a table of buckets.
//! Step `s = a * m + j` visits the buckets of table `j` at substring distance exactly `a`; by the
//! pigeonhole principle every code at distance `s` or less has been found when step `s` is done.
//!
//! Departures: buckets are counting-sorted arrays, in the fast form with copies of the codes in
//! bucket order, so that a bucket is read contiguously by the kernel of the scan. No set of
//! visited items: whether a candidate was found at an earlier step follows from its code, and
//! only the few below the k-th distance so far are checked.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::huge_vec::HugeVec;
use super::top::Unordered;
use super::{Hit, Index, Query, check_count};
use crate::kernel::Kernel;
use crate::kernel::threshold::{Held, Planes, Step, unkey};
use crate::{Codes, Result};

/// The longest substring; a table has 2^16 buckets.
const MAX_LENGTH: usize = 16;
/// Buckets looked up before they are read.
const PROBES: usize = 64;
/// Cost of a look-up, in compared codes.
const PROBE_COST: usize = 12;

/// Content of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Item numbers: 4 bytes per item and table.
    Lean,
    /// Item numbers and copies of the codes.
    Fast,
}

/// Tables of substrings.
pub struct Mih {
    codes: Codes,
    tables: Vec<Table>,
    /// First bit and bits of every table's substring.
    substrings: Vec<(u32, u32)>,
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
    begins: HugeVec<u32>,
    /// Items in bucket order, ascending inside a bucket.
    items: HugeVec<u32>,
    /// Their codes as planes, or nothing.
    planes: HugeVec<u64>,
}

/// State and cost of a search.
pub(super) struct Progressed {
    /// Hits so far; the result if `finished`.
    pub(super) top: Unordered,
    /// Whether everything was found.
    pub(super) finished: bool,
    /// The work done, in codes compared.
    pub(super) work: usize,
}

impl Progressed {
    /// The hits, or if the search was not finished, the bound of their distances found so far.
    pub(super) fn settled(self, query: &Query<'_>) -> std::result::Result<Vec<Hit>, u32> {
        if self.finished {
            Ok(query.hits(self.top.into_keys()))
        } else {
            Err(self.top.below())
        }
    }
}

impl Mih {
    /// Builds the tables, one after the other in parallel; `progress` is called with the number of items.
    pub fn new(codes: Codes, form: Form, progress: &(dyn Fn(usize) + Sync)) -> Result<Mih> {
        check_count(&codes)?;
        let bits = codes.bits().get();
        let m = bits.div_ceil(MAX_LENGTH);
        let done = AtomicUsize::new(0);
        let tables: Vec<Table> = (0..m)
            .into_par_iter()
            .map(|j| {
                let (start, end) = (bits * j / m, bits * (j + 1) / m);
                let table = Table::new(&codes, start, end - start, form);
                progress(codes.len() * (done.fetch_add(1, Ordering::Relaxed) + 1) / m);
                table
            })
            .collect();
        let number = |value: usize| u32::try_from(value).unwrap_or(0);
        let cut = |table: &Table| (number(table.start), number(table.length));
        let substrings = tables.iter().map(cut).collect();
        let kernel = Kernel::best();
        Ok(Mih { codes: codes.shared(), tables, substrings, kernel, form })
    }

    /// The hits of one query, unless the work would exceed `budget`. Buckets are looked up and
    /// prefetched one chunk before they are read.
    pub(super) fn one(&self, code: &[u64], query: &Query<'_>, budget: usize) -> Progressed {
        let m = self.tables.len();
        let mut top = Unordered::new(query, query.below(&self.codes));
        let mut work = 0_usize;
        let mut found = (Vec::new(), Vec::new());
        let keys: Vec<u16> = self.tables.iter().map(|table| table.key(code)).collect();
        let steps = (0..(MAX_LENGTH + 1) * m).flat_map(|step| {
            let table = &self.tables[step % m];
            let masks = table.weights.get(step / m).cloned().unwrap_or_default();
            table.masks[masks].chunks(PROBES).map(move |masks| (step, masks))
        });
        let mut waiting: Chunk = (0, Vec::with_capacity(PROBES));
        let mut planned: Chunk = (0, Vec::with_capacity(PROBES));
        let mut entered = None;
        for (step, masks) in steps {
            let table = &self.tables[step % m];
            if entered != Some(step) {
                entered = Some(step);
                if step % m == 0 {
                    // the next radius has many more buckets: first check whether it is needed
                    self.visit(code, query, &waiting, &mut top, &mut found);
                    waiting.1.clear();
                    if step >= top.below() as usize {
                        return Progressed { top, finished: true, work };
                    }
                }
                // a radius whose estimated cost exceeds the budget is not started
                let probes = table.weights.get(step / m).map_or(0, ExactSizeIterator::len);
                let each = PROBE_COST + (self.codes.len() >> table.length);
                if work.saturating_add(probes.saturating_mul(each)) > budget {
                    self.visit(code, query, &waiting, &mut top, &mut found);
                    let finished = step >= top.below() as usize;
                    return Progressed { top, finished, work };
                }
            }
            planned.0 = step;
            table.look_up(keys[step % m], masks, &mut planned.1);
            if self.form == Form::Fast {
                self.kernel.fetch(code.len(), table.as_planes(), &planned.1);
            }
            work += masks.len() * PROBE_COST;
            work += planned.1.iter().map(|range| range.len()).sum::<usize>();
            self.visit(code, query, &waiting, &mut top, &mut found);
            std::mem::swap(&mut waiting, &mut planned);
            // all steps before this one have been visited, and with them every code at distance
            // `step - 1` and less
            if step >= top.below() as usize {
                return Progressed { top, finished: true, work };
            }
            if work > budget {
                return Progressed { top, finished: false, work };
            }
        }
        self.visit(code, query, &waiting, &mut top, &mut found);
        Progressed { top, finished: true, work }
    }

    /// Offers the items in the buckets of a chunk that were not found at an earlier step.
    fn visit(
        &self,
        code: &[u64],
        query: &Query<'_>,
        (step, ranges): &Chunk,
        top: &mut Unordered,
        (found, histogram): &mut (Vec<u64>, Vec<u32>),
    ) {
        let table = &self.tables[step % self.tables.len()];
        found.clear();
        let below = top.below();
        let held = match self.form {
            Form::Fast => {
                let planes = table.as_planes();
                self.kernel.threshold(code, planes, ranges, below, found);
                Held::Planes(planes)
            }
            Form::Lean => {
                let rows = self.codes.words();
                for range in ranges {
                    let items = &table.items[range.start as usize..range.end as usize];
                    self.kernel.threshold_listed(
                        code,
                        rows,
                        items,
                        range.start,
                        below,
                        found,
                    );
                }
                Held::Rows(rows)
            }
        };
        if query.allowed.is_none() && found.len() > query.depth() {
            // a large bucket: the bound first, so that few candidates are checked
            top.expect(found, histogram);
            let below = top.below();
            found.retain(|&key| unkey(key).0 < below);
        }
        let number = u32::try_from(*step).unwrap_or(u32::MAX);
        let step = Step { number, substrings: &self.substrings, items: &table.items };
        self.kernel.first_met(code, held, step, found);
        for &key in found.iter() {
            let (distance, item) = unkey(key);
            if query.allows(item) {
                top.offer(distance, item);
            }
        }
    }
}

/// Buckets of one step that are read together.
type Chunk = (usize, Vec<Range<u32>>);

impl Table {
    fn new(codes: &Codes, start: usize, length: usize, form: Form) -> Table {
        let width = codes.bits().words();
        let n = codes.len();
        let key = |code: &[u64]| substring(|w| code[w], start, length);
        let mut begins = HugeVec::zeroed((1 << length) + 1);
        codes.iter().for_each(|code| begins[usize::from(key(code)) + 1] += 1);
        for bucket in 0..1 << length {
            begins[bucket + 1] += begins[bucket];
        }
        let mut next = begins.to_vec();
        let mut items = HugeVec::zeroed(n);
        let mut planes = HugeVec::zeroed(if form == Form::Fast { n * width } else { 0 });
        {
            let (items, planes) = (&mut items[..], &mut planes[..]);
            for (item, code) in (0_u32..).zip(codes.iter()) {
                let place = &mut next[usize::from(key(code))];
                let at = *place as usize;
                *place += 1;
                items[at] = item;
                if form == Form::Fast {
                    code.iter()
                        .enumerate()
                        .for_each(|(w, &word)| planes[w * n + at] = word);
                }
            }
        }
        let (masks, weights) = by_weight(length);
        Table { start, length, masks, weights, begins, items, planes }
    }

    fn as_planes(&self) -> Planes<'_> {
        Planes { words: &self.planes, stride: self.items.len() }
    }

    /// The buckets that differ from `key` by each of the masks, without empty ones.
    fn look_up(&self, key: u16, masks: &[u16], ranges: &mut Vec<Range<u32>>) {
        let begins = &self.begins[..];
        ranges.clear();
        for &mask in masks {
            let bucket = usize::from(key ^ mask);
            let range = begins[bucket]..begins[bucket + 1];
            if !range.is_empty() {
                ranges.push(range);
            }
        }
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

/// Bits `start .. start + length`, at most 16 of them, of words that are read one by one.
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

/// All numbers of `length` bits by their number of ones, and with the range of each number of ones.
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
            query.hits(found.top.into_keys())
        });
        Ok(answers.collect())
    }

    fn extra_bytes(&self) -> usize {
        self.tables.iter().map(Table::bytes).sum()
    }

    fn explain(&self) -> String {
        let form =
            if self.form == Form::Fast { "copies of the codes" } else { "items only" };
        format!("mih: {} tables, {form}, {}", self.tables.len(), self.kernel.name())
    }
}
