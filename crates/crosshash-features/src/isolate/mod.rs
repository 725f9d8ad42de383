//! Decoding of untrusted pictures in isolation: in worker processes with limits on memory, time and
//! output, and without access to files, network and other processes.
//!
//! | file | what |
//! |---|---|
//! | `pool.rs` | [`WorkerPool`]: starts workers, sends them pictures, replaces those that die |
//! | `process.rs` | one worker process: the exchange of a request and a reply within a time |
//! | `protocol.rs` | the format of requests and replies |
//! | `worker.rs` | [`run_worker`]: the other side, the main function of a worker |
//! | `sandbox.rs` | resource limits and the system call filter of a worker |
//!
//! A picture that crashes its decoder, fills the memory or never ends costs one worker, which is
//! replaced; the caller gets an error.

#[cfg(unix)]
mod pool;
#[cfg(unix)]
mod process;
mod protocol;
#[cfg(unix)]
mod sandbox;
#[cfg(unix)]
mod worker;

use std::sync::OnceLock;

use crosshash_codes::Cancel;

#[cfg(unix)]
pub use pool::{WorkerPool, WorkerSettings};
#[cfg(unix)]
pub use worker::run_worker;

use crate::Result;
use crate::picture::{self, Limits, Picture, Preprocessing, SquareFit};

/// How pictures are decoded: in this process, or by a [`WorkerPool`]. Clones share the workers.
///
/// The default is the decoder that was [installed](Decoder::install), or decoding in this process.
/// A program that reads pictures of others installs a pool when it starts:
///
/// ```no_run
/// use crosshash_features::isolate::{Decoder, WorkerPool, WorkerSettings, run_worker};
///
/// # fn main() -> std::io::Result<()> {
/// if std::env::args().nth(1).as_deref() == Some("decode-worker") {
///     return run_worker();
/// }
/// let program = std::env::current_exe()?;
/// let settings = WorkerSettings::new(program, ["decode-worker"]);
/// Decoder::from(WorkerPool::new(settings)).install();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Decoder(Way);

#[derive(Clone, Debug)]
enum Way {
    InProcess,
    #[cfg(unix)]
    Workers(std::sync::Arc<WorkerPool>),
}

/// What is done with a decoded picture before it is returned.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Job {
    /// Nothing.
    Whole,
    /// Resized to the square input of a network.
    Square(Preprocessing),
    /// Scaled down to at most this many pixels per side.
    Within(usize),
    /// Fitted into a square.
    Fitted(SquareFit),
}

static INSTALLED: OnceLock<Decoder> = OnceLock::new();

impl Default for Decoder {
    fn default() -> Decoder {
        INSTALLED.get().cloned().unwrap_or(Decoder(Way::InProcess))
    }
}

#[cfg(unix)]
impl From<WorkerPool> for Decoder {
    fn from(pool: WorkerPool) -> Decoder {
        Decoder(Way::Workers(std::sync::Arc::new(pool)))
    }
}

impl Decoder {
    /// Decodes in this process: for files that are trusted. Sizes and SVG budgets are checked, but a
    /// fault of a decoder ends the program.
    pub fn in_process() -> Decoder {
        Decoder(Way::InProcess)
    }

    /// Makes this the default of the process. Returns whether it was the first one; others are
    /// ignored.
    pub fn install(self) -> bool {
        INSTALLED.set(self).is_ok()
    }

    /// Whether pictures are decoded in other processes.
    pub fn is_isolated(&self) -> bool {
        !matches!(self.0, Way::InProcess)
    }

    /// Decodes a file, see [`picture::decode`].
    pub fn decode(&self, file: &[u8], limits: &Limits, cancel: &Cancel) -> Result<Picture> {
        self.run(&Job::Whole, file, limits, cancel)
    }

    /// Decodes a file and scales it down to at most `side` pixels per side.
    pub fn decode_within(
        &self,
        file: &[u8],
        limits: &Limits,
        side: usize,
        cancel: &Cancel,
    ) -> Result<Picture> {
        self.run(&Job::Within(side.max(1)), file, limits, cancel)
    }

    /// Decodes a file to the input of a network.
    pub fn decode_for(
        &self,
        file: &[u8],
        limits: &Limits,
        preprocessing: &Preprocessing,
        cancel: &Cancel,
    ) -> Result<Vec<f32>> {
        let square = self.run(&Job::Square(preprocessing.clone()), file, limits, cancel)?;
        let mut values = vec![0.0; preprocessing.values()];
        preprocessing.scale(&square, &mut values);
        Ok(values)
    }

    /// Decodes a file and fits it into a square.
    pub(crate) fn decode_fitted(
        &self,
        file: &[u8],
        limits: &Limits,
        fitting: SquareFit,
        cancel: &Cancel,
    ) -> Result<Picture> {
        self.run(&Job::Fitted(fitting), file, limits, cancel)
    }

    fn run(
        &self,
        job: &Job,
        file: &[u8],
        limits: &Limits,
        cancel: &Cancel,
    ) -> Result<Picture> {
        cancel.check().map_err(|err| crate::Error::content(err.to_string()))?;
        match &self.0 {
            Way::InProcess => {
                picture::guarded(|| job.finish(picture::decode_unguarded(file, limits)?))
            }
            #[cfg(unix)]
            Way::Workers(pool) => pool.run(job, file, limits, cancel),
        }
    }
}

impl Job {
    fn finish(&self, picture: Picture) -> Result<Picture> {
        match self {
            Job::Whole => Ok(picture),
            Job::Square(preprocessing) => {
                preprocessing.check()?;
                Ok(preprocessing.square(&picture))
            }
            Job::Within(side) => Ok(picture.within(*side)),
            Job::Fitted(fitting) => Ok(fitting.apply(&picture)),
        }
    }

    /// The most pixels of the result.
    fn most_pixels(&self, limits: &Limits) -> u64 {
        match self {
            Job::Whole => limits.pixels.max(picture::MAX_SVG_PIXELS),
            Job::Square(preprocessing) => (preprocessing.size as u64).pow(2),
            Job::Within(side) => (*side as u64).saturating_pow(2),
            Job::Fitted(fitting) => (fitting.size as u64).saturating_pow(2),
        }
    }
}
