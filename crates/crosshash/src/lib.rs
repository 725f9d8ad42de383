//! Cross-modal hashing: data, supervision, towers, losses, methods, training and encoding.
//!
//! The library never prints, never reads the clock or the environment, and opens only the
//! paths it is handed.

mod alpha;
pub mod checkpoint;
pub mod config;
pub mod data;
pub mod encode;
mod error;
pub mod evaluate;
pub mod loss;
pub mod method;
mod model;
pub mod optimise;
pub mod prepare;
mod sample;
pub mod supervise;
pub mod tower;
pub mod train;

pub use error::{Error, Place, Result};
pub use model::{MODEL_JSON, MODEL_WEIGHTS, Model};
