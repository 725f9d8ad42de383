//! Soak test: mixed requests for a long time, with the memory of the server.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Value, json};

use super::client::Client;
use super::server::Server;
use crosshash_cli::plot::lines::{self, Panel, Point, Series};
use crosshash_cli::progress::Progress;

/// Number of memory samples.
const SAMPLES: u32 = 120;
/// Warm-up share, in which caches fill and threads start; not counted.
const WARM: f64 = 0.2;
/// Number of ids that are inserted and deleted.
const IDS: usize = 5_000;

/// The results.
#[derive(Debug, Serialize)]
pub(super) struct Soaked {
    seconds: f64,
    requests: usize,
    failed: usize,
    /// Memory after warm-up, at the end, and the maximum, in MiB.
    start_mib: f64,
    end_mib: f64,
    most_mib: f64,
    /// Slope of a line through the samples after warm-up, MiB per hour.
    mib_per_hour: f64,
}

/// Searches of all kinds, inserts, deletes and look-ups of items of a run, over two connections.
pub(super) fn run(server: &Server, time: Duration, plot: Option<&Path>) -> Result<Soaked> {
    let mix = Mix::new(server)?;
    let (sent, failed, over) =
        (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let mut samples: Vec<(f64, f64)> = Vec::new();
    let start = Instant::now();
    let work = || {
        let mut client = Client::new(server.addr);
        while !over.load(Ordering::Relaxed) {
            let n = sent.fetch_add(1, Ordering::Relaxed);
            match mix.step(&mut client, n) {
                Ok(status) if status < 400 || status == 404 => {}
                _ => {
                    failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        (0..2).for_each(|_| {
            scope.spawn(work);
        });
        let progress =
            Progress::new("soaking, seconds", time.as_secs().try_into().unwrap_or(0));
        for k in 1..=SAMPLES {
            let due = start + time * k / SAMPLES;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let seconds = start.elapsed().as_secs_f64();
            samples.extend(server.resident_mib().map(|mib| (seconds, mib)));
            progress.set(start.elapsed().as_secs().try_into().unwrap_or(0));
        }
        over.store(true, Ordering::Relaxed);
    });
    if let Some(path) = plot {
        let points = samples.iter().map(|&(x, y)| Point { x: x / 60.0, y, spread: 0.0 });
        let name = format!("{} requests", sent.load(Ordering::Relaxed));
        let series = Series { name, points: points.collect(), mark: None };
        let floor = Series {
            name: "0".into(),
            points: vec![Point { x: 0.0, y: 0.0, spread: 0.0 }],
            mark: None,
        };
        let (x, y) = ("minutes".to_owned(), "resident memory, MiB".to_owned());
        let panel = Panel { x, y, names: Vec::new(), series: vec![series, floor] };
        lines::draw(path, "Memory of the server under load", &[panel])?;
    }
    let warm: Vec<(f64, f64)> = samples
        .iter()
        .copied()
        .filter(|&(at, _)| at >= WARM * time.as_secs_f64())
        .collect();
    let mib = |sample: Option<&(f64, f64)>| sample.map_or(f64::NAN, |s| s.1);
    Ok(Soaked {
        seconds: start.elapsed().as_secs_f64(),
        requests: sent.load(Ordering::Relaxed),
        failed: failed.load(Ordering::Relaxed),
        start_mib: mib(warm.first()),
        end_mib: mib(warm.last()),
        most_mib: samples.iter().map(|s| s.1).fold(0.0, f64::max),
        mib_per_hour: 3600.0 * slope(&warm),
    })
}

/// The slope of the least-squares line.
fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let both: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let square: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    both / square.max(f64::MIN_POSITIVE)
}

/// The requests of the soak test, for the modalities of a run.
struct Mix {
    /// The first modality that takes texts.
    words: String,
    targets: Vec<String>,
    /// An item of every target.
    items: Vec<String>,
    /// A picture in base64, if a modality takes pictures.
    picture: Option<String>,
    takes_drawings: bool,
}

impl Mix {
    fn new(server: &Server) -> Result<Mix> {
        let mut client = Client::new(server.addr);
        let models: Value = serde_json::from_slice(&client.get("/v1/models")?.body)?;
        let all = models["models"][0]["modalities"].as_array().context("no modalities")?;
        let takes = |modality: &Value, kind: &str| {
            modality["asks"]
                .as_array()
                .is_some_and(|asks| asks.iter().any(|ask| ask == kind))
        };
        let name =
            |modality: &Value| modality["name"].as_str().unwrap_or_default().to_owned();
        let words = all.iter().find(|modality| takes(modality, "text")).map(name);
        let words = words.context("--run: no modality of the run takes texts")?;
        let targets: Vec<String> = all.iter().map(name).collect();
        let (mut items, mut picture) = (Vec::new(), None);
        for target in &targets {
            let body = json!({ "query": { "text": "cat", "modality": words }, "target": target, "k": 1 });
            let reply = client.json("POST", "/v1/search", &body.to_string())?;
            let found: Value = serde_json::from_slice(&reply.body)?;
            let hit = &found["hits"][0];
            items.push(hit["id"].as_str().context("the run has no items")?.to_owned());
            if let (Some(path), None) = (hit["picture"].as_str(), &picture) {
                picture = Some(STANDARD.encode(client.get(path)?.body));
            }
        }
        let accepted = |kind: &str| all.iter().any(|modality| takes(modality, kind));
        let picture = picture.filter(|_| accepted("picture"));
        Ok(Mix { words, targets, items, picture, takes_drawings: accepted("drawing") })
    }

    /// Sends one request of the mix; returns its status.
    fn step(&self, client: &mut Client, n: usize) -> std::io::Result<u16> {
        let words = &self.words;
        let reply = match n % 10 {
            0 => {
                let text = format!("cat {} dog {}", n % 97, n % 13);
                let item = json!({ "id": format!("soak {}", n % IDS), "text": text, "meta": { "n": n } });
                let body = json!({ "modality": words, "items": [item] }).to_string();
                client.json("POST", "/v1/items", &body)?
            }
            5 => {
                let gone = format!("soak {}", (n / 2) % IDS);
                let body = json!({ "modality": words, "ids": [gone] }).to_string();
                client.json("DELETE", "/v1/items", &body)?
            }
            7 => client.get(&format!("/v1/items/soak%20{}?modality={words}", n % IDS))?,
            _ => client.json("POST", "/v1/search", &self.search(n).to_string())?,
        };
        Ok(reply.status)
    }

    /// A search: each kind of query in turn, with and without filters and counts.
    fn search(&self, n: usize) -> Value {
        let nth = n / 10;
        let target = nth % self.targets.len();
        let text = json!({ "text": format!("cat {} dog {}", n % 97, n % 13), "modality": self.words });
        let mut body = json!({ "query": text, "target": self.targets[target], "k": 20 });
        match (n % 10, nth % 4) {
            (1, _) => body["by"] = json!("meaning"),
            (2, _) => body["by"] = json!("words"),
            (3, _) => body["by"] = json!("both"),
            (4, 0) => body["filter"] = json!("not id = \"soak 1\""),
            (4, 1) => body["counts"] = json!(true),
            (4, 2) => body["rank"] = json!("hamming"),
            (4, _) => {
                let text = body["query"].take();
                body = json!({ "queries": [text, text], "target": self.targets[target], "k": 5 });
            }
            (6, 0 | 1) => {
                let item =
                    json!({ "id": self.items[target], "modality": self.targets[target] });
                body["query"] = json!({ "item": item });
            }
            (8, 0) if self.takes_drawings => {
                let side = 100 + n % 50;
                let strokes =
                    json!([[[10, 10], [side, 10], [side, side], [10, side], [10, 10]]]);
                let drawing = json!({ "strokes": strokes, "width": 200, "height": 200 });
                body["query"] = json!({ "drawing": drawing });
            }
            (9, 0) => {
                if let Some(picture) = &self.picture {
                    body["query"] = json!({ "picture": picture });
                }
            }
            _ => {}
        }
        body
    }
}
