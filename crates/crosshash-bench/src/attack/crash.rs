//! Mixed changes and their comparison with a server, for kill -9 (`kill.rs`) and full disks: what was
//! acknowledged is there, what was refused is not, and pictures and texts belong to their items.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::disk::Disk;
use super::{Outcome, copy, train};
use crate::serve::client::Reply;
use crate::serve::{Client, Server};
use crosshash_cli::progress::Progress;

/// Ids that are inserted, replaced and deleted.
const IDS: u64 = 40;
/// Items inserted at once from time to time, so that segments are written and merged.
const MANY: u64 = 300;
/// Length of their texts.
const LONG: usize = 200;

/// The version of every item that exists; none after a delete.
pub(super) type Items = BTreeMap<String, u64>;

/// A change and the versions that it leads to.
pub(super) struct Change {
    ids: Vec<(String, Option<u64>)>,
}

/// How many items acknowledged changes inserted, replaced and deleted.
#[derive(Clone, Copy, Default)]
pub(super) struct Changed {
    pub(super) inserted: usize,
    pub(super) replaced: usize,
    pub(super) deleted: usize,
}

/// The text of a version; longer for those that are inserted together.
fn text(id: &str, version: u64) -> String {
    let text = format!("version {version} of {id}");
    if id.starts_with("many") { format!("{text} ").repeat(LONG / text.len()) } else { text }
}

/// The picture of a version: a small PNG file with its own comment.
fn picture(id: &str, version: u64) -> Vec<u8> {
    let level = u8::try_from(version % 251).unwrap_or(0);
    let mut raster = vec![level; 4 * 4 * 3];
    let hash = id.bytes().fold(7_u8, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte));
    raster[0] = hash;
    crosshash::data::Raster::new(4, 3, raster).to_png().unwrap_or_default()
}

impl Change {
    pub(super) fn random(items: &Items, version: u64, rng: &mut ChaCha8Rng) -> Change {
        let one = format!("item{}", rng.random_range(0..IDS));
        match rng.random_range(0..10) {
            0..2 if items.contains_key(&one) => Change { ids: vec![(one, None)] },
            2..4 => Change::many(version, rng),
            _ => Change { ids: vec![(one, Some(version))] },
        }
    }

    /// Many items at once: some of these fill the log, so that it is folded into a segment.
    pub(super) fn many(version: u64, rng: &mut ChaCha8Rng) -> Change {
        let first = rng.random_range(0..4) * MANY;
        let many = (first..first + MANY).map(|k| (format!("many{k}"), Some(version)));
        Change { ids: many.collect() }
    }

    pub(super) fn send(&self, client: &mut Client) -> std::io::Result<Reply> {
        let put = self.ids.iter().filter_map(|(id, version)| {
            let version = (*version)?;
            let picture = STANDARD.encode(picture(id, version));
            let mut item =
                json!({ "id": id, "code": "0f0f0f0f", "text": text(id, version) });
            if !id.starts_with("many") {
                item["picture"] = picture.into();
            }
            Some(item)
        });
        let put: Vec<Value> = put.collect();
        if put.is_empty() {
            let ids: Vec<&String> = self.ids.iter().map(|(id, _)| id).collect();
            let body = json!({ "modality": "picture", "ids": ids });
            return client.json("DELETE", "/v1/items", &body.to_string());
        }
        let body = json!({ "modality": "picture", "items": put });
        client.json("POST", "/v1/items", &body.to_string())
    }

    pub(super) fn apply(&self, items: &mut Items) -> Changed {
        let mut changed = Changed::default();
        for (id, version) in &self.ids {
            match version {
                Some(version) => match items.insert(id.clone(), *version) {
                    Some(_) => changed.replaced += 1,
                    None => changed.inserted += 1,
                },
                None => changed.deleted += usize::from(items.remove(id).is_some()),
            }
        }
        changed
    }
}

