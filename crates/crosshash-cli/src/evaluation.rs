//! Encodes all items of a data set, and prints the table of retrieval directions.

use std::fmt::Write as _;

use anyhow::Result;
use crosshash::data::{Dataset, Split};
use crosshash::evaluate::Direction;
use crosshash::{CodedModality, Encoder};

use crate::progress::Progress;

/// Encodes queries and database of every modality of an encoder.
pub fn encode_all(
    encoder: &dyn Encoder,
    dataset: &Dataset,
    split: &Split,
) -> Result<Vec<CodedModality>> {
    let mut all = Vec::new();
    for name in encoder.modalities() {
        let items =
            dataset.queries(split, name)?.len() + dataset.database(split, name)?.len();
        let progress = Progress::new(format!("encoding {name}"), items);
        let done = |done| progress.set(done);
        all.push(CodedModality::encode(encoder, dataset, split, name, &done)?);
    }
    Ok(all)
}

/// A text table with one line per direction.
pub fn to_text(directions: &[Direction], at: &[usize]) -> String {
    let mut out = String::new();
    let widest = directions.iter().map(|d| d.query.len() + d.database.len() + 4).max();
    let width = widest.unwrap_or(0).max(9);
    let _ = write!(out, "{:<width$}  queries  database      MAP   chance", "direction");
    at.iter().for_each(|k| {
        let _ = write!(out, "{:>9}", format!("P@{k}"));
    });
    out.push('\n');
    for Direction { query, database, report } in directions {
        let _ = write!(
            out,
            "{:<width$}{:>9}{:>10}{:>9.4}{:>9.4}",
            format!("{query} -> {database}"),
            report.queries,
            report.protocol.database,
            report.map.tie_aware,
            report.chance
        );
        for k in at {
            let precision =
                report.at.get("precision_at").and_then(|by_rank| by_rank.get(k));
            let _ = write!(out, "{:>9.4}", precision.map_or(f64::NAN, |p| p.tie_aware));
        }
        out.push('\n');
    }
    out
}
