//! Lists around cluster centres, exact by the triangle inequality.
//!
//! Learned codes are clustered around centres. Every item is in the list of its nearest centre,
//! ordered by its distance `e` from it. If a query is `D` away from a centre, an item of its
//! list is at least `|D - e|` away from the query; so with a k-th distance of `r` so far only
//! the shells `D - r <= e <= D + r` of a list can contain a new hit. For well separated
//! clusters that is one contiguous list; for random codes it is everything, which is detected
//! when the index is built ([`ClusterLists::parted`]). The inequality is that of Burkhard and Keller, *Some Approaches
//! to Best-Match File Searching*, CACM 1973; the lists are those of an inverted file, but
//! no list is skipped by a heuristic.

use std::ops::Range;

use rayon::prelude::*;

use super::distinct::number;
use super::huge_vec::HugeVec;
use super::top::Unordered;
use super::{Hit, Index, Query, check_count};
use crate::kernel::Kernel;
use crate::kernel::threshold::{Planes, unkey};
use crate::{Codes, Result};

/// Items per centre, at least;
const ITEMS: usize = 256;
/// the maximum number of centres;
const CENTRES: usize = 1 << 14;
/// items per centre among which they are searched.
const SAMPLES: usize = 16;
/// Minimum number of samples around a centre.
const FEWEST: usize = 4;
/// Items assigned by one task.
const TASK: usize = 1 << 12;
/// Items of the nearest list that give the first bound.
const PRIME: usize = 256;
/// Centres that are checked together.
const GROUP: usize = 32;

/// Lists of items around centres.
pub struct ClusterLists {
    codes: Codes,
    kernel: Kernel,
    /// The centres, row after row.
    centres: Vec<u64>,
    /// The distance of each list's farthest item from its centre.
    radii: Vec<u16>,
    /// Where the items at distance `e` from centre `l` begin: `begins[l * (bits + 1) + e]`; one
    /// more for the end.
    begins: Vec<u32>,
    /// Items by list, distance from the centre and number.
    items: HugeVec<u32>,
    /// Their codes as planes.
    planes: HugeVec<u64>,
}

impl ClusterLists {
    /// Finds centres among samples and builds the lists.
    pub fn new(codes: Codes) -> Result<ClusterLists> {
        check_count(&codes)?;
        let centres = centres(&codes, CENTRES);
        Ok(ClusterLists::around(codes, centres))
    }

    /// The same if the codes are clustered, with few enough centres for the build to take
    /// less than `comparisons`.
    pub(super) fn parted(codes: &Codes, comparisons: usize) -> Option<ClusterLists> {
        let centres = centres(codes, comparisons / codes.len().max(1));
        let part = centres.len() > codes.bits().words();
        part.then(|| ClusterLists::around(codes.clone(), centres))
    }

    fn around(codes: Codes, centres: Vec<u64>) -> ClusterLists {
        let (width, n) = (codes.bits().words(), codes.len());
        let shells = codes.bits().get() + 1;
        let kernel = Kernel::best();
        let n_centres = centres.len() / width;
        // list and distance of every item in one number, which is where it is counted
        let mut places = vec![0_u32; n];
        places.par_chunks_mut(TASK).enumerate().for_each(|(task, places)| {
            let mut distances = vec![0; n_centres];
            for (nth, place) in places.iter_mut().enumerate() {
                let code = codes.code(task * TASK + nth);
                let (list, distance) = nearest(kernel, code, &centres, &mut distances);
                *place = number(list * shells + usize::from(distance));
            }
        });
        let mut begins = vec![0_u32; n_centres * shells + 1];
        places.iter().for_each(|&place| begins[place as usize + 1] += 1);
        let held = |list: usize, e: usize| begins[list * shells + e + 1] > 0;
        let farthest = |list| (0..shells).rev().find(|&e| held(list, e)).unwrap_or(0);
        let radius = |list| u16::try_from(farthest(list)).unwrap_or(u16::MAX);
        let radii = (0..n_centres).map(radius).collect();
        for place in 1..begins.len() {
            begins[place] += begins[place - 1];
        }
        let mut next = begins.clone();
        let (mut items, mut planes) = (HugeVec::zeroed(n), HugeVec::zeroed(n * width));
        {
            let (items, planes) = (&mut items[..], &mut planes[..]);
            for ((item, code), &place) in (0_u32..).zip(codes.iter()).zip(&places) {
                let at = next[place as usize] as usize;
                next[place as usize] += 1;
                items[at] = item;
                for (w, &word) in code.iter().enumerate() {
                    planes[w * n + at] = word;
                }
            }
        }
        ClusterLists {
            codes: codes.shared(),
            kernel,
            centres,
            radii,
            begins,
            items,
            planes,
        }
    }

