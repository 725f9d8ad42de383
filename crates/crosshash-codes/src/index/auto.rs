//! The fastest of the other indexes for the codes at hand, query by query.
//!
//! All are exact; they differ in time and memory. Three structures are considered, in this order, each
//! only if it fits into the memory limit:
//!
//! 1. hash tables of the different codes (`mih_distinct`) or, where these do not fit, the bit tree
//!    (`tree`), if the codes are compressible as learned codes are: in a tree of a
//!    sample, the codes of a leaf agree in a third of the bits ([`BitTree::suits`]);
//! 2. cluster lists (`cluster_lists.rs`), if the codes are clustered;
//! 3. multi-index hashing (`mih.rs`).
//!
//! The first that answers samples much faster than a scan is kept alone; so nothing is built or
//! held that is not used. Lists that are not that much faster are kept beside the hash tables.
//!
//! Every query is answered by the selected structure or by a scan. Building times both on codes
//! drawn from the database: the cost of a scan (for one query, and per query of a batch), the cost of a unit of
//! hashing work, and the work per query. A query is hashed if that is expected to be cheaper, and
//! never for longer than a scan would take: if the estimated cost of the next radius exceeds the
//! rest of this budget, the query is passed to the scan, which starts with the bound found so
//! far. The measured cost of queries corrects the estimate, so queries that are unlike the
//! database soon take the better path too.
//!
//! If the codes are clustered, and cluster lists (`cluster_lists.rs`) answer the samples faster
//! than both, they are tried first; a query for which they would compare more codes than the
//! other two cost is processed as above.

use std::sync::Mutex;

use super::mih::Progressed;
use super::{
    BitTree, BucketForm, ClusterLists, Form, Hit, Index, LeafForm, Mih, MihDistinct, Query,
    Scan, each,
};
use crate::{Codes, Result};

/// How often a sample is timed.
const ROUNDS: usize = 3;
/// Fewer codes than this are always scanned.
const FEW: usize = 1 << 13;
/// Database codes that serve as sample queries.
const SAMPLES: usize = 32;
/// The `k` that samples are timed with.
const SAMPLE_K: [usize; 3] = [1, 10, 100];
/// A sample is aborted at this multiple of the cost of a scan.
const GIVE_UP: f64 = 4.0;
/// Seconds of a unit of work before any was measured.
const UNIT: f64 = 1e-9;
/// Queries of a large batch that are tried before the method for the rest is selected.
const TRIAL: usize = 16;
/// One in this number of queries for which the scan is expected to be faster is hashed anyway.
const LOOK_AGAIN: usize = 64;

/// Longer codes have farther neighbours, for which tables of different codes are slower than a tree.
const HASHED_BITS: usize = 64;
/// Comparisons of items with centres that building lists may take: some seconds.
const COMPARISONS: usize = 1 << 33;
/// Lists that compare more than one in this number of codes are no better than a scan.
const PART: usize = 16;
/// Lists are skipped while they leave more than this share of queries unanswered.
const VAIN: f64 = 0.3;

/// A structure that answers samples in less than this share of the time of a scan is kept alone.
const CLEARLY: f64 = 0.25;

/// Selects the method by measurement.
pub struct Auto {
    scan: Scan,
    hashed: Option<Hashed>,
    /// Why other structures were not used.
    why: String,
}

/// What answers a query that is not scanned.
enum Engine {
    Distinct(Box<MihDistinct>),
    Tree(Box<BitTree>),
    Mih(Mih),
    /// Lists alone; what they do not answer is scanned.
    None,
}

impl Engine {
    fn one(&self, code: &[u64], query: &Query<'_>, budget: usize) -> Option<Progressed> {
        match self {
            Engine::Distinct(mih) => Some(mih.one(code, query, budget)),
            Engine::Tree(tree) => Some(tree.one(code, query, budget)),
            Engine::Mih(mih) => Some(mih.one(code, query, budget)),
            Engine::None => None,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Engine::Distinct(mih) => mih.name(),
            Engine::Tree(_) => "tree",
            Engine::Mih(_) => "mih",
            Engine::None => "none",
        }
    }

    fn index(&self) -> Option<&dyn Index> {
        match self {
            Engine::Distinct(mih) => Some(mih.as_ref()),
            Engine::Tree(tree) => Some(tree.as_ref()),
            Engine::Mih(mih) => Some(mih),
            Engine::None => None,
        }
    }
}

