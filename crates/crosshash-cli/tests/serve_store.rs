//! `serve --store` against real engines: the answers are those of the same run served with its own index; a
//! store that is killed, slow or of another model.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod driver;
mod engines;
mod serving;

use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use driver::{done, path, refused as refuses};
use engines::{Engine, PASSWORD};
use serving::{Client, Reply, Server, copy, json, refused};

/// A run whose codes are so short that many items have the same; trained as little as can be.
fn train(folder: &Path, seed: u64) -> PathBuf {
    let run = folder.join("run");
    let out = path(folder, "run");
    let seed = format!("seed={seed}");
    let settings =
        ["epochs=1", "hidden=16", "hidden_sparse=16", "bits=12", "validation=0.0", &seed];
    let mut args = vec!["train", "emoji", "--out", &out];
    settings.iter().for_each(|one| args.extend(["--set", one]));
    done(&args);
    run
}

fn post(client: &mut Client, body: &Value) -> std::io::Result<Reply> {
    client.json("POST", "/v1/search", &body.to_string())
}

fn search(client: &mut Client, body: &Value) -> Value {
    json(200, post(client, body))
}

/// The parts of a result that do not depend on time.
fn parts(found: &Value) -> Value {
    let names = ["model", "target", "query", "by", "rank", "hits", "searched", "notice"];
    names.iter().map(|name| (*name, found[*name].clone())).collect()
}

/// The same run served with its own index, and over stores.
struct Both {
    own: Server,
    stored: Server,
    run: PathBuf,
    address: String,
    folder: tempfile::TempDir,
}

impl Both {
    fn new(address: &str) -> Both {
        let folder = tempfile::tempdir().unwrap();
        let run = train(folder.path(), 1);
        let place = run.to_str().unwrap();
        let tables = ["picture", "words"].map(|name| format!("{address}?table={name}"));
        for (modality, url) in ["picture", "words"].iter().zip(&tables) {
            done(&["store", "push", place, "--modality", modality, url, "--outputs"]);
        }
        let other = folder.path().join("own/run");
        copy(&run, &other);
        let own = Server::start(&other, &[]);
        let stores = ["picture", "words"].iter().zip(&tables);
        let stores: Vec<String> =
            stores.map(|(name, url)| format!("{name}={url}")).collect();
        let args =
            ["--store", &stores[0], "--store", &stores[1], "--store-connections", "3"];
        let stored = Server::start(&run, &args);
        Both { own, stored, run, address: address.to_owned(), folder }
    }

    /// Both answer the same: results, or the same error.
    #[track_caller]
    fn agree(&self, own: &mut Client, stored: &mut Client, body: &Value) -> Value {
        let [wanted, found] = [own, stored].map(|client| post(client, body).unwrap());
        assert_eq!(
            wanted.status,
            found.status,
            "{body}: {} {}",
            wanted.text(),
            found.text()
        );
        let [wanted, found] = [wanted, found]
            .map(|reply| serde_json::from_slice::<Value>(&reply.body).unwrap());
        if let Some(results) = wanted["results"].as_array() {
            let found = found["results"].as_array().unwrap();
            assert_eq!(results.len(), found.len());
            for (wanted, found) in results.iter().zip(found) {
                assert_eq!(parts(wanted), parts(found), "{body}");
            }
        } else {
            assert_eq!(parts(&wanted), parts(&found), "{body}");
            assert_eq!(wanted["error"], found["error"], "{body}");
        }
        found
    }
}

