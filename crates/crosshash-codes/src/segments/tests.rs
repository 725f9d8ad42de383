//! Power cuts, full disks and refusals.

use std::collections::BTreeMap;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::log::{self, Log};
use super::manifest::Manifest;
use super::record::Change;
use super::writer::LOG_ITEMS;
use super::{ItemBatch, Snapshot, Writer, rescue, verify};
use crate::format::{CodeFile, Id, Ids};
use crate::index::Query;
use crate::write::cut;
use crate::{Bits, Codes, Labels, Result};

type State = BTreeMap<u64, u64>;

fn items(pairs: &[(u64, u64)]) -> CodeFile {
    let words = pairs.iter().map(|pair| pair.1).collect();
    CodeFile {
        codes: Codes::from_words(Bits::new(64).unwrap(), words).unwrap(),
        ids: Some(Ids::Numbers(pairs.iter().map(|pair| pair.0).collect())),
        labels: None,
    }
}

/// All items that a reader finds.
fn state(folder: &Path) -> State {
    let snapshot = Snapshot::open(folder).unwrap();
    snapshot.verify().unwrap();
    let zero = Codes::from_words(Bits::new(64).unwrap(), vec![0]).unwrap();
    let found = snapshot.search(&zero, &Query::within(64), &|_| ()).unwrap().remove(0);
    assert!(found.is_sorted_by_key(|found| found.hit));
    assert_eq!(snapshot.items().count(), snapshot.len());
    let file = snapshot.to_code_file().unwrap();
    let Some(Ids::Numbers(ids)) = &file.ids else { return State::new() };
    let all: State = ids.iter().copied().zip(file.codes.words().iter().copied()).collect();
    assert_eq!((found.len(), snapshot.len()), (all.len(), all.len()));
    all
}

fn copy(from: &Path, to: &Path) {
    fs_err::create_dir_all(to).unwrap();
    for entry in fs_err::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs_err::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Cuts the power inside everything that each operation writes, byte by byte: the old state
/// is there until the operation has returned, and the new one from then on.
#[test]
fn a_power_cut_at_any_byte_leaves_the_last_commit() {
    type Operation = fn(&mut Writer) -> Result<usize>;
    let operations: [(&str, Operation); 9] = [
        ("insert", |writer| writer.insert(items(&[(7, 70), (8, 80), (3, 30)]))),
        ("upsert", |writer| writer.upsert(items(&[(8, 81), (9, 90)]))),
        ("delete", |writer| writer.delete(&[Id::Number(3), Id::Number(1000)])),
        ("flush", |writer| writer.flush().map(|()| 0)),
        ("upsert flushed", |writer| writer.upsert(items(&[(7, 71), (10, 1)]))),
        ("compact", |writer| writer.compact().map(|()| 0)),
        ("insert after", |writer| writer.insert(items(&[(1, 10)]))),
        ("large", |writer| {
            let pairs: Vec<_> = (1..=LOG_ITEMS as u64 + 1).map(|id| (id, id)).collect();
            writer.upsert(items(&pairs))
        }),
        ("mixed", |writer| {
            let deleted = vec![Id::Number(2), Id::Number(3)];
            writer.apply((&items(&[(4, 5), (90_000, 1)])).into(), deleted).map(|()| 1)
        }),
    ];
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("base");
    drop(Writer::create(&base, Bits::new(64).unwrap(), &[]).unwrap());
    for (name, operation) in operations {
        let before = state(&base);
        let done = dir.path().join("done");
        copy(&base, &done);
        operation(&mut Writer::open(&done).unwrap()).unwrap();
        let after = state(&done);
        let mut cuts = 0;
        let step = match name {
            "insert" | "upsert" | "delete" => 1,
            "mixed" | "upsert flushed" | "insert after" => 3,
            "large" => 997,
            _ => 17,
        };
        for left in (0..).step_by(step) {
            let folder = dir.path().join("cut");
            copy(&base, &folder);
            let mut writer = Writer::open(&folder).unwrap();
            cut::LEFT.set(Some(left));
            let result = operation(&mut writer);
            cut::LEFT.set(None);
            drop(writer);
            let wanted = if result.is_ok() { &after } else { &before };
            assert_eq!(&state(&folder), wanted, "{name}, {left} bytes arrived");
            // the next writer continues as if nothing had happened
            operation(&mut Writer::open(&folder).unwrap()).unwrap_or_default();
            assert_eq!(&state(&folder), &after, "{name} again");
            fs_err::remove_dir_all(&folder).unwrap();
            cuts += 1;
            if result.is_ok() {
                break;
            }
        }
        assert!(cuts > 10, "{name}: {cuts} cuts");
        assert!(after == before || name != "flush" && name != "compact");
        fs_err::remove_dir_all(&base).unwrap();
        fs_err::rename(&done, &base).unwrap();
    }
}

/// On a full disk nothing of a change is there, before or after the index is opened again,
/// and changes work again when there is space.
#[test]
fn a_full_disk_leaves_the_last_commit() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), Bits::new(64).unwrap(), &[]).unwrap();
    writer.insert(items(&[(1, 1), (2, 2)])).unwrap();
    let old = State::from([(1, 1), (2, 2)]);
    let many: Vec<_> = (0..=LOG_ITEMS as u64).map(|id| (id, 9)).collect();
    for space in [0, 1, 30, 70, 90, 200, 10_000] {
        cut::SPACE.set(Some(space));
        let small = writer.upsert(items(&[(1, 7), (3, 7)]));
        let large = writer.upsert(items(&many));
        cut::SPACE.set(None);
        let err = large.unwrap_err().to_string();
        assert!(err.contains("storage space"), "{err}");
        assert_eq!(small.is_ok(), space > 150, "{space}");
        if small.is_ok() {
            break;
        }
        assert_eq!(writer.snapshot().len(), 2);
        assert_eq!(state(dir.path()), old);
    }
    let new = State::from([(1, 7), (2, 2), (3, 7)]);
    assert_eq!(state(dir.path()), new);
    drop(writer);
    let mut writer = Writer::open(dir.path()).unwrap();
    cut::SPACE.set(Some(100));
    assert!(writer.flush().is_err() && writer.compact().is_err());
    cut::SPACE.set(None);
    assert_eq!(state(dir.path()), new);
    writer.compact().unwrap();
    assert_eq!(state(dir.path()), new);
    // nothing is left over: manifest, segment, log, lock
    assert_eq!(fs_err::read_dir(dir.path()).unwrap().count(), 4);
}