struct Hashed {
    engine: Engine,
    around: Option<Around>,
    /// Seconds one thread takes to scan for one query, and for each of a large batch.
    scan_one: f64,
    scan_each: f64,
    /// Statistics of past queries.
    learned: Mutex<Learned>,
}

/// Cluster lists, if they are the fastest.
struct Around {
    lists: ClusterLists,
    /// Seconds of one code compared, and of a sample query with `k` = 10.
    unit: f64,
    seconds: f64,
}

struct Learned {
    /// Seconds of one unit of hashing work on one thread, by the logarithm of `k`.
    unit: Vec<f64>,
    /// Work of a query by the logarithm of `k`.
    work: Vec<f64>,
    /// How often the scan was preferred.
    scans: usize,
    /// The share of queries that lists did not answer, and how often they were skipped.
    vain: f64,
    passes: usize,
}

impl Auto {
    /// Builds and times what suits the codes.
    pub fn new(codes: Codes, progress: &(dyn Fn(usize) + Sync)) -> Result<Auto> {
        Auto::within(codes, None, progress)
    }

    /// The same with at most `memory` bytes per item, codes included.
    pub fn within(
        codes: Codes,
        memory: Option<usize>,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Auto> {
        let codes = codes.shared();
        let scan = Scan::new(codes.clone())?;
        if codes.len() < FEW {
            let why = format!("{} codes are few", codes.len());
            return Ok(Auto { scan, hashed: None, why });
        }
        let times = Times::measure(&scan);
        // bytes beyond the codes
        let own = codes.bits().words() * 8;
        let room = memory.map_or(usize::MAX, |bytes| {
            bytes.saturating_sub(own).saturating_mul(codes.len())
        });
        let mut why = String::new();
        let mut turn_down = |text: String| {
            why.push_str(if why.is_empty() { "" } else { "; " });
            why.push_str(&text);
        };
        if !BitTree::suits(&codes)? {
            turn_down("no tree, for the codes agree in too few bits".into());
        } else if let Some(engine) = fitting(&codes, room, progress)? {
            let learned = times.sample(&engine);
            let (one, name) = (learned.seconds(10), engine.name());
            if one < CLEARLY * times.scan_each {
                return Ok(Auto {
                    scan,
                    hashed: Some(times.with(engine, None, learned)),
                    why: format!("{name}, for the codes agree in many bits"),
                });
            }
            turn_down(format!("no {name}, for it takes {:.1} us a query", one * 1e6));
        } else {
            turn_down("no tree, for it does not fit into the memory".into());
        }
        let lists_bytes = (own + 4) * codes.len();
        let lists = (lists_bytes <= room)
            .then(|| ClusterLists::parted(&codes, COMPARISONS))
            .flatten()
            .and_then(|lists| Around::measure(lists, &times.samples))
            .filter(|around| around.seconds < times.scan_each);
        if let Some(around) = &lists
            && around.seconds < CLEARLY * times.scan_each
        {
            let engine = Engine::None;
            let learned = times.sample(&engine);
            return Ok(Auto {
                scan,
                hashed: Some(times.with(engine, lists, learned)),
                why,
            });
        }
        let tables = codes.bits().get().div_ceil(16);
        let held = if lists.is_some() { lists_bytes } else { 0 };
        let form = [Form::Fast, Form::Lean].into_iter().find(|&form| {
            let each = tables * if form == Form::Fast { own + 4 } else { 4 };
            each * codes.len() + tables * (6 << 16) + held <= room
        });
        let Some(form) = form else {
            turn_down("no mih, for it does not fit into the memory".into());
            let hashed = lists.map(|around| {
                let learned = times.sample(&Engine::None);
                times.with(Engine::None, Some(around), learned)
            });
            return Ok(Auto { scan, hashed, why });
        };
        let engine = Engine::Mih(Mih::new(codes, form, progress)?);
        let learned = times.sample(&engine);
        let lists = lists.filter(|around| around.seconds < learned.seconds(10));
        Ok(Auto { scan, hashed: Some(times.with(engine, lists, learned)), why })
    }
}

impl Auto {
    /// The hits of one query, without the lists that a batch needs.
    fn single(&self, hashed: &Hashed, queries: &Codes, query: &Query<'_>) -> Vec<Hit> {
        let (k, code) = (query.depth(), queries.code(0));
        if let Some((clusters, budget)) = hashed.lists(k, 1) {
            let (top, _) = clusters.one(code, query, budget);
            hashed.learn_vain(1, usize::from(top.is_none()));
            if let Some(top) = top {
                return query.hits(top.into_keys());
            }
        }
        let mut below = query.below(self.codes());
        if let Some(budget) = hashed.budget(k, 1)
            && let Some(found) = hashed.engine.one(code, query, budget)
        {
            hashed.learn(k, 1, 1, found.work, usize::from(!found.finished));
            match found.settled(query) {
                Ok(hits) => return hits,
                Err(nearer) => below = nearer,
            }
        }
        let scanned = self.scan.chosen(queries, &[0], &[below], query, &|_| ());
        scanned.into_iter().next().unwrap_or_default()
    }
}

/// The fastest of the structures for learned codes that fits, if one does.
fn fitting(
    codes: &Codes,
    room: usize,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Option<Engine>> {
    // less than this, none of them ever takes
    if room < 4 * codes.len() {
        return Ok(None);
    }
    if codes.bits().get() <= HASHED_BITS {
        for form in [BucketForm::Fast, BucketForm::Compact] {
            let mih = MihDistinct::new(codes.clone(), form, progress)?;
            if mih.extra_bytes() <= room {
                return Ok(Some(Engine::Distinct(Box::new(mih))));
            }
        }
    }
    for form in [LeafForm::Fast, LeafForm::Compact] {
        let tree = BitTree::new(codes.clone(), form, progress)?;
        if tree.extra_bytes() <= room {
            return Ok(Some(Engine::Tree(Box::new(tree))));
        }
    }
    Ok(None)
}

/// The time of a scan, and the samples it was measured with.
struct Times {
    samples: Codes,
    scan_one: f64,
    scan_each: f64,
}

impl Times {
    fn measure(scan: &Scan) -> Times {
        let codes = scan.codes();
        let drawn: Vec<usize> = (0..SAMPLES)
            .map(|i| i * codes.len() / SAMPLES + codes.len() / SAMPLES / 2)
            .collect();
        let samples = codes.select(&drawn);
        let query = Query::nearest(10);
        let seconds = |queries: &Codes| {
            let mut best = f64::INFINITY;
            for _ in 0..ROUNDS {
                let start = now();
                scan.alone(queries, &query);
                best = best.min(now() - start);
            }
            best / queries.len() as f64
        };
        let (scan_one, scan_each) = (seconds(&samples.select(&[0])), seconds(&samples));
        Times { samples, scan_one, scan_each }
    }

    fn sample(&self, engine: &Engine) -> Learned {
        sample(engine, &self.samples, GIVE_UP * self.scan_one.max(self.scan_each))
    }

    fn with(self, engine: Engine, around: Option<Around>, learned: Learned) -> Hashed {
        let Times { scan_one, scan_each, .. } = self;
        Hashed { engine, around, scan_one, scan_each, learned: Mutex::new(learned) }
    }
}

impl Learned {
    /// Seconds that a query is expected to take.
    fn seconds(&self, k: usize) -> f64 {
        self.work[power(k)] * self.unit[power(k)]
    }
}

impl Hashed {
    /// The lists to try first and how many codes they may compare: not more than the rest costs.
    fn lists(&self, k: usize, queries: usize) -> Option<(&ClusterLists, usize)> {
        let around = self.around.as_ref()?;
        let mut learned = self.learned.lock().ok()?;
        if learned.vain > VAIN {
            learned.passes += 1;
            if !learned.passes.is_multiple_of(LOOK_AGAIN) {
                return None;
            }
        }
        let rest = learned.seconds(k).min(self.scan_seconds(queries));
        Some((&around.lists, whole(rest / around.unit)))
    }

    /// Updates the share of queries that lists do not answer.
    fn learn_vain(&self, group: usize, vain: usize) {
        let Ok(mut learned) = self.learned.lock() else { return };
        let weight = weight(group);
        learned.vain += weight * (vain as f64 / group as f64 - learned.vain);
    }

    /// Seconds of all threads that a scan takes per query of a batch. One query is scanned by
    /// all threads but hashed by one, so a scan finishes sooner than its CPU time suggests.
    fn scan_seconds(&self, queries: usize) -> f64 {
        if queries <= 1 {
            return self.scan_one / rayon::current_num_threads() as f64;
        }
        self.scan_each + (self.scan_one - self.scan_each).max(0.0) / queries as f64
    }

    /// The budget of a hashed query in units of work, if hashing is expected to be faster.
    fn budget(&self, k: usize, queries: usize) -> Option<usize> {
        if matches!(self.engine, Engine::None) {
            return None;
        }
        let Ok(mut learned) = self.learned.lock() else { return None };
        let scan = self.scan_units(&learned, k, queries);
        if learned.work[power(k)] >= scan {
            learned.scans += 1;
            if !learned.scans.is_multiple_of(LOOK_AGAIN) {
                return None;
            }
        }
        Some(whole(scan))
    }

    /// Cost of a scan per query of a batch, in units of hashing work.
    fn scan_units(&self, learned: &Learned, k: usize, queries: usize) -> f64 {
        self.scan_seconds(queries) / learned.unit[power(k)]
    }

    /// Updates the estimate by the work of a group of queries, those that went to the scan
    /// counted with its cost.
    fn learn(&self, k: usize, batch: usize, group: usize, work: usize, scanned: usize) {
        let Ok(mut learned) = self.learned.lock() else { return };
        let scan = self.scan_units(&learned, k, batch);
        let mean = (work as f64 + scanned as f64 * scan) / group as f64;
        let expected = &mut learned.work[power(k)];
        *expected += weight(group) * (mean - *expected);
    }
}

impl Around {
    /// Times lists on samples; nothing if they do not answer all of them.
    fn measure(lists: ClusterLists, samples: &Codes) -> Option<Around> {
        let (mut work, budget) = (0, lists.codes().len() / PART);
        let mut best = vec![f64::INFINITY; samples.len()];
        for _ in 0..ROUNDS {
            work = 0;
            for (best, code) in best.iter_mut().zip(samples.iter()) {
                let start = now();
                let (top, compared) = lists.one(code, &Query::nearest(11), budget);
                *best = best.min(now() - start);
                top?;
                work += compared;
            }
        }
        let seconds: f64 = best.iter().sum();
        let unit = seconds / work.max(1) as f64;
        Some(Around { lists, unit, seconds: seconds / samples.len() as f64 })
    }
}

/// Measures the cost of a unit of work and the work for some `k`; stops where one query
/// takes longer than `limit` seconds. Of several rounds the best counts: what disturbs a
/// measurement makes it longer, never shorter.
fn sample(engine: &Engine, samples: &Codes, limit: f64) -> Learned {
    let mut prices = [UNIT; SAMPLE_K.len()];
    let mut means = [0.0; SAMPLE_K.len()];
    for (nth, k) in SAMPLE_K.into_iter().enumerate() {
        let budget = whole(limit / prices[nth.saturating_sub(1)]);
        let (mut work, mut punished) = (0_usize, 0_usize);
        let mut best = vec![f64::INFINITY; samples.len()];
        // round after round over all samples, so that none finds its buckets in the caches
        for round in 0..ROUNDS {
            for (best, code) in best.iter_mut().zip(samples.iter()) {
                let start = now();
                // a sample finds itself, so one more hit is requested
                let found = engine.one(code, &Query::nearest(k + 1), budget);
                *best = best.min(now() - start);
                let Some(found) = found else { continue };
                if round == 0 {
                    work += found.work;
                    punished += if found.finished { 0 } else { budget };
                }
            }
        }
        let seconds: f64 = best.iter().sum();
        if work == 0 {
            means[nth] = f64::INFINITY;
            continue;
        }
        prices[nth] = seconds / work as f64;
        means[nth] = (work + punished) as f64 / samples.len() as f64;
    }
    // linear in the logarithm of k, constant outside the measured range
    let line = |values: [f64; SAMPLE_K.len()]| {
        let at = |power: usize| {
            let low = (power / 3).min(1);
            let part = ((power - 3 * low) as f64 / 3.0).min(1.0);
            values[low] + part * (values[low + 1] - values[low])
        };
        (0..=usize::BITS as usize).map(at).collect()
    };
    Learned { unit: line(prices), work: line(means), scans: 0, vain: 0.0, passes: 0 }
}

/// Seconds this thread has worked, so that a busy machine does not falsify the comparison; by the
/// clock where threads have none of their own.
fn now() -> f64 {
    #[cfg(unix)]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
    }
    #[cfg(not(unix))]
    {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed().as_secs_f64()
    }
}

/// Weight of the mean of a group of queries against earlier ones.
fn weight(group: usize) -> f64 {
    1.0 - 0.9_f64.powi(i32::try_from(group).unwrap_or(i32::MAX))
}

/// Units of work as a whole number; more than fit are all there are.
fn whole(units: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "saturates, which is meant")]
    #[expect(clippy::cast_sign_loss, reason = "work is not negative")]
    let units = units as usize;
    units
}

