//! `StorePool`: searches of a store for asynchronous handlers. A fixed number of threads has one connection
//! each, so connections are bounded and no thread of the runtime waits for the database.
//!
//! A request waits for its turn in a fair order (`fair.rs`) and has a time limit. If the client leaves or the
//! time is over, a statement that is running is cancelled, as far as the database allows it. A search that
//! finds the store unavailable is repeated with growing pauses; it reads only, so that is safe. A broken
//! connection is replaced first: after a restart of the database every connection is broken once. Failures in
//! a row open the breaker (`breaker.rs`); the monitor, with a connection of its own, closes it again and
//! follows changes of the table.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use anyhow::Result;
use arc_swap::ArcSwap;
use tokio::sync::oneshot;

use super::breaker::{Away, Breaker};
use super::context::RequestContext;
use super::error::{ApiError, ApiResult};
use super::fair::Lane;
use crate::store::{
    Canceller, Description, Store, StoreError, StoreResult, StoreUrl, connect, failed,
};

/// How often a search is sent at most.
const ATTEMPTS: u32 = 4;
/// The pause before the second attempt; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

type Job = Box<dyn FnOnce(&mut Link) + Send>;

/// The connections to the store of a modality.
pub(crate) struct StorePool {
    jobs: Sender<Job>,
    lane: Lane,
    shared: Arc<Shared>,
}

/// What threads and requests have in common.
struct Shared {
    modality: String,
    url: StoreUrl,
    place: String,
    limit: Duration,
    description: ArcSwap<Description>,
    breaker: Breaker,
    /// Wakes the monitor.
    wake: Sender<()>,
    counts: StoreCounts,
}

/// Counters since the start.
#[derive(Default)]
pub(crate) struct StoreCounts {
    pub(crate) requests: AtomicU64,
    /// Attempts without an answer of the store.
    pub(crate) failures: AtomicU64,
    pub(crate) retries: AtomicU64,
    /// Connections that are in use.
    pub(crate) busy: AtomicU64,
}

impl StorePool {
    /// Connects and reads the description of the table; starts the threads. The limit of `url` is that of
    /// a request.
    pub(crate) fn open(
        modality: &str,
        url: StoreUrl,
        connections: usize,
        limit: Duration,
    ) -> Result<StorePool> {
        let mut url = url;
        url.limit = Some(limit);
        let place = url.to_string();
        let mut link = Link::new(url.clone());
        let description = link
            .run(&Running::default(), |store| described(store, None))
            .map_err(|err| anyhow::anyhow!("--store: {place}: {err}"))?;
        let (wake, woken) = channel();
        let shared = Arc::new(Shared {
            modality: modality.to_owned(),
            url: url.clone(),
            place,
            limit,
            description: ArcSwap::from_pointee(description),
            breaker: Breaker::new(limit),
            wake,
            counts: StoreCounts::default(),
        });
        let own = Arc::downgrade(&shared);
        spawn("store monitor", move || monitor(&own, &woken, link))?;
        let (jobs, waiting) = channel::<Job>();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..connections {
            let (waiting, mut link) = (Arc::clone(&waiting), Link::new(url.clone()));
            spawn("store", move || {
                loop {
                    let job = lock(&waiting).recv();
                    let Ok(job) = job else { return };
                    job(&mut link);
                }
            })?;
        }
        Ok(StorePool { jobs, lane: Lane::of_store(connections), shared })
    }

    /// Where the store is, without credentials.
    pub(crate) fn place(&self) -> &str {
        &self.shared.place
    }

    /// The address with its limit.
    pub(crate) fn url(&self) -> &StoreUrl {
        &self.shared.url
    }

    /// What the table contains.
    pub(crate) fn description(&self) -> Arc<Description> {
        self.shared.description.load_full()
    }

    /// Whether the store is available.
    pub(crate) fn state(&self) -> Result<(), Away> {
        self.shared.breaker.admit(Instant::now())
    }

    /// How often the breaker was opened.
    pub(crate) fn opened(&self) -> u64 {
        self.shared.breaker.opened()
    }

    pub(crate) fn counts(&self) -> &StoreCounts {
        &self.shared.counts
    }

