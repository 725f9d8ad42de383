//! `crosshash search`: the nearest items of an index, or of a trained run.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use crosshash::encode::Encoder as _;
use crosshash_codes::format::{CodeFile, Id};
use crosshash_codes::index::Query;
use crosshash_codes::read;
use crosshash_codes::segments::{Found, Snapshot, Writer, is_index};
use crosshash_codes::{Codes, exchange};
use serde_json::{Value, json};

use crate::asking::{Asker, Form};
use crate::code_args::CodeArgs;
use crate::directions::CODES;
use crate::npz::{self, Array};
use crate::opening::Extracting;
use crate::places::Places;
use crate::progress::{Progress, say};

/// Below so many queries a scan ends before hash tables would be built.
const MANY_QUERIES: usize = 2000;

const EXAMPLES: &str = "\
Examples:
  The ten nearest items of every query, as a table, as JSON, as arrays:
    crosshash search photos.index --codes q.npy -k 10
    crosshash search photos.index --codes q.npy -k 10 --json
    crosshash search photos.index --codes q.npy -k 10 --out neighbours.npz

  Everything within 3 bits; only items of some labels; the second page:
    crosshash search photos.index --codes q.npy --radius 3
    crosshash search photos.index --codes q.npy --filter 'label in (3, 7) and not label in (5)'
    crosshash search photos.index --codes q.npy -k 10 --skip 10

  Words, a picture or a drawing against the other modalities of a trained run:
    crosshash search run --text \"a dog on the beach\" --target image
    crosshash search run --image cat.jpg --target words
    crosshash search run --drawing sketch.png --target picture

  Candidates by Hamming distance, ranked by real-valued queries (one value a bit):
    crosshash search photos.index --rerank outputs.npy -k 10 --candidates 200

Filters: label in (3, cat, 'red car'), label not in (..), label = 3, id in (..), id != x, and, or,
         not, brackets. Names of labels where the index has them.
Answers: exact. Nearest first; items at one distance by their number in the index, so that pages
         (--skip) neither overlap nor miss anything. Exit code 1 if nothing was found.";

/// Find the nearest items by Hamming distance.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder of an index, or of a run that `train` made.
    place: PathBuf,

    /// Codes of the queries: .npy, .codes, .faiss or .jsonl.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "input", "rerank"])]
    codes: Option<PathBuf>,

    /// Real-valued queries, .npy, one value a bit: candidates are ranked by them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "input"])]
    rerank: Option<PathBuf>,

    /// A text to encode by the run's model; may be given several times.
    #[arg(long, value_name = "TEXT")]
    text: Vec<String>,

    /// A picture to encode by the run's model (JPEG, PNG, WebP, GIF, BMP, TIFF, SVG); may be
    /// given several times.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "input", "codes", "rerank"])]
    image: Vec<PathBuf>,

    /// A drawing, dark on white, to encode by the run's model; may be given several times.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "input", "codes", "rerank", "image"])]
    drawing: Vec<PathBuf>,

    /// Items to encode by the run's model: rows of numbers, texts (one a line), or pictures (a
    /// folder, a zip, a tar, a list).
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    input: Option<PathBuf>,

    /// The modality of the queries (default: the run's only one that fits).
    #[arg(long, value_name = "NAME")]
    modality: Option<String>,

    /// The modality to search in a run (default: the only other one).
    #[arg(long, value_name = "NAME")]
    target: Option<String>,

    /// How many hits (default: 10, or all within --radius).
    #[arg(short, value_name = "K")]
    k: Option<usize>,

    /// Only hits at most so many bits away.
    #[arg(long, value_name = "R")]
    radius: Option<u32>,

    /// Only items for which this holds.
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,

    /// Leave out so many of the first hits: the next page.
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: usize,

    /// How many candidates real-valued queries rank.
    #[arg(long, value_name = "N", default_value_t = 100)]
    candidates: usize,

    /// Rank the candidates of a run by the model's real outputs too.
    #[arg(long)]
    asymmetric: bool,

    /// How to search: scan, mih, mih-lean, balls or auto; all give the same hits.
    #[arg(long, value_name = "KIND", default_value = "auto")]
    index: String,

    /// Print JSON.
    #[arg(long, conflicts_with = "out")]
    json: bool,

    /// Write arrays `ids`, `distances`, `items` (queries x k; -1 or empty where there are fewer).
    #[arg(long, value_name = "FILE.npz")]
    out: Option<PathBuf>,

    #[command(flatten)]
    layout: CodeArgs,

    #[command(flatten)]
    places: Places,
}

