//! Figures as SVG; one file per figure, one style for all.

pub(crate) mod convergence;
pub(crate) mod curves;
pub(crate) mod embedding;
pub(crate) mod labels;
pub(crate) mod lines;
pub(crate) mod sweep;

use plotters::style::RGBColor;

/// Colours that stay apart in print and for the colour-blind (Okabe and Ito).
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
