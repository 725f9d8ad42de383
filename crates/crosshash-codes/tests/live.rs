//! The live index against a plain list, under random operations; many threads; damaged files.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crosshash_codes::format::{CodeFile, Id, Ids};
use crosshash_codes::index::Query;
use crosshash_codes::live::{Change, LiveIndex, NewItem, Options, Reply};
use crosshash_codes::segments::{HIDDEN, ItemBatch, SEED, Snapshot, Writer};
use crosshash_codes::{Bits, Codes, Labels};
use proptest::prelude::*;
use proptests::fixed;

#[path = "../src/proptests.rs"]
mod proptests;

const LABELS: usize = 3;

fn bits() -> Bits {
    Bits::new(16).unwrap()
}

fn label_names() -> Vec<String> {
    ["a", "b", "c"].map(str::to_owned).to_vec()
}

fn name(id: u8) -> Id {
    Id::Name(format!("item {id}"))
}

/// One item of the plain list.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    id: u8,
    code: u16,
    label: u32,
    payload: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Operation {
    Put(Vec<Row>),
    Delete(Vec<u8>),
    Compact,
    Reopen,
}

fn row() -> impl Strategy<Value = Row> {
    let payload = prop::collection::vec(any::<u8>(), 0..20);
    (0_u8..40, 0_u16..64, 0_u32..3, payload).prop_map(|(id, code, label, payload)| Row {
        id,
        code,
        label,
        payload,
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => prop::collection::vec(row(), 1..12).prop_map(Operation::Put),
        3 => prop::collection::vec(0_u8..40, 1..8).prop_map(Operation::Delete),
        1 => Just(Operation::Compact),
        1 => Just(Operation::Reopen),
    ]
}

fn new_item(row: &Row) -> NewItem {
    NewItem {
        id: name(row.id),
        code: vec![u64::from(row.code)],
        labels: vec![row.label],
        payload: row.payload.clone(),
        outputs: None,
    }
}

fn applied(reply: Reply) -> crosshash_codes::live::Applied {
    match reply {
        Reply::Applied(applied) => applied,
        other => panic!("{other:?}"),
    }
}

/// Applies an operation to the index and to the list; both must report the same.
fn perform(index: &mut Option<LiveIndex>, list: &mut Vec<Row>, operation: &Operation) {
    let live = index.as_ref().unwrap();
    match operation {
        Operation::Put(rows) => {
            let change = Change::Put(rows.iter().map(new_item).collect());
            let applied = applied(live.apply(change));
            let mut replaced = 0;
            for row in rows {
                let before = list.len();
                list.retain(|other| other.id != row.id);
                replaced += before - list.len();
                list.push(row.clone());
            }
            assert_eq!(
                (applied.inserted, applied.replaced),
                (rows.len() - replaced, replaced)
            );
        }
        Operation::Delete(ids) => {
            let applied = applied(
                live.apply(Change::Delete(ids.iter().map(|&id| name(id)).collect())),
            );
            let mut missing = Vec::new();
            for &id in ids {
                let before = list.len();
                list.retain(|other| other.id != id);
                if list.len() == before {
                    missing.push(name(id));
                }
            }
            assert_eq!(applied.deleted, ids.len() - missing.len());
            assert_eq!(applied.missing, missing);
        }
        Operation::Compact => {
            live.compact().unwrap();
            let info = live.snapshot().info();
            assert!(info.removed == 0 && info.segments <= 1 && info.logged == 0);
        }
        Operation::Reopen => {
            let folder = live.folder().to_owned();
            let commit = live.snapshot().commit();
            *index = None;
            let again = LiveIndex::open(&folder, Options::default()).unwrap();
            assert_eq!(again.snapshot().commit(), commit);
            *index = Some(again);
        }
    }
}

/// The snapshot contains the list, in its order.
fn check(snapshot: &Snapshot, list: &[Row]) {
    let stored = |item: u32| Row {
        id: snapshot.id(item).unwrap().to_string()[5..].parse().unwrap(),
        code: u16::try_from(snapshot.code(item).unwrap()[0]).unwrap(),
        label: u32::try_from(snapshot.labels(item).unwrap()[0]).unwrap(),
        payload: snapshot.payload(item).unwrap().to_vec(),
    };
    assert_eq!(snapshot.items().map(stored).collect::<Vec<_>>(), list);
    assert_eq!(snapshot.len(), list.len());
    let mut counts = vec![0; LABELS];
    list.iter().for_each(|row| counts[row.label as usize] += 1);
    assert_eq!(snapshot.label_counts().unwrap(), counts);
    let far = |row: &Row| (row.code ^ 0x15).count_ones();
    let query = Codes::from_words(bits(), vec![0x15]).unwrap();
    let search = |query_: &Query<'_>| -> Vec<(String, u32)> {
        let found = snapshot.search(&query, query_, &|_| ()).unwrap().remove(0);
        found.iter().map(|found| (found.id.to_string(), found.hit.distance)).collect()
    };
    let wanted = |keep: &dyn Fn(&Row) -> bool| -> Vec<(String, u32)> {
        let mut all: Vec<&Row> = list.iter().filter(|row| keep(row)).collect();
        all.sort_by_key(|row| far(row));
        all.iter().map(|row| (name(row.id).to_string(), far(row))).collect()
    };
    let all = wanted(&|_| true);
    assert_eq!(search(&Query::nearest(1000)), all);
    let page = search(&Query { skip: 2, ..Query::nearest(3) });
    assert_eq!(page, all.iter().skip(2).take(3).cloned().collect::<Vec<_>>());
    assert_eq!(search(&Query::within(2)), wanted(&|row| far(row) <= 2));
    let set = snapshot.filter("label in (a, c) and not id = 'item 3'").unwrap();
    let filtered = search(&Query { allowed: Some(&set), ..Query::nearest(1000) });
    assert_eq!(filtered, wanted(&|row| row.label != 1 && row.id != 3));
    for id in 0..40 {
        let there = list.iter().any(|row| row.id == id);
        assert_eq!(snapshot.find(&name(id)).unwrap().is_some(), there);
    }
}

