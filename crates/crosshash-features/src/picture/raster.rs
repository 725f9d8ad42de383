//! `Raster`: a small square picture, grey or RGB, 8 bits per channel.

use crate::{Error, Result};

/// A square picture; white is 255.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raster {
    size: usize,
    channels: usize,
    pixels: Vec<u8>, // invariant: size * size * channels, row by row
}

impl Raster {
    /// Creates a picture of `size` x `size` pixels with 1 or 3 channels.
    ///
    /// Panics if the number of values does not match.
    pub fn new(size: usize, channels: usize, pixels: Vec<u8>) -> Raster {
        assert!(channels == 1 || channels == 3, "expected 1 or 3 channels, not {channels}");
        assert_eq!(pixels.len(), size * size * channels, "wrong number of values");
        Raster { size, channels, pixels }
    }

    /// Side in pixels.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Number of channels: 1 or 3.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// All values, row by row.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Encodes the picture as PNG.
    pub fn to_png(&self) -> Result<Vec<u8>> {
        let fault = |err: png::EncodingError| {
            Error::content(format!("failed to encode PNG: {err}"))
        };
        let size = u32::try_from(self.size)
            .map_err(|_| Error::content("picture too large for PNG"))?;
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, size, size);
        encoder.set_color(match self.channels {
            1 => png::ColorType::Grayscale,
            _ => png::ColorType::Rgb,
        });
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(fault)?;
        writer.write_image_data(&self.pixels).map_err(fault)?;
        writer.finish().map_err(fault)?;
        Ok(file)
    }

    /// One channel resized to `size` x `size`, 0 to 1; each new pixel is the mean of the area
    /// it covers.
    pub fn channel(&self, channel: usize, size: usize) -> Vec<f32> {
        let spans: Vec<Vec<(usize, f32)>> =
            (0..size).map(|k| span(k, size, self.size)).collect();
        let mut out = Vec::with_capacity(size * size);
        for rows in &spans {
            for columns in &spans {
                let mut sum = 0.0;
                for &(y, height) in rows {
                    for &(x, width) in columns {
                        let value =
                            self.pixels[(y * self.size + x) * self.channels + channel];
                        sum += height * width * f32::from(value);
                    }
                }
                out.push(sum / 255.0);
            }
        }
        out
    }
}

/// Source pixels covered by target pixel `k`, with their weights.
fn span(k: usize, new: usize, old: usize) -> Vec<(usize, f32)> {
    // in units of 1/new of an old pixel
    let (start, end) = (k * old, (k + 1) * old);
    let under = start / new..end.div_ceil(new);
    let share = |x: usize| {
        let covered = end.min((x + 1) * new) - start.max(x * new);
        covered as f32 / old as f32
    };
    under.map(|x| (x, share(x))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resizing_keeps_the_mean() {
        let pixels: Vec<u8> = (0..9).map(|k| k * 28).collect();
        let mean = pixels.iter().map(|&p| f32::from(p) / 255.0).sum::<f32>() / 9.0;
        let raster = Raster::new(3, 1, pixels);
        for size in [1, 2, 3, 5, 7] {
            let small = raster.channel(0, size);
            let got = small.iter().sum::<f32>() / small.len() as f32;
            assert!((got - mean).abs() < 1e-6, "size {size}: {got}, not {mean}");
        }
    }

    #[test]
    fn halving_averages_four_pixels() {
        let raster = Raster::new(2, 3, vec![0, 9, 0, 255, 9, 0, 0, 9, 0, 255, 9, 0]);
        assert_eq!(raster.channel(0, 1), [0.5]);
        assert_eq!(raster.channel(0, 2), [0.0, 1.0, 0.0, 1.0]);
    }
}
