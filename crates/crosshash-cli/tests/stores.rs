//! Stores against real engines: the same answers as our own index, bit order, changes, filters, TLS,
//! and pushes in the middle of which the database or the program is killed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod driver;
mod engines;

use std::cell::RefCell;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crosshash::payload::{Payload, PayloadFields};
use crosshash_cli::store::push::{PushOptions, Pushed, RANGE, push};
use crosshash_cli::store::rows::Source;
use crosshash_cli::store::{
    Description, HitColumns, RowKeys, Store, StoreHit, StoreQuery, check, open,
    parse_filter,
};
use crosshash_codes::format::{Id, Ids};
use crosshash_codes::index::Query;
use crosshash_codes::segments::{ItemBatch, Snapshot, Writer};
use crosshash_codes::{BitOrder, Bits, Cancel, Codes, Labels, Outputs, npy};
use serde_json::{Value, json};

use driver::{ends, path};
use engines::{Engine, PASSWORD};

/// Small numbers without structure.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// Codes near few centres: many are equal, as those of a trained model.
    fn codes(&mut self, bits: usize, len: usize) -> Codes {
        let bits = Bits::new(bits).unwrap();
        let mut word = |at: usize| {
            let used = (bits.get() - at * 64).min(64);
            let high =
                self.below(1 << 31) << 33 ^ self.below(1 << 31) << 20 ^ self.below(1 << 31);
            if used == 64 { high } else { high & ((1 << used) - 1) }
        };
        let centres: Vec<Vec<u64>> =
            (0..8).map(|_| (0..bits.words()).map(&mut word).collect()).collect();
        let mut words = Vec::new();
        for _ in 0..len {
            let mut code = centres[usize::try_from(self.below(8)).unwrap()].clone();
            for _ in 0..self.below(3) {
                let bit = usize::try_from(self.below(bits.get() as u64)).unwrap();
                code[bit / 64] ^= 1 << (bit % 64);
            }
            words.extend(code);
        }
        Codes::from_words(bits, words).unwrap()
    }
}

fn meta(at: u64, numbers: &mut Numbers) -> Value {
    let brands = ["x", "Acme", "o'Neil \"q\" \\n", "über", "20", "", "x$y"];
    let added = [
        "2024-05-01",
        "2024-05-01T00:00:00Z",
        "2024-05-01T02:00+02:00",
        "2023-12-31T23:59:59.5",
        "yesterday",
    ];
    let mut meta = serde_json::Map::new();
    let mut pick = |list: &[&str]| {
        list[usize::try_from(numbers.below(list.len() as u64)).unwrap()].to_owned()
    };
    let prices = json!([0.1, 5, 20, 20.5, -3, 1e300, 0.3]);
    if !at.is_multiple_of(3) {
        meta.insert("price".into(), prices[usize::try_from(at % 7).unwrap()].clone());
    }
    if !at.is_multiple_of(4) {
        meta.insert("brand".into(), json!(pick(&brands)));
    }
    if at % 5 < 3 {
        meta.insert("added".into(), json!(pick(&added)));
    }
    match at % 6 {
        0 => meta.insert("tags".into(), json!(["a", 3, true, "2024-05-01"])),
        1 => meta.insert("tags".into(), json!([])),
        2 => meta.insert("tags".into(), json!([["b", 20], "x"])),
        3 => meta.insert("tags".into(), json!("a long text, 3")),
        4 => meta.insert("tags".into(), json!(true)),
        _ => None,
    };
    if at.is_multiple_of(2) {
        meta.insert("odd name".into(), json!({ "it's": at % 10 }));
    }
    Value::Object(meta)
}

fn batch(bits: usize, len: usize, seed: u64) -> ItemBatch {
    let mut numbers = Numbers(seed);
    let codes = numbers.codes(bits, len);
    let all = 0..len as u64;
    let labels = all.clone().map(|at| {
        let mut own = vec![u32::try_from(at % 5).unwrap()];
        own.extend((at % 3 == 0).then_some(5));
        own.retain(|_| at % 7 != 0);
        own
    });
    let payload = |at: u64| {
        let mut payload = Payload::default();
        payload.shown.meta = meta(at, &mut numbers).as_object().unwrap().clone();
        payload.encode().unwrap().into()
    };
    let labels = Labels::from_indices(6, labels).unwrap();
    let id = |at: u64| match at % 50 {
        0 => format!("o'id {at} \\ü"),
        _ => format!("item{at}"),
    };
    ItemBatch {
        ids: Some(Ids::Names(all.clone().map(id).collect())),
        labels: Some(labels),
        payloads: Some(all.map(payload).collect()),
        outputs: Some(Outputs::from_codes(&codes)),
        ..ItemBatch::new(codes)
    }
}

