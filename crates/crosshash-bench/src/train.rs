//! `crosshash-bench train`: one training step compared with PyTorch, and seconds per epoch by
//! number of items.
//!
//! Each measurement runs in its own process, so that peak memory is separate; rounds alternate
//! between the competitors.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use crosshash::Config;
use crosshash::data::synth::{SynthForm, SynthModality, SynthSpec, synth};
use crosshash::data::{self, Dataset, Features, Modality, Selection, Sparse, SplitSpec};
use crosshash::supervise::{self, Part};
use crosshash::train::Step;
use crosshash_codes::{Labels, npy};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::peer::{self, Peer};
use crosshash_cli::progress::{Progress, say};

const PEER: &str = include_str!("peers/train.py");
/// Epochs of one measurement; the first is a warm-up and not counted.
const EPOCHS: usize = 3;
/// Shape of the synthetic tags: MIRFlickr-25K as used by DCMH.
const TAGS: usize = 1386;
const TAGS_PER_ITEM: usize = 5;
const LABELS: usize = 24;
const IMAGE: usize = 4096;

const EXAMPLES: &str = "\
Examples:
  The paper's shapes on the real tags, against PyTorch (python3 -m pip install torch):
    crosshash --threads 2 bench train --root PATH/mirflickr25k

  The same shapes on made tags, without the peer:
    crosshash-bench train --no-peer

  Seconds per epoch and memory by number of items, on streamed synthetic data:
    crosshash-bench train --by-items 10000,100000,1000000

The step: image 4096 -> 4096 -> bits, text 1386 -> 8192 -> bits, all four terms, SGD with
momentum and decay. `sparse` reads tags as the few words that are set, `dense` as 1,386
numbers, as PyTorch does. Times are the median epoch over all rounds, after one to warm up.";

/// Compare training speed and memory with PyTorch, or measure by number of items.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of MIRFlickr-25K's tags and labels (`mirflickr25k-*.mat`); synthetic ones without it.
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,
    /// Measure these numbers of synthetic items instead, without the peer.
    #[arg(long, value_name = "N,N,..", value_delimiter = ',')]
    by_items: Vec<usize>,
    /// Steps per epoch.
    #[arg(long, default_value_t = 30)]
    steps: usize,
    /// Items per step.
    #[arg(long, default_value_t = 128)]
    batch: usize,
    /// Code length.
    #[arg(long, default_value_t = 64)]
    bits: usize,
    /// Number of rounds; each measures every competitor once.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Do not run the PyTorch peer.
    #[arg(long)]
    no_peer: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Run one measurement of crosshash on a prepared folder (used internally).
    #[arg(long, hide = true, requires = "form")]
    measure: Option<PathBuf>,
    /// Form of the texts in that measurement.
    #[arg(long, hide = true)]
    form: Option<Form>,
}

/// Form of the texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// Sparse: only the words of the text.
    Sparse,
    /// Dense: one value per word.
    Dense,
    /// A data set with a manifest, as `crosshash data synth` makes it.
    Streamed,
}

/// Measurements of one process; seconds and losses by epoch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) who: String,
    pub(super) seconds: Vec<f64>,
    pub(super) cpu_seconds: Vec<f64>,
    pub(super) losses: Vec<f64>,
    pub(super) peak_mib: f64,
    #[serde(default)]
    before_mib: f64,
}

