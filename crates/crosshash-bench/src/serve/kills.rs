//! kill -9 under inserts: codes, outputs, words and content of every item agree after every restart, and no
//! acknowledged change is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use crosshash_cli::progress::Progress;
use crosshash_codes::Bits;
use crosshash_codes::segments::{NewIndex, Writer};
use serde::Serialize;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::client::{Client, Reply};
use super::server::Server;

/// Connections that change items at the same time.
const CONNECTIONS: u64 = 3;
/// Ids of each connection, changed again and again.
const IDS: u64 = 20;
/// A word that all texts contain.
const COMMON: &str = "common";

/// The results.
#[derive(Debug, Default, Serialize)]
pub(super) struct Killed {
    rounds: u64,
    /// Changes that were acknowledged before a kill.
    acknowledged: u64,
    /// Items that were compared after a restart.
    compared: u64,
    /// Searches by words that followed an acknowledged insert at once.
    found_at_once: u64,
}

/// What was sent and acknowledged.
#[derive(Default)]
struct Sent {
    /// Every text of an id.
    texts: BTreeMap<u64, Vec<String>>,
    /// The last acknowledged text; none after a deletion.
    acknowledged: BTreeMap<u64, Option<String>>,
    /// Changes that were not acknowledged before the kill.
    pending: BTreeMap<u64, Vec<Option<String>>>,
}

/// Kills a server `rounds` times and compares its items after every restart.
pub(super) fn run(rounds: u64) -> Result<Killed> {
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("index");
    let new =
        NewIndex { bits: Bits::new(64)?, label_names: &[], outputs: true, after_commit: 0 };
    Writer::create_with(&place, new)?.flush()?;
    let sent = Mutex::new(Sent::default());
    let mut done = Killed { rounds, ..Killed::default() };
    let progress = Progress::new("kill -9, round", usize::try_from(rounds)?);
    for round in 0..=rounds {
        let mut server = Server::start(&place)?;
        let compared = compare(&server, &mut lock(&sent));
        done.compared += compared.with_context(|| format!("after {round} kills"))?;
        if round == rounds {
            break;
        }
        let addr = server.addr;
        let outcomes = std::thread::scope(|scope| {
            let change = |thread: u64| {
                let sent = &sent;
                scope.spawn(move || change_items(Client::new(addr), thread, round, sent))
            };
            let threads: Vec<_> = (0..CONNECTIONS).map(change).collect();
            std::thread::sleep(Duration::from_millis(300 + 137 * (round % 7)));
            server.kill();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<(u64, u64)>>| {
                thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))?
            };
            threads.into_iter().map(join).collect::<Result<Vec<_>>>()
        })?;
        for (acknowledged, found) in outcomes {
            done.acknowledged += acknowledged;
            done.found_at_once += found;
        }
        progress.set(usize::try_from(round + 1)?);
    }
    Ok(done)
}

fn lock(sent: &Mutex<Sent>) -> MutexGuard<'_, Sent> {
    sent.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Inserts, replaces and deletes until the server is gone. An acknowledged item is found by its words at once.
/// Returns the number of acknowledged changes, and of searches.
fn change_items(
    mut client: Client,
    thread: u64,
    round: u64,
    sent: &Mutex<Sent>,
) -> Result<(u64, u64)> {
    let (mut done, mut found) = (0, 0);
    for n in 0.. {
        let id = 10_000 + thread * 1000 + (round * 7 + n) % IDS;
        let text = (n % 5 != 4).then(|| format!("{COMMON} word{round}x{thread}x{n}"));
        {
            let mut sent = lock(sent);
            sent.pending.entry(id).or_default().push(text.clone());
            sent.acknowledged.entry(id).or_default();
            sent.texts.entry(id).or_default().extend(text.clone());
        }
        let reply = match &text {
            Some(text) => {
                let item = json!({ "id": id, "code": code(text), "text": text, "meta": { "hash": code(text) } });
                let body = json!({ "modality": "items", "items": [item] });
                client.json("POST", "/v1/items", &body.to_string())
            }
            None => {
                let body = json!({ "modality": "items", "ids": [id] });
                client.json("DELETE", "/v1/items", &body.to_string())
            }
        };
        let Ok(reply) = reply else { break };
        ensure!(reply.status < 300, "a change was refused: {}", reply.text());
        {
            let mut sent = lock(sent);
            sent.acknowledged.insert(id, text.clone());
            sent.pending.remove(&id);
        }
        done += 1;
        let Some(text) = text.filter(|_| n % 3 == 0) else { continue };
        let Ok(reply) = with_word(&mut client, word(&text)) else { break };
        let ids = ids(&reply)?;
        ensure!(
            ids == BTreeSet::from([id.to_string()]),
            "{text:?} was acknowledged; its word finds {ids:?} instead of {id}"
        );
        found += 1;
    }
    Ok((done, found))
}

