//! `Workers`: runs CPU-bound work in a fair order.
//!
//! Pieces of work are not interrupted, so one that is short would wait for those that are running. Short
//! and long pieces therefore have lanes of their own, each with as many pieces at once as there are
//! cores: whoever decodes pictures, inserts thousands of items or asks for a thousand results does not
//! stop small searches. Long pieces run in threads of lower priority. Passes over the codes, which one
//! thread makes for several searches at once, have lanes as well: few searches are handed over at a time.
//! So have the connections to a store.
//!
//! Start-time fair queueing (Goyal, Vin and Cheng 1996): every client has a virtual time, by which its
//! work so far is charged. A piece of work starts at the later of its client's time and the time of
//! the work that was started last, and the earliest is next. A client that asks for much waits for
//! itself; one that asks rarely waits for the work that is running, not for the queue of others. A client
//! is never charged further ahead than [`MOST_AHEAD`]: one that was charged for a delay which it did not
//! cause is soon served again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crosshash_codes::Cancel;
use tokio::sync::oneshot;

use super::context::RequestContext;
use super::error::{ApiError, ApiResult};

/// Microseconds that are charged for a piece of work until its time is known.
const ESTIMATE: u64 = 1000;
/// The furthest that the virtual time of a client is ahead of the lane, in microseconds.
const MOST_AHEAD: u64 = 250_000;
/// Searches that are handed over to the index at a time, per core; and those of many results.
const SEARCHES: [usize; 2] = [16, 2];
/// Searches for more results are long.
pub(crate) const MANY_RESULTS: usize = 300;
/// By how much the priority of the threads for long work is lowered.
#[cfg(target_os = "linux")]
const LONG_NICE: i32 = 5;

/// A client with its virtual times in microseconds, one per lane. Clones are the same client.
#[derive(Clone, Default)]
pub(crate) struct Flow(Arc<[AtomicU64; 5]>);

/// How much a piece of work has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// Some hundred microseconds: it is done at once, because a change of threads would cost as much.
    Light,
    /// Some milliseconds.
    Short,
    /// Possibly seconds: pictures, drawings, filters over all items, bodies of megabytes, many results.
    Long,
}

/// The workers.
#[derive(Clone)]
pub(crate) struct Workers {
    short: Lane,
    long: Lane,
    /// Of few and of many results.
    searches: [Lane; 2],
    /// The threads for long work.
    threads: Sender<Job>,
}

/// A piece of long work.
type Job = Box<dyn FnOnce() + Send>;

/// A queue with its number, which selects the virtual time of a client.
#[derive(Clone)]
pub(crate) struct Lane(usize, Arc<Mutex<Queue>>);

struct Queue {
    free: usize,
    /// The start of the work that was started last.
    now: u64,
    sequence: u64,
    /// By start and order of arrival.
    waiting: BTreeMap<(u64, u64), oneshot::Sender<Permit>>,
}

/// The right to run one piece of work; the next one gets it when it is dropped.
pub(crate) struct Permit(Option<Arc<Mutex<Queue>>>);

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(queue) = self.0.take() else { return };
        loop {
            let next = {
                let mut queue = lock(&queue);
                let next = queue.waiting.pop_first();
                match &next {
                    Some(((start, _), _)) => queue.now = *start,
                    None => queue.free += 1,
                }
                next
            };
            let Some((_, waiting)) = next else { return };
            match waiting.send(Permit(Some(Arc::clone(&queue)))) {
                Ok(()) => return,
                // That client has gone: the next one.
                Err(mut permit) => permit.0 = None,
            }
        }
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Workers {
    pub(crate) fn new() -> Workers {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Workers::with(cores)
    }

    fn with(cores: usize) -> Workers {
        Workers {
            short: Lane::new(0, cores),
            long: Lane::new(1, cores),
            searches: [
                Lane::new(2, SEARCHES[0] * cores),
                Lane::new(3, SEARCHES[1] * cores),
            ],
            threads: long_threads(cores),
        }
    }

    /// Runs `work` on another thread when it is its turn, or at once if it is light. It gets the cancel
    /// flag of the request and must return soon after it is set.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        size: Size,
        work: impl FnOnce(&Cancel) -> ApiResult<T> + Send + 'static,
    ) -> ApiResult<T> {
        let RequestContext { cancel, flow, .. } = RequestContext::current();
        let lane = match size {
            Size::Light => return work(&cancel),
            Size::Short => self.short.clone(),
            Size::Long => self.long.clone(),
        };
        let permit = lane.permit(&flow).await?;
        let (reply, answer) = oneshot::channel();
        let job = move || {
            let started = Started::now();
            let result = if cancel.is_cancelled() {
                Err(ApiError::cancelled())
            } else {
                work(&cancel)
            };
            lane.charge(&flow, started.micros(size));
            drop(permit);
            let _ = reply.send(result); // the client may have gone
        };
        match size {
            Size::Long => {
                self.threads.send(Box::new(job)).map_err(ApiError::internal)?;
            }
            _ => drop(tokio::task::spawn_blocking(job)),
        }
        // Without an answer it has panicked.
        answer.await.map_err(ApiError::internal)?
    }

    /// The right to hand a search for some results over to the index, until it is dropped. Every search
    /// is charged with the estimate: its own share of a pass is not known.
    pub(crate) async fn search_turn(&self, results: usize) -> ApiResult<Permit> {
        let lane = &self.searches[usize::from(results > MANY_RESULTS)];
        lane.permit(&RequestContext::current().flow).await
    }
}

