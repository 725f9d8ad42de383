//! The faster of scan and multi-index hashing, query by query.
//!
//! Both are exact; they differ in time only. Building times both on codes drawn from the
//! database: the cost of a scan (for one query, and per query of a batch), the cost of a unit of
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

use rayon::prelude::*;

use super::top::first;
use super::{ClusterLists, Form, Hit, Index, Mih, Query, Scan};
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

/// Comparisons of items with centres that building lists may take: some seconds.
const COMPARISONS: usize = 1 << 33;
/// Lists that compare more than one in this number of codes are no better than a scan.
const PART: usize = 16;
/// Lists are skipped while they leave more than this share of queries unanswered.
const VAIN: f64 = 0.3;

/// Selects the method by measurement.
pub struct Auto {
    scan: Scan,
    hashed: Option<Hashed>,
}

struct Hashed {
    mih: Mih,
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
    /// Builds both sides and times them.
    pub fn new(codes: Codes, progress: &(dyn Fn(usize) + Sync)) -> Result<Auto> {
        let codes = codes.shared();
        let scan = Scan::new(codes.clone())?;
        if codes.len() < FEW {
            return Ok(Auto { scan, hashed: None });
        }
        let mih = Mih::new(codes, Form::Fast, progress)?;
        let hashed = Hashed::measure(&scan, mih);
        Ok(Auto { scan, hashed: Some(hashed) })
    }
}

impl Hashed {
    fn measure(scan: &Scan, mih: Mih) -> Hashed {
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
        let learned = sample(&mih, &samples, GIVE_UP * scan_one.max(scan_each));
        let mih_one = learned.work[power(10)] * learned.unit[power(10)];
        let around = ClusterLists::parted(codes, COMPARISONS)
            .and_then(|lists| Around::measure(lists, &samples))
            .filter(|around| around.seconds < mih_one.min(scan_each));
        Hashed { mih, around, scan_one, scan_each, learned: Mutex::new(learned) }
    }

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
        let mih = learned.work[power(k)] * learned.unit[power(k)];
        let rest = mih.min(self.scan_seconds(queries));
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
fn sample(mih: &Mih, samples: &Codes, limit: f64) -> Learned {
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
                let found = mih.one(code, &Query::nearest(k + 1), budget);
                *best = best.min(now() - start);
                if round == 0 {
                    work += found.work;
                    punished += if found.finished { 0 } else { budget };
                }
            }
        }
        let seconds: f64 = best.iter().sum();
        prices[nth] = seconds / work.max(1) as f64;
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
                let one = |&q: &u32| {
                    let (top, _) = clusters.one(queries.code(q as usize), query, budget);
                    top.map(|top| query.page(first(top.into_keys(), query.depth())))
                };
                let found: Vec<_> = group.par_iter().map(one).collect();
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
            let one = |&q: &u32| {
                let found = hashed.mih.one(queries.code(q as usize), query, budget);
                let below = found.top.below();
                let hits = found
                    .finished
                    .then(|| query.page(first(found.top.into_keys(), query.depth())));
                (q, found.work, hits.ok_or(below))
            };
            let found: Vec<_> = group.par_iter().map(one).collect();
            let (mut work, before) = (0, rest.len());
            for (q, cost, hits) in found {
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
            hashed.mih.extra_bytes() + lists
        })
    }

    fn explain(&self) -> String {
        let Some(hashed) = &self.hashed else {
            return format!("auto: scan, for {} codes are few", self.codes().len());
        };
        let one = hashed.learned.lock().map(|l| l.work[power(10)] * l.unit[power(10)]);
        let mih = one.unwrap_or(0.0);
        let (scan_one, scan_each) = (hashed.scan_seconds(1), hashed.scan_each);
        let pick = |mih: f64, scan: f64| if mih < scan { "mih" } else { "scan" };
        let lists = hashed.around.as_ref().map_or(String::new(), |around| {
            let (one, what) = (around.seconds * 1e6, around.lists.explain());
            format!("{what}, {one:.1} us a query; where they do not do, ")
        });
        format!(
            "auto: {lists}{} for one query (mih {:.1} us, scan {:.1} us), {} in batches (mih {:.1} us, \
             scan {:.1} us a query), by {SAMPLES} sample queries with k = 10; {}",
            pick(mih, scan_one),
            mih * 1e6,
            scan_one * 1e6,
            pick(mih, scan_each),
            mih * 1e6,
            scan_each * 1e6,
            hashed.mih.explain()
        )
    }
}
