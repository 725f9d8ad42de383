//! The living index against a plain list: random inserts, upserts, deletes and compactions, ids
//! of both kinds, labels, filters, pages; 200 kills of a real writer; a hundred million codes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crosshash_codes::format::{CodeFile, Id, Ids};
use crosshash_codes::index::{Hit, Query};
use crosshash_codes::live::{LiveIndex, Options};
use crosshash_codes::segments::{MemoryIndex, NewIndex, Snapshot, Writer};
use crosshash_codes::{Bits, Codes, Labels};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const BITS: usize = 70;
const CLASSES: usize = 67;

/// The plain list: items in the order of their last insertion.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model(Vec<(u64, [u64; 2], u32)>);

#[derive(Clone, Debug)]
enum Operation {
    Upsert(Vec<(u64, [u64; 2], u32)>),
    Delete(Vec<u64>),
    Compact,
}

impl Model {
    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Upsert(items) => {
                self.0.retain(|(id, ..)| items.iter().all(|(new, ..)| new != id));
                self.0.extend(items);
            }
            Operation::Delete(ids) => self.0.retain(|(id, ..)| !ids.contains(id)),
            Operation::Compact => {}
        }
    }

    /// Ids and distances in order.
    fn search(
        &self,
        code: [u64; 2],
        k: usize,
        keep: impl Fn(u32) -> bool,
    ) -> Vec<(u64, u32)> {
        let far = |other: &[u64; 2]| {
            (code[0] ^ other[0]).count_ones() + (code[1] ^ other[1]).count_ones()
        };
        let kept = self.0.iter().filter(|item| keep(item.2));
        let mut all: Vec<(u64, u32)> = kept.map(|item| (item.0, far(&item.1))).collect();
        all.sort_by_key(|&(_, distance)| distance);
        all.truncate(k);
        all
    }
}

/// The n-th operation of a seed; the same for writer and judge.
fn operation(seed: u64, nth: u64) -> Operation {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ nth << 20);
    let ids = 300;
    match rng.random_range(0..10) {
        0..6 => {
            let mut items: Vec<(u64, [u64; 2], u32)> = (0..rng.random_range(1..30))
                .map(|_| {
                    let code = [rng.random::<u64>() & 0xFF, rng.random::<u64>() & 0x3F];
                    (rng.random_range(0..ids), code, rng.random_range(0..67))
                })
                .collect();
            let mut seen = std::collections::HashSet::new();
            items.retain(|item| seen.insert(item.0));
            Operation::Upsert(items)
        }
        6..9 => {
            let many = rng.random_range(1..20);
            Operation::Delete((0..many).map(|_| rng.random_range(0..ids)).collect())
        }
        _ => Operation::Compact,
    }
}

fn id(number: u64, names: bool) -> Id {
    if names { Id::Name(format!("item {number}")) } else { Id::Number(number) }
}

/// The items of an operation as columns.
fn columns(items: &[(u64, [u64; 2], u32)], names: bool) -> CodeFile {
    let words = items.iter().flat_map(|item| item.1).collect();
    let numbers = items.iter().map(|item| item.0);
    let ids = if names {
        Ids::Names(numbers.map(|number| format!("item {number}")).collect())
    } else {
        Ids::Numbers(numbers.collect())
    };
    let labels = Labels::from_indices(CLASSES, items.iter().map(|item| [item.2]));
    CodeFile {
        codes: Codes::from_words(Bits::new(BITS).unwrap(), words).unwrap(),
        ids: Some(ids),
        labels: Some(labels.unwrap()),
    }
}

fn perform(writer: &mut Writer, operation: &Operation, names: bool) {
    match operation {
        Operation::Upsert(items) => {
            writer.upsert(columns(items, names)).unwrap();
        }
        Operation::Delete(ids) => {
            let ids: Vec<Id> = ids.iter().map(|&number| id(number, names)).collect();
            writer.delete(&ids).unwrap();
        }
        Operation::Compact => writer.compact().unwrap(),
    }
}

