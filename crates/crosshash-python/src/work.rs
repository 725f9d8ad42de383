//! Work without the interpreter lock: progress callbacks, Ctrl-C and panics.
//!
//! Long work runs in a thread of its own. The calling thread waits for it, checks for signals and calls
//! the progress callback a few times per second, so that Python code runs in the thread of the caller
//! only. After Ctrl-C, or an exception in the callback, the work stops at its next report of progress: the
//! report unwinds the thread (without a message), and the exception is raised when the thread has ended.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;

/// How often signals are checked and progress is reported.
const INTERVAL: Duration = Duration::from_millis(50);
/// Stack of the working thread, that of a main thread.
const STACK: usize = 8 << 20;

/// One report for the progress callback.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    /// What is done.
    pub(crate) stage: String,
    /// How much of it.
    pub(crate) done: usize,
    /// How much in all.
    pub(crate) total: usize,
    /// Further values, by name.
    pub(crate) values: Vec<(String, f64)>,
}

/// The state of work in progress.
pub(crate) struct Work {
    stage: Mutex<(String, usize)>,
    done: AtomicUsize,
    is_stopped: AtomicBool,
    events: Mutex<Vec<Event>>,
}

/// What unwinds a thread that was stopped.
struct Stopped;

impl Work {
    fn new(stage: &str, total: usize) -> Work {
        Work {
            stage: Mutex::new((stage.to_owned(), total)),
            done: AtomicUsize::new(0),
            is_stopped: AtomicBool::new(false),
            events: Mutex::default(),
        }
    }

    /// Begins another stage.
    pub(crate) fn stage(&self, stage: &str, total: usize) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) =
            (stage.to_owned(), total);
        self.set(0);
    }

    /// Reports progress; unwinds if the work was stopped.
    pub(crate) fn set(&self, done: usize) {
        if self.is_stopped() {
            resume_unwind(Box::new(Stopped));
        }
        self.done.store(done, Ordering::Relaxed);
    }

    /// Whether the work should end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Reports an event that is not replaced by later progress.
    pub(crate) fn send(&self, event: Event) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// Calls the progress callback, if there is one.
    fn report(&self, py: Python<'_>, callback: Option<&Py<PyAny>>) -> PyResult<()> {
        let events: Vec<Event> = std::mem::take(
            &mut *self.events.lock().unwrap_or_else(PoisonError::into_inner),
        );
        let Some(callback) = callback else { return Ok(()) };
        for Event { stage, done, total, values } in events {
            let values: std::collections::HashMap<String, f64> =
                values.into_iter().collect();
            callback.call1(py, (stage, done, total, values))?;
        }
        let (stage, total) =
            self.stage.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let none: std::collections::HashMap<String, f64> = Default::default();
        callback.call1(py, (stage, self.done.load(Ordering::Relaxed), total, none))?;
        Ok(())
    }
}

/// Runs long work in a thread of its own.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    callback: Option<Py<PyAny>>,
    (stage, total): (&str, usize),
    work: impl FnOnce(&Work) -> PyResult<T> + Send,
) -> PyResult<T> {
    let state = Work::new(stage, total);
    let result = py.detach(|| {
        std::thread::scope(|scope| {
            let (ended, is_ended) = channel::<()>();
            let state = &state;
            let started = std::thread::Builder::new()
                .name("crosshash".into())
                .stack_size(STACK)
                .spawn_scoped(scope, move || {
                    let result = catch_unwind(AssertUnwindSafe(|| work(state)));
                    drop(ended);
                    result
                });
            let thread = started?;
            let mut interrupted = None;
            while is_ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if interrupted.is_some() {
                    continue;
                }
                let checked = Python::attach(|py| {
                    py.check_signals()?;
                    state.report(py, callback.as_ref())
                });
                if let Err(err) = checked {
                    state.is_stopped.store(true, Ordering::Relaxed);
                    interrupted = Some(err);
                }
            }
            let result = thread.join().unwrap_or_else(Err);
            match interrupted {
                Some(err) => Err(err),
                None => result.unwrap_or_else(|panic| Err(panicked(&*panic))),
            }
        })
    });
    // The last events, and a signal that arrived at the end.
    py.check_signals()?;
    let value = result?;
    state.report(py, callback.as_ref())?;
    Ok(value)
}

/// Runs short work in this thread.
pub(crate) fn short<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> PyResult<T> + Send,
) -> PyResult<T> {
    py.detach(|| catch_unwind(AssertUnwindSafe(work)))
        .unwrap_or_else(|panic| Err(panicked(&*panic)))
}

/// A panic as an exception: it never reaches the interpreter.
fn panicked(panic: &(dyn std::any::Any + Send)) -> PyErr {
    if panic.is::<Stopped>() {
        return PyKeyboardInterrupt::new_err(());
    }
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    PyRuntimeError::new_err(format!(
        "internal error: {}; this is a bug of crosshash, please report it",
        text.unwrap_or_else(|| "panic".into())
    ))
}

/// Panics while it works, or works until it is interrupted; for tests of this file.
#[pyo3::pyfunction]
#[pyo3(name = "_panic_for_test", signature = (forever=false, callback=None))]
pub(crate) fn panic_for_test(
    py: Python<'_>,
    forever: bool,
    callback: Option<Py<PyAny>>,
) -> PyResult<()> {
    run(py, callback, ("testing", 1), |work| {
        if !forever {
            panic!("a test");
        }
        loop {
            work.set(0);
            std::thread::sleep(Duration::from_millis(1));
        }
    })
}
