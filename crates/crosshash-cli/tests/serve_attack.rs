//! `crosshash serve` under attack: foreign origins, clients that do not read, too many connections,
//! bad pictures, work that nobody waits for.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[path = "../../crosshash-bench/src/attack/files.rs"]
mod files;
mod serving;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crosshash::data::Raster;
use serde_json::{Value, json};
use serving::{Client, Server, json, refused, run};

const SEARCH: &str = r#"{"query":{"text":"cat"},"target":"words","k":3}"#;

fn png(size: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let noise = (0..size * size * 3).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        u8::try_from(state >> 24).unwrap()
    });
    Raster::new(size, 3, noise.collect()).to_png().unwrap()
}

fn form(picture: &[u8]) -> (String, Vec<u8>) {
    let mut body = b"--b\r\ncontent-disposition: form-data; name=\"request\"\r\n\r\n{\"target\":\"words\",\"query\":{\"modality\":\"picture\"}}\r\n--b\r\ncontent-disposition: form-data; name=\"picture\"; filename=\"x.png\"\r\n\r\n".to_vec();
    body.extend(picture);
    body.extend(b"\r\n--b--\r\n");
    ("content-type: multipart/form-data; boundary=b\r\n".into(), body)
}

#[test]
fn pages_of_other_sites_are_refused() {
    let (_dir, run) = run();
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    let (kind, body) = form(&png(8));
    let requests: [(&str, &str, &str, &[u8]); 4] = [
        ("POST", "/v1/models/small/reload", "", b""),
        ("POST", "/v1/search", &kind, &body),
        ("GET", "/v1/models/small/map", "", b""),
        ("POST", "/v1/search", "content-type: application/json\r\n", SEARCH.as_bytes()),
    ];
    for (method, path, headers, body) in requests {
        for foreign in [
            "origin: https://evil.example\r\n",
            "origin: null\r\n",
            "sec-fetch-site: cross-site\r\n",
            "sec-fetch-site: same-site\r\n",
        ] {
            let sent = client.request(method, path, &format!("{headers}{foreign}"), body);
            let message = refused(403, sent);
            assert!(message.contains("pages of other sites"), "{path}: {message}");
        }
    }
    // the page itself, and a link to it
    let own =
        format!("content-type: application/json\r\norigin: http://{}\r\n", server.addr);
    json(200, client.request("POST", "/v1/search", &own, SEARCH.as_bytes()));
    let link = client.request("GET", "/", "sec-fetch-site: cross-site\r\n", b"").unwrap();
    assert_eq!(link.status, 200);
    for host in ["localhost:evil.example", "localhost:80:80", "user@localhost", ""] {
        let request = format!("GET /v1/models HTTP/1.1\r\nhost: {host}\r\n\r\n");
        let reply = Client::new(server.addr).raw(request.as_bytes()).unwrap();
        assert!([400, 403].contains(&reply.status), "{host}: {}", reply.status);
    }
    let request =
        "GET /v1/models HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n";
    assert_eq!(Client::new(server.addr).raw(request.as_bytes()).unwrap().status, 403);
}

/// Forms and pictures of several megabytes, and places of errors.
#[test]
fn valid_requests_are_accepted_as_they_are() {
    let (_dir, run) = run();
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    let large = png(1000);
    assert!(large.len() > 5 << 19, "{}", large.len());
    let (kind, body) = form(&large);
    json(200, client.request("POST", "/v1/search", &kind, &body));
    let nothing = json!({"modality": "picture", "items": [{"id": "x"}]}).to_string();
    let message = refused(400, client.json("POST", "/v1/items", &nothing));
    assert!(message.starts_with("items[0]: nothing to encode"), "{message}");
}

/// Bad pictures as queries, as items, and as items with a code.
#[test]
fn bad_pictures_are_refused() {
    let (_dir, run) = run();
    let mut server = Server::start(&run, &[]);
    let mut client = server.client();
    for file in files::bad_files() {
        let picture = STANDARD.encode(&file.bytes);
        let query = json!({"query": {"picture": picture}, "target": "words"});
        let coded = json!({"modality": "picture",
            "items": [{"id": "bad", "picture": picture, "code": "00000000"}]});
        for (path, body) in [("/v1/search", query), ("/v1/items", coded)] {
            let reply = client.json("POST", path, &body.to_string()).unwrap();
            let fine = [400, 503].contains(&reply.status);
            assert!(fine, "{} at {path}: {} {}", file.name, reply.status, reply.text());
        }
        assert!(server.child.try_wait().unwrap().is_none(), "after {}", file.name);
    }
    let profile = json!({"query": {"picture": STANDARD.encode(files::large_profile()),
        "modality": "picture"}, "target": "words"});
    let reply = client.json("POST", "/v1/search", &profile.to_string()).unwrap();
    assert!(reply.status < 500, "{}", reply.text());
    json(200, client.json("POST", "/v1/search", SEARCH));
    refused(404, client.get("/v1/items/bad/picture?modality=picture&size=64"));
}