fn names() -> Vec<String> {
    ["sea", "sky", "red car", "it's", "e", "f"].map(str::to_owned).to_vec()
}

fn no_progress(_: usize) {}

fn options(replace: bool) -> PushOptions {
    PushOptions { replace, patience: Duration::from_secs(60) }
}

fn push_all(
    store: &mut dyn Store,
    snapshot: &Snapshot,
    hnsw: bool,
    replace: bool,
) -> Pushed {
    let source = Source::new(snapshot, &PayloadFields, snapshot.has_outputs()).unwrap();
    let description = source.describe(hnsw, &no_progress).unwrap();
    push(store, &source, description, &options(replace), &|_| (), &no_progress).unwrap()
}

fn description(store: &mut dyn Store) -> Description {
    store.description().unwrap().unwrap()
}

/// No differences in rows and answers.
fn assert_equal(store: &mut dyn Store, snapshot: &Snapshot, rows: usize, queries: usize) {
    let source = Source::new(snapshot, &PayloadFields, snapshot.has_outputs()).unwrap();
    let description = description(store);
    let found =
        check::compare(store, &description, &source, snapshot, rows, queries, &no_progress)
            .unwrap();
    assert_eq!(found.differences, Vec::<String>::new());
    assert_eq!(found.rows, rows.min(source.len()));
    assert_eq!(found.searches, 4 * queries.min(source.len()));
}

fn query(code: &[u64], k: usize) -> StoreQuery {
    StoreQuery {
        code: code.to_vec(),
        k,
        skip: 0,
        radius: None,
        filter: None,
        ties: false,
        approximate: false,
        columns: HitColumns::Ids,
    }
}

fn ids(hits: Vec<StoreHit>) -> Vec<(String, u32)> {
    hits.into_iter().map(|hit| (hit.id, hit.distance)).collect()
}

/// The answer of our own index.
fn wanted(snapshot: &Snapshot, code: &[u64], query: &Query<'_>) -> Vec<(String, u32)> {
    let codes = Codes::from_words(snapshot.bits(), code.to_vec()).unwrap();
    let found = snapshot.search(&codes, query, &|_| ()).unwrap().remove(0);
    found.into_iter().map(|found| (found.id.to_string(), found.hit.distance)).collect()
}

/// Codes of several lengths, all kinds of searches.
fn answers_are_those_of_the_index(address: &str) {
    for (bits, len) in [(64, 3000), (12, 2500), (100, 1500), (1024, 300), (1, 70)] {
        let mut store = open(&format!("{address}?table=bits{bits}")).unwrap();
        let snapshot = Snapshot::in_memory(batch(bits, len, 7), &names()).unwrap();
        let pushed = push_all(&mut *store, &snapshot, false, false);
        assert_eq!((pushed.written, pushed.kept), (len as u64, 0));
        assert_equal(&mut *store, &snapshot, len, 12);
        let about = description(&mut *store);
        assert!(about.complete && about.outputs);
        assert_eq!(
            (about.bits, about.items, &about.label_names),
            (bits, len as u64, &names())
        );
        // pages, ties, everything within a radius
        let code = snapshot.code(3).unwrap().to_vec();
        for skip in [0, 1, 10, 60, len, len + 5] {
            let answer =
                store.search(&about, &StoreQuery { skip, ..query(&code, 50) }).unwrap();
            let own = Query { skip, ..Query::nearest(50) };
            assert_eq!(ids(answer), wanted(&snapshot, &code, &own), "skip {skip}");
            let answer = StoreQuery { skip, ties: true, ..query(&code, 50) };
            let own = Query { skip, ties: true, ..Query::nearest(50) };
            let answer = ids(store.search(&about, &answer).unwrap());
            assert_eq!(answer, wanted(&snapshot, &code, &own), "ties, skip {skip}");
        }
        // what re-ranking reads
        let numbered = |item: u64| u32::try_from(item).unwrap();
        for columns in [HitColumns::Codes, HitColumns::Outputs] {
            let hits =
                store.search(&about, &StoreQuery { columns, ..query(&code, 90) }).unwrap();
            for hit in hits {
                let item = numbered(hit.item);
                let (code, outputs) = (
                    snapshot.code(item).unwrap(),
                    snapshot.outputs(item).unwrap().unwrap(),
                );
                match columns {
                    HitColumns::Codes => assert_eq!(hit.code, code),
                    _ => assert_eq!(hit.outputs, outputs),
                }
            }
        }
        let items: Vec<u64> = (0..70).rev().chain([u64::from(u32::MAX)]).collect();
        let mut rows = store.read(&about, RowKeys::Items(&items)).unwrap();
        rows.sort_by_key(|row| row.item);
        let source = Source::new(&snapshot, &PayloadFields, true).unwrap();
        assert_eq!(rows.len(), 70);
        for (row, own) in rows.iter().zip(source.rows(0..70).unwrap()) {
            assert_eq!((row.item, &row.id, &row.code), (own.item, &own.id, &own.code));
        }
        for radius in [0, 1, 2, 5] {
            let answer = StoreQuery { radius: Some(radius), ..query(&code, usize::MAX) };
            let answer = ids(store.search(&about, &answer).unwrap());
            assert_eq!(answer, wanted(&snapshot, &code, &Query::within(radius)));
        }
        assert!(store.search(&about, &query(&code, 0)).unwrap().is_empty());
        assert!(store.bytes().unwrap() > 0);
    }
}

