//! Multi-index hashing of different codes: exact search in codes that models learn.
//!
//! Multi-index hashing (Norouzi, Punjani, Fleet, TPAMI 2014) with five changes for learned codes, which have many
//! duplicates, skewed and correlated bits, and neighbours at small distances:
//!
//! 1. Only different codes are in the tables; each has a list of its items.
//! 2. Substrings are disjoint sets of bits that are chosen for small buckets (`substrings.rs`), and they are as
//!    long as 21 bits, because few of their values occur: a table has a bitmap of these with
//!    ranks, and a list of the buckets that are not empty. A word of the bitmap answers for 64 values at once.
//! 3. A bucket holds of every code a lane of 32 more bits, so that a vector rejects eight codes without
//!    reading anything else of them, and a reference to its items. A number of an item needs less than 32 bits; the
//!    others hold further bits of the code. If substring, lane and these are all bits that vary, the distance is known
//!    without reading the code.
//! 4. The order of the steps depends on the query (below).
//! 5. The compact form has fewer tables and lanes of 16 bits.
//!
//! The radius of a table is the number of differing bits of its substring up to which all buckets have been read, -1 if
//! none. A code that no table has found differs in more bits than the radius in every substring. So if the radii
//! plus one add up to `reach`, everything nearer than `reach` has been found (the general pigeonhole principle: Qin,
//! Wang, Xiao, Zhang, *GPH: Similarity Search in Hamming Space*, ICDE 2018). Every step increases the radius of
//! one table by one: of that with the least expected cost, by the codes of its last step. Near codes
//! are so found in the smallest buckets, and large buckets are often not read at all. Bits that
//! belong to no substring do not matter for this.

mod lists;
mod table;
mod visited;

use std::cell::RefCell;
use std::ops::Range;

use rayon::prelude::*;

use self::lists::Lists;
use self::table::{Build, LONG, Table, by_value, extract};
use self::visited::VisitedCodes;
use super::distinct::Distinct;
use super::mih::Progressed;
use super::scratch::with_scratch;
use super::substrings::choose;
use super::top::Unordered;
use super::{Hit, Index, Query, Scan, answers, check_count};
use crate::kernel::Kernel;
use crate::kernel::threshold::{combinations, unkey};
use crate::{Codes, Error, Result};

/// Bits of a substring, at most;
const LONGEST: usize = 21;
/// there are up to this number of values per different code, as a power of two.
const SPREAD: usize = 3;
/// Tables of the compact form, at most, for every 64 bits of the codes, and bits of its substrings.
const COMPACT: usize = 2;
const SHORTER: usize = 20;
/// Cost of looking up a value, of a bucket that is read, and of a code that the lanes do not reject, in lanes
/// compared.
const PROBE: usize = 2;
const STEP: usize = 20;
const VERIFY: usize = 12;
/// Expected codes of a step for each of the step before.
const GROWTH: usize = 6;
/// A query is passed to the scan if it costs this number of times fewer lanes than there are items.
const SCAN: usize = 2;
/// Codes that are compared together.
const GROUP: usize = 16;

/// What the buckets hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketForm {
    /// A lane of 32 bits and a reference.
    Fast,
    /// A lane of 16 bits and a reference; fewer tables.
    Compact,
}

/// Hash tables of different codes.
pub struct MihDistinct {
    scan: Scan,
    kernel: Kernel,
    form: BucketForm,
    distinct: usize,
    tables: Vec<Table>,
    lists: Lists,
}

/// A table during a search.
#[derive(Clone, Copy)]
struct Reached {
    /// The radius plus one.
    radius: u32,
    /// The value of the query.
    own: u32,
    /// Codes of the last step; before the first step, of that step.
    codes: usize,
}

impl Reached {
    /// Expected cost of the next step.
    fn cost(self, length: u32) -> usize {
        match self.radius {
            0 => self.codes,
            radius => STEP + PROBE * combinations(length, radius) + GROWTH * self.codes,
        }
    }
}

