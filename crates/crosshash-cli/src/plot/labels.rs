//! The label histogram: the number of ids with each label, the most frequent on top.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use crosshash::data::inspect::Report;
use plotters::prelude::*;

use super::{FONT, PALETTE};

/// Up to this number of labels, the histogram has one bar per label; above, it is a curve over ranks.
const NAMED: usize = 40;

/// Draws the histogram into an SVG file.
pub(crate) fn draw(report: &Report, path: &Path) -> Result<()> {
    let counts: Vec<(&str, usize)> =
        report.labels.histogram.iter().map(|l| (l.name.as_str(), l.items)).collect();
    if counts.is_empty() {
        bail!("the data set has no labels");
    }
    let named = counts.len() <= NAMED;
    let height = if named { 90 + 18 * u32::try_from(counts.len().max(5))? } else { 480 };
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (760, height)).into_drawing_area();
        let drawn = root.fill(&WHITE).map_err(|err| anyhow!("{err}"));
        drawn?;
        let title = format!(
            "{}: {} labels, {} ids",
            report.name, report.labels.count, report.labels.ids
        );
        let root = root.titled(&title, (FONT, 18)).map_err(|err| anyhow!("{err}"))?;
        let fault = if named { bars(&root, &counts) } else { curve(&root, &counts) };
        fault.map_err(|err| anyhow!("{err}"))?;
        root.present().map_err(|err| anyhow!("{err}"))?;
    }
    crate::file::write(path, &svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

fn bars(root: &Area<'_>, counts: &[(&str, usize)]) -> Drawn {
    let most = counts.first().map_or(1, |label| label.1.max(1));
    let longest = counts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let room = u32::try_from((longest.min(28) * 8 + 16).max(60)).unwrap_or(240);
    let n = counts.len();
    let mut chart = ChartBuilder::on(root)
        .margin(12)
        .margin_right(60)
        .x_label_area_size(40)
        .y_label_area_size(room)
        .build_cartesian_2d(0..most, (0..n.saturating_sub(1)).into_segmented())?;
    let name = |at: &SegmentValue<usize>| match at {
        SegmentValue::CenterOf(k) if *k < n => {
            counts[n - 1 - k].0.chars().take(28).collect()
        }
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(n)
        .y_label_formatter(&name)
        .x_desc("ids")
        .label_style((FONT, 13))
        .light_line_style(BLACK.mix(0.06))
        .draw()?;
    chart.draw_series(counts.iter().enumerate().map(|(k, &(_, items))| {
        let at = n - 1 - k;
        let corners = [(0, SegmentValue::Exact(at)), (items, SegmentValue::Exact(at + 1))];
        let mut bar = Rectangle::new(corners, PALETTE[0].filled());
        bar.set_margin(2, 2, 0, 0);
        bar
    }))?;
    chart.draw_series(counts.iter().enumerate().map(|(k, &(_, items))| {
        let at = SegmentValue::CenterOf(n - 1 - k);
        EmptyElement::at((items, at))
            + Text::new(items.to_string(), (5, -6), (FONT, 12).into_font())
    }))?;
    Ok(())
}

fn curve(root: &Area<'_>, counts: &[(&str, usize)]) -> Drawn {
    let most = counts.first().map_or(1, |label| label.1.max(1));
    let mut chart = ChartBuilder::on(root)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(1..counts.len(), (1..most + most / 3 + 1).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("label, by frequency")
        .y_desc("ids (log scale)")
        .label_style((FONT, 13))
        .light_line_style(BLACK.mix(0.06))
        .draw()?;
    chart.draw_series(LineSeries::new(
        counts.iter().enumerate().map(|(k, &(_, items))| (k + 1, items.max(1))),
        PALETTE[0].stroke_width(2),
    ))?;
    // Names at exponentially growing ranks, so that they do not overlap.
    let ranks = std::iter::successors(Some(1_usize), |rank| Some((rank * 2).max(4)));
    for rank in ranks.take_while(|&rank| rank <= counts.len()) {
        let (name, items) = counts[rank - 1];
        let at = (rank, items.max(1));
        chart.draw_series([Circle::new(at, 3, PALETTE[0].filled())])?;
        let style = (FONT, 12).into_font();
        chart
            .draw_series([EmptyElement::at(at)
                + Text::new(format!("{name} {items}"), (6, -12), style)])?;
    }
    Ok(())
}