/// What the server has for an id.
fn stored(client: &mut Client, id: &str) -> Result<Option<(String, Option<Vec<u8>>)>> {
    let reply = client.get(&format!("/v1/items/{id}?modality=picture"))?;
    if reply.status == 404 {
        return Ok(None);
    }
    let item: Value = serde_json::from_slice(&reply.body)?;
    let text = item["text"].as_str().with_context(|| reply.text())?.to_owned();
    let path = item["picture"].as_str().map(str::to_owned);
    let picture = path.map(|path| client.get(&path)).transpose()?.map(|reply| reply.body);
    Ok(Some((text, picture)))
}

/// Compares the server with the expected items; `open` is a change of which the end is unknown, and
/// is decided.
pub(super) fn check(
    address: SocketAddr,
    items: &mut Items,
    open: Option<Change>,
    faults: &mut Vec<String>,
    when: &str,
) -> Result<usize> {
    let mut client = Client::new(address);
    if let Some(change) = open {
        // All of it or nothing of it.
        let (id, version) = &change.ids[0];
        let now = stored(&mut client, id)?.map(|(text, _)| text);
        if now == version.map(|version| text(id, version)) {
            change.apply(items);
        }
    }
    let all = (0..IDS).map(|k| format!("item{k}"));
    let all: Vec<String> = all.chain((0..4 * MANY).map(|k| format!("many{k}"))).collect();
    for id in &all {
        let expected = items.get(id).map(|&version| {
            let file = (!id.starts_with("many")).then(|| picture(id, version));
            (text(id, version), file)
        });
        let found = stored(&mut client, id)?;
        if found != expected {
            let brief = |one: &Option<(String, Option<Vec<u8>>)>| {
                one.as_ref().map_or("nothing".into(), |(text, file)| {
                    format!("{text:?} with {} bytes", file.as_ref().map_or(0, Vec::len))
                })
            };
            faults.push(format!(
                "{when}: {id} is {}, not {}",
                brief(&found),
                brief(&expected)
            ));
        }
    }
    Ok(all.len())
}

/// Two models and a copy of the first, which is served.
pub(super) fn runs(folder: &Path, served: &Path) -> Result<[PathBuf; 2]> {
    let models = [folder.join("model-a"), folder.join("model-b")];
    for (seed, model) in (1..).zip(&models) {
        if !model.exists() {
            train(model, seed)?;
        }
    }
    copy(&models[0], served)?;
    Ok(models)
}

/// Rounds in which the disk is full for some time.
pub(super) fn full(folder: &Path, rounds: usize, seed: u64) -> Result<Outcome> {
    let disk = Disk::mount(folder.join("disk"))?;
    let served = disk.folder().join("full");
    runs(folder, &served)?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 1);
    let (mut items, mut faults) = (Items::new(), Vec::new());
    let (mut version, mut checks, mut acknowledged, mut refused) = (0, 0, 0, 0);
    let progress = Progress::new("full disk, round", rounds);
    for round in 0..rounds {
        let mut server = Server::start(&served)?;
        let mut client = Client::new(server.addr);
        checks += check(
            server.addr,
            &mut items,
            None,
            &mut faults,
            &format!("start of round {round}"),
        )?;
        for phase in 0..3 {
            if phase == 1 {
                disk.fill(rng.random_range(0..200_000))?;
            }
            for _ in 0..25 {
                version += 1;
                let change = Change::random(&items, version, &mut rng);
                let reply = change.send(&mut client)?;
                match reply.status {
                    200..300 => {
                        change.apply(&mut items);
                        acknowledged += 1;
                    }
                    500..600 if phase == 1 => refused += 1,
                    status => faults.push(format!("round {round}: status {status}")),
                }
            }
            let when = format!("round {round}, phase {phase}");
            checks += check(server.addr, &mut items, None, &mut faults, &when)?;
            if phase == 1 {
                disk.free()?;
            }
        }
        if round % 2 == 0 {
            server.kill();
        }
        progress.set(round + 1);
    }
    if refused == 0 {
        faults.push("the disk was never full".into());
    }
    let figures = json!({
        "rounds": rounds,
        "acknowledged": acknowledged,
        "refused": refused,
        "items": items.len(),
        "checks": checks,
    });
    Ok(Outcome { figures, faults })
}