/// The power of two at or below `k`.
fn power(k: usize) -> usize {
    k.max(1).ilog2() as usize
}

impl Index for Auto {
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
        let Some(hashed) = &self.hashed else {
            return self.scan.search(queries, query, progress);
        };
        if query.allows_few() {
            return self.scan.search(queries, query, progress);
        }
        if queries.len() == 1 {
            let hits = self.single(hashed, queries, query);
            progress(1);
            return Ok(vec![hits]);
        }
        let k = query.depth();
        let mut answers: Vec<Vec<Hit>> = vec![Vec::new(); queries.len()];
        // (query, bound of its distances) of those that go to the scan
        let mut rest: Vec<(u32, u32)> = Vec::new();
        let all: Vec<u32> = (0..u32::try_from(queries.len()).unwrap_or(u32::MAX)).collect();
        let (trial, others) = all.split_at(TRIAL.min(all.len()));
        let mut lists = hashed.lists(k, queries.len());
        for group in [trial, others] {
            let mut left = group.to_vec();
            if let Some((clusters, budget)) = lists {
                let found = each(group.len(), |nth| {
                    let code = queries.code(group[nth] as usize);
                    let (top, _) = clusters.one(code, query, budget);
                    top.map(|top| query.hits(top.into_keys()))
                });
                left.clear();
                for (&q, hits) in group.iter().zip(found) {
                    match hits {
                        Some(hits) => answers[q as usize] = hits,
                        None => left.push(q),
                    }
                }
                if !group.is_empty() {
                    hashed.learn_vain(group.len(), left.len());
                }
                // if most of the trial was not answered, the others skip the lists
                lists = lists.filter(|_| left.len() * 2 <= group.len());
            }
            let group = &left[..];
            if group.is_empty() {
                continue;
            }
            let Some(budget) = hashed.budget(k, queries.len()) else {
                let below = query.below(self.codes());
                rest.extend(group.iter().map(|&q| (q, below)));
                continue;
            };
            let found = each(group.len(), |nth| {
                let code = queries.code(group[nth] as usize);
                let found = hashed.engine.one(code, query, budget);
                found.map_or((0, Err(query.below(self.codes()))), |found| {
                    (found.work, found.settled(query))
                })
            });
            let (mut work, before) = (0, rest.len());
            for (&q, (cost, hits)) in group.iter().zip(found) {
                work += cost;
                match hits {
                    Ok(hits) => answers[q as usize] = hits,
                    Err(below) => rest.push((q, below)),
                }
            }
            let scanned = rest.len() - before;
            hashed.learn(k, queries.len(), group.len(), work, scanned);
            progress(group.last().map_or(0, |&q| q as usize + 1) - rest.len());
        }
        let (chosen, below): (Vec<u32>, Vec<u32>) = rest.into_iter().unzip();
        let before = queries.len() - chosen.len();
        let scanned = self.scan.chosen(queries, &chosen, &below, query, &|done| {
            progress(before + done);
        });
        for (q, hits) in chosen.into_iter().zip(scanned) {
            answers[q as usize] = hits;
        }
        Ok(answers)
    }

    fn extra_bytes(&self) -> usize {
        self.hashed.as_ref().map_or(0, |hashed| {
            let lists =
                hashed.around.as_ref().map_or(0, |around| around.lists.extra_bytes());
            hashed.engine.index().map_or(0, |index| index.extra_bytes()) + lists
        })
    }

    fn explain(&self) -> String {
        let why =
            if self.why.is_empty() { String::new() } else { format!(" ({})", self.why) };
        let Some(hashed) = &self.hashed else {
            return format!("auto: scan{why}");
        };
        let (scan_one, scan_each) = (hashed.scan_seconds(1), hashed.scan_each);
        let lists = hashed.around.as_ref().map_or(String::new(), |around| {
            let (one, what) = (around.seconds * 1e6, around.lists.explain());
            format!("{what}, {one:.1} us a query; where they do not do, ")
        });
        let Some(index) = hashed.engine.index() else {
            let each = scan_each * 1e6;
            return format!("auto: {lists}scan, {each:.1} us a query in batches{why}");
        };
        let name = hashed.engine.name();
        let one = hashed.learned.lock().map_or(0.0, |learned| learned.seconds(10));
        let pick = |scan: f64| if one < scan { name } else { "scan" };
        format!(
            "auto: {lists}{} for one query ({name} {:.1} us, scan {:.1} us), {} in batches ({name} \
             {:.1} us, scan {:.1} us a query), by {SAMPLES} sample queries with k = 10; {}{why}",
            pick(scan_one),
            one * 1e6,
            scan_one * 1e6,
            pick(scan_each),
            one * 1e6,
            scan_each * 1e6,
            index.explain()
        )
    }
}
