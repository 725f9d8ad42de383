//! The extraction pipeline: one reader thread, decoding workers, and lanes that run the network.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};

use crosshash_codes::Cancel;
use xxhash_rust::xxh3::xxh3_128;

use super::{BATCH, Bad, Cache, ENOUGH, Extracted, Extraction, Rows};
use crate::{Error, Pictures, Result};

/// Capacity of the file queue; each worker and the reader hold one more.
fn file_queue() -> usize {
    rayon::current_num_threads()
}

/// Capacity of the input queue; each lane holds a batch and each worker one input more.
fn input_queue() -> usize {
    2 * BATCH
}

pub(super) fn files_under_way() -> usize {
    file_queue() + rayon::current_num_threads() + 1
}

pub(super) fn inputs_under_way() -> usize {
    let threads = rayon::current_num_threads();
    input_queue() + threads * BATCH + threads
}

/// Item and file contents, sent from the reader to a worker.
type Read = (usize, Result<Vec<u8>>);

/// Item, cache key and network input, sent from a worker to a lane.
type Ready = (usize, u128, Vec<f32>);

/// Results, protected by a mutex.
struct State<'a> {
    rows: Vec<f32>,
    found: Vec<bool>,
    bad: Vec<(usize, String)>,
    cache: Option<Cache>,
    cached: usize,
    done: usize,
    waited: f64,
    worked: f64,
    failed: Option<Error>,
    progress: &'a (dyn Fn(usize) + Sync),
}

/// State shared by all threads.
struct Shared<'a> {
    how: &'a Extraction<'a>,
    state: Mutex<State<'a>>,
    stop: AtomicBool,
}

pub(super) fn run(
    how: &Extraction<'_>,
    pictures: &Pictures,
    cache: Option<Cache>,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Extracted> {
    let width = how.loaded.backbone().width();
    let threads = rayon::current_num_threads();
    let lanes = if how.loaded.backbone().is_single_threaded() { threads } else { 1 };
    let state = State {
        rows: vec![0.0; pictures.len() * width],
        found: vec![false; pictures.len()],
        bad: Vec::new(),
        cache,
        cached: 0,
        done: 0,
        waited: 0.0,
        worked: 0.0,
        failed: None,
        progress,
    };
    let shared = Shared { how, state: Mutex::new(state), stop: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        // Only threads own the ends of the queues. When all receivers are dropped, the stage
        // closes, and so does the stage before it.
        let (files, takers) = sync_channel::<Read>(file_queue());
        let (inputs, lanes_takers) = sync_channel::<Ready>(input_queue());
        let (takers, lanes_takers) = (share(takers), share(lanes_takers));
        scope.spawn(|| shared.read(pictures, files));
        for _ in 0..threads {
            let (takers, inputs) = (Arc::clone(&takers), inputs.clone());
            scope.spawn(|| shared.decode(takers, inputs));
        }
        for _ in 0..lanes {
            let takers = Arc::clone(&lanes_takers);
            scope.spawn(|| shared.infer(takers));
        }
    });
    let state = shared.state.into_inner().map_err(|_| panicked())?;
    finish(how, pictures, state)
}

fn finish(
    how: &Extraction<'_>,
    pictures: &Pictures,
    mut state: State<'_>,
) -> Result<Extracted> {
    if let Some(err) = state.failed {
        return Err(err);
    }
    if let Some(cache) = &mut state.cache {
        cache.flush()?;
    }
    state.bad.sort_unstable();
    let bad: Vec<Bad> = state
        .bad
        .into_iter()
        .map(|(item, why)| Bad { path: pictures.path(item), why })
        .collect();
    if !bad.is_empty() && !how.skip_bad {
        return Err(refused(&bad));
    }
    let kept: Vec<usize> = (0..state.found.len()).filter(|&k| state.found[k]).collect();
    if kept.is_empty() {
        return Err(Error::content("none of the pictures can be read"));
    }
    let width = how.loaded.backbone().width();
    let mut values = state.rows;
    if kept.len() < state.found.len() {
        for (to, &from) in kept.iter().enumerate() {
            values.copy_within(from * width..(from + 1) * width, to * width);
        }
        values.truncate(kept.len() * width);
    }
    let rows = Rows::new(width, values)?;
    let spent = state.waited + state.worked;
    Ok(Extracted {
        rows,
        kept,
        bad,
        cached: state.cached,
        waited: if spent > 0.0 { state.waited / spent } else { 0.0 },
        notes: state.cache.iter().flat_map(Cache::notes).collect(),
    })
}

fn refused(bad: &[Bad]) -> Error {
    let shown = bad.iter().take(ENOUGH);
    let lines: Vec<String> =
        shown.map(|bad| format!("  {}: {}", bad.path.display(), bad.why)).collect();
    let (count, more) = match bad.len() {
        1 => ("1 picture".to_owned(), ""),
        n if n >= ENOUGH => {
            (format!("{n} pictures and possibly more"), " (first ones listed)")
        }
        n => (format!("{n} pictures"), ""),
    };
    Error::content(format!(
        "{count} cannot be read{more}; repair or remove them, or skip them with --skip-bad:\n{}",
        lines.join("\n")
    ))
}

