//! Resizing, compatible with Pillow, which networks were trained with: differences of one grey level
//! change their features (cosine 0.9998).
//!
//! The arithmetic is identical to Pillow's: 22-bit weights, first horizontally, then vertically, with
//! 8-bit intermediate values. Large pictures use `fast_image_resize`, which is several times faster
//! but rounds differently; this matters least where a pixel is the mean of many.

use std::f64::consts::PI;

use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8x3;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};

use super::{Filter, Picture};

/// Pictures with more pixels use `fast_image_resize`.
const LARGE: usize = 1 << 20;

/// Resizes a picture; returns a copy if it already has that size.
pub(super) fn resize(
    picture: &Picture,
    width: usize,
    height: usize,
    filter: Filter,
) -> Picture {
    let old = [picture.width(), picture.height()];
    if old == [width, height] {
        return picture.clone();
    }
    let rgb = if old[0] * old[1] > LARGE {
        fast(picture, width, height, filter)
    } else {
        convolve(picture.rgb(), old, [width, height], filter)
    };
    Picture::new(width, height, rgb)
}

fn fast(picture: &Picture, width: usize, height: usize, filter: Filter) -> Vec<u8> {
    let filter = match filter {
        Filter::Area => FilterType::Box,
        Filter::Bilinear => FilterType::Bilinear,
        Filter::Bicubic => FilterType::CatmullRom,
        Filter::Lanczos => FilterType::Lanczos3,
    };
    let side = |pixels: usize| u32::try_from(pixels).unwrap_or(u32::MAX);
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(filter));
    let (across, down) = (side(picture.width()), side(picture.height()));
    let mut rgb = vec![0; width * height * 3];
    // Typed: otherwise the code for all thirteen pixel types is compiled into this crate.
    let large = TypedImageRef::<U8x3>::from_buffer(across, down, picture.rgb()).ok();
    let small = TypedImage::<U8x3>::from_buffer(side(width), side(height), &mut rgb).ok();
    large
        .zip(small)
        .and_then(|(large, mut small)| {
            Resizer::new().resize_typed(&large, &mut small, &options).ok()
        })
        .unwrap_or_else(|| unreachable!("both pictures are RGB and not empty"));
    rgb
}

/// Fractional bits of a fixed-point weight.
const POINT: u32 = 22;

/// Source pixels of one target pixel: index of the first, and weights.
type Taps = (usize, Vec<i32>);

/// Weights of all target pixels along one axis.
fn taps(old: usize, new: usize, filter: Filter) -> Vec<Taps> {
    let ratio = old as f64 / new as f64;
    let scale = ratio.max(1.0);
    let (reach, weigh): (f64, fn(f64) -> f64) = match filter {
        Filter::Area => (0.5, |x| if x > -0.5 && x <= 0.5 { 1.0 } else { 0.0 }),
        Filter::Bilinear => (1.0, |x| (1.0 - x.abs()).max(0.0)),
        Filter::Bicubic => (2.0, |x| {
            let x = x.abs();
            match x {
                x if x < 1.0 => (1.5 * x - 2.5) * x * x + 1.0,
                x if x < 2.0 => ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0,
                _ => 0.0,
            }
        }),
        Filter::Lanczos => (3.0, |x| {
            let sinc = |x: f64| if x == 0.0 { 1.0 } else { (x * PI).sin() / (x * PI) };
            if (-3.0..3.0).contains(&x) { sinc(x) * sinc(x / 3.0) } else { 0.0 }
        }),
    };
    let reach = reach * scale;
    let one = |k: usize| {
        let centre = (k as f64 + 0.5) * ratio;
        let edge = |at: f64| whole((at + 0.5).clamp(0.0, old as f64));
        let (first, end) = (edge(centre - reach), edge(centre + reach));
        let weight = |at: usize| weigh((at as f64 - centre + 0.5) / scale);
        let weights: Vec<f64> = (first..end).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        let fixed = |weight: &f64| nearest(weight / sum * f64::from(1_i32 << POINT));
        (first, weights.iter().map(fixed).collect())
    };
    (0..new).map(one).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "0 to the number of pixels; truncated")]
