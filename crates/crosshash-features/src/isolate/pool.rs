//! `WorkerPool`: some worker processes, started when they are needed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crosshash_codes::Cancel;

use super::Job;
use super::process::{Failure, Process};
use super::protocol::{Order, SandboxLimits, request};
use crate::picture::{Limits, Picture};
use crate::{Error, Result};

/// How often a caller that waits for a free worker looks whether it was cancelled.
const SLICE: Duration = Duration::from_millis(20);
/// Pictures of more pixels end their worker, so that it does not keep their memory.
const LARGE: usize = 4_000_000;
/// The time limit of the first exchange, the start of a program.
const START: Duration = Duration::from_secs(20);

/// How workers are started, and their limits.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// The program and its arguments; it must call [`run_worker`](super::run_worker).
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The most workers at the same time; further callers wait.
    pub workers: usize,
    /// Bytes of memory of a worker, besides the program itself.
    pub memory: u64,
    /// Seconds of CPU time for a picture.
    pub seconds: u64,
    /// The most time for a picture, including its transfer.
    pub time: Duration,
}

impl WorkerSettings {
    /// One worker per core; memory for a picture of the default [`Limits`], 10 seconds of CPU time,
    /// 30 seconds in total.
    pub fn new<A: Into<OsString>>(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = A>,
    ) -> WorkerSettings {
        WorkerSettings {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            workers: rayon::current_num_threads(),
            memory: Limits::default().memory(),
            seconds: 10,
            time: Duration::from_secs(30),
        }
    }
}

/// Worker processes that decode pictures. Workers that die are replaced.
#[derive(Debug)]
pub struct WorkerPool {
    settings: WorkerSettings,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Process>,
    busy: usize,
}

/// The right to use one worker.
struct Turn<'a>(&'a WorkerPool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.state().busy -= 1;
        self.0.freed.notify_one();
    }
}

impl WorkerPool {
    /// A pool without workers yet.
    pub fn new(settings: WorkerSettings) -> WorkerPool {
        WorkerPool { settings, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Its settings.
    pub fn settings(&self) -> &WorkerSettings {
        &self.settings
    }

    pub(super) fn run(
        &self,
        job: &Job,
        file: &[u8],
        limits: &Limits,
        cancel: &Cancel,
    ) -> Result<Picture> {
        // Too large for any worker: it need not be sent.
        crate::picture::check_file(file, limits)?;
        let _turn = self.turn(cancel)?;
        let head = request(&Order::new(job, limits), file.len())?;
        let idle = self.state().idle.pop();
        let mut fresh = idle.is_none();
        let mut process = idle.map_or_else(|| self.start(cancel), Ok)?;
        loop {
            let time = self.settings.time;
            let most = job.most_pixels(limits);
            match process.exchange(&[&head, file], most, time, cancel) {
                Ok((expected, bytes)) => {
                    let picture = expected.finish(bytes);
                    let large = file.len() > LARGE
                        || picture
                            .as_ref()
                            .is_ok_and(|picture| picture.rgb().len() > LARGE);
                    if !large {
                        self.state().idle.push(process);
                    }
                    return picture;
                }
                // It may have ended while it was idle.
                Err(Failure::Died(_)) if !fresh => {
                    process = self.start(cancel)?;
                    fresh = true;
                }
                Err(failure) => return Err(self.refuse(&failure)),
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a free worker.
    fn turn(&self, cancel: &Cancel) -> Result<Turn<'_>> {
        let mut state = self.state();
        while state.busy >= self.settings.workers.max(1) {
            if cancel.is_cancelled() {
                return Err(self.refuse(&Failure::Cancelled));
            }
            let waited = self.freed.wait_timeout(state, SLICE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.busy += 1;
        Ok(Turn(self))
    }

    /// Starts a worker and sets its limits.
    fn start(&self, cancel: &Cancel) -> Result<Process> {
        let WorkerSettings { program, arguments, memory, seconds, .. } = &self.settings;
        let failed = |why: &str| {
            Error::content(format!(
                "the decoder process {} cannot be started: {why}",
                program.display()
            ))
        };
        let process = Process::start(Command::new(program).args(arguments));
        let mut process = process.map_err(|err| failed(&err.to_string()))?;
        let limits = SandboxLimits { memory: *memory, seconds: *seconds };
        let first = request(&limits, 0)?;
        match process.exchange(&[&first], 1, START, cancel) {
            Ok((expected, bytes)) => match expected.finish(bytes) {
                Ok(_) => Ok(process),
                Err(err) => Err(failed(&err.to_string())),
            },
            Err(Failure::Died(why)) => Err(failed(&why)),
            Err(failure) => Err(self.refuse(&failure)),
        }
    }

    fn refuse(&self, failure: &Failure) -> Error {
        let WorkerSettings { memory, time, .. } = &self.settings;
        Error::content(match failure {
            Failure::Died(why) => format!(
                "the decoder failed ({why}); the file is damaged, or needs more than {} MiB or {} \
                 s of CPU time",
                memory >> 20,
                self.settings.seconds
            ),
            Failure::Late => {
                format!(
                    "decoding takes more than {} s; simplify the picture",
                    time.as_secs()
                )
            }
            Failure::Cancelled => "cancelled".into(),
            Failure::Garbled => "the decoder sent an invalid answer".into(),
        })
    }
}
