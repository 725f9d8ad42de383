//! `crosshash search`: the nearest items of an index, or of a trained run.

mod by_words;
pub(in crate::command) mod items;
mod output;
mod queries;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use crosshash::RunDir;
use crosshash_codes::Cancel;
use crosshash_codes::index::{Query, Rank};
use crosshash_codes::segments::{CANDIDATES, Ranking, Snapshot, is_index};

use self::items::Content;
use crate::code_args::CodeArgs;
use crate::progress::{Progress, say};
use crate::weight_paths::WeightPaths;
use crate::word_ranking::By;

/// Below this number of queries a linear scan is faster than building hash tables.
const MANY_QUERIES: usize = 2000;

const EXAMPLES: &str = "\
Examples:
  The ten nearest items of every query, as a table, as JSON, as arrays:
    crosshash search photos.index --codes q.npy -k 10
    crosshash search photos.index --codes q.npy -k 10 --json
    crosshash search photos.index --codes q.npy -k 10 --out neighbours.npz

  All items within 3 bits; only items with some labels; the second page:
    crosshash search photos.index --codes q.npy --radius 3
    crosshash search photos.index --codes q.npy --filter 'label in (3, 7) and not label in (5)'
    crosshash search photos.index --codes q.npy -k 10 --skip 10

  A text, a picture or a drawing as query, against another modality of a trained run:
    crosshash search run --text \"a dog on the beach\" --target image
    crosshash search run --image cat.jpg --target words
    crosshash search run --drawing sketch.png --target picture

  Items whose texts contain the words, fused with the nearest ones:
    crosshash search run --text \"red heart\" --target picture --by both

  Real-valued queries (one value per bit); by Hamming distance alone; by price and date:
    crosshash search photos.index --rerank outputs.npy -k 10
    crosshash search run --text \"a dog\" --rank hamming
    crosshash search run --text \"a dog\" --filter 'price < 20 and added >= 2024-05-01'

Ranks:   outputs: cosine of the query with the stored outputs of the items; asymmetric: cosine with
         their codes; hamming: distance alone. The first two re-rank the --candidates nearest items
         by distance, and all items as near as the last of these; the others follow by distance.
Filters: label in (3, cat, 'red car'), label not in (..), label = 3, id in (..), id != x, and, or,
         not, parentheses; fields of the items: brand = \"x\", price <= 20, added > 2024-05-01,
         tags contains y, `odd name` in (1, 2), exists(price).
Results: exact; ties are sorted by distance, then by the number in the index, so that pages (--skip)
         neither overlap nor omit items. Exit code 1 if nothing was found.";