/// Every operator with every kind of field and literal, alone and combined.
fn filters_are_those_of_the_index(address: &str) {
    let mut store = open(&format!("{address}?table=filters")).unwrap();
    let snapshot = Snapshot::in_memory(batch(64, 420, 11), &names()).unwrap();
    push_all(&mut *store, &snapshot, false, false);
    let about = description(&mut *store);
    let fields = ["price", "brand", "added", "tags", "`odd name.it's`"];
    let literals = [
        "20",
        "\"20\"",
        "0.1",
        "2e1",
        "-3",
        "x",
        "\"o'Neil \"\"q\"\" \\n\"",
        "über",
        "\"\"",
        "true",
        "'true'",
        "2024-05-01",
        "\"2024-05-01T00:00Z\"",
        "2023-12-31",
        "a",
        "3",
        "\"$\"",
    ];
    let mut texts = vec![
        "label = sea".to_owned(),
        "label in (0, 'red car') and not label in (\"it's\")".into(),
        "label != 5".into(),
        "id = item7".into(),
        "id in (item1, \"o'id 50 \\ü\", nothing)".into(),
        "id != item7 and label = f".into(),
        "not (price < 20 or brand = x) and exists(tags)".into(),
        "not exists(price) or not exists(brand)".into(),
        "exists(tags) and not exists(added)".into(),
        "exists(unknown)".into(),
        "price in (5, 20, '20') and not brand in (x, über)".into(),
        "not (not (price >= 5))".into(),
    ];
    for field in fields {
        texts.push(format!("exists({field})"));
        for literal in literals {
            for operator in ["=", "!=", "<", "<=", ">", ">=", "contains", "not contains"] {
                texts.push(format!("{field} {operator} {literal}"));
            }
            texts.push(format!("{field} in ({literal}, 5) and label = 5"));
            texts.push(format!("{field} not in ({literal}, a)"));
        }
    }
    let code = snapshot.code(5).unwrap().to_vec();
    let (mut compared, mut found) = (0, 0);
    for text in &texts {
        let set = snapshot.filter_with(text, &PayloadFields, &Cancel::default()).unwrap();
        let own = Query { allowed: Some(&set), ..Query::nearest(usize::MAX) };
        let filter = Some(parse_filter(&about, text).unwrap());
        let answer = StoreQuery { filter, ..query(&code, usize::MAX) };
        let answer = ids(store.search(&about, &answer).unwrap());
        found += usize::from(!answer.is_empty());
        assert_eq!(answer, wanted(&snapshot, &code, &own), "{text}");
        compared += 1;
    }
    assert!(
        compared > 800 && found > compared / 3,
        "{found} of {compared} found something"
    );
    let err = parse_filter(&about, "prize < 3").unwrap_err().to_string();
    assert!(err.contains("no item has the field \"prize\"; there are"), "{err}");
    // with k, radius and skip
    for text in ["price < 20", "label = sea and brand != x"] {
        let set = snapshot.filter_with(text, &PayloadFields, &Cancel::default()).unwrap();
        for (k, skip, radius) in [(10, 0, None), (7, 5, Some(30)), (100, 0, Some(3))] {
            let own = Query { allowed: Some(&set), skip, radius, ..Query::nearest(k) };
            let filter = Some(parse_filter(&about, text).unwrap());
            let answer = StoreQuery { filter, skip, radius, ..query(&code, k) };
            let answer = ids(store.search(&about, &answer).unwrap());
            assert_eq!(answer, wanted(&snapshot, &code, &own), "{text}");
        }
    }
}

