//! Inserted items when things go wrong: full disks, flipped bits, files that are cut or removed; and
//! numbers that come back as they were sent.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[path = "../../crosshash-bench/src/attack/disk.rs"]
mod disk;
mod driver;
#[allow(dead_code, reason = "some of the files are used")]
#[path = "../../crosshash-bench/src/attack/files.rs"]
mod files;
mod serving;

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crosshash::data::Raster;
use crosshash::payload::Payload;
use crosshash_codes::format::Ids;
use crosshash_codes::segments::{ItemBatch, NewIndex, Snapshot, Writer};
use crosshash_codes::{Bits, Codes, Outputs};
use disk::Disk;
use driver::{done, ends, path};
use serde_json::{Value, json};
use serving::{Client, Server, json, refused, run};

/// A picture of noise in one colour, of more than a page of a file system.
fn picture(colour: [u8; 3]) -> Vec<u8> {
    let mut state = 1_u32;
    let noise = (0..64 * 64 * 3).map(|k| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        colour[k % 3].wrapping_add(u8::try_from(state >> 26).unwrap())
    });
    let file = Raster::new(64, 3, noise.collect()).to_png().unwrap();
    assert!(file.len() > 8192, "{}", file.len());
    file
}

fn put_picture(client: &mut Client, id: &str, colour: [u8; 3]) -> u16 {
    let picture = STANDARD.encode(picture(colour));
    let item = json!({"id": id, "picture": picture, "code": "0f0f0f0f"});
    let body = json!({"modality": "picture", "items": [item]}).to_string();
    client.json("POST", "/v1/items", &body).unwrap().status
}

fn shown_picture(client: &mut Client, id: &str) -> Vec<u8> {
    let reply = client.get(&format!("/v1/items/{id}/picture?modality=picture")).unwrap();
    assert_eq!(reply.status, 200, "{id}");
    reply.body
}

fn put_texts(client: &mut Client, texts: &[(String, String)]) {
    let item = |(id, text): &(String, String)| json!({"id": id, "text": text});
    let items: Vec<Value> = texts.iter().map(item).collect();
    let body = json!({"modality": "words", "items": items}).to_string();
    json(201, client.json("POST", "/v1/items", &body));
}

fn stop(server: &mut Server) {
    server.signal("-TERM");
    assert!(server.child.wait().unwrap().success());
}

/// The index of a modality of a served run.
fn index_of(run: &Path, modality: &str) -> PathBuf {
    let folders = fs_err::read_dir(run.join("serve").join(modality)).unwrap();
    folders.map(|entry| entry.unwrap().path()).next().unwrap()
}

fn file_of(index: &Path, ending: &str) -> PathBuf {
    let files = fs_err::read_dir(index).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|own| own == ending)).collect();
    files.sort();
    files.remove(0)
}

/// x1 and x2 are green. x1 is replaced by red on a full disk, which is refused; then there is space
/// again, and x2 is replaced by blue. x1 is green all the time, also after a restart.
#[test]
fn a_failed_insert_leaves_no_trace() {
    let (green, red, blue) = ([0, 200, 0], [200, 0, 0], [0, 0, 200]);
    let (dir, run) = run();
    // Without root: the size of files is limited instead, which fails in the same write.
    let disk = Disk::mount(dir.path().join("disk")).ok();
    let served = disk.as_ref().map_or(run.clone(), |disk| {
        let served = disk.folder().join("small");
        serving::copy(&run, &served);
        served
    });
    let mut server = Server::start_limited(&served);
    let mut client = server.client();
    assert_eq!(put_picture(&mut client, "x1", green), 201);
    assert_eq!(put_picture(&mut client, "x2", green), 201);
    let limit = |bytes: &str| {
        let process = server.child.id().to_string();
        let status = std::process::Command::new("prlimit")
            .args(["--pid", &process, &format!("--fsize={bytes}")])
            .status();
        assert!(status.unwrap().success());
    };
    match &disk {
        Some(disk) => disk.fill(0).unwrap(),
        None => limit("1:unlimited"),
    }
    assert_eq!(put_picture(&mut client, "x1", red), 500);
    assert_eq!(shown_picture(&mut client, "x1"), picture(green), "refused");
    match &disk {
        Some(disk) => disk.free().unwrap(),
        None => limit("unlimited:unlimited"),
    }
    assert_eq!(shown_picture(&mut client, "x1"), picture(green), "with space again");
    assert_eq!(put_picture(&mut client, "x2", blue), 201);
    for restarted in [false, true] {
        if restarted {
            stop(&mut server);
            server = Server::start(&served, &[]);
            client = server.client();
        }
        assert_eq!(shown_picture(&mut client, "x1"), picture(green), "{restarted}");
        assert_eq!(shown_picture(&mut client, "x2"), picture(blue), "{restarted}");
    }
}