fn in_memory(list: &[Row]) -> Snapshot {
    let words = list.iter().map(|row| u64::from(row.code)).collect();
    let items = ItemBatch {
        codes: Codes::from_words(bits(), words).unwrap(),
        ids: Some(Ids::Names(list.iter().map(|row| name(row.id).to_string()).collect())),
        labels: Some(
            Labels::from_indices(LABELS, list.iter().map(|row| [row.label])).unwrap(),
        ),
        payloads: Some(list.iter().map(|row| row.payload.clone().into()).collect()),
        flags: None,
        outputs: None,
    };
    Snapshot::in_memory(items, &label_names()).unwrap()
}

proptest! {
    #![proptest_config(fixed(32))]

    #[test]
    fn the_live_index_equals_a_list(operations in prop::collection::vec(operation(), 1..30)) {
        let dir = tempfile::tempdir().unwrap();
        drop(Writer::create(dir.path(), bits(), &label_names()).unwrap());
        let mut index = Some(LiveIndex::open(dir.path(), Options::default()).unwrap());
        let mut list = Vec::new();
        for operation in &operations {
            perform(&mut index, &mut list, operation);
            check(&index.as_ref().unwrap().snapshot(), &list);
        }
        // another reader sees the same, and items in memory are searched alike
        let snapshot = Snapshot::open(dir.path()).unwrap();
        snapshot.verify().unwrap();
        check(&snapshot, &list);
        check(&in_memory(&list), &list);
    }
}

