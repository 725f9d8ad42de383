//! `Format`: detects the format of a file by its first bytes. File extensions are ignored.

use crate::{Error, Result};

/// Supported picture formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JPEG.
    Jpeg,
    /// PNG.
    Png,
    /// WebP.
    WebP,
    /// GIF.
    Gif,
    /// BMP.
    Bmp,
    /// TIFF.
    Tiff,
    /// SVG.
    Svg,
}

/// Magic bytes of supported formats.
const READ: &[(&[u8], Format)] = &[
    (b"\xff\xd8\xff", Format::Jpeg),
    (b"\x89PNG\r\n\x1a\n", Format::Png),
    (b"GIF87a", Format::Gif),
    (b"GIF89a", Format::Gif),
    (b"BM", Format::Bmp),
    (b"MM\0*", Format::Tiff),
    (b"II*\0", Format::Tiff),
];

/// Magic bytes of unsupported formats, for error messages.
const OTHERS: &[(&[u8], &str)] = &[
    (b"%PDF", "a PDF document"),
    (b"8BPS", "a Photoshop document"),
    (b"\xff\x0a", "a JPEG XL picture"),
    (b"\0\0\0\x0cJXL ", "a JPEG XL picture"),
    (b"\0\0\0\x0cjP  ", "a JPEG 2000 picture"),
    (b"\0\0\x01\0", "an icon (.ico)"),
    (b"\x76\x2f\x31\x01", "an OpenEXR picture"),
    (b"#?RADIANCE", "a Radiance picture (.hdr)"),
    (b"DDS ", "a DirectDraw texture (.dds)"),
    (b"qoif", "a QOI picture"),
    (b"\x1f\x8b", "a gzip file (possibly .svgz)"),
    (b"PK\x03\x04", "a zip file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"<!DOCTYPE html", "a web page"),
    (b"<html", "a web page"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself"),
];

impl Format {
    /// Detects the format; the error names unsupported formats if they are known.
    pub fn of(bytes: &[u8]) -> Result<Format> {
        if bytes.is_empty() {
            return Err(Error::content("the file is empty"));
        }
        if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
            return Ok(Format::WebP);
        }
        if let Some((_, format)) = READ.iter().find(|(start, _)| bytes.starts_with(start)) {
            return Ok(*format);
        }
        if is_svg(bytes) {
            return Ok(Format::Svg);
        }
        let what = match bytes.get(4..12) {
            Some(b"ftypavif" | b"ftypavis") => "an AVIF picture".to_owned(),
            Some(b"ftypheic" | b"ftypheix" | b"ftypmif1" | b"ftypmsf1") => {
                "a HEIC picture".to_owned()
            }
            Some([b'f', b't', b'y', b'p', ..]) => "a video (MP4, MOV)".to_owned(),
            _ => {
                let known = OTHERS.iter().find(|(start, _)| bytes.starts_with(start));
                let start = bytes[..bytes.len().min(12)].escape_ascii();
                known.map_or_else(
                    || format!("of an unknown format (it begins with {start})"),
                    |(_, what)| (*what).to_owned(),
                )
            }
        };
        Err(Error::content(format!(
            "the file is {what}; supported formats: JPEG, PNG, WebP, GIF, BMP, TIFF, SVG"
        )))
    }
}

/// Whether the file starts with an `svg` element, after declarations and comments.
fn is_svg(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(4096)];
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let opens = head.trim_ascii_start().starts_with(b"<");
    let names = |name: &[u8]| head.windows(name.len()).any(|at| at == name);
    opens && (names(b"<svg") || names(b":svg")) && !names(b"<html")
}
