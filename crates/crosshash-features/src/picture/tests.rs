//! Tests of decoding and preprocessing.

use image::{DynamicImage, ImageFormat, RgbImage, RgbaImage};

use super::*;

/// Four quarters: red, green, blue, white.
fn quarters(size: u32) -> RgbImage {
    RgbImage::from_fn(size, size, |x, y| {
        let corner = (x < size / 2, y < size / 2);
        image::Rgb(match corner {
            (true, true) => [255, 0, 0],
            (false, true) => [0, 255, 0],
            (true, false) => [0, 0, 255],
            (false, false) => [255, 255, 255],
        })
    })
}

pub(crate) fn file(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

pub(crate) const SVG: &str = r#"<?xml version="1.0"?>
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 2 2">
<rect width="1" height="1" fill="red"/><rect x="1" width="1" height="1" fill="lime"/>
<rect y="1" width="1" height="1" fill="blue"/></svg>"#;

/// One file of every format, of the same picture.
pub(crate) fn every_format() -> Vec<(&'static str, Vec<u8>)> {
    let image = DynamicImage::from(quarters(32));
    let formats = [
        ("jpeg", ImageFormat::Jpeg),
        ("png", ImageFormat::Png),
        ("webp", ImageFormat::WebP),
        ("gif", ImageFormat::Gif),
        ("bmp", ImageFormat::Bmp),
        ("tiff", ImageFormat::Tiff),
    ];
    let mut files: Vec<_> =
        formats.map(|(name, format)| (name, file(&image, format))).into();
    files.push(("svg", SVG.into()));
    files
}

fn pixel(picture: &Picture, x: usize, y: usize) -> [i32; 3] {
    let start = (y * picture.width() + x) * 3;
    [0, 1, 2].map(|c| i32::from(picture.rgb()[start + c]))
}

#[test]
fn every_format_gives_the_same_picture() {
    for (name, bytes) in every_format() {
        let picture = decode(&bytes, &Limits::default()).unwrap();
        let quarter = picture.width() / 4;
        let corners = [(1, 1), (3, 1), (1, 3), (3, 3)];
        let wanted = [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]];
        for ((x, y), wanted) in corners.iter().zip(wanted) {
            let got = pixel(&picture, x * quarter, y * quarter);
            let off = got.iter().zip(wanted).map(|(a, b)| (a - b).abs()).max().unwrap();
            assert!(off <= 3, "{name} at {x}, {y}: {got:?}, not {wanted:?}");
        }
    }
}

#[test]
fn transparency_grey_and_16_bits_become_rgb() {
    let clear = RgbaImage::from_pixel(3, 2, image::Rgba([10, 20, 30, 0]));
    let picture = decode(&file(&clear.into(), ImageFormat::Png), &Limits::default());
    assert_eq!(picture.unwrap().rgb(), [255; 18]);
    let grey = DynamicImage::from(image::GrayImage::from_pixel(2, 1, image::Luma([77])));
    let picture = decode(&file(&grey, ImageFormat::Png), &Limits::default()).unwrap();
    assert_eq!(picture.rgb(), [77; 6]);
    let deep = image::ImageBuffer::from_pixel(1, 1, image::Rgb([0x1234_u16, 0xffff, 0]));
    let deep = DynamicImage::ImageRgb16(deep);
    let picture = decode(&file(&deep, ImageFormat::Png), &Limits::default()).unwrap();
    assert_eq!(picture.rgb(), [0x12, 0xff, 0]);
}

/// A JPEG file with this EXIF orientation.
fn held(orientation: u8) -> Vec<u8> {
    let image = RgbImage::from_fn(32, 16, |x, _| {
        image::Rgb(if x < 16 { [0; 3] } else { [255; 3] })
    });
    let plain = file(&image.into(), ImageFormat::Jpeg);
    let mut exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
    exif.extend([orientation, 0, 0, 0, 0, 0, 0]);
    let mut bytes = plain[..2].to_vec();
    bytes.extend([0xff, 0xe1, 0]);
    bytes.push(u8::try_from(exif.len() + 2).unwrap());
    bytes.extend(exif);
    bytes.extend(&plain[2..]);
    bytes
}

