//! Thumbnails, and media types of picture files.

use std::io::Cursor;

use anyhow::{Context as _, Result};
use crosshash::isolate::Decoder;
use crosshash::picture::{Format, Limits, Picture};
use crosshash_codes::Cancel;
use image::codecs::jpeg::JpegEncoder;
use image::{ImageFormat, RgbImage};

/// Maximum pixels of a picture that is uploaded or shown. Decoding takes up to eleven bytes per
/// pixel.
const MAX_PIXELS: u64 = 50_000_000;
/// JPEG quality of thumbnails.
const QUALITY: u8 = 85;

/// The limits for decoding.
pub(crate) fn limits() -> Limits {
    Limits { pixels: MAX_PIXELS, ..Limits::default() }
}

/// Rejects a picture that cannot be decoded.
pub(crate) fn check(file: &[u8], cancel: &Cancel) -> Result<()> {
    const SIDE: usize = 32;
    Decoder::default().decode_within(file, &limits(), SIDE, cancel)?;
    Ok(())
}

/// The media type of a picture file by its first bytes; other files than pictures that browsers
/// show are `application/octet-stream`.
pub(crate) fn media_type(bytes: &[u8]) -> &'static str {
    match Format::of(bytes) {
        Ok(Format::Png) => "image/png",
        Ok(Format::Jpeg) => "image/jpeg",
        Ok(Format::Gif) => "image/gif",
        Ok(Format::WebP) => "image/webp",
        _ => "application/octet-stream",
    }
}

/// The file itself, if all browsers show its format and it cannot contain scripts; otherwise the
/// picture as PNG.
pub(crate) fn plain(file: Vec<u8>, cancel: &Cancel) -> Result<Vec<u8>> {
    if media_type(&file) != "application/octet-stream" {
        return Ok(file);
    }
    let rgb = rgb(Decoder::default().decode(&file, &limits(), cancel)?)?;
    written(&rgb, ImageFormat::Png)
}

/// A picture of at most `size` pixels per side; files of smaller pictures are unchanged.
pub(crate) fn make(file: Vec<u8>, size: u32, cancel: &Cancel) -> Result<Vec<u8>> {
    let side = size as usize;
    let small = Decoder::default().decode_within(&file, &limits(), side, cancel)?;
    if small.width().max(small.height()) < side {
        return plain(file, cancel);
    }
    let small = rgb(small)?;
    match Format::of(&file) {
        Ok(Format::Jpeg) => {
            let mut out = Vec::new();
            JpegEncoder::new_with_quality(&mut out, QUALITY).encode_image(&small)?;
            Ok(out)
        }
        _ => written(&small, ImageFormat::Png),
    }
}

fn rgb(picture: Picture) -> Result<RgbImage> {
    let (width, height) = (picture.width(), picture.height());
    let image =
        RgbImage::from_raw(width.try_into()?, height.try_into()?, picture.rgb().to_vec());
    image.context("the picture has another size")
}

fn written(image: &RgbImage, format: ImageFormat) -> Result<Vec<u8>> {
    let mut out = Cursor::new(Vec::new());
    image.write_to(&mut out, format)?;
    Ok(out.into_inner())
}

#[cfg(test)]
mod tests {
    use crosshash::picture;

    use super::*;

    #[test]
    fn thumbnails_keep_aspect_ratio_and_format() {
        let image = RgbImage::from_fn(300, 100, |x, _| {
            image::Rgb([u8::try_from(x % 256).unwrap(), 0, 0])
        });
        for format in [ImageFormat::Png, ImageFormat::Jpeg] {
            let file = written(&image, format).unwrap();
            let cancel = Cancel::default();
            let small = make(file.clone(), 60, &cancel).unwrap();
            assert_eq!(media_type(&small), media_type(&file));
            let small = picture::decode(&small, &limits()).unwrap();
            assert_eq!((small.width(), small.height()), (60, 20));
            assert_eq!(make(file.clone(), 301, &cancel).unwrap(), file, "never larger");
        }
        let svg =
            b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>".to_vec();
        assert_eq!(
            media_type(&plain(svg, &Cancel::default()).unwrap()),
            "image/png",
            "no scripts"
        );
    }
}