/// Upserts and deletions as in an index on disk; pushes again, replaces, drops.
fn changes_are_those_of_the_index(address: &str) {
    let address = format!("{address}?table=changes");
    let mut store = open(&address).unwrap();
    assert_eq!(store.description().unwrap(), None);
    let dir = tempfile::tempdir().unwrap();
    let bits = Bits::new(64).unwrap();
    let mut writer = Writer::create(dir.path(), bits, &names()).unwrap();
    let whole = ItemBatch { outputs: None, ..batch(64, 900, 3) };
    writer.insert(whole).unwrap();
    let pushed = push_all(&mut *store, writer.snapshot(), false, false);
    assert_eq!((pushed.written, pushed.kept), (900, 0));
    let again = push_all(&mut *store, writer.snapshot(), false, false);
    assert_eq!((again.written, again.kept), (0, 900), "a second push changes nothing");
    assert_equal(&mut *store, writer.snapshot(), 900, 5);

    // 200 replaced or new items, with other codes
    let mut fresh = ItemBatch { outputs: None, ..batch(64, 200, 99) };
    let renamed = |at: usize| {
        if at.is_multiple_of(2) { format!("item{}", at + 1) } else { format!("new{at}") }
    };
    fresh.ids = Some(Ids::Names((0..200).map(renamed).collect()));
    let other = Snapshot::in_memory(fresh.clone(), &names()).unwrap();
    let source = Source::new(&other, &PayloadFields, false).unwrap();
    let mut about = description(&mut *store);
    about.source.clear();
    store.describe(&about).unwrap();
    store.upsert(&about, source.rows(0..200).unwrap()).unwrap();
    store.upsert(&about, source.rows(0..200).unwrap()).unwrap(); // a repetition changes nothing
    writer.upsert(fresh).unwrap();
    let gone = ["item3", "new5", "item801"];
    assert_eq!(store.delete(&gone.map(str::to_owned)).unwrap(), 3);
    assert_eq!(store.delete(&gone.map(str::to_owned)).unwrap(), 0);
    writer.delete(&gone.map(|id| Id::Name(id.into()))).unwrap();
    assert_equal(&mut *store, writer.snapshot(), 2000, 12);

    // other items are refused, unless they replace these
    let source = Source::new(&other, &PayloadFields, false).unwrap();
    let own = source.describe(false, &no_progress).unwrap();
    let refused = push(&mut *store, &source, own, &options(false), &|_| (), &no_progress);
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("contains other items") && refused.contains("--replace"),
        "{refused}"
    );
    let pushed = push_all(&mut *store, &other, false, true);
    assert_eq!(pushed.written, 200);
    assert_equal(&mut *store, &other, 200, 5);
    store.drop_table().unwrap();
    assert_eq!(store.description().unwrap(), None);
}

/// Codes alone.
fn many(len: usize) -> Snapshot {
    let codes = Numbers(5).codes(64, len);
    Snapshot::in_memory(ItemBatch::new(codes), &[]).unwrap()
}