/// Starts threads of lower priority. A piece of work that panics does not end them.
fn long_threads(count: usize) -> Sender<Job> {
    let (sender, jobs) = channel::<Job>();
    let jobs = Arc::new(Mutex::new(jobs));
    for _ in 0..count {
        let jobs = Arc::clone(&jobs);
        let work = move || {
            // On Linux this is the priority of the thread alone, and of the decoders that it starts;
            // elsewhere it is left.
            #[cfg(target_os = "linux")]
            let _ = rustix::process::nice(LONG_NICE);
            loop {
                let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(job) = job else { return };
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            }
        };
        let thread = std::thread::Builder::new().name("serve long".into());
        if let Err(err) = thread.spawn(work) {
            tracing::error!(error = %err, "a thread cannot be started");
        }
    }
    sender
}

/// When a piece of work began, by the clock and by the processor time of its thread.
struct Started {
    clock: Instant,
    #[cfg(unix)]
    used: rustix::time::Timespec,
}

impl Started {
    fn now() -> Started {
        Started {
            clock: Instant::now(),
            #[cfg(unix)]
            used: rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime),
        }
    }

    /// What a client is charged. Long work also takes the time of decoders, which are other processes;
    /// short work only that of its thread, not the time in which others had the processor.
    fn micros(&self, size: Size) -> u128 {
        #[cfg(unix)]
        if size == Size::Short {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            let nanos = |time: &rustix::time::Timespec| {
                i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
            };
            return u128::try_from((nanos(&now) - nanos(&self.used)) / 1000).unwrap_or(0);
        }
        let _ = size;
        self.clock.elapsed().as_micros()
    }
}

impl Lane {
    /// The connections to a store.
    pub(crate) fn of_store(connections: usize) -> Lane {
        Lane::new(4, connections)
    }

    fn new(number: usize, free: usize) -> Lane {
        let queue = Queue { free, now: 0, sequence: 0, waiting: BTreeMap::new() };
        Lane(number, Arc::new(Mutex::new(queue)))
    }

    /// The right to run a piece of work, when it is the turn of the client.
    pub(crate) async fn permit(&self, flow: &Flow) -> ApiResult<Permit> {
        let turn = {
            let mut queue = lock(&self.1);
            let start = self.begin(flow, queue.now);
            if queue.free > 0 {
                queue.free -= 1;
                queue.now = start;
                return Ok(Permit(Some(Arc::clone(&self.1))));
            }
            queue.sequence += 1;
            let (sender, turn) = oneshot::channel();
            let key = (start, queue.sequence);
            queue.waiting.insert(key, sender);
            turn
        };
        turn.await.map_err(|_| ApiError::busy("the server is stopping"))
    }

    /// The virtual start of a piece of work, which is charged with the estimate.
    fn begin(&self, flow: &Flow, now: u64) -> u64 {
        let time = &flow.0[self.0];
        let most = now.saturating_add(MOST_AHEAD);
        let start = time.load(Ordering::Relaxed).clamp(now, most);
        time.store(start.saturating_add(ESTIMATE), Ordering::Relaxed);
        start
    }

