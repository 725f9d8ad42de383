//! Decodes a picture to upright RGB within size limits, and preprocesses it for a network.
//!
//! | file | what |
//! |---|---|
//! | `format.rs` | format detection |
//! | `decode.rs` | PNG, WebP, GIF, BMP, TIFF (crate `image`) |
//! | `jpeg.rs` | JPEG (libjpeg-turbo's decoder) |
//! | `svg.rs` | SVG (crate `resvg`); its budgets in `svg/budget.rs` |
//! | `resize.rs` | resizing, compatible with Pillow |
//! | `raster.rs` | small square pictures, grey or RGB |
//! | `preprocessing.rs` | size, crop, channels and scaling for a network |
//!
//! Colour profiles are ignored: values are assumed to be sRGB, as in training pipelines.

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
pub(crate) use preprocessing::{SquareFit, grey};
pub use raster::Raster;

use crate::{Error, Result};

/// An RGB picture, upright, with transparency on white.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    width: usize,
    height: usize,
    rgb: Vec<u8>, // invariant: width * height * 3, row by row; neither side is 0
}

/// Pixels of the largest rendered SVG.
pub(crate) const MAX_SVG_PIXELS: u64 = 1024 * 1024;

/// Size limits of a picture, checked before memory is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// File size in bytes.
    pub bytes: u64,
    /// Width times height.
    pub pixels: u64,
    /// Longer side in pixels.
    pub side: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { bytes: 64 << 20, pixels: 100_000_000, side: 32_768 }
    }
}

impl Limits {
    /// Checks the size before decoding.
    pub(crate) fn check(&self, width: u64, height: u64) -> Result<()> {
        if width == 0 || height == 0 {
            return Err(Error::content(format!(
                "the picture is empty: {width} x {height} pixels"
            )));
        }
        let side = width.max(height);
        if side > u64::from(self.side) || width.saturating_mul(height) > self.pixels {
            return Err(Error::content(format!(
                "{width} x {height} pixels exceed the limit of {} per side and {} in total; \
                 reduce the picture",
                self.side, self.pixels
            )));
        }
        Ok(())
    }

    /// Maximum memory in bytes for decoding one picture: the file, four channels of 16 bits, and
    /// the RGB picture.
    pub fn memory(&self) -> u64 {
        self.bytes + self.pixels * (8 + 3)
    }
}

impl Picture {
    /// Creates a picture from RGB values, row by row.
    ///
    /// Panics if a side is 0 or the number of values is not `width * height * 3`.
    pub fn new(width: usize, height: usize, rgb: Vec<u8>) -> Picture {
        assert!(width > 0 && height > 0, "empty picture");
        assert_eq!(rgb.len(), width * height * 3, "wrong number of values");
        Picture { width, height, rgb }
    }

    /// Width in pixels.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Height in pixels.
    pub fn height(&self) -> usize {
        self.height
    }

    /// RGB values, row by row.
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// Trims white borders; an all-white picture is unchanged.
    #[must_use]
    pub fn trimmed(&self) -> Picture {
        // Scanned paper is not pure white, and JPEG has ringing artefacts.
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

    /// Scales down to at most `side` pixels per side; smaller pictures are unchanged.
    #[must_use]
    pub fn within(self, side: usize) -> Picture {
        let longer = self.width.max(self.height);
        if longer <= side {
            return self;
        }
        let scaled = |own: usize| (own * side / longer).clamp(1, side);
        let (across, down) = (scaled(self.width), scaled(self.height));
        resize::resize(&self, across, down, Filter::Bicubic)
    }

    /// Crops a rectangle.
    ///
    /// Panics if the rectangle exceeds the picture.
    #[must_use]
    pub fn crop(&self, left: usize, top: usize, width: usize, height: usize) -> Picture {
        let fits = left + width <= self.width && top + height <= self.height;
        assert!(fits, "crop exceeds the picture");
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

/// Decodes a file to 8-bit RGB: applies the EXIF orientation and blends transparency with white.
/// For animations, the first frame.
///
/// This decodes in the current process. Programs that decode files of others use a
/// [`Decoder`](crate::Decoder).
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Picture> {
    guarded(|| decode_unguarded(bytes, limits))
}

/// A panic in a decoder is reported as a damaged picture: files are untrusted.
pub(crate) fn guarded(work: impl FnOnce() -> Result<Picture>) -> Result<Picture> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Error::content("the decoder failed; the file is probably damaged"))
    })
}

/// Decodes a file; SVG in a thread with enough stack for its nesting.
pub(crate) fn decode_unguarded(bytes: &[u8], limits: &Limits) -> Result<Picture> {
    const STACK: usize = 32 << 20;
    if check_file(bytes, limits)? != Format::Svg {
        return decode_here(bytes, limits);
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let thread = thread.spawn_scoped(scope, || decode_here(bytes, limits))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Decodes a file with the stack of the current thread.
pub(crate) fn decode_here(bytes: &[u8], limits: &Limits) -> Result<Picture> {
    match check_file(bytes, limits)? {
        #[cfg(feature = "svg")]
        Format::Svg => svg::render(bytes),
        #[cfg(not(feature = "svg"))]
        Format::Svg => Err(Error::disabled("SVG is not supported", "svg")),
        format => decode::raster(bytes, format, limits),
    }
}

/// The format of a file whose size is within the limits.
pub(crate) fn check_file(bytes: &[u8], limits: &Limits) -> Result<Format> {
    let size = bytes.len() as u64;
    if size > limits.bytes {
        let most = limits.bytes;
        return Err(Error::content(format!(
            "file size of {size} bytes exceeds the limit of {most}"
        )));
    }
    Format::of(bytes)
}

#[cfg(test)]
mod tests;