/// Memory of a thread that searches.
#[derive(Default)]
struct Scratch {
    reached: Vec<Reached>,
    slots: Vec<u32>,
    ranges: Vec<Range<u32>>,
    found: Vec<u64>,
    sorted: Vec<u64>,
    /// References of codes that may be near, and lower bounds of their distances.
    references: Vec<u32>,
    bounds: Vec<u32>,
    firsts: Vec<u32>,
    near: Vec<u64>,
    seen: VisitedCodes,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl MihDistinct {
    /// Builds the tables on all threads; `progress` is called with the number of items.
    pub fn new(
        codes: Codes,
        form: BucketForm,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<MihDistinct> {
        check_count(&codes)?;
        if codes.len() >= 1 << 30 {
            return Err(Error::content(
                "mih-distinct holds less than 2^30 codes; use tree",
            ));
        }
        let (n, kernel) = (codes.len(), Kernel::best());
        let codes = codes.shared();
        let distinct = Distinct::of(&codes);
        progress(n / 2);
        let shape = Shape::of(codes.bits().get(), distinct.len(), form);
        let bits = codes.bits().get();
        let (masks, by_variance) = choose(&distinct.rows, bits, shape.tables, shape.length);
        let Some((one, others)) = masks.split_first() else {
            return Err(Error::content("codes without bits"));
        };
        // lists are in the order of the first table
        let order = by_value(kernel, one, &distinct.rows);
        let (lists, references) = Lists::of(&distinct, &order);
        let build = Build {
            kernel,
            form,
            by_variance: &by_variance,
            rows: &distinct.rows,
            lists: &lists,
            references: &references,
        };
        let mut tables = vec![build.table(one, &order)];
        drop(order);
        tables.par_extend(
            others
                .par_iter()
                .map(|mask| build.table(mask, &by_value(kernel, mask, &distinct.rows))),
        );
        progress(n);
        let (scan, distinct) = (Scan::new(codes)?, distinct.len());
        Ok(MihDistinct { scan, kernel, form, distinct, tables, lists })
    }

    /// The name of its kind.
    pub(super) fn name(&self) -> &'static str {
        match self.form {
            BucketForm::Fast => "mih-distinct",
            BucketForm::Compact => "mih-distinct-compact",
        }
    }

    /// Number of different codes.
    pub fn distinct(&self) -> usize {
        self.distinct
    }

    /// The hits of one query, unless the work would exceed `budget`.
    pub(super) fn one(&self, code: &[u64], query: &Query<'_>, budget: usize) -> Progressed {
        with_scratch(&SCRATCH, |scratch| self.visit(code, query, budget, scratch))
    }

    fn visit(
        &self,
        code: &[u64],
        query: &Query<'_>,
        budget: usize,
        scratch: &mut Scratch,
    ) -> Progressed {
        let mut top = Unordered::new(query, query.below(self.codes()));
        scratch.seen.clear();
        scratch.reached.clear();
        scratch.reached.extend(self.tables.iter().map(|table| {
            let own = extract(self.kernel, code, &table.mask);
            Reached { radius: 0, own, codes: table.bucket(own).len() }
        }));
        let (mut work, mut reach) = (STEP * self.tables.len(), 0);
        while reach < top.below() {
            let costs = self.tables.iter().zip(&scratch.reached).enumerate();
            let costs =
                costs.map(|(nth, (table, reached))| (reached.cost(table.length), nth));
            let Some((cost, nth)) = costs.min() else { break };
            let (table, reached) = (&self.tables[nth], scratch.reached[nth]);
            if reached.radius > table.length {
                // all of the table has been read
                break;
            }
            if work + cost > budget {
                return Progressed { top, finished: false, work };
            }
            let codes = table.look_up(self.kernel, self.form, reached, scratch);
            work += STEP + PROBE * combinations(table.length, reached.radius) + codes;
            if codes > 0 {
                work += VERIFY * self.compare(code, query, nth, scratch, &mut top);
            }
            let reached = &mut scratch.reached[nth];
            (reached.codes, reached.radius) = (codes, reached.radius + 1);
            reach += 1;
        }
        Progressed { top, finished: true, work }
    }

    /// Offers the items of the codes that a step of a table found, nearest lanes first, as far as the k-th distance
    /// so far allows; returns how many codes were compared.
    fn compare(
        &self,
        code: &[u64],
        query: &Query<'_>,
        nth: usize,
        scratch: &mut Scratch,
        top: &mut Unordered,
    ) -> usize {
        let table = &self.tables[nth];
        // what every code of the step differs in at least
        let least = scratch.reached[nth].radius + table.common_differing(code);
        let Some(below) = top.below().checked_sub(least) else { return 0 };
        let further = self.lists.with(extract(self.kernel, code, &table.further));
        let lane = extract(self.kernel, code, &table.lane);
        let Scratch { ranges, found, sorted, .. } = scratch;
        found.clear();
        self.kernel.lanes_in(lane, table.lanes(self.form), ranges, below, found);
        sort_by_distance(found, sorted);
        let fetch = |part: &[u64]| {
            let positions = part.iter().take(GROUP).map(|&found| unkey(found).1 as usize);
            positions.for_each(|at| self.kernel.fetch_lanes(&table.references, at));
        };
        fetch(sorted);
        let mut at = 0;
        while let Some(&next) = scratch.sorted.get(at)
            && unkey(next).0 + least < top.below()
        {
            let end = (at + GROUP).min(scratch.sorted.len());
            fetch(&scratch.sorted[end..]);
            self.group(code, query, table, (least, further), at..end, scratch, top);
            at = end;
        }
        at
    }

    /// A part of these, which differ in at least `least` bits beside their lanes and in those that references hold
    /// from `further`. References, first items and codes are read for all of them in turn, so
    /// that the memory is not waited for one by one.
    #[expect(clippy::too_many_arguments, reason = "the parts of one search")]
    fn group(
        &self,
        code: &[u64],
        query: &Query<'_>,
        table: &Table,
        (least, further): (u32, u32),
        part: Range<usize>,
        scratch: &mut Scratch,
        top: &mut Unordered,
    ) {
        let Scratch { sorted, references, bounds, firsts, near, seen, .. } = scratch;
        let (alone, others) = (self.lists.alone, self.lists.others());
        references.resize(GROUP, 0);
        bounds.resize(GROUP, 0);
        let mut count = 0;
        for &found in &sorted[part] {
            let (lane, at) = unkey(found);
            let reference = table.references[at as usize];
            // without a branch: whether a code is near cannot be predicted
            references[count] = reference & !others;
            bounds[count] = least + lane + ((reference ^ further) & others).count_ones();
            count += usize::from(bounds[count] < top.below());
        }
        references.truncate(count);
        for &list in references.iter().filter(|&list| list & alone == 0) {
            self.kernel.fetch_lanes(&self.lists.bytes, list as usize * self.lists.width);
        }
        let n = self.codes().len();
        let mut offer = |distance: u32, reference: u32| {
            if distance < top.below() && seen.insert(reference) {
                top.offer_all(query, distance, self.lists.items(reference), n);
            }
        };
        if table.exact {
            for (&distance, &reference) in bounds.iter().zip(references.iter()) {
                offer(distance, reference);
            }
            return;
        }
        firsts.clear();
        firsts.extend(references.iter().map(|&reference| self.lists.first(reference)));
        near.clear();
        let words = self.codes().words();
        self.kernel.threshold_listed(code, words, firsts, 0, u32::MAX, near);
        for &found in near.iter() {
            let (distance, at) = unkey(found);
            offer(distance, references[at as usize]);
        }
    }
}

/// The number of tables and the bits of each.
struct Shape {
    tables: usize,
    length: usize,
}

impl Shape {
    fn of(bits: usize, distinct: usize, form: BucketForm) -> Shape {
        let (longest, most) = match form {
            BucketForm::Fast => (LONGEST, usize::MAX),
            BucketForm::Compact => (SHORTER, COMPACT * bits.div_ceil(64)),
        };
        let length = (distinct.max(2).ilog2() as usize + SPREAD).clamp(8, longest);
        let tables = (bits / length).clamp(1, most);
        Shape { tables, length: length.min(bits) }
    }
}

/// Moves keys with distances of at most [`LONG`] to `sorted`, by distance.
fn sort_by_distance(keys: &mut Vec<u64>, sorted: &mut Vec<u64>) {
    if keys.len() < GROUP {
        std::mem::swap(keys, sorted);
        sorted.sort_unstable();
        return;
    }
    let mut ends = [0_u32; LONG + 2];
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
        let budget = self.codes().len() / SCAN;
        let one = |code: &[u64]| self.one(code, query, budget);
        answers(&self.scan, queries, query, progress, one)
    }

    fn extra_bytes(&self) -> usize {
        let tables: usize = self.tables.iter().map(Table::bytes).sum();
        tables + self.lists.bytes.len()
    }

    fn explain(&self) -> String {
        format!(
            "{}: {} different codes, {} tables of {} bits, {}",
            self.name(),
            self.distinct,
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
    fn shapes_fit_the_codes() {
        for bits in 1..600 {
            for distinct in [0, 1, 1000, 400_000, 100_000_000] {
                for form in [BucketForm::Fast, BucketForm::Compact] {
                    let Shape { tables, length } = Shape::of(bits, distinct, form);
                    assert!(tables >= 1 && (1..=LONGEST).contains(&length), "{bits}");
                    assert!(tables * length <= bits, "{bits} {distinct}");
                }
            }
        }
        let Shape { tables, length } = Shape::of(64, 370_000, BucketForm::Fast);
        assert_eq!((tables, length), (3, 21));
    }
}
