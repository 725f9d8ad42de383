//! `crosshash-bench python`: the cost of Python over Rust, and the package beside the usual Python tools.
//!
//! Three programs do the same on the same files, each in a process of its own: Rust (this program), the
//! package `crosshash` for Python (`peers/python_package.py`), and PyTorch with FAISS and a NumPy evaluation
//! (`peers/python_way.py`). Stages: training, encoding of all items, searches from texts to pictures, MAP.
//! Rust and the package also search a million codes in batches of 1,000 and encode a million rows.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use crosshash::data::{self, Dataset, Dense, Features, Selection, SplitSpec, Texts};
use crosshash::{Config, Modality, encode};
use crosshash_codes::eval::{Options, evaluate};
use crosshash_codes::index::{Index as _, Query, Scan};
use crosshash_codes::segments::{ItemBatch, MemoryIndex, NewIndex};
use crosshash_codes::{Bits, Codes, npy, read};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::peer::{self, Peer};

const PACKAGE: &str = include_str!("peers/python_package.py");
const WAY: &str = include_str!("peers/python_way.py");

const EXAMPLES: &str = "\
Examples:
  IAPR TC-12, against the package (pip install .) and PyTorch with FAISS (pip install torch faiss-cpu):
    crosshash-bench python --data configs/data/iaprtc12.toml --root PATH/iaprtc12 \\
      --image image --text german

  Without data: synthetic features and captions:
    crosshash-bench python";

/// Compare the Python package with Rust, and with PyTorch, FAISS and NumPy.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data set with dense features and texts [default: synthetic].
    #[arg(long, value_name = "DATA")]
    data: Option<PathBuf>,

    /// Folder of its files.
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,

    /// Modality of dense features.
    #[arg(long, default_value = "image")]
    image: String,

    /// Modality of texts.
    #[arg(long, default_value = "text")]
    text: String,

    /// Epochs of training.
    #[arg(long, default_value_t = 5)]
    epochs: usize,

    /// Code length.
    #[arg(long, default_value_t = 64)]
    bits: usize,

    /// Codes to search and rows to encode, in the second part.
    #[arg(long, default_value_t = 1_000_000)]
    items: usize,

    /// Print JSON.
    #[arg(long)]
    json: bool,

    /// Measure Rust in this process (internal).
    #[arg(long, hide = true)]
    measure: Option<PathBuf>,
}

/// The measurements of one program.
#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    who: String,
    fit: f64,
    encode: f64,
    search: f64,
    evaluate: f64,
    map: f64,
    peak_mib: f64,
    /// Of a million items: seconds of ten batches of 1,000 queries, and of encoding.
    #[serde(default)]
    large_search: Option<f64>,
    #[serde(default)]
    large_encode: Option<f64>,
    /// Peak memory while a million rows are encoded, beyond that before, and the size of the rows.
    #[serde(default)]
    encode_extra_mib: Option<f64>,
    #[serde(default)]
    encode_rows_mib: Option<f64>,
}