/// All forms of queries, ranks, pages, radii and filters.
fn answers_are_those_of_the_index(both: &Both) {
    let (mut own, mut stored) = (both.own.client(), both.stored.client());
    let first = json!({"query": {"text": "red heart"}, "target": "picture", "by": "meaning", "k": 1000});
    let first = search(&mut own, &first);
    let hits = first["hits"].as_array().unwrap();
    let id = &hits[7]["id"];
    let (code, outputs) = (&first["query"]["code"], &first["query"]["outputs"]);
    let mut codes: Vec<&str> =
        hits.iter().map(|hit| hit["code"].as_str().unwrap()).collect();
    codes.sort_unstable();
    codes.dedup();
    assert!(hits.len() == 1000 && codes.len() < 500, "{} different codes", codes.len());
    let queries = [
        json!({"text": "red heart"}),
        json!({"item": {"id": id, "modality": "picture"}}),
        json!({"code": code}),
        json!({"code": code, "outputs": outputs}),
        json!({"drawing": {"strokes": [[[10, 10], [90, 90]], [[90, 10], [10, 90]]], "width": 100, "height": 100}}),
    ];
    for query in &queries {
        for rank in [None, Some("hamming"), Some("asymmetric"), Some("outputs")] {
            let base =
                json!({"query": query, "target": "picture", "rank": rank, "by": "meaning"});
            let pages = [
                (10, 0),
                (100, 0),
                (1000, 0),
                (7, 5),
                (60, 290),
                (40, 1500),
                (0, 0),
                (5, 9000),
            ];
            for (k, skip) in pages {
                for radius in [None, Some(0), Some(3)] {
                    let mut body = base.clone();
                    body["k"] = json!(k);
                    body["skip"] = json!(skip);
                    body["radius"] = json!(radius);
                    both.agree(&mut own, &mut stored, &body);
                }
            }
        }
    }
    // several queries, of both modalities
    for target in ["picture", "words"] {
        let all: Vec<&Value> = queries.iter().cycle().take(30).collect();
        let body = json!({"queries": all, "target": target, "by": "meaning", "k": 20});
        let found = both.agree(&mut own, &mut stored, &body);
        assert_eq!(found["results"].as_array().unwrap().len(), 30);
    }
    // requests that are refused, for the same reason
    for (name, value) in [
        ("k", json!(1001)),
        ("skip", json!(2_000_000)),
        ("radius", json!(13)),
        ("rank", json!("best")),
    ] {
        let mut body = json!({"query": {"code": code}, "target": "picture"});
        body[name] = value;
        assert!(both.agree(&mut own, &mut stored, &body)["error"].is_object(), "{body}");
    }
    let body = json!({"query": {"item": {"id": "nobody", "modality": "picture"}}, "target": "picture"});
    let error = both.agree(&mut own, &mut stored, &body)["error"].clone();
    assert_eq!(error["message"], "picture has no item \"nobody\"");
}

/// Filters over labels, ids and fields.
fn filters_are_those_of_the_index(both: &Both) {
    let (mut own, mut stored) = (both.own.client(), both.stored.client());
    let models = json(200, stored.get("/v1/models"));
    let label = models["models"][0]["labels"][3]["name"].as_str().unwrap().to_owned();
    let texts = [
        "subgroup = animal-mammal",
        "subgroup != animal-mammal and not group = \"Symbols\"",
        "group in (\"Symbols\", \"Flags\")",
        "group >= \"S\" and group < T",
        "subgroup contains animal",
        "subgroup not contains a",
        "exists(group) and not exists(subgroup)",
        "not (exists(group) or id = \"1f408\")",
        "id in (\"1f408\", \"1f436\", \"o'id\", nothing)",
        "id != \"1f408\" and subgroup contains face",
        &format!("label = \"{label}\""),
        &format!("label != \"{label}\" and group = \"Flags\""),
        &format!("not label in (\"{label}\", 1) or subgroup = flag"),
        "label = 5",
        "price < 3",
        "group =",
        "  ",
    ];
    let mut found_some = 0;
    for text in texts {
        for (k, skip, rank) in
            [(1000, 0, "hamming"), (10, 3, "outputs"), (30, 295, "asymmetric")]
        {
            let body = json!({"query": {"text": "cat"}, "target": "picture", "by": "meaning",
                              "filter": text, "k": k, "skip": skip, "rank": rank});
            let found = both.agree(&mut own, &mut stored, &body);
            found_some +=
                usize::from(found["hits"].as_array().is_some_and(|all| !all.is_empty()));
        }
        let body = json!({"query": {"text": "cat"}, "target": "picture", "by": "meaning",
                          "filter": text, "k": 100, "radius": 4});
        both.agree(&mut own, &mut stored, &body);
    }
    assert!(found_some > texts.len(), "{found_some}");
}

