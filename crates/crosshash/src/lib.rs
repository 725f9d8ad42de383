//! Cross-modal hashing: data, supervision, towers, losses, methods, training and encoding.
//!
//! The library never prints, never reads the clock or the environment, and opens only the
//! paths it is handed.
//!
//! From data to codes, on the data set that needs no files (the lessons in `examples/` go on from
//! here):
//!
//! ```
//! use crosshash::config::RawRun;
//! use crosshash::data::{self, Choice, Plan};
//! use crosshash::encode::encode;
//! use crosshash::train::{Trainer, unwatched};
//!
//! # fn main() -> crosshash::Result<()> {
//! let opened = data::open("emoji".as_ref(), None)?;
//! let plan = Plan { query: Some(Choice::Share(0.1)), ..Plan::default() };
//! let split = plan.draw(&opened.dataset)?;
//! let training = opened.dataset.training(&split);
//!
//! let settings = ["epochs=1", "bits=16", "hidden=16", "hidden_sparse=16"].map(String::from);
//! let run = RawRun::parse("", &settings)?.check()?;
//! let analysis = |name: &str| opened.analysis.get(name).cloned().unwrap_or_default();
//! let mut trainer = Trainer::new(&run, &training, &analysis)?;
//! while !trainer.is_done() {
//!     trainer.epoch(&mut unwatched)?;
//! }
//! let model = trainer.finish()?;
//!
//! let words = opened.dataset.queries(&split, "words")?;
//! let codes = encode(&model, "words", words.features(), &|_| {})?;
//! assert_eq!((codes.len(), codes.bits().get()), (words.len(), 16));
//! # Ok(())
//! # }
//! ```

mod algebra;
mod alpha;
pub mod backbone;
pub mod checkpoint;
pub mod config;
pub mod data;
mod device;
pub mod embed;
pub mod encode;
mod error;
pub mod evaluate;
pub mod extract;
pub mod kernel;
pub mod loss;
pub mod method;
mod model;
pub mod network;
pub mod optimise;
mod pixels;
pub mod prepare;
mod product;
#[cfg(test)]
mod proptests;
pub mod real;
mod sample;
pub mod supervise;
pub mod tower;
pub mod train;
mod tune;

pub use crosshash_features::picture;
pub use error::{Error, Place, Result};
pub use model::{MODEL_JSON, MODEL_WEIGHTS, Model};
