//! `crosshash serve` while things happen to it: inserts, reloads, signals. For kill -9, see the tests of
//! `crosshash-bench`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod serving;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crosshash_codes::format::CodeFile;
use crosshash_codes::segments::{NewIndex, Writer};
use crosshash_codes::{Bits, Codes};
use serde_json::{Value, json};
use serving::{Client, Server, json, refused, run, train};

fn insert(client: &mut Client, id: &str, text: &str) -> Value {
    let body = json!({"modality": "words", "items": [{"id": id, "text": text, "meta": {"of": text}}]});
    json(201, client.json("POST", "/v1/items", &body.to_string()))
}

fn item(client: &mut Client, id: &str) -> Value {
    json(200, client.get(&format!("/v1/items/{id}?modality=words")))
}

#[test]
fn items_are_inserted_updated_deleted_and_persist() {
    let (_dir, run) = run();
    let mut server = Server::start(&run, &[]);
    let mut client = server.client();
    let before = json(200, client.get("/v1/models"))["models"][0]["modalities"][2]["items"]
        .as_u64()
        .unwrap();
    assert_eq!(
        insert(&mut client, "mine", "a grey cat"),
        json!({"inserted": 1, "replaced": 0})
    );
    let first = item(&mut client, "mine");
    assert_eq!(
        (&first["text"], &first["meta"]["of"]),
        (&json!("a grey cat"), &json!("a grey cat"))
    );
    let found = json(200, client.json("POST", "/v1/search", &json!({"query": {"text": "a grey cat"}, "target": "words", "filter": "id = mine"}).to_string()));
    let own = &found["hits"][0];
    assert_eq!((&own["distance"], &own["text"]), (&json!(0), &json!("a grey cat")));
    assert_eq!(found["searched"], before + 1);
    assert_eq!(
        insert(&mut client, "mine", "a blue whale"),
        json!({"inserted": 0, "replaced": 1})
    );
    assert_eq!(item(&mut client, "mine")["text"], "a blue whale");
    // a picture with an item, and a label; a thumbnail of it
    let picture = client.get("/v1/items/1f408/picture?modality=picture").unwrap().body;
    use base64::Engine as _;
    let picture = base64::engine::general_purpose::STANDARD.encode(picture);
    let label =
        json(200, client.get("/v1/models"))["models"][0]["labels"][0]["name"].clone();
    let body = json!({"modality": "picture", "items": [{"id": "my photo", "picture": picture, "labels": [label], "text": "on the sofa"}]});
    json(201, client.json("POST", "/v1/items", &body.to_string()));
    let photo = json(200, client.get("/v1/items/my%20photo?modality=picture"));
    assert_eq!(photo["labels"], json!([label]));
    let cat = json(200, client.get("/v1/items/1f408?modality=picture"));
    assert_eq!(photo["code"], cat["code"], "the same picture has the same code");
    let shown = client.get(photo["picture"].as_str().unwrap()).unwrap();
    assert_eq!((shown.status, shown.header("content-type")), (200, Some("image/png")));
    // one of the data set goes, and one that was never there
    let gone = json(
        200,
        client.json(
            "DELETE",
            "/v1/items",
            &json!({"modality": "words", "ids": ["1f408", "nothing"]}).to_string(),
        ),
    );
    assert_eq!(gone, json!({"deleted": 1, "missing": ["nothing"]}));
    refused(404, client.get("/v1/items/1f408?modality=words"));
    // stopped politely, it ends well; started again, everything is as it was
    server.signal("-TERM");
    assert!(server.child.wait().unwrap().success(), "{}", server.said.lock().unwrap());
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    assert_eq!(item(&mut client, "mine")["text"], "a blue whale");
    assert_eq!(json(200, client.get("/v1/items/my%20photo?modality=picture")), photo);
    assert_eq!(client.get(photo["picture"].as_str().unwrap()).unwrap().body, shown.body);
    refused(404, client.get("/v1/items/1f408?modality=words"));
}

/// Searches continuously until stopped; every result must be correct.
fn search_on(
    server: &Server,
    over: &AtomicBool,
    generations: &Mutex<BTreeMap<u64, usize>>,
) -> usize {
    let mut client = server.client();
    let mut asked = 0;
    while !over.load(Ordering::Relaxed) {
        let body = json!({"query": {"text": "cat"}, "target": "words", "k": 5});
        let found = json(200, client.json("POST", "/v1/search", &body.to_string()));
        assert_eq!(found["hits"].as_array().unwrap().len(), 5);
        *generations
            .lock()
            .unwrap()
            .entry(found["generation"].as_u64().unwrap())
            .or_default() += 1;
        asked += 1;
    }
    asked
}

