//! Hand-crafted features of small pictures: edges, colours, ink.
//!
//! Histograms of oriented gradients (Dalal and Triggs, *Histograms of oriented gradients for
//! human detection*, CVPR 2005): with central differences `g_x`, `g_y` of the channel whose
//! gradient is largest,
//!
//! ```text
//! m = sqrt(g_x^2 + g_y^2),    o = atan2(g_y, g_x) mod pi
//! ```
//!
//! each pixel adds `m` to the two nearest of 9 orientation bins of its 8 x 8 cell, with linear
//! interpolation; every block of 2 x 2 cells is normalised to norm 1, clipped at 0.2, and
//! normalised again. Departures: no Gaussian window, no interpolation between cells; gradients
//! below one grey level are ignored, because normalisation would amplify rounding errors.
//!
//! | feature of a picture | values | feature of a drawing | values |
//! |---|---|---|---|
//! | gradients, 32 x 32 pixels | 324 | gradients | 324 |
//! | mean R, G, B of 4 x 4 tiles | 48 | mean ink of 8 x 8 tiles | 64 |
//! | square roots of the frequencies of 4 x 4 x 4 colours | 64 | | |
//!
//! Tile means and colour features are normalised to norm 1, like the gradient blocks.

use std::f32::consts::PI;

use crate::picture::Raster;

/// Side of the picture from which gradients are taken.
const SIDE: usize = 32;
/// Side of a cell.
const CELL: usize = 8;
/// Orientation bins over 180 degrees.
const BINS: usize = 9;
/// Cells per side.
const CELLS: usize = SIDE / CELL;
/// Values are clipped here before the second normalisation.
const CLIP: f32 = 0.2;

/// Gradients below one grey level are rounding errors.
const FAINT: f32 = 1.0 / 255.0;

/// Number of gradient features.
pub const GRADIENTS: usize = (CELLS - 1) * (CELLS - 1) * 4 * BINS;
/// Number of features of a picture.
pub const PICTURE: usize = GRADIENTS + 48 + 64;
/// Number of features of a drawing.
pub const DRAWING: usize = GRADIENTS + 64;

/// Gradient and colour features of an RGB picture.
pub fn picture(raster: &Raster) -> Vec<f32> {
    let mut features = gradients(raster);
    let channels = (0..3).map(|c| c.min(raster.channels() - 1));
    let mut tiles: Vec<f32> = channels.clone().flat_map(|c| raster.channel(c, 4)).collect();
    to_norm_one(&mut tiles);
    features.extend(tiles);
    let mut colours = [0.0_f32; 64];
    for pixel in raster.pixels().chunks_exact(raster.channels()) {
        let level = |c: usize| usize::from(pixel[c] >> 6);
        let colour = channels.clone().fold(0, |colour, c| colour * 4 + level(c));
        colours[colour] += 1.0;
    }
    colours.iter_mut().for_each(|count| *count = count.sqrt());
    to_norm_one(&mut colours);
    features.extend(colours);
    features
}

/// Gradient and ink features of dark lines on white.
pub fn drawing(raster: &Raster) -> Vec<f32> {
    let mut features = gradients(raster);
    let mut ink: Vec<f32> = raster.channel(0, 8).iter().map(|white| 1.0 - white).collect();
    to_norm_one(&mut ink);
    features.extend(ink);
    features
}

/// Histograms of oriented gradients, block by block.
pub fn gradients(raster: &Raster) -> Vec<f32> {
    let channels: Vec<Vec<f32>> =
        (0..raster.channels()).map(|c| raster.channel(c, SIDE)).collect();
    let mut cells = vec![[0.0_f32; BINS]; CELLS * CELLS];
    for y in 0..SIDE {
        for x in 0..SIDE {
            let (magnitude, turn) = steepest(&channels, x, y);
            let place = turn * BINS as f32 - 0.5; // bin centres are at 0.5, 1.5, ...
            let share = place - place.floor();
            let cell = &mut cells[y / CELL * CELLS + x / CELL];
            let low = (0..BINS).rev().find(|&bin| place >= bin as f32).unwrap_or(BINS - 1);
            cell[low] += magnitude * (1.0 - share);
            cell[(low + 1) % BINS] += magnitude * share;
        }
    }
    let mut blocks = Vec::with_capacity(GRADIENTS);
    for y in 0..CELLS - 1 {
        for x in 0..CELLS - 1 {
            let corners = [(0, 0), (1, 0), (0, 1), (1, 1)];
            let mut block: Vec<f32> =
                corners.iter().flat_map(|(a, b)| cells[(y + b) * CELLS + x + a]).collect();
            to_norm_one(&mut block);
            block.iter_mut().for_each(|value| *value = value.min(CLIP));
            to_norm_one(&mut block);
            blocks.extend(block);
        }
    }
    blocks
}