#[test]
fn pictures_are_upright() {
    let limits = Limits::default();
    let as_is = decode(&held(1), &limits).unwrap();
    assert_eq!((as_is.width(), as_is.height()), (32, 16));
    // 6: rotate by 90 degrees clockwise, so that the left side becomes the top
    let turned = decode(&held(6), &limits).unwrap();
    assert_eq!((turned.width(), turned.height()), (16, 32));
    assert!(pixel(&turned, 8, 4)[0] < 30 && pixel(&turned, 8, 28)[0] > 225);
    let upside_down = decode(&held(3), &limits).unwrap();
    assert!(pixel(&upside_down, 4, 8)[0] > 225 && pixel(&upside_down, 28, 8)[0] < 30);
}

#[test]
fn a_truncated_jpeg_is_rejected() {
    let whole = file(&quarters(64).into(), ImageFormat::Jpeg);
    assert!(decode(&whole, &Limits::default()).is_ok());
    for cut in [whole.len() - 1, whole.len() - 2, whole.len() / 2, 200, 20] {
        let err = decode(&whole[..cut], &Limits::default()).unwrap_err().to_string();
        assert!(err.starts_with("damaged or invalid JP"), "cut at {cut}: {err}");
    }
}

#[test]
fn a_jpeg_of_another_size_is_rejected_before_decoding() {
    let bytes = file(&quarters(64).into(), ImageFormat::Jpeg);
    assert!(jpeg::rgb(&bytes, (64, 64)).unwrap().is_some());
    let err = jpeg::rgb(&bytes, (64, 63)).unwrap_err().to_string();
    assert_eq!(err, "damaged or invalid JPEG: inconsistent sizes");
}

#[test]
fn limits_are_checked_before_decoding() {
    let image = DynamicImage::from(quarters(40));
    let limits = Limits { pixels: 1000, ..Limits::default() };
    for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::Bmp]
    {
        let err = decode(&file(&image, format), &limits).unwrap_err().to_string();
        assert!(err.starts_with("40 x 40 pixels exceed the limit"), "{err}");
    }
    let limits = Limits { bytes: 10, ..Limits::default() };
    let err = decode(&file(&image, ImageFormat::Png), &limits).unwrap_err().to_string();
    assert!(err.contains("exceeds the limit of 10"), "{err}");
    // A header that declares ten gigabytes.
    let mut huge = file(&image, ImageFormat::Png);
    huge[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
    let crc = crc32(&huge[12..29]);
    huge[29..33].copy_from_slice(&crc.to_be_bytes());
    let err = decode(&huge, &Limits::default()).unwrap_err().to_string();
    assert!(err.contains("60000 x 60000 pixels exceed"), "{err}");
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[test]
fn unsupported_formats_are_named() {
    let cases: [(&[u8], &str); 7] = [
        (b"", "the file is empty"),
        (b"%PDF-1.7 ....", "a PDF document"),
        (b"\0\0\0\x1cftypheic\0\0\0\0", "a HEIC picture"),
        (b"\0\0\0\x1cftypavif\0\0\0\0", "an AVIF picture"),
        (b"<!DOCTYPE html><html><svg></svg></html>", "a web page"),
        (b"hello, picture", "unknown format (it begins with hello, pictu)"),
        (b"version https://git-lfs.github.com/spec/v1", "a Git LFS pointer"),
    ];
    for (bytes, wanted) in cases {
        let err = decode(bytes, &Limits::default()).unwrap_err().to_string();
        assert!(err.contains(wanted), "{err}");
    }
}

#[test]
fn an_svg_reads_no_other_files_and_terminates() {
    let outside = r#"<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"
        xmlns:xlink="http://www.w3.org/1999/xlink">
        <image width="9" height="9" xlink:href="/etc/hostname.png"/></svg>"#;
    let picture = decode(outside.as_bytes(), &Limits::default()).unwrap();
    assert!(picture.rgb().iter().all(|&value| value == 255), "nothing is drawn");
    // ten uses of ten uses of ...
    let mut bomb = String::from(
        r#"<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"
        width="9" height="9"><defs><rect id="u0" width="1" height="1"/>"#,
    );
    for level in 1..12 {
        let below = format!("<use xlink:href=\"#u{}\"/>", level - 1).repeat(10);
        bomb += &format!("<g id=\"u{level}\">{below}</g>");
    }
    bomb += "</defs><use xlink:href=\"#u11\"/></svg>";
    assert!(decode(bomb.as_bytes(), &Limits::default()).is_err());
    let deep = "<g>".repeat(100_000);
    let deep = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\">{deep}");
    assert!(decode(deep.as_bytes(), &Limits::default()).is_err());
}

