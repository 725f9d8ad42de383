//! Evaluates all directions: queries of each modality against the database of each.

use crosshash_codes::eval::{Options, Report, evaluate};
use crosshash_codes::{Codes, Labels};

use crate::Result;

/// Coded queries and database of one modality.
#[derive(Debug, Clone)]
pub struct Coded {
    /// The modality.
    pub name: String,
    /// Codes of its queries.
    pub queries: Codes,
    /// Labels of its queries.
    pub query_labels: Labels,
    /// Codes of its database.
    pub database: Codes,
    /// Labels of its database.
    pub database_labels: Labels,
}

/// Results of one direction.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Direction {
    /// Modality of the queries.
    pub query: String,
    /// Modality of the database.
    pub database: String,
    /// Metrics.
    pub report: Report,
}

/// Evaluates every direction between and within modalities; directions without queries or database
/// are skipped. `progress` is called with the number of directions done.
pub fn every_direction(
    coded: &[Coded],
    options: &Options,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Direction>> {
    directions(coded, options, &|_, _| true, progress)
}

/// [`mean_map`] of every direction; evaluates only the directions that it needs.
pub(crate) fn mean_map_of(coded: &[Coded], options: &Options) -> Result<Option<f64>> {
    let across = directions(coded, options, &|from, to| from.name != to.name, &|_| {})?;
    if !across.is_empty() {
        return Ok(mean_map(&across));
    }
    Ok(mean_map(&every_direction(coded, options, &|_| {})?))
}

/// Evaluates the directions that are chosen and have queries and a database.
fn directions(
    coded: &[Coded],
    options: &Options,
    chosen: &dyn Fn(&Coded, &Coded) -> bool,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Direction>> {
    let mut all = Vec::new();
    for from in coded {
        for to in coded.iter().filter(|to| chosen(from, to)) {
            if from.queries.is_empty() || to.database.is_empty() {
                continue;
            }
            let (q, d) = (&from.queries, &to.database);
            let report =
                evaluate(q, d, &from.query_labels, &to.database_labels, options, &|_| {})?;
            let (query, database) = (from.name.clone(), to.name.clone());
            all.push(Direction { query, database, report });
            progress(all.len());
        }
    }
    Ok(all)
}

/// Mean tie-aware MAP over cross-modal directions, or over all directions if there are none. `None` without
/// labels.
pub fn mean_map(directions: &[Direction]) -> Option<f64> {
    let across = |d: &&Direction| d.query != d.database;
    let chosen: Vec<&Direction> = if directions.iter().any(|d| across(&d)) {
        directions.iter().filter(across).collect()
    } else {
        directions.iter().collect()
    };
    let maps: Option<Vec<f64>> =
        chosen.iter().map(|d| d.report.mean_average_precision()).collect();
    let sum: f64 = maps?.iter().sum();
    (!chosen.is_empty()).then(|| sum / chosen.len() as f64)
}
