//! `crosshash store search`: the nearest items of a table.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use crosshash::encode::signs;
use crosshash::payload::field_to_json;
use crosshash::{Encoder as _, QueryEncoder, QueryKind, RunDir};
use crosshash_codes::{Bits, Codes, exchange};
use serde_json::{Map, Value, json};

use super::open_complete;
use crate::code_args::CodeArgs;
use crate::store::{
    Description, HitColumns, RowKeys, StoreHit, StoreQuery, StoreRow, parse_filter,
};
use crate::weight_paths::WeightPaths;

const EXAMPLES: &str = "\
Examples:
    crosshash store search postgresql://localhost/shop?table=photos --codes q.npy -k 10
    crosshash store search clickhouse://localhost/default --codes q.npy --radius 3 --json
    crosshash store search postgresql://localhost/shop --run run --text \"a dog\" --filter 'price < 20'

Results are exact and ordered as by `crosshash search --rank hamming`: by distance, then by the number
of the item. Filters are evaluated by the database. --approximate uses pgvector's HNSW index, which may
miss items. Exit code 1 if nothing was found.";

/// Find the nearest items in a table.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Address of the store; see `crosshash store --help`.
    url: String,

    /// Codes of the queries: .npy, .codes, .faiss or .jsonl.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "image"])]
    codes: Option<PathBuf>,

    /// Folder of the run whose model encodes --text and --image.
    #[arg(long, value_name = "RUN")]
    run: Option<PathBuf>,

    /// Text to encode; can be repeated.
    #[arg(long, value_name = "TEXT", requires = "run")]
    text: Vec<String>,

    /// Picture to encode; can be repeated.
    #[arg(long, value_name = "FILE", requires = "run", conflicts_with = "text")]
    image: Vec<PathBuf>,

    /// Modality of the queries [default: the only one that accepts them].
    #[arg(long, value_name = "NAME")]
    modality: Option<String>,

    /// Maximum results per query [default: 10, or unlimited with --radius].
    #[arg(short, value_name = "K")]
    k: Option<usize>,

    /// Only results within this Hamming distance.
    #[arg(long, value_name = "R")]
    radius: Option<u32>,

    /// Only items that match this expression; see `crosshash search --help`.
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,

    /// Skip this many results (paging).
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: usize,

    /// Use pgvector's HNSW index: faster, may miss items.
    #[arg(long)]
    approximate: bool,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    layout: CodeArgs,

    #[command(flatten)]
    weight_paths: WeightPaths,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let (mut store, description) = open_complete(&args.url)?;
    if args.approximate && !description.hnsw {
        bail!("--approximate: the table has no HNSW index; push with --hnsw (PostgreSQL)");
    }
    let filter = args.filter.as_deref().map(|text| parse_filter(&description, text));
    let filter = filter.transpose()?;
    let (codes, names) = queries(args, &description)?;
    let k = args.k.unwrap_or(if args.radius.is_some() { usize::MAX } else { 10 });
    let mut out = std::io::stdout().lock();
    let (mut all, mut nothing) = (Vec::new(), true);
    for (nth, name) in names.iter().enumerate() {
        let query = StoreQuery {
            code: codes.code(nth).to_vec(),
            k,
            skip: args.skip,
            radius: args.radius,
            filter: filter.clone(),
            ties: false,
            approximate: args.approximate,
            columns: HitColumns::Ids,
        };
        let place = store.place().to_owned();
        let hits = store.search(&description, &query).context(place)?;
        nothing &= hits.is_empty();
        let ids: Vec<String> = hits.iter().map(|hit| hit.id.clone()).collect();
        let rows = store.read(&description, RowKeys::Ids(&ids))?.into_iter();
        let rows: HashMap<String, StoreRow> =
            rows.map(|row| (row.id.clone(), row)).collect();
        let shown: Vec<Value> =
            hits.iter().map(|hit| to_json(&description, hit, rows.get(&hit.id))).collect();
        if args.json {
            all.push(json!({ "query": name, "hits": shown }));
            continue;
        }
        if nth > 0 {
            writeln!(out)?;
        }
        writeln!(out, "query {name}")?;
        table(&mut out, args.skip, &shown)?;
    }
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
    }
    Ok(if nothing { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// The codes of the queries and their names.
fn queries(args: &Args, description: &Description) -> Result<(Codes, Vec<String>)> {
    let bits = Bits::new(description.bits)?;
    let (codes, names) = if let Some(path) = &args.codes {
        let mut options = args.layout.options()?;
        options.bits = options.bits.or(Some(bits));
        let file = (exchange::format_of(path).context("--codes")?.read)(path, &options)?;
        let name = |at: usize| match &file.ids {
            Some(ids) => ids.get(at).to_string(),
            None => at.to_string(),
        };
        let names = (0..file.codes.len()).map(name).collect();
        (file.codes, names)
    } else {
        encoded(args)?
    };
    if codes.bits() != bits {
        bail!(
            "the queries have {} bits, the table {bits}: encode both by one model",
            codes.bits()
        );
    }
    Ok((codes, names))
}

fn encoded(args: &Args) -> Result<(Codes, Vec<String>)> {
    let Some(run) = &args.run else {
        bail!("no queries: specify --codes FILE, or --run RUN with --text or --image");
    };
    let encoder = QueryEncoder::open(&RunDir::open(run)?, &args.weight_paths.weights())?;
    let named = args.modality.as_deref();
    let (modality, features, names) = if !args.text.is_empty() {
        let modality = encoder
            .select_modality(named, QueryKind::Text)
            .context("--modality")?
            .to_owned();
        let features = encoder.texts(&modality, &args.text)?;
        (modality, features, args.text.clone())
    } else if !args.image.is_empty() {
        let modality = encoder
            .select_modality(named, QueryKind::Picture)
            .context("--modality")?
            .to_owned();
        let files = args.image.iter().map(|path| Ok(fs_err::read(path)?));
        let features = encoder.pictures(&modality, files.collect::<Result<_>>()?)?;
        let names = args.image.iter().map(|path| path.display().to_string()).collect();
        (modality, features, names)
    } else {
        bail!("no queries: specify --text or --image");
    };
    let model = encoder.model();
    let outputs = model.outputs(&modality, features, &|_| ())?;
    Ok((signs(model.bits(), &outputs)?, names))
}

fn to_json(description: &Description, hit: &StoreHit, row: Option<&StoreRow>) -> Value {
    let id = match hit.id.parse::<u64>() {
        Ok(number) if description.numbers => json!(number),
        _ => json!(hit.id),
    };
    let name = |label: &u32| {
        let names = &description.label_names;
        names.get(*label as usize).cloned().unwrap_or_else(|| label.to_string())
    };
    let labels: Vec<String> =
        row.map(|row| row.labels.iter().map(name).collect()).unwrap_or_default();
    let fields = row.into_iter().flat_map(|row| &row.fields);
    let meta: Map<String, Value> =
        fields.map(|(name, value)| (name.clone(), field_to_json(value))).collect();
    json!({ "id": id, "distance": hit.distance, "labels": labels, "meta": meta })
}

fn table(out: &mut impl std::io::Write, skip: usize, hits: &[Value]) -> Result<()> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let ids: Vec<String> = hits.iter().map(|hit| text(&hit["id"])).collect();
    let width = ids.iter().map(|id| id.chars().count()).max().unwrap_or(0).max(4);
    writeln!(out, "rank  {:<width$}  distance  labels; fields", "id")?;
    for (rank, (hit, id)) in hits.iter().zip(&ids).enumerate() {
        let labels = hit["labels"].as_array().into_iter().flatten();
        let labels = labels.map(text).collect::<Vec<_>>().join(", ");
        let fields = hit["meta"].as_object().into_iter().flatten();
        let fields = fields.map(|(name, value)| format!("{name}={}", text(value)));
        let fields = fields.collect::<Vec<_>>().join(", ");
        let mut shown = vec![labels, fields];
        shown.retain(|text| !text.is_empty());
        let line = format!(
            "{:>4}  {id:<width$}  {:>8}  {}",
            rank + 1 + skip,
            hit["distance"].to_string(),
            shown.join("; ")
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
