//! Cross-modal hashing: data, supervision, towers, losses, methods, training and encoding.
//!
//! The library never prints, never reads the clock or the environment, and opens only the
//! paths it is handed.

pub mod data;
mod error;
pub mod supervise;

pub use error::{Error, Place, Result};
