//! Load: as many requests as the server handles, or a fixed rate.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::Serialize;

use super::client::Client;

/// The measurement.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Measured {
    pub(super) requests: usize,
    pub(super) seconds: f64,
    pub(super) per_second: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
}

/// Builds the body of the n-th request.
pub(super) type Bodies<'a> = &'a (dyn Fn(usize) -> String + Sync);

/// Sends searches over `connections` connections for some time. With a rate, the n-th is due at
/// n / rate, and its latency counts from when it was due, so that the delay caused by a slow
/// response is included. Without a rate, each connection sends the next request after each response.
pub(super) fn run(
    addr: SocketAddr,
    connections: usize,
    time: Duration,
    rate: Option<f64>,
    bodies: Bodies<'_>,
) -> Result<Measured> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let start = Instant::now();
    let work = || -> Vec<f64> {
        let mut client = Client::new(addr);
        let mut times = Vec::new();
        while start.elapsed() < time && !failed.load(Ordering::Relaxed) {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let due = match rate {
                None => Instant::now(),
                Some(rate) => start + Duration::from_secs_f64(n as f64 / rate),
            };
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            match client.json("POST", "/v1/search", &bodies(n)) {
                Ok(reply) if reply.status == 200 => times.push(due.elapsed().as_secs_f64()),
                other => {
                    let text =
                        other.map(|reply| reply.text()).unwrap_or_else(|e| e.to_string());
                    crosshash_cli::progress::say(format!("a request failed: {text}"));
                    failed.store(true, Ordering::Relaxed);
                }
            }
        }
        times
    };
    let mut times: Vec<f64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..connections).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    if failed.load(Ordering::Relaxed) || times.is_empty() {
        bail!("the server did not answer all requests; see its message above");
    }
    times.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| {
        #[expect(clippy::cast_possible_truncation, reason = "a rank")]
        #[expect(clippy::cast_sign_loss, reason = "a rank")]
        let rank = (share * times.len() as f64).ceil() as usize;
        1e3 * times[rank.clamp(1, times.len()) - 1]
    };
    Ok(Measured {
        requests: times.len(),
        seconds,
        per_second: times.len() as f64 / seconds,
        p50_ms: at(0.5),
        p99_ms: at(0.99),
        max_ms: at(1.0),
    })
}