/// A drawing with filters just within the budget: seconds of work.
fn slow_svg() -> String {
    let filter = "<feGaussianBlur stdDeviation=\"9\"/>".repeat(12);
    let svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1024\" height=\"1024\"><filter \
         id=\"f\">{filter}</filter><rect width=\"900\" height=\"900\" filter=\"url(#f)\"/></svg>"
    );
    STANDARD.encode(svg)
}

/// Clients that leave free their workers.
#[test]
fn work_is_cancelled_when_the_client_has_gone() {
    let (_dir, run) = run();
    let server = Server::start(&run, &["--max-seconds", "60"]);
    let body = json!({"query": {"picture": slow_svg()}, "target": "words"}).to_string();
    let started = Instant::now();
    let alone = server.client().json("POST", "/v1/search", &body).unwrap();
    let alone = (alone.status, started.elapsed());
    let request = format!(
        "POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    for _ in 0..12 {
        let mut stream = TcpStream::connect(server.addr).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    let started = Instant::now();
    let picture = STANDARD.encode(png(8));
    let honest =
        json!({"query": {"picture": picture, "modality": "picture"}, "target": "words"});
    json(200, server.client().json("POST", "/v1/search", &honest.to_string()));
    let took = started.elapsed();
    // without cancellation it would wait for six of them on each core
    assert!(took < alone.1 * 2 + Duration::from_secs(3), "{took:?}; one alone: {alone:?}");
}

/// Connections that do not read are cut off; beyond the maximum, health and metrics still answer.
#[test]
fn health_answers_beyond_the_maximum_of_connections() {
    let (_dir, run) = run();
    let server = Server::start(&run, &["--max-connections", "8", "--max-seconds", "2"]);
    let body = r#"{"query":{"text":"cat"},"target":"words","k":1000}"#;
    let request = format!(
        "POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let all = request.repeat(60);
    let mut silent: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(server.addr).unwrap();
            stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
            let _ = stream.write_all(all.as_bytes());
            stream
        })
        .collect();
    // idle ones beyond the maximum
    let idle: Vec<TcpStream> =
        (0..60).map(|_| TcpStream::connect(server.addr).unwrap()).collect();
    for _ in 0..5 {
        let started = Instant::now();
        json(200, server.client().get("/healthz"));
        assert_eq!(server.client().get("/metrics").unwrap().status, 200);
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    }
    let message = refused(503, server.client().json("POST", "/v1/search", SEARCH));
    assert!(message.contains("too many connections"), "{message}");
    drop(idle);
    // clients that do not read lose their connections, and others get theirs
    let begin = Instant::now();
    loop {
        let reply = server.client().json("POST", "/v1/search", SEARCH);
        if reply.is_ok_and(|reply| reply.status == 200) {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "connections are never closed");
        std::thread::sleep(Duration::from_millis(200));
    }
    for stream in &mut silent {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest); // ends: the server has closed it
    }
}

/// Long texts of unknown words, long filters, and large drawings take little time.
#[test]
fn large_requests_take_little_time() {
    let (_dir, run) = run();
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    let words: String = (0..9000).map(|k| format!("qx{k}z ")).collect();
    let text = json!({"query": {"text": words}, "target": "words"});
    // 50 kB are too many tests, 1 to 4 MB too long; parentheses too deep
    let filters = [
        vec!["label = 1"; 4000].join(" or "),
        vec!["id = a"; 150_000].join(" or "),
        vec!["not exists(x)"; 230_000].join(" and "),
        "(".repeat(60_000),
        format!("{}label = 1{}", "not (".repeat(9000), ")".repeat(9000)),
    ];
    let filters = filters.map(|filter| {
        let body = json!({"query": {"text": "cat"}, "target": "words", "filter": filter});
        ("filter", body, [400, 400])
    });
    let point = |k: usize| [(k * 7919 % 1000), (k * 104_729 % 997)];
    let strokes: Vec<Value> = vec![(0..20_000).map(|k| json!(point(k))).collect()];
    let drawing = json!({"query": {"drawing": {"strokes": strokes, "width": 1000, "height": 1000},
        "modality": "drawing"}, "target": "words"});
    let more: Vec<Value> = vec![(0..20_001).map(|k| json!(point(k))).collect()];
    let mut too_large = drawing.clone();
    too_large["query"]["drawing"]["strokes"] = more.into();
    let requests = [
        ("text", text, [200, 400]),
        ("drawing", drawing, [200, 200]),
        ("too many points", too_large, [400, 400]),
    ];
    for (name, body, statuses) in requests.into_iter().chain(filters) {
        let started = Instant::now();
        let reply = client.json("POST", "/v1/search", &body.to_string()).unwrap();
        let took = started.elapsed();
        assert!(
            statuses.contains(&reply.status),
            "{name}: {} {}",
            reply.status,
            reply.text()
        );
        assert!(took < Duration::from_secs(20), "{name}: {took:?}");
    }
}

