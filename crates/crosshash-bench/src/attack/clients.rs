//! Greedy clients, which send expensive requests of all kinds as fast as they can and partly do not read,
//! and slow ones, which hold connections; honest clients are measured beside them.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crosshash::data::Raster;
use serde_json::{Value, json};

use super::{Outcome, PeakMemory};
use crate::serve::{Client, Server};

/// The p99 that an honest client must see, in milliseconds.
const MAX_P99: f64 = 100.0;
const MAX_MIB: u64 = 1024;
/// Pause of the honest client between requests.
const PAUSE: Duration = Duration::from_millis(25);

/// Status of the answers to greedy clients, by kind of request.
type Answers = Mutex<BTreeMap<(&'static str, u16), usize>>;

pub(super) fn run(
    run: &Path,
    greedy: usize,
    slow: usize,
    time: Duration,
) -> Result<Outcome> {
    let mut server = Server::start(run)?;
    let address = server.addr;
    let name = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stop = AtomicBool::new(false);
    let answers = Answers::default();
    let alone = Honest::Search.measure(address, Duration::from_secs(2))?;
    let (measured, peak) = PeakMemory::during(&server, || {
        std::thread::scope(|scope| {
            for nth in 0..greedy {
                let (stop, answers, name) = (&stop, &answers, &name);
                scope.spawn(move || match nth % 4 {
                    0 => unread(address, stop),
                    _ => hungry(address, stop, answers, &Greedy::new(nth, name)),
                });
            }
            for nth in 0..slow {
                let stop = &stop;
                scope.spawn(move || dripping(address, stop, nth % 2 == 0));
            }
            std::thread::sleep(Duration::from_secs(1));
            let clients = HONEST.map(|one| scope.spawn(move || one.measure(address, time)));
            let measured = clients.map(std::thread::ScopedJoinHandle::join);
            stop.store(true, Ordering::Relaxed);
            measured
        })
    });
    let mut faults = Vec::new();
    let mut figures =
        json!({ "greedy": greedy, "slow": slow, "honest_alone": alone.view() });
    for (client, measured) in HONEST.into_iter().zip(measured) {
        let measured =
            measured.map_err(|_| anyhow::anyhow!("an honest client panicked"))??;
        let what = client.name();
        figures[what] = measured.view();
        if client.is_bounded() && measured.p99 > MAX_P99 {
            faults.push(format!("{what}: p99 of {:.1} ms", measured.p99));
        }
        if client.is_bounded() && measured.failed > 0 {
            faults.push(format!("{what}: {} of {} failed", measured.failed, measured.sent));
        }
    }
    if peak > MAX_MIB {
        faults.push(format!("peak memory of {peak} MiB"));
    }
    let mut view: BTreeMap<String, usize> = BTreeMap::new();
    for ((kind, status), count) in
        answers.into_inner().unwrap_or_else(PoisonError::into_inner)
    {
        view.insert(format!("{kind}: {status}"), count);
        if status >= 500 && status != 503 {
            faults.push(format!("{kind}: {count} times status {status}"));
        }
    }
    if !server.is_alive() {
        faults.push("the server has ended".into());
    }
    figures["answers_to_greedy"] = json!(view);
    figures["peak_mib"] = peak.into();
    Ok(Outcome { figures, faults })
}

/// What an honest client saw.
struct Measured {
    sent: usize,
    failed: usize,
    p50: f64,
    p99: f64,
}

impl Measured {
    fn view(&self) -> Value {
        json!({ "sent": self.sent, "failed": self.failed, "p50_ms": self.p50, "p99_ms": self.p99 })
    }
}

/// What an honest client asks for.
#[derive(Clone, Copy, PartialEq)]
enum Honest {
    /// Small searches by text.
    Search,
    /// Health checks by new connections.
    Health,
    /// Small pictures. They wait for the pictures of others, so their time is only reported.
    Picture,
}

const HONEST: [Honest; 3] = [Honest::Search, Honest::Health, Honest::Picture];

impl Honest {
    fn name(self) -> &'static str {
        match self {
            Honest::Search => "honest",
            Honest::Health => "health",
            Honest::Picture => "honest_pictures",
        }
    }

    fn is_bounded(self) -> bool {
        self != Honest::Picture
    }

    fn measure(self, address: SocketAddr, time: Duration) -> Result<Measured> {
        let mut client = Client::new(address);
        let query = match self {
            Honest::Picture => {
                json!({ "picture": STANDARD.encode(noise(16)), "modality": "picture" })
            }
            _ => json!({ "text": "cat" }),
        };
        let body = json!({ "query": query, "target": "words", "k": 10 }).to_string();
        let (mut times, mut failed) = (Vec::new(), 0);
        let begin = Instant::now();
        while begin.elapsed() < time {
            let started = Instant::now();
            let reply = if self == Honest::Health {
                Client::new(address).get("/healthz")
            } else {
                client.json("POST", "/v1/search", &body)
            };
            times.push(started.elapsed().as_secs_f64() * 1000.0);
            failed += usize::from(!reply.is_ok_and(|reply| reply.status == 200));
            std::thread::sleep(PAUSE);
        }
        times.sort_by(f64::total_cmp);
        let at = |share: f64| {
            #[expect(clippy::cast_possible_truncation, reason = "an index")]
            #[expect(clippy::cast_sign_loss, reason = "not negative")]
            let nth = (share * times.len() as f64) as usize;
            times.get(nth.min(times.len().saturating_sub(1))).copied().unwrap_or(0.0)
        };
        Ok(Measured { sent: times.len(), failed, p50: at(0.5), p99: at(0.99) })
    }
}

/// A picture of noise, which compresses badly.
fn noise(side: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let values = (0..side * side * 3).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    Raster::new(side, 3, values.collect()).to_png().unwrap_or_default()
}

