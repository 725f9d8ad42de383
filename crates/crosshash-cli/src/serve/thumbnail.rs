//! Small pictures of large ones, and what kind of file a picture is.

use std::io::Cursor;

use anyhow::{Context as _, Result, bail};
use crosshash::picture::{self, Format, Limits, Picture};
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::{ImageFormat, ImageReader, RgbImage};

/// Pixels of a picture that is sent or shown, at most: a photograph of a good camera. Decoding
/// may take eleven bytes for each.
const MOST: u64 = 50_000_000;
/// Of thumbnails of photographs.
const QUALITY: u8 = 85;

/// What is decoded here.
fn limits() -> Limits {
    Limits { pixels: MOST, ..Limits::default() }
}

/// Refuses a picture that is too large before anything is decoded.
pub(crate) fn check_size(file: &[u8]) -> Result<()> {
    if Format::of(file)? == Format::Svg {
        return Ok(()); // drawn at a size of our choice
    }
    let size = ImageReader::new(Cursor::new(file)).with_guessed_format()?.into_dimensions();
    let (width, height) =
        size.context("damaged, or not quite the format it seems to be")?;
    if u64::from(width) * u64::from(height) > MOST {
        bail!("{width} x {height} pixels are beyond the limit of {MOST}; make it smaller");
    }
    Ok(())
}

/// The type of a picture's file by its first bytes; what is not known as a picture that browsers
/// show is not called one.
pub(crate) fn media_type(bytes: &[u8]) -> &'static str {
    match Format::of(bytes) {
        Ok(Format::Png) => "image/png",
        Ok(Format::Jpeg) => "image/jpeg",
        Ok(Format::Gif) => "image/gif",
        Ok(Format::WebP) => "image/webp",
        _ => "application/octet-stream",
    }
}

/// The file, if it is of a kind that all browsers show and that runs nothing; else the picture
/// drawn anew.
pub(crate) fn plain(file: Vec<u8>) -> Result<Vec<u8>> {
    if media_type(&file) != "application/octet-stream" {
        return Ok(file);
    }
    let rgb = rgb(picture::decode(&file, &limits())?)?;
    written(&rgb, ImageFormat::Png)
}

/// A picture of at most `size` pixels a side; never larger than it was.
pub(crate) fn make(file: Vec<u8>, size: u32) -> Result<Vec<u8>> {
    let decoded = picture::decode(&file, &limits())?;
    if decoded.width().max(decoded.height()) <= size as usize {
        return plain(file);
    }
    let rgb = rgb(decoded)?;
    let (width, height) = rgb.dimensions();
    let longer = u64::from(width.max(height));
    let side = |side: u32| {
        u32::try_from(u64::from(side) * u64::from(size) / longer).unwrap_or(size).max(1)
    };
    let small =
        image::imageops::resize(&rgb, side(width), side(height), FilterType::CatmullRom);
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
    image.context("a picture of another size")
}

fn written(image: &RgbImage, format: ImageFormat) -> Result<Vec<u8>> {
    let mut out = Cursor::new(Vec::new());
    image.write_to(&mut out, format)?;
    Ok(out.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thumbnails_keep_their_shape_and_kind() {
        let image = RgbImage::from_fn(300, 100, |x, _| {
            image::Rgb([u8::try_from(x % 256).unwrap(), 0, 0])
        });
        for format in [ImageFormat::Png, ImageFormat::Jpeg] {
            let file = written(&image, format).unwrap();
            let small = make(file.clone(), 60).unwrap();
            assert_eq!(media_type(&small), media_type(&file));
            let small = picture::decode(&small, &limits()).unwrap();
            assert_eq!((small.width(), small.height()), (60, 20));
            assert_eq!(make(file.clone(), 300).unwrap(), file, "never larger");
        }
        let svg =
            b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>".to_vec();
        assert_eq!(media_type(&plain(svg).unwrap()), "image/png", "nothing that could run");
    }
}
