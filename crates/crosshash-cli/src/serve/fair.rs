//! `Workers`: runs CPU-bound work, as many pieces at once as there are cores, in a fair order.
//!
//! Start-time fair queueing (Goyal, Vin and Cheng 1996): every client has a virtual time, by which its
//! work so far is charged. A piece of work starts at the later of its client's time and the time of
//! the work that was started last, and the earliest is next. A client that asks for much waits for
//! itself; one that asks rarely waits for the work that is running, not for the queue of others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crosshash_codes::Cancel;
use tokio::sync::oneshot;

use super::context::RequestContext;
use super::error::{ApiError, ApiResult};

/// Microseconds that are charged for a piece of work until its time is known.
const ESTIMATE: u64 = 1000;

/// A client with its virtual time in microseconds. Clones are the same client.
#[derive(Clone, Default)]
pub(crate) struct Flow(Arc<AtomicU64>);

/// The workers.
#[derive(Clone)]
pub(crate) struct Workers(Arc<Mutex<Queue>>);

struct Queue {
    free: usize,
    /// The start of the work that was started last.
    now: u64,
    sequence: u64,
    /// By start and order of arrival.
    waiting: BTreeMap<(u64, u64), oneshot::Sender<Permit>>,
}

/// The right to run one piece of work; the next one gets it when it is dropped.
struct Permit(Option<Arc<Mutex<Queue>>>);

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

    fn with(free: usize) -> Workers {
        let queue = Queue { free, now: 0, sequence: 0, waiting: BTreeMap::new() };
        Workers(Arc::new(Mutex::new(queue)))
    }

    /// Runs `work` on a blocking thread when it is its turn. It gets the cancel flag of the request
    /// and must return soon after it is set.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Cancel) -> ApiResult<T> + Send + 'static,
    ) -> ApiResult<T> {
        let RequestContext { cancel, flow, .. } = RequestContext::current();
        let permit = self.permit(&flow).await?;
        let task = tokio::task::spawn_blocking(move || {
            let started = Instant::now();
            let result = if cancel.is_cancelled() {
                Err(ApiError::cancelled())
            } else {
                work(&cancel)
            };
            flow.charge(started.elapsed().as_micros());
            drop(permit);
            result
        });
        task.await.map_err(ApiError::internal)?
    }

    /// Runs `work` as [`run`](Workers::run) does if it is heavy. Light work, of some hundred
    /// microseconds, is done at once: a change of threads would cost as much.
    pub(crate) async fn run_heavy<T: Send + 'static>(
        &self,
        is_heavy: bool,
        work: impl FnOnce(&Cancel) -> ApiResult<T> + Send + 'static,
    ) -> ApiResult<T> {
        if is_heavy {
            self.run(work).await
        } else {
            work(&RequestContext::current().cancel)
        }
    }

    async fn permit(&self, flow: &Flow) -> ApiResult<Permit> {
        let turn = {
            let mut queue = lock(&self.0);
            let start = flow.begin(queue.now);
            if queue.free > 0 {
                queue.free -= 1;
                queue.now = start;
                return Ok(Permit(Some(Arc::clone(&self.0))));
            }
            queue.sequence += 1;
            let (sender, turn) = oneshot::channel();
            let key = (start, queue.sequence);
            queue.waiting.insert(key, sender);
            turn
        };
        turn.await.map_err(|_| ApiError::busy("the server is stopping"))
    }
}

impl Flow {
    /// The virtual start of a piece of work, which is charged with the estimate.
    fn begin(&self, now: u64) -> u64 {
        let start = self.0.load(Ordering::Relaxed).max(now);
        self.0.store(start.saturating_add(ESTIMATE), Ordering::Relaxed);
        start
    }

    /// Charges the time that a piece of work took, instead of the estimate.
    fn charge(&self, micros: u128) {
        let micros = u64::try_from(micros).unwrap_or(u64::MAX);
        let replace =
            |time: u64| Some(time.saturating_sub(ESTIMATE).saturating_add(micros));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, replace);
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
                        workers.run(work).await.unwrap();
                    }
                }));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
            let honest = RequestContext::new(Flow::default());
            let mut between = Vec::new();
            for _ in 0..10 {
                let before = count.load(Ordering::Relaxed);
                honest.clone().scope(workers.run(|_| Ok(()))).await.unwrap();
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
                busy.run(work).await
            });
            tokio::time::sleep(Duration::from_millis(20)).await;
            let waiting = workers.clone();
            let gone = tokio::spawn(async move { waiting.run(|_| Ok(1)).await.is_ok() });
            tokio::time::sleep(Duration::from_millis(20)).await;
            gone.abort();
            assert_eq!(workers.run(|_| Ok(2)).await.unwrap(), 2);
            slow.await.unwrap().unwrap();
            assert_eq!(lock(&workers.0).free, 1);
        });
    }
}
