//! MAP against every key of a sweep (paper: sensitivity and sample-size figures); without labels, the recall of
//! pairs.

use std::path::Path;

use anyhow::Result;

use super::table::Metric;
use super::{Row, Table};
use crate::mean::Mean;
use crate::plot::lines::{self, Panel, Point, Series};

/// Draws one panel per key. For a grid: one panel over the first key, with a line for every
/// combination of the others.
pub(crate) fn draw(path: &Path, name: &str, table: &Table, grid: bool) -> Result<()> {
    let keys = if grid { table.keys.get(..1) } else { table.keys.get(..) };
    let panels: Vec<Panel> = keys
        .unwrap_or_default()
        .iter()
        .map(|(key, values)| panel(table, key, values))
        .collect();
    let spread = table.rows.iter().any(|row| row.trials.len() > 1);
    let bars = if spread { "; bars: one standard deviation over seeds" } else { "" };
    let (measure, _) = measure(table);
    lines::draw(path, &format!("{name}: {measure} by setting{bars}"), &panels)
}

/// What is drawn: MAP, or the recall of pairs if there are no labels.
fn measure(table: &Table) -> (&'static str, Metric) {
    let mut rows = table.rows.iter();
    let labelled = rows.any(|row| table.directions.iter().any(|d| row.map(d).is_some()));
    if labelled || table.directions.is_empty() {
        ("MAP", |found| found.map)
    } else {
        ("R@10", |found| found.pair_recall)
    }
}

fn panel(table: &Table, key: &str, values: &[String]) -> Panel {
    let (measure, of) = measure(table);
    let others = |row: &Row| {
        let rest = row.point.0.iter().filter(|(k, _)| k != key);
        rest.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" ")
    };
    let rows: Vec<&Row> =
        table.rows.iter().filter(|row| row.point.value(key).is_some()).collect();
    let mut combinations: Vec<String> = Vec::new();
    for row in &rows {
        if !combinations.contains(&others(row)) {
            combinations.push(others(row));
        }
    }
    let mut series = Vec::new();
    for combination in &combinations {
        let points = |y: &dyn Fn(&Row) -> Option<Mean>| {
            let of = |(x, value): (usize, &String)| {
                let row = rows.iter().find(|row| {
                    row.point.value(key) == Some(value) && others(row) == *combination
                })?;
                let found = y(row)?;
                Some(Point { x: x as f64, y: found.mean, spread: found.spread })
            };
            values.iter().enumerate().filter_map(of).collect::<Vec<_>>()
        };
        let mut push = |name: String, points: Vec<Point>| {
            if !points.is_empty() {
                let name = format!("{combination} {name}").trim().to_owned();
                series.push(Series { name, points, mark: None });
            }
        };
        for direction in &table.directions {
            let name = format!("{} -> {}", direction.0, direction.1);
            push(name, points(&|row| row.metric(direction, of)));
        }
        if table.directions.is_empty() || combinations.len() == 1 {
            push("validation".into(), points(&Row::validation));
        }
    }
    Panel { x: key.to_owned(), y: measure.into(), names: values.to_vec(), series }
}