/// Compares all items with what was acknowledged; returns their number.
fn compare(server: &Server, sent: &mut Sent) -> Result<u64> {
    let mut client = Client::new(server.addr);
    let mut with_text = BTreeSet::new();
    let known: Vec<u64> = sent.acknowledged.keys().copied().collect();
    for &id in &known {
        let text = item(&mut client, id)?;
        let told = sent.acknowledged[&id].clone();
        let maybe = sent.pending.remove(&id).unwrap_or_default();
        ensure!(
            text == told || maybe.contains(&text),
            "item {id} is {text:?}; acknowledged was {told:?}"
        );
        with_text.extend(text.as_ref().map(|_| id.to_string()));
        // Of its last texts, only the present one finds it.
        for old in sent.texts[&id].iter().rev().take(3) {
            let own = text.as_ref().filter(|text| *text == old);
            let wanted: BTreeSet<String> =
                own.map(|_| id.to_string()).into_iter().collect();
            let found = ids(&with_word(&mut client, word(old))?)?;
            ensure!(found == wanted, "{old:?} finds {found:?} instead of {wanted:?}");
        }
        sent.acknowledged.insert(id, text);
    }
    sent.pending.clear();
    let common = ids(&with_word(&mut client, COMMON)?)?;
    ensure!(common == with_text, "by words {common:?}, by id {with_text:?}");
    Ok(known.len().try_into()?)
}

/// The text of an item, if it exists; its code, outputs and meta must be those of the text.
fn item(client: &mut Client, id: u64) -> Result<Option<String>> {
    let reply = client.get(&format!("/v1/items/{id}"))?;
    if reply.status == 404 {
        return Ok(None);
    }
    let item: Value = serde_json::from_slice(&reply.body)?;
    let text = item["text"].as_str().context("the item has no text")?.to_owned();
    ensure!(item["code"] == json!(code(&text)), "code and text of {id} differ: {item}");
    ensure!(item["meta"]["hash"] == item["code"], "meta and text of {id} differ: {item}");
    // The outputs of an item with a code are its signs: their cosine with the code is 1.
    let body = json!({ "query": { "code": item["code"] }, "filter": format!("id = {id}") });
    let reply = client.json("POST", "/v1/search", &body.to_string())?;
    let found: Value = serde_json::from_slice(&reply.body)?;
    ensure!(found["rank"] == "outputs", "the index has no outputs: {found}");
    let score = found["hits"][0]["score"].as_f64().unwrap_or(0.0);
    ensure!((score - 1.0).abs() < 1e-6, "outputs and code of {id} differ: {found}");
    Ok(Some(text))
}

fn with_word(client: &mut Client, word: &str) -> std::io::Result<Reply> {
    let body = json!({ "query": { "text": word }, "by": "words", "k": 1000 });
    client.json("POST", "/v1/search", &body.to_string())
}

/// The ids of a response.
fn ids(reply: &Reply) -> Result<BTreeSet<String>> {
    ensure!(reply.status == 200, "a search failed: {}", reply.text());
    let found: Value = serde_json::from_slice(&reply.body)?;
    let hits = found["hits"].as_array().context("no hits in the response")?.iter();
    Ok(hits.filter_map(|hit| Some(hit["id"].as_str()?.to_owned())).collect())
}

/// The word that only this text has.
fn word(text: &str) -> &str {
    text.split(' ').next_back().unwrap_or_default()
}

/// The code that belongs to a text.
fn code(text: &str) -> String {
    format!("{:016x}", xxh3_64(text.as_bytes()))
}
