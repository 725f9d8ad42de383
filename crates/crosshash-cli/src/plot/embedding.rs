//! The map of outputs: colours are labels, shapes are modalities, large crosses are centres.

use std::path::Path;

use anyhow::Result;
use crosshash::embed::Spot;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::{FONT, colour};

const SIZE: (u32, u32) = (900, 700);
const LEGEND: u32 = 190;
const MARGIN: f32 = 16.0;

/// Draws the map.
pub(crate) fn draw(path: &Path, name: &str, spots: &[Spot]) -> Result<()> {
    let mut labels: Vec<&str> = Vec::new();
    let mut modalities: Vec<&str> = Vec::new();
    for spot in spots {
        if !spot.label.is_empty() && !labels.contains(&spot.label.as_str()) {
            labels.push(&spot.label);
        }
        modalities.extend(spot.modality.as_deref().filter(|m| !modalities.contains(m)));
    }
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let title = format!("{name}: outputs and centres (t-SNE)");
        let root = root.titled(&title, (FONT, 18))?;
        let (left, right) = root.split_horizontally(SIZE.0 - LEGEND);
        map(&left, spots, &labels, &modalities)?;
        legend(&right, &labels, &modalities)?;
        root.present()?;
    }
    crate::file::write(path, &svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn map(
    area: &Area<'_>,
    spots: &[Spot],
    labels: &[&str],
    modalities: &[&str],
) -> Result<()> {
    let size = area.dim_in_pixel();
    let scale = |axis: usize, pixels: u32| {
        let values = spots.iter().map(|spot| spot.at[axis]);
        let (low, high) = values
            .fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        let room = pixels as f32 - 2.0 * MARGIN;
        #[expect(clippy::cast_possible_truncation, reason = "pixels")]
        move |value: f32| (MARGIN + (value - low) / (high - low).max(1e-6) * room) as i32
    };
    let (x, y) = (scale(0, size.0), scale(1, size.1));
    // Centres last, over the items.
    let (items, centres): (Vec<&Spot>, Vec<&Spot>) =
        spots.iter().partition(|spot| spot.modality.is_some());
    for spot in items.into_iter().chain(centres) {
        let label = labels.iter().position(|l| *l == spot.label).unwrap_or(0);
        let kind = spot.modality.as_deref();
        let kind = kind.and_then(|m| modalities.iter().position(|known| *known == m));
        mark(area, (x(spot.at[0]), y(spot.at[1])), kind, colour(label))?;
    }
    Ok(())
}

fn legend(area: &Area<'_>, labels: &[&str], modalities: &[&str]) -> Result<()> {
    let grey = RGBColor(90, 90, 90);
    let shapes =
        modalities.iter().enumerate().map(|(kind, name)| (Some(kind), grey, *name));
    let colours =
        labels.iter().enumerate().map(|(label, name)| (Some(0), colour(label), *name));
    let lines = shapes.chain([(None, grey, "centre")]).chain(colours);
    for (y, (kind, colour, name)) in (20..).step_by(22).zip(lines) {
        mark(area, (12, y), kind, colour)?;
        let name: String = name.chars().take(22).collect();
        area.draw(&Text::new(name, (26, y - 6), (FONT, 13)))?;
    }
    Ok(())
}

/// The marker of an item of the `kind`-th modality, or of a centre.
fn mark(
    area: &Area<'_>,
    (x, y): (i32, i32),
    kind: Option<usize>,
    colour: RGBColor,
) -> Result<()> {
    let fill = colour.mix(0.75).filled();
    match kind {
        None => {
            area.draw(&Cross::new((x, y), 9, BLACK.stroke_width(6)))?;
            area.draw(&Cross::new((x, y), 8, colour.stroke_width(3)))?;
        }
        Some(0) => area.draw(&Circle::new((x, y), 3, fill))?,
        Some(1) => area.draw(&TriangleMarker::new((x, y), 5, fill))?,
        Some(2) => area.draw(&Rectangle::new([(x - 3, y - 3), (x + 3, y + 3)], fill))?,
        Some(_) => area.draw(&Circle::new((x, y), 4, colour.stroke_width(1)))?,
    }
    Ok(())
}
