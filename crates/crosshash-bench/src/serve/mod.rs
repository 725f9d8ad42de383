//! `crosshash-bench serve`: load, malformed requests and a soak test against a server in its own
//! process. It listens on loopback only, and every part is bounded.

pub(crate) mod client;
mod fuzz;
mod inserts;
mod kills;
mod load;
mod png;
mod server;
mod soak;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use crosshash_codes::segments::{ItemBatch, NewIndex, Snapshot, Writer};
use crosshash_codes::{BitOrder, Bits, Codes, Outputs};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

pub(crate) use self::client::Client;
pub(crate) use self::server::Server;
use super::search::{Data, make};
use crosshash_cli::progress::say;

const EXAMPLES: &str = "\
Examples:
  Code searches over a million items, half by chance, half around centres; a few seconds each:
    crosshash-bench serve

  Texts end to end, ten thousand malformed requests, and ten minutes of mixed load:
    crosshash-bench serve --run crosshash-demo --items 0
    crosshash-bench serve --run crosshash-demo --items 0 --seconds 0 --fuzz 10000
    crosshash-bench serve --run crosshash-demo --items 0 --seconds 0 --soak 600 --plot soak.svg

  Two-stage search, the cost of the keyword index, and kill -9 under inserts:
    crosshash-bench serve --outputs
    crosshash-bench serve --items 0 --inserts 20000
    crosshash-bench serve --items 0 --kills 60";