/// What is searched for.
enum Asked {
    Codes(Codes),
    Reals(Vec<f32>),
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(out) = &args.out
        && out.extension().is_none_or(|ending| ending != "npz")
    {
        bail!("--out {}: name a file that ends in .npz", out.display());
    }
    let mut kept = None; // the folder of a temporary index, as long as it is searched
    let (mut snapshot, asked) = if is_index(&args.place) {
        let snapshot = Snapshot::open(&args.place)?;
        let asked = asked_of_index(args, &snapshot)?;
        (snapshot, asked)
    } else if args.place.join(CODES).is_dir() {
        let (snapshot, folder, asked) = run_and_queries(args)?;
        kept = Some(folder);
        (snapshot, asked)
    } else {
        bail!(
            "{} is neither the folder of an index (`crosshash index build`) nor of a finished run \
             (`crosshash train`)",
            args.place.display()
        );
    };
    let count = match &asked {
        Asked::Codes(codes) => codes.len(),
        Asked::Reals(values) => values.len() / snapshot.bits().get(),
    };
    prepare(args, &mut snapshot, count)?;
    let allowed = args.filter.as_deref().map(|text| snapshot.filter(text)).transpose()?;
    let k = args.k.unwrap_or(if args.radius.is_some() { usize::MAX } else { 10 });
    let query =
        Query { k, radius: args.radius, skip: args.skip, allowed: allowed.as_ref() };
    let progress = Progress::new("searching", count);
    let found = match asked {
        Asked::Codes(codes) => {
            snapshot.search(&codes, &query, &|done| progress.set(done))?
        }
        Asked::Reals(values) => {
            snapshot.search_reals(&values, args.candidates, &query, &|done| {
                progress.set(done);
            })?
        }
    };
    drop((progress, kept));
    print(args, &snapshot, &found)?;
    let nothing = found.iter().all(Vec::is_empty);
    Ok(if nothing { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Builds what was asked for; by default only for so many queries that it pays.
fn prepare(args: &Args, snapshot: &mut Snapshot, queries: usize) -> Result<()> {
    let kind = if args.index == "auto" && queries < MANY_QUERIES {
        "scan"
    } else {
        args.index.as_str()
    };
    let progress = Progress::new("building hash tables", snapshot.len());
    snapshot.prepare(kind, &|done| progress.set(done)).context("--index")?;
    drop(progress);
    if kind != "scan" {
        snapshot.explain().iter().for_each(say);
    }
    Ok(())
}

fn asked_of_index(args: &Args, snapshot: &Snapshot) -> Result<Asked> {
    if wanted_form(args).is_some() || args.input.is_some() {
        bail!(
            "--text, --image, --drawing and --input need a model: name the folder of a run instead of an index, or \
             encode them first (`crosshash encode`) and search by --codes"
        );
    }
    if let Some(path) = &args.rerank {
        return Ok(Asked::Reals(read::reals(path, snapshot.bits())?));
    }
    let path = args.codes.as_deref().context("name the queries: --codes FILE")?;
    let mut options = args.layout.options()?;
    options.bits = options.bits.or(Some(snapshot.bits()));
    let format = exchange::format_of(path).context("--codes")?;
    Ok(Asked::Codes((format.read)(path, &options)?.codes))
}

/// The codes of a run's modality as an index, and queries encoded by its model.
fn run_and_queries(args: &Args) -> Result<(Snapshot, tempfile::TempDir, Asked)> {
    let asker = Asker::open(&args.place, &args.places)?;
    let model = asker.model();
    let asked = encoded(args, &asker)?;
    let target = match &args.target {
        Some(target) => target.clone(),
        None => {
            let modality = query_modality(args, &asker)?;
            let mut others = model.modalities();
            others.retain(|name| *name != modality);
            match others[..] {
                [one] => one.to_owned(),
                _ => bail!("--target: name the modality to search: {}", others.join(", ")),
            }
        }
    };
    let path = args.place.join(CODES).join(format!("database.{target}.codes"));
    if !path.exists() {
        let known = model.modalities().join(", ");
        bail!("--target: {target} is not a modality of the run; there are {known}");
    }
    let file = CodeFile::read(&path)?;
    let folder = tempfile::tempdir()?;
    let index = folder.path().join("index");
    Writer::create(&index, file.codes.bits(), model.labels())?.insert(&file)?;
    Ok((Snapshot::open(&index)?, folder, asked))
}

/// The form of the queries that are typed or named one by one.
fn wanted_form(args: &Args) -> Option<Form> {
    match (args.text.is_empty(), args.image.is_empty(), args.drawing.is_empty()) {
        (false, ..) => Some(Form::Text),
        (_, false, _) => Some(Form::Picture),
        (.., false) => Some(Form::Drawing),
        _ => None,
    }
}

/// The modality of the queries: the one that is named, or the only one that takes their form. A
/// backbone for pictures takes drawings too, if none is made for them, and the other way round.
fn query_modality(args: &Args, asker: &Asker) -> Result<String> {
    if let Some(modality) = &args.modality {
        return Ok(modality.clone());
    }
    let forms: &[Form] = match wanted_form(args) {
        None => &[],
        Some(Form::Picture) => &[Form::Picture, Form::Drawing],
        Some(Form::Drawing) => &[Form::Drawing, Form::Picture],
        Some(_) => &[Form::Text],
    };
    let all = asker.model().modalities();
    let takes = |name: &&str, form: &Form| asker.asks_by(name).contains(form);
    let fit = match forms {
        [] => all,
        forms => forms
            .iter()
            .map(|form| all.iter().copied().filter(|name| takes(name, form)).collect())
            .find(|fit: &Vec<&str>| !fit.is_empty())
            .unwrap_or_default(),
    };
    match fit[..] {
        [one] => Ok(one.to_owned()),
        [] if forms == [Form::Text] => {
            bail!("no modality of the run is text; encode the queries and use --input")
        }
        [] => {
            let every = asker.model().modalities();
            // If weights are missing, this says so.
            for name in &every {
                asker.pictures(name, Vec::new())?;
            }
            bail!("no modality of the run is asked by pictures: {}", every.join(", "))
        }
        _ => bail!("--modality: name the modality of the queries: {}", fit.join(", ")),
    }
}

fn encoded(args: &Args, asker: &Asker) -> Result<Asked> {
    let model = asker.model();
    if let Some(path) = &args.codes {
        let format = exchange::format_of(path).context("--codes")?;
        return Ok(Asked::Codes((format.read)(path, &args.layout.options()?)?.codes));
    }
    if let Some(path) = &args.rerank {
        return Ok(Asked::Reals(read::reals(path, model.bits())?));
    }
    let modality = query_modality(args, asker)?;
    model.preparation(&modality).context("--modality")?;
    let features = match (&args.input, wanted_form(args)) {
        (Some(path), _) => asker.input(&modality, path, &Extracting::default())?.0,
        (None, None) => {
            bail!("name the queries: --text, --image, --drawing, --input or --codes")
        }
        (None, Some(Form::Text)) => {
            if !asker.asks_by(&modality).contains(&Form::Text) {
                bail!("--modality {modality} is not text; use --input");
            }
            asker.text(&modality, &args.text)?
        }
        (None, Some(_)) => {
            let paths = args.image.iter().chain(&args.drawing);
            let files = paths.map(|path| Ok(fs_err::read(path)?)).collect::<Result<_>>()?;
            asker.pictures(&modality, files)?
        }
    };
    let progress = Progress::new("encoding", features.len());
    let outputs = model.outputs(&modality, features, &|done| progress.set(done))?;
    if args.asymmetric {
        return Ok(Asked::Reals(outputs));
    }
    Ok(Asked::Codes(Codes::from_signs(model.bits(), &outputs)?))
}

fn print(args: &Args, snapshot: &Snapshot, found: &[Vec<Found>]) -> Result<()> {
    if let Some(path) = &args.out {
        npz::write(path, &arrays(found))?;
        say(format!("hits of {} queries in {}", found.len(), path.display()));
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        let all: Vec<Value> =
            found.iter().enumerate().map(|(q, hits)| to_json(snapshot, q, hits)).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        return Ok(());
    }
    let widest = found.iter().flatten().map(|found| found.id.to_string().chars().count());
    let width = widest.max().unwrap_or(0).max(4);
    writeln!(out, "query  rank  {:<width$}  distance  labels", "id")?;
    for (q, hits) in found.iter().enumerate() {
        for (rank, found) in hits.iter().enumerate() {
            let id = found.id.to_string();
            let score = found.score.map_or(String::new(), |s| format!("  score {s:.3}"));
            writeln!(
                out,
                "{q:>5}  {:>4}  {id:<width$}  {:>8}  {}{score}",
                rank + 1 + args.skip,
                found.hit.distance,
                labels(snapshot, found).join(", ")
            )?;
        }
    }
    Ok(())
}

fn labels(snapshot: &Snapshot, found: &Found) -> Vec<String> {
    let name = |label: usize| match snapshot.label_names().get(label) {
        Some(name) => name.clone(),
        None => label.to_string(),
    };
    snapshot.labels(found.hit.item).into_iter().map(name).collect()
}

fn to_json(snapshot: &Snapshot, q: usize, hits: &[Found]) -> Value {
    let hit = |found: &Found| {
        let id = match &found.id {
            Id::Number(number) => json!(number),
            Id::Name(name) => json!(name),
        };
        let mut value = json!({
            "id": id,
            "distance": found.hit.distance,
            "labels": labels(snapshot, found),
        });
        if let Some(score) = found.score {
            value["score"] = json!(score);
        }
        value
    };
    json!({ "query": q, "hits": hits.iter().map(hit).collect::<Vec<Value>>() })
}

/// Matrices of as many columns as the longest answer has hits.
fn arrays(found: &[Vec<Found>]) -> Vec<Array> {
    let columns = found.iter().map(Vec::len).max().unwrap_or(0);
    let shape = (found.len(), columns);
    let cells =
        || found.iter().flat_map(move |hits| (0..columns).map(move |rank| hits.get(rank)));
    let named = cells().flatten().any(|found| matches!(found.id, Id::Name(_)));
    let ids = if named {
        let text =
            |found: Option<&Found>| found.map_or(String::new(), |f| f.id.to_string());
        Array::texts("ids", shape, &cells().map(text).collect::<Vec<_>>())
    } else {
        let number = |found: Option<&Found>| match found.map(|found| &found.id) {
            Some(Id::Number(number)) => i64::try_from(*number).unwrap_or(i64::MAX),
            _ => -1,
        };
        let numbers: Vec<i64> = cells().map(number).collect();
        Array::numbers("ids", "<i8", shape, &numbers, i64::to_le_bytes)
    };
    let or_none = |value: Option<u32>| value.map_or(-1, i64::from);
    let distances: Vec<i64> = cells().map(|f| or_none(f.map(|f| f.hit.distance))).collect();
    let items: Vec<i64> = cells().map(|f| or_none(f.map(|f| f.hit.item))).collect();
    let mut arrays = vec![
        ids,
        Array::numbers("distances", "<i8", shape, &distances, i64::to_le_bytes),
        Array::numbers("items", "<i8", shape, &items, i64::to_le_bytes),
    ];
    if cells().flatten().any(|found| found.score.is_some()) {
        let score = |found: Option<&Found>| found.and_then(|f| f.score).unwrap_or(f32::NAN);
        let scores: Vec<f32> = cells().map(score).collect();
        arrays.push(Array::numbers("scores", "<f4", shape, &scores, f32::to_le_bytes));
    }
    arrays
}
