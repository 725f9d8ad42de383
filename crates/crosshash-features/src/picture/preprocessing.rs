//! `Preprocessing`: how a picture is converted to the input of a network. It must match the
//! preprocessing that the network was trained with.
//!
//! In order: trim, resize and crop to a square, channels, then
//! `(value * scale - mean) / std` with values from 0 to 255.

use serde::{Deserialize, Serialize};

use super::Picture;
use super::resize::resize;
use crate::{Error, Result};

/// Of pictures with a larger ratio of the sides, [`Resize::ShortSide`] uses the middle.
const STRIP: usize = 64;

/// Preprocessing of a picture for a network.
///
/// ```
/// use crosshash_features::picture::{Picture, Preprocessing};
///
/// let preprocessing: Preprocessing = toml::from_str("size = 2\nmean = [127]\nstd = [128]").unwrap();
/// let grey = Picture::new(4, 4, vec![255; 48]);
/// let mut input = vec![0.0; preprocessing.values()];
/// preprocessing.apply(&grey, &mut input);
/// assert_eq!(input, [1.0; 12]); // three channels of 2 x 2
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Preprocessing {
    /// Side of the square input in pixels.
    pub size: usize,
    /// How a picture is resized to a square.
    #[serde(default)]
    pub resize: Resize,
    /// Trim white borders first.
    #[serde(default)]
    pub trim: bool,
    /// Resampling filter.
    #[serde(default)]
    pub filter: Filter,
    /// Colour channels.
    #[serde(default)]
    pub channels: Channels,
    /// Order of values.
    #[serde(default)]
    pub layout: Layout,
    /// Factor applied to values from 0 to 255.
    #[serde(default = "one")]
    pub scale: f32,
    /// Subtracted after scaling; one value, or one per channel.
    #[serde(default)]
    pub mean: Vec<f32>,
    /// Divisor after subtracting the mean; one value, or one per channel.
    #[serde(default)]
    pub std: Vec<f32>,
}

fn one() -> f32 {
    1.0
}

/// How a picture is resized to a square.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resize {
    /// Resize both sides to the size, ignoring the aspect ratio.
    #[default]
    Squash,
    /// Resize the shorter side to this many pixels, then crop the centre.
    ShortSide(usize),
    /// Resize the longer side to the size and pad the shorter with white.
    Fit,
}

/// Resampling filter; antialiased when a picture is reduced, as in Pillow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Filter {
    /// Area mean.
    Area,
    /// Bilinear.
    #[default]
    Bilinear,
    /// Bicubic (Catmull-Rom, as Pillow's).
    Bicubic,
    /// Lanczos with three lobes.
    Lanczos,
}

/// Colour channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Channels {
    /// Red, green, blue.
    #[default]
    Rgb,
    /// Blue, green, red.
    Bgr,
    /// Brightness.
    Grey,
    /// 255 minus brightness: dark strokes on white become bright strokes on black.
    Ink,
}

/// The order of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Channels x size x size.
    #[default]
    Planes,
    /// Size x size x channels.
    Pixels,
}

impl Channels {
    /// Number of channels.
    pub fn count(self) -> usize {
        match self {
            Channels::Rgb | Channels::Bgr => 3,
            Channels::Grey | Channels::Ink => 1,
        }
    }
}

impl Preprocessing {
    /// RGB, bilinear [`Resize::Squash`], no scaling.
    pub fn squash(size: usize) -> Preprocessing {
        Preprocessing {
            size,
            resize: Resize::Squash,
            trim: false,
            filter: Filter::Bilinear,
            channels: Channels::Rgb,
            layout: Layout::Planes,
            scale: 1.0,
            mean: Vec::new(),
            std: Vec::new(),
        }
    }

    /// Standard ImageNet preprocessing of torchvision and timm: shorter side to 256, centre crop
    /// of 224, mean and standard deviation of ImageNet.
    pub fn imagenet() -> Preprocessing {
        Preprocessing {
            resize: Resize::ShortSide(256),
            scale: 1.0 / 255.0,
            mean: vec![0.485, 0.456, 0.406],
            std: vec![0.229, 0.224, 0.225],
            ..Preprocessing::squash(224)
        }
    }

    /// Checks the settings.
    pub fn check(&self) -> Result<()> {
        let channels = self.channels.count();
        let bad = |what: String| Err(Error::content(format!("preprocessing: {what}")));
        if !(1..=4096).contains(&self.size) {
            return bad(format!("size must be 1 to 4096 pixels, not {}", self.size));
        }
        if let Resize::ShortSide(side) = self.resize
            && !(self.size..=8192).contains(&side)
        {
            return bad(format!(
                "short-side must be {} (size) to 8192 pixels, not {side}",
                self.size
            ));
        }
        for (name, values) in [("mean", &self.mean), ("std", &self.std)] {
            if values.len() > 1 && values.len() != channels {
                return bad(format!(
                    "{name} has {} values; expected one, or one per channel ({channels})",
                    values.len()
                ));
            }
        }
        let finite = self.mean.iter().chain(&self.std).chain([&self.scale]);
        if !finite.into_iter().all(|value| value.is_finite()) || self.std.contains(&0.0) {
            return bad("scale, mean and std must be finite, and std must not be 0".into());
        }
        Ok(())
    }