/// The database is killed in the middle of a push and started again.
fn a_killed_engine_loses_nothing(address: &str, engine: Engine) -> Engine {
    let snapshot = many(5 * usize::try_from(RANGE).unwrap() + 1234);
    let mut store = open(&format!("{address}?table=killed")).unwrap();
    let source = Source::new(&snapshot, &PayloadFields, false).unwrap();
    let description = source.describe(false, &no_progress).unwrap();
    let engine = Mutex::new(engine);
    let (killed, noticed) = (AtomicBool::new(false), RefCell::new(Vec::new()));
    let progress = |done: usize| {
        if done as u64 >= 2 * RANGE && !killed.swap(true, Ordering::SeqCst) {
            engine.lock().unwrap().kill();
        }
    };
    let say = |line: &str| noticed.borrow_mut().push(line.to_owned());
    let pushed = std::thread::scope(|scope| {
        let restart = scope.spawn(|| {
            while !killed.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
            }
            std::thread::sleep(Duration::from_millis(300)); // the push notices
            engine.lock().unwrap().restart();
        });
        let pushed =
            push(&mut *store, &source, description, &options(false), &say, &progress);
        restart.join().unwrap();
        pushed.unwrap()
    });
    assert_eq!(pushed.written, source.len() as u64);
    assert!(
        noticed.borrow().iter().any(|line| line.contains("trying again")),
        "{noticed:?}"
    );
    assert_equal(&mut *store, &snapshot, 3000, 5);
    let again = push_all(&mut *store, &snapshot, false, false);
    assert_eq!((again.written, again.kept), (0, source.len() as u64));
    store.drop_table().unwrap();
    engine.into_inner().unwrap()
}