    /// Charges the time that a piece of work took, instead of the estimate.
    pub(crate) fn charge(&self, flow: &Flow, micros: u128) {
        let micros = u64::try_from(micros).unwrap_or(u64::MAX);
        let replace =
            |time: u64| Some(time.saturating_sub(ESTIMATE).saturating_add(micros));
        let _ = flow.0[self.0].fetch_update(Ordering::Relaxed, Ordering::Relaxed, replace);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
    }

    /// One worker, thirty clients that ask again and again: a new client waits for few of them.
    #[test]
    fn a_rare_client_does_not_wait_for_greedy_ones() {
        runtime().block_on(async {
            let workers = Workers::with(1);
            let count = Arc::new(AtomicU64::new(0));
            for _ in 0..30 {
                let (workers, count) = (workers.clone(), Arc::clone(&count));
                let greedy = RequestContext::new(Flow::default());
                tokio::spawn(greedy.clone().scope(async move {
                    loop {
                        let count = Arc::clone(&count);
                        let work = move |_: &Cancel| {
                            std::thread::sleep(Duration::from_millis(2));
                            count.fetch_add(1, Ordering::Relaxed);
                            Ok(())
                        };
                        workers.run(Size::Short, work).await.unwrap();
                    }
                }));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
            let honest = RequestContext::new(Flow::default());
            let mut between = Vec::new();
            for _ in 0..10 {
                let before = count.load(Ordering::Relaxed);
                let work = workers.run(Size::Short, |_| Ok(()));
                honest.clone().scope(work).await.unwrap();
                between.push(count.load(Ordering::Relaxed) - before);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            between.sort_unstable();
            assert!(between[8] <= 5, "waited for {between:?} of 30");
        });
    }

    #[test]
    fn clients_that_leave_do_not_take_a_turn() {
        runtime().block_on(async {
            let workers = Workers::with(1);
            let busy = workers.clone();
            let slow = tokio::spawn(async move {
                let work = |_: &Cancel| {
                    std::thread::sleep(Duration::from_millis(100));
                    Ok(())
                };
                busy.run(Size::Short, work).await
            });
            tokio::time::sleep(Duration::from_millis(20)).await;
            let waiting = workers.clone();
            let gone =
                tokio::spawn(
                    async move { waiting.run(Size::Short, |_| Ok(1)).await.is_ok() },
                );
            tokio::time::sleep(Duration::from_millis(20)).await;
            gone.abort();
            assert_eq!(workers.run(Size::Short, |_| Ok(2)).await.unwrap(), 2);
            slow.await.unwrap().unwrap();
            assert_eq!(lock(&workers.short.1).free, 1);
        });
    }

    /// Long pieces of work on every core do not delay short ones.
    #[test]
    fn short_work_does_not_wait_for_long_work() {
        runtime().block_on(async {
            let workers = Workers::with(1);
            let (begun, started) = std::sync::mpsc::channel();
            let (finish, ends) = std::sync::mpsc::channel::<()>();
            let busy = workers.clone();
            let slow = tokio::spawn(async move {
                let work = move |_: &Cancel| {
                    begun.send(()).unwrap();
                    ends.recv().unwrap();
                    Ok(())
                };
                busy.run(Size::Long, work).await
            });
            tokio::task::spawn_blocking(move || started.recv().unwrap()).await.unwrap();
            assert_eq!(workers.run(Size::Short, |_| Ok(3)).await.unwrap(), 3);
            assert!(!slow.is_finished());
            finish.send(()).unwrap();
            slow.await.unwrap().unwrap();
        });
    }

    #[test]
    fn long_work_that_panics_frees_its_worker() {
        runtime().block_on(async {
            let workers = Workers::with(1);
            let work = |_: &Cancel| -> ApiResult<()> { panic!("a test") };
            assert!(workers.run(Size::Long, work).await.is_err());
            assert_eq!(workers.run(Size::Long, |_| Ok(1)).await.unwrap(), 1);
        });
    }

    /// A client that was once charged with an hour is served again when the others had their share.
    #[test]
    fn charges_are_bounded() {
        let lane = Lane::new(0, 1);
        let flow = Flow::default();
        lane.charge(&flow, 3_600_000_000);
        assert_eq!(lane.begin(&flow, 1000), 1000 + MOST_AHEAD);
    }
}