    /// Runs a search with one of the connections; repeats it while the store is unavailable and time is
    /// left. It must not change anything.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Fn(&mut dyn Store) -> StoreResult<T> + Send + Sync + 'static,
    ) -> ApiResult<T> {
        let shared = &self.shared;
        let away = |Away { retry, .. }| ApiError::store_away(&shared.modality, retry);
        let (work, deadline) = (Arc::new(work), Instant::now() + shared.limit);
        shared.counts.requests.fetch_add(1, Ordering::Relaxed);
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            shared.breaker.admit(Instant::now()).map_err(away)?;
            let outcome = self.attempt(Arc::clone(&work), deadline).await?;
            let late = Instant::now() + pause >= deadline;
            match outcome {
                Ok(found) => return Ok(found),
                Err(StoreError::Rejected(why)) => {
                    let place = if why.starts_with("filter:") { "filter" } else { "rank" };
                    return Err(ApiError::bad_request(why).at(place));
                }
                Err(StoreError::Failed(why)) => {
                    return Err(ApiError::store_failed(&shared.modality, why));
                }
                Err(StoreError::TimedOut(_)) if late => {
                    return Err(ApiError::busy(format!(
                        "the store with the items of {} did not answer within {} s; request less, or \
                         retry later",
                        shared.modality,
                        shared.limit.as_secs_f64()
                    )));
                }
                Err(StoreError::Unavailable(why) | StoreError::TimedOut(why)) => {
                    if late || attempt == ATTEMPTS {
                        tracing::warn!(
                            modality = shared.modality,
                            store = shared.place,
                            error = why,
                            "the store does not answer"
                        );
                        break;
                    }
                }
            }
            shared.counts.retries.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(spread(pause)).await;
            pause *= 2;
        }
        shared.breaker.admit(Instant::now()).map_err(away)?;
        Err(ApiError::store_away(&shared.modality, FIRST_PAUSE))
    }

    /// Runs a search once.
    async fn attempt<T: Send + 'static>(
        &self,
        work: Arc<impl Fn(&mut dyn Store) -> StoreResult<T> + Send + Sync + 'static>,
        deadline: Instant,
    ) -> ApiResult<StoreResult<T>> {
        let RequestContext { flow, .. } = RequestContext::current();
        let turn = tokio::time::timeout_at(deadline.into(), self.lane.permit(&flow)).await;
        let permit = turn.map_err(|_| {
            ApiError::busy(format!(
                "all connections to the store with the items of {} are in use; retry later",
                self.shared.modality
            ))
        })??;
        let (reply, answer) = oneshot::channel();
        let running = Running::default();
        let (own, shared, lane) =
            (running.clone(), Arc::clone(&self.shared), self.lane.clone());
        let job = move |link: &mut Link| {
            if reply.is_closed() {
                return; // the client has gone
            }
            let started = Instant::now();
            shared.counts.busy.fetch_add(1, Ordering::Relaxed);
            let outcome =
                catch_unwind(AssertUnwindSafe(|| link.run(&own, |store| work(store))));
            shared.counts.busy.fetch_sub(1, Ordering::Relaxed);
            lane.charge(&flow, started.elapsed().as_micros());
            drop(permit);
            let outcome = outcome.unwrap_or_else(|_| {
                link.store = None; // its state is unknown
                Err(failed("the search ended by a panic"))
            });
            match &outcome {
                Ok(_) => shared.breaker.succeeded(),
                // of a search that somebody still waits for
                Err(StoreError::Unavailable(why)) if !reply.is_closed() => {
                    shared.failed(why)
                }
                Err(_) => {}
            }
            let _ = reply.send(outcome);
        };
        self.jobs.send(Box::new(job)).map_err(ApiError::internal)?;
        let mut guard = CancelOnDrop(Some(running));
        match tokio::time::timeout_at(deadline.into(), answer).await {
            Ok(answer) => {
                guard.0 = None;
                Ok(answer.map_err(ApiError::internal)?)
            }
            Err(_) => {
                let why = "the time limit is over".to_owned();
                self.shared.failed(&why);
                Ok(Err(StoreError::TimedOut(why)))
            }
        }
    }
}

