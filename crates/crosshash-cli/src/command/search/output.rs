//! Prints the results of a search: a table, JSON or arrays.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use crosshash_codes::format::Id;
use crosshash_codes::segments::{Found, Snapshot};
use serde_json::{Value, json};

use super::Args;
use crate::npz::{self, Array};
use crate::progress::say;

/// Prints the hits of every query, with their reasons if there are any. The exit code is 1 if nothing
/// was found.
pub(super) fn print(
    args: &Args,
    snapshot: &Snapshot,
    found: &[Vec<Found>],
    reasons: &[Vec<String>],
) -> Result<ExitCode> {
    write_results(args, snapshot, found, reasons)?;
    let nothing = found.iter().all(Vec::is_empty);
    Ok(if nothing { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn write_results(
    args: &Args,
    snapshot: &Snapshot,
    found: &[Vec<Found>],
    reasons: &[Vec<String>],
) -> Result<()> {
    let reason = |q: usize, rank: usize| reasons.get(q).and_then(|of| of.get(rank));
    if let Some(path) = &args.out {
        npz::write(path, &arrays(found))?;
        say(format!("results of {} queries in {}", found.len(), path.display()));
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        let all = found.iter().enumerate().map(|(q, hits)| to_json(snapshot, q, hits));
        let mut all = all.collect::<Result<Vec<Value>>>()?;
        for (q, hits) in found.iter().enumerate() {
            for rank in 0..hits.len() {
                if let Some(reason) = reason(q, rank) {
                    all[q]["hits"][rank]["reason"] = json!(reason);
                }
            }
        }
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        return Ok(());
    }
    let widest = found.iter().flatten().map(|found| found.id.to_string().chars().count());
    let width = widest.max().unwrap_or(0).max(4);
    writeln!(out, "query  rank  {:<width$}  distance  labels", "id")?;
    for (q, hits) in found.iter().enumerate() {
        for (rank, found) in hits.iter().enumerate() {
            let id = found.id.to_string();
            let score = found.score.map_or(String::new(), |s| format!("  score {s:.3}"));
            let reason =
                reason(q, rank).map_or(String::new(), |text| format!("  ({text})"));
            writeln!(
                out,
                "{q:>5}  {:>4}  {id:<width$}  {:>8}  {}{score}{reason}",
                rank + 1 + args.skip,
                found.hit.distance,
                labels(snapshot, found)?.join(", ")
            )?;
        }
    }
    Ok(())
}

fn labels(snapshot: &Snapshot, found: &Found) -> Result<Vec<String>> {
    let name = |label: usize| match snapshot.label_names().get(label) {
        Some(name) => name.clone(),
        None => label.to_string(),
    };
    Ok(snapshot.labels(found.hit.item)?.into_iter().map(name).collect())
}

fn to_json(snapshot: &Snapshot, q: usize, hits: &[Found]) -> Result<Value> {
    let hit = |found: &Found| -> Result<Value> {
        let id = match &found.id {
            Id::Number(number) => json!(number),
            Id::Name(name) => json!(name),
        };
        let mut value = json!({
            "id": id,
            "distance": found.hit.distance,
            "labels": labels(snapshot, found)?,
        });
        if let Some(score) = found.score {
            value["score"] = json!(score);
        }
        Ok(value)
    };
    let hits = hits.iter().map(hit).collect::<Result<Vec<Value>>>()?;
    Ok(json!({ "query": q, "hits": hits }))
}

/// Matrices with as many columns as the longest result list.
fn arrays(found: &[Vec<Found>]) -> Vec<Array> {
    let columns = found.iter().map(Vec::len).max().unwrap_or(0);
    let shape = (found.len(), columns);
    let cells =
        || found.iter().flat_map(move |hits| (0..columns).map(move |rank| hits.get(rank)));
    let named = cells().flatten().any(|found| matches!(found.id, Id::Name(_)));
    let ids = if named {
        let text =
            |found: Option<&Found>| found.map_or(String::new(), |f| f.id.to_string());
        Array::texts("ids", shape, &cells().map(text).collect::<Vec<_>>())
    } else {
        let number = |found: Option<&Found>| match found.map(|found| &found.id) {
            Some(Id::Number(number)) => i64::try_from(*number).unwrap_or(i64::MAX),
            _ => -1,
        };
        let numbers: Vec<i64> = cells().map(number).collect();
        Array::numbers("ids", "<i8", shape, &numbers, i64::to_le_bytes)
    };
    let or_none = |value: Option<u32>| value.map_or(-1, i64::from);
    let distances: Vec<i64> = cells().map(|f| or_none(f.map(|f| f.hit.distance))).collect();
    let items: Vec<i64> = cells().map(|f| or_none(f.map(|f| f.hit.item))).collect();
    let mut arrays = vec![
        ids,
        Array::numbers("distances", "<i8", shape, &distances, i64::to_le_bytes),
        Array::numbers("items", "<i8", shape, &items, i64::to_le_bytes),
    ];
    if cells().flatten().any(|found| found.score.is_some()) {
        let score = |found: Option<&Found>| found.and_then(|f| f.score).unwrap_or(f32::NAN);
        let scores: Vec<f32> = cells().map(score).collect();
        arrays.push(Array::numbers("scores", "<f4", shape, &scores, f32::to_le_bytes));
    }
    arrays
}