/// Whether a snapshot answers as the plain list does.
fn agrees(snapshot: &Snapshot, model: &Model, names: bool, seed: u64) -> bool {
    if snapshot.len() != model.0.len() {
        return false;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let code = [rng.random::<u64>() & 0xFF, 3];
    let queries = Codes::from_words(Bits::new(BITS).unwrap(), code.to_vec()).unwrap();
    let ask = |query: &Query<'_>| -> Vec<(Id, u32)> {
        let found = snapshot.search(&queries, query, &|_| ()).unwrap().remove(0);
        found.into_iter().map(|found| (found.id, found.hit.distance)).collect()
    };
    let wanted = |k: usize, keep: &dyn Fn(u32) -> bool| -> Vec<(Id, u32)> {
        let all = model.search(code, k, keep).into_iter();
        all.map(|(number, distance)| (id(number, names), distance)).collect()
    };
    let all = ask(&Query::nearest(1000));
    if all != wanted(1000, &|_| true) {
        return false;
    }
    assert_eq!(
        ask(&Query { skip: 3, ..Query::nearest(5) }),
        all[3.min(all.len())..8.min(all.len())]
    );
    if model.0.iter().any(|item| item.2 == 5) || snapshot.info().labels == CLASSES {
        let set = snapshot.filter("label in (5, 66, 20) and not label = 20").unwrap();
        let query = Query { allowed: Some(&set), ..Query::nearest(9) };
        assert_eq!(ask(&query), wanted(9, &|label| label == 5 || label == 66));
    }
    for (number, code, label) in model.0.iter().take(5) {
        let item = snapshot.find(&id(*number, names)).unwrap().unwrap();
        assert_eq!(snapshot.id(item).unwrap(), id(*number, names));
        assert_eq!(snapshot.labels(item).unwrap(), [*label as usize]);
        let own = Codes::from_words(Bits::new(BITS).unwrap(), code.to_vec()).unwrap();
        let found = snapshot.search(&own, &Query::within(0), &|_| ()).unwrap().remove(0);
        assert!(found.iter().any(|found| found.hit == Hit { item, distance: 0 }));
    }
    true
}

#[test]
fn the_index_is_the_list() {
    for (seed, names) in [(1, false), (2, true), (3, false), (4, true)] {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("index");
        let mut model = Model::default();
        drop(Writer::create(&folder, Bits::new(BITS).unwrap(), &[]).unwrap());
        for round in 0..6 {
            let mut writer = Writer::open(&folder).unwrap();
            for nth in round * 8..(round + 1) * 8 {
                let operation = operation(seed, nth);
                perform(&mut writer, &operation, names);
                if nth % 5 == 4 {
                    writer.flush().unwrap();
                }
                model.apply(&operation);
                assert!(agrees(writer.snapshot(), &model, names, nth), "{seed} {nth}");
            }
            let snapshot = Snapshot::open(&folder).unwrap();
            snapshot.verify().unwrap();
            assert!(agrees(&snapshot, &model, names, round));
            assert!(snapshot.info().segments <= 24);
        }
    }
}

#[test]
fn an_index_in_memory_is_the_list() {
    for (seed, names) in [(1, false), (2, true), (5, false)] {
        let bits = Bits::new(BITS).unwrap();
        let settings = NewIndex { bits, label_names: &[], outputs: false, after_commit: 0 };
        let index = MemoryIndex::new(settings, "auto").unwrap();
        let mut model = Model::default();
        for nth in 0..60 {
            let operation = operation(seed, nth);
            let before = model.0.len();
            match &operation {
                Operation::Upsert(items) => {
                    let replaced = index.upsert(columns(items, names)).unwrap();
                    let had = |id: u64| model.0.iter().any(|item| item.0 == id);
                    let wanted = items.iter().filter(|item| had(item.0)).count();
                    assert_eq!(replaced, wanted);
                }
                Operation::Delete(ids) => {
                    let ids: Vec<Id> = ids.iter().map(|&one| id(one, names)).collect();
                    let deleted = index.delete(&ids).unwrap();
                    model.apply(&operation);
                    assert_eq!(deleted, before - model.0.len());
                }
                Operation::Compact => index.compact().unwrap(),
            }
            model.apply(&operation);
            assert!(agrees(&index.snapshot(), &model, names, nth), "{seed} {nth}");
        }
        let known = index.snapshot().id(index.snapshot().items().next().unwrap()).unwrap();
        let ids = match known.clone() {
            Id::Number(number) => Ids::Numbers(vec![number]),
            Id::Name(name) => Ids::Names(vec![name]),
        };
        let codes = Codes::from_words(bits, vec![0, 0]).unwrap();
        let again = CodeFile { ids: Some(ids), ..CodeFile::new(codes) };
        let err = index.insert(&again).unwrap_err().to_string();
        assert_eq!(
            err,
            format!("row 0: id {known} is in the index already; upsert replaces it")
        );
        let labelled = |now: &Snapshot| now.filter("label = 5");
        let wanted = model.0.iter().filter(|item| item.2 == 5).count();
        assert_eq!(index.delete_items(labelled).unwrap(), wanted);
        assert_eq!(index.snapshot().len(), model.0.len() - wanted);
    }
}

#[test]
fn many_items_are_written_to_a_live_index_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("index");
    let bits = Bits::new(BITS).unwrap();
    drop(Writer::create(&folder, bits, &[]).unwrap());
    let index = LiveIndex::open(&folder, Options::default()).unwrap();
    let items: Vec<(u64, [u64; 2], u32)> =
        (0..10_000).map(|k| (k, [k, k % 64], 3)).collect();
    let file = columns(&items, false);
    let added = index.write(|writer| Ok((writer.insert(&file)?, Vec::new()))).unwrap();
    assert_eq!((added, index.snapshot().len()), (10_000, 10_000));
    let again = index.write(|writer| Ok((writer.insert(&file)?, Vec::new())));
    assert!(again.unwrap_err().to_string().contains("is in the index already"));
    index.suspend();
    let err = index.write(|writer| Ok((writer.compact()?, Vec::new()))).unwrap_err();
    assert_eq!(err.to_string(), "the index accepts no changes at present");
    drop(index);
    assert_eq!(Snapshot::open(&folder).unwrap().len(), 10_000);
}