/// The program is killed in the middle of a push and run again; then the commands.
fn commands(address: &str, secret: &str) {
    let dir = tempfile::tempdir().unwrap();
    let index = path(dir.path(), "x.index");
    let len = 6 * usize::try_from(RANGE).unwrap() + 77;
    let codes = Numbers(5).codes(64, len);
    let mut writer = Writer::create(Path::new(&index), codes.bits(), &[]).unwrap();
    writer.insert(ItemBatch::new(codes.clone())).unwrap();
    writer.flush().unwrap();
    drop(writer);
    let url = format!("{address}?table=commands");
    let mut watch = open(&url).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_crosshash"))
        .args(["store", "push", &index, &url])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        assert!(Instant::now() < until, "nothing is stored");
        let there = watch.description().unwrap().is_some() && watch.count().unwrap() > 0;
        if there {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let info: Value =
        serde_json::from_str(&ends(0, &["store", "info", &url, "--json"]).0).unwrap();
    assert_eq!(info["complete"], false, "killed in the middle: {info}");
    let err = ends(2, &["store", "search", &url, "--codes", "none.npy"]).1;
    assert!(err.contains("was interrupted; repeat it"), "{err}");
    let err = ends(0, &["store", "push", &index, &url]).1;
    assert!(err.contains("items were there already"), "{err}");
    assert!(!err.contains(secret), "{err}");
    let out =
        ends(0, &["store", "verify", &index, &url, "--rows", "5000", "--queries", "3"]).0;
    assert!(
        out.contains(&format!(
            "{len} items; 5000 rows and 12 searches compared: all are equal"
        )),
        "{out}"
    );
    assert_eq!(watch.count().unwrap(), len as u64);

    let queries = path(dir.path(), "q.npy");
    npy::write_packed(queries.as_ref(), &codes.select(&[5, 900]), BitOrder::Lsb).unwrap();
    let common =
        ["--codes", queries.as_str(), "-k", "100", "--filter", "id != 5", "--json"];
    let of =
        |place: &[&str], more: &[&str]| ends(0, &[place, &common[..], more].concat()).0;
    let theirs = of(&["store", "search", url.as_str()], &[]);
    let ours = of(&["search", index.as_str()], &["--rank", "hamming"]);
    let hits = |text: &str| -> Vec<(Value, Value)> {
        let all: Value = serde_json::from_str(text).unwrap();
        let hits =
            all.as_array().unwrap().iter().flat_map(|one| one["hits"].as_array().unwrap());
        hits.map(|hit| (hit["id"].clone(), hit["distance"].clone())).collect()
    };
    assert_eq!(hits(&theirs).len(), 200);
    assert_eq!(hits(&theirs), hits(&ours));

    // another index differs, and is not pushed over this one
    let small = path(dir.path(), "small.index");
    let mut writer = Writer::create(Path::new(&small), codes.bits(), &[]).unwrap();
    writer.insert(ItemBatch::new(Numbers(6).codes(64, 500))).unwrap();
    writer.flush().unwrap();
    drop(writer);
    let out = ends(1, &["store", "verify", &small, &url]).0;
    assert!(out.contains("differs: ") && out.contains("bits of the code differ"), "{out}");
    let err = ends(2, &["store", "push", &small, &url]).1;
    assert!(err.contains("contains other items") && !err.contains(secret), "{err}");
    let err = ends(0, &["store", "push", &small, &url, "--upsert"]).1;
    assert!(err.contains(&format!("500 items added or replaced; {len} in")), "{err}");
    ends(0, &["store", "delete", &url, "--id", "17"]);
    ends(1, &["store", "delete", &url, "--id", "17"]);
    let err = ends(2, &["store", "drop", &url]).1;
    assert!(err.contains("--yes is needed"), "{err}");
    ends(0, &["store", "drop", &url, "--yes"]);
    let err = ends(2, &["store", "info", &url]).1;
    assert!(err.contains("there is no such table"), "{err}");
}

/// Encrypted connections; a certificate of another authority or another name is refused.
fn connections_are_encrypted(engine: &Engine, scheme: &str, login: &str, mode: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engines");
    let (certificate, key) = (folder.join("server.pem"), folder.join("server.key"));
    let Some(proxy) = engine.tls_proxy(&certificate, &key, mode) else { return };
    let place =
        |host: &str| format!("{scheme}://{login}{host}:{}?sslmode=verify-full", proxy.port);
    let trusted = format!("&sslrootcert={}&table=tls", folder.join("ca.pem").display());
    let mut store = open(&format!("{}{trusted}", place("localhost"))).unwrap();
    let snapshot = Snapshot::in_memory(batch(64, 300, 7), &names()).unwrap();
    push_all(&mut *store, &snapshot, false, false);
    assert_equal(&mut *store, &snapshot, 300, 2);
    for address in [place("localhost"), format!("{}{trusted}", place("127.0.0.1"))] {
        let err = open(&address).err().unwrap().to_string();
        assert!(err.contains("certificate"), "{err}");
    }
}

#[test]
fn postgresql() {
    let Some(engine) = Engine::postgres() else { return };
    let address =
        format!("postgresql://postgres:{PASSWORD}@127.0.0.1:{}/postgres", engine.port);
    answers_are_those_of_the_index(&address);
    filters_are_those_of_the_index(&address);
    changes_are_those_of_the_index(&address);
    postgresql_stores_bits_from_the_left(&address, engine.port);
    hnsw_finds_nearly_all(&address);
    connections_are_encrypted(
        &engine,
        "postgresql",
        &format!("postgres:{PASSWORD}@"),
        "postgres",
    );
    let err = open(&address.replace(PASSWORD, "wrong")).err().unwrap().to_string();
    assert!(err.contains("PGPASSWORD") && !err.contains("wrong"), "{err}");
    let engine = a_killed_engine_loses_nothing(&address, engine);
    commands(&address, "secret");
    drop(engine);
    let err = open(&address).err().unwrap().to_string();
    assert!(err.contains("onnect"), "{err}");
}

#[test]
fn clickhouse() {
    let Some(engine) = Engine::clickhouse() else { return };
    let address = format!("clickhouse://127.0.0.1:{}/default", engine.port);
    answers_are_those_of_the_index(&address);
    filters_are_those_of_the_index(&address);
    changes_are_those_of_the_index(&address);
    clickhouse_stores_words(&address, engine.port);
    connections_are_encrypted(&engine, "clickhouse", "", "");
    let engine = a_killed_engine_loses_nothing(&address, engine);
    commands(&address, "secret");
    drop(engine);
}

/// A server that was started by hand: `CROSSHASH_CLICKHOUSE=clickhouse://user:password@127.0.0.1:8123/default`.
#[test]
#[ignore = "needs a ClickHouse server"]
fn clickhouse_server() {
    let address = std::env::var("CROSSHASH_CLICKHOUSE").expect("its address");
    for table in ["bits64", "bits12", "bits100", "bits1024", "bits1", "filters"] {
        let mut store = open(&format!("{address}?table={table}")).unwrap();
        if store.description().unwrap().is_some() {
            store.drop_table().unwrap();
        }
    }
    answers_are_those_of_the_index(&address);
    filters_are_those_of_the_index(&address);
    changes_are_those_of_the_index(&address);
    commands(&address, "secret");
}

/// The stored value itself, not what our own reader makes of it.
fn postgresql_stores_bits_from_the_left(address: &str, port: u16) {
    let text = format!("host=127.0.0.1 port={port} user=postgres password='secret word'");
    let mut client = postgres::Client::connect(&text, postgres::NoTls).unwrap();
    let snapshot = Snapshot::in_memory(batch(100, 1500, 7), &names()).unwrap();
    let mut store = open(&format!("{address}?table=bits100")).unwrap();
    assert_eq!(store.count().unwrap(), 1500);
    let rows =
        client.query("SELECT item, code::text FROM bits100 ORDER BY item", &[]).unwrap();
    assert_eq!(rows.len(), 1500);
    for (row, item) in rows.iter().zip(snapshot.items()) {
        let stored: String = row.get(1);
        let code = snapshot.code(item).unwrap();
        let bit = |k: usize| if code[k / 64] >> (k % 64) & 1 == 1 { '1' } else { '0' };
        assert_eq!(stored, (0..100).map(bit).collect::<String>());
    }
    // a table of somebody else is neither read nor dropped
    client.batch_execute("CREATE TABLE own (x int)").unwrap();
    let mut store = open(&format!("{address}?table=own")).unwrap();
    let err = store.description().unwrap_err().to_string();
    assert!(err.contains("crosshash did not create it"), "{err}");
    // the character that PostgreSQL cannot store
    let mut items = batch(64, 3, 1);
    items.ids = Some(Ids::Names(vec!["a".into(), "b\0".into(), "c".into()]));
    let snapshot = Snapshot::in_memory(items, &[]).unwrap();
    let mut store = open(&format!("{address}?table=nul")).unwrap();
    let source = Source::new(&snapshot, &PayloadFields, false).unwrap();
    let own = source.describe(false, &no_progress).unwrap();
    let err = push(&mut *store, &source, own, &options(false), &|_| (), &no_progress);
    let err = err.unwrap_err().to_string();
    assert!(err.contains("NUL"), "{err}");
}

fn clickhouse_stores_words(address: &str, port: u16) {
    let snapshot = Snapshot::in_memory(batch(100, 1500, 7), &names()).unwrap();
    let mut store = open(&format!("{address}?table=bits100")).unwrap();
    assert_eq!(store.count().unwrap(), 1500);
    let url = format!("http://127.0.0.1:{port}/?database=default");
    let sql = "SELECT leftPad(bin(c0), 64, '0'), leftPad(bin(c1), 64, '0') FROM bits100 ORDER BY item";
    let text = ureq::post(&url).send(sql).unwrap().body_mut().read_to_string().unwrap();
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.len(), 1500);
    for (row, item) in rows.iter().zip(snapshot.items()) {
        let words = snapshot.code(item).unwrap();
        assert_eq!(**row, format!("{:064b}\t{:064b}", words[0], words[1]));
    }
}