/// The peak of the memory of a server in MiB, where the system reports it.
fn assert_peak_below(server: &Server, mib: u64) {
    if let Some(peak) = peak_mib(server) {
        assert!(peak < mib, "{peak} MiB");
    }
}

/// The peak of the resident memory of the server, on Linux.
fn peak_mib(server: &Server) -> Option<u64> {
    let status = format!("/proc/{}/status", server.child.id());
    let status = fs_err::read_to_string(status).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib >> 10)
}

/// Bodies of many small values, which take many times their size when they are parsed, from several clients
/// at the same time.
#[test]
fn small_values_take_bounded_memory() {
    let (_dir, run) = run();
    let mut server = Server::start(&run, &[]);
    let zeros = "0,".repeat(4 << 20);
    let bodies = [
        (
            "/v1/items",
            format!(
                r#"{{"modality":"words","items":[{{"id":1,"meta":{{"a":[{zeros}0]}}}}]}}"#
            ),
        ),
        (
            "/v1/items",
            format!(
                r#"{{"modality":"words","items":[{}{{"id":1}}]}}"#,
                r#"{"id":1},"#.repeat(1 << 20)
            ),
        ),
        ("/v1/search", format!(r#"{{"queries":[{}{{}}]}}"#, "{},".repeat(4 << 20))),
        (
            "/v1/search",
            format!(
                r#"{{"query":{{"drawing":{{"strokes":[{}[]],"width":9,"height":9}}}}}}"#,
                "[],".repeat(4 << 20)
            ),
        ),
    ];
    std::thread::scope(|scope| {
        for nth in 0..12 {
            let (path, body) = &bodies[nth % bodies.len()];
            let mut client = server.client();
            scope.spawn(move || {
                let reply = client.json("POST", path, body).unwrap();
                let fine = [400, 413, 503].contains(&reply.status);
                assert!(fine, "{path}: {} {}", reply.status, reply.text());
            });
        }
    });
    assert_peak_below(&server, 1 << 10);
    assert!(server.child.try_wait().unwrap().is_none());
    json(200, server.client().json("POST", "/v1/search", SEARCH));
}

/// Fields beyond their limit are refused by the length of their text: their values would take a hundred times
/// as much memory.
#[test]
fn large_fields_are_not_parsed() {
    let (_dir, run) = run();
    let server = Server::start(&run, &[]);
    json(200, server.client().json("POST", "/v1/search", SEARCH));
    let before = peak_mib(&server).unwrap_or(0);
    for field in ["[0]", "null", "{\"a\":}"] {
        let body = format!(
            r#"{{"modality":"words","items":[{{"id":1,"text":"x","meta":{field}}}]}}"#
        );
        let reply = json(400, server.client().json("POST", "/v1/items", &body));
        assert!(reply["error"]["message"].as_str().unwrap().contains("invalid request"));
    }
    let zeros = "0,".repeat(1 << 20);
    let body = format!(
        r#"{{"modality":"words","items":[{{"id":1,"text":"x","meta":{{"a":[{zeros}0]}}}}]}}"#
    );
    for _ in 0..3 {
        let reply = json(400, server.client().json("POST", "/v1/items", &body));
        assert_eq!(reply["error"]["where"], "items[0].meta");
        let message = reply["error"]["message"].as_str().unwrap();
        assert!(message.ends_with("the limit is 65536"), "{message}");
    }
    if let Some(peak) = peak_mib(&server) {
        assert!(peak < before + 64, "{before} MiB, then {peak} MiB");
    }
}

/// Whoever asks for reloads again and again keeps no thread: searches and health are answered.
#[test]
fn reloads_wait_for_each_other_without_threads() {
    let (_dir, run) = run();
    let server = Server::start(&run, &["--max-connections", "2000"]);
    let request = "POST /v1/models/small/reload HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";
    // more than the threads for blocking work
    let waiting: Vec<TcpStream> = (0..700)
        .map(|_| {
            let mut stream = TcpStream::connect(server.addr).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    let started = Instant::now();
    json(200, server.client().json("POST", "/v1/search", SEARCH));
    json(200, server.client().get("/healthz"));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    drop(waiting);
}

/// Large pictures are not kept in the cache: each of their responses is a copy until it is read.
#[test]
fn pictures_that_are_not_read_take_bounded_memory() {
    let (_dir, run) = run();
    let server = Server::start(&run, &[]);
    let picture = png(1500);
    assert!(picture.len() > 5 << 20, "{}", picture.len());
    let item =
        json!({"id": "large", "picture": STANDARD.encode(&picture), "code": "00000000"});
    let body = json!({"modality": "picture", "items": [item]}).to_string();
    json(201, server.client().json("POST", "/v1/items", &body));
    let request =
        "GET /v1/items/large/picture?modality=picture HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let unread: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(server.addr).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    // the first bytes of every response
    for mut stream in &unread {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.read_exact(&mut [0; 12]).unwrap();
    }
    assert_peak_below(&server, 512);
}
