//! Extraction: pictures or texts through a backbone, to rows of features.
//!
//! ```text
//! one reader -> files -> workers: hash, decode, preprocessing -> inputs -> lanes: network -> rows, cache
//! ```
//!
//! Queues are bounded, so memory is (see [`Extraction::memory`]). Rows are kept by the hash of
//! a file's bytes in a file of the backbone's digest (`cache.rs`): a second run reads and hashes
//! the files and computes nothing, an interrupted one goes on where it was.

mod cache;
mod pipeline;

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_128;

pub use cache::Cache;

use crate::Pictures;
use crate::backbone::{InputKind, Loaded};
use crate::picture::Limits;
use crate::{Error, Result};

/// Items that a network is asked for at once.
const BATCH: usize = 8;
/// Without `skip_bad`, so many bad pictures end it: something is wrong with all of them.
const ENOUGH: usize = 20;

/// How to extract.
#[derive(Clone, Copy)]
pub struct Extraction<'a> {
    /// The backbone.
    pub loaded: &'a Loaded,
    /// The folder of kept rows, if they are to be kept.
    pub cache: Option<&'a Path>,
    /// Leave bad pictures out instead of refusing the lot.
    pub skip_bad: bool,
    /// What a picture may be.
    pub limits: Limits,
    /// Seconds since some moment: the library reads no clock.
    pub now: &'a (dyn Fn() -> f64 + Sync),
}

/// What is extracted from.
#[derive(Debug, Clone, Copy)]
pub enum Inputs<'a> {
    /// Files of pictures.
    Pictures(&'a Pictures),
    /// Texts.
    Texts(&'a [&'a str]),
}

/// Feature rows of one width.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    width: usize,
    values: Vec<f32>, // invariant: a multiple of width
}

impl Rows {
    fn new(width: usize, values: Vec<f32>) -> Result<Rows> {
        if width == 0 || !values.len().is_multiple_of(width) {
            return Err(Error::content(format!(
                "the backbone gave {} numbers, which are no rows of {width}",
                values.len()
            )));
        }
        Ok(Rows { width, values })
    }

    /// Numbers per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.width
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// All values, row after row.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// All values, row after row.
    pub fn into_values(self) -> Vec<f32> {
        self.values
    }
}

/// What extraction gave.
#[derive(Debug)]
pub struct Extracted {
    /// One row per item that is kept.
    pub rows: Rows,
    /// The items that have a row, in order.
    pub kept: Vec<usize>,
    /// Pictures that could not be read, and why.
    pub bad: Vec<Bad>,
    /// How many rows were there already.
    pub cached: usize,
    /// The share of their time that networks waited for pictures.
    pub waited: f64,
    /// What else a user should know.
    pub notes: Vec<String>,
}

/// A picture that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bad {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

impl<'a> Extraction<'a> {
    /// With the usual limits, no cache, no clock; bad pictures refuse the lot.
    pub fn new(loaded: &'a Loaded) -> Extraction<'a> {
        let limits = Limits::default();
        Extraction { loaded, cache: None, skip_bad: false, limits, now: &|| 0.0 }
    }

    /// The rows of all items. `progress` hears how many are done.
    pub fn run(
        &self,
        inputs: Inputs<'_>,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Extracted> {
        let takes = self.loaded.backbone().input_kind();
        match (inputs, takes) {
            (Inputs::Pictures(pictures), InputKind::Pictures) => {
                let cache = self.open_cache()?;
                pipeline::run(self, pictures, cache, progress)
            }
            (Inputs::Texts(texts), InputKind::Texts) => {
                let cache = self.open_cache()?;
                self.texts(texts, cache, progress)
            }
            (Inputs::Pictures(_), _) => Err(self.refuses("pictures")),
            (Inputs::Texts(_), _) => Err(self.refuses("text")),
        }
    }

    /// The error for features of another form (pictures, text, dense, sparse).
    pub fn refuses(&self, form: &str) -> Error {
        let takes = match self.loaded.backbone().input_kind() {
            InputKind::Pictures => "pictures",
            InputKind::Texts => "texts",
        };
        let name = &self.loaded.origin().backbone;
        Error::content(format!("the backbone {name} takes {takes}, not {form}"))
    }

    /// Bytes that a run takes at most beside the backbone: the rows of all items, files and
    /// pictures under way at their largest, inputs in queues.
    pub fn memory(&self, items: usize) -> u64 {
        let threads = rayon::current_num_threads() as u64;
        let backbone = self.loaded.backbone();
        let input = backbone
            .preprocessing()
            .map_or(backbone.width(), |preprocessing| preprocessing.values());
        let inputs = pipeline::inputs_under_way() as u64 * input as u64 * 4;
        let files = pipeline::files_under_way() as u64 * self.limits.bytes;
        let rows = items as u64 * backbone.width() as u64 * 4;
        rows + inputs + files + threads * self.limits.memory()
    }

    fn open_cache(&self) -> Result<Option<Cache>> {
        let Some(folder) = self.cache else { return Ok(None) };
        let path = folder.join(format!("{}.features", self.loaded.origin().digest));
        Cache::open(&path, self.loaded.backbone().width()).map(Some)
    }

    fn texts(
        &self,
        texts: &[&str],
        mut cache: Option<Cache>,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Extracted> {
        /// Texts between two writes to the cache.
        const BLOCK: usize = 256;
        let backbone = self.loaded.backbone();
        let width = backbone.width();
        let mut rows = vec![0.0; texts.len() * width];
        let mut missing = Vec::new();
        for item in 0..texts.len() {
            let row = &mut rows[item * width..(item + 1) * width];
            let key = xxh3_128(texts[item].as_bytes());
            if !cache.as_ref().is_some_and(|cache| cache.get(key, row)) {
                missing.push((item, key));
            }
        }
        let cached = texts.len() - missing.len();
        let mut done = cached;
        progress(done);
        for block in missing.chunks(BLOCK) {
            let few = |few: &[(usize, u128)]| {
                let few: Vec<&str> = few.iter().map(|&(item, _)| texts[item]).collect();
                backbone.texts(&few)
            };
            let found: Vec<Vec<f32>> = if backbone.is_single_threaded() {
                block.par_chunks(BATCH).map(few).collect::<Result<_>>()?
            } else {
                block.chunks(BATCH).map(few).collect::<Result<_>>()?
            };
            for (&(item, key), row) in block.iter().zip(found.concat().chunks_exact(width))
            {
                if !row.iter().all(|x| x.is_finite()) {
                    let text = texts[item];
                    return Err(Error::content(format!(
                        "the backbone gave a value that is no number for the text {text:?}"
                    )));
                }
                rows[item * width..(item + 1) * width].copy_from_slice(row);
                if let Some(cache) = &mut cache {
                    cache.push(key, row);
                }
            }
            if let Some(cache) = &mut cache {
                cache.flush()?;
            }
            done += block.len();
            progress(done);
        }
        Ok(Extracted {
            rows: Rows::new(width, rows)?,
            kept: (0..texts.len()).collect(),
            bad: Vec::new(),
            cached,
            waited: 0.0,
            notes: cache.iter().flat_map(Cache::notes).collect(),
        })
    }
}
