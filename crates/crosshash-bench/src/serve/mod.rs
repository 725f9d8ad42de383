//! `crosshash-bench serve`: load, malformed requests and a soak test against a server in its own
//! process. It listens on loopback only, and every part is bounded.

pub(crate) mod client;
mod fuzz;
mod load;
mod png;
mod server;
mod soak;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use crosshash_codes::format::CodeFile;
use crosshash_codes::segments::Writer;
use crosshash_codes::{BitOrder, Bits, Codes};
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
    crosshash-bench serve --run crosshash-demo --items 0 --seconds 0 --soak 600 --plot soak.svg";

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
            let words = words(&server)?;
            let time = Duration::from_secs(seconds);
            report["soak"] = json!(soak::run(&server, time, &words, args.plot.as_deref())?);
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

/// Code searches: at full load, then at a fixed rate.
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
    Writer::create(&index, bits, &[])?.insert(CodeFile::new(items))?;
    say(format!("{} items of {bits} bits are indexed", args.items));
    let server = Server::start(&index)?;
    let bodies = bodies(&queries, args.k);
    // Random and clustered queries in turn.
    let body = |n: usize| bodies[(n % 2) * 2048 + n / 2 % 2048].clone();
    let time = Duration::from_secs(args.seconds);
    load::run(server.addr, args.connections.into(), Duration::from_secs(1), None, &body)?;
    let most = load::run(server.addr, args.connections.into(), time, None, &body)?;
    let steady =
        load::run(server.addr, args.connections.into(), time, Some(args.rate), &body)?;
    Ok(
        json!({ "items": args.items, "bits": args.bits, "k": args.k, "most": most, "steady": steady, "memory_mib": server.resident_mib() }),
    )
}

fn bodies(queries: &Codes, k: usize) -> Vec<String> {
    let packed = queries.to_packed(BitOrder::Lsb);
    let hex =
        |code: &[u8]| code.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let body = |code: &[u8]| json!({ "query": { "code": hex(code) }, "k": k }).to_string();
    packed.chunks_exact(queries.bits().bytes()).map(body).collect()
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
