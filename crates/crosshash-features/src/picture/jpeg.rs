//! Decodes JPEG with `mozjpeg` (libjpeg-turbo's decoder), which networks were trained with.
//!
//! Decoders differ by a few grey levels in rounding and chroma upsampling, which changes features:
//! compared to Pillow, features of small photographs have a cosine similarity of 0.999 with
//! `zune-jpeg` and of 1.000000 with this decoder, whose pixels are identical.

use std::panic::{AssertUnwindSafe, catch_unwind};

use mozjpeg::{ColorSpace, Decompress};

use crate::{Error, Result};

/// Width, height, RGB values.
type Pixels = (usize, usize, Vec<u8>);

/// Decodes RGB pixels without applying the EXIF orientation; `None` for CMYK, which libjpeg does
/// not convert to RGB. `size` is that which was compared with the limits: another parser read it, which
/// may disagree about damaged files.
pub(super) fn rgb(bytes: &[u8], size: (usize, usize)) -> Result<Option<Pixels>> {
    if !is_whole(bytes) {
        return Err(damaged("the file is truncated"));
    }
    // The decoder reports errors by unwinding with a message.
    catch_unwind(AssertUnwindSafe(|| decoded(bytes, size))).unwrap_or_else(|payload| {
        let what = payload.downcast_ref::<String>();
        Err(damaged(what.map_or("the decoder failed", String::as_str)))
    })
}

fn decoded(bytes: &[u8], size: (usize, usize)) -> Result<Option<Pixels>> {
    let fault = |err: std::io::Error| damaged(&err.to_string());
    let decoder = Decompress::new_mem(bytes).map_err(fault)?;
    if decoder.size() != size {
        return Err(damaged("inconsistent sizes"));
    }
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
    Error::content(format!("damaged or invalid JPEG: {what}"))
}

/// Whether an end-of-image marker follows the last scan. The decoder would fill in the rest of a
/// truncated file; scan data never contains markers.
fn is_whole(bytes: &[u8]) -> bool {
    let last = |marker: u8| bytes.windows(2).rposition(|pair| pair == [0xff, marker]);
    last(0xd9) > last(0xda)
}
