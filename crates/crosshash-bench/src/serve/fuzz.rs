//! Malformed requests: each must be rejected with a reason and must not stop the server.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use serde_json::{Value, json};

use super::client::Client;
use super::png::png;
use super::server::Server;
use crosshash_cli::progress::Progress;

/// One request in this number is oversized.
const GIANT_EVERY: usize = 500;
/// Above the server's body limit.
const GIANT: usize = 17 << 20;

/// The results.
#[derive(Debug, Default, Serialize)]
pub(super) struct Fuzzed {
    pub(super) sent: usize,
    pub(super) by_kind: BTreeMap<&'static str, BTreeMap<String, usize>>,
    /// Rejections without a JSON reason: only those of the HTTP parser itself.
    pub(super) without_message: usize,
    /// Responses with status 500 and above, with their requests.
    pub(super) server_errors: Vec<String>,
    pub(super) alive: bool,
    /// Memory before, after the first fifth, and at the end.
    pub(super) start_mib: f64,
    pub(super) warm_mib: f64,
    pub(super) end_mib: f64,
}

/// Facts about the server.
struct Target {
    addr: SocketAddr,
    words: String,
    pictures: String,
    id: String,
}

/// One request: its kind and its bytes.
struct Shot {
    kind: &'static str,
    bytes: Vec<u8>,
    /// Truncated: the connection ends in the middle of the request.
    cut: bool,
}

pub(super) fn run(server: &mut Server, count: usize, seed: u64) -> Result<Fuzzed> {
    let target = target(server.addr)?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut client = Client::new(server.addr);
    let mib = |server: &Server| server.resident_mib().unwrap_or(f64::NAN);
    let mut fuzzed = Fuzzed { start_mib: mib(server), ..Fuzzed::default() };
    let progress = Progress::new("malformed requests", count);
    for n in 0..count {
        let shot = shot(&target, n, &mut rng);
        let reply = if shot.cut {
            cut_off(target.addr, &shot.bytes)
        } else {
            client.raw(&shot.bytes).ok().map(|reply| (reply.status, reply.text()))
        };
        fuzzed.sent += 1;
        let status =
            reply.as_ref().map_or("closed".into(), |(status, _)| status.to_string());
        *fuzzed.by_kind.entry(shot.kind).or_default().entry(status).or_default() += 1;
        match reply {
            Some((status, text)) if status >= 500 => {
                let sent =
                    String::from_utf8_lossy(&shot.bytes[..shot.bytes.len().min(600)])
                        .into_owned();
                fuzzed.server_errors.push(format!("{status} {text} after {sent:?}"));
            }
            Some((status, text)) if status >= 400 => {
                let said: Option<Value> = serde_json::from_str(&text).ok();
                let told = said.is_some_and(|v| {
                    !v["error"]["message"].as_str().unwrap_or("").is_empty()
                });
                fuzzed.without_message += usize::from(!told);
            }
            _ => {}
        }
        if n == count / 5 {
            fuzzed.warm_mib = mib(server);
        }
        progress.set(n + 1);
    }
    fuzzed.end_mib = mib(server);
    let health = Client::new(target.addr).get("/healthz");
    fuzzed.alive = server.is_alive() && health.is_ok_and(|reply| reply.status == 200);
    Ok(fuzzed)
}

/// The modalities that accept texts and pictures, and an existing item.
fn target(addr: SocketAddr) -> Result<Target> {
    let mut client = Client::new(addr);
    let models: Value = serde_json::from_slice(&client.get("/v1/models")?.body)?;
    let modalities = models["models"][0]["modalities"].as_array().context("modalities")?;
    let asks = |form: &str| {
        let found = modalities.iter().find(|m| m["asks"].to_string().contains(form));
        found
            .or(modalities.first())
            .map_or("", |m| m["name"].as_str().unwrap_or(""))
            .to_owned()
    };
    let (words, pictures) = (asks("\"text\""), asks("\"picture\""));
    let body = json!({ "query": { "text": "cat" }, "target": words, "k": 1 }).to_string();
    let found: Value =
        serde_json::from_slice(&client.json("POST", "/v1/search", &body)?.body)?;
    let id = found["hits"][0]["id"].as_str().unwrap_or("x").to_owned();
    Ok(Target { addr, words, pictures, id })
}

