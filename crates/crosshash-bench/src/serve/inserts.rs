//! Inserts with and without texts: rate, latency of a search that follows an insert, size of the keyword index.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use crosshash::data::emoji;
use crosshash_codes::Bits;
use crosshash_codes::segments::Writer;
use serde::Serialize;
use serde_json::{Value, json};

use super::client::Client;
use super::server::Server;

/// Items of one request.
const BATCH: usize = 500;
/// Single inserts, each followed by a search.
const SINGLE: usize = 200;
/// Time in which pending changes are written and segments merged.
const SETTLE: Duration = Duration::from_secs(3);

/// The results.
#[derive(Debug, Serialize)]
pub(super) struct Inserted {
    items: usize,
    items_per_second: f64,
    items_per_second_without_texts: f64,
    keyword_bytes_per_item: f64,
    /// Median of searches by words.
    search_p50_ms: f64,
    /// Searches by words that follow the insert of one item at once, which they find.
    after_insert_p50_ms: f64,
    after_insert_p99_ms: f64,
    /// The insert itself.
    insert_p50_ms: f64,
    /// Seconds to build the keyword index of all items again.
    build_seconds: f64,
}

pub(super) fn run(items: usize) -> Result<Inserted> {
    let (without, _) = filled(items, false)?;
    let (rate, folder) = filled(items, true)?;
    let place = folder.path().join("index");
    let server = Server::start(&place)?;
    let mut client = Client::new(server.addr);
    let mut searches = Vec::new();
    for n in 0..SINGLE {
        let start = Instant::now();
        found(&mut client, &format!("number{n}"), &n.to_string())?;
        searches.push(start.elapsed());
    }
    let (mut inserts, mut after) = (Vec::new(), Vec::new());
    for n in 0..SINGLE {
        let id = 100_000_000 + n;
        let start = Instant::now();
        let item =
            json!({ "id": id, "code": format!("{id:016x}"), "text": format!("single{n}") });
        insert(&mut client, &json!({ "modality": "items", "items": [item] }))?;
        inserts.push(start.elapsed());
        let start = Instant::now();
        found(&mut client, &format!("single{n}"), &id.to_string())?;
        after.push(start.elapsed());
    }
    std::thread::sleep(SETTLE);
    drop(server);
    let keywords = place.join("keywords");
    let bytes = size(&keywords)?;
    fs_err::remove_dir_all(&keywords)?;
    let start = Instant::now();
    let server = Server::start(&place)?;
    let build_seconds = start.elapsed().as_secs_f64();
    found(&mut Client::new(server.addr), "number7", "7")?;
    Ok(Inserted {
        items,
        items_per_second: rate,
        items_per_second_without_texts: without,
        keyword_bytes_per_item: bytes as f64 / (items + SINGLE) as f64,
        search_p50_ms: quantile(&mut searches, 50),
        after_insert_p50_ms: quantile(&mut after, 50),
        after_insert_p99_ms: quantile(&mut after, 99),
        insert_p50_ms: quantile(&mut inserts, 50),
        build_seconds,
    })
}

/// An index with items, inserted in batches: items per second, and its folder. Without texts, the same words
/// are in `meta`.
fn filled(items: usize, by_words: bool) -> Result<(f64, tempfile::TempDir)> {
    let texts: Vec<String> = emoji::catalogue().0.iter().map(emoji::Item::words).collect();
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("index");
    Writer::create(&place, Bits::new(64)?, &[])?.flush()?;
    let server = Server::start(&place)?;
    let mut client = Client::new(server.addr);
    let item = |n: usize| {
        let text = format!("{} number{n}", texts[n % texts.len()]);
        let code = format!("{n:016x}");
        if by_words {
            json!({ "id": n, "code": code, "text": text })
        } else {
            json!({ "id": n, "code": code, "meta": { "words": text } })
        }
    };
    let all: Vec<usize> = (0..items).collect();
    let bodies: Vec<Value> = all
        .chunks(BATCH)
        .map(|some| some.iter().map(|&n| item(n)).collect::<Vec<Value>>())
        .map(|items| json!({ "modality": "items", "items": items }))
        .collect();
    let start = Instant::now();
    for body in &bodies {
        insert(&mut client, body)?;
    }
    if by_words {
        // The last of them can be found: all words are indexed.
        let last = items - 1;
        found(&mut client, &format!("number{last}"), &last.to_string())?;
    }
    Ok((items as f64 / start.elapsed().as_secs_f64(), folder))
}

fn insert(client: &mut Client, body: &Value) -> Result<()> {
    let reply = client.json("POST", "/v1/items", &body.to_string())?;
    ensure!(reply.status == 201, "an insert failed: {}", reply.text());
    Ok(())
}

/// A search by a word finds exactly this item.
fn found(client: &mut Client, word: &str, id: &str) -> Result<()> {
    let body = json!({ "query": { "text": word }, "by": "words", "k": 10 });
    let reply = client.json("POST", "/v1/search", &body.to_string())?;
    let value: Value = serde_json::from_slice(&reply.body)?;
    let hits = value["hits"].as_array().with_context(|| reply.text())?;
    ensure!(hits.len() == 1 && hits[0]["id"] == id, "{word} finds {value}");
    Ok(())
}

/// Bytes of the files of a folder.
fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs_err::read_dir(folder)? {
        bytes += entry?.metadata()?.len();
    }
    Ok(bytes)
}

/// A quantile in milliseconds.
fn quantile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    let at = (times.len() * percent).div_ceil(100).clamp(1, times.len());
    1e3 * times[at - 1].as_secs_f64()
}