/// Threads that insert, delete and search at the same time; every commit is complete.
#[test]
fn many_threads_change_and_search() {
    let dir = tempfile::tempdir().unwrap();
    drop(Writer::create(dir.path(), bits(), &label_names()).unwrap());
    let index = Arc::new(LiveIndex::open(dir.path(), Options::default()).unwrap());
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let index = Arc::clone(&index);
            scope.spawn(move || {
                for round in 0..60_u16 {
                    // two items with one payload belong together
                    let row = |id| Row {
                        id,
                        code: round % 64,
                        label: 0,
                        payload: round.to_le_bytes().to_vec(),
                    };
                    let pair = [row(thread * 2), row(thread * 2 + 1)];
                    applied(index.apply(Change::Put(pair.iter().map(new_item).collect())));
                    if round % 7 == 0 {
                        let ids = vec![name(thread * 2), name(thread * 2 + 1)];
                        assert_eq!(applied(index.apply(Change::Delete(ids))).deleted, 2);
                    }
                    if round % 29 == 0 {
                        index.compact().unwrap();
                    }
                }
            });
        }
        for _ in 0..400 {
            let snapshot = index.snapshot();
            for thread in 0..4_u8 {
                let payload = |id| {
                    let item = snapshot.find(&name(id)).unwrap()?;
                    Some(snapshot.payload(item).unwrap().to_vec())
                };
                assert_eq!(payload(thread * 2), payload(thread * 2 + 1));
            }
        }
    });
    assert_eq!(index.snapshot().len(), 8);
    index.suspend();
    assert!(matches!(index.apply(Change::Delete(vec![name(0)])), Reply::Suspended));
    index.resume();
    assert_eq!(applied(index.apply(Change::Delete(vec![name(0)]))).deleted, 1);
    let wrong = NewItem {
        id: Id::Number(1),
        code: vec![0],
        labels: vec![],
        payload: vec![],
        outputs: None,
    };
    assert!(matches!(index.apply(Change::Put(vec![wrong])), Reply::Failed(_)));
}

/// Deleted items leave the disk, and superseded seeds and hidden items stay.
#[test]
fn compaction_drops_deleted_payloads_and_keeps_hidden_items() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), bits(), &label_names()).unwrap();
    let batch = |ids: std::ops::Range<u8>, flags: u8, text: &str| ItemBatch {
        codes: Codes::from_words(bits(), ids.clone().map(u64::from).collect()).unwrap(),
        ids: Some(Ids::Names(ids.clone().map(|id| name(id).to_string()).collect())),
        labels: None,
        payloads: Some(
            ids.clone().map(|id| format!("{text} {id}").into_bytes().into()).collect(),
        ),
        flags: Some(ids.map(|_| flags).collect()),
        outputs: None,
    };
    writer.insert(batch(0..10, SEED, "secret")).unwrap();
    writer.insert(batch(20..22, HIDDEN, "hidden")).unwrap();
    writer.flush().unwrap();
    assert_eq!((writer.snapshot().len(), writer.snapshot().hidden_items().len()), (10, 2));
    writer.delete(&[name(3), name(4)]).unwrap();
    writer.upsert(batch(5..6, 0, "new")).unwrap();
    writer.upsert(batch(20..21, 0, "found")).unwrap();
    let superseded = [name(3), name(4), name(5)];
    let on_disk = |text: &str| {
        let files = fs_err::read_dir(dir.path()).unwrap();
        files
            .filter_map(|file| fs_err::read(file.unwrap().path()).ok())
            .any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    };
    assert!(on_disk("secret 3") && on_disk("secret 5"));
    for _ in 0..2 {
        assert_eq!(writer.snapshot().superseded(), superseded);
        assert_eq!(
            (writer.snapshot().len(), writer.snapshot().hidden_items().len()),
            (9, 1)
        );
        let hidden = writer.snapshot().hidden_items()[0];
        assert_eq!(writer.snapshot().payload(hidden).unwrap(), b"hidden 21");
        assert_eq!(writer.snapshot().find(&name(21)).unwrap(), None);
        writer.compact().unwrap();
    }
    assert!(!on_disk("secret 3") && !on_disk("secret 5") && on_disk("secret 6"));
    drop(writer);
    assert_eq!(Snapshot::open(dir.path()).unwrap().superseded(), superseded);
}

