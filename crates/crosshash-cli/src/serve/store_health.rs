//! Stores in `/healthz` and `/metrics`. Neither names addresses, users or causes: they are in the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::metrics::{Gauge, quoted};
use super::store_items::StoreItems;

/// Whether all stores answer, and the state of each; none without stores.
pub(super) fn of(stores: &[Arc<StoreItems>]) -> Option<(bool, Value)> {
    let mut all_available = true;
    let state = |store: &Arc<StoreItems>| match store.pool.state() {
        Ok(()) => json!({ "modality": store.modality, "available": true }),
        Err(away) => {
            all_available = false;
            json!({
                "modality": store.modality,
                "available": false,
                "seconds": away.since.as_secs(),
            })
        }
    };
    let states: Vec<Value> = stores.iter().map(state).collect();
    (!states.is_empty()).then_some((all_available, Value::from(states)))
}

/// Metrics of the stores.
pub(super) fn gauges(stores: &[Arc<StoreItems>]) -> Vec<Gauge> {
    if stores.is_empty() {
        return Vec::new();
    }
    let metric = |name, kind, help, value: &dyn Fn(&StoreItems) -> u64| {
        let row = |store: &Arc<StoreItems>| {
            (format!("{{modality={}}}", quoted(&store.modality)), value(store) as f64)
        };
        Gauge { name, kind, help, rows: stores.iter().map(row).collect() }
    };
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    vec![
        metric(
            "crosshash_store_available",
            "gauge",
            "Whether the store answers.",
            &|store| u64::from(store.pool.state().is_ok()),
        ),
        metric(
            "crosshash_store_connections_busy",
            "gauge",
            "Connections with a running search.",
            &|store| read(&store.pool.counts().busy),
        ),
        metric(
            "crosshash_store_requests_total",
            "counter",
            "Searches and look-ups.",
            &|store| read(&store.pool.counts().requests),
        ),
        metric(
            "crosshash_store_failures_total",
            "counter",
            "Attempts without an answer.",
            &|store| read(&store.pool.counts().failures),
        ),
        metric(
            "crosshash_store_retries_total",
            "counter",
            "Repeated attempts.",
            &|store| read(&store.pool.counts().retries),
        ),
        metric(
            "crosshash_store_breaker_opened_total",
            "counter",
            "How often searches were stopped until the store answered again.",
            &|store| store.pool.opened(),
        ),
    ]
}