/// What a store cannot do, and the other paths.
fn other_paths_say_what_to_do(both: &Both) {
    let (mut own, mut stored) = (both.own.client(), both.stored.client());
    for path in ["/v1/items/1f408?modality=picture", "/v1/items/none?modality=picture"] {
        let [wanted, found] =
            [&mut own, &mut stored].map(|client| client.get(path).unwrap());
        assert_eq!(wanted.status, found.status, "{path}");
        let [wanted, found] = [wanted, found]
            .map(|reply| serde_json::from_slice::<Value>(&reply.body).unwrap());
        assert_eq!(wanted, found, "{path}");
    }
    let picture = "/v1/items/1f408/picture?modality=picture&size=48";
    let [wanted, found] =
        [&mut own, &mut stored].map(|client| client.get(picture).unwrap());
    assert_eq!((found.status, &found.body), (200, &wanted.body));
    let models = json(200, stored.get("/v1/models"));
    let items = &json(200, own.get("/v1/models"))["models"][0]["modalities"];
    for (modality, own) in models["models"][0]["modalities"]
        .as_array()
        .unwrap()
        .iter()
        .zip(items.as_array().unwrap())
    {
        let is_stored = modality["name"] == "picture" || modality["name"] == "words";
        assert_eq!(modality["store"], is_stored);
        assert_eq!((&own["store"], &own["items"]), (&json!(false), &modality["items"]));
    }
    assert_eq!(models["models"][0]["labels"][0]["items"], Value::Null);

    let query = json!({"text": "cat"});
    for (body, says) in [
        (
            json!({"query": query, "target": "picture", "by": "words"}),
            "by: the items of picture are in a store, which is not searched by words",
        ),
        (
            json!({"query": query, "target": "picture", "counts": true}),
            "counts: labels and fields",
        ),
    ] {
        let message = refused(501, post(&mut stored, &body));
        assert!(message.starts_with(says), "{message}");
    }
    let insert =
        json!({"modality": "picture", "items": [{"id": "x", "code": "0000"}]}).to_string();
    let message = refused(501, stored.json("POST", "/v1/items", &insert));
    assert!(message.contains("store push --upsert"), "{message}");
    let delete = json!({"modality": "picture", "ids": ["1f408"]}).to_string();
    let message = refused(501, stored.json("DELETE", "/v1/items", &delete));
    assert!(message.contains("store delete"), "{message}");
    refused(501, stored.request("DELETE", "/v1/items/1f408?modality=picture", "", &[]));
    // a reload compares the codes again
    json(200, stored.request("POST", "/v1/models/run/reload", "", &[]));
    // the default of a text is by meaning, as the store has no words
    let found = search(&mut stored, &json!({"query": query, "target": "picture"}));
    assert_eq!((&found["by"], &found["matching"]), (&json!("meaning"), &Value::Null));
    let health = json(200, stored.get("/healthz"));
    assert_eq!(health["stores"].as_array().unwrap().len(), 2);
    assert!(json(200, own.get("/healthz")).get("stores").is_none());
}

fn metric(client: &mut Client, line: &str) -> f64 {
    let text = client.get("/metrics").unwrap().text();
    let value =
        text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("{line} is not in {text}"))
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(90);
    while !is() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The engine is killed under searches, and started again: answers are right or 503.