/// Everything an index contains.
type Content = (Vec<(Id, Vec<u64>, Vec<usize>, Vec<u8>, u8)>, Vec<Id>, Vec<u32>, usize);

fn content(snapshot: &Snapshot) -> crosshash_codes::Result<Content> {
    let item = |item: u32| {
        Ok((
            snapshot.id(item)?,
            snapshot.code(item)?.to_vec(),
            snapshot.labels(item)?,
            snapshot.payload(item)?.to_vec(),
            snapshot.flags(item),
        ))
    };
    let items = snapshot.items().map(item).collect::<crosshash_codes::Result<Vec<_>>>()?;
    for (nth, row) in items.iter().enumerate() {
        let found =
            snapshot.find(&row.0)?.map(|item| snapshot.items().position(|i| i == item));
        if found != Some(Some(nth)) {
            return Err(crosshash_codes::Error::content("an id is not found"));
        }
    }
    Ok((
        items,
        snapshot.superseded(),
        snapshot.hidden_items(),
        snapshot.label_names().len(),
    ))
}

/// An index with everything: two segments, a log, names, labels, payloads, flags, removed items.
fn filled(folder: &Path) {
    let mut writer = Writer::create(folder, bits(), &label_names()).unwrap();
    let batch = |ids: &[u8], flags: u8| ItemBatch {
        codes: Codes::from_words(bits(), ids.iter().map(|&id| u64::from(id)).collect())
            .unwrap(),
        ids: Some(Ids::Names(ids.iter().map(|&id| name(id).to_string()).collect())),
        labels: Some(
            Labels::from_indices(LABELS, ids.iter().map(|id| [u32::from(id % 3)])).unwrap(),
        ),
        payloads: Some(ids.iter().map(|id| vec![*id; usize::from(*id)].into()).collect()),
        flags: Some(vec![flags; ids.len()]),
        outputs: None,
    };
    writer.insert(batch(&[9, 2, 7, 30, 11], SEED)).unwrap();
    writer.flush().unwrap();
    writer.upsert(batch(&[7, 3], 0)).unwrap();
    writer.insert(batch(&[40], HIDDEN)).unwrap();
    writer.flush().unwrap();
    writer.delete(&[name(9)]).unwrap();
    writer.upsert(batch(&[2, 50], 0)).unwrap();
    writer.upsert(batch(&[51], 0)).unwrap();
}

/// Flips bits in every file: each flip is detected, or changes nothing. A damaged index is never
/// copied by `compact` or exported as if it were sound.
#[test]
fn flipped_bits_are_detected_or_without_effect() {
    let dir = tempfile::tempdir().unwrap();
    let (sound, copy) = (dir.path().join("sound"), dir.path().join("copy"));
    filled(&sound);
    let wanted = content(&Snapshot::open(&sound).unwrap()).unwrap();
    assert_eq!((wanted.0.len(), wanted.1.len(), wanted.2.len()), (7, 3, 1));
    let (mut detected, mut harmless) = (BTreeMap::new(), 0);
    let mut files: Vec<_> =
        fs_err::read_dir(&sound).unwrap().map(|file| file.unwrap().file_name()).collect();
    files.sort();
    for file in files {
        let file = file.to_string_lossy().into_owned();
        let bytes = fs_err::read(sound.join(&file)).unwrap();
        for bit in (0..bytes.len() * 8).step_by(37) {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs_err::write(sound.join(&file), &flipped).unwrap();
            let read = Snapshot::open(&sound).and_then(|snapshot| {
                let verified = snapshot.verify();
                let content = content(&snapshot)?;
                let exported = snapshot.to_code_file()?;
                assert_eq!(exported.codes.len(), content.0.len());
                verified?;
                Ok(content)
            });
            match read {
                Ok(content) => {
                    assert_eq!(content, wanted, "{file}, bit {bit}");
                    harmless += 1;
                }
                Err(_) => *detected.entry(file.clone()).or_insert(0) += 1,
            }
            if bit % (37 * 5) == 0 {
                let _ = fs_err::remove_dir_all(&copy);
                fs_err::create_dir_all(&copy).unwrap();
                for entry in fs_err::read_dir(&sound).unwrap() {
                    let entry = entry.unwrap();
                    fs_err::copy(entry.path(), copy.join(entry.file_name())).unwrap();
                }
                let compacted = Writer::open(&copy).and_then(|mut writer| writer.compact());
                if compacted.is_ok() {
                    let now = content(&Snapshot::open(&copy).unwrap()).unwrap();
                    let by_id = |content: &Content| {
                        let mut items = content.0.clone();
                        items.sort();
                        (items, content.1.clone(), content.2.len())
                    };
                    assert_eq!(by_id(&now), by_id(&wanted), "{file}, bit {bit}, compacted");
                }
            }
        }
        fs_err::write(sound.join(&file), &bytes).unwrap();
    }
    // manifest, two segments, log
    assert_eq!(detected.len(), 4, "{detected:?}");
    assert!(
        detected.values().sum::<usize>() > harmless,
        "{detected:?}, {harmless} harmless"
    );
}