/// Sizes of both towers' hidden layers.
const HIDDEN: usize = 512;
/// Results per query.
const K: usize = 100;
/// Batches of a thousand queries.
const BATCHES: usize = 10;
/// Width of the rows of the second part.
const WIDTH: usize = 128;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(folder) = &args.measure {
        let measured = measure(args, folder)?;
        writeln!(std::io::stdout().lock(), "{}", serde_json::to_string(&measured)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let folder = tempfile::tempdir()?;
    let (items, queries) = prepare(args, folder.path())?;
    let numbers = [args.epochs, args.bits, HIDDEN, queries, K, args.items, BATCHES, WIDTH];
    let mut arguments = vec![folder.path().display().to_string()];
    arguments.extend(numbers.map(|number| number.to_string()));
    let mut rows: Vec<Measured> = Vec::new();
    let mut own: Vec<String> = vec!["python".into(), "--measure".into()];
    own.push(folder.path().display().to_string());
    for (flag, number) in
        [("--epochs", args.epochs), ("--bits", args.bits), ("--items", args.items)]
    {
        own.extend([flag.to_owned(), number.to_string()]);
    }
    rows.push(peer::this_program(&own)?);
    let threads = rayon::current_num_threads();
    let mut missing = Vec::new();
    for (script, module) in [(PACKAGE, "crosshash"), (WAY, "torch, faiss")] {
        match peer::run(script, &arguments, module, threads)? {
            Peer::Missing(why) => missing.push(why),
            Peer::Ran(answer) => rows.push(serde_json::from_value(answer)?),
        }
    }
    print(args, (items, queries), &rows, &missing)?;
    Ok(ExitCode::SUCCESS)
}

fn print(
    args: &Args,
    (items, queries): (usize, usize),
    rows: &[Measured],
    missing: &[String],
) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if args.json {
        let all =
            json!({ "items": items, "queries": queries, "rows": rows, "missing": missing });
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        return Ok(());
    }
    writeln!(
        out,
        "{items} items, {queries} queries, {} bits, {} epochs; seconds\n",
        args.bits, args.epochs
    )?;
    writeln!(
        out,
        "{:<34}{:>9}{:>9}{:>9}{:>10}{:>8}{:>10}",
        "", "train", "encode", "search", "evaluate", "MAP", "peak MiB"
    )?;
    for row in rows {
        writeln!(
            out,
            "{:<34}{:>9.2}{:>9.3}{:>9.3}{:>10.3}{:>8.4}{:>10.0}",
            row.who, row.fit, row.encode, row.search, row.evaluate, row.map, row.peak_mib
        )?;
    }
    let large = |row: &Measured| Some((row.large_search?, row.large_encode?));
    writeln!(
        out,
        "\n{} codes, {BATCHES} batches of 1,000 queries; rows of {WIDTH}",
        args.items
    )?;
    for row in rows {
        let Some((search, encode)) = large(row) else { continue };
        write!(out, "{:<34} search {search:.3} s, encode {encode:.2} s", row.who)?;
        if let (Some(extra), Some(size)) = (row.encode_extra_mib, row.encode_rows_mib) {
            write!(out, " (rows {size:.0} MiB, peak beyond them {extra:.0} MiB)")?;
        }
        writeln!(out)?;
    }
    if let [rust, python, ..] = rows {
        let over = |a: f64, b: f64| 100.0 * (b / a - 1.0);
        writeln!(
            out,
            "Python over Rust: train {:+.1} %, search of {} {:+.1} %",
            over(rust.fit, python.fit),
            args.items,
            over(
                rust.large_search.unwrap_or(f64::NAN),
                python.large_search.unwrap_or(f64::NAN)
            )
        )?;
    }
    for why in missing {
        writeln!(out, "not measured: {why}")?;
    }
    Ok(())
}

/// Writes image.npy, texts.txt and labels.npy; the first items are the queries.
fn prepare(args: &Args, folder: &Path) -> Result<(usize, usize)> {
    let dataset = match &args.data {
        None => return synthetic(folder),
        Some(path) => data::open(path, args.root.as_deref())?.dataset,
    };
    let (image, text) = (dataset.modality(&args.image)?, dataset.modality(&args.text)?);
    let (Features::Dense(rows), Features::Text(texts)) =
        (image.features(), text.features())
    else {
        bail!("--image and --text: dense features and texts are needed");
    };
    let at: std::collections::HashMap<&str, usize> =
        text.ids().iter().enumerate().map(|(at, id)| (id.as_str(), at)).collect();
    let mut values = Vec::new();
    let (mut lines, mut labels) = (String::new(), Vec::new());
    let mut row = vec![0.0; rows.width()];
    let mut items = 0;
    for (item, id) in image.ids().iter().enumerate() {
        let Some(&other) = at.get(id.as_str()) else { continue };
        rows.read(item..item + 1, &mut row)?;
        values.extend_from_slice(&row);
        lines += &texts.get(other).replace(['\n', '\r'], " ");
        lines.push('\n');
        let mut dense = vec![0_u8; image.labels().classes()];
        image.labels().indices(item).for_each(|label| dense[label] = 1);
        labels.extend(dense);
        items += 1;
    }
    npy::write_matrix(&folder.join("image.npy"), items, rows.width(), values)?;
    npy::write_matrix(&folder.join("labels.npy"), items, image.labels().classes(), labels)?;
    fs_err::write(folder.join("texts.txt"), lines)?;
    Ok((items, items / 10))
}

fn synthetic(folder: &Path) -> Result<(usize, usize)> {
    let (items, width, classes) = (10_000, 256, 20);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (mut values, mut labels, mut lines) = (Vec::new(), Vec::new(), String::new());
    for item in 0..items {
        let label = item % classes;
        for at in 0..width {
            let shift = if at % classes == label { 2.0 } else { 0.0 };
            values.push(shift + rng.random_range(-1.0_f32..1.0));
        }
        labels.extend((0..classes).map(|one| u8::from(one == label)));
        for _ in 0..8 {
            lines += &format!("word{} ", label * 50 + rng.random_range(0..100_usize));
        }
        lines.push('\n');
    }
    npy::write_matrix(&folder.join("image.npy"), items, width, values)?;
    npy::write_matrix(&folder.join("labels.npy"), items, classes, labels)?;
    fs_err::write(folder.join("texts.txt"), lines)?;
    Ok((items, items / 10))
}

