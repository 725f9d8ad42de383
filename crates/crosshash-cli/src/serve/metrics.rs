//! Request counters and durations in the Prometheus text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::memory;

/// Upper bounds of the buckets in seconds.
const BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// All counters since the start.
pub(crate) struct Metrics {
    started: Instant,
    routes: Mutex<BTreeMap<(String, &'static str), Route>>,
}

#[derive(Default)]
struct Route {
    by_status: BTreeMap<u16, u64>,
    buckets: [u64; BUCKETS.len()],
    seconds: f64,
}

/// A value computed for each scrape: name, kind (gauge or counter), help, labels and values.
pub(crate) struct Gauge {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) help: &'static str,
    pub(crate) rows: Vec<(String, f64)>,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        Metrics { started: Instant::now(), routes: Mutex::default() }
    }

    /// Records one response.
    pub(crate) fn record(
        &self,
        route: &str,
        method: &'static str,
        status: u16,
        took: Duration,
    ) {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let route = routes.entry((route.to_owned(), method)).or_default();
        *route.by_status.entry(status).or_default() += 1;
        let seconds = took.as_secs_f64();
        route.seconds += seconds;
        let first = BUCKETS.partition_point(|&end| end < seconds);
        if let Some(bucket) = route.buckets.get_mut(first) {
            *bucket += 1;
        }
    }

    /// All metrics as text.
    pub(crate) fn to_text(&self, gauges: &[Gauge]) -> String {
        let mut out = String::new();
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        head(&mut out, "crosshash_requests_total", "counter", "Completed requests.");
        for ((route, method), counts) in &*routes {
            for (status, count) in &counts.by_status {
                let _ = writeln!(
                    out,
                    "crosshash_requests_total{{route=\"{route}\",method=\"{method}\",status=\"{status}\"}} {count}"
                );
            }
        }
        let name = "crosshash_request_seconds";
        head(
            &mut out,
            name,
            "histogram",
            "Time from the header of a request to its response.",
        );
        for ((route, method), counts) in &*routes {
            let labels = format!("route=\"{route}\",method=\"{method}\"");
            let mut so_far = 0;
            for (end, count) in BUCKETS.iter().zip(counts.buckets) {
                so_far += count;
                let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{end}\"}} {so_far}");
            }
            let all: u64 = counts.by_status.values().sum();
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {all}");
            let _ = writeln!(out, "{name}_sum{{{labels}}} {}", counts.seconds);
            let _ = writeln!(out, "{name}_count{{{labels}}} {all}");
        }
        drop(routes);
        for Gauge { name, kind, help, rows } in gauges {
            head(&mut out, name, kind, help);
            for (labels, value) in rows {
                let _ = writeln!(out, "{name}{labels} {value}");
            }
        }
        head(&mut out, "crosshash_uptime_seconds", "gauge", "Time since the start.");
        let _ = writeln!(
            out,
            "crosshash_uptime_seconds {}",
            self.started.elapsed().as_secs_f64()
        );
        if let Some(bytes) = memory::resident_bytes_of("self") {
            head(&mut out, "process_resident_memory_bytes", "gauge", "Resident memory.");
            let _ = writeln!(out, "process_resident_memory_bytes {bytes}");
        }
        out
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// A quoted label value.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_add_up() {
        let metrics = Metrics::new();
        for millis in [0, 3, 30, 60_000] {
            metrics.record("/v1/search", "POST", 200, Duration::from_millis(millis));
        }
        metrics.record("/v1/search", "POST", 400, Duration::from_millis(1));
        let rows = vec![("{model=\"a\"}".to_owned(), 3.0)];
        let text = metrics.to_text(&[Gauge { name: "x", kind: "gauge", help: "y.", rows }]);
        let labels = "route=\"/v1/search\",method=\"POST\"";
        for line in [
            format!("crosshash_requests_total{{{labels},status=\"200\"}} 4"),
            format!("crosshash_request_seconds_bucket{{{labels},le=\"0.005\"}} 3"),
            format!("crosshash_request_seconds_bucket{{{labels},le=\"10\"}} 4"),
            format!("crosshash_request_seconds_bucket{{{labels},le=\"+Inf\"}} 5"),
            "x{model=\"a\"} 3".into(),
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
    }
}
