//! Prints the results of a search: a table, JSON or arrays.

use std::io::Write;

use anyhow::Result;
use crosshash_codes::format::Id;
use crosshash_codes::index::Rank;
use crosshash_codes::segments::{Found, Snapshot};
use serde_json::{Value, json};

use super::Args;
use super::items::Content;
use crate::npz::{self, Array};
use crate::progress::say;

/// The longest text of a table in characters.
const LONGEST_TEXT: usize = 60;

/// What is printed with the hits.
pub(super) struct Results<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) content: &'a Content,
    pub(super) rank: Rank,
    /// Why each hit of each query is a result; empty if that is not known.
    pub(super) reasons: &'a [Vec<String>],
}

impl Results<'_> {
    /// Prints the hits of queries with these names.
    pub(super) fn print(
        &self,
        args: &Args,
        names: &[String],
        found: &[Vec<Found>],
    ) -> Result<()> {
        if let Some(path) = &args.out {
            npz::write(path, &arrays(found))?;
            say(format!("results of {} queries in {}", found.len(), path.display()));
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        if args.json {
            let all = names.iter().zip(found).enumerate();
            let all = all.map(|(nth, (name, hits))| self.to_json(nth, name, hits));
            let all = all.collect::<Result<Vec<Value>>>()?;
            writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
            return Ok(());
        }
        for (nth, (name, hits)) in names.iter().zip(found).enumerate() {
            if nth > 0 {
                writeln!(out)?;
            }
            writeln!(out, "query {}, ranked by {}", short(name), self.rank.name())?;
            self.table(&mut out, nth, args.skip, hits)?;
        }
        Ok(())
    }

    fn reason(&self, query: usize, rank: usize) -> Option<&String> {
        self.reasons.get(query)?.get(rank)
    }

    fn table(
        &self,
        out: &mut impl Write,
        query: usize,
        skip: usize,
        hits: &[Found],
    ) -> Result<()> {
        let widest = hits.iter().map(|found| found.id.to_string().chars().count());
        let width = widest.max().unwrap_or(0).max(4);
        writeln!(out, "rank  {:<width$}  distance  score  labels; text; file", "id")?;
        for (rank, found) in hits.iter().enumerate() {
            let mut shown = vec![labels(self.snapshot, found)?.join(", ")];
            shown.extend(self.content.text(self.snapshot, found)?.map(|text| short(&text)));
            shown.extend(self.content.file(found));
            shown.extend(self.reason(query, rank).map(|reason| format!("({reason})")));
            shown.retain(|text| !text.is_empty());
            let line = format!(
                "{:>4}  {:<width$}  {:>8}  {:>5.3}  {}",
                rank + 1 + skip,
                found.id.to_string(),
                found.hit.distance,
                found.score.unwrap_or(0.0),
                shown.join("; ")
            );
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    fn to_json(&self, query: usize, name: &str, hits: &[Found]) -> Result<Value> {
        let hit = |(rank, found): (usize, &Found)| -> Result<Value> {
            let id = match &found.id {
                Id::Number(number) => json!(number),
                Id::Name(name) => json!(name),
            };
            let mut shown = json!({
                "id": id,
                "distance": found.hit.distance,
                "score": found.score,
                "labels": labels(self.snapshot, found)?,
                "text": self.content.text(self.snapshot, found)?,
                "file": self.content.file(found),
            });
            if let Some(reason) = self.reason(query, rank) {
                shown["reason"] = json!(reason);
            }
            Ok(shown)
        };
        let hits = hits.iter().enumerate().map(hit).collect::<Result<Vec<Value>>>()?;
        Ok(json!({ "query": name, "rank": self.rank.name(), "hits": hits }))
    }
}

/// A text on one line, cut after some characters.
fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= LONGEST_TEXT {
        return line;
    }
    let cut: String = line.chars().take(LONGEST_TEXT - 3).collect();
    format!("{}...", cut.trim_end())
}

fn labels(snapshot: &Snapshot, found: &Found) -> Result<Vec<String>> {
    let name = |label: usize| match snapshot.label_names().get(label) {
        Some(name) => name.clone(),
        None => label.to_string(),
    };
    Ok(snapshot.labels(found.hit.item)?.into_iter().map(name).collect())
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
