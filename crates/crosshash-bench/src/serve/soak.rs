//! Soak test: mixed requests for a long time, with the memory of the server.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;
use serde_json::json;

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

/// Searches, inserts, deletes and reads items of a run, over two connections.
pub(super) fn run(
    server: &Server,
    time: Duration,
    words: &str,
    plot: Option<&Path>,
) -> Result<Soaked> {
    let (sent, failed, over) =
        (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let mut samples: Vec<(f64, f64)> = Vec::new();
    let start = Instant::now();
    let work = || {
        let mut client = Client::new(server.addr);
        while !over.load(Ordering::Relaxed) {
            let n = sent.fetch_add(1, Ordering::Relaxed);
            match step(&mut client, n, words) {
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

/// Sends one request of the mix; returns its status.
fn step(client: &mut Client, n: usize, words: &str) -> std::io::Result<u16> {
    let id = format!("soak {}", n % IDS);
    let text = format!("cat {} dog {}", n % 97, n % 13);
    let reply = match n % 10 {
        0 => {
            let item = json!({ "id": id, "text": text, "meta": { "n": n } });
            let body = json!({ "modality": words, "items": [item] }).to_string();
            client.json("POST", "/v1/items", &body)?
        }
        5 => {
            let gone = format!("soak {}", (n / 2) % IDS);
            let body = json!({ "modality": words, "ids": [gone] }).to_string();
            client.json("DELETE", "/v1/items", &body)?
        }
        7 => client.get(&format!("/v1/items/soak%20{}?modality={words}", n % IDS))?,
        _ => {
            let body = json!({ "query": { "text": text }, "target": words, "k": 20 });
            client.json("POST", "/v1/search", &body.to_string())?
        }
    };
    Ok(reply.status)
}