#[expect(clippy::cast_sign_loss, reason = "0 to the number of pixels")]
fn whole(at: f64) -> usize {
    at as usize
}

#[expect(clippy::cast_possible_truncation, reason = "weights are below 2; rounded")]
fn nearest(value: f64) -> i32 {
    (value + 0.5_f64.copysign(value)) as i32
}

fn to_byte(sum: i32) -> u8 {
    u8::try_from((sum >> POINT).clamp(0, 255)).unwrap_or(255)
}

/// Resizes horizontally, then vertically.
fn convolve(rgb: &[u8], old: [usize; 2], new: [usize; 2], filter: Filter) -> Vec<u8> {
    const HALF: i32 = 1 << (POINT - 1);
    let across = if new[0] == old[0] {
        rgb.to_vec()
    } else {
        let taps = taps(old[0], new[0], filter);
        let mut out = Vec::with_capacity(new[0] * old[1] * 3);
        for row in rgb.chunks_exact(old[0] * 3) {
            for (first, weights) in &taps {
                let mut sum = [HALF; 3];
                for (pixel, weight) in row[first * 3..].chunks_exact(3).zip(weights) {
                    for c in 0..3 {
                        sum[c] += i32::from(pixel[c]) * weight;
                    }
                }
                out.extend(sum.map(to_byte));
            }
        }
        out
    };
    if new[1] == old[1] {
        return across;
    }
    let line = new[0] * 3;
    let mut out = Vec::with_capacity(line * new[1]);
    let mut sums = vec![HALF; line];
    for (first, weights) in taps(old[1], new[1], filter) {
        sums.fill(HALF);
        for (row, weight) in across[first * line..].chunks_exact(line).zip(&weights) {
            for (sum, &value) in sums.iter_mut().zip(row) {
                *sum += i32::from(value) * weight;
            }
        }
        out.extend(sums.iter().map(|&sum| to_byte(sum)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference values from Pillow 13: `Image.frombytes("RGB", (5, 2), bytes((37 * k) % 256 for k in range(30)))
    /// .resize((3, 3), filter)`, red values.
    #[test]
    fn values_match_pillow() {
        let rgb: Vec<u8> =
            (0..30_usize).map(|k| u8::try_from(37 * k % 256).unwrap()).collect();
        let red = |filter| -> Vec<u8> {
            let out = convolve(&rgb, [5, 2], [3, 3], filter);
            out.into_iter().step_by(3).collect()
        };
        assert_eq!(red(Filter::Area), [56, 222, 133, 99, 9, 176, 99, 9, 176]);
        assert_eq!(red(Filter::Bilinear), [48, 165, 140, 70, 116, 162, 91, 66, 183]);
        assert_eq!(red(Filter::Bicubic), [44, 175, 138, 69, 116, 163, 93, 56, 187]);
        assert_eq!(red(Filter::Lanczos), [44, 182, 134, 71, 116, 161, 97, 49, 187]);
    }

    #[test]
    fn both_implementations_agree_within_three_levels() {
        let rgb = (0..40 * 30 * 3_usize).map(|k| u8::try_from(k * k / 7 % 256).unwrap());
        let picture = Picture::new(40, 30, rgb.collect());
        for filter in [Filter::Area, Filter::Bilinear, Filter::Bicubic, Filter::Lanczos] {
            let (a, b) = (
                fast(&picture, 17, 9, filter),
                convolve(picture.rgb(), [40, 30], [17, 9], filter),
            );
            let off = a.iter().zip(&b).map(|(&a, &b)| a.abs_diff(b)).max().unwrap();
            assert!(off <= 3, "{filter:?}: {off}");
        }
    }
}