    /// The hits of one query and the codes compared, unless they would be more than `budget`.
    pub(super) fn one(
        &self,
        code: &[u64],
        query: &Query<'_>,
        budget: usize,
    ) -> (Option<Unordered>, usize) {
        let mut top = Unordered::new(query, query.below(&self.codes));
        if self.codes.is_empty() || top.below() == 0 {
            return (Some(top), 0);
        }
        let mut distances = vec![0; self.radii.len()];
        let (own, _) = nearest(self.kernel, code, &self.centres, &mut distances);
        let mut found = (Vec::new(), Vec::new());
        // the nearest list, a part of it first, so that most of it is read with a bound
        let inside = self.shells(own, distances[own], top.below());
        let mut work = self.radii.len() + inside.len();
        if work > budget {
            return (None, self.radii.len());
        }
        let cut = inside.end.min(inside.start.saturating_add(number(PRIME)));
        for part in [inside.start..cut, cut..inside.end] {
            self.visit(code, query, std::slice::from_ref(&part), &mut top, &mut found);
        }
        let below = u16::try_from(top.below()).unwrap_or(u16::MAX);
        let mut ranges = Vec::new();
        let groups = distances.chunks(GROUP).zip(self.radii.chunks(GROUP)).enumerate();
        for (group, (distances, radii)) in groups {
            let near = |(d, r): (&u16, &u16)| d.saturating_sub(*r) < below;
            if !distances.iter().zip(radii).fold(false, |any, both| any | near(both)) {
                continue;
            }
            let lists = distances.iter().zip(radii).enumerate();
            for (nth, (&distance, _)) in lists.filter(|(_, both)| near(*both)) {
                let list = group * GROUP + nth;
                let range = self.shells(list, distance, top.below());
                if list != own && !range.is_empty() {
                    work += range.len();
                    ranges.push(range);
                }
            }
            if work > budget {
                return (None, work);
            }
        }
        self.visit(code, query, &ranges, &mut top, &mut found);
        (Some(top), work)
    }

    /// Where items of a list lie that can be nearer than `below` to a query `distance` away from
    /// the centre.
    fn shells(&self, list: usize, distance: u16, below: u32) -> Range<u32> {
        let bits = self.codes.bits().get();
        let (distance, below) = (usize::from(distance), below as usize);
        let low = (distance + 1).saturating_sub(below);
        let high = (distance + below - 1).min(bits);
        let shells = list * (bits + 1);
        self.begins[shells + low]..self.begins[shells + high + 1]
    }

    fn visit(
        &self,
        code: &[u64],
        query: &Query<'_>,
        ranges: &[Range<u32>],
        top: &mut Unordered,
        (found, histogram): &mut (Vec<u64>, Vec<u32>),
    ) {
        found.clear();
        let planes = Planes { words: &self.planes, stride: self.items.len() };
        self.kernel.threshold(code, planes, ranges, top.below(), found);
        if query.allowed.is_none() && found.len() > query.depth() {
            top.expect(found, histogram);
        }
        for &key in found.iter() {
            let (distance, at) = unkey(key);
            if distance < top.below() {
                let item = self.items[at as usize];
                if query.allows(item) {
                    top.offer(distance, item);
                }
            }
        }
    }
}

/// The nearest of the centres, the first of equals, and its distance.
fn nearest(
    kernel: Kernel,
    code: &[u64],
    centres: &[u64],
    distances: &mut [u16],
) -> (usize, u16) {
    kernel.distances(code, centres, distances);
    let least = distances.iter().copied().fold(u16::MAX, u16::min);
    (distances.iter().position(|&distance| distance == least).unwrap_or(0), least)
}

/// Centres of the codes: samples lead groups of those within a quarter of the bits; the
/// majority of a group's bits is its centre; of centres within an eighth of the bits the one
/// with the larger group stays. One, if there are more groups than centres may be.
fn centres(codes: &Codes, most: usize) -> Vec<u64> {
    let (bits, width, n) = (codes.bits().get(), codes.bits().words(), codes.len());
    let kernel = Kernel::best();
    let most = (n / ITEMS).min(CENTRES).min(most).max(1);
    let n_samples = n.min(SAMPLES * most);
    let mut leaders: Vec<u64> = Vec::new();
    let mut groups: Vec<Group> = Vec::new();
    let mut distances = vec![0; most];
    for nth in 0..n_samples {
        let code = codes.code(nth * n / n_samples);
        let room = &mut distances[..groups.len()];
        let (mut group, distance) = nearest(kernel, code, &leaders, room);
        if groups.is_empty() || usize::from(distance) > bits / 4 {
            if groups.len() == most {
                groups.clear();
                break;
            }
            group = groups.len();
            leaders.extend_from_slice(code);
            groups.push(Group { size: 0, ones: vec![0; bits] });
        }
        groups[group].take(code);
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.size));
    let mut centres = Vec::new();
    for group in groups {
        let code = group.majority(width);
        let room = &mut distances[..centres.len() / width];
        let (_, distance) = nearest(kernel, &code, &centres, room);
        let apart = usize::from(distance) > bits / 8 && group.size >= FEWEST;
        if centres.is_empty() || apart {
            centres.extend(code);
        }
    }
    if centres.is_empty() {
        centres.resize(width, 0);
    }
    centres
}

/// Samples around a leader.
struct Group {
    size: usize,
    /// How many of them have each bit.
    ones: Vec<u32>,
}

impl Group {
    fn take(&mut self, code: &[u64]) {
        self.size += 1;
        for (bit, ones) in self.ones.iter_mut().enumerate() {
            *ones += u32::from(code[bit / 64] >> (bit % 64) & 1 == 1);
        }
    }

    fn majority(&self, width: usize) -> Vec<u64> {
        let mut code = vec![0; width];
        for (bit, &ones) in self.ones.iter().enumerate() {
            code[bit / 64] |= u64::from(2 * ones as usize > self.size) << (bit % 64);
        }
        code
    }
}

impl Index for ClusterLists {
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
        let answer = |q: usize| {
            let (top, _) = self.one(queries.code(q), query, usize::MAX);
            let keys = top.map(Unordered::into_keys).unwrap_or_default();
            query.hits(keys)
        };
        let answers = (0..queries.len()).into_par_iter().map(answer).collect();
        progress(queries.len());
        Ok(answers)
    }

    fn extra_bytes(&self) -> usize {
        8 * (self.centres.len() + self.planes.len())
            + 4 * (self.begins.len() + self.items.len())
            + 2 * self.radii.len()
    }

    fn explain(&self) -> String {
        format!("lists: {} lists, {}", self.radii.len(), self.kernel.name())
    }
}