    /// Number of values per picture.
    pub fn values(&self) -> usize {
        self.channels.count() * self.size * self.size
    }

    /// Preprocesses a picture into `out`.
    ///
    /// Panics if the length of `out` is not [`values`](Preprocessing::values).
    pub fn apply(&self, picture: &Picture, out: &mut [f32]) {
        self.scale(&self.square(picture), out);
    }

    /// Converts the square input ([`square`](Preprocessing::square)) to numbers.
    ///
    /// Panics if the picture has another size, or the length of `out` is not
    /// [`values`](Preprocessing::values).
    pub fn scale(&self, square: &Picture, out: &mut [f32]) {
        assert_eq!(out.len(), self.values(), "wrong buffer size");
        assert_eq!((square.width(), square.height()), (self.size, self.size), "wrong size");
        let (area, channels) = (self.size * self.size, self.channels.count());
        let of = |values: &[f32], channel: usize, none: f32| match values {
            [] => none,
            [one] => *one,
            several => several[channel],
        };
        // pixel * factor + offset: one multiplication and one addition per value
        let scaling: Vec<(f32, f32)> = (0..channels)
            .map(|channel| {
                let std = of(&self.std, channel, 1.0);
                (self.scale / std, -of(&self.mean, channel, 0.0) / std)
            })
            .collect();
        for (at, pixel) in square.rgb().chunks_exact(3).enumerate() {
            let values = match self.channels {
                Channels::Rgb => [pixel[0], pixel[1], pixel[2]],
                Channels::Bgr => [pixel[2], pixel[1], pixel[0]],
                Channels::Grey => [grey(pixel), 0, 0],
                Channels::Ink => [255 - grey(pixel), 0, 0],
            };
            for (channel, (factor, offset)) in scaling.iter().enumerate() {
                let place = match self.layout {
                    Layout::Planes => channel * area + at,
                    Layout::Pixels => at * channels + channel,
                };
                out[place] = f32::from(values[channel]) * factor + offset;
            }
        }
    }

    /// Trims and resizes a picture to the square RGB input.
    pub fn square(&self, picture: &Picture) -> Picture {
        let trimmed;
        let picture = if self.trim {
            trimmed = picture.trimmed();
            &trimmed
        } else {
            picture
        };
        let (width, height) = (picture.width(), picture.height());
        match self.resize {
            Resize::Squash => resize(picture, self.size, self.size, self.filter),
            // A strip would be enlarged to gigapixels, of which only the centre is used.
            Resize::ShortSide(_) if width.max(height) > STRIP * width.min(height) => {
                let most = STRIP * width.min(height);
                let (across, down) = (width.min(most), height.min(most));
                let (left, top) = ((width - across) / 2, (height - down) / 2);
                self.square(&picture.crop(left, top, across, down))
            }
            Resize::ShortSide(short) => {
                let (across, down) = if width <= height {
                    (short, (short * height / width).max(short))
                } else {
                    ((short * width / height).max(short), short)
                };
                let resized = resize(picture, across, down, self.filter);
                let size = self.size;
                // Round half a pixel to even, as torchvision does.
                let middle = |side: usize| match side - size {
                    odd if odd % 4 == 3 => odd / 2 + 1,
                    rest => rest / 2,
                };
                resized.crop(middle(across), middle(down), size, size)
            }
            Resize::Fit => fit(picture, self.size, 0, self.filter),
        }
    }
}

/// Brightness, as in Pillow's mode L.
pub(crate) fn grey(pixel: &[u8]) -> u8 {
    let [r, g, b] = [0, 1, 2].map(|c| u32::from(pixel[c]));
    let value = (r * 19_595 + g * 38_470 + b * 7_471 + 0x8000) >> 16;
    u8::try_from(value).unwrap_or(255)
}

/// How a picture is fitted into a square for hand-crafted features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SquareFit {
    pub(crate) size: usize,
    pub(crate) margin: usize,
    /// Whether white borders are cut off before.
    pub(crate) trims: bool,
}

impl SquareFit {
    pub(crate) fn apply(&self, picture: &Picture) -> Picture {
        let SquareFit { size, margin, trims } = *self;
        if trims {
            fit(&picture.trimmed(), size, margin, Filter::Area)
        } else {
            fit(picture, size, margin, Filter::Area)
        }
    }
}

/// Fits a picture into the centre of a white square with a margin.
pub(crate) fn fit(
    picture: &Picture,
    size: usize,
    margin: usize,
    filter: Filter,
) -> Picture {
    let room = (size - 2 * margin).max(1);
    let (width, height) = (picture.width(), picture.height());
    let longer = width.max(height);
    let scaled = |side: usize| ((side * room + longer / 2) / longer).clamp(1, room);
    let (across, down) = (scaled(width), scaled(height));
    let small = resize(picture, across, down, filter);
    if (across, down) == (size, size) {
        return small;
    }
    let mut rgb = vec![255; size * size * 3];
    let (left, top) = ((size - across) / 2, (size - down) / 2);
    for (y, row) in small.rgb().chunks_exact(across * 3).enumerate() {
        let start = ((top + y) * size + left) * 3;
        rgb[start..start + row.len()].copy_from_slice(row);
    }
    Picture::new(size, size, rgb)
}
