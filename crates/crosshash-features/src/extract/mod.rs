//! Feature extraction: runs a backbone over pictures or texts.
//!
//! ```text
//! reader -> files -> workers: hash, decode, preprocess -> inputs -> lanes: network -> rows, cache
//! ```
//!
//! Queues are bounded, and so is memory (see [`Extraction::memory`]). Features are cached
//! (`cache.rs`) in one file per backbone digest, keyed by the hash of the input file: a second run
//! only reads and hashes the files, and an interrupted run continues.

mod cache;
mod pipeline;

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_128;

pub use cache::Cache;

use crate::Pictures;
use crate::backbone::{InputKind, Loaded};
use crate::isolate::Decoder;
use crate::picture::Limits;
use crate::{Error, Result};

/// Maximum batch size.
const BATCH: usize = 8;
/// Without `skip_bad`, extraction stops after this many unreadable pictures.
const ENOUGH: usize = 20;

/// Settings of an extraction.
#[derive(Clone)]
pub struct Extraction<'a> {
    /// The backbone.
    pub loaded: &'a Loaded,
    /// Cache folder; `None` disables the cache.
    pub cache: Option<&'a Path>,
    /// Skip unreadable pictures instead of returning an error.
    pub skip_bad: bool,
    /// Size limits of pictures.
    pub limits: Limits,
    /// How pictures are decoded.
    pub decoder: Decoder,
    /// Clock in seconds, from any origin; the library does not read the clock itself.
    pub now: &'a (dyn Fn() -> f64 + Sync),
}

/// Inputs of an extraction.
#[derive(Debug, Clone, Copy)]
pub enum Inputs<'a> {
    /// Picture files.
    Pictures(&'a Pictures),
    /// Texts.
    Texts(&'a [&'a str]),
}

/// Feature matrix, one row per item.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    width: usize,
    values: Vec<f32>, // invariant: a multiple of width
}

impl Rows {
    fn new(width: usize, values: Vec<f32>) -> Result<Rows> {
        if width == 0 || !values.len().is_multiple_of(width) {
            return Err(Error::content(format!(
                "the backbone returned {} values, not a multiple of its width {width}",
                values.len()
            )));
        }
        Ok(Rows { width, values })
    }

    /// Number of features per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.width
    }

    /// Whether there are no rows.
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

/// Result of an extraction.
#[derive(Debug)]
pub struct Extracted {
    /// One row per item in `kept`.
    pub rows: Rows,
    /// Items that have a row, in order.
    pub kept: Vec<usize>,
    /// Pictures that could not be read.
    pub bad: Vec<Bad>,
    /// Number of rows from the cache.
    pub cached: usize,
    /// Fraction of time that the network threads waited for pictures.
    pub waited: f64,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// A picture that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bad {
    /// Path of the file.
    pub path: PathBuf,
    /// Reason.
    pub why: String,
}

impl<'a> Extraction<'a> {
    /// Default limits and decoder, no cache, no clock; unreadable pictures are an error.
    pub fn new(loaded: &'a Loaded) -> Extraction<'a> {
        let limits = Limits::default();
        let decoder = Decoder::default();
        Extraction { loaded, cache: None, skip_bad: false, limits, decoder, now: &|| 0.0 }
    }

    /// Extracts the features of all items. `progress` is called with the number of items done.
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
            (Inputs::Pictures(_), _) => Err(self.unsupported("pictures")),
            (Inputs::Texts(_), _) => Err(self.unsupported("text")),
        }
    }

    /// Error for inputs of an unsupported form (pictures, text, dense, sparse).
    pub fn unsupported(&self, form: &str) -> Error {
        let takes = match self.loaded.backbone().input_kind() {
            InputKind::Pictures => "pictures",
            InputKind::Texts => "texts",
        };
        let name = &self.loaded.feature_source().backbone;
        Error::content(format!("backbone {name} takes {takes}, not {form}"))
    }

    /// Maximum memory in bytes, without the backbone: rows of all items, files and pictures being
    /// processed at their maximum size, queued inputs.
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
        let path = folder.join(format!("{}.features", self.loaded.feature_source().digest));
        Cache::open(&path, self.loaded.backbone().width()).map(Some)
    }

    fn texts(
        &self,
        texts: &[&str],
        mut cache: Option<Cache>,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Extracted> {
        /// Texts per write to the cache.
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
            let encode = |part: &[(usize, u128)]| {
                let part: Vec<&str> = part.iter().map(|&(item, _)| texts[item]).collect();
                backbone.texts(&part)
            };
            let found: Vec<Vec<f32>> = if backbone.is_single_threaded() {
                block.par_chunks(BATCH).map(encode).collect::<Result<_>>()?
            } else {
                block.chunks(BATCH).map(encode).collect::<Result<_>>()?
            };
            for (&(item, key), row) in block.iter().zip(found.concat().chunks_exact(width))
            {
                if !row.iter().all(|x| x.is_finite()) {
                    let text = texts[item];
                    return Err(Error::content(format!(
                        "the backbone returned NaN or infinity for the text {text:?}"
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
