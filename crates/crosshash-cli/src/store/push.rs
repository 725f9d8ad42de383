//! Bulk loading, in ranges of items. A range is written completely or not at all, and the table
//! itself tells which ranges are there: a push that was interrupted, by a crash on either side, is
//! continued by the same command. Nothing is lost and nothing is there twice.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};

use super::rows::{Description, Source};
use super::{RangeRows, RowEncoder, Store, StoreError, StoreResult, with_patience};

/// Items that are written at a time.
pub const RANGE: u64 = 1 << 16;
/// How often missing ranges are written again.
const ROUNDS: usize = 3;

/// How to push.
pub struct PushOptions {
    /// Drop a table of other items first.
    pub replace: bool,
    /// How long to wait for a store that does not answer.
    pub patience: Duration,
}

/// What was done.
#[derive(Debug)]
pub struct Pushed {
    /// Items that were written now.
    pub written: u64,
    /// Items of an earlier push.
    pub kept: u64,
    /// Time to write.
    pub writing: Duration,
    /// Time to create secondary indexes.
    pub indexing: Duration,
}

/// Makes a table contain the items of a source.
pub fn push(
    store: &mut dyn Store,
    source: &Source<'_>,
    description: Description,
    options: &PushOptions,
    say: &dyn Fn(&str),
    progress: &dyn Fn(usize),
) -> Result<Pushed> {
    let mut description = description;
    let patience = options.patience;
    let found = with_patience(store, patience, say, |store, _| store.description())?;
    let same = |found: &Description| {
        (found.bits, &found.source, found.items, found.outputs)
            == (
                description.bits,
                &description.source,
                description.items,
                description.outputs,
            )
    };
    match &found {
        Some(found) if same(found) => {
            description.complete = found.complete;
            description.hnsw |= found.hnsw;
        }
        Some(found) if !options.replace => {
            let what = if found.complete { "other items" } else { "a part of other items" };
            bail!(
                "{} contains {what} ({} of {} bits); --replace drops them, --upsert adds the items \
                 to them, table=NAME in the address selects another table",
                store.place(),
                found.items,
                found.bits
            );
        }
        Some(_) => {
            with_patience(store, patience, say, |store, _| store.drop_table())?;
            create(store, &description, patience, say)?;
        }
        None => create(store, &description, patience, say)?,
    }
    let mut pushed =
        Pushed { written: 0, kept: 0, writing: Duration::ZERO, indexing: Duration::ZERO };
    let started = Instant::now();
    let mut missing = Vec::new();
    for round in 0..=ROUNDS {
        missing = missing_ranges(store, source.len() as u64, patience, say)?;
        if round == 0 {
            let rows: u64 = missing.iter().map(|(items, _)| items.end - items.start).sum();
            pushed.kept = source.len() as u64 - rows;
        }
        if missing.is_empty() || round == ROUNDS {
            break;
        }
        if description.complete {
            // a search must not use a table that is being repaired
            description.complete = false;
            with_patience(store, patience, say, |store, _| store.describe(&description))?;
        }
        let work = Work { source, description: &description, patience };
        pushed.written += work.write(store, &missing, pushed.kept, say, progress)?;
    }
    if !missing.is_empty() {
        bail!(
            "{}: {} ranges of items are still incomplete; does another program write to the table?",
            store.place(),
            missing.len()
        );
    }
    pushed.writing = started.elapsed();
    let started = Instant::now();
    with_patience(store, patience, say, |store, _| store.finish(&description))?;
    description.complete = true;
    with_patience(store, patience, say, |store, _| store.describe(&description))?;
    pushed.indexing = started.elapsed();
    Ok(pushed)
}

fn create(
    store: &mut dyn Store,
    description: &Description,
    patience: Duration,
    say: &dyn Fn(&str),
) -> StoreResult<()> {
    with_patience(store, patience, say, |store, again| {
        // the first attempt may have succeeded without an answer
        if again && store.description()?.is_some() {
            return Ok(());
        }
        store.create(description)
    })
}