/// The largest gradient among the channels: magnitude, and orientation from 0 to 1 (180 degrees).
fn steepest(channels: &[Vec<f32>], x: usize, y: usize) -> (f32, f32) {
    let (left, right) = (x.saturating_sub(1), (x + 1).min(SIDE - 1));
    let (above, below) = (y.saturating_sub(1), (y + 1).min(SIDE - 1));
    let mut best = (0.0_f32, 0.0_f32, 0.0_f32);
    for channel in channels {
        let gx = channel[y * SIDE + right] - channel[y * SIDE + left];
        let gy = channel[below * SIDE + x] - channel[above * SIDE + x];
        let magnitude = gx.hypot(gy);
        if magnitude > best.0.max(FAINT) {
            best = (magnitude, gx, gy);
        }
    }
    (best.0, (best.2.atan2(best.1) / PI).rem_euclid(1.0))
}

/// Scales to Euclidean norm 1; vectors near zero stay near zero.
fn to_norm_one(values: &mut [f32]) {
    let norm = values.iter().map(|v| v * v).sum::<f32>().sqrt();
    values.iter_mut().for_each(|value| *value /= norm.max(1e-3));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripes(wide: impl Fn(usize, usize) -> bool) -> Raster {
        let dark = |k: usize| if wide(k % SIDE, k / SIDE) { 0 } else { 255 };
        Raster::new(SIDE, 1, (0..SIDE * SIDE).map(dark).collect())
    }

    /// Sum over all blocks by orientation.
    fn by_bin(raster: &Raster) -> Vec<f32> {
        let mut sums = vec![0.0; BINS];
        for (k, value) in gradients(raster).iter().enumerate() {
            sums[k % BINS] += value;
        }
        sums
    }

    #[test]
    fn edges_are_in_the_bin_of_their_orientation() {
        // vertical edges have horizontal gradients: between the last bin and the first
        let vertical = by_bin(&stripes(|x, _| x / 4 % 2 == 0));
        assert!(vertical[1..8].iter().all(|&sum| sum < 1e-3), "{vertical:?}");
        assert!((vertical[0] - vertical[8]).abs() < 1e-3 && vertical[0] > 1.0);
        // horizontal edges: the middle of bin 4
        let horizontal = by_bin(&stripes(|_, y| y / 4 % 2 == 0));
        assert!(horizontal[4] > 1.0 && horizontal[0] < 1e-3, "{horizontal:?}");
    }

    #[test]
    fn sizes_and_blank_pictures() {
        let white = Raster::new(72, 3, vec![255; 72 * 72 * 3]);
        let features = picture(&white);
        assert_eq!(features.len(), PICTURE);
        assert!(features[..GRADIENTS].iter().all(|&value| value == 0.0), "no edges");
        assert_eq!(features[PICTURE - 1], 1.0, "all pixels have the last colour");
        let blank = drawing(&Raster::new(64, 1, vec![255; 64 * 64]));
        assert_eq!(blank.len(), DRAWING);
        assert!(blank.iter().all(|value| value.abs() < 1e-2), "neither edges nor ink");
    }

    #[test]
    fn red_is_not_blue() {
        let plain = |rgb: [u8; 3]| picture(&Raster::new(8, 3, rgb.repeat(64)));
        let (red, blue) = (plain([200, 0, 0]), plain([0, 0, 200]));
        let colours = |features: &[f32]| features[PICTURE - 64..].to_vec();
        assert_eq!(colours(&red)[3 * 16], 1.0);
        assert_eq!(colours(&blue)[3], 1.0);
    }
}
