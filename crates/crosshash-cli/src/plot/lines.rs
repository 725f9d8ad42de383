//! Line charts in panels side by side, for convergence, sweeps and comparisons.

use std::path::Path;

use anyhow::Result;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::{FONT, colour};

const PANEL: (u32, u32) = (480, 400);
/// With more lines than this, one legend is drawn beside the panels.
const INSIDE: usize = 3;
const BESIDE: u32 = 130;

/// One panel.
pub struct Panel {
    /// Title of the x axis.
    pub x: String,
    /// Title of the y axis.
    pub y: String,
    /// Names of the positions 0, 1, 2 .. on the x axis; empty for a numeric axis.
    pub names: Vec<String>,
    /// The lines.
    pub series: Vec<Series>,
}

/// One line.
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<Point>,
    /// A point to highlight.
    pub mark: Option<usize>,
}

/// One point with its error.
#[derive(Clone, Copy)]
pub struct Point {
    /// Position on the x axis.
    pub x: f64,
    /// Position on the y axis.
    pub y: f64,
    /// Half the length of its error bar.
    pub spread: f64,
}

/// Draws panels side by side.
pub fn draw(path: &Path, title: &str, panels: &[Panel]) -> Result<()> {
    let mut svg = String::new();
    {
        let n = u32::try_from(panels.len().max(1))?;
        let fullest = panels.iter().max_by_key(|panel| panel.series.len());
        let crowded = fullest.filter(|panel| panel.series.len() > INSIDE);
        let beside = if crowded.is_some() { BESIDE } else { 0 };
        let size = (PANEL.0 * n + beside, PANEL.1 + 40);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        let root = root.titled(title, (FONT, title_size(title, size.0)))?;
        let (left, right) = root.split_horizontally(PANEL.0 * n);
        for (area, panel) in left.split_evenly((1, panels.len().max(1))).iter().zip(panels)
        {
            draw_panel(area, panel, crowded.is_none())?;
        }
        if let Some(panel) = crowded {
            legend(&right, panel)?;
        }
        root.present()?;
    }
    crate::file::write(path, &svg)
}

/// The font size of a title: 18, or smaller if the title would not fit into the width.
fn title_size(title: &str, width: u32) -> f64 {
    const LETTER: f64 = 0.6; // the width of a letter, about, by its size
    (f64::from(width) / (LETTER * title.chars().count().max(1) as f64)).min(18.0)
}

fn draw_panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    Panel { x, y, names, series }: &Panel,
    named: bool,
) -> Result<()> {
    let points = || series.iter().flat_map(|s| &s.points);
    let across = match names.len() {
        0 => {
            let last = points().map(|p| p.x).fold(0.0, f64::max);
            0.0..if last > 0.0 { last * 1.02 } else { 1.0 }
        }
        n => -0.4..n as f64 - 0.6,
    };
    let up = around(points().flat_map(|p| [p.y - p.spread, p.y + p.spread]));
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(58)
        .build_cartesian_2d(across, up.clone())?;
    let place = |x: &f64| {
        if !names.is_empty() {
            // No label between two positions.
            let mut all = names.iter().enumerate();
            let found = all.find(|(k, _)| (*k as f64 - x).abs() < 1e-6);
            found.map_or(String::new(), |(_, name)| name.clone())
        } else if x.fract() == 0.0 {
            format!("{x:.0}")
        } else {
            format!("{x:.1}")
        }
    };
    let digits = if up.end - up.start < 0.05 { 3 } else { 2 };
    chart
        .configure_mesh()
        .x_desc(x)
        .y_desc(y)
        .x_labels(if names.is_empty() { 8 } else { 2 * names.len() + 1 })
        .x_label_formatter(&place)
        .y_label_formatter(&|y| format!("{y:.digits$}"))
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .light_line_style(WHITE)
        .draw()?;
    for (at, Series { name, points, mark }) in series.iter().enumerate() {
        let colour = colour(at);
        let line = points.iter().map(|p| (p.x, p.y));
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(line.clone(), style))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        let bars = points.iter().filter(|p| p.spread > 0.0);
        chart.draw_series(bars.map(|p| {
            PathElement::new([(p.x, p.y - p.spread), (p.x, p.y + p.spread)], style)
        }))?;
        let size = |k: usize| if *mark == Some(k) { 6 } else { 3 };
        let dots = line.enumerate();
        chart.draw_series(dots.map(|(k, at)| Circle::new(at, size(k), colour.filled())))?;
    }
    if !named {
        return Ok(());
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .label_font((FONT, 13))
        .draw()?;
    Ok(())
}

/// The names of the lines, one below the other.
fn legend(area: &DrawingArea<SVGBackend<'_>, Shift>, panel: &Panel) -> Result<()> {
    for ((at, series), y) in panel.series.iter().enumerate().zip((20..).step_by(20)) {
        let line = [(4, y), (24, y)];
        area.draw(&PathElement::new(line, colour(at).stroke_width(2)))?;
        area.draw(&Text::new(series.name.clone(), (30, y - 6), (FONT, 13)))?;
    }
    Ok(())
}

/// A range with a margin around all values.
fn around(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (low, high) = values
        .filter(|v| v.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    if low > high {
        return 0.0..1.0;
    }
    let air = ((high - low) * 0.12).max(0.005);
    low - air..high + air
}