/// Sends a truncated request and reads the response, if any.
fn cut_off(addr: SocketAddr, bytes: &[u8]) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(addr).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.split(' ').nth(1)?.parse().ok()?;
    Some((status, text.split_once("\r\n\r\n").map_or("", |(_, body)| body).to_owned()))
}

fn shot(target: &Target, n: usize, rng: &mut ChaCha8Rng) -> Shot {
    if n % GIANT_EVERY == GIANT_EVERY - 1 {
        return giant(rng);
    }
    match rng.random_range(0..10) {
        0..=2 => mutated(target, rng),
        3 => nonsense(target, rng),
        4 => truncated(target, rng),
        5 => bomb(target, rng),
        6 => bad_utf8(target, rng),
        7 => traversal(target, rng),
        8 => bad_http(target, rng),
        _ => bad_values(target, rng),
    }
}

fn pick<'a, T: ?Sized>(rng: &mut ChaCha8Rng, all: &[&'a T]) -> &'a T {
    all[rng.random_range(0..all.len())]
}

fn post(kind: &'static str, path: &str, body: &[u8]) -> Shot {
    with_type(kind, "POST", path, "application/json", body)
}

fn with_type(
    kind: &'static str,
    method: &str,
    path: &str,
    media: &str,
    body: &[u8],
) -> Shot {
    let mut bytes = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {media}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    Shot { kind, bytes, cut: false }
}

/// Valid requests, to be mutated.
fn good(target: &Target, rng: &mut ChaCha8Rng) -> (&'static str, &'static str, String) {
    let (words, pictures, id) = (&target.words, &target.pictures, &target.id);
    let all = [
        (
            "POST",
            "/v1/search",
            json!({"query": {"text": "a red cat"}, "target": words, "k": 3, "skip": 1, "radius": 20, "filter": "not label in (1, 2) and id != 'x'"}),
        ),
        (
            "POST",
            "/v1/search",
            json!({"query": {"item": {"id": id, "modality": words}}, "target": pictures, "k": 3, "explain": true}),
        ),
        (
            "POST",
            "/v1/search",
            json!({"query": {"drawing": {"strokes": [[[1, 2], [30, 40], [50, 9]], [[7, 7]]], "width": 100, "height": 100}}, "target": words, "k": 2}),
        ),
        (
            "POST",
            "/v1/search",
            json!({"query": {"picture": STANDARD.encode(png(8, 8, 64)), "modality": pictures}, "target": words, "k": 2}),
        ),
        ("POST", "/v1/encode", json!({"query": {"text": "a red cat"}})),
        (
            "POST",
            "/v1/items",
            json!({"modality": words, "items": [{"id": "fuzz", "text": "a fuzzy cat", "labels": [], "meta": {"a": [1, null]}}]}),
        ),
        ("DELETE", "/v1/items", json!({"modality": words, "ids": ["fuzz", 7]})),
    ];
    let (method, path, body) = &all[rng.random_range(0..all.len())];
    (method, path, body.to_string())
}

fn mutated(target: &Target, rng: &mut ChaCha8Rng) -> Shot {
    let (method, path, body) = good(target, rng);
    let mut body = body.into_bytes();
    for _ in 0..rng.random_range(1..6) {
        if body.is_empty() {
            break;
        }
        let at = rng.random_range(0..body.len());
        match rng.random_range(0..5) {
            0 => body[at] ^= 1 << rng.random_range(0..8),
            1 => {
                body.remove(at);
            }
            2 => body.insert(at, rng.random()),
            3 => body.truncate(at.max(1)),
            _ => {
                let end = (at + rng.random_range(1..40)).min(body.len());
                let piece = body[at..end].to_vec();
                body.splice(at..at, piece);
            }
        }
    }
    with_type("mutated JSON", method, path, "application/json", &body)
}

/// Replaces any value by JSON of any type.
fn nonsense(target: &Target, rng: &mut ChaCha8Rng) -> Shot {
    let (method, path, body) = good(target, rng);
    let mut value: Value = serde_json::from_str(&body).unwrap_or(Value::Null);
    let mut weight_paths = Vec::new();
    places_of(&value, String::new(), &mut weight_paths);
    let place = weight_paths.swap_remove(rng.random_range(0..weight_paths.len()));
    let spoilt = match rng.random_range(0..8) {
        0 => json!(null),
        1 => json!(-1),
        2 => json!(u64::MAX),
        3 => json!(1e308),
        4 => json!(""),
        5 => json!([[[[]]]]),
        6 => json!({ "": { "text": 3 } }),
        _ => json!("x".repeat(200_000)),
    };
    value.pointer_mut(&place).into_iter().for_each(|at| *at = spoilt.clone());
    let mut body = value.to_string();
    if rng.random_bool(0.1) {
        body = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    }
    with_type("wrong types", method, path, "application/json", body.as_bytes())
}

