//! `crosshash-bench dcmh`: an epoch of DCMH compared with PyTorch, on the same data.
//!
//! Each measurement runs in its own process; rounds alternate between the competitors.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use crosshash::Config;
use crosshash::data::SplitSpec;
use serde_json::json;

use super::peer::{self, Peer};
use super::train::{self, Form, Measured};
use crosshash_cli::progress::say;

const PEER: &str = include_str!("peers/dcmh.py");
/// Epochs of one measurement; the first is a warm-up and not counted.
const EPOCHS: usize = 2;
const RATE: f64 = 0.03;

const EXAMPLES: &str = "\
Examples:
  An epoch at 10,000 items, against PyTorch (python3 -m pip install torch):
    crosshash --threads 2 bench dcmh

  With the paper's hidden layers:
    crosshash-bench dcmh --hidden 4096,8192

An epoch: ceil(n / batch) steps for each modality, each against the other's buffer of n items. Made
data in the shape of MIRFlickr-25K: 4,096 numbers a picture, 1,386 tags, 24 labels.";

/// Compare an epoch of DCMH with PyTorch.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Items.
    #[arg(long, default_value_t = 10_000)]
    items: usize,
    /// Items per step.
    #[arg(long, default_value_t = 128)]
    batch: usize,
    /// Code length.
    #[arg(long, default_value_t = 64)]
    bits: usize,
    /// Hidden units for pictures and for tags.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1024,2048")]
    hidden: Vec<usize>,
    /// Number of rounds; each measures every competitor once.
    #[arg(long, default_value_t = 2)]
    rounds: usize,
    /// Do not run the PyTorch peer.
    #[arg(long)]
    no_peer: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Run one measurement of crosshash on a prepared folder (used internally).
    #[arg(long, hide = true)]
    measure: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let &[image, text] = &args.hidden[..] else {
        bail!("--hidden takes two numbers, e.g. 1024,2048");
    };
    anyhow::ensure!(args.items > 1 && args.batch > 0, "--items and --batch: at least one");
    if let Some(folder) = &args.measure {
        let measured = measure(args, folder, [image, text])?;
        writeln!(std::io::stdout(), "{}", serde_json::to_string(&measured)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let folder = tempfile::tempdir()?;
    say("making the data");
    train::made(None, args.items, folder.path())?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut missing = args.no_peer.then(|| "skipped (--no-peer)".to_owned());
    for round in 1..=args.rounds.max(1) {
        say(format!("round {round} of {}", args.rounds.max(1)));
        ours.push(child(args, folder.path())?);
        if missing.is_none() {
            match peer(args, folder.path(), [image, text])? {
                Ok(measured) => theirs.push(measured),
                Err(why) => missing = Some(why),
            }
        }
    }
    print(args, &[ours, theirs], missing.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

fn child(args: &Args, folder: &Path) -> Result<Measured> {
    let hidden: Vec<String> = args.hidden.iter().map(ToString::to_string).collect();
    let (bits, batch) = (args.bits.to_string(), args.batch.to_string());
    let (hidden, folder) = (hidden.join(","), folder.display().to_string());
    let arguments = ["dcmh", "--bits", &bits, "--batch", &batch, "--hidden", &hidden];
    peer::this_program(
        &arguments
            .into_iter()
            .chain(["--measure", &folder])
            .map(String::from)
            .collect::<Vec<_>>(),
    )
}

fn peer(
    args: &Args,
    folder: &Path,
    hidden: [usize; 2],
) -> Result<Result<Measured, String>> {
    let threads = rayon::current_num_threads();
    let mut arguments = vec![folder.display().to_string()];
    let numbers = [EPOCHS, args.batch, args.bits, hidden[0], hidden[1]];
    arguments.extend(numbers.map(|n| n.to_string()));
    arguments.extend([RATE.to_string(), threads.to_string()]);
    match peer::run(PEER, &arguments, "torch", threads)? {
        Peer::Missing(why) => Ok(Err(why)),
        Peer::Ran(answer) => Ok(Ok(serde_json::from_value(answer)?)),
    }
}

/// Trains a few epochs and measures them.
fn measure(args: &Args, folder: &Path, hidden: [usize; 2]) -> Result<Measured> {
    let settings = format!(
        "method = \"dcmh\"\nbits = {}\nbatch_size = {}\nepochs = {}\nvalidation = 0.0\n\
         [dcmh]\nlearning_rate = {RATE}\n\
         [modality.image]\nnormalise = \"none\"\nhidden = {}\n[modality.text]\nhidden = {}\n",
        args.bits,
        args.batch,
        10 * EPOCHS, // the rate hardly falls within those that are measured
        hidden[0],
        hidden[1]
    );
    let config = Config::parse(&settings, &[])?;
    let dataset = train::read(folder, Form::Sparse)?;
    let split = SplitSpec::default().draw(&dataset)?;
    let training = dataset.training(&split);
    let mut session = config.begin(&training)?;
    let mut measured = Measured::new("crosshash, sparse text");
    for _ in 0..EPOCHS {
        let (started, cpu) = (Instant::now(), peer::cpu_seconds());
        let loss = session.epoch(&mut ())?.map_or(f64::NAN, |row| row.loss);
        measured.losses.push(loss);
        measured.seconds.push(started.elapsed().as_secs_f64());
        measured.cpu_seconds.push(peer::cpu_seconds() - cpu);
    }
    measured.peak_mib = peer::peak_mib().unwrap_or(f64::NAN);
    Ok(measured)
}

fn print(args: &Args, all: &[Vec<Measured>; 2], missing: Option<&str>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    // The best round: what other work on the machine took is not the method's.
    let best = |rounds: &[Measured], of: fn(&Measured) -> &Vec<f64>| {
        let later = rounds.iter().flat_map(|m| of(m).iter().skip(1).copied());
        later.fold(f64::INFINITY, f64::min)
    };
    let row = |rounds: &[Measured]| {
        (best(rounds, |m| &m.seconds), best(rounds, |m| &m.cpu_seconds))
    };
    let theirs = row(&all[1]);
    let rows: Vec<_> = all.iter().filter(|rounds| !rounds.is_empty()).collect();
    if args.json {
        let rows = rows.iter().map(|rounds| {
            let (wall, cpu) = row(rounds);
            json!({
                "who": rounds[0].who, "epoch_seconds": wall, "epoch_cpu_seconds": cpu,
                "peak_mib": rounds[0].peak_mib, "last_loss": rounds[0].losses.last(),
                "times_faster": missing.is_none().then_some(theirs.0 / wall),
                "times_less_cpu": missing.is_none().then_some(theirs.1 / cpu),
            })
        });
        let all = json!({ "rows": rows.collect::<Vec<_>>(), "missing": missing });
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        return Ok(());
    }
    writeln!(
        out,
        "one epoch of DCMH: {} items, batches of {}, {} bits, hidden {:?}, {} threads; best of {} \
         rounds",
        args.items,
        args.batch,
        args.bits,
        args.hidden,
        rayon::current_num_threads(),
        args.rounds
    )?;
    writeln!(
        out,
        "{:<40}{:>9}{:>9}{:>10}{:>9}{:>9}{:>9}",
        "", "s", "CPU s", "peak MiB", "loss", "wall", "CPU"
    )?;
    for rounds in rows {
        let (wall, cpu) = row(rounds);
        let ratio = match missing {
            None => format!("{:>8.2}x{:>8.2}x", theirs.0 / wall, theirs.1 / cpu),
            Some(_) => String::new(),
        };
        let loss = rounds[0].losses.last().copied().unwrap_or(f64::NAN);
        let (who, peak) = (&rounds[0].who, rounds[0].peak_mib);
        writeln!(out, "{who:<40}{wall:>9.2}{cpu:>9.2}{peak:>10.0}{loss:>9.4}{ratio}")?;
    }
    if let Some(why) = missing {
        writeln!(out, "PyTorch: {why}")?;
    }
    Ok(())
}
