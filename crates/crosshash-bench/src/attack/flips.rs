//! Flipped bits in all files of a run, of an index, and of the indexes of a service with their keyword
//! indexes: every one is detected, or changes nothing.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use crosshash::RunDir;
use crosshash_codes::format::{Id, Ids};
use crosshash_codes::index::{LeafForm, Query};
use crosshash_codes::segments::{self, ItemBatch, NewIndex, Snapshot, Writer};
use crosshash_codes::{Bits, Codes, Labels, Outputs};
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::{Outcome, copy};
use crate::serve::{Client, Server};
use crosshash_cli::progress::Progress;

/// After this time the keyword index is written.
const KEYWORDS_WRITTEN: Duration = Duration::from_millis(1500);

/// What an index contains: id, code, labels, payload, outputs.
type Content = Vec<(String, Vec<u64>, Vec<usize>, Vec<u8>, Option<Vec<i8>>)>;

pub(super) fn run(run: &Path, folder: &Path, flips: usize, seed: u64) -> Result<Outcome> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 2);
    let (run_copy, index) = (folder.join("flipped-run"), folder.join("flipped-index"));
    copy(run, &run_copy)?;
    let service = run_copy.join("serve");
    if service.exists() {
        fs_err::remove_dir_all(service)?;
    }
    build(&index, &mut rng)?;
    let original = content(&index)?;
    let (mut detected, mut harmless, mut faults) = ([0; 3], [0; 3], Vec::new());
    let mut service = Service::new(run, folder)?;
    let progress = Progress::new("flipped bits", flips);
    for nth in 0..flips {
        progress.set(nth);
        // half of them in the run, a third in the index, a sixth in the service
        let kind = [0, 1, 0, 1, 0, 2][nth % 6];
        if kind == 2 {
            match service.flip(&mut rng)? {
                Flip::Detected => detected[2] += 1,
                Flip::Harmless => harmless[2] += 1,
                Flip::Fault(what) => faults.push(what),
            }
            continue;
        }
        let place = if kind == 0 { &run_copy } else { &index };
        let files = files(place)?;
        let path = &files[rng.random_range(0..files.len())];
        let mut bytes = fs_err::read(path)?;
        if bytes.is_empty() {
            harmless[kind] += 1; // the lock
            continue;
        }
        let bit = rng.random_range(0..bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs_err::write(path, &bytes)?;
        let is_detected = match kind {
            0 => RunDir::planned(&run_copy)
                .verify()
                .map_or(true, |states| states.iter().any(|state| state.fault.is_some())),
            _ => segments::verify(&index)
                .map_or(true, |states| states.iter().any(|state| state.fault.is_some())),
        };
        if is_detected {
            detected[kind] += 1;
        } else if kind == 1 && content(&index).is_ok_and(|now| now == original) {
            harmless[kind] += 1;
        } else {
            faults.push(format!("{}: bit {bit} is not detected", path.display()));
        }
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs_err::write(path, &bytes)?;
    }
    let view =
        |kind: usize| json!({ "detected": detected[kind], "harmless": harmless[kind] });
    let figures =
        json!({ "flips": flips, "run": view(0), "index": view(1), "service": view(2) });
    Ok(Outcome { figures, faults })
}

/// What a flip did.
enum Flip {
    Detected,
    Harmless,
    Fault(String),
}

/// A run with the indexes of its service.
struct Service {
    run: PathBuf,
    /// The files of the service as they were written.
    sound: PathBuf,
    results: Value,
}

impl Service {
    /// Serves a copy of a run, inserts items and stops.
    fn new(run: &Path, folder: &Path) -> Result<Service> {
        let (served, sound) =
            (folder.join("flipped-service"), folder.join("sound-service"));
        copy(run, &served)?;
        let mut server = Server::start(&served)?;
        let item =
            |k: usize| json!({ "id": format!("mine{k}"), "text": format!("thing {k}") });
        let items: Vec<Value> = (0..20).map(item).collect();
        let body = json!({ "modality": "words", "items": items }).to_string();
        let reply = Client::new(server.addr).json("POST", "/v1/items", &body)?;
        anyhow::ensure!(reply.status == 201, "{}", reply.text());
        let results = results(server.addr)?;
        std::thread::sleep(KEYWORDS_WRITTEN);
        server.kill();
        copy(&served.join("serve"), &sound)?;
        Ok(Service { run: served, sound, results })
    }