/// Pointers to every value within a value.
fn places_of(value: &Value, here: String, weight_paths: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, inner)| {
            places_of(inner, format!("{here}/{key}"), weight_paths);
        }),
        Value::Array(list) => list.iter().enumerate().for_each(|(nth, inner)| {
            places_of(inner, format!("{here}/{nth}"), weight_paths);
        }),
        _ => {}
    }
    weight_paths.push(here);
}

fn giant(rng: &mut ChaCha8Rng) -> Shot {
    if rng.random_bool(0.5) {
        let mut bytes = b"POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 99999999999\r\n\r\n{\"query\":".to_vec();
        bytes.resize(4096, b' ');
        return Shot { kind: "giant body", bytes, cut: false };
    }
    let body = format!("{{\"query\":{{\"text\":\"{}\"}}}}", "a".repeat(GIANT));
    post("giant body", "/v1/search", body.as_bytes())
}

fn truncated(target: &Target, rng: &mut ChaCha8Rng) -> Shot {
    let file = png(32, 32, 400);
    let mut body = b"--edge\r\ncontent-disposition: form-data; name=\"picture\"; filename=\"a.png\"\r\n\r\n".to_vec();
    body.extend_from_slice(&file);
    body.extend_from_slice(
        b"\r\n--edge\r\ncontent-disposition: form-data; name=\"request\"\r\n\r\n",
    );
    body.extend_from_slice(
        json!({ "target": target.words, "k": 1 }).to_string().as_bytes(),
    );
    body.extend_from_slice(b"\r\n--edge--\r\n");
    let whole = with_type(
        "truncated upload",
        "POST",
        "/v1/search",
        "multipart/form-data; boundary=edge",
        &body,
    );
    if rng.random_bool(0.5) {
        // the form itself is cut, the request is whole
        body.truncate(rng.random_range(0..body.len()));
        return with_type(
            "truncated upload",
            "POST",
            "/v1/search",
            "multipart/form-data; boundary=edge",
            &body,
        );
    }
    let mut bytes = whole.bytes;
    bytes.truncate(rng.random_range(20..bytes.len()));
    Shot { kind: "truncated upload", bytes, cut: true }
}

fn bomb(target: &Target, rng: &mut ChaCha8Rng) -> Shot {
    let mut random = vec![0; 300];
    rng.fill_bytes(&mut random);
    let file: Vec<u8> = match rng.random_range(0..8) {
        0 => png(60_000, 60_000, 1000),
        1 => png(u32::MAX, 1, 1000),
        2 => png(0, 0, 0),
        3 => png(9_000, 5_000, 1000), // within the limit, but most of it is not there
        4 => b"<svg xmlns='http://www.w3.org/2000/svg' width='1e9' height='1e9'><!DOCTYPE x [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;&a;&a;'>]><text>&b;</text></svg>".to_vec(),
        5 => b"<?xml version='1.0'?><!DOCTYPE s [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/><text>&x;</text></svg>".to_vec(),
        6 => [b"GIF89a\xff\xff\xff\xff\xf7\0\0".as_slice(), &random].concat(),
        _ => {
            let magic: &[u8] = pick(rng, &[b"\xff\xd8\xff\xe0".as_slice(), b"BM", b"II*\0", b"RIFF\xff\xff\xff\x7fWEBP", b"\x89PNG\r\n\x1a\n"]);
            [magic, &random].concat()
        }
    };
    let body = json!({"query": {"picture": STANDARD.encode(file), "modality": target.pictures}, "target": target.words});
    post("picture bomb", "/v1/search", body.to_string().as_bytes())
}

