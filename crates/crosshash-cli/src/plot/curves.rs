//! Precision over recall, and precision over the number of results.

use std::path::Path;

use anyhow::{Result, bail};
use crosshash_codes::eval::{Curves, Report};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::{FONT, PALETTE};

/// Draws both panels side by side into a file.
pub(crate) fn draw(path: &Path, report: &Report) -> Result<()> {
    crate::file::write(path, &svg(report)?)
}

/// Both panels side by side, as SVG.
pub fn svg(report: &Report) -> Result<String> {
    let (Some(map), Some(chance), Some(curves)) =
        (report.mean_average_precision(), report.chance, &report.curves)
    else {
        bail!("there are no labels, and precision needs labels");
    };
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (960, 440)).into_drawing_area();
        root.fill(&WHITE)?;
        let protocol = &report.protocol;
        let title = format!(
            "MAP {map:.4} (tie-aware), {} queries, {} items, {} bits",
            protocol.queries, protocol.database, protocol.bits
        );
        let root = root.titled(&title, (FONT, 18))?;
        let (left, right) = root.split_horizontally(480);
        precision_recall(&left, curves, chance)?;
        top_n(&right, curves, chance)?;
        root.present()?;
    }
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn precision_recall(area: &Area<'_>, curves: &Curves, chance: f64) -> Result<()> {
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(52)
        .build_cartesian_2d(0.0..1.0, 0.0..1.0)?;
    chart
        .configure_mesh()
        .x_desc("recall")
        .y_desc("precision")
        .x_label_formatter(&|x| format!("{x:.1}"))
        .y_label_formatter(&|y| format!("{y:.1}"))
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .light_line_style(WHITE)
        .draw()?;
    let by_rank = curves.recall.iter().copied().zip(curves.precision.iter().copied());
    let by_radius = curves.radius.recall.iter().zip(&curves.radius.precision_pooled);
    let series: [(&str, Vec<(f64, f64)>); 2] = [
        ("by ranking (interpolated)", by_rank.collect()),
        ("by Hamming radius (pooled)", by_radius.map(|(&r, &p)| (r, p)).collect()),
    ];
    for ((name, points), colour) in series.into_iter().zip(PALETTE) {
        let line = LineSeries::new(points, colour.stroke_width(2));
        chart.draw_series(line)?.label(name).legend(move |(x, y)| {
            PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2))
        });
    }
    let chance = [(0.0, chance), (1.0, chance)];
    let grey = RGBColor(140, 140, 140);
    chart
        .draw_series(LineSeries::new(chance, grey))?
        .label("chance")
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], grey));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .label_font((FONT, 13))
        .draw()?;
    Ok(())
}

fn top_n(area: &Area<'_>, curves: &Curves, chance: f64) -> Result<()> {
    let last = curves.top_n.last().copied().unwrap_or(1).max(2) as f64;
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(52)
        .build_cartesian_2d(1.0..last, 0.0..1.0)?;
    chart
        .configure_mesh()
        .x_desc("N, number of results")
        .y_desc("precision of the first N")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.1}"))
        .label_style((FONT, 13))
        .axis_desc_style((FONT, 14))
        .light_line_style(WHITE)
        .draw()?;
    let points = curves.top_n.iter().map(|&n| n as f64).zip(curves.top_n_precision.clone());
    chart.draw_series(LineSeries::new(points, PALETTE[0].stroke_width(2)))?;
    let chance = [(1.0, chance), (last, chance)];
    chart.draw_series(LineSeries::new(chance, RGBColor(140, 140, 140)))?;
    Ok(())
}
