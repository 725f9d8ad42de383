//! Times of one store: bulk loading, searches, size.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use crosshash::payload::PayloadFields;
use crosshash_cli::progress::{Progress, say};
use crosshash_cli::store::push::{PushOptions, push};
use crosshash_cli::store::rows::Source;
use crosshash_cli::store::{HitColumns, Store, StoreQuery, open};
use crosshash_codes::Codes;
use crosshash_codes::index::Query;
use crosshash_codes::segments::{ItemBatch, Snapshot, Writer};

use super::{Row, Timing};

/// Most rows of the statement that measures the loader of the engine.
const BULK: usize = 1_000_000;
const PATIENCE: Duration = Duration::from_secs(60);

/// Item numbers with distances.
type Hits = Vec<(u64, u32)>;

/// What is stored and searched.
pub(super) struct Workload<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) queries: &'a Codes,
    pub(super) k: &'a [usize],
    /// The answers of our own index, for every k and query.
    pub(super) truth: &'a [Vec<Hits>],
}

/// Our own index on disk, with its answers.
pub(super) fn own(
    codes: &Codes,
    queries: &Codes,
    k: &[usize],
) -> Result<(Row, Vec<Vec<Hits>>)> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("index");
    let start = Instant::now();
    let mut writer = Writer::create(&place, codes.bits(), &[])?;
    writer.insert(ItemBatch::new(codes.clone()))?;
    writer.flush()?;
    drop(writer);
    let push_rows_per_second = codes.len() as f64 / start.elapsed().as_secs_f64();
    let snapshot = Snapshot::open(&place)?;
    let start = Instant::now();
    snapshot.prepare("auto", &|_| ())?;
    let index_seconds = start.elapsed().as_secs_f64();
    let mut bytes = 0;
    for entry in fs_err::read_dir(&place)? {
        bytes += entry?.metadata()?.len();
    }
    let (mut searches, mut truth) = (Vec::new(), Vec::new());
    for &k in k {
        let (milliseconds, answers) = time(queries, |code| {
            let code = Codes::from_words(codes.bits(), code.to_vec())?;
            let found = snapshot.search(&code, &Query::nearest(k), &|_| ())?;
            let hits = found.into_iter().flatten();
            Ok(hits.map(|found| (u64::from(found.hit.item), found.hit.distance)).collect())
        })?;
        searches.push(compared(k, &milliseconds, &answers, &answers));
        truth.push(answers);
    }
    let row = Row {
        store: "our own index".into(),
        items: codes.len(),
        bits: codes.bits().get(),
        push_rows_per_second,
        bulk_rows_per_second: None,
        index_seconds,
        bytes_per_item: bytes as f64 / codes.len() as f64,
        searches,
    };
    Ok((row, truth))
}

/// A store, in a table that is dropped afterwards.
pub(super) fn store(name: &str, url: &str, work: &Workload<'_>, hnsw: bool) -> Result<Row> {
    let place = |what: &str| {
        let separator = if url.contains('?') { '&' } else { '?' };
        // the last `table` of an address counts
        format!("{url}{separator}table=crosshash_bench_{}_{what}", std::process::id())
    };
    let (mut items, mut bulk) = (open(&place("items"))?, open(&place("bulk"))?);
    let measured = measured(&mut *items, &mut *bulk, work, hnsw);
    for store in [&mut items, &mut bulk] {
        let there = store.description().is_ok_and(|found| found.is_some());
        if let Some(err) = there.then(|| store.drop_table().err()).flatten() {
            say(format_args!("{}: the table could not be dropped: {err}", store.place()));
        }
    }
    let mut row = measured.with_context(|| items.place().to_owned())?;
    row.store = match name {
        "" => url.split("://").next().unwrap_or_default().to_owned(),
        name => name.to_owned(),
    };
    if hnsw {
        row.store.push_str(", HNSW");
    }
    Ok(row)
}

fn measured(
    store: &mut dyn Store,
    bulk: &mut dyn Store,
    work: &Workload<'_>,
    hnsw: bool,
) -> Result<Row> {
    let source = Source::new(work.snapshot, &PayloadFields, false)?;
    let description = source.describe(hnsw, &|_| ())?;
    // with HNSW, the table has the same rows as without
    let bulk_rows_per_second = if hnsw { None } else { Some(bulk_rate(bulk, &source)?) };
    let progress = Progress::new(format!("pushing to {}", store.place()), source.len());
    let options = PushOptions { replace: false, patience: PATIENCE };
    let set = |done| progress.set(done);
    let pushed = push(store, &source, description, &options, &|line| say(line), &set)?;
    drop(progress);
    let description = store.description()?.context("the table is gone")?;
    let mut searches = Vec::new();
    for (&k, truth) in work.k.iter().zip(work.truth) {
        let (milliseconds, answers) = time(work.queries, |code| {
            let query = StoreQuery {
                code: code.to_vec(),
                k,
                skip: 0,
                radius: None,
                filter: None,
                ties: false,
                approximate: hnsw,
                columns: HitColumns::Ids,
            };
            let hits = store.search(&description, &query)?;
            Ok(hits.into_iter().map(|hit| (hit.item, hit.distance)).collect())
        })?;
        searches.push(compared(k, &milliseconds, &answers, truth));
    }
    Ok(Row {
        store: String::new(),
        items: source.len(),
        bits: description.bits,
        push_rows_per_second: pushed.written as f64 / pushed.writing.as_secs_f64(),
        bulk_rows_per_second,
        index_seconds: pushed.indexing.as_secs_f64(),
        bytes_per_item: store.bytes()? as f64 / source.len() as f64,
        searches,
    })
}

/// Rows per second of one statement of the engine, with rows that were encoded before.
fn bulk_rate(store: &mut dyn Store, source: &Source<'_>) -> Result<f64> {
    let rows = source.rows(0..source.len().min(BULK))?;
    let description = source.describe(false, &|_| ())?;
    let encoded = store.encoder()(&description, &rows)?;
    store.create(&description)?;
    say(format_args!("{}: the loader of the engine, {} rows", store.place(), rows.len()));
    let start = Instant::now();
    store.write(&description, &encoded)?;
    let seconds = start.elapsed().as_secs_f64();
    anyhow::ensure!(store.count()? == rows.len() as u64, "rows are missing");
    Ok(rows.len() as f64 / seconds)
}

/// Milliseconds and answers of every query, one after the other; the first query is asked twice.
fn time(
    queries: &Codes,
    mut ask: impl FnMut(&[u64]) -> Result<Hits>,
) -> Result<(Vec<f64>, Vec<Hits>)> {
    ask(queries.code(0))?;
    let (mut milliseconds, mut answers) = (Vec::new(), Vec::new());
    for nth in 0..queries.len() {
        let start = Instant::now();
        answers.push(ask(queries.code(nth))?);
        milliseconds.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok((milliseconds, answers))
}

fn compared(k: usize, milliseconds: &[f64], answers: &[Hits], truth: &[Hits]) -> Timing {
    let mut sorted = milliseconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let percentile =
        |percent: usize| sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)];
    let (mut near, mut wanted) = (0, 0);
    for (answer, truth) in answers.iter().zip(truth) {
        let farthest = truth.last().map_or(0, |hit| hit.1);
        near += answer.iter().filter(|hit| hit.1 <= farthest).count();
        wanted += truth.len();
    }
    Timing {
        k,
        p50_ms: percentile(50),
        p95_ms: percentile(95),
        recall: near as f64 / wanted.max(1) as f64,
        equal: answers == truth,
    }
}
