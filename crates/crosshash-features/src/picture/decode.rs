//! Decodes raster formats with the `image` crate. For JPEG it reads only sizes and EXIF data; the
//! pixels are decoded in `jpeg.rs`.

use std::io::Cursor;

use image::{DynamicImage, ImageDecoder as _, ImageFormat, ImageReader, RgbImage};

use super::{Format, Limits, Picture, jpeg};
use crate::{Error, Result};

/// The most bytes that metadata before the pixels take: colour profiles, EXIF data, rows of a PNG.
const MAX_METADATA: u64 = 8 << 20;

pub(super) fn raster(bytes: &[u8], format: Format, limits: &Limits) -> Result<Picture> {
    let format = match format {
        Format::Jpeg => ImageFormat::Jpeg,
        Format::Png => ImageFormat::Png,
        Format::WebP => ImageFormat::WebP,
        Format::Gif => ImageFormat::Gif,
        Format::Bmp => ImageFormat::Bmp,
        Format::Tiff => ImageFormat::Tiff,
        Format::Svg => return Err(Error::content("SVG is not a raster format")),
    };
    let fault = |err: image::ImageError| {
        let name = format.extensions_str()[0].to_uppercase();
        Error::content(format!("damaged or invalid {name}: {err}"))
    };
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut most = image::Limits::default();
    most.max_image_width = Some(limits.side);
    most.max_image_height = Some(limits.side);
    most.max_alloc = Some(limits.memory());
    // The size is checked below, with our own error message, before pixels are decoded. What the
    // decoder reads before that, such as a compressed colour profile, is bounded here.
    let mut start = image::Limits::no_limits();
    start.max_alloc = Some(MAX_METADATA);
    reader.limits(start);
    let mut decoder = reader.into_decoder().map_err(fault)?;
    let (width, height) = decoder.dimensions();
    limits.check(u64::from(width), u64::from(height))?;
    decoder.set_limits(most).map_err(fault)?;
    let upright = decoder.orientation().map_err(fault)?;
    let pixels = match format {
        ImageFormat::Jpeg => jpeg::rgb(bytes, (width as usize, height as usize))?,
        _ => None,
    };
    let mut image = match pixels {
        None => DynamicImage::from_decoder(decoder).map_err(fault)?,
        Some((across, down, rgb)) => {
            let same = (across, down) == (width as usize, height as usize);
            let whole = RgbImage::from_raw(width, height, rgb).filter(|_| same);
            whole
                .ok_or_else(|| {
                    Error::content("damaged or invalid JPEG: inconsistent sizes")
                })?
                .into()
        }
    };
    image.apply_orientation(upright);
    let (width, height) = (image.width() as usize, image.height() as usize);
    let rgb = if image.color().has_alpha() {
        let rgba = image.into_rgba8().into_raw();
        rgba.chunks_exact(4).flat_map(|p| on_white([p[0], p[1], p[2]], p[3])).collect()
    } else {
        image.into_rgb8().into_raw()
    };
    Ok(Picture::new(width, height, rgb))
}

/// Blends a colour with white.
fn on_white(colour: [u8; 3], opacity: u8) -> [u8; 3] {
    let alpha = u32::from(opacity);
    let mix = |value: u8| (u32::from(value) * alpha + 255 * (255 - alpha)).div_ceil(255);
    colour.map(|value| u8::try_from(mix(value)).unwrap_or(255))
}