impl Shared {
    /// Notes a failure.
    fn failed(&self, why: &str) {
        self.counts.failures.fetch_add(1, Ordering::Relaxed);
        if self.breaker.failed(Instant::now()) {
            tracing::warn!(
                modality = self.modality,
                store = self.place,
                error = why,
                "the store is unavailable: searches are refused until it answers"
            );
            let _ = self.wake.send(());
        }
    }
}

/// Looks at the store until the pool is dropped.
fn monitor(shared: &Weak<Shared>, woken: &Receiver<()>, mut link: Link) {
    loop {
        let Some(pause) = shared.upgrade().map(|own| own.breaker.pause(Instant::now()))
        else {
            return;
        };
        match woken.recv_timeout(pause) {
            Ok(()) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let Some(own) = shared.upgrade() else { return };
        own.breaker.checks(Some(Instant::now()));
        let bits = own.description.load().bits;
        let found = link.run(&Running::default(), |store| described(store, Some(bits)));
        let was_away = own.breaker.admit(Instant::now()).is_err();
        own.breaker.checks(None);
        match found {
            Ok(description) => {
                own.description.store(Arc::new(description));
                own.breaker.succeeded();
                if was_away {
                    tracing::info!(
                        modality = own.modality,
                        store = own.place,
                        "the store answers again"
                    );
                }
            }
            Err(err) => own.failed(&err.to_string()),
        }
    }
}

/// The description of a table that can be searched, for codes of this length if one is given.
fn described(store: &mut dyn Store, bits: Option<usize>) -> StoreResult<Description> {
    let Some(found) = store.description()? else {
        return Err(failed("there is no such table; `crosshash store push` creates it"));
    };
    if !found.complete {
        return Err(failed("the push of its items is not complete; repeat it to continue"));
    }
    match bits.filter(|bits| *bits != found.bits) {
        Some(bits) => Err(failed(format!(
            "the table has codes of {} bits now, the model {bits}",
            found.bits
        ))),
        None => Ok(found),
    }
}

/// A connection, which is opened when it is needed.
struct Link {
    url: StoreUrl,
    store: Option<Box<dyn Store>>,
}

impl Link {
    fn new(url: StoreUrl) -> Link {
        Link { url, store: None }
    }

    fn run<T>(
        &mut self,
        running: &Running,
        work: impl Fn(&mut dyn Store) -> StoreResult<T>,
    ) -> StoreResult<T> {
        if let Some(store) = &mut self.store {
            match running.around(&mut **store, &work) {
                // possibly this connection only: a new one decides
                Err(StoreError::Unavailable(_)) => self.store = None,
                other => return other,
            }
        }
        let mut store = connect(&self.url)?;
        let outcome = running.around(&mut *store, &work);
        if !matches!(outcome, Err(StoreError::Unavailable(_))) {
            self.store = Some(store);
        }
        outcome
    }
}

/// What cancels the statement of a job, while it runs.
#[derive(Clone, Default)]
struct Running(Arc<Mutex<Option<Canceller>>>);

impl Running {
    fn around<T>(
        &self,
        store: &mut dyn Store,
        work: impl Fn(&mut dyn Store) -> StoreResult<T>,
    ) -> StoreResult<T> {
        *lock(&self.0) = store.canceller();
        let outcome = work(store);
        // Waits for a cancellation that is being sent: it must not meet the next statement.
        *lock(&self.0) = None;
        outcome
    }
}

/// Cancels the statement when the request ends before it.
struct CancelOnDrop(Option<Running>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(Running(running)) = self.0.take() else { return };
        let cancel = move || {
            let mut running = lock(&running);
            if let Some(cancel) = running.take() {
                cancel();
            }
        };
        // Otherwise the statement ends by its time limit.
        let _ = std::thread::Builder::new().name("store cancel".into()).spawn(cancel);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(work)?;
    Ok(())
}

/// A pause between half and whole, so that clients that failed together do not return together.
fn spread(pause: Duration) -> Duration {
    let share = RandomState::new().hash_one(0_u8) % 1024;
    pause.mul_f64(0.5 + share as f64 / 2048.0)
}