/// A drawing with filters within the budget: as much work as a picture may be.
fn slow_svg() -> String {
    let filter = "<feGaussianBlur stdDeviation=\"9\"/>".repeat(12);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1024\" height=\"1024\"><filter \
         id=\"f\">{filter}</filter><rect width=\"900\" height=\"900\" filter=\"url(#f)\"/></svg>"
    )
}

fn large() -> String {
    let body =
        json!({ "query": { "text": "a cat and a dog" }, "target": "words", "k": 1000 });
    body.to_string()
}

/// The requests of a greedy client: path, headers and body.
struct Greedy {
    kind: &'static str,
    requests: Vec<(&'static str, String, &'static str, Vec<u8>)>,
}

impl Greedy {
    /// Every kind in turn.
    fn new(nth: usize, model: &str) -> Greedy {
        const JSON: &str = "content-type: application/json\r\n";
        const FORM: &str = "content-type: multipart/form-data; boundary=b\r\n";
        let search =
            |body: String| ("POST", "/v1/search".to_owned(), JSON, body.into_bytes());
        let (kind, requests) = match nth / 4 * 3 + nth % 4 - 1 {
            place if place % 8 == 0 => ("searches", vec![search(large())]),
            place if place % 8 == 1 => {
                let queries = vec![json!({ "text": "a cat and a dog" }); 100];
                let body = json!({ "queries": queries, "target": "words", "k": 1000 });
                ("batches", vec![search(body.to_string())])
            }
            place if place % 8 == 2 => {
                let query = json!({ "picture": STANDARD.encode(slow_svg()), "modality": "picture" });
                let body = json!({ "query": query, "target": "words", "k": 1000 });
                ("drawings in SVG", vec![search(body.to_string())])
            }
            place if place % 8 == 3 => {
                let mut body = b"--b\r\ncontent-disposition: form-data; name=\"request\"\r\n\r\n{\"target\":\"words\",\"query\":{\"modality\":\"picture\"}}\r\n--b\r\ncontent-disposition: form-data; name=\"picture\"; filename=\"x.png\"\r\n\r\n".to_vec();
                body.extend(noise(1000));
                body.extend(b"\r\n--b--\r\n");
                ("pictures", vec![("POST", "/v1/search".to_owned(), FORM, body)])
            }
            place if place % 8 == 4 => {
                let filter = vec!["not exists(nothing)"; 300].join(" and ");
                let query = json!({ "text": "cat" });
                let body = json!({ "query": query, "target": "words", "k": 1000,
                    "filter": filter, "counts": true });
                ("filters", vec![search(body.to_string())])
            }
            place if place % 8 == 5 => {
                let text = "a cat and a dog and many other words ".repeat(20);
                let item =
                    |k: usize| json!({ "id": format!("greedy{nth}-{k}"), "text": text });
                let ids: Vec<String> =
                    (0..100).map(|k| format!("greedy{nth}-{k}")).collect();
                let items: Vec<Value> = (0..100).map(item).collect();
                let put = json!({ "modality": "words", "items": items }).to_string();
                let remove = json!({ "modality": "words", "ids": ids }).to_string();
                let change = |method, body: String| {
                    (method, "/v1/items".to_owned(), JSON, body.into_bytes())
                };
                ("inserts and deletes", vec![change("POST", put), change("DELETE", remove)])
            }
            place if place % 8 == 6 => {
                // Small values, which take much more memory than their text.
                let meta = format!(
                    "{{\"modality\":\"words\",\"items\":[{{\"id\":1,\"meta\":{{\"a\":[{}0]}}}}]}}",
                    "0,".repeat(1 << 20)
                );
                let empty = format!("{{\"queries\":[{}{{}}]}}", "{},".repeat(1 << 20));
                let change = ("POST", "/v1/items".to_owned(), JSON, meta.into_bytes());
                ("small values", vec![change, search(empty)])
            }
            _ => {
                let path = format!("/v1/models/{model}/reload");
                ("reloads", vec![("POST", path, "", Vec::new())])
            }
        };
        Greedy { kind, requests }
    }
}

fn request(body: &str) -> String {
    format!(
        "POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends its requests again and again.
fn hungry(address: SocketAddr, stop: &AtomicBool, answers: &Answers, greedy: &Greedy) {
    let mut client = Client::new(address);
    for (method, path, headers, body) in greedy.requests.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // Without an answer: the connection was closed.
        let status =
            client.request(method, path, headers, body).map_or(0, |reply| reply.status);
        let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
        *answers.entry((greedy.kind, status)).or_default() += 1;
    }
}

/// Pipelines requests and never reads.
fn unread(address: SocketAddr, stop: &AtomicBool) {
    let all = request(&large()).repeat(50);
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut stream) = TcpStream::connect(address) else { continue };
        let _ = stream.set_write_timeout(Some(Duration::from_millis(200)));
        while !stop.load(Ordering::Relaxed) {
            match stream.write(all.as_bytes()) {
                Err(err) if err.kind() == std::io::ErrorKind::WouldBlock => {}
                Ok(written) if written > 0 => {}
                _ => break,
            }
        }
    }
}

/// Sends a request, or reads its response, a few bytes at a time.
fn dripping(address: SocketAddr, stop: &AtomicBool, sending: bool) {
    let request = request(&large());
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut stream) = TcpStream::connect(address) else { continue };
        let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
        if !sending && stream.write_all(request.as_bytes()).is_err() {
            continue;
        }
        for byte in request.as_bytes().iter().cycle() {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let failed = if sending {
                stream.write_all(&[*byte]).is_err()
            } else {
                matches!(stream.read(&mut [0; 16]), Ok(0))
            };
            if failed {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