fn share<T>(receiver: Receiver<T>) -> Arc<Mutex<Receiver<T>>> {
    Arc::new(Mutex::new(receiver))
}

/// Receives from a shared queue; `None` if it is closed.
fn next<T>(queue: &Mutex<Receiver<T>>) -> Option<T> {
    queue.lock().ok()?.recv().ok()
}

fn panicked() -> Error {
    Error::content("an extraction thread panicked")
}

impl<'a> Shared<'a> {
    fn state(&self) -> Option<MutexGuard<'_, State<'a>>> {
        self.state.lock().ok()
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn fail(&self, err: Error) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(mut state) = self.state() {
            state.failed.get_or_insert(err);
        }
    }

    fn bad(&self, item: usize, why: String) {
        let Some(mut state) = self.state() else { return };
        state.bad.push((item, why));
        state.done += 1;
        (state.progress)(state.done);
        if !self.how.skip_bad && state.bad.len() >= ENOUGH {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn read(&self, pictures: &Pictures, files: SyncSender<Read>) {
        let closed = || Error::content("closed");
        let read = pictures.visit(self.how.limits.bytes, |item, bytes| {
            if self.stopped() {
                return Err(closed());
            }
            files.send((item, bytes)).map_err(|_| closed())
        });
        if let Err(err) = read
            && !self.stopped()
        {
            self.fail(err);
        }
    }

    fn decode(&self, files: Arc<Mutex<Receiver<Read>>>, inputs: SyncSender<Ready>) {
        let backbone = self.how.loaded.backbone();
        let width = backbone.width();
        let cancel = Cancel::default();
        while let Some((item, bytes)) = next(&files) {
            if self.stopped() {
                return;
            }
            let bytes = match bytes {
                Ok(bytes) => bytes,
                Err(err) => {
                    self.bad(item, err.to_string());
                    continue;
                }
            };
            let key = xxh3_128(&bytes);
            if self.known(item, key, width) {
                continue;
            }
            let Extraction { decoder, limits, .. } = self.how;
            // Hand-crafted features are as fast as decoding: they are computed here.
            let made = backbone.decoded(decoder, &bytes, limits, &cancel);
            drop(bytes);
            match made {
                Ok(input) => {
                    if inputs.send((item, key, input)).is_err() {
                        return;
                    }
                }
                Err(err) => self.bad(item, err.to_string()),
            }
        }
    }

    /// Loads the row of an item from the cache; returns whether it was found.
    fn known(&self, item: usize, key: u128, width: usize) -> bool {
        let Some(mut guard) = self.state() else { return false };
        let state = &mut *guard;
        let row = &mut state.rows[item * width..(item + 1) * width];
        let known = state.cache.as_ref().is_some_and(|cache| cache.get(key, row));
        if known {
            state.found[item] = true;
            state.cached += 1;
            state.done += 1;
            (state.progress)(state.done);
        }
        known
    }

    fn infer(&self, inputs: Arc<Mutex<Receiver<Ready>>>) {
        let backbone = self.how.loaded.backbone();
        let is_network = backbone.preprocessing().is_some();
        loop {
            let started = (self.how.now)();
            let Some(batch) = self.batch(&inputs) else { return };
            if self.stopped() {
                return;
            }
            let got = (self.how.now)();
            let values: Vec<f32> =
                batch.iter().flat_map(|(_, _, input)| input).copied().collect();
            let rows =
                if is_network { backbone.inputs(&values, batch.len()) } else { Ok(values) };
            let ended = (self.how.now)();
            let kept = rows.and_then(|rows| self.keep(&batch, &rows));
            if let Err(err) = kept {
                return self.fail(err);
            }
            if let Some(mut state) = self.state() {
                state.waited += got - started;
                state.worked += ended - got;
            }
        }
    }

    /// Receives the next batch: waits for one item, then adds those already queued.
    fn batch(&self, inputs: &Mutex<Receiver<Ready>>) -> Option<Vec<Ready>> {
        let queue = inputs.lock().ok()?;
        let mut batch = vec![queue.recv().ok()?];
        while batch.len() < BATCH {
            match queue.try_recv() {
                Ok(ready) => batch.push(ready),
                Err(_) => break,
            }
        }
        Some(batch)
    }

    fn keep(&self, batch: &[Ready], rows: &[f32]) -> Result<()> {
        let width = self.how.loaded.backbone().width();
        let mut guard = self.state().ok_or_else(panicked)?;
        let state = &mut *guard;
        for ((item, key, _), row) in batch.iter().zip(rows.chunks_exact(width)) {
            state.done += 1;
            if !row.iter().all(|x| x.is_finite()) {
                let why = "the backbone returned NaN or infinity";
                state.bad.push((*item, why.into()));
                continue;
            }
            state.rows[item * width..(item + 1) * width].copy_from_slice(row);
            state.found[*item] = true;
            if let Some(cache) = &mut state.cache {
                cache.push(*key, row);
            }
        }
        if let Some(cache) = &mut state.cache {
            cache.flush()?;
        }
        (state.progress)(state.done);
        Ok(())
    }
}