#[test]
fn one_writer_many_readers() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), Bits::new(64).unwrap(), &[]).unwrap();
    writer.insert(items(&[(1, 1), (2, 2)])).unwrap();
    let err = Writer::open(dir.path()).err().unwrap().to_string();
    assert!(err.ends_with("another process is writing to this index; wait for it to end"));
    let old = Snapshot::open(dir.path()).unwrap();
    writer.delete(&[Id::Number(1)]).unwrap();
    writer.compact().unwrap();
    assert_eq!((old.len(), writer.snapshot().len()), (2, 1));
    old.verify().unwrap();
    assert_eq!(state(dir.path()), State::from([(2, 2)]));
}

#[test]
fn errors_suggest_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let err = Writer::open(dir.path()).err().unwrap().to_string();
    assert!(err.contains("is not the folder of an index"), "{err}");
    let mut writer = Writer::create(dir.path(), Bits::new(64).unwrap(), &[]).unwrap();
    writer.insert(items(&[(1, 1)])).unwrap();
    let mut refused = |items: &CodeFile| writer.insert(items).unwrap_err().to_string();
    assert_eq!(
        refused(&items(&[(5, 1), (1, 1)])),
        "row 1: id 1 is in the index already; upsert replaces it"
    );
    assert_eq!(
        refused(&items(&[(9, 1), (4, 1), (9, 2)])),
        "id 9 occurs twice; every item needs its own"
    );
    let mut named = items(&[(5, 1)]);
    named.ids = Some(Ids::Names(vec!["five".into()]));
    assert_eq!(
        refused(&named),
        "the index has numbers as ids, the new items have names; one index has one kind"
    );
    let short = CodeFile::new(Codes::from_words(Bits::new(8).unwrap(), vec![3]).unwrap());
    assert_eq!(
        refused(&short),
        "the index has 64 bits a code, the new items has 8; encode both by one model"
    );
    let most = items(&[(u64::MAX, 1)]);
    assert_eq!(writer.insert(&most).unwrap(), 1);
    let mut more = items(&[(0, 2)]);
    more.ids = None;
    let err = writer.insert(&more).unwrap_err().to_string();
    assert_eq!(err, "the largest id is taken; give the new items ids of their own");
}