/// An index of one or two segments.
fn built(folder: &Path, segments: usize) {
    let bits = Bits::new(64).unwrap();
    let new = NewIndex { bits, label_names: &[], outputs: true, after_commit: 0 };
    let mut writer = Writer::create_with(folder, new).unwrap();
    for nth in 0..segments as u64 {
        let words = (0..300).map(|k| (nth * 300 + k).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let codes = Codes::from_words(bits, words.collect()).unwrap();
        let ids = Ids::Numbers((nth * 300..nth * 300 + 300).collect());
        let outputs = Some(Outputs::from_codes(&codes));
        writer
            .insert(ItemBatch { ids: Some(ids), outputs, ..ItemBatch::new(codes) })
            .unwrap();
        writer.flush().unwrap();
    }
}

/// A flipped bit of a code is reported by `compact` and `export`, and is still reported after them.
#[test]
fn compact_and_export_do_not_launder_damage() {
    let dir = tempfile::tempdir().unwrap();
    for segments in [1, 2] {
        let folder = dir.path().join(format!("{segments}.index"));
        built(&folder, segments);
        let index = path(dir.path(), &format!("{segments}.index"));
        done(&["index", "info", &index, "--verify"]);
        let segment = file_of(&folder, "segment");
        let mut bytes = fs_err::read(&segment).unwrap();
        let at = bytes.len() - 80; // the codes are last
        bytes[at] ^= 16;
        fs_err::write(&segment, &bytes).unwrap();
        let name = segment.file_name().unwrap().to_str().unwrap();
        let out = path(dir.path(), "out.jsonl");
        for args in [
            &["index", "info", &index, "--verify"][..],
            &["index", "compact", &index],
            &["index", "export", &index, "--out", &out],
            &["index", "info", &index, "--verify"],
            &["verify", &index],
        ] {
            let (stdout, stderr) = ends(2, args);
            assert!(format!("{stdout}{stderr}").contains(name), "{args:?}: {stderr}");
        }
        assert!(!Path::new(&out).exists(), "nothing is exported");
        // the file is untouched: with the bit restored the index is sound
        bytes[at] ^= 16;
        assert_eq!(fs_err::read(&segment).unwrap().len(), bytes.len());
        fs_err::write(&segment, &bytes).unwrap();
        done(&["index", "compact", &index]);
        assert!(done(&["verify", &index]).contains(" 0 damaged"));
    }
}

/// A flipped bit in the length of a record of the log: the server refuses to start and changes
/// nothing, `verify` names the file, `rescue` keeps what is before it.
#[test]
fn a_damaged_log_is_refused_and_not_erased() {
    let (dir, run) = run();
    let mut server = Server::start(&run, &[]);
    let mut client = server.client();
    for k in 0..5 {
        put_texts(&mut client, &[(format!("mine{k}"), format!("thing number {k}"))]);
    }
    stop(&mut server);
    let index = index_of(&run, "words");
    let log = file_of(&index, "log");
    let mut bytes = fs_err::read(&log).unwrap();
    let records: Vec<usize> = (0..bytes.len() - 8)
        .step_by(8)
        .filter(|&at| bytes[at..].starts_with(b"XHRECORD"))
        .collect();
    assert_eq!(records.len(), 5);
    bytes[records[2] + 8 + 2] ^= 1; // the length of the third record
    fs_err::write(&log, &bytes).unwrap();
    let served = run.to_str().unwrap();
    let (_, message) = ends(2, &["serve", served, "--addr", "127.0.0.1:0"]);
    assert!(message.contains("corrupt") && message.contains(".log"), "{message}");
    assert_eq!(fs_err::read(&log).unwrap(), bytes, "the log is unchanged");
    let (report, _) = ends(2, &["verify", served]);
    assert!(report.contains("DAMAGED") && report.contains(".log"), "{report}");
    let rescued = path(dir.path(), "rescued");
    let (_, message) = ends(1, &["index", "rescue", index.to_str().unwrap(), &rescued]);
    assert!(message.contains("record"), "{message}");
    let snapshot = Snapshot::open(Path::new(&rescued)).unwrap();
    let holds = |id: &str| {
        let id = snapshot.typed_id(id).unwrap();
        snapshot.find(&id).unwrap().is_some()
    };
    let kept: Vec<bool> = (0..5).map(|k| holds(&format!("mine{k}"))).collect();
    assert_eq!(kept, [true, true, false, false, false]);
}

/// The folder of an index is removed: it is built again from the run, and what is inserted from then
/// on stays over further restarts.
#[test]
fn a_removed_index_is_built_again() {
    let (_dir, run) = run();
    let mut server = Server::start(&run, &[]);
    let all: Vec<(String, String)> =
        (0..10).map(|k| (format!("mine{k}"), format!("thing number {k}"))).collect();
    put_texts(&mut server.client(), &all);
    stop(&mut server);
    fs_err::remove_dir_all(index_of(&run, "words")).unwrap();
    server = Server::start(&run, &[]);
    refused(404, server.client().get("/v1/items/mine3?modality=words"));
    for one in &all {
        put_texts(&mut server.client(), std::slice::from_ref(one));
    }
    for restart in 0..4 {
        stop(&mut server);
        server = Server::start(&run, &[]);
        let mut client = server.client();
        for (id, text) in &all {
            let item = json(200, client.get(&format!("/v1/items/{id}?modality=words")));
            assert_eq!(item["text"], *text, "restart {restart}");
        }
    }
}

/// A bad picture that is in an index already (an earlier version did not check it) is refused
/// as a thumbnail; the server goes on.
#[test]
fn a_stored_bad_picture_does_not_end_the_server() {
    let (_dir, run) = run();
    let mut server = Server::start(&run, &[]);
    json(200, server.client().get("/healthz")); // it handles signals from now on
    stop(&mut server);
    let bad = files::bad_files();
    let chosen = ["nested-patterns.svg", "morphology.svg", "huge.png"];
    let bad: Vec<_> = bad.iter().filter(|file| chosen.contains(&file.name)).collect();
    assert_eq!(bad.len(), chosen.len());
    let payload = |file: &&files::BadFile| {
        let picture = Some(file.bytes.clone());
        Payload { picture, ..Payload::default() }.encode().unwrap().into()
    };
    let codes = Codes::from_words(Bits::new(32).unwrap(), vec![1, 2, 3]).unwrap();
    let mut writer = Writer::open(&index_of(&run, "picture")).unwrap();
    let outputs = writer.snapshot().has_outputs().then(|| Outputs::from_codes(&codes));
    writer
        .upsert(ItemBatch {
            ids: Some(Ids::Names(chosen.map(str::to_owned).to_vec())),
            payloads: Some(bad.iter().map(payload).collect()),
            outputs,
            ..ItemBatch::new(codes)
        })
        .unwrap();
    drop(writer);
    for _ in 0..2 {
        let mut server = Server::start(&run, &[]);
        let mut client = server.client();
        for name in chosen {
            let path = format!("/v1/items/{name}/picture?modality=picture&size=64");
            let reply = client.get(&path).unwrap();
            assert!(reply.status >= 400, "{name}: {}", reply.status);
            assert!(server.child.try_wait().unwrap().is_none(), "after {name}");
        }
        let search = json!({"query": {"text": "cat"}, "target": "picture"});
        json(200, client.json("POST", "/v1/search", &search.to_string()));
    }
}

/// Another process cuts the segments of a served index short: requests fail with an error, and the
/// server goes on with the others.
#[cfg(target_os = "linux")]
#[test]
fn a_segment_that_is_cut_does_not_end_the_server() {
    let (_dir, run) = run();
    let mut server = Server::start(&run, &[]);
    let mut client = server.client();
    let search = |target: &str| {
        json!({"query": {"text": "cat"}, "target": target, "k": 100}).to_string()
    };
    for target in ["words", "picture"] {
        json(200, client.json("POST", "/v1/search", &search(target)));
    }
    let segment = file_of(&index_of(&run, "words"), "segment");
    let file = fs_err::OpenOptions::new().write(true).open(&segment).unwrap();
    file.set_len(4096).unwrap();
    for _ in 0..3 {
        let reply = client.json("POST", "/v1/search", &search("words")).unwrap();
        assert_eq!(reply.status, 500, "{}", reply.text());
        assert_eq!(client.get("/v1/items/1f436?modality=words").unwrap().status, 500);
        json(200, client.json("POST", "/v1/search", &search("picture")));
        assert!(server.child.try_wait().unwrap().is_none());
    }
    json(200, client.get("/healthz"));
    let said = server.said.lock().unwrap().clone();
    let name = segment.file_name().unwrap().to_str().unwrap();
    assert!(
        said.contains("shortened while it was in use") && said.contains(name),
        "{said}"
    );
    drop(client);
    let message =
        ends(2, &["index", "compact", segment.parent().unwrap().to_str().unwrap()]).1;
    assert!(message.contains(name) || message.contains("another process"), "{message}");
}

/// Random doubles of all magnitudes, and integers up to 2^64, are the same after an insert and a
/// restart, to the last bit.
#[test]
fn numbers_of_meta_are_exact() {
    let mut state = 12_u64;
    let mut random = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) ^ mixed >> 31
    };
    let mut doubles: Vec<f64> = Vec::new();
    while doubles.len() < 5000 {
        let any = f64::from_bits(random());
        let usual = random() as f64 / 2_f64.powi(64)
            * 10_f64.powi(i32::try_from(random() % 18).unwrap() - 6);
        doubles.extend([any, usual].into_iter().filter(|value| value.is_finite()));
    }
    doubles.extend([0.1, -0.0, f64::MAX, f64::MIN_POSITIVE, 5e-324, 1e23, 8.41e21]);
    let power = 1_u64 << 53;
    let whole = [0, 7, power - 1, power, power + 1, power + 2, u64::MAX - 1, u64::MAX];
    let below = [-1, -9_007_199_254_740_993, i64::MIN];
    // The shortest text of every double, as JSON libraries write it.
    let texts: Vec<String> = doubles.iter().map(|value| format!("{value:?}")).collect();
    let (_dir, run) = run();
    let mut server = Server::start(&run, &[]);
    for (nth, chunk) in texts.chunks(500).enumerate() {
        let body = format!(
            "{{\"modality\":\"words\",\"items\":[{{\"id\":\"n{nth}\",\"text\":\"numbers\",\
             \"meta\":{{\"doubles\":[{}],\"whole\":{},\"below\":{}}}}}]}}",
            chunk.join(","),
            json!(whole),
            json!(below)
        );
        json(201, server.client().json("POST", "/v1/items", &body));
    }
    for restarted in [false, true] {
        if restarted {
            stop(&mut server);
            server = Server::start(&run, &[]);
        }
        let mut client = server.client();
        for (nth, chunk) in doubles.chunks(500).enumerate() {
            let reply = client.get(&format!("/v1/items/n{nth}?modality=words")).unwrap();
            let text = reply.text();
            // By the standard library, which reads and writes numbers exactly.
            let list = text.split_once("\"doubles\":[").unwrap().1;
            let list: Vec<f64> = list
                .split_once(']')
                .unwrap()
                .0
                .split(',')
                .map(|number| number.parse().unwrap())
                .collect();
            let changed =
                chunk.iter().zip(&list).filter(|(a, b)| a.to_bits() != b.to_bits());
            assert_eq!((list.len(), changed.count()), (chunk.len(), 0), "{restarted}");
            let meta = json(200, Ok(reply))["meta"].clone();
            assert_eq!((&meta["whole"], &meta["below"]), (&json!(whole), &json!(below)));
        }
    }
}

