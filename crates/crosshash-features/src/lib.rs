//! Feature extraction from pictures and texts.
//!
//! | module | content |
//! |---|---|
//! | [`picture`] | decoding within limits, resizing, preprocessing for a network |
//! | [`pictures`] | lists of picture files in folders and archives |
//! | [`descriptor`] | hand-crafted features of small pictures |
//! | [`backbone`] | pretrained networks for pictures or texts; ONNX runtimes |
//! | [`gemm`] | matrix products of native networks |
//! | [`extract`] | parallel extraction over many files, with a cache |
//! | [`isolate`] | decoding of untrusted pictures in worker processes |
//!
//! Nothing here is trained, and nothing depends on data sets or hashing. The library never prints,
//! never reads the clock (except for the time limit of worker processes) or the environment, and
//! opens only the paths passed to it.

pub mod backbone;
pub mod descriptor;
mod error;
pub mod extract;
pub mod gemm;
pub mod isolate;
pub mod picture;
pub mod pictures;

pub use error::{Error, Result};
pub use isolate::Decoder;
pub use picture::Raster;
pub use pictures::{PicturePlace, Pictures};