/// Records with right checksums that no writer wrote: too many labels, ids that occur twice or are of
/// the other kind. They are refused before memory is allocated, and a rescue keeps what is before them.
#[test]
fn crafted_records_are_rejected() {
    let bits = Bits::new(64).unwrap();
    let batch = |ids: Ids| ItemBatch {
        ids: Some(ids),
        ..ItemBatch::new(Codes::from_words(bits, vec![5, 6]).unwrap())
    };
    let change = |items: ItemBatch, classes: usize| {
        let change = Change { items, deleted: Vec::new(), classes, next_id: 0 };
        change.encode().unwrap()
    };
    let many = |classes: usize| change(batch(Ids::Numbers(vec![8, 9])), classes);
    let crafted = [
        many(usize::MAX),
        many(1 << 40),
        many((1 << 20) + 1),
        change(batch(Ids::Numbers(vec![7, 7])), 0),
        change(batch(Ids::Names(vec!["a".into(), "b".into()])), 0),
    ];
    for (nth, body) in crafted.iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("index");
        let mut writer = Writer::create(&folder, bits, &[]).unwrap();
        writer.insert(items(&[(1, 10), (2, 20)])).unwrap();
        drop(writer);
        let contents = log::read(&folder, 1, bits, 1).unwrap();
        Log::open(&folder, 1, &contents).unwrap().append(2, body).unwrap();
        assert!(Snapshot::open(&folder).is_err(), "record {nth}");
        assert!(Writer::open(&folder).is_err(), "record {nth}");
        let states = verify(&folder).unwrap();
        assert!(states.iter().any(|state| state.fault.is_some()), "record {nth}");
        let rescued = rescue(&folder, &dir.path().join("new")).unwrap();
        assert_eq!((rescued.items, rescued.damage.len()), (2, 1), "record {nth}");
    }
    // the most labels without names
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), bits, &[]).unwrap();
    for (classes, fits) in [((1 << 20) + 1, false), (1 << 20, true)] {
        let labels = Labels::from_indices(classes, [[3], [4]]).unwrap();
        let items = ItemBatch { labels: Some(labels), ..batch(Ids::Numbers(vec![1, 2])) };
        assert_eq!(writer.insert(items).is_ok(), fits, "{classes}");
    }
    drop(writer);
    assert_eq!(Snapshot::open(dir.path()).unwrap().len(), 2);
}

/// Manifests with a right checksum and numbers that no writer wrote.
#[test]
fn crafted_manifests_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), Bits::new(64).unwrap(), &[]).unwrap();
    writer.insert(items(&[(1, 10), (2, 20)])).unwrap();
    writer.flush().unwrap();
    drop(writer);
    let path = dir.path().join("manifest");
    let text = fs_err::read_to_string(&path).unwrap();
    let line = text.lines().next().unwrap();
    let sound: serde_json::Value = serde_json::from_str(line).unwrap();
    let twice = serde_json::json!([sound["segments"][0], sound["segments"][0]]);
    for (name, value) in [
        ("commit", u64::MAX.into()),
        ("next_file", u64::MAX.into()),
        ("next_file", sound["segments"][0]["number"].clone()),
        ("classes", (u64::MAX / 2).into()),
        ("segments", twice),
        ("bits", 0.into()),
        ("bits", u64::MAX.into()),
        ("log", u64::MAX.into()),
    ] {
        let mut crafted = sound.clone();
        crafted[name] = value;
        let line = crafted.to_string();
        let sum = xxh3_64(line.as_bytes());
        fs_err::write(&path, format!("{line}\n{sum:016x}\n")).unwrap();
        assert!(Snapshot::open(dir.path()).is_err(), "{line}");
        assert!(Writer::open(dir.path()).is_err(), "{line}");
        assert!(rescue(dir.path(), &dir.path().join("new")).is_err(), "{line}");
    }
    fs_err::write(&path, &text).unwrap();
    assert!(Manifest::read(dir.path()).is_ok());
    assert_eq!(state(dir.path()).len(), 2);
}
