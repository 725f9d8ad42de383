//! `crosshash-bench search`: our indexes compared with FAISS and USearch, on the same codes in the same run.

mod learned;
mod made;
mod measure;

pub(super) use made::{Data, make};

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use crosshash_codes::{BitOrder, Bits, Codes, npy};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::peer::{self, Peer};
use crosshash_cli::progress::say;

/// Graphs of more items take hours to build.
const MOST_FOR_HNSW: usize = 1_000_000;

const EXAMPLES: &str = "\
Examples:
  A million codes, one thread, against FAISS flat and IVF (some minutes):
    crosshash-bench search

  One corner of it; ten million codes; everything (an hour, most of it FAISS's):
    crosshash-bench search --bits 64 --data clustered --batch 100 -k 10
    crosshash-bench search --items 10000000 --peers flat
    crosshash-bench search --full

  Codes that models learned, against all peers; codes of a run, queries of the other modality:
    crosshash-bench search --data learned --bits 64 -k 10 --peers flat,ivf,hnsw,usearch-exact
    crosshash-bench search --codes RUN/codes/database.image.codes,RUN/codes/query.text.codes

Codes are made by --seed. random: all bits by chance. clustered: a thousand items around each
centre, 8 % of the bits flipped; so the tenth neighbour is at distance 3, as the median is in 64-bit
JCCH codes of IAPR TC-12. learned: jcch and jcch+ trained on 20,000 synthetic items with correlated
labels encode further items, pictures as the database and texts as queries; the codes are kept in --cache.
Queries of other codes are drawn like the database. Times are CPU times, the best of
some rounds; single queries are asked one by one through all of them. FAISS and USearch run through
python3 if they are installed; approximate peers with the cheapest setting that reaches a recall of 0.95,
by distance (IVF nprobe, HNSW efSearch, MultiHash nflip). `ratio` is FAISS flat's CPU time over the row's.";

/// Compare search with FAISS and USearch: queries per second, CPU time, recall, build time, memory.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Code lengths.
    #[arg(long, value_name = "R,R,..", value_delimiter = ',', default_values_t = [64, 128])]
    bits: Vec<usize>,
    /// Numbers of items.
    #[arg(long, value_name = "N,N,..", value_delimiter = ',', default_values_t = [1_000_000])]
    items: Vec<usize>,
    /// Distribution of the codes.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Data::Random, Data::Clustered])]
    data: Vec<Data>,
    /// Queries per batch.
    #[arg(long, value_name = "N,N,..", value_delimiter = ',', default_values_t = [1, 100, 1000])]
    batch: Vec<usize>,
    /// Hits per query.
    #[arg(short, value_name = "K,K,..", value_delimiter = ',', default_values_t = [10, 100])]
    k: Vec<usize>,
    /// Threads (--threads of the program is not used here).
    #[arg(long, value_name = "N,N,..", value_delimiter = ',', default_values_t = [1])]
    search_threads: Vec<usize>,
    /// Peers: flat, ivf, hnsw, multihash (FAISS), usearch-exact, usearch-hnsw. hnsw takes minutes per million to
    /// build.
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', default_values_t = ["flat".to_owned(), "ivf".to_owned()])]
    peers: Vec<String>,
    /// Our indexes.
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', default_values_t = ["scan".to_owned(), "mih-lean".to_owned(), "mih".to_owned(), "tree".to_owned(), "auto".to_owned()])]
    indexes: Vec<String>,
    /// Measure these codes instead: database and queries, as .npy (packed) or .codes; without queries, the
    /// last codes of the database.
    #[arg(long, value_name = "FILE[,FILE]", value_delimiter = ',', num_args = 1..=2)]
    codes: Vec<std::path::PathBuf>,
    /// Folder in which learned codes are kept.
    #[arg(long, value_name = "DIR", default_value = "target/learned-codes")]
    cache: std::path::PathBuf,
    /// Everything: 10^6 and 10^7 items, 1 and 2 threads, HNSW at 10^6.
    #[arg(long)]
    full: bool,
    /// Do not run FAISS.
    #[arg(long)]
    no_peer: bool,
    /// Seed of the data.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

/// Where the codes of a case come from.
enum Source {
    Made(Data, Bits, usize),
    Learned(&'static str, Bits, usize),
    Files,
}

/// Everything to measure, with names.
fn cases(args: &Args, items: &[usize]) -> Result<Vec<(String, Source)>> {
    if let Some(path) = args.codes.first() {
        return Ok(vec![(format!("codes of {}", path.display()), Source::Files)]);
    }
    let mut cases = Vec::new();
    for &n in items {
        for &bits in &args.bits {
            let bits = Bits::new(bits)?;
            for &data in &args.data {
                let name = |what: &str| format!("{bits} bits, {n} {what} codes");
                if let Data::Learned = data {
                    for method in ["jcch", "jcch+"] {
                        let source = Source::Learned(method, bits, n);
                        cases.push((name(&format!("{method} learned")), source));
                    }
                } else {
                    cases.push((name(data.name()), Source::Made(data, bits, n)));
                }
            }
        }
    }
    Ok(cases)
}

/// The codes of --codes, and their queries.
fn from_files(args: &Args, n_queries: usize) -> Result<(Codes, Codes)> {
    let read = |path: &std::path::PathBuf| {
        let bits = args.bits.first().map(|&bits| Bits::new(bits)).transpose()?;
        learned::open(path, bits.context("--bits is needed")?)
    };
    let first = args.codes.first().context("--codes needs a file")?;
    let database = read(first)?;
    if let Some(path) = args.codes.get(1) {
        return Ok((database, read(path)?));
    }
    let kept = database.len().saturating_sub(n_queries);
    ensure!(kept > 0, "{}: fewer codes than queries of --batch", first.display());
    let last: Vec<usize> = (kept..database.len()).collect();
    let words = database.words()[..kept * database.bits().words()].to_vec();
    let queries = database.select(&last);
    Ok((Codes::from_words(database.bits(), words)?.shared(), queries))
}

/// The rows of the peers, library by library.
fn theirs(
    case: &str,
    database: &Codes,
    queries: &Codes,
    truth: &[Vec<u32>],
    grid: &measure::Grid<'_>,
    peers: &[String],
) -> Result<Vec<Row>> {
    let small = |name: &&String| !name.ends_with("hnsw") || database.len() <= MOST_FOR_HNSW;
    let (usearch, faiss): (Vec<&String>, Vec<&String>) =
        peers.iter().filter(small).partition(|name| name.starts_with("usearch"));
    let mut rows = Vec::new();
    for (module, names) in [("faiss", faiss), ("usearch", usearch)] {
        if names.is_empty() {
            continue;
        }
        say(format_args!("running {module} {names:?} on {case}"));
        let folder = tempfile::tempdir()?;
        let path = |name: &str| folder.path().join(name);
        npy::write_packed(&path("d.npy"), database, BitOrder::Lsb)?;
        npy::write_packed(&path("q.npy"), queries, BitOrder::Lsb)?;
        let ask = json!({
            "peers": names, "threads": grid.threads, "batch": grid.batch, "k": grid.k,
            "truth": truth,
        });
        fs_err::write(path("ask.json"), serde_json::to_vec(&ask)?)?;
        let script = include_str!("../peers/search.py");
        match peer::run(script, &[folder.path()], module, grid.threads[0])? {
            Peer::Missing(why) => say(format_args!("no peer: {why}")),
            Peer::Ran(answer) => rows.extend(serde_json::from_value::<Vec<Row>>(answer)?),
        }
    }
    Ok(rows)
}

/// One row of the table.
#[derive(Clone, Serialize, Deserialize)]
struct Row {
    index: String,
    threads: usize,
    batch: usize,
    k: usize,
    /// Queries per second (wall time).
    queries_per_second: f64,
    /// CPU microseconds per query.
    cpu_us: f64,
    recall: f64,
    build_seconds: f64,
    bytes_per_item: f64,
    #[serde(default)]
    note: String,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let largest = args.batch.iter().copied().max().unwrap_or(0);
    ensure!(largest > 0, "--batch: at least one query is needed");
    ensure!(args.items.iter().all(|&n| n >= 1000), "--items: at least 1000 are needed");
    ensure!(args.k.iter().all(|&k| k > 0), "-k: at least one hit is needed");
    let (mut items, mut threads, mut peers) =
        (args.items.clone(), args.search_threads.clone(), args.peers.clone());
    if args.full {
        items = vec![1_000_000, 10_000_000];
        threads = vec![1, 2];
        peers = ["flat", "ivf", "hnsw", "usearch-hnsw"].map(str::to_owned).to_vec();
    }
    let bandwidth: Vec<(usize, f64)> =
        threads.iter().map(|&n| (n, measure::bandwidth(n))).collect();
    let mut out = std::io::stdout().lock();
    for &(threads, gigabytes) in &bandwidth {
        if args.json {
            writeln!(
                out,
                "{}",
                json!({ "threads": threads, "memory_gb_per_s": gigabytes })
            )?;
        } else {
            writeln!(out, "memory read by {threads} threads: {gigabytes:.1} GB/s")?;
        }
    }
    let grid = measure::Grid { threads: &threads, batch: &args.batch, k: &args.k };
    for (name, source) in cases(args, &items)? {
        say(format_args!("making {name}"));
        let (database, queries) = match source {
            Source::Made(data, bits, n) => make(data, bits, n, largest, args.seed)?,
            Source::Learned(method, bits, n) => {
                // a round number, so that runs with other batches find the same file
                let n_queries = largest.next_multiple_of(1000);
                learned::learned(method, bits, n, n_queries, args.seed, &args.cache)?
            }
            Source::Files => from_files(args, largest)?,
        };
        let bits = database.bits();
        let (mut rows, truth) = measure::ours(&args.indexes, &database, &queries, &grid)?;
        if !args.no_peer {
            rows.extend(theirs(&name, &database, &queries, &truth, &grid, &peers)?);
        }
        print(&mut out, args.json, &name, &rows, &bandwidth, bits)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One table per case, rows of one setting together.
fn print(
    out: &mut impl std::io::Write,
    as_json: bool,
    case: &str,
    rows: &[Row],
    bandwidth: &[(usize, f64)],
    bits: Bits,
) -> Result<()> {
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by_key(|row| (row.threads, row.k, row.batch));
    if !as_json {
        writeln!(out, "\n{case}")?;
        writeln!(
            out,
            "{:>7} {:>5} {:>5}  {:<14}{:>12}{:>12}{:>9}{:>8}{:>9}{:>9}  note",
            "threads",
            "batch",
            "k",
            "index",
            "queries/s",
            "cpu us/q",
            "ratio",
            "recall",
            "build s",
            "bytes/it"
        )?;
    }
    for row in sorted {
        let same = |other: &&Row| {
            other.index == "faiss flat"
                && (other.threads, other.k, other.batch) == (row.threads, row.k, row.batch)
        };
        let ratio = rows.iter().find(same).map(|flat| flat.cpu_us / row.cpu_us);
        let mut note = row.note.clone();
        let reads = bandwidth.iter().find(|(threads, _)| *threads == row.threads);
        if let (1, "scan", Some((_, most))) = (row.batch, row.index.as_str(), reads) {
            let n: f64 = case.split(' ').nth(2).and_then(|n| n.parse().ok()).unwrap_or(0.0);
            let per_cpu_second = 1e6 / row.cpu_us * row.threads as f64;
            let read = per_cpu_second * n * bits.words() as f64 * 8e-9;
            note = format!("reads {read:.1} of {most:.1} GB/s");
        }
        if as_json {
            let mut value = serde_json::to_value(row)?;
            value["case"] = json!(case);
            value["ratio"] = json!(ratio);
            value["note"] = json!(note);
            writeln!(out, "{value}")?;
            continue;
        }
        writeln!(
            out,
            "{:>7} {:>5} {:>5}  {:<14}{:>12.0}{:>12.1}{:>9}{:>8.3}{:>9.2}{:>9.1}  {note}",
            row.threads,
            row.batch,
            row.k,
            row.index,
            row.queries_per_second,
            row.cpu_us,
            ratio.map_or("-".into(), |ratio| format!("{ratio:.1}")),
            row.recall,
            row.build_seconds,
            row.bytes_per_item
        )?;
    }
    out.flush()?;
    Ok(())
}