/// The writer that gets killed: goes on from operation `FROM`, telling what it begins and what
/// is done. Run by the test below in a process of its own; nothing otherwise.
#[test]
#[expect(clippy::print_stdout, reason = "the judge listens")]
fn child_that_writes() {
    let Ok(folder) = std::env::var("CROSSHASH_TEST_INDEX") else { return };
    let from: u64 = std::env::var("CROSSHASH_TEST_FROM").unwrap().parse().unwrap();
    let mut writer = Writer::open(Path::new(&folder)).unwrap();
    println!("\nready");
    for nth in from..from + 500 {
        perform(&mut writer, &operation(9, nth), false);
        println!("done {nth}");
    }
}

/// Kill -9 at any moment, 200 times: all that was acknowledged is there, and at most the one
/// operation more that was under way.
#[test]
fn kill_9_two_hundred_times() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("index");
    drop(Writer::create(&folder, Bits::new(BITS).unwrap(), &[]).unwrap());
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (mut model, mut next, mut ahead, mut done_in_all) = (Model::default(), 0, 0, 0);
    for kill in 0..200 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_writes", "--nocapture", "--test-threads", "1"])
            .env("CROSSHASH_TEST_INDEX", &folder)
            .env("CROSSHASH_TEST_FROM", next.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while lines.next().unwrap().unwrap() != "ready" {}
        let wait = Duration::from_micros(rng.random_range(0..40_000));
        std::thread::sleep(wait);
        child.kill().unwrap(); // SIGKILL
        child.wait().unwrap();
        for line in lines {
            let line = line.unwrap_or_default();
            if line == format!("done {next}") {
                model.apply(&operation(9, next));
                next += 1;
                done_in_all += 1;
            }
        }
        let snapshot = Snapshot::open(&folder).unwrap();
        if !agrees(&snapshot, &model, false, kill) {
            model.apply(&operation(9, next));
            next += 1;
            ahead += 1;
            assert!(agrees(&snapshot, &model, false, kill), "kill {kill}: neither state");
        }
        if kill % 20 == 0 {
            snapshot.verify().unwrap();
        }
    }
    assert!(done_in_all > 100, "{done_in_all} operations in all, {ahead} unacknowledged");
}

/// Opening reads headers only: a hundred million codes of a sparse file open at once.
#[test]
fn a_hundred_million_codes_open_without_being_read() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("index");
    let n = 100_000_000_usize;
    let mut writer = Writer::create(&folder, Bits::new(64).unwrap(), &[]).unwrap();
    let one = Codes::from_words(Bits::new(64).unwrap(), vec![7]).unwrap();
    writer.insert(CodeFile::new(one.clone())).unwrap();
    writer.flush().unwrap();
    drop(writer);
    // the same files with a hundred million rows of zeros: header, size and manifest rewritten
    let segment = folder.join("00000002.segment");
    let mut head = fs_err::read(&segment).unwrap();
    let offset = u64::from_le_bytes(head[32 + 40 + 16..32 + 40 + 24].try_into().unwrap());
    head.truncate(usize::try_from(offset).unwrap());
    head[16..24].copy_from_slice(&(n as u64).to_le_bytes());
    head[32 + 40 + 24..32 + 40 + 32].copy_from_slice(&(n as u64 * 8).to_le_bytes());
    let end = 32 + 2 * 40;
    let sum = xxhash_rust::xxh3::xxh3_64(&head[..end]);
    head[end..end + 8].copy_from_slice(&sum.to_le_bytes());
    fs_err::write(&segment, &head).unwrap();
    let file = fs_err::OpenOptions::new().write(true).open(&segment).unwrap();
    let bytes = offset + n as u64 * 8;
    file.set_len(bytes).unwrap();
    let manifest = fs_err::read_to_string(folder.join("manifest")).unwrap();
    let line = manifest.lines().next().unwrap();
    let line = line.replace("\"rows\":1,", &format!("\"rows\":{n},"));
    let old =
        line.split("\"bytes\":").nth(1).unwrap().split('}').next().unwrap().to_owned();
    let line = line.replace(&format!("\"bytes\":{old}"), &format!("\"bytes\":{bytes}"));
    let sum = xxhash_rust::xxh3::xxh3_64(line.as_bytes());
    fs_err::write(folder.join("manifest"), format!("{line}\n{sum:016x}\n")).unwrap();

    let start = Instant::now();
    let snapshot = Snapshot::open(&folder).unwrap();
    assert_eq!(snapshot.len(), n);
    assert_eq!(snapshot.find(&Id::Number(99_999_999)).unwrap(), Some(99_999_999));
    assert_eq!(snapshot.id(12_345_678).unwrap(), Id::Number(12_345_678));
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}
