//! The faster of scan and multi-index hashing, query by query.
//!
//! Both are exact, so only time is at stake. Building times both on codes drawn from the
//! database and so learns what a scan costs (for one query, and for each of a batch), what a unit
//! of hashing work costs, and how much work queries take. A query is hashed where that is
//! expected to be cheaper, and never for longer than a scan would take: before a radius whose
//! modelled cost passes what is left, the rest goes to the scan, which starts with the bound
//! found so far. What queries really cost corrects the expectation, so queries that are unlike
//! the database are soon sent to the better side too.

use std::sync::Mutex;
use std::time::Instant;

use rayon::prelude::*;

use super::top::first;
use super::{Form, Hit, Index, Mih, Query, Scan};
use crate::{Codes, Result};

/// Fewer codes than this are scanned without a thought.
const FEW: usize = 1 << 13;
/// Database codes that serve as sample queries.
const SAMPLES: usize = 32;
/// The `k` that samples are timed with.
const SAMPLE_K: [usize; 3] = [1, 10, 100];
/// A sample is given up at so many times the cost of a scan.
const GIVE_UP: f64 = 4.0;
/// Queries of a large batch that are tried before the rest is decided on.
const TRIAL: usize = 16;
/// One decision in so many that goes to the scan is tried by hashing again.
const LOOK_AGAIN: usize = 64;

/// Picks by measurement.
pub struct Auto {
    scan: Scan,
    hashed: Option<Hashed>,
}

struct Hashed {
    mih: Mih,
    /// Seconds a scan takes for one query, and for each of a large batch.
    scan_one: f64,
    scan_each: f64,
    /// Seconds of one unit of hashing work.
    unit: f64,
    /// Expected work by the logarithm of `k`, and how often the scan was preferred.
    expected: Mutex<Vec<Expected>>,
}

#[derive(Clone, Copy)]
struct Expected {
    work: f64,
    scans: usize,
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
        let hashed = Hashed::measure(&scan, mih)?;
        Ok(Auto { scan, hashed: Some(hashed) })
    }
}

impl Hashed {
    fn measure(scan: &Scan, mih: Mih) -> Result<Hashed> {
        let codes = scan.codes();
        let drawn: Vec<usize> = (0..SAMPLES)
            .map(|i| i * codes.len() / SAMPLES + codes.len() / SAMPLES / 2)
            .collect();
        let samples = codes.select(&drawn);
        let query = Query::nearest(10);
        let seconds = |run: &dyn Fn() -> Result<()>| -> Result<f64> {
            let mut best = f64::INFINITY;
            for _ in 0..3 {
                let start = Instant::now();
                run()?;
                best = best.min(start.elapsed().as_secs_f64());
            }
            Ok(best)
        };
        let one = samples.select(&[0]);
        let scan_one = seconds(&|| scan.search(&one, &query, &|_| ()).map(|_| ()))?;
        let scan_all = seconds(&|| scan.search(&samples, &query, &|_| ()).map(|_| ()))?;
        let mut hashed = Hashed {
            mih,
            scan_one,
            scan_each: scan_all / SAMPLES as f64,
            unit: 1e-9,
            expected: Mutex::new(Vec::new()),
        };
        hashed.sample(&samples);
        Ok(hashed)
    }

    /// Learns the price of a unit of work, and the work for some `k`.
    fn sample(&mut self, samples: &Codes) {
        let mut means = Vec::new();
        for k in SAMPLE_K {
            let (mut work, mut seconds) = (0, 0.0);
            for code in samples.iter() {
                // a code that is its own neighbour is no example: one more is asked for
                let query = Query::nearest(k + 1);
                let start = Instant::now();
                let budget = self.units(GIVE_UP * self.scan_one.max(self.scan_each));
                let found = self.mih.one(code, &query, budget);
                seconds += start.elapsed().as_secs_f64();
                work += if found.finished { found.work } else { 2 * budget };
            }
            self.unit = seconds / (work.max(1) as f64);
            means.push(work as f64 / samples.len() as f64);
        }
        // work by log2 k, in straight lines between what was measured and flat beyond
        let at = |power: usize| {
            let place = (power as f64 / 3.33).clamp(0.0, 2.0);
            let (low, part) = (place.floor(), place.fract());
            let index = if low < 1.0 { 0 } else { 1 };
            let part = if low < 2.0 { part } else { 1.0 };
            means[index] + part * (means[index + 1] - means[index])
        };
        let learned = (0..=usize::BITS as usize).map(at);
        let learned = learned.map(|work| Expected { work, scans: 0 }).collect();
        self.expected = Mutex::new(learned);
    }