#[test]
fn preprocessing_squashes_crops_and_fits() {
    let wide = Picture::new(8, 4, {
        let row: Vec<u8> = (0..8).flat_map(|x| [x * 10; 3]).collect();
        row.repeat(4)
    });
    let squashed = Preprocessing { filter: Filter::Area, ..Preprocessing::squash(4) }
        .square(&wide)
        .rgb()
        .to_vec();
    assert_eq!(
        squashed[..12].iter().step_by(3).copied().collect::<Vec<_>>(),
        [5, 25, 45, 65]
    );
    let middle = Preprocessing { resize: Resize::ShortSide(4), ..Preprocessing::squash(2) };
    let cropped = middle.square(&wide);
    assert_eq!(cropped.rgb(), [[30, 30, 30, 40, 40, 40]; 2].concat());
    let fitted =
        Preprocessing { resize: Resize::Fit, ..Preprocessing::squash(8) }.square(&wide);
    assert_eq!(fitted.rgb()[..3 * 8 * 2], [255; 48]);
    assert_eq!(fitted.rgb()[3 * 8 * 2..][..3 * 8 * 4], *wide.rgb());
}

#[test]
fn channels_are_scaled_and_ordered() {
    let picture = Picture::new(1, 1, vec![200, 100, 50]);
    let numbers = |preprocessing: Preprocessing| {
        preprocessing.check().unwrap();
        let mut out = vec![0.0; preprocessing.values()];
        preprocessing.apply(&picture, &mut out);
        out
    };
    let preprocessing =
        Preprocessing { mean: vec![127.0], std: vec![128.0], ..Preprocessing::squash(1) };
    assert_eq!(
        numbers(preprocessing.clone()),
        [73.0 / 128.0, -27.0 / 128.0, -77.0 / 128.0]
    );
    let bgr = Preprocessing {
        channels: Channels::Bgr,
        mean: vec![1.0, 2.0, 3.0],
        ..preprocessing.clone()
    };
    assert_eq!(numbers(Preprocessing { std: vec![], ..bgr }), [49.0, 98.0, 197.0]);
    let grey = Preprocessing { channels: Channels::Grey, ..Preprocessing::squash(1) };
    assert_eq!(numbers(grey), [124.0]);
    let ink = Preprocessing { channels: Channels::Ink, ..Preprocessing::squash(1) };
    assert_eq!(numbers(ink), [131.0]);
    let pixels = Preprocessing { layout: Layout::Pixels, ..Preprocessing::squash(2) };
    assert_eq!(numbers(pixels)[..6], [200.0, 100.0, 50.0, 200.0, 100.0, 50.0]);
}

