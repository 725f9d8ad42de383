//! Figures as SVG; one file per figure, one style for all.

pub(crate) mod convergence;
pub mod curves;
pub(crate) mod embedding;
pub(crate) mod labels;
pub mod lines;

use plotters::style::RGBColor;

/// Colours that are distinguishable in print and for colour-blind readers (Okabe and Ito).
pub(crate) const PALETTE: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(60, 60, 60),
];

/// The text font of all figures.
pub(crate) const FONT: &str = "sans-serif";

/// The palette, then the same colours darker, then lighter.
pub(crate) fn colour(at: usize) -> RGBColor {
    let RGBColor(r, g, b) = PALETTE[at % PALETTE.len()];
    match (at / PALETTE.len()) % 3 {
        0 => RGBColor(r, g, b),
        1 => RGBColor(r / 2, g / 2, b / 2),
        _ => RGBColor(r / 2 + 120, g / 2 + 120, b / 2 + 120),
    }
}