fn a_killed_store_comes_back(both: &Both, engine: &mut Engine) {
    let available = "crosshash_store_available{modality=\"picture\"}";
    let body = json!({"query": {"text": "red heart"}, "target": "picture", "by": "meaning", "k": 100});
    let wanted = search(&mut both.own.client(), &body);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let work = || {
            let mut client = both.stored.client();
            let (mut right, mut away) = (0, 0);
            while !stop.load(Ordering::SeqCst) {
                let reply = post(&mut client, &body).unwrap();
                let value: Value = serde_json::from_slice(&reply.body).unwrap();
                if reply.status == 200 {
                    assert_eq!(value["hits"], wanted["hits"]);
                    right += 1;
                    continue;
                }
                assert_eq!(reply.status, 503, "{value}");
                assert_eq!(value["error"]["code"], "store_unavailable", "{value}");
                let message = value["error"]["message"].as_str().unwrap();
                assert!(message.contains("picture does not answer; retry in"), "{message}");
                let retry: u64 = reply.header("retry-after").unwrap().parse().unwrap();
                assert!((1..=5).contains(&retry), "{retry}");
                away += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            (right, away)
        };
        let workers: Vec<_> = (0..3).map(|_| scope.spawn(work)).collect();
        let mut client = both.stored.client();
        std::thread::sleep(Duration::from_millis(300));
        engine.kill();
        until("the health shows it", || client.get("/healthz").unwrap().status == 503);
        let health = json(503, client.get("/healthz"));
        assert_eq!(health["status"], "unavailable");
        until("both stores are away", || {
            let health = json(503, client.get("/healthz"));
            health["stores"].as_array().unwrap().iter().all(|one| one["available"] == false)
        });
        assert!(metric(&mut client, available) < 0.5);
        // refused at once, not after a time limit
        let started = Instant::now();
        refused(503, post(&mut client, &body));
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
        // what needs no store still works
        json(200, client.json("POST", "/v1/encode", r#"{"query": {"text": "cat"}}"#));
        engine.restart();
        until("it answers again", || client.get("/healthz").unwrap().status == 200);
        search(&mut client, &body);
        std::thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::SeqCst);
        for worker in workers {
            let (right, away) = worker.join().unwrap();
            assert!(
                right > 0 && away > 0,
                "{right} right answers, {away} times unavailable"
            );
        }
        assert!(metric(&mut client, available) > 0.5);
        let opened = "crosshash_store_breaker_opened_total{modality=\"picture\"}";
        assert!(metric(&mut client, opened) > 0.5);
        assert!(
            metric(&mut client, "crosshash_store_retries_total{modality=\"picture\"}")
                > 0.5
        );
    });
    // every connection was broken once; no search notices
    let mut client = both.stored.client();
    for _ in 0..10 {
        assert_eq!(search(&mut client, &body)["hits"], wanted["hits"]);
    }
    let said = both.stored.said.lock().unwrap().clone();
    assert!(
        said.contains("the store is unavailable")
            && said.contains("the store answers again"),
        "{said}"
    );
}

/// Wrong arguments, and a table with codes of another model.
fn wrong_stores_are_refused(both: &Both) {
    let (place, address) = (both.run.to_str().unwrap(), &both.address);
    let url = format!("{address}?table=picture");
    let serve = |more: &[&str]| {
        refuses(&[&["serve", place, "--addr", "127.0.0.1:0"][..], more].concat())
    };
    let says = |err: &str, why: &str| {
        assert!(err.contains(why) && !err.contains("secret"), "{why}: {err}");
    };
    says(
        &serve(&["--store", &url]),
        "--store: name the modality whose items the table has: --store NAME=URL",
    );
    says(
        &serve(&["--store", &format!("sound={url}")]),
        "the run has no modality \"sound\"",
    );
    let twice = format!("picture={url}");
    says(&serve(&["--store", &twice, "--store", &twice]), "picture is given twice");
    says(&serve(&["--store", "picture=mysql://u:secret@127.0.0.1/x"]), "not with mysql");
    says(
        &serve(&["--store", &format!("picture={address}?table=nothing")]),
        "there is no such table",
    );
    says(&serve(&["--store", "picture=postgresql://u:secret@127.0.0.1:1/x"]), "onnect");
    let other = both.folder.path().join("other");
    let other = train(&other, 2);
    let err = refuses(&[
        "serve",
        other.to_str().unwrap(),
        "--addr",
        "127.0.0.1:0",
        "--store",
        &twice,
    ]);
    says(&err, "so the table is of another model");
    let index = both.folder.path().join("own/run/serve/picture");
    let index = fs_err::read_dir(index).unwrap().next().unwrap().unwrap().path();
    let err = refuses(&[
        "serve",
        index.to_str().unwrap(),
        "--addr",
        "127.0.0.1:0",
        "--store",
        &twice,
    ]);
    says(&err, "--store requires a run");
}