/// Measure a server: searches per second, latency, rejections, memory.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Items of the index for code searches; 0 skips them.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    items: usize,

    /// Code length.
    #[arg(long, value_name = "R", default_value_t = 64)]
    bits: usize,

    /// Store outputs and send outputs: two-stage search instead of search by Hamming distance.
    #[arg(long)]
    outputs: bool,

    /// Results per response.
    #[arg(short, value_name = "K", default_value_t = 10)]
    k: usize,

    /// A run with a text modality, for texts, --fuzz and --soak; inserted items remain in it.
    #[arg(long, value_name = "RUN")]
    run: Option<PathBuf>,

    /// Seconds per load measurement; 0 skips them.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=600))]
    seconds: u64,

    /// Number of concurrent connections.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..))]
    connections: u8,

    /// Request rate for the latency measurement, per second.
    #[arg(long, value_name = "N", default_value_t = 1500.0)]
    rate: f64,

    /// Number of malformed requests.
    #[arg(long, value_name = "N", requires = "run")]
    fuzz: Option<usize>,

    /// Seconds of the soak test: mixed load, with the memory of the server.
    #[arg(long, value_name = "S", requires = "run")]
    soak: Option<u64>,

    /// Insert this many items with and without texts, and measure searches by words.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..))]
    inserts: Option<u32>,

    /// Kill a server under inserts this many times and compare its items after every restart.
    #[arg(long, value_name = "N")]
    kills: Option<u64>,

    /// Write a plot of the memory to this file.
    #[arg(long, value_name = "FILE.svg", requires = "soak")]
    plot: Option<PathBuf>,

    /// Seed of codes, queries and malformed requests.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut report = json!({});
    if args.items > 0 && args.seconds > 0 {
        report["codes"] = codes(args)?;
    }
    if let Some(items) = args.inserts {
        report["inserts"] = json!(inserts::run(items.try_into()?)?);
    }
    if let Some(rounds) = args.kills {
        report["kills"] = json!(kills::run(rounds)?);
    }
    if let Some(run) = &args.run {
        if args.seconds > 0 {
            report["texts"] = texts(args, run)?;
        }
        if let Some(count) = args.fuzz {
            let mut server = Server::start(run)?;
            report["fuzz"] = json!(fuzz::run(&mut server, count, args.seed)?);
        }
        if let Some(seconds) = args.soak {
            let server = Server::start(run)?;
            let time = Duration::from_secs(seconds);
            report["soak"] = json!(soak::run(&server, time, args.plot.as_deref())?);
        }
    }
    let text = if args.json {
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        to_text(&report)
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    let refused = report["fuzz"].is_null()
        || (report["fuzz"]["alive"] == true
            && report["fuzz"]["server_errors"] == json!([]));
    Ok(if refused { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Code searches: one after the other, at full load, then at a fixed rate.
fn codes(args: &Args) -> Result<Value> {
    let bits = Bits::new(args.bits)?;
    let half = args.items.div_ceil(2);
    let (mut items, mut queries) = make(Data::Random, bits, half, 2048, args.seed)?;
    let (others, other_queries) =
        make(Data::Clustered, bits, args.items - half, 2048, args.seed + 1)?;
    items.append(&others)?;
    queries.append(&other_queries)?;
    let folder = tempfile::tempdir()?;
    let index = folder.path().join("index");
    let new = NewIndex { bits, label_names: &[], outputs: args.outputs, after_commit: 0 };
    let batch = if args.outputs {
        let outputs = Outputs::from_reals(bits, &reals(&items, args.seed))?;
        ItemBatch { outputs: Some(outputs), ..ItemBatch::new(items) }
    } else {
        ItemBatch::new(items)
    };
    Writer::create_with(&index, new)?.insert(batch)?;
    let bytes = Snapshot::open(&index)?.info().bytes as f64 / args.items as f64;
    say(format!("{} items of {bits} bits are indexed, {bytes:.1} bytes each", args.items));
    let server = Server::start(&index)?;
    let bodies = bodies(&queries, args)?;
    // Random and clustered queries in turn.
    let body = |n: usize| bodies[(n % 2) * 2048 + n / 2 % 2048].clone();
    let time = Duration::from_secs(args.seconds);
    load::run(server.addr, args.connections.into(), Duration::from_secs(1), None, &body)?;
    let one = load::run(server.addr, 1, time, None, &body)?;
    let most = load::run(server.addr, args.connections.into(), time, None, &body)?;
    let steady =
        load::run(server.addr, args.connections.into(), time, Some(args.rate), &body)?;
    Ok(
        json!({ "items": args.items, "bits": args.bits, "k": args.k, "bytes_per_item": bytes, "one_connection": one, "most": most, "steady": steady, "memory_mib": server.resident_mib() }),
    )
}

/// Real outputs with the signs of codes.
fn reals(codes: &Codes, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let bits = codes.bits().get();
    let mut values = Vec::with_capacity(codes.len() * bits);
    for code in codes.iter() {
        for bit in 0..bits {
            let size = rng.random_range(0.1_f32..1.0);
            values.push(if code[bit / 64] >> (bit % 64) & 1 == 1 { size } else { -size });
        }
    }
    values
}

/// Requests with codes, or with outputs.
fn bodies(queries: &Codes, args: &Args) -> Result<Vec<String>> {
    if args.outputs {
        let outputs = Outputs::from_reals(queries.bits(), &reals(queries, args.seed + 1))?;
        let row =
            |row: usize| json!({ "query": { "outputs": outputs.row(row) }, "k": args.k });
        return Ok((0..queries.len()).map(|at| row(at).to_string()).collect());
    }
    let packed = queries.to_packed(BitOrder::Lsb);
    let hex =
        |code: &[u8]| code.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let body =
        |code: &[u8]| json!({ "query": { "code": hex(code) }, "k": args.k }).to_string();
    Ok(packed.chunks_exact(queries.bits().bytes()).map(body).collect())
}

/// The first modality of the default model that accepts texts.
fn words(server: &Server) -> Result<String> {
    let models: Value =
        serde_json::from_slice(&Client::new(server.addr).get("/v1/models")?.body)?;
    let all = models["models"][0]["modalities"].as_array().cloned().unwrap_or_default();
    let words = all.iter().find(|m| m["asks"].to_string().contains("\"text\""));
    match words.and_then(|m| m["name"].as_str()) {
        Some(name) => Ok(name.to_owned()),
        None => bail!("--run: no modality of the run takes texts"),
    }
}

/// Text queries against each modality in turn.
fn texts(args: &Args, run: &Path) -> Result<Value> {
    let server = Server::start(run)?;
    words(&server)?;
    let models: Value =
        serde_json::from_slice(&Client::new(server.addr).get("/v1/models")?.body)?;
    let all = models["models"][0]["modalities"].as_array().cloned().unwrap_or_default();
    let targets: Vec<&str> = all.iter().filter_map(|m| m["name"].as_str()).collect();
    let things = [
        "cat",
        "red heart",
        "a man on a bicycle",
        "house by the sea",
        "clock",
        "happy face",
        "tree",
        "car",
    ];
    let body = |n: usize| {
        let text = format!("{} and {}", things[n % 8], things[n / 8 % 8]);
        json!({ "query": { "text": text }, "target": targets[n % targets.len()], "k": 24 })
            .to_string()
    };
    let time = Duration::from_secs(args.seconds);
    load::run(server.addr, 2, Duration::from_secs(1), None, &body)?;
    let most = load::run(server.addr, args.connections.into(), time, None, &body)?;
    let one = load::run(server.addr, 1, time, None, &body)?;
    let steady = load::run(
        server.addr,
        args.connections.into(),
        time,
        Some(most.per_second / 2.0),
        &body,
    )?;
    Ok(json!({ "most": most, "one_connection": one, "half": steady }))
}

fn to_text(report: &Value) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for (part, values) in report.as_object().into_iter().flatten() {
        let _ = writeln!(out, "{part}");
        for (name, value) in values.as_object().into_iter().flatten() {
            let measured = |key: &str| value[key].as_f64().unwrap_or(f64::NAN);
            let _ = match value.get("p99_ms") {
                Some(_) => writeln!(
                    out,
                    "  {name:<16}{:>9.0}/s  p50 {:>7.2} ms  p99 {:>7.2} ms  max {:>7.1} ms",
                    measured("per_second"),
                    measured("p50_ms"),
                    measured("p99_ms"),
                    measured("max_ms")
                ),
                None => writeln!(out, "  {name:<16}{value}"),
            };
        }
    }
    out
}