/// The stages in Rust.
fn measure(args: &Args, folder: &Path) -> Result<Measured> {
    let labels = read::labels(&folder.join("labels.npy"))?;
    let image = Features::read(folder.join("image.npy"))?;
    let text = fs_err::read_to_string(folder.join("texts.txt"))?;
    let text = Features::Text(text.lines().collect::<Texts>());
    let dataset = Dataset::from_arrays(&labels, [("image", image), ("text", text)])?;
    let queries = labels.len() / 10;
    let spec =
        SplitSpec { query: Some(Selection::Rows(0, queries)), ..SplitSpec::default() };
    let split = spec.draw_with_validation(&dataset, 0.05)?;
    let settings = format!(
        "bits = {}\nepochs = {}\nhidden = {HIDDEN}\nhidden_sparse = {HIDDEN}\nmethod = \"jcch\"\n",
        args.bits, args.epochs
    );
    let started = Instant::now();
    let fitted = Config::parse(&settings, &[])?.fit(&dataset.training(&split), &mut ())?;
    let model = fitted.context("the training was stopped")?.model;
    let fit = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let part = |name: &str| -> Result<Codes> {
        let features = dataset.modality(name).map(Modality::features)?.clone();
        Ok(encode(&model, name, features, &|_| ())?)
    };
    let (image, text) = (part("image")?, part("text")?);
    let encoding = started.elapsed().as_secs_f64();
    let (first, rest): (Vec<usize>, Vec<usize>) =
        ((0..queries).collect(), (queries..labels.len()).collect());
    let (asked, database) = (text.select(&first), image.select(&rest));
    let started = Instant::now();
    let found = Scan::new(database.clone())?.search(&asked, &Query::nearest(K), &|_| ())?;
    let search = started.elapsed().as_secs_f64();
    anyhow::ensure!(found.len() == queries, "one result per query");
    let started = Instant::now();
    let report = evaluate(
        &asked,
        &database,
        &labels.select(&first),
        &labels.select(&rest),
        &Options::default(),
        &|_| (),
    )?;
    let evaluation = started.elapsed().as_secs_f64();
    let peak_mib = peer::peak_mib().unwrap_or(f64::NAN);
    let (large_search, large_encode) = large(args)?;
    Ok(Measured {
        who: "Rust".into(),
        fit,
        encode: encoding,
        search,
        evaluate: evaluation,
        map: report.map.map_or(f64::NAN, |map| map.stable),
        peak_mib,
        large_search: Some(large_search),
        large_encode: Some(large_encode),
        encode_extra_mib: None,
        encode_rows_mib: None,
    })
}

/// A number of a sequence that both programs compute.
fn mixed(at: u64) -> u64 {
    let mut x = at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Seconds of searches over many codes, and of encoding many rows.
fn large(args: &Args) -> Result<(f64, f64)> {
    let bits = Bits::new(64)?;
    let codes = |from: u64, count: usize| {
        Codes::from_words(bits, (from..).take(count).map(mixed).collect())
    };
    let settings = NewIndex { bits, label_names: &[], outputs: false, after_commit: 0 };
    let index = MemoryIndex::new(settings, "scan")?;
    index.insert(ItemBatch::new(codes(0, args.items)?))?;
    let snapshot = index.snapshot();
    let batches = (0..BATCHES as u64)
        .map(|batch| codes((1 << 40) + batch * 1000, 1000))
        .collect::<Result<Vec<_>, _>>()?;
    let started = Instant::now();
    for batch in &batches {
        snapshot.search(batch, &Query::nearest(10), &|_| ())?;
    }
    let search = started.elapsed().as_secs_f64();
    let labels = crosshash_codes::Labels::from_indices(2, (0..400_u32).map(|k| [k % 2]))?;
    let rows = |items: usize| {
        let value = |k: usize| {
            let label = (k / WIDTH) % 2;
            if k % 2 == label { 1.0_f32 } else { 0.0 }
        };
        Dense::from_floats(WIDTH, (0..items * WIDTH).map(value).collect())
    };
    let dataset = Dataset::from_arrays(&labels, [("x", Features::Dense(rows(400)?))])?;
    let split = SplitSpec::default().draw(&dataset)?;
    let config = Config::parse("method = \"pca\"\nbits = 64", &[])?;
    let fitted = config.fit(&dataset.training(&split), &mut ())?;
    let model = fitted.context("the training was stopped")?.model;
    let all = Features::Dense(rows(args.items)?);
    let started = Instant::now();
    encode(&model, "x", all, &|_| ())?;
    Ok((search, started.elapsed().as_secs_f64()))
}