#[test]
fn a_new_run_is_taken_over_and_no_request_is_dropped() {
    let (dir, run) = run();
    let server = Server::start(&run, &[]);
    let (over, generations) = (AtomicBool::new(false), Mutex::new(BTreeMap::new()));
    let mut client = server.client();
    insert(&mut client, "mine", "a grey cat");
    json(
        200,
        client.json(
            "DELETE",
            "/v1/items",
            &json!({"modality": "words", "ids": ["1f408"]}).to_string(),
        ),
    );
    let old = item(&mut client, "mine");
    // retrained elsewhere with another seed, then copied over the old one, file by file
    let other = dir.path().join("other");
    train(&other, 7);
    let inserted = AtomicUsize::new(0);
    let asked: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| search_on(&server, &over, &generations)))
            .collect();
        let inserts = scope.spawn(|| {
            let mut client = server.client();
            while !over.load(Ordering::Relaxed) {
                let n = inserted.fetch_add(1, Ordering::Relaxed);
                insert(&mut client, &format!("live {n}"), &format!("thing number {n}"));
            }
        });
        std::thread::sleep(Duration::from_millis(300));
        // the same run again, by request and by signal
        assert_eq!(
            json(200, client.request("POST", "/v1/models/small/reload", "", &[]))["generation"],
            2
        );
        server.signal("-HUP");
        wait(|| json(200, client.get("/v1/models"))["models"][0]["generation"] == 3);
        put_in_place(&other, &run);
        // detected automatically
        wait(|| json(200, client.get("/v1/models"))["models"][0]["generation"] == 4);
        std::thread::sleep(Duration::from_millis(300));
        over.store(true, Ordering::Relaxed);
        inserts.join().unwrap();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let seen = generations.lock().unwrap().clone();
    assert!(asked > 20 && seen.contains_key(&1) && seen.contains_key(&4), "{seen:?}");
    // inserted items are encoded by the new model, deleted items stay deleted
    let new = item(&mut client, "mine");
    assert_eq!(new["text"], old["text"]);
    assert_ne!(new["code"], old["code"], "encoded by the new model");
    let encoded = json(
        200,
        client.json(
            "POST",
            "/v1/encode",
            &json!({"query": {"text": "a grey cat"}}).to_string(),
        ),
    );
    assert_eq!(encoded["code"], new["code"]);
    refused(404, client.get("/v1/items/1f408?modality=words"));
    let count = inserted.load(Ordering::Relaxed);
    assert!(count > 2);
    for n in 0..count {
        let text = format!("thing number {n}");
        let kept = item(&mut client, &format!("live%20{n}"));
        assert_eq!(kept["text"], text);
        let encoded = json(
            200,
            client.json(
                "POST",
                "/v1/encode",
                &json!({"query": {"text": text}}).to_string(),
            ),
        );
        assert_eq!(encoded["code"], kept["code"], "{n}");
    }
    // a run that cannot be opened changes nothing
    fs_err::write(run.join("model.json"), "{").unwrap();
    let message = refused(409, client.request("POST", "/v1/models/small/reload", "", &[]));
    assert!(message.contains("the current model stays in use"), "{message}");
    insert(&mut client, "after", "still here");
    assert_eq!(item(&mut client, "after")["text"], "still here");
}

/// Copies the files of a run over those of another one, the checksums last.
fn put_in_place(from: &Path, to: &Path) {
    for name in ["model.safetensors", "model.json", "config.toml", "history.csv"] {
        fs_err::copy(from.join(name), to.join(name)).unwrap();
    }
    fs_err::create_dir_all(to.join("codes")).unwrap();
    for entry in fs_err::read_dir(from.join("codes")).unwrap() {
        let path = entry.unwrap().path();
        fs_err::copy(&path, to.join("codes").join(path.file_name().unwrap())).unwrap();
    }
    for name in ["report.json", "run.json", "convergence.svg", "checksums.json"] {
        fs_err::copy(from.join(name), to.join(name)).unwrap();
    }
}