/// Find the nearest items by Hamming distance.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of an index, or of a run created by `train`.
    place: PathBuf,

    /// Codes of the queries: .npy, .codes, .faiss or .jsonl.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "input", "rerank"])]
    codes: Option<PathBuf>,

    /// Real-valued queries (.npy, one value per bit).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "input"])]
    rerank: Option<PathBuf>,

    /// Text to encode with the model of the run; can be repeated.
    #[arg(long, value_name = "TEXT")]
    text: Vec<String>,

    /// Picture to encode with the model of the run (JPEG, PNG, WebP, GIF, BMP, TIFF, SVG); can be
    /// repeated.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "input", "codes", "rerank"])]
    image: Vec<PathBuf>,

    /// Drawing, dark on white, to encode with the model of the run; can be repeated.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "input", "codes", "rerank", "image"])]
    drawing: Vec<PathBuf>,

    /// Items to encode with the model of the run: features, texts (one per line), or pictures (a
    /// folder, a zip, a tar, a list).
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    input: Option<PathBuf>,

    /// Rank by meaning (codes), by the words of the items' texts, or by both; with --text [default:
    /// meaning].
    #[arg(long, value_name = "RANKING", requires = "text")]
    by: Option<By>,

    /// Modality of the queries [default: the only one that accepts them].
    #[arg(long, value_name = "NAME")]
    modality: Option<String>,

    /// Modality to search in a run [default: the only other one].
    #[arg(long, value_name = "NAME")]
    target: Option<String>,

    /// Maximum results per query [default: 10, or unlimited with --radius].
    #[arg(short, value_name = "K")]
    k: Option<usize>,

    /// Only results within this Hamming distance.
    #[arg(long, value_name = "R")]
    radius: Option<u32>,

    /// Only items that match this expression.
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,

    /// Skip this many results (paging).
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: usize,

    /// Score that orders the results: hamming, asymmetric or outputs [default: the best that the
    /// index and the queries support].
    #[arg(long, value_name = "RANK")]
    rank: Option<Rank>,

    /// Number of nearest items that the score re-ranks, at least.
    #[arg(long, value_name = "N", default_value_t = CANDIDATES)]
    candidates: usize,

    /// Search algorithm: scan, mih, mih-lean, mih-distinct, mih-distinct-compact, cluster-lists,
    /// tree, tree-compact or auto. All return the same results.
    #[arg(long, value_name = "KIND", default_value = "auto")]
    index: String,

    /// Memory that codes and search structures may take, e.g. 500M or 2G; `auto` chooses by it.
    #[arg(long, value_name = "BYTES", value_parser = crate::memory::parse_bytes)]
    memory: Option<u64>,

    /// Print JSON.
    #[arg(long, conflicts_with = "out")]
    json: bool,

    /// Write the arrays `ids`, `distances` and `items` (queries x k; missing results are -1 or
    /// empty).
    #[arg(long, value_name = "FILE.npz")]
    out: Option<PathBuf>,

    #[command(flatten)]
    layout: CodeArgs,

    #[command(flatten)]
    weight_paths: WeightPaths,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(out) = &args.out
        && out.extension().is_none_or(|ending| ending != "npz")
    {
        bail!("--out {}: the file name must end in .npz", out.display());
    }
    let (snapshot, queries, content, encoder) = if is_index(&args.place) {
        let snapshot = Snapshot::open(&args.place)?;
        let queries = queries::for_index(args, &snapshot)?;
        (snapshot, queries, Content::of_index(), None)
    } else if RunDir::is_run(&args.place) {
        let (snapshot, queries, content, encoder) = queries::for_run(args)?;
        by_words::report_unknown(args, &encoder)?;
        (snapshot, queries, content, Some(encoder))
    } else {
        bail!(
            "{} is neither the folder of an index (`crosshash index build`) nor of a finished run \
             (`crosshash train`)",
            args.place.display()
        );
    };
    let count = queries.codes.len();
    prepare(args, &snapshot, count)?;
    let fields = content.fields();
    let allowed = args
        .filter
        .as_deref()
        .map(|text| snapshot.filter_with(text, &fields, &Cancel::default()));
    let allowed = allowed.transpose()?;
    let k = args.k.unwrap_or(if args.radius.is_some() { usize::MAX } else { 10 });
    let (radius, skip) = (args.radius, args.skip);
    let query = Query { radius, skip, allowed: allowed.as_ref(), ..Query::nearest(k) };
    let progress = Progress::new("searching", count);
    let done = |done| progress.set(done);
    let rank = args.rank.unwrap_or_else(|| snapshot.best_rank(queries.reals.is_some()));
    let ranking = Ranking { rank, candidates: args.candidates };
    let by = args.by.filter(|by| *by != By::Meaning);
    let (found, reasons) = if let (Some(by), Some(encoder)) = (by, &encoder) {
        by_words::search(args, by, encoder, &snapshot, &queries, ranking, &query)?
    } else {
        let reals = queries.reals_or_signs();
        let found = snapshot
            .search_ranked(&queries.codes, &reals, ranking, &query, &done)
            .context("--rank")?;
        (found, Vec::new())
    };
    drop(progress);
    let results =
        output::Results { snapshot: &snapshot, content: &content, rank, reasons: &reasons };
    results.print(args, &queries.names, &found)?;
    let nothing = found.iter().all(Vec::is_empty);
    Ok(if nothing { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Builds the selected index; with `auto` only for enough queries that it pays off.
fn prepare(args: &Args, snapshot: &Snapshot, queries: usize) -> Result<()> {
    let mut kind = args.index.clone();
    if let Some(bytes) = args.memory {
        if kind != "auto" {
            bail!("--memory: only --index auto chooses by memory, not {kind}");
        }
        kind = format!("auto:{}", bytes / snapshot.len().max(1) as u64);
    }
    if args.index == "auto" && queries < MANY_QUERIES {
        kind = "scan".into();
    }
    let progress = Progress::new("building the search structure", snapshot.len());
    snapshot.prepare(&kind, &|done| progress.set(done)).context("--index")?;
    drop(progress);
    if kind != "scan" {
        snapshot.explain()?.iter().for_each(say);
    }
    Ok(())
}
