//! Greedy clients, which send as fast as they can and partly do not read, and slow ones, which hold
//! connections; an honest client is measured beside them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;

use super::{Outcome, PeakMemory};
use crate::serve::{Client, Server};

/// The p99 that an honest client must see, in milliseconds.
const MAX_P99: f64 = 100.0;
const MAX_MIB: u64 = 1024;
/// Pause of the honest client between requests.
const PAUSE: Duration = Duration::from_millis(25);

pub(super) fn run(
    run: &Path,
    greedy: usize,
    slow: usize,
    time: Duration,
) -> Result<Outcome> {
    let server = Server::start(run)?;
    let address = server.addr;
    let stop = AtomicBool::new(false);
    let answered = AtomicU64::new(0);
    let alone = honest(address, Duration::from_secs(2), false)?;
    let ((searches, health), peak) = PeakMemory::during(&server, || {
        std::thread::scope(|scope| {
            for nth in 0..greedy {
                let (stop, answered) = (&stop, &answered);
                scope.spawn(move || match nth % 4 {
                    0 => unread(address, stop),
                    _ => hungry(address, stop, answered),
                });
            }
            for nth in 0..slow {
                let stop = &stop;
                scope.spawn(move || dripping(address, stop, nth % 2 == 0));
            }
            std::thread::sleep(Duration::from_secs(1));
            let searches = scope.spawn(|| honest(address, time, false));
            let health = honest(address, time, true);
            let searches = searches.join();
            stop.store(true, Ordering::Relaxed);
            (searches, health)
        })
    });
    let (searches, health) =
        (searches.map_err(|_| anyhow::anyhow!("the honest client panicked"))??, health?);
    let mut faults = Vec::new();
    for (what, measured) in [("searches", &searches), ("health", &health)] {
        if measured.p99 > MAX_P99 {
            faults.push(format!("{what}: p99 of {:.1} ms", measured.p99));
        }
        if measured.failed > 0 {
            faults.push(format!("{what}: {} of {} failed", measured.failed, measured.sent));
        }
    }
    if peak > MAX_MIB {
        faults.push(format!("peak memory of {peak} MiB"));
    }
    let view = |one: &Measured| json!({ "sent": one.sent, "failed": one.failed, "p50_ms": one.p50, "p99_ms": one.p99 });
    let figures = json!({
        "greedy": greedy,
        "slow": slow,
        "answered_to_greedy": answered.into_inner(),
        "honest_alone": view(&alone),
        "honest": view(&searches),
        "health": view(&health),
        "peak_mib": peak,
    });
    Ok(Outcome { figures, faults })
}

/// What an honest client saw.
struct Measured {
    sent: usize,
    failed: usize,
    p50: f64,
    p99: f64,
}

/// Small searches, or health checks by new connections.
fn honest(address: SocketAddr, time: Duration, health: bool) -> Result<Measured> {
    let mut client = Client::new(address);
    let body =
        json!({ "query": { "text": "cat" }, "target": "words", "k": 10 }).to_string();
    let (mut times, mut failed) = (Vec::new(), 0);
    let begin = Instant::now();
    while begin.elapsed() < time {
        let started = Instant::now();
        let reply = if health {
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

fn large() -> String {
    let body =
        json!({ "query": { "text": "a cat and a dog" }, "target": "words", "k": 1000 });
    body.to_string()
}

fn request(body: &str) -> String {
    format!(
        "POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Requests the most results, again and again.
fn hungry(address: SocketAddr, stop: &AtomicBool, answered: &AtomicU64) {
    let mut client = Client::new(address);
    let body = large();
    while !stop.load(Ordering::Relaxed) {
        if client.json("POST", "/v1/search", &body).is_ok_and(|reply| reply.status == 200) {
            answered.fetch_add(1, Ordering::Relaxed);
        }
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