/// Ranges that are not in the store, with what is there instead.
type Missing = Vec<(Range<u64>, RangeRows)>;

fn missing_ranges(
    store: &mut dyn Store,
    items: u64,
    patience: Duration,
    say: &dyn Fn(&str),
) -> Result<Missing> {
    let found = with_patience(store, patience, say, |store, _| store.ranges(RANGE))?;
    let found: HashMap<u64, RangeRows> = found.into_iter().collect();
    if let Some(beyond) = found.keys().find(|&&range| range >= items.div_ceil(RANGE)) {
        bail!(
            "{} contains items from number {} on, which are not in the source; --replace drops them",
            store.place(),
            beyond * RANGE
        );
    }
    let mut missing = Vec::new();
    for nth in 0..items.div_ceil(RANGE) {
        let range = nth * RANGE..items.min((nth + 1) * RANGE);
        let rows = found.get(&nth).copied().unwrap_or_default();
        if rows != full(&range) {
            missing.push((range, rows));
        }
    }
    Ok(missing)
}

/// What a store contains of a range that was written once.
fn full(range: &Range<u64>) -> RangeRows {
    let rows = range.end - range.start;
    RangeRows { rows, distinct: rows }
}

/// The writing of ranges.
struct Work<'a> {
    source: &'a Source<'a>,
    description: &'a Description,
    patience: Duration,
}

impl Work<'_> {
    /// Writes ranges; returns the number of items. Rows are read and encoded in another thread.
    fn write(
        &self,
        store: &mut dyn Store,
        missing: &Missing,
        kept: u64,
        say: &dyn Fn(&str),
        progress: &dyn Fn(usize),
    ) -> Result<u64> {
        let encoder = store.encoder();
        let (sender, receiver) = mpsc::sync_channel(1);
        let mut written = 0;
        std::thread::scope(|scope| -> Result<()> {
            scope.spawn(move || {
                for (range, rows) in missing {
                    let encoded = self.encode(encoder, range);
                    let failed = encoded.is_err();
                    let gone = sender.send((range.clone(), *rows, encoded)).is_err();
                    if failed || gone {
                        break;
                    }
                }
            });
            for (range, rows, encoded) in receiver {
                let encoded = encoded?;
                self.write_range(store, &range, rows, &encoded, say)?;
                written += range.end - range.start;
                progress(usize::try_from(kept + written).unwrap_or(usize::MAX));
            }
            Ok(())
        })?;
        Ok(written)
    }

    fn encode(&self, encoder: RowEncoder, range: &Range<u64>) -> Result<Vec<u8>> {
        let at = |item: u64| usize::try_from(item).map_err(|_| anyhow!("too many items"));
        let rows = self.source.rows(at(range.start)?..at(range.end)?)?;
        Ok(encoder(self.description, &rows)?)
    }

    fn write_range(
        &self,
        store: &mut dyn Store,
        range: &Range<u64>,
        rows: RangeRows,
        encoded: &[u8],
        say: &dyn Fn(&str),
    ) -> Result<()> {
        let mut rows = rows;
        let outcome = with_patience(store, self.patience, say, |store, again| {
            if again {
                // what was sent may have been committed, although there was no answer
                rows = store.range(range.clone())?;
            }
            if rows == full(range) {
                return Ok(());
            }
            if rows.rows > 0 {
                store.clear(range.clone())?;
            }
            store.write(self.description, encoded)
        });
        outcome.map_err(|err| match err {
            StoreError::Unavailable(why) => anyhow!(
                "{} is unavailable: {why}; the same command continues the push",
                store.place()
            ),
            StoreError::Failed(why)
            | StoreError::TimedOut(why)
            | StoreError::Rejected(why) => anyhow!("{}: {why}", store.place()),
        })
    }
}
