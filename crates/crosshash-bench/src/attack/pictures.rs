//! Bad pictures as queries, as inserted items, and as thumbnails.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::files::{bad_files, large_profile};
use super::{Outcome, PeakMemory};
use crate::serve::{Client, Server};

/// The most memory of server and decoders in MiB.
const MAX_MIB: u64 = 1024;

pub(super) fn run(run: &Path) -> Result<Outcome> {
    let mut server = Server::start(run)?;
    let address = server.addr;
    let mut faults = Vec::new();
    let (slowest, peak) = PeakMemory::during(&server, || {
        let mut slowest = (0.0_f64, "");
        let mut client = Client::new(address);
        for file in bad_files() {
            let picture = STANDARD.encode(&file.bytes);
            let query = json!({ "query": { "picture": picture }, "target": "words" });
            let items = json!({ "modality": "picture", "items": [
                { "id": "bad", "picture": picture },
                { "id": "bad-with-code", "picture": picture, "code": "00000000" },
            ] });
            for (path, body) in [("/v1/search", query), ("/v1/items", items)] {
                let started = Instant::now();
                let reply = client.json("POST", path, &body.to_string());
                let took = started.elapsed().as_secs_f64();
                if took > slowest.0 {
                    slowest = (took, file.name);
                }
                match reply {
                    Ok(reply) if (400..500).contains(&reply.status) => {}
                    // a picture that takes too long
                    Ok(reply) if reply.status == 503 => {}
                    Ok(reply) => {
                        faults.push(format!(
                            "{} at {path}: status {}",
                            file.name, reply.status
                        ));
                    }
                    Err(err) => faults.push(format!("{} at {path}: {err}", file.name)),
                }
            }
        }
        let picture = STANDARD.encode(large_profile());
        let query = json!({ "query": { "picture": picture }, "target": "words" });
        let profile = client.json("POST", "/v1/search", &query.to_string());
        if !profile.is_ok_and(|reply| reply.status < 500) {
            faults.push("a picture with a large colour profile".into());
        }
        slowest
    });
    let health = Client::new(address).get("/healthz");
    if !server.is_alive() || !health.is_ok_and(|reply| reply.status == 200) {
        faults.push("the server has ended".into());
    }
    if peak > MAX_MIB {
        faults.push(format!("peak memory of {peak} MiB"));
    }
    let figures = json!({
        "files": bad_files().len(),
        "slowest_seconds": slowest.0,
        "slowest": slowest.1,
        "peak_mib": peak,
    });
    Ok(Outcome { figures, faults })
}