/// A model is replaced by another one and comes back; after every restart all that was
/// acknowledged is there, and what was deleted is not.
#[test]
fn models_that_are_restored_keep_every_inserted_item() {
    let (dir, run) = run();
    let (first, other) = (dir.path().join("first"), dir.path().join("other"));
    train(&other, 7);
    fs_err::create_dir_all(&first).unwrap();
    put_in_place(&run, &first);
    let mut server = Server::start(&run, &[]);
    let mut client = server.client();
    for n in 0..10 {
        insert(&mut client, &format!("mine{n}"), &format!("thing number {n}"));
    }
    insert(&mut client, "1f436", "not a dog any more");
    let delete = |client: &mut Client, id: &str| {
        let body = json!({"modality": "words", "ids": [id]}).to_string();
        assert_eq!(json(200, client.json("DELETE", "/v1/items", &body))["deleted"], 1);
    };
    delete(&mut client, "1f408");
    delete(&mut client, "mine9");
    let check = |client: &mut Client, when: &str| {
        for n in 0..9 {
            let kept = item(client, &format!("mine{n}"));
            assert_eq!(kept["text"], format!("thing number {n}"), "{when}");
        }
        assert_eq!(item(client, "1f436")["text"], "not a dog any more", "{when}");
        // its stored outputs are those of the model that encodes the query
        let own = json!({"query": {"text": "thing number 3"}, "target": "words", "filter": "id = mine3", "rank": "outputs"});
        let own = json(200, client.json("POST", "/v1/search", &own.to_string()));
        assert!(own["hits"][0]["score"].as_f64().unwrap() > 0.9999, "{when}: {own}");
        refused(404, client.get("/v1/items/1f408?modality=words"));
        refused(404, client.get("/v1/items/mine9?modality=words"));
    };
    let codes: Vec<Value> = [&other, &first]
        .into_iter()
        .map(|source| {
            put_in_place(source, &run);
            json(200, client.request("POST", "/v1/models/small/reload", "", &[]));
            check(&mut client, "exchanged");
            item(&mut client, "mine3")["code"].clone()
        })
        .collect();
    assert_ne!(codes[0], codes[1], "encoded by each model");
    for restart in 0..4 {
        server.signal("-TERM");
        assert!(server.child.wait().unwrap().success());
        server = Server::start(&run, &[]);
        client = server.client();
        check(&mut client, &format!("restart {restart}"));
        assert_eq!(item(&mut client, "mine3")["code"], codes[1]);
    }
    // exchanged while the server is down
    server.signal("-TERM");
    server.child.wait().unwrap();
    put_in_place(&other, &run);
    let server = Server::start(&run, &[]);
    check(&mut server.client(), "exchanged while down");
    // limits of the display fields of an item
    let long = json!({"modality": "words", "items": [{"id": "long", "text": "x".repeat(100_001)}]});
    let message =
        refused(400, server.client().json("POST", "/v1/items", &long.to_string()));
    assert_eq!(
        message,
        "items[0].text: the text has 100001 characters; the limit is 100000"
    );
}

fn wait(mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(60), "waited too long");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// An index without a model, with outputs; ids are numbers.
fn index(folder: &Path) {
    let words = (0..2000_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let codes = Codes::from_words(Bits::new(64).unwrap(), words).unwrap();
    let new =
        NewIndex { bits: codes.bits(), label_names: &[], outputs: true, after_commit: 0 };
    Writer::create_with(folder, new).unwrap().insert(CodeFile::new(codes)).unwrap();
}

#[test]
fn several_models_and_an_index_at_once() {
    let (dir, _run) = run();
    index(&dir.path().join("codes only"));
    let server = Server::start(dir.path(), &["--default", "codes only"]);
    let mut client = server.client();
    let models = json(200, client.get("/v1/models"));
    assert_eq!(models["default"], "codes only");
    assert_eq!(models["models"].as_array().unwrap().len(), 2);
    let found = json(
        200,
        client.json(
            "POST",
            "/v1/search",
            &json!({"query": {"code": "0000000000000000"}, "k": 3}).to_string(),
        ),
    );
    assert_eq!(
        (&found["hits"][0]["id"], &found["hits"][0]["distance"]),
        (&json!("0"), &json!(0))
    );
    assert_eq!(found["searched"], 2000);
    let asked = refused(
        400,
        client.json("POST", "/v1/search", &json!({"query": {"text": "cat"}}).to_string()),
    );
    assert_eq!(
        asked,
        "query: codes only is an index without a model; query it by code or by item"
    );
    let named = refused(400, client.json("POST", "/v1/items", &json!({"modality": "items", "items": [{"id": "x", "code": "00000000000000ff"}]}).to_string()));
    assert_eq!(
        named,
        "items[0].id: ids of this index are whole numbers without leading zeros"
    );
    let words = json(
        200,
        client.json(
            "POST",
            "/v1/search",
            &json!({"model": "small", "query": {"text": "cat"}, "target": "words", "k": 3})
                .to_string(),
        ),
    );
    assert_eq!(words["model"], "small");
    refused(
        404,
        client.json(
            "POST",
            "/v1/search",
            &json!({"model": "large", "query": {"text": "cat"}}).to_string(),
        ),
    );
}
