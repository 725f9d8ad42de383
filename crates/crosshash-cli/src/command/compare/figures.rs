//! The figures of a comparison: MAP against epochs and seconds (paper, figure on convergence), MAP
//! against bits, precision against recall, and precision of the first N.

use std::path::{Path, PathBuf};

use anyhow::Result;
use crosshash::cosine_eval::DirectionMetrics;
use crosshash::method::Learning;

use super::{Row, Table, Trial};
use crate::plot::lines::{self, Panel, Point, Series};

/// Draws all figures into a folder; returns the files. Curves show the longest codes.
pub(crate) fn draw(folder: &Path, table: &Table) -> Result<Vec<PathBuf>> {
    let bits = table.rows.iter().map(|row| row.bits).max().unwrap_or(0);
    let longest: Vec<&Row> = table.rows.iter().filter(|row| row.bits == bits).collect();
    let mut files = Vec::new();
    let mut one = |name: &str, title: String, panels: Vec<Panel>| -> Result<()> {
        if panels.iter().any(|panel| !panel.series.is_empty()) {
            let path = folder.join(name);
            lines::draw(&path, &title, &panels)?;
            files.push(path);
        }
        Ok(())
    };
    one(
        "convergence.svg",
        format!(
            "{bits} bits: validation MAP while training, first seed (large dot: best epoch)"
        ),
        vec![
            convergence(&longest, "epoch", |trial, k| trial.epochs[k].epoch as f64),
            convergence(&longest, "seconds of training", |t, k| t.epochs[k].seconds),
        ],
    )?;
    let title = "MAP by code length; bars: one standard deviation over seeds".to_owned();
    one("bits.svg", title, table.directions.iter().map(|d| by_bits(table, d)).collect())?;
    let curve = |x: &'static str,
                 y: &'static str,
                 of: fn(&DirectionMetrics) -> Vec<Point>| {
        let panel = |direction: &(String, String)| {
            let series = longest.iter().filter_map(|row| {
                let mut found = row.trials.first()?.directions.iter();
                let evaluated = found
                    .find(|d| (&d.query, &d.database) == (&direction.0, &direction.1))?;
                Some(Series { name: row.name(), points: of(evaluated), mark: None })
            });
            let x = format!("{x}, {} -> {}", direction.0, direction.1);
            Panel { x, y: y.into(), names: Vec::new(), series: series.collect() }
        };
        table.directions.iter().map(panel).collect::<Vec<_>>()
    };
    let title = format!("{bits} bits: precision and recall along the ranking, first seed");
    let recall = curve("recall", "precision", |evaluated| {
        points(evaluated.recall.iter().copied(), &evaluated.precision)
    });
    one("recall.svg", title, recall)?;
    let title = format!("{bits} bits: precision of the first N, first seed");
    let top = curve("N, number of results", "precision of the first N", |evaluated| {
        points(evaluated.top_n.iter().map(|&n| n as f64), &evaluated.top_n_precision)
    });
    one("top.svg", title, top)?;
    Ok(files)
}

fn points(x: impl Iterator<Item = f64>, y: &[f64]) -> Vec<Point> {
    x.zip(y).map(|(x, &y)| Point { x, y, spread: 0.0 }).collect()
}

/// A line for each method that is trained in epochs, a dot for the others.
fn convergence(rows: &[&Row], x: &str, at: fn(&Trial, usize) -> f64) -> Panel {
    let series = rows.iter().filter_map(|row| {
        let by_epochs = row.info.learning == Learning::Epochs;
        // Closed-form methods have one epoch; it is not informative in the panel of epochs.
        let trial = row.trials.first().filter(|_| by_epochs || x != "epoch")?;
        let evaluated = |k: usize| {
            let y = trial.epochs[k].map?;
            Some(Point { x: at(trial, k), y, spread: 0.0 })
        };
        let points: Vec<Point> = (0..trial.epochs.len()).filter_map(evaluated).collect();
        let mark = trial.best.map(|best| best - 1).filter(|_| by_epochs);
        (!points.is_empty()).then(|| Series { name: row.name(), points, mark })
    });
    let series = series.collect();
    Panel { x: x.into(), y: "validation MAP".into(), names: Vec::new(), series }
}

fn by_bits(table: &Table, direction: &(String, String)) -> Panel {
    let mut lengths: Vec<usize> = table.rows.iter().map(|row| row.bits).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let mut series: Vec<Series> = Vec::new();
    for row in &table.rows {
        let (Some(map), Some(at)) =
            (row.map(direction), lengths.iter().position(|&bits| bits == row.bits))
        else {
            continue;
        };
        let point = Point { x: at as f64, y: map.mean, spread: map.spread };
        match series.iter_mut().find(|known| known.name == row.name()) {
            Some(known) => known.points.push(point),
            None => {
                series.push(Series { name: row.name(), points: vec![point], mark: None })
            }
        }
    }
    for line in &mut series {
        line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    Panel {
        x: format!("bits, {} -> {}", direction.0, direction.1),
        y: "MAP".into(),
        names: lengths.iter().map(ToString::to_string).collect(),
        series,
    }
}
