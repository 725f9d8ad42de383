//! Figures as SVG; one file per figure, one style for all.

pub(crate) mod curves;
pub(crate) mod labels;

use std::path::Path;

use anyhow::Result;
use plotters::style::RGBColor;

/// Colours that stay apart in print and for the colour-blind (Okabe and Ito).
pub(crate) const PALETTE: [RGBColor; 4] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
];

/// The text font of all figures.
pub(crate) const FONT: &str = "sans-serif";

/// Writes a finished figure, whole or not at all.
pub(crate) fn write(path: &Path, svg: &str) -> Result<()> {
    crosshash_codes::write::atomically(path, |out| {
        use std::io::Write as _;
        Ok(out.write_all(svg.as_bytes())?)
    })?;
    Ok(())
}