impl Measured {
    /// No epochs yet; the resources used for preparation.
    pub(super) fn new(who: &str) -> Measured {
        Measured {
            who: who.to_owned(),
            seconds: Vec::new(),
            cpu_seconds: Vec::new(),
            losses: Vec::new(),
            peak_mib: 0.0,
            before_mib: peer::peak_mib().unwrap_or(f64::NAN),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let (Some(folder), Some(form)) = (&args.measure, args.form) {
        let measured = measure(args, folder, form)?;
        writeln!(std::io::stdout(), "{}", serde_json::to_string(&measured)?)?;
    } else if args.by_items.is_empty() {
        against_peer(args)?;
    } else {
        by_items(args)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// All competitors in turn, on the same data.
fn against_peer(args: &Args) -> Result<()> {
    for (flag, value) in
        [("--steps", args.steps), ("--batch", args.batch), ("--rounds", args.rounds)]
    {
        anyhow::ensure!(value > 0, "{flag}: at least one is needed");
    }
    let folder = tempfile::tempdir()?;
    prepare(args, folder.path())?;
    let mut all: Vec<Vec<Measured>> = vec![Vec::new(); 2 + ALLOCATORS.len()];
    let mut missing = args.no_peer.then(|| "skipped (--no-peer)".to_owned());
    for round in 1..=args.rounds {
        say(format!("round {round} of {}", args.rounds));
        all[0].push(ours(args, folder.path(), Form::Sparse)?);
        all[1].push(ours(args, folder.path(), Form::Dense)?);
        for (at, allocator) in ALLOCATORS.iter().enumerate() {
            if missing.is_none() {
                match theirs(args, folder.path(), allocator)? {
                    Ok(measured) => all[2 + at].push(measured),
                    Err(why) => missing = Some(why),
                }
            }
        }
    }
    all.retain(|rounds| !rounds.is_empty());
    let rows: Vec<Row> = all.iter().map(|rounds| Row::new(rounds, args.steps)).collect();
    print(args, &rows, missing.as_deref())
}

/// One line of the table.
struct Row {
    who: String,
    step_ms: f64,
    cpu_ms: f64,
    peak_mib: f64,
    last_loss: f64,
    steps: usize,
}

impl Row {
    fn new(rounds: &[Measured], steps: usize) -> Row {
        let median = |of: fn(&Measured) -> &Vec<f64>| {
            let mut all: Vec<f64> =
                rounds.iter().flat_map(|m| of(m).iter().skip(1).copied()).collect();
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
        };
        let step_ms = median(|m| &m.seconds) * 1e3 / steps as f64;
        Row {
            who: rounds[0].who.clone(),
            step_ms,
            cpu_ms: median(|m| &m.cpu_seconds) * 1e3 / steps as f64,
            peak_mib: rounds.iter().map(|m| m.peak_mib).fold(0.0, f64::max),
            last_loss: rounds[0].losses.last().copied().unwrap_or(f64::NAN),
            steps,
        }
    }
}

fn print(args: &Args, rows: &[Row], missing: Option<&str>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let peer = rows.iter().find(|row| row.who.starts_with("PyTorch"));
    let ratios = |row: &Row| peer.map(|p| (p.step_ms / row.step_ms, p.cpu_ms / row.cpu_ms));
    if args.json {
        let rows = rows.iter().map(|row| {
            json!({
                "who": row.who, "step_ms": row.step_ms, "cpu_ms": row.cpu_ms,
                "items_per_second": args.batch as f64 * 1e3 / row.step_ms,
                "peak_mib": row.peak_mib, "last_loss": row.last_loss,
                "times_faster": ratios(row).map(|r| r.0),
                "times_less_cpu": ratios(row).map(|r| r.1),
            })
        });
        let all = json!({ "rows": rows.collect::<Vec<_>>(), "missing": missing });
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        return Ok(());
    }
    let tags = args.root.as_ref().map_or("made tags", |_| "MIRFlickr-25K tags");
    writeln!(
        out,
        "one step: {} items, {} bits, image {IMAGE} -> 4096, text {TAGS} -> 8192 ({tags}), \
         {} threads; median of {} x {} epochs of {} steps",
        args.batch,
        args.bits,
        rayon::current_num_threads(),
        args.rounds,
        EPOCHS - 1,
        rows.first().map_or(0, |row| row.steps),
    )?;
    writeln!(
        out,
        "{:<44}{:>9}{:>9}{:>9}{:>10}{:>9}{:>8}{:>8}",
        "", "ms", "CPU ms", "items/s", "peak MiB", "loss", "wall", "CPU"
    )?;
    for row in rows {
        let ratio = ratios(row)
            .map_or(String::new(), |(wall, cpu)| format!("{wall:>7.2}x{cpu:>7.2}x"));
        writeln!(
            out,
            "{:<44}{:>9.1}{:>9.1}{:>9.0}{:>10.0}{:>9.3}{ratio}",
            row.who,
            row.step_ms,
            row.cpu_ms,
            args.batch as f64 * 1e3 / row.step_ms,
            row.peak_mib,
            row.last_loss,
        )?;
    }
    if let Some(why) = missing {
        writeln!(out, "PyTorch: {why}")?;
    }
    Ok(())
}

/// Writes image.npy, text.npy, labels.npy, q.npy and u.npy.
fn prepare(args: &Args, folder: &Path) -> Result<()> {
    made(args.root.as_deref(), args.steps * args.batch, folder)
}

/// The same for any number of items.
pub(super) fn made(root: Option<&Path>, n: usize, folder: &Path) -> Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let (tags, labels) = match root {
        Some(root) => real_tags(root, n)?,
        None => made_tags(n, &mut rng)?,
    };
    anyhow::ensure!(
        labels.unlabelled() == 0,
        "--root: {} of the first {n} items have no label; take fewer --steps",
        labels.unlabelled()
    );
    npy::write_labels(&folder.join("text.npy"), &tags)?;
    npy::write_labels(&folder.join("labels.npy"), &labels)?;
    let found = supervise::supervise(&labels, &supervise::Options::default(), &|_| ())?
        .coefficients;
    for (file, part) in [("q.npy", Part::Q), ("u.npy", Part::U)] {
        let mut out = std::io::BufWriter::new(fs_err::File::create(folder.join(file))?);
        found.write_npy(part, &mut out, &|_| ())?;
        out.flush()?;
    }
    // Pictures: a direction for each label, and noise.
    let mut gauss = || (0..4).map(|_| rng.random_range(-0.9_f32..0.9)).sum::<f32>();
    let directions: Vec<f32> = (0..labels.classes() * IMAGE).map(|_| gauss()).collect();
    let mut pixels = Vec::with_capacity(n * IMAGE);
    for item in 0..n {
        let start = pixels.len();
        pixels.extend((0..IMAGE).map(|_| gauss()));
        for label in labels.indices(item) {
            let direction = &directions[label * IMAGE..][..IMAGE];
            pixels[start..].iter_mut().zip(direction).for_each(|(x, d)| *x += 0.5 * d);
        }
    }
    npy::write_matrix(&folder.join("image.npy"), n, IMAGE, pixels)?;
    Ok(())
}

/// The first items of MIRFlickr, repeated if more are needed.
fn real_tags(root: &Path, n: usize) -> Result<(Labels, Labels)> {
    let read = |file: &str| -> Result<Labels> {
        let path = root.join(file);
        if !path.exists() {
            bail!(
                "--root: {} is not there; it takes the folder with mirflickr25k-yall.mat \
                 and mirflickr25k-lall.mat, or leave --root out for made tags",
                path.display()
            );
        }
        let rows = match data::items(&path, false)? {
            Features::Sparse(rows) => rows,
            Features::Dense(rows) => sparse(&rows)?,
            _ => bail!("{}: not a matrix", path.display()),
        };
        anyhow::ensure!(!rows.is_empty(), "{}: it has no rows", path.display());
        let items = (0..n).map(|k| rows.row(k % rows.len()).0);
        Ok(Labels::from_indices(rows.width(), items)?)
    };
    Ok((read("mirflickr25k-yall.mat")?, read("mirflickr25k-lall.mat")?))
}

fn made_tags(n: usize, rng: &mut ChaCha8Rng) -> Result<(Labels, Labels)> {
    let mut draw = |upto: usize, most: usize| -> Vec<u32> {
        let count = rng.random_range(1..=most);
        let mut all: Vec<u32> = (0..count)
            .map(|_| {
                let share: f64 = rng.random();
                #[expect(clippy::cast_possible_truncation, reason = "below `upto`")]
                #[expect(clippy::cast_sign_loss, reason = "not negative")]
                let one = (share * share * upto as f64) as u32;
                one
            })
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let labels: Vec<Vec<u32>> = (0..n).map(|_| draw(LABELS, 6)).collect();
    let tags: Vec<Vec<u32>> = (0..n).map(|_| draw(TAGS, 2 * TAGS_PER_ITEM)).collect();
    Ok((Labels::from_indices(TAGS, tags)?, Labels::from_indices(LABELS, labels)?))
}

fn sparse(rows: &data::Dense) -> Result<Sparse> {
    let mut out = Sparse::new(rows.width());
    let mut row = vec![0.0; rows.width()];
    for item in 0..rows.len() {
        rows.read(item..item + 1, &mut row)?;
        let cells = (0_u32..).zip(&row).filter(|(_, x)| **x != 0.0);
        let mut cells: Vec<(u32, f32)> = cells.map(|(j, &x)| (j, x)).collect();
        out.push(&mut cells)?;
    }
    Ok(out)
}

/// Runs crosshash in its own process.
fn ours(args: &Args, folder: &Path, form: Form) -> Result<Measured> {
    let name = form.to_possible_value().context("a form has a name")?;
    let (bits, batch) = (args.bits.to_string(), args.batch.to_string());
    let folder = folder.display().to_string();
    let measure = ["--measure", &folder, "--form", name.get_name()];
    let arguments = ["train", "--bits", &bits, "--batch", &batch];
    peer::this_program(
        &arguments.into_iter().chain(measure).map(String::from).collect::<Vec<_>>(),
    )
}

/// Runs PyTorch; the inner error is the reason why it cannot run.
fn theirs(
    args: &Args,
    folder: &Path,
    (about, environment): &(&str, &[(&str, &str)]),
) -> Result<Result<Measured, String>> {
    let threads = rayon::current_num_threads();
    let numbers = [EPOCHS, args.batch, args.bits, 4096, 8192].map(|n| n.to_string());
    let mut arguments = vec![folder.display().to_string()];
    arguments.extend(numbers);
    arguments.extend([RATE.to_string(), threads.to_string()]);
    match peer::run_in(PEER, &arguments, "torch", threads, environment)? {
        Peer::Missing(why) => Ok(Err(why)),
        Peer::Ran(answer) => {
            let mut measured: Measured = serde_json::from_value(answer)?;
            measured.who += about;
            Ok(Ok(measured))
        }
    }
}

const RATE: f64 = 0.01;

/// Allocator settings of PyTorch: default, and a glibc that keeps freed memory, as our allocator
/// does.
const ALLOCATORS: [(&str, &[(&str, &str)]); 2] = [
    ("", &[]),
    (
        ", tuned malloc",
        &[("MALLOC_MMAP_MAX_", "0"), ("MALLOC_TRIM_THRESHOLD_", "9223372036854775807")],
    ),
];

/// Trains a few epochs and measures them.
fn measure(args: &Args, folder: &Path, form: Form) -> Result<Measured> {
    let settings = match form {
        Form::Streamed => {
            format!("hidden = 256\nhidden_sparse = 256\nbits = {}\n", args.bits)
        }
        Form::Sparse | Form::Dense => format!(
            "learning_rate = {RATE}\nbits = {}\n\
             [jcch]\nalpha = 0.1\nlambda = 0.002\nmu = 0.1\nbeta = 0.1\n\
             [modality.image]\nnormalise = \"none\"\nhidden = 4096\n\
             [modality.text]\nnormalise = \"none\"\nhidden = 8192\n",
            args.bits
        ),
    };
    let batch = format!("batch_size={}", args.batch);
    let epochs = if form == Form::Streamed { 1 } else { EPOCHS };
    // The rate stays as it is: the schedule would begin to lower it at 60 % of the epochs.
    let config = Config::parse(&settings, &[batch, format!("epochs={}", 10 * epochs)])?;
    let (dataset, plan) = match form {
        Form::Streamed => {
            let opened = data::open(folder, None)?;
            let plan = SplitSpec {
                train: None,
                query: Some(Selection::Count(1)),
                ..SplitSpec::default()
            };
            (opened.dataset, plan)
        }
        Form::Sparse | Form::Dense => (read(folder, form)?, SplitSpec::default()),
    };
    let split = plan.draw(&dataset)?;
    let training = dataset.training(&split);
    let mut session = config.begin(&training)?;
    let mut measured = Measured::new(match form {
        Form::Dense => "crosshash, dense text",
        Form::Sparse | Form::Streamed => "crosshash, sparse text",
    });
    let n = dataset.modalities().first().map_or(0, Modality::len);
    for epoch in 0..epochs {
        let progress = Progress::new(format!("epoch {} of {n} items", epoch + 1), n);
        let (started, cpu) = (Instant::now(), peer::cpu_seconds());
        let row = session.epoch(&mut |step: &Step<'_>| {
            progress.set((step.done * args.batch).min(n));
            ControlFlow::Continue(())
        })?;
        measured.losses.push(row.map_or(f64::NAN, |row| row.loss));
        measured.seconds.push(started.elapsed().as_secs_f64());
        measured.cpu_seconds.push(peer::cpu_seconds() - cpu);
    }
    measured.peak_mib = peer::peak_mib().unwrap_or(f64::NAN);
    Ok(measured)
}

/// The prepared folder as a data set.
pub(super) fn read(folder: &Path, form: Form) -> Result<Dataset> {
    let labels = crosshash_codes::read::labels(&folder.join("labels.npy"))?;
    let image = data::items(&folder.join("image.npy"), false)?;
    let text = data::items(&folder.join("text.npy"), false)?;
    let text = match (form, text) {
        (Form::Sparse, Features::Dense(rows)) => Features::Sparse(sparse(&rows)?),
        (_, text) => text,
    };
    let ids: Vec<String> = (0..labels.len()).map(|item| item.to_string()).collect();
    let names = (0..labels.classes()).map(|label| format!("l{label}")).collect();
    let modalities = vec![
        Modality::new("image", ids.clone(), image, labels.clone())?,
        Modality::new("text", ids, text, labels)?,
    ];
    Ok(Dataset::new("benchmark", names, modalities)?)
}

/// Seconds per epoch and memory by number of items.
fn by_items(args: &Args) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let mut rows = Vec::new();
    for &n in &args.by_items {
        let folder = tempfile::tempdir()?;
        let modality =
            |name: &str, width, form| SynthModality { name: name.into(), width, form };
        let spec = SynthSpec {
            items: n,
            first: 0,
            labels: LABELS,
            per_item: 2.5,
            noise: 1.0,
            seed: 5,
            modalities: vec![
                modality("image", 128, SynthForm::Dense),
                modality("text", 1000, SynthForm::Sparse),
            ],
        };
        let progress = Progress::new(format!("making {n} items"), 2 * n);
        let files = synth(&spec, folder.path(), &|done| progress.set(done))?;
        drop(progress);
        let bytes: u64 =
            files.iter().filter_map(|f| f.metadata().ok()).map(|m| m.len()).sum();
        let measured = ours(args, folder.path(), Form::Streamed)?;
        let seconds = measured.seconds[0];
        if !args.json && rows.is_empty() {
            writeln!(
                out,
                "{:>10}{:>12}{:>14}{:>12}{:>16}{:>12}",
                "items", "s/epoch", "us/item", "files MiB", "MiB when ready", "peak MiB"
            )?;
        }
        if !args.json {
            writeln!(
                out,
                "{n:>10}{seconds:>12.2}{:>14.1}{:>12.0}{:>16.0}{:>12.0}",
                seconds * 1e6 / n as f64,
                bytes as f64 / f64::from(1 << 20),
                measured.before_mib,
                measured.peak_mib,
            )?;
        }
        rows.push(json!({
            "items": n, "seconds_per_epoch": seconds, "cpu_seconds": measured.cpu_seconds[0],
            "file_bytes": bytes, "ready_mib": measured.before_mib, "peak_mib": measured.peak_mib,
        }));
    }
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
    }
    Ok(())
}