/// A segment with valid checksums whose sections do not fit is refused, not trusted.
#[test]
fn crafted_segments_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let (path, copy) = (dir.path().join("00000002.segment"), dir.path().join("copy"));
    let sound = fs_err::read(&path).unwrap();
    let sections = u32::from_le_bytes(sound[24..28].try_into().unwrap()) as usize;
    let end = 32 + 40 * sections;
    let mut refused = 0;
    for section in 0..sections {
        // kind, flags, parameter, offset, length
        for (field, width) in [(0, 4), (4, 4), (8, 8), (16, 8), (24, 8)] {
            for change in [1_u64, 8, 64, u64::MAX, u64::MAX - 7, 1 << 40] {
                let mut crafted = sound.clone();
                let at = 32 + 40 * section + field;
                let mut word = [0; 8];
                word[..width].copy_from_slice(&crafted[at..at + width]);
                let word = u64::from_le_bytes(word).wrapping_add(change);
                crafted[at..at + width].copy_from_slice(&word.to_le_bytes()[..width]);
                // a right checksum for the section, where it has one, and for the header
                let number =
                    |at: usize| u64::from_le_bytes(crafted[at..at + 8].try_into().unwrap());
                let start =
                    usize::try_from(number(32 + 40 * section + 16)).unwrap_or(usize::MAX);
                let length =
                    usize::try_from(number(32 + 40 * section + 24)).unwrap_or(usize::MAX);
                let bytes =
                    start.checked_add(length).and_then(|end| crafted.get(start..end));
                if let Some(sum) = bytes.map(xxhash_rust::xxh3::xxh3_64) {
                    let at = 32 + 40 * section + 32;
                    crafted[at..at + 8].copy_from_slice(&sum.to_le_bytes());
                }
                let sum = xxhash_rust::xxh3::xxh3_64(&crafted[..end]);
                crafted[end..end + 8].copy_from_slice(&sum.to_le_bytes());
                fs_err::write(&path, &crafted).unwrap();
                // whatever happens, nothing panics: reading, exporting, verifying, compacting
                let read = Snapshot::open(dir.path()).and_then(|snapshot| {
                    let _ = content(&snapshot);
                    let exported = snapshot.to_code_file();
                    snapshot.verify()?;
                    exported
                });
                refused += usize::from(read.is_err());
                // a copy of a crafted segment must not be sound
                let _ = fs_err::remove_dir_all(&copy);
                fs_err::create_dir_all(&copy).unwrap();
                for entry in fs_err::read_dir(dir.path()).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_file() {
                        fs_err::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
                    }
                }
                let compacted = Writer::open(&copy).and_then(|mut writer| writer.compact());
                assert!(compacted.is_err() || read.is_ok(), "section {section}, {field}");
            }
        }
    }
    assert!(refused > sections * 15, "{refused} of {}", sections * 30);
}

