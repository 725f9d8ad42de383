//! Timing of the indexes: CPU time by the process clock, best of several rounds.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use crosshash_codes::Codes;
use crosshash_codes::index::{Hit, Index, Query, build};
use rayon::prelude::*;

use super::Row;

/// Minimum seconds and repetitions per setting.
const SECONDS: f64 = 1.0;
const ROUNDS: usize = 3;
/// Passes over memory, of which the best counts, and concurrent streams per thread.
const PASSES: usize = 8;
const STREAMS: usize = 8;
/// Single queries per round, one after the other.
const SINGLES: usize = 100;

/// The settings to measure.
pub(super) struct Grid<'a> {
    pub(super) threads: &'a [usize],
    pub(super) batch: &'a [usize],
    pub(super) k: &'a [usize],
}

/// Rows of our indexes, whose results are checked to be equal; and for every `k` the distance of the
/// k-th hit of every query, to compute the recall of a peer.
pub(super) fn ours(
    indexes: &[String],
    database: &Codes,
    queries: &Codes,
    grid: &Grid<'_>,
) -> Result<(Vec<Row>, Vec<Vec<u32>>)> {
    let mut rows = Vec::new();
    let mut truth: Vec<Vec<Vec<Hit>>> = Vec::new();
    for name in indexes {
        for &threads in grid.threads {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .context("starting the threads")?;
            pool.install(|| -> Result<()> {
                let start = Instant::now();
                let index = build(name, database.clone(), &|_| ())?;
                let build_seconds = start.elapsed().as_secs_f64();
                for (nth, &k) in grid.k.iter().enumerate() {
                    let hits = index.search(queries, &Query::nearest(k), &|_| ())?;
                    match truth.get(nth) {
                        None => truth.push(hits),
                        Some(truth) => ensure!(truth == &hits, "{name} differs at k = {k}"),
                    }
                    for &batch in grid.batch {
                        let (wall, cpu) = time(index.as_ref(), queries, batch, k)?;
                        let bytes = index.extra_bytes() + database.words().len() * 8;
                        rows.push(Row {
                            index: name.clone(),
                            threads,
                            batch,
                            k,
                            queries_per_second: 1.0 / wall,
                            cpu_us: cpu * 1e6,
                            recall: 1.0,
                            build_seconds,
                            bytes_per_item: bytes as f64 / database.len() as f64,
                            note: String::new(),
                        });
                    }
                }
                if let Some(row) = rows.last_mut().filter(|_| name == "auto") {
                    row.note = index.explain();
                }
                Ok(())
            })?;
        }
    }
    let farthest = |hits: &Vec<Hit>| hits.last().map_or(0, |hit| hit.distance);
    Ok((rows, truth.iter().map(|all| all.iter().map(farthest).collect()).collect()))
}

/// Wall and CPU seconds per query.
fn time(index: &dyn Index, queries: &Codes, batch: usize, k: usize) -> Result<(f64, f64)> {
    let starts: Vec<usize> = match batch {
        1 => (0..queries.len().min(SINGLES)).collect(),
        _ => vec![0],
    };
    let batches: Vec<Codes> = starts
        .iter()
        .map(|&start| queries.select(&(start..start + batch).collect::<Vec<_>>()))
        .collect();
    let asked = (batches.len() * batch) as f64;
    let (mut wall, mut cpu) = (f64::INFINITY, f64::INFINITY);
    let begun = Instant::now();
    let mut rounds = 0;
    while rounds < ROUNDS || begun.elapsed().as_secs_f64() < SECONDS {
        let (start, cpu_start) = (Instant::now(), cpu_seconds());
        for batch in &batches {
            std::hint::black_box(index.search(batch, &Query::nearest(k), &|_| ())?);
        }
        cpu = cpu.min((cpu_seconds() - cpu_start) / asked);
        wall = wall.min(start.elapsed().as_secs_f64() / asked);
        rounds += 1;
    }
    Ok((wall, cpu))
}

/// CPU seconds of this process so far; wall time where there is no such clock.
fn cpu_seconds() -> f64 {
    #[cfg(unix)]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds of some hours")]
        let seconds = now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9;
        seconds
    }
    #[cfg(not(unix))]
    {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_secs_f64()
    }
}

/// Memory bandwidth of `threads` threads in GB/s, over more memory than caches usually hold. Each
/// thread reads several streams, because one does not saturate a core.
pub(super) fn bandwidth(threads: usize) -> f64 {
    let words = vec![1_u64; 1 << 26];
    let Ok(pool) = rayon::ThreadPoolBuilder::new().num_threads(threads).build() else {
        return f64::NAN;
    };
    let part = words.len() / threads.max(1);
    let mut best = f64::INFINITY;
    for _ in 0..PASSES {
        let start = cpu_seconds();
        let sum: u64 = pool.install(|| words.par_chunks(part).map(sum).sum());
        std::hint::black_box(sum);
        best = best.min((cpu_seconds() - start) / threads.max(1) as f64);
    }
    (words.len() * 8) as f64 / best * 1e-9
}

/// The sum of all words, read in concurrent streams, one cache line at a time.
fn sum(words: &[u64]) -> u64 {
    let (lines, rest) = words.as_chunks::<8>();
    let length = (lines.len() / STREAMS).max(1);
    let streams: Vec<&[[u64; 8]]> = lines.chunks_exact(length).take(STREAMS).collect();
    let mut sums = [0_u64; 8];
    let mut add = |line: &[u64; 8]| {
        sums.iter_mut().zip(line).for_each(|(sum, word)| *sum = sum.wrapping_add(*word));
    };
    for at in 0..length {
        streams.iter().filter_map(|stream| stream.get(at)).for_each(&mut add);
    }
    lines.iter().skip(length * streams.len()).for_each(&mut add);
    sums.iter().chain(rest).fold(0, |all, word| all.wrapping_add(*word))
}