/// Neither the log nor the service repeats the password.
fn the_password_is_not_repeated(both: &Both) {
    let mut client = both.stored.client();
    let mut texts = vec![both.stored.said.lock().unwrap().clone()];
    for path in ["/healthz", "/metrics", "/v1/models", "/v1/models/run"] {
        texts.push(client.get(path).unwrap().text());
    }
    for text in texts {
        assert!(!text.contains("secret"), "{text}");
    }
}

#[test]
fn postgresql() {
    let Some(mut engine) = Engine::postgres() else { return };
    let address =
        format!("postgresql://postgres:{PASSWORD}@127.0.0.1:{}/postgres", engine.port);
    let both = Both::new(&address);
    answers_are_those_of_the_index(&both);
    filters_are_those_of_the_index(&both);
    other_paths_say_what_to_do(&both);
    wrong_stores_are_refused(&both);
    searches_end_with_their_time_and_their_client(&both, engine.port);
    a_killed_store_comes_back(&both, &mut engine);
    the_password_is_not_repeated(&both);
}

#[test]
fn clickhouse() {
    let Some(mut engine) = Engine::clickhouse() else { return };
    let address = format!("clickhouse://127.0.0.1:{}/default", engine.port);
    let both = Both::new(&address);
    answers_are_those_of_the_index(&both);
    filters_are_those_of_the_index(&both);
    other_paths_say_what_to_do(&both);
    wrong_stores_are_refused(&both);
    a_killed_store_comes_back(&both, &mut engine);
}

/// A statement that waits for a lock ends with the time limit of the search, or when its client leaves.
fn searches_end_with_their_time_and_their_client(both: &Both, port: u16) {
    let text = format!("host=127.0.0.1 port={port} user=postgres password='secret word'");
    let mut holder = postgres::Client::connect(&text, postgres::NoTls).unwrap();
    let mut watch = postgres::Client::connect(&text, postgres::NoTls).unwrap();
    let mut waiting = || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'crosshash' AND \
                   wait_event_type = 'Lock'";
        watch.query_one(sql, &[]).unwrap().get::<_, i64>(0)
    };
    let body = json!({"query": {"text": "cat"}, "target": "words", "by": "meaning"});
    let url = format!("words={}?table=words", both.address);
    let start = |seconds: &str| {
        let run = both.folder.path().join(seconds).join("run");
        copy(&both.run, &run);
        let limits = ["--store-connections", "2", "--store-seconds", seconds];
        Server::start(&run, &[&["--store", &*url][..], &limits].concat())
    };
    let (quick, patient) = (start("1"), start("60"));
    let mut lock = holder.transaction().unwrap();
    lock.batch_execute("LOCK TABLE words IN ACCESS EXCLUSIVE MODE").unwrap();
    let started = Instant::now();
    let message = refused(503, post(&mut quick.client(), &body));
    assert!(
        message.contains("did not answer within 1 s")
            || message.contains("does not answer"),
        "{message}"
    );
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    until("the statement ends", || waiting() == 0);
    // a client that leaves
    let mut stream = TcpStream::connect(patient.addr).unwrap();
    let body = body.to_string();
    write!(
        stream,
        "POST /v1/search HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        patient.addr,
        body.len()
    )
    .unwrap();
    until("the statement waits", || waiting() == 1);
    let left = Instant::now();
    drop(stream);
    until("the statement is cancelled", || waiting() == 0);
    assert!(left.elapsed() < Duration::from_secs(20), "{:?}", left.elapsed());
    lock.commit().unwrap();
    for server in [quick, patient] {
        let mut client = server.client();
        until("it answers again", || {
            client.json("POST", "/v1/search", &body).unwrap().status == 200
        });
    }
}
