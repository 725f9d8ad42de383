//! Crashes and full disks under mixed changes: what was acknowledged is there, what was refused is
//! not, and pictures and texts belong to their items.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crosshash_codes::segments::is_index;
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
const LONG: usize = 2500;

/// The version of every item that exists; none after a delete.
type Items = BTreeMap<String, u64>;

/// A change and the versions that it leads to.
struct Change {
    ids: Vec<(String, Option<u64>)>,
}

/// The text of a version; long for those that are inserted together, so that the log is folded often.
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
    fn random(items: &Items, version: u64, rng: &mut ChaCha8Rng) -> Change {
        let one = format!("item{}", rng.random_range(0..IDS));
        match rng.random_range(0..10) {
            0..2 if items.contains_key(&one) => Change { ids: vec![(one, None)] },
            2..4 => {
                let first = rng.random_range(0..4) * MANY;
                let many =
                    (first..first + MANY).map(|k| (format!("many{k}"), Some(version)));
                Change { ids: many.collect() }
            }
            _ => Change { ids: vec![(one, Some(version))] },
        }
    }

    fn send(&self, client: &mut Client) -> std::io::Result<Reply> {
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

    fn apply(&self, items: &mut Items) {
        for (id, version) in &self.ids {
            match version {
                Some(version) => items.insert(id.clone(), *version),
                None => items.remove(id),
            };
        }
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
fn check(
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

/// Copies a run over another one, the checksums last.
fn exchange(from: &Path, to: &Path) -> Result<()> {
    for entry in fs_err::read_dir(from)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() && name == "codes" {
            copy(&path, &to.join("codes"))?;
        } else if path.is_file() && name != "checksums.json" {
            fs_err::copy(&path, to.join(name))?;
        }
    }
    fs_err::copy(from.join("checksums.json"), to.join("checksums.json"))?;
    Ok(())
}

/// Two models and a copy of the first, which is served.
fn runs(folder: &Path, served: &Path) -> Result<[PathBuf; 2]> {
    let models = [folder.join("model-a"), folder.join("model-b")];
    for (seed, model) in (1..).zip(&models) {
        if !model.exists() {
            train(model, seed)?;
        }
    }
    copy(&models[0], served)?;
    Ok(models)
}

/// The folders of the indexes of a served run.
fn indexes(served: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for modality in fs_err::read_dir(served.join("serve"))? {
        for folder in fs_err::read_dir(modality?.path())? {
            all.extend(Some(folder?.path()).filter(|folder| is_index(folder)));
        }
    }
    Ok(all)
}

/// Starts compactions of all indexes and kills them at a random moment.
fn killed_compactions(served: &Path, rng: &mut ChaCha8Rng) -> Result<usize> {
    let folders = indexes(served)?;
    for folder in &folders {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["program", "index", "compact"])
            .arg(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        std::thread::sleep(Duration::from_millis(rng.random_range(5..60)));
        let _ = child.kill();
        child.wait()?;
    }
    Ok(folders.len())
}

/// The numbers of the last log and of the segments of the pictures, to count folds and compactions.
fn files_of_pictures(served: &Path) -> Result<(u64, usize)> {
    let mut newest = (0, 0);
    for folder in indexes(served)? {
        if folder.parent().is_some_and(|parent| parent.ends_with("picture")) {
            let mut logs = Vec::new();
            let mut segments = 0;
            for entry in fs_err::read_dir(folder)? {
                let path = entry?.path();
                let stem = path.file_stem().and_then(|stem| stem.to_str());
                let number: Option<u64> = stem.and_then(|stem| stem.parse().ok());
                match path.extension().and_then(|ending| ending.to_str()) {
                    Some("log") => logs.extend(number),
                    Some("segment") => segments += 1,
                    _ => {}
                }
            }
            newest = newest.max((logs.into_iter().max().unwrap_or(0), segments));
        }
    }
    Ok(newest)
}

/// Rounds of kill -9 at a random moment.
pub(super) fn kill(folder: &Path, rounds: usize, seed: u64) -> Result<Outcome> {
    let served = folder.join("killed");
    let models = runs(folder, &served)?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut items, mut faults) = (Items::new(), Vec::new());
    let (mut version, mut checks, mut acknowledged, mut exchanges) = (0, 0, 0, 0);
    let (mut folds, mut merges, mut compactions) = (0, 0, 0);
    let mut open = None;
    let progress = Progress::new("kill -9, round", rounds);
    for round in 0..rounds {
        let mut server = Server::start(&served)?;
        let address = server.addr;
        let when = format!("round {round}");
        checks += check(address, &mut items, open.take(), &mut faults, &when)?;
        let exchanging = round % 4 == 3;
        if exchanging {
            exchange(&models[(round / 4 + 1) % 2], &served)?;
            exchanges += 1;
        }
        let before = files_of_pictures(&served)?;
        let life = Duration::from_millis(rng.random_range(5..600));
        open = std::thread::scope(|scope| -> Option<Change> {
            let work = scope.spawn(|| {
                let mut client = Client::new(address);
                if exchanging {
                    let reply = client.request("POST", "/v1/models/killed/reload", "", &[]);
                    if reply.is_err() {
                        return None;
                    }
                }
                loop {
                    version += 1;
                    let change = Change::random(&items, version, &mut rng);
                    match change.send(&mut client) {
                        Ok(reply) if reply.status < 300 => {
                            change.apply(&mut items);
                            acknowledged += 1;
                        }
                        Ok(reply) => {
                            faults.push(format!("{when}: status {}", reply.status));
                            return None;
                        }
                        Err(_) => return Some(change),
                    }
                }
            });
            std::thread::sleep(life);
            server.kill();
            work.join().ok().flatten()
        });
        let now = files_of_pictures(&served)?;
        folds += usize::from(now.0 != before.0);
        merges += usize::from(now.1 < before.1);
        if round % 3 == 2 {
            compactions += killed_compactions(&served, &mut rng)?;
        }
        progress.set(round + 1);
    }
    let server = Server::start(&served)?;
    checks += check(server.addr, &mut items, open.take(), &mut faults, "at the end")?;
    let figures = json!({
        "rounds": rounds,
        "acknowledged": acknowledged,
        "exchanges": exchanges,
        "rounds_with_a_fold": folds,
        "rounds_with_a_merge": merges,
        "killed_compactions": compactions,
        "items": items.len(),
        "checks": checks,
    });
    Ok(Outcome { figures, faults })
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