#[test]
fn invalid_preprocessing_is_rejected() {
    let wrong =
        |preprocessing: Preprocessing| preprocessing.check().unwrap_err().to_string();
    let base = || Preprocessing::squash(8);
    assert!(wrong(Preprocessing { size: 0, ..base() }).contains("size must be 1 to 4096"));
    let small = Preprocessing { resize: Resize::ShortSide(4), ..base() };
    assert!(wrong(small).contains("short-side must be 8 (size) to 8192 pixels, not 4"));
    let two = Preprocessing { mean: vec![1.0, 2.0], ..base() };
    assert!(wrong(two).contains("mean has 2 values"));
    let zero = Preprocessing { std: vec![0.0], ..base() };
    assert!(wrong(zero).contains("std must not be 0"));
}

#[test]
fn white_borders_are_trimmed() {
    let mut rgb = vec![255; 10 * 8 * 3];
    for (x, y) in [(3, 2), (6, 5)] {
        rgb[(y * 10 + x) * 3] = 0;
    }
    let trimmed = Picture::new(10, 8, rgb).trimmed();
    assert_eq!((trimmed.width(), trimmed.height()), (4, 4));
    assert_eq!(trimmed.rgb()[0], 0);
    let white = Picture::new(2, 2, vec![255; 12]);
    assert_eq!(white.trimmed(), white);
}

/// An animation of 1 x 1 pixel with alpha whose only frame is a lossy picture of 2 x 2: `image-webp` 0.2.4
/// indexes beyond the pixels (found by the fuzz target `pictures`).
#[test]
fn a_panic_of_a_decoder_is_an_error() {
    let lossy: &[u8] = b"VP8 \x24\0\0\0\x70\x01\0\x9d\x01\x2a\x02\0\x02\0\x0c\xc0\xce\x25\xa0\x02\x74\x01\x40\
        \0\0\xfe\xda\x26\x11\x86\x8d\x7e\x2e\xec\x47\x19\x24\0\0\0";
    let chunk = |name: &[u8], content: &[u8]| {
        let length = u32::try_from(content.len()).unwrap().to_le_bytes();
        [name, &length, content].concat()
    };
    let frame = [&[0; 12][..], &[100, 0, 0, 0], &chunk(b"ALPH", &[0, 255]), lossy].concat();
    let all = [
        b"WEBP".to_vec(),
        chunk(b"VP8X", &[0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        chunk(b"ANIM", &[0; 6]),
        chunk(b"ANMF", &frame),
    ];
    let bytes = chunk(b"RIFF", &all.concat());
    assert_eq!(bytes.len(), 122);
    let err = decode(&bytes, &Limits::default()).unwrap_err().to_string();
    assert_eq!(err, "the decoder failed; the file is probably damaged");
}

/// Valid files with flipped bits, inserted and truncated data: decoding may fail but not panic,
/// and sizes stay within the limits.
#[test]
fn damaged_files_never_panic() {
    use rand::{Rng as _, RngExt as _, SeedableRng as _};
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(7);
    let limits = Limits { pixels: 1 << 20, side: 4096, ..Limits::default() };
    let mut files = every_format();
    files.push(("held jpeg", held(5)));
    for (name, whole) in files {
        for _ in 0..250 {
            let mut bytes = whole.clone();
            for _ in 0..rng.random_range(1..6) {
                let at = rng.random_range(0..bytes.len());
                match rng.random_range(0..5) {
                    0 => bytes[at] ^= 1 << rng.random_range(0..8),
                    1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][rng.random_range(0..5)],
                    2 => bytes.truncate(at.max(1)),
                    3 => {
                        let end = (at + rng.random_range(1..9)).min(bytes.len());
                        rng.fill_bytes(&mut bytes[at..end]);
                    }
                    _ => {
                        let end = (at + rng.random_range(1..40)).min(bytes.len());
                        let piece = bytes[at..end].to_vec();
                        bytes.splice(at..at, piece);
                    }
                }
            }
            if let Ok(picture) = decode_unguarded(&bytes, &limits) {
                let (width, height) = (picture.width(), picture.height());
                assert!(width * height <= 1 << 20, "{name}: {width} x {height}");
            }
        }
    }
}
