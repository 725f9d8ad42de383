//! Encodes all items of a data set, and prints the table of retrieval directions.

use std::fmt::Write as _;

use anyhow::Result;
use crosshash::data::{Dataset, Split};
use crosshash::evaluate::Direction;
use crosshash::{CodedModality, Encoder};
use crosshash_codes::eval::UserMetrics;

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
    let labelled = directions.iter().any(|d| d.report.map.is_some());
    let _ = write!(out, "{:<width$}  queries  database", "direction");
    if labelled {
        out.push_str("      MAP   chance");
        at.iter().for_each(|k| {
            let _ = write!(out, "{:>9}", format!("P@{k}"));
        });
    }
    out.push('\n');
    for Direction { query, database, report } in directions {
        let _ = write!(
            out,
            "{:<width$}{:>9}{:>10}",
            format!("{query} -> {database}"),
            report.queries,
            report.protocol.database,
        );
        let mut cells = Vec::new();
        if labelled {
            cells.extend([report.mean_average_precision(), report.chance]);
            cells.extend(at.iter().map(|k| {
                let by_rank = report.at.get("precision_at")?;
                by_rank.get(k).map(|precision| precision.tie_aware)
            }));
        }
        for cell in cells {
            let text = cell.map_or("-".into(), |value| format!("{value:.4}"));
            let _ = write!(out, "{text:>9}");
        }
        out.push('\n');
    }
    if !labelled {
        out.push_str("the data set has no labels: MAP and the metrics that need labels are omitted\n");
    }
    out + &user_text(directions, width) + &pair_text(directions, width)
}

/// Recall of pairs by every ranking; empty where it was not measured.
fn pair_text(directions: &[Direction], width: usize) -> String {
    let mut out = String::new();
    for Direction { query, database, report } in directions {
        for quality in &report.user.rankings {
            let Some(found) = &quality.known_item else { continue };
            let _ = writeln!(
                out,
                "{:<width$}  {:<12}{:>8}{:>8.3}{:>8.3}{:>8.3}{:>8}",
                format!("{query} -> {database}"),
                quality.ranking,
                found.queries,
                found.r1,
                found.r5,
                found.r10,
                found.median_rank,
            );
        }
    }
    if out.is_empty() {
        return out;
    }
    format!(
        "\n{:<width$}  {:<12}{:>8}{:>8}{:>8}{:>8}{:>8}\n{out}",
        "recall of pairs", "ranking", "queries", "R@1", "R@5", "R@10", "median"
    ) + "pairs are searched among the query items; reranked: the first 200 by Hamming distance, by real outputs\n"
}

/// What a user notices, one line per direction between modalities; empty where it was not measured.
fn user_text(directions: &[Direction], width: usize) -> String {
    let across: Vec<&Direction> =
        directions.iter().filter(|d| d.query != d.database).collect();
    let measured = |d: &&&Direction| d.report.user != UserMetrics::default();
    if across.iter().filter(measured).count() == 0 {
        return String::new();
    }
    let mut out = format!(
        "\n{:<width$}{:>8}{:>8}{:>8}{:>11}{:>9}{:>9}{:>9}{:>11}{:>8}\n",
        "pairs and words",
        "R@1",
        "R@5",
        "R@10",
        "words P@5",
        "unseen",
        "MAP asym",
        "MAP real",
        "distinct",
        "dead"
    );
    let number =
        |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.3}"));
    for Direction { query, database, report } in across {
        let user = &report.user;
        let pairs = user.known_item.as_ref();
        let map = |name: &str| {
            let found = user.rankings.iter().find(|one| one.ranking == name);
            number(found.and_then(|one| one.map))
        };
        let health = &report.database_health;
        let distinct = health.unique_codes as f64 / health.codes.max(1) as f64;
        let _ = writeln!(
            out,
            "{:<width$}{:>8}{:>8}{:>8}{:>11}{:>9}{:>9}{:>9}{:>11}{:>8}",
            format!("{query} -> {database}"),
            number(pairs.map(|p| p.r1)),
            number(pairs.map(|p| p.r5)),
            number(pairs.map(|p| p.r10)),
            number(user.words.as_ref().map(|w| w.p5_possible)),
            number(user.words_unseen.as_ref().map(|w| w.p5_possible)),
            map("asymmetric"),
            map("cosine"),
            format!("{distinct:.3}"),
            health.constant_bits,
        );
    }
    out += "words P@5: of the first five items for a word typed alone, the share that contains it, of what is possible\n";
    out
}
