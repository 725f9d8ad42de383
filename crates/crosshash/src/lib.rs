//! Cross-modal hashing: learns short binary codes for items of several modalities (pictures, texts,
//! sketches, ...), so that items with common labels have similar codes, whatever their modality.
//!
//! # Workflow
//!
//! | step | type |
//! |---|---|
//! | 1. Load features and labels | [`Dataset`]: [`Dataset::from_arrays`] or [`data::open`] (manifest) |
//! | 2. Extract features of pictures and texts, if necessary | [`featurize::FeatureExtractor`] |
//! | 3. Hold out queries and validation items | [`Split`], drawn by [`data::SplitSpec`] |
//! | 4. Configure and train | [`Config`], [`Config::fit`] |
//! | 5. Save the model, codes and reports | [`Model`], [`RunDir`] |
//! | 6. Encode data sets, or single queries | [`encode()`], [`QueryEncoder`] |
//! | 7. Evaluate and search | [`evaluate`], [`codes::index`], [`codes::segments`] |
//!
//! Queries cannot be used for training by mistake: a method receives a
//! [`Training`](data::Training), which has no access to them.
//!
//! The library does not print, does not read the clock or the environment, and opens only the paths
//! it is given. Progress callbacks are optional. The types are owned and can be sent to other threads.
//!
//! # Example
//!
//! From two arrays and labels to search results (`examples/00_quickstart.rs` reads them from files):
//!
//! ```
//! use crosshash::codes::Labels;
//! use crosshash::codes::index::{Index as _, Query, Scan};
//! use crosshash::data::{Selection, Dense, SplitSpec};
//! use crosshash::{Config, Dataset, Features, encode};
//!
//! # fn main() -> crosshash::Result<()> {
//! # let array = |shift: usize| Dense::from_floats(4, (0..160).map(|i| {
//! #     let on = (i / 4) % 2 == i % 2;
//! #     f32::from(u8::from(on)) + ((i + shift) as f32).sin() / 4.0
//! # }).collect());
//! let labels = Labels::from_indices(2, (0..40).map(|item| [item % 2]))?;
//! let image = Features::Dense(array(0)?); // or Features::read("image.npy")?
//! let text = Features::Dense(array(9)?);
//! let dataset = Dataset::from_arrays(&labels, [("image", image), ("text", text)])?;
//! let split = SplitSpec { query: Some(Selection::Share(0.2)), ..SplitSpec::default() }.draw(&dataset)?;
//!
//! let config = Config::parse("bits = 16\nhidden = 8\nepochs = 2\nvalidation = 0.0", &[])?;
//! let model = config.fit(&dataset.training(&split), &mut ())?.expect("not stopped").model;
//!
//! let (queries, database) = (dataset.queries(&split, "text")?, dataset.database(&split, "image")?);
//! let index = Scan::new(encode(&model, "image", database.features(), &|_| ())?)?;
//! let codes = encode(&model, "text", queries.features(), &|_| ())?;
//! let results = index.search(&codes, &Query::nearest(5), &|_| ())?;
//! println!("nearest image of the first text: {}", database.id(results[0][0].item as usize));
//! # assert_eq!((results.len(), results[0].len()), (queries.len(), 5));
//! # Ok(())
//! # }
//! ```
//!
//! To encode a sentence, a picture or a drawing with the model of a run, see [`QueryEncoder`]. Terms
//! such as tower and centre are explained in `docs/glossary.md`.

mod algebra;
pub mod backbone;
pub mod calibrate;
mod checkpoint;
mod complete;
pub mod config;
pub mod cosine_eval;
pub mod data;
mod device;
pub mod embed;
pub mod encode;
mod error;
pub mod evaluate;
pub mod extract;
pub mod featurize;
pub mod guess;
mod image_rows;
#[cfg(feature = "keywords")]
pub mod keywords;
mod loss;
pub mod method;
mod model;
pub mod network;
mod optimise;
#[cfg(feature = "parquet")]
pub mod parquet_codes;
pub mod payload;
pub mod prepare;
#[cfg(test)]
mod proptests;
mod query;
mod rbf;
mod rotation;
mod run_dir;
mod step_seed;
pub mod suggest;
pub mod supervise;
mod tower;
pub mod train;
mod typed_words;
mod user_eval;
mod weights;

pub use crosshash_codes as codes;
pub(crate) use crosshash_features::gemm;
pub use crosshash_features::{isolate, picture};

pub use complete::{CompleteProgress, FinishedTraining};
pub use config::Config;
pub use data::{Dataset, Features, Modality, Split};
pub use encode::{Encoder, encode};
pub use error::{Error, Place, Result};
pub use model::Model;
pub use query::{
    Drawing, EncodedQuery, NearCentre, QueryEncoder, QueryInput, QueryItems, QueryKind,
    QueryWords, UnknownWord,
};
pub use run_dir::{
    CodedModality, DirectionReport, FileStamp, FileState, HistoryTable, RunDir, RunReport,
    Subset, Suggestion,
};
pub use user_eval::add_user_metrics;
