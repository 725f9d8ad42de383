//! Validation MAP against epochs and against seconds of training (paper, figure on convergence).

use std::path::Path;

use anyhow::Result;

use super::lines::{self, Panel, Point, Series};
use crate::fit::History;

/// Draws both panels for several trainings: name, history and selected epoch. Without validation,
/// the loss is drawn instead.
pub(crate) fn draw(path: &Path, runs: &[(&str, &History, Option<usize>)]) -> Result<()> {
    let validated =
        runs.iter().all(|(_, h, _)| h.epochs.iter().all(|e| e.score().is_some()));
    let (y, title) = if validated {
        ("validation score", "Convergence (large dot: selected epoch)")
    } else {
        ("loss", "Convergence")
    };
    let panel = |x: &str, at: fn(&History, usize) -> f64| {
        let series = runs.iter().map(|(name, history, best)| {
            let points = history.epochs.iter().enumerate().map(|(k, row)| Point {
                x: at(history, k),
                y: if validated { row.score().unwrap_or(f64::NAN) } else { row.loss },
                spread: 0.0,
            });
            let mark = best.map(|best| best - 1).filter(|_| validated);
            Series { name: (*name).to_owned(), points: points.collect(), mark }
        });
        let series = series.collect();
        Panel { x: x.to_owned(), y: y.to_owned(), names: Vec::new(), series }
    };
    let panels = [
        panel("epoch", |history, k| history.epochs[k].epoch as f64),
        panel("seconds of training", |history, k| history.seconds[k]),
    ];
    lines::draw(path, title, &panels)
}
