//! `Preprocessing`: what is done to a picture before a network sees it. It belongs to the weights: a
//! network that was trained on squashed pictures wants them squashed.
//!
//! In order: trim, resize and crop to a square, channels, then
//! `(value * scale - mean) / std` with values from 0 to 255.

use serde::{Deserialize, Serialize};

use super::Picture;
use super::resize::resize;
use crate::{Error, Result};

/// From a picture to the input of a network.
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
    /// Pixels a side of the square input.
    pub size: usize,
    /// How a picture becomes a square.
    #[serde(default)]
    pub resize: Resize,
    /// Cut off the white around a drawing first.
    #[serde(default)]
    pub trim: bool,
    /// How pixels are weighed.
    #[serde(default)]
    pub filter: Filter,
    /// What a pixel consists of.
    #[serde(default)]
    pub channels: Channels,
    /// Planes one after another, or pixels.
    #[serde(default)]
    pub layout: Layout,
    /// Factor of values from 0 to 255.
    #[serde(default = "one")]
    pub scale: f32,
    /// Taken off then; one value, or one a channel.
    #[serde(default)]
    pub mean: Vec<f32>,
    /// Divided by then; one value, or one a channel.
    #[serde(default)]
    pub std: Vec<f32>,
}

fn one() -> f32 {
    1.0
}

/// How a picture becomes a square.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resize {
    /// Both sides to the size, whatever they were.
    #[default]
    Squash,
    /// The shorter side to so many pixels, then the square in the middle.
    ShortSide(usize),
    /// The longer side to the size, white beside the shorter.
    Fit,
}

/// How pixels are weighed; when a picture shrinks, over all that fall into one (as Pillow does).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Filter {
    /// The mean of the area.
    Area,
    /// Bilinear.
    #[default]
    Bilinear,
    /// Bicubic (Catmull-Rom, as Pillow's).
    Bicubic,
    /// Lanczos of three lobes.
    Lanczos,
}

/// What a pixel consists of.
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
    /// 255 minus brightness: dark strokes on white become bright ones on black.
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
    /// How many.
    pub fn count(self) -> usize {
        match self {
            Channels::Rgb | Channels::Bgr => 3,
            Channels::Grey | Channels::Ink => 1,
        }
    }
}

impl Preprocessing {
    /// RGB squashed to a square by bilinear weights, values as they are.
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

    /// The preprocessing of most networks trained on ImageNet, torchvision's and timm's: shorter side to
    /// 256, the middle 224, the mean and deviation of ImageNet.
    pub fn imagenet() -> Preprocessing {
        Preprocessing {
            resize: Resize::ShortSide(256),
            scale: 1.0 / 255.0,
            mean: vec![0.485, 0.456, 0.406],
            std: vec![0.229, 0.224, 0.225],
            ..Preprocessing::squash(224)
        }
    }

    /// Refuses what cannot be done.
    pub fn check(&self) -> Result<()> {
        let channels = self.channels.count();
        let bad = |what: String| Err(Error::content(format!("preprocessing: {what}")));
        if !(1..=4096).contains(&self.size) {
            return bad(format!("size is 1 to 4096 pixels, not {}", self.size));
        }
        if let Resize::ShortSide(side) = self.resize
            && !(self.size..=8192).contains(&side)
        {
            return bad(format!(
                "short-side is {} (size) to 8192 pixels, not {side}",
                self.size
            ));
        }
        for (name, values) in [("mean", &self.mean), ("std", &self.std)] {
            if values.len() > 1 && values.len() != channels {
                return bad(format!(
                    "{name} has {} values; give one, or one for each of {channels} channels",
                    values.len()
                ));
            }
        }
        let finite = self.mean.iter().chain(&self.std).chain([&self.scale]);
        if !finite.into_iter().all(|value| value.is_finite()) || self.std.contains(&0.0) {
            return bad("scale, mean and std are finite numbers, and std is not 0".into());
        }
        Ok(())
    }

    /// How many numbers a picture becomes.
    pub fn values(&self) -> usize {
        self.channels.count() * self.size * self.size
    }

    /// The numbers of a picture.
    ///
    /// Panics if `out` is of another length than [`values`](Preprocessing::values).
    pub fn apply(&self, picture: &Picture, out: &mut [f32]) {
        assert_eq!(out.len(), self.values(), "buffer of another size");
        let square = self.square(picture);
        let (area, channels) = (self.size * self.size, self.channels.count());
        let of = |values: &[f32], channel: usize, none: f32| match values {
            [] => none,
            [one] => *one,
            several => several[channel],
        };
        // pixel * factor + offset, one multiplication and one addition a value
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

    /// The square that the network sees, in colour.
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
            Resize::ShortSide(short) => {
                let (across, down) = if width <= height {
                    (short, (short * height / width).max(short))
                } else {
                    ((short * width / height).max(short), short)
                };
                let resized = resize(picture, across, down, self.filter);
                let size = self.size;
                // torchvision rounds half a pixel to even; so does this
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

/// Brightness, as Pillow's mode L.
pub(crate) fn grey(pixel: &[u8]) -> u8 {
    let [r, g, b] = [0, 1, 2].map(|c| u32::from(pixel[c]));
    let value = (r * 19_595 + g * 38_470 + b * 7_471 + 0x8000) >> 16;
    u8::try_from(value).unwrap_or(255)
}

/// A picture in the middle of a white square, with a margin.
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
