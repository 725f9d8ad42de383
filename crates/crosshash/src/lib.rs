//! Cross-modal hashing: data, supervision, towers, losses, methods, training and encoding.
//!
//! The library never prints, never reads the clock or the environment, and opens only the
//! paths it is handed.
//!
//! From data to codes, on the data set that needs no files (the lessons in `examples/` go on from
//! here):
//!
//! ```
//! use crosshash::Config;
//! use crosshash::data::{self, Selection, SplitSpec};
//! use crosshash::encode::encode;
//!
//! # fn main() -> crosshash::Result<()> {
//! let opened = data::open("emoji".as_ref(), None)?;
//! let plan = SplitSpec { query: Some(Selection::Share(0.1)), ..SplitSpec::default() };
//! let split = plan.draw(&opened.dataset)?;
//! let training = opened.dataset.training(&split);
//!
//! let config = Config::parse("epochs = 1\nbits = 16\nhidden = 16\nhidden_sparse = 16", &[])?;
//! let model = config.fit(&training, &mut ())?.expect("nothing stops it").model;
//!
//! let words = opened.dataset.queries(&split, "words")?;
//! let codes = encode(&model, "words", words.features(), &|_| {})?;
//! assert_eq!((codes.len(), codes.bits().get()), (words.len(), 16));
//! # Ok(())
//! # }
//! ```

mod algebra;
pub mod backbone;
mod checkpoint;
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
mod gemm;
mod image_rows;
mod loss;
pub mod method;
mod model;
pub mod network;
mod optimise;
pub mod prepare;
#[cfg(test)]
mod proptests;
mod query;
mod rbf;
mod run_dir;
pub mod supervise;
mod tower;
pub mod train;

pub use crosshash_codes as codes;

pub use config::Config;
pub use crosshash_features::picture;

pub use data::{Dataset, Features, Modality, Split};
pub use encode::{Encoder, encode};
pub use error::{Error, Place, Result};
pub use model::Model;
pub use query::{
    Drawing, EncodedQuery, NearCentre, QueryEncoder, QueryInput, QueryItems, QueryKind,
};
pub use run_dir::{
    CodedModality, DirectionReport, FileStamp, HistoryTable, RunDir, RunReport, Subset,
};