    fn units(&self, seconds: f64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "saturates, which is meant")]
        #[expect(clippy::cast_sign_loss, reason = "seconds and prices are positive")]
        let units = (seconds / self.unit) as usize;
        units
    }

    /// What a scan costs per query of a batch, in units of hashing work.
    fn scan_units(&self, queries: usize) -> usize {
        let shared = (self.scan_one - self.scan_each).max(0.0) / queries.max(1) as f64;
        self.units(self.scan_each + shared)
    }

    /// Whether hashing is expected to be cheaper than `scan` units.
    fn prefers_hashing(&self, k: usize, scan: usize) -> bool {
        let Ok(mut expected) = self.expected.lock() else { return true };
        let expected = &mut expected[power(k)];
        if expected.work < scan as f64 {
            return true;
        }
        expected.scans += 1;
        expected.scans.is_multiple_of(LOOK_AGAIN)
    }

    /// Corrects the expectation by the mean work of some queries.
    fn learn(&self, k: usize, queries: usize, work: f64) {
        let Ok(mut expected) = self.expected.lock() else { return };
        let expected = &mut expected[power(k)];
        let weight = 1.0 - 0.9_f64.powi(i32::try_from(queries).unwrap_or(i32::MAX));
        expected.work += weight * (work - expected.work);
    }
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
        let scan = hashed.scan_units(queries.len());
        let mut answers: Vec<Vec<Hit>> = vec![Vec::new(); queries.len()];
        // (query, bound of its distances) of those that go to the scan
        let mut rest: Vec<(u32, u32)> = Vec::new();
        let all: Vec<u32> = (0..u32::try_from(queries.len()).unwrap_or(u32::MAX)).collect();
        let (trial, others) = all.split_at(TRIAL.min(all.len()));
        for group in [trial, others].into_iter().filter(|group| !group.is_empty()) {
            if !hashed.prefers_hashing(k, scan) {
                let below = query.below(self.codes());
                rest.extend(group.iter().map(|&q| (q, below)));
                continue;
            }
            let found: Vec<_> = group
                .par_iter()
                .map(|&q| (q, hashed.mih.one(queries.code(q as usize), query, scan)))
                .collect();
            let work: usize =
                found.iter().map(|(_, f)| f.work + if f.finished { 0 } else { scan }).sum();
            hashed.learn(k, group.len(), work as f64 / group.len() as f64);
            for (q, found) in found {
                if found.finished {
                    answers[q as usize] =
                        query.page(first(found.top.into_keys(), query.depth()));
                } else {
                    rest.push((q, found.top.below()));
                }
            }
            progress(queries.len() - others.len().min(queries.len()) - rest.len());
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
        self.hashed.as_ref().map_or(0, |hashed| hashed.mih.extra_bytes())
    }

    fn explain(&self) -> String {
        let Some(hashed) = &self.hashed else {
            return format!("auto: scan, for {} codes are few", self.codes().len());
        };
        let work = hashed.expected.lock().map_or(0.0, |all| all[power(10)].work);
        let (mih, one, each) = (work * hashed.unit, hashed.scan_one, hashed.scan_each);
        let pick = |scan: f64| if mih < scan { "mih" } else { "scan" };
        format!(
            "auto: {} for one query (mih {:.1} us, scan {:.1} us), {} in batches (mih {:.1} us, \
             scan {:.1} us a query), by {SAMPLES} sample queries with k = 10; {}",
            pick(one),
            mih * 1e6,
            one * 1e6,
            pick(each),
            mih * 1e6,
            each * 1e6,
            hashed.mih.explain()
        )
    }
}
