//! Packed binary codes, multi-hot labels, Hamming kernels, code files, and retrieval
//! metrics that are right about ties.
//!
//! This is the lowest crate of crosshash. It knows integers and slices, no tensors and no method
//! names, so that codes of any origin are evaluated by the same code.
//!
//! - [`Codes`], [`Labels`], [`Outputs`]: packed codes, multi-hot labels, real outputs as bytes;
//!   [`mod@format`] and [`exchange`]: files
//! - [`index`]: exact Hamming search over codes in memory
//! - [`segments`]: items with ids, labels and payloads, in memory
//!   ([`Snapshot::in_memory`](segments::Snapshot::in_memory)) or in a folder
//! - [`live`]: an index in a folder that is searched and changed by many threads
//! - [`eval`]: retrieval metrics
//!
//! ```
//! use crosshash_codes::eval::{evaluate, Options};
//! use crosshash_codes::{Bits, Codes, Labels};
//!
//! let bits = Bits::new(4)?;
//! let query = Codes::from_signs(bits, &[0.3, -0.1, 0.0, -2.0])?; // bits 1 0 1 0
//! let database = Codes::from_signs(bits, &[
//!     1.0, -1.0, 1.0, -1.0, // distance 0
//!     1.0, 1.0, 1.0, -1.0, // distance 1
//!     -1.0, 1.0, -1.0, 1.0, // distance 4
//! ])?;
//! let query_labels = Labels::from_indices(3, [[0_u32]])?;
//! let database_labels = Labels::from_indices(3, [[0_u32], [1], [0]])?;
//!
//! let report = evaluate(
//!     &query,
//!     &database,
//!     &query_labels,
//!     &database_labels,
//!     &Options::default(),
//!     &|_| {},
//! )?;
//! // relevant items stand at ranks 1 and 3: AP = (1/1 + 2/3) / 2
//! let map = report.mean_average_precision().unwrap();
//! assert!((map - 5.0 / 6.0).abs() < 1e-12);
//! # Ok::<(), crosshash_codes::Error>(())
//! ```

mod cancel;
mod codes;
mod error;
pub mod eval;
pub mod exchange;
pub mod format;
pub mod hex;
pub mod index;
pub mod kernel;
mod labels;
pub mod live;
mod map;
pub mod npy;
mod outputs;
#[cfg(test)]
mod proptests;
pub mod read;
mod sections;
pub mod segments;
pub mod write;

pub use cancel::Cancel;
pub use codes::{BitOrder, Bits, Codes};
pub use error::{Error, Result};
pub use labels::Labels;
pub use map::{MappedFile, survive_cut_files};
pub use outputs::Outputs;
