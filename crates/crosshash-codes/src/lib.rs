//! Packed binary codes, multi-hot labels, Hamming kernels, code files, and retrieval
//! metrics that are right about ties.
//!
//! This crate is the ground floor of crosshash. It knows integers and slices, no tensors and
//! no method names, so that codes of any origin are judged by the same lines.

mod codes;
mod error;

mod labels;

pub mod write;

pub use codes::{BitOrder, Bits, Codes};
pub use error::{Error, Result};
pub use labels::Labels;
