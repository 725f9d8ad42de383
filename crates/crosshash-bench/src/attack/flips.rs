//! Flipped bits in all files of a run and an index: every one is detected, or changes nothing.

use std::path::{Path, PathBuf};

use anyhow::Result;
use crosshash::RunDir;
use crosshash_codes::format::{Id, Ids};
use crosshash_codes::segments::{self, ItemBatch, NewIndex, Snapshot, Writer};
use crosshash_codes::{Bits, Codes, Labels, Outputs};
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use super::{Outcome, copy};

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
    let (mut detected, mut harmless, mut faults) = ([0, 0], [0, 0], Vec::new());
    for nth in 0..flips {
        let kind = nth % 2;
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
    let figures = json!({ "flips": flips, "run": view(0), "index": view(1) });
    Ok(Outcome { figures, faults })
}

/// An index with segments, removals, payloads, outputs and a log.
fn build(folder: &Path, rng: &mut ChaCha8Rng) -> Result<()> {
    let bits = Bits::new(96)?;
    let names = ["a", "b", "c"].map(str::to_owned);
    let settings = NewIndex { bits, label_names: &names, outputs: true, after_commit: 0 };
    let mut writer = Writer::create_with(folder, settings)?;
    for round in 0..4_u64 {
        let count = 50;
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
        if round < 2 {
            writer.flush()?;
        }
    }
    Ok(())
}

fn content(folder: &Path) -> Result<Content> {
    let snapshot = Snapshot::open(folder)?;
    let mut all = Vec::new();
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
