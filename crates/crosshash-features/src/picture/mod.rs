//! One picture: decoded upright in RGB within limits, and made into what a network takes.
//!
//! | file | what |
//! |---|---|
//! | `format.rs` | what the first bytes say a file is |
//! | `decode.rs` | PNG, WebP, GIF, BMP, TIFF, by the `image` crate |
//! | `jpeg.rs` | JPEG, by libjpeg-turbo's decoder |
//! | `svg.rs` | drawings in SVG, by `resvg` |
//! | `resize.rs` | other sizes, as Pillow makes them |
//! | `raster.rs` | small square pictures, grey or RGB |
//! | `preprocessing.rs` | size, crop, channels and scaling that a network was trained with |
//!
//! Colour profiles are not applied: numbers are taken for sRGB, as training pipelines do.

mod decode;
mod format;
mod jpeg;
mod preprocessing;
mod raster;
mod resize;
#[cfg(feature = "svg")]
mod svg;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use format::Format;
pub use preprocessing::{Channels, Filter, Layout, Preprocessing, Resize};
pub(crate) use preprocessing::{fit, grey};
pub use raster::Raster;

use crate::{Error, Result};

/// A picture in RGB, upright, on white.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    width: usize,
    height: usize,
    rgb: Vec<u8>, // invariant: width * height * 3, row by row; neither side is 0
}

/// How large a picture may be. Checked before memory is taken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of its file, in bytes.
    pub bytes: u64,
    /// Width times height.
    pub pixels: u64,
    /// Of its longer side.
    pub side: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { bytes: 64 << 20, pixels: 100_000_000, side: 32_768 }
    }
}

impl Limits {
    /// Refuses a size before anything is decoded.
    pub(crate) fn check(&self, width: u64, height: u64) -> Result<()> {
        if width == 0 || height == 0 {
            return Err(Error::content(format!("{width} x {height} pixels: it is empty")));
        }
        let side = width.max(height);
        if side > u64::from(self.side) || width.saturating_mul(height) > self.pixels {
            return Err(Error::content(format!(
                "{width} x {height} pixels are beyond the limit of {} a side and {} in all; \
                 make it smaller",
                self.side, self.pixels
            )));
        }
        Ok(())
    }

    /// Bytes that decoding one picture may take at most: its file, 16 bits of four channels,
    /// and the picture in RGB.
    pub fn memory(&self) -> u64 {
        self.bytes + self.pixels * (8 + 3)
    }
}

impl Picture {
    /// A picture of RGB values, row by row.
    ///
    /// Panics if there are not `width * height * 3` of them, or none.
    pub fn new(width: usize, height: usize, rgb: Vec<u8>) -> Picture {
        assert!(width > 0 && height > 0, "an empty picture");
        assert_eq!(rgb.len(), width * height * 3, "values of another size");
        Picture { width, height, rgb }
    }

    /// Pixels across.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Pixels down.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Red, green and blue of every pixel, row by row.
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// Without the white around it; a white picture stays as it is.
    #[must_use]
    pub fn trimmed(&self) -> Picture {
        // Paper is seldom quite white, and JPEG rings.
        const WHITE: u8 = 240;
        let inked = |pixel: &[u8]| pixel.iter().any(|&value| value < WHITE);
        let (mut left, mut right, mut top, mut bottom) = (self.width, 0, self.height, 0);
        for (y, row) in self.rgb.chunks_exact(self.width * 3).enumerate() {
            let mut pixels = row.chunks_exact(3);
            if let Some(first) = pixels.position(inked) {
                let last = row.chunks_exact(3).rposition(inked).unwrap_or(first);
                (left, right) = (left.min(first), right.max(last + 1));
                (top, bottom) = (top.min(y), y + 1);
            }
        }
        if right > left {
            self.crop(left, top, right - left, bottom - top)
        } else {
            self.clone()
        }
    }

    /// A part of it.
    ///
    /// Panics if the part reaches beyond the picture.
    #[must_use]
    pub fn crop(&self, left: usize, top: usize, width: usize, height: usize) -> Picture {
        let fits = left + width <= self.width && top + height <= self.height;
        assert!(fits, "a part beyond the picture");
        let rows = self.rgb.chunks_exact(self.width * 3).skip(top).take(height);
        let rgb = rows.flat_map(|row| &row[left * 3..(left + width) * 3]).copied();
        Picture::new(width, height, rgb.collect())
    }
}

impl std::fmt::Debug for Picture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Picture({} x {})", self.width, self.height)
    }
}

/// Decodes a file: upright as its EXIF data say, transparency on white, 8 bits of RGB. Of
/// moving pictures the first frame.
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Picture> {
    // Files come from strangers and decoders are others' work: a slip there is a damaged
    // picture, not the end of the program.
    catch_unwind(AssertUnwindSafe(|| decode_plainly(bytes, limits))).unwrap_or_else(|_| {
        Err(Error::content("its decoder gave up; the file is likely to be damaged"))
    })
}

fn decode_plainly(bytes: &[u8], limits: &Limits) -> Result<Picture> {
    let size = bytes.len() as u64;
    if size > limits.bytes {
        let most = limits.bytes;
        return Err(Error::content(format!(
            "a file of {size} bytes is beyond the limit of {most}"
        )));
    }
    match Format::of(bytes)? {
        #[cfg(feature = "svg")]
        Format::Svg => svg::render(bytes),
        #[cfg(not(feature = "svg"))]
        Format::Svg => Err(Error::disabled("SVG is not decoded", "svg")),
        format => decode::raster(bytes, format, limits),
    }
}

#[cfg(test)]
mod tests;
