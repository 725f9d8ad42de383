//! Every direction: queries of each modality against the database of each.

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

/// The judgement of one direction.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Direction {
    /// The modality that asks.
    pub query: String,
    /// The modality that is searched.
    pub database: String,
    /// How well.
    pub report: Report,
}

/// Judges every direction between modalities, and within each; those without queries or
/// database are left out. `progress` hears how many directions are done.
pub fn every_direction(
    coded: &[Coded],
    options: &Options,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Direction>> {
    let mut all = Vec::new();
    for from in coded {
        for to in coded {
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

/// The mean tie-aware MAP over the directions between modalities, or within the only one.
pub fn mean_map(directions: &[Direction]) -> Option<f64> {
    let across = |d: &&Direction| d.query != d.database;
    let chosen: Vec<&Direction> = if directions.iter().any(|d| across(&d)) {
        directions.iter().filter(across).collect()
    } else {
        directions.iter().collect()
    };
    let sum: f64 = chosen.iter().map(|d| d.report.map.tie_aware).sum();
    (!chosen.is_empty()).then(|| sum / chosen.len() as f64)
}