/// HNSW is approximate; with iterative scans it returns as many hits as were requested.
fn hnsw_finds_nearly_all(address: &str) {
    let codes = {
        // random codes: many equal ones are what HNSW is not made for
        let mut numbers = Numbers(17);
        let mut word = || {
            numbers.below(1 << 31) << 33
                ^ numbers.below(1 << 31) << 16
                ^ numbers.below(1 << 31)
        };
        let words = (0..2000).map(|_| word()).collect();
        Codes::from_words(Bits::new(64).unwrap(), words).unwrap()
    };
    let snapshot = Snapshot::in_memory(ItemBatch::new(codes), &[]).unwrap();
    let mut store = open(&format!("{address}?table=hnsw")).unwrap();
    push_all(&mut *store, &snapshot, true, false);
    let about = description(&mut *store);
    assert!(about.hnsw);
    assert_equal(&mut *store, &snapshot, 100, 2); // exact without --approximate
    for k in [10, 1000] {
        let code = snapshot.code(9).unwrap().to_vec();
        let answer = StoreQuery { approximate: true, ..query(&code, k) };
        let answer = ids(store.search(&about, &answer).unwrap());
        let wanted = wanted(&snapshot, &code, &Query::nearest(k));
        assert_eq!(answer.len(), k);
        assert_eq!(answer[0], wanted[0]);
        let worst = wanted.last().unwrap().1;
        let near = answer.iter().filter(|hit| hit.1 <= worst).count();
        assert!(near * 10 >= k * 8, "{near} of {k} hits are near enough");
        assert!(answer.windows(2).all(|two| two[0].1 <= two[1].1));
    }
}
