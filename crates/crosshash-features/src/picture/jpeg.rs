//! JPEG, by `mozjpeg` (libjpeg-turbo's decoder): networks were trained on its pixels.
//!
//! Decoders differ by a few levels of grey in how they round the transform and spread colours,
//! and networks mind: with `zune-jpeg` the features of small photographs come to a cosine of
//! 0.999 to those behind Pillow, with this one to 1.000000, pixel for pixel the same.

use std::panic::{AssertUnwindSafe, catch_unwind};

use mozjpeg::{ColorSpace, Decompress};

use crate::{Error, Result};

/// Width, height, and red, green and blue of every pixel.
type Pixels = (usize, usize, Vec<u8>);

/// The pixels in RGB as they lie in the file; `None` for the colours of printers (CMYK), which
/// libjpeg does not turn into RGB.
pub(super) fn rgb(bytes: &[u8]) -> Result<Option<Pixels>> {
    if !is_whole(bytes) {
        return Err(damaged("the file ends too soon"));
    }
    // The decoder tells of damage by unwinding with its message, not by a panic.
    catch_unwind(AssertUnwindSafe(|| decoded(bytes))).unwrap_or_else(|told| {
        let what = told.downcast_ref::<String>();
        Err(damaged(what.map_or("its decoder gave up", String::as_str)))
    })
}

fn decoded(bytes: &[u8]) -> Result<Option<Pixels>> {
    let fault = |err: std::io::Error| damaged(&err.to_string());
    let decoder = Decompress::new_mem(bytes).map_err(fault)?;
    if matches!(decoder.color_space(), ColorSpace::JCS_CMYK | ColorSpace::JCS_YCCK) {
        return Ok(None);
    }
    let mut pixels = decoder.rgb().map_err(fault)?;
    let (width, height) = (pixels.width(), pixels.height());
    let rgb: Vec<u8> = pixels.read_scanlines().map_err(fault)?;
    pixels.finish().map_err(fault)?;
    if rgb.len() != width * height * 3 {
        return Err(damaged("rows are missing"));
    }
    Ok(Some((width, height, rgb)))
}

fn damaged(what: &str) -> Error {
    Error::content(format!("damaged or not quite JPEG: {what}"))
}

/// Whether the last scan is followed by the mark of the end. The decoder would make up the rest
/// of a file that was cut off; bytes of a scan never look like a mark.
fn is_whole(bytes: &[u8]) -> bool {
    let last = |mark: u8| bytes.windows(2).rposition(|pair| pair == [0xff, mark]);
    last(0xd9) > last(0xda)
}