/// Sections of a later version: optional ones are ignored, required ones are refused.
#[test]
fn unknown_sections_are_ignored_if_they_are_optional() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), bits(), &[]).unwrap();
    let codes = Codes::from_words(bits(), vec![1, 2, 3]).unwrap();
    writer
        .insert(ItemBatch { flags: Some(vec![SEED; 3]), ..ItemBatch::new(codes) })
        .unwrap();
    writer.flush().unwrap();
    drop(writer);
    let path = dir.path().join("00000002.segment");
    let mut bytes = fs_err::read(&path).unwrap();
    let sections = u32::from_le_bytes(bytes[24..28].try_into().unwrap()) as usize;
    let end = 32 + 40 * sections;
    let mut write = |kind: u32, flags: u32| {
        let at = (32..end)
            .step_by(40)
            .find(|&at| {
                [8, 65].contains(&u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()))
            })
            .unwrap();
        bytes[at..at + 4].copy_from_slice(&kind.to_le_bytes());
        bytes[at + 4..at + 8].copy_from_slice(&flags.to_le_bytes());
        let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..end]);
        bytes[end..end + 8].copy_from_slice(&sum.to_le_bytes());
        fs_err::write(&path, &bytes).unwrap();
        Snapshot::open(dir.path())
    };
    assert_eq!(write(8, 0).unwrap().flags(0), SEED);
    let optional = write(65, 1).unwrap();
    optional.verify().unwrap();
    assert_eq!((optional.len(), optional.flags(0)), (3, 0));
    let err = write(65, 0).err().unwrap().to_string();
    assert!(err.contains("unknown section kind 65"), "{err}");
}

/// An index of the previous version is refused with its version.
#[test]
fn old_versions_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let line = "{\"format\":\"crosshash index\",\"version\":1,\"commit\":1,\"bits\":64}";
    let sum = xxhash_rust::xxh3::xxh3_64(line.as_bytes());
    fs_err::write(dir.path().join("manifest"), format!("{line}\n{sum:016x}\n")).unwrap();
    let err = Snapshot::open(dir.path()).err().unwrap().to_string();
    assert!(err.contains("crosshash index version 1; this program reads"), "{err}");
    assert!(CodeFile::read(&dir.path().join("manifest")).is_err());
}

/// Whoever derives data from the items learns the ids of every commit before it is acknowledged.
#[test]
fn every_commit_is_reported_before_it_is_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    Writer::create(dir.path(), bits(), &label_names()).unwrap();
    type Commits = Vec<(u64, Vec<Id>)>;
    let reported: Arc<std::sync::Mutex<Commits>> = Arc::default();
    let noted = Arc::clone(&reported);
    let changed = Box::new(move |commit, ids| noted.lock().unwrap().push((commit, ids)));
    let options = Options { changed, ..Options::default() };
    let index = LiveIndex::open(dir.path(), options).unwrap();
    let row = |id: u8| Row { id, code: 1, label: 0, payload: vec![id] };
    let put = Change::Put(vec![new_item(&row(1)), new_item(&row(2))]);
    for (change, ids) in
        [(put, vec![name(1), name(2)]), (Change::Delete(vec![name(2)]), vec![name(2)])]
    {
        assert!(matches!(index.apply(change), Reply::Applied(_)));
        let (commit, found) = reported.lock().unwrap().last().cloned().unwrap();
        assert_eq!((commit, found), (index.snapshot().commit(), ids));
    }
    let count = reported.lock().unwrap().len();
    index.suspend();
    assert!(matches!(index.apply(Change::Delete(vec![name(1)])), Reply::Suspended));
    assert_eq!(reported.lock().unwrap().len(), count, "nothing was changed");
}