fn bad_utf8(target: &Target, rng: &mut ChaCha8Rng) -> Shot {
    let spoilt: &[u8] = pick(
        rng,
        &[
            b"\xff\xfe".as_slice(),
            b"\xc3\x28",
            b"\xed\xa0\x80",
            b"\xf8\x88\x80\x80\x80",
            b"\xe2\x82",
        ],
    );
    if rng.random_bool(0.5) {
        let mut body = b"{\"query\":{\"text\":\"".to_vec();
        body.extend_from_slice(spoilt);
        body.extend_from_slice(b"\"},\"target\":\"words\"}");
        return post("bad UTF-8", "/v1/search", &body);
    }
    let hex: String = spoilt.iter().map(|byte| format!("%{byte:02x}")).collect();
    let path = match rng.random_range(0..3) {
        0 => format!("/v1/items/{hex}?modality={}", target.words),
        1 => format!("/v1/items/x?modality={hex}"),
        _ => format!("/v1/models/{hex}"),
    };
    Shot {
        kind: "bad UTF-8",
        bytes: format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes(),
        cut: false,
    }
}

fn traversal(target: &Target, rng: &mut ChaCha8Rng) -> Shot {
    let id = pick(
        rng,
        &[
            "..%2f..%2f..%2f..%2fetc%2fpasswd",
            "%2e%2e%2f%2e%2e%2fetc%2fshadow",
            "../../../../etc/passwd",
            "%2fetc%2fpasswd",
            "..%5c..%5cwindows%5cwin.ini",
            "x%00.png",
            "%2e%2e",
            "....//....//etc/passwd",
            "%252e%252e%252fetc%252fpasswd",
            "file:%2f%2f%2fetc%2fpasswd",
        ],
    );
    let words = &target.words;
    let path = match rng.random_range(0..5) {
        0 => format!("/v1/items/{id}?modality={words}"),
        1 => format!("/v1/items/{id}/picture?modality={}", target.pictures),
        2 => format!("/page/{id}"),
        3 => format!("/v1/models/{id}"),
        _ => format!("/v1/models/{id}/map"),
    };
    Shot {
        kind: "path traversal",
        bytes: format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes(),
        cut: false,
    }
}

fn bad_http(target: &Target, rng: &mut ChaCha8Rng) -> Shot {
    let text: Vec<u8> = match rng.random_range(0..12) {
        0 => b"GET / HTTP/9.9\r\n\r\n".to_vec(),
        1 => b"\0\x01\x02\x03\r\n\r\n".to_vec(),
        2 => format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "a".repeat(70_000)).into_bytes(),
        3 => format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "b".repeat(90_000)).into_bytes(),
        4 => b"POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\n".to_vec(),
        5 => b"POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd".to_vec(),
        6 => b"POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n".to_vec(),
        7 => b"FROB /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n".to_vec(),
        8 => b"GET /v1/models HTTP/1.1\r\nhost: evil.example\r\n\r\n".to_vec(),
        9 => format!("GET /v1/items/x/picture?modality={}&size=99999999999 HTTP/1.1\r\nhost: localhost\r\n\r\n", target.pictures).into_bytes(),
        10 => b"PUT /v1/items HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}".to_vec(),
        _ => b"POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\n{}".to_vec(),
    };
    Shot { kind: "bad HTTP", bytes: text, cut: false }
}

fn bad_values(target: &Target, rng: &mut ChaCha8Rng) -> Shot {
    let (words, pictures) = (&target.words, &target.pictures);
    let query = match rng.random_range(0..12) {
        0 => json!({ "code": "zz" }),
        1 => json!({ "code": "ff".repeat(500) }),
        2 => json!({ "features": [], "modality": pictures }),
        3 => json!({ "features": [1e39, 2], "modality": pictures }),
        4 => json!({ "drawing": { "strokes": [], "width": 10, "height": 10 } }),
        5 => {
            json!({ "drawing": { "strokes": [[[1e30, -1e30]]], "width": 10, "height": 0 } })
        }
        6 => json!({ "text": "", "modality": words }),
        7 => json!({ "text": "cat", "code": "00" }),
        8 => json!({ "item": { "id": "no such item", "modality": words } }),
        9 => json!({ "picture": "not base64!", "modality": pictures }),
        10 => json!({ "text": "cat", "modality": "no such modality" }),
        _ => json!({}),
    };
    let mut body = json!({ "query": query, "target": words });
    if rng.random_bool(0.4) {
        body["query"] = json!({ "text": "cat" });
        match rng.random_range(0..6) {
            0 => body["k"] = json!(1_000_000),
            1 => body["radius"] = json!(5000),
            2 => body["target"] = json!("../words"),
            3 => body["filter"] = json!(format!("{}label = x", "(".repeat(3000))),
            4 => body["filter"] = json!("label in (no such label)"),
            _ => body["model"] = json!("../../etc"),
        }
    }
    post("bad values", "/v1/search", body.to_string().as_bytes())
}