/// Ids with leading zeros are other ids, or are refused where ids are numbers.
#[test]
fn ids_with_leading_zeros_are_not_mixed_up() {
    let (dir, run) = run();
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    let texts = ["77", "0077"].map(|id| (id.to_owned(), format!("the item {id}")));
    put_texts(&mut client, &texts);
    for (id, text) in &texts {
        let item = json(200, client.get(&format!("/v1/items/{id}?modality=words")));
        assert_eq!(item["text"], *text);
    }
    let body = json!({"modality": "words", "ids": ["0077"]}).to_string();
    assert_eq!(json(200, client.json("DELETE", "/v1/items", &body))["deleted"], 1);
    json(200, client.get("/v1/items/77?modality=words"));
    refused(404, client.get("/v1/items/0077?modality=words"));
    // an index whose ids are numbers
    let folder = dir.path().join("numbers");
    built(&folder, 1);
    let server = Server::start(&folder, &[]);
    let mut client = server.client();
    json(200, client.get("/v1/items/77"));
    refused(404, client.get("/v1/items/0077"));
    let code = "00000000000000ff";
    let item = json!({"modality": "items", "items": [{"id": "0077", "code": code}]});
    let message = refused(400, client.json("POST", "/v1/items", &item.to_string()));
    assert!(message.contains("without leading zeros"), "{message}");
    let body = json!({"modality": "items", "ids": ["0077"]}).to_string();
    let gone = json(200, client.json("DELETE", "/v1/items", &body));
    assert_eq!(gone, json!({"deleted": 0, "missing": ["0077"]}));
}
