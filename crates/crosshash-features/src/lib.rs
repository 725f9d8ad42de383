//! From pictures and texts to feature rows.
//!
//! | module | content |
//! |---|---|
//! | [`picture`] | decoding within limits, resizing, preprocessing for a network |
//! | [`pictures`] | lists of picture files in folders and archives |
//! | [`descriptor`] | hand-made features of small pictures |
//! | [`backbone`] | networks that turn pictures or texts into rows; ONNX runtimes |
//! | [`extract`] | many files through a backbone, in parallel, with a cache |
//!
//! Nothing here is trained, and nothing knows data sets or hashing. The library never prints, never
//! reads the clock or the environment, and opens only the paths it is given.

pub mod backbone;
pub mod descriptor;
mod error;
pub mod extract;
pub mod picture;
pub mod pictures;

pub use error::{Error, Result};
pub use picture::Raster;
pub use pictures::{PicturePlace, Pictures};