    /// Flips a bit. Damage of an index is reported by `verify`; a damaged keyword index is built
    /// again when the server starts, so that the results are the same.
    fn flip(&mut self, rng: &mut ChaCha8Rng) -> Result<Flip> {
        let service = self.run.join("serve");
        fs_err::remove_dir_all(&service)?;
        copy(&self.sound, &service)?;
        let files = files(&service)?;
        let path = &files[rng.random_range(0..files.len())];
        let mut bytes = fs_err::read(path)?;
        if bytes.is_empty() {
            return Ok(Flip::Harmless);
        }
        let bit = rng.random_range(0..bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs_err::write(path, &bytes)?;
        let is_keyword = path.components().any(|part| part.as_os_str() == "keywords");
        if !is_keyword {
            let index = path.parent().unwrap_or(path);
            let damaged = segments::verify(index)
                .map_or(true, |states| states.iter().any(|state| state.fault.is_some()));
            if damaged {
                return Ok(Flip::Detected);
            }
        }
        let Ok(server) = Server::start(&self.run) else { return Ok(Flip::Detected) };
        if results(server.addr)? == self.results {
            Ok(Flip::Harmless)
        } else {
            Ok(Flip::Fault(format!("{}: bit {bit} changes results", path.display())))
        }
    }
}

/// What a server answers to some searches by words and by meaning.
fn results(address: SocketAddr) -> Result<Value> {
    let mut client = Client::new(address);
    let mut all = Vec::new();
    for target in ["words", "picture"] {
        for (text, by) in [("cat", "words"), ("thing 7", "words"), ("dog", "both")] {
            let body =
                json!({ "query": { "text": text }, "target": target, "by": by, "k": 20 });
            let reply = client.json("POST", "/v1/search", &body.to_string())?;
            let found: Value = serde_json::from_slice(&reply.body)?;
            all.push(json!([reply.status, found["hits"], found["matching"]]));
        }
    }
    Ok(all.into())
}

/// An index with segments, one of them with a tree, removals, payloads, outputs and a log.
fn build(folder: &Path, rng: &mut ChaCha8Rng) -> Result<()> {
    let bits = Bits::new(96)?;
    let names = ["a", "b", "c"].map(str::to_owned);
    let settings = NewIndex { bits, label_names: &names, outputs: true, after_commit: 0 };
    let mut writer = Writer::create_with(folder, settings)?;
    for round in 0..5_u64 {
        // only large segments have trees
        let count = if round == 0 { 8500 } else { 50 };
        let reals: Vec<f32> =
            (0..count * 96).map(|_| rng.random_range(-1.0..1.0)).collect();
        let ids = (0..count).map(|k| format!("item {}", round * 40 + k as u64)).collect();
        let payload = |_: usize| {
            let mut bytes = vec![0; rng.random_range(0..200)];
            rng.fill_bytes(&mut bytes);
            bytes.into()
        };
        let payloads = (0..count).map(payload).collect();
        let labels = (0..count).map(|k| [u32::try_from(k % 3).unwrap_or(0)]);
        writer.upsert(ItemBatch {
            codes: Codes::from_signs(bits, &reals)?,
            ids: Some(Ids::Names(ids)),
            labels: Some(Labels::from_indices(3, labels)?),
            payloads: Some(payloads),
            flags: None,
            outputs: Some(Outputs::from_reals(bits, &reals)?),
        })?;
        writer.delete(&[Id::Name(format!("item {}", round * 40 + 7))])?;
        if round < 3 {
            writer.flush()?;
        }
        if round == 0 {
            writer.snapshot().write_trees(LeafForm::Fast, &|_| ())?;
        }
    }
    Ok(())
}

fn content(folder: &Path) -> Result<Content> {
    let snapshot = Snapshot::open(folder)?;
    let mut all = Vec::new();
    // searched by the tree
    let zero = Codes::from_words(snapshot.bits(), vec![0; snapshot.bits().words()])?;
    for hit in snapshot.hits(&zero, &Query::nearest(100), &|_| ())?.remove(0) {
        all.push((String::new(), Vec::new(), vec![hit.item as usize], Vec::new(), None));
    }
    for item in snapshot.items() {
        all.push((
            snapshot.id(item)?.to_string(),
            snapshot.code(item)?.to_vec(),
            snapshot.labels(item)?,
            snapshot.payload(item)?.to_vec(),
            snapshot.outputs(item)?.map(<[i8]>::to_vec),
        ));
    }
    Ok(all)
}

/// All files below a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            all.extend(files(&path)?);
        } else {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}
