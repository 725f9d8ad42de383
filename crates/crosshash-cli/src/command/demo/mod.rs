//! `crosshash demo`: the whole way on the data set that needs no files, from pictures, drawings
//! and words of emoji to codes, a judgement against baselines, a page to look at and one to search
//! with. The same over any other data set.

mod page;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use crosshash::Config;
use crosshash::MODEL_JSON;
use crosshash::data::{self, Opened, Split, emoji};
use crosshash::encode::Encoder;
use crosshash::evaluate::{Coded, Direction, every_direction};
use crosshash_codes::eval::Options;
use crosshash_codes::format::Ids;
use serde_json::json;

use super::serve::How;
use super::train::{self, Data, complete};
use crate::directions::encode_all;
use crate::fit::{CONFIG, Fitted, fit, split};
use crate::opening::Raw;
use crate::progress::say;
use crate::report::{self, REPORT};
use crate::serve::DataPlace;
use crate::{file, interrupt};

const EXAMPLES: &str = "\
Examples:
  Train, judge, index and serve, in about two minutes; then search at http://127.0.0.1:7878/:
    crosshash demo --open

  The same over photos and captions (a run that is there already is served as it is):
    crosshash demo configs/data/iaprtc12.toml --root PATH/iaprtc12 \
      --config configs/train/iaprtc12.toml --out iapr

  Only train, judge and show:
    crosshash demo --no-serve

  The folder it leaves is a run like any other:
    crosshash eval crosshash-demo --at 10
    crosshash search crosshash-demo --text \"cat with heart eyes\" --target picture
    crosshash embed-plot crosshash-demo --out map.svg
    crosshash encode crosshash-demo --modality words --input texts.txt --out codes.npy";

/// What suits 1,800 small items; chosen, for each method, by the validation MAP of
/// `crosshash sweep emoji --grid --vary method=jcch,jcch-b --vary jcch.lambda=0.0002,0.002,0.02 \
///  --vary jcch.beta=0.1,0.3,1 --set learning_rate=0.2 --set hidden=512 --set hidden_sparse=512 \
///  --set epochs=25 --validation-only --out DIR`.
const SETTINGS: &str =
    "hidden = 512\nhidden_sparse = 512\nepochs = 25\nlearning_rate = 0.2\n";
/// The weight of the pairs, likewise.
const BETA: [(&str, f64); 2] = [("jcch", 1.0), ("jcch-b", 0.3)];
/// Hits shown per query.
const HITS: usize = 7;
/// Queries shown per direction.
const SHOWN: usize = 6;

/// Try it all: learn codes for emoji as pictures, drawings and words, and search across them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A data set: its folder, its manifest, or `emoji`.
    #[arg(default_value = emoji::NAME)]
    data: PathBuf,

    /// Where the files of the manifest are, if not beside it.
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,

    /// A configuration of the training to start from (TOML); not for emoji.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Stop when the report is written.
    #[arg(long)]
    no_serve: bool,

    /// Folder for the run and the page; made if it is not there, written over if it is.
    #[arg(long, value_name = "DIR", default_value = "crosshash-demo")]
    out: PathBuf,

    /// Code length (64 unless set).
    #[arg(long, value_name = "R")]
    bits: Option<usize>,

    /// Sets one key of the training, e.g. epochs=5.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Print the table as JSON.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    how: How,

    #[command(flatten)]
    raw: Raw,
}

/// What each method reaches in each direction.
struct Judged {
    name: &'static str,
    directions: Vec<Direction>,
}

/// The nearest items of one query.
pub(crate) struct Found {
    /// The modality that asks.
    pub(crate) from: String,
    /// The modality that is searched.
    pub(crate) to: String,
    /// The id that asks.
    pub(crate) query: String,
    /// Ids found, with distance and whether they share a label.
    pub(crate) hits: Vec<(String, u32, bool)>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if !args.no_serve {
        // A port that is taken is better told before the training than after it.
        let addr = args.how.address()?;
        std::net::TcpListener::bind(addr)
            .with_context(|| format!("--addr {addr}: cannot listen there"))?;
    }
    let code = match args.data == Path::new(emoji::NAME) && !args.data.exists() {
        true => emoji_run(args)?,
        false => other_run(args)?,
    };
    if code != ExitCode::SUCCESS || args.no_serve {
        return Ok(code);
    }
    let data = DataPlace::default();
    args.how.serve(args.out.clone(), None, data, args.raw.places.clone())
}

/// Trains on any data set, unless that was done before.
fn other_run(args: &Args) -> Result<ExitCode> {
    let done = args.out.join(MODEL_JSON).exists() && args.out.join(REPORT).exists();
    if done {
        let report = report::read(&args.out)?;
        let known = report["data"].as_str().unwrap_or_default();
        if fs_err::canonicalize(known).ok() != fs_err::canonicalize(&args.data).ok() {
            bail!(
                "{} is a run over other data ({known}); give another --out",
                args.out.display()
            );
        }
        say(format!("{} is trained already; remove it to train anew", args.out.display()));
        return Ok(ExitCode::SUCCESS);
    }
    train::run(&train::Args {
        data: args.data.clone(),
        out: args.out.clone(),
        config: args.config.clone(),
        set: args.set.clone(),
        method: None,
        bits: args.bits,
        root: args.root.clone(),
        raw: args.raw.clone(),
        // What was stopped half-way goes on.
        resume: args.out.join(CONFIG).exists(),
        json: args.json,
    })
}

fn emoji_run(args: &Args) -> Result<ExitCode> {
    fs_err::create_dir_all(&args.out)?;
    let opened = data::open(emoji::NAME.as_ref(), None)?;
    let configured = |method: &str| -> Result<Config> {
        let beta = BETA.iter().find(|(name, _)| *name == method).map_or(0.0, |b| b.1);
        let text = format!("{SETTINGS}[jcch]\nlambda = 0.02\nbeta = {beta}\n");
        let mut settings = args.set.clone();
        settings.extend(args.bits.iter().map(|bits| format!("bits={bits}")));
        settings.push(format!("method={method:?}"));
        Ok(Config::parse(&text, &settings)?)
    };
    let run = configured("jcch")?;
    let split = split(&opened, run.validation())?;
    let mut all = Vec::new();
    for run in [&configured("lsh")?, &configured("jcch-b")?, &run] {
        let Some(fitted) = trained(run, &opened, &split)? else {
            return Ok(interrupt::exit_code());
        };
        all.push(fitted);
    }
    let [random, basic, fitted] = &all[..] else {
        bail!("three trainings make three models")
    };
    let model = &fitted.model;

    let (mut judged, mut kept) = (Vec::new(), Vec::new());
    let encoders: [(&'static str, &dyn Encoder); 3] =
        [("random", &random.model), ("jcch-b", &basic.model), ("jcch", model)];
    for (name, encoder) in encoders {
        kept = encode_all(encoder, &opened.dataset, &split)?;
        let coded: Vec<Coded> = kept.iter().map(|(coded, _)| coded.clone()).collect();
        let directions = every_direction(&coded, &Options::default(), &|_| {})?;
        judged.push(Judged { name, directions });
    }
    let found = searches(&kept)?;
    file::write(&args.out.join(CONFIG), &run.to_toml()?)?;
    file::write(&args.out.join("history.csv"), &fitted.history.to_csv())?;
    let data = Data { path: emoji::NAME.as_ref(), root: None };
    complete(&args.out, data, &run, &opened, &split, fitted)?;
    let items = emoji::catalogue().0;
    let table = table(&judged);
    let page = page::write(&args.out, &items, &table, &found)?;

    let text = match args.json {
        true => serde_json::to_string_pretty(&to_json(&judged))? + "\n",
        false => format!("{table}\n{}", in_words(&items, &found)),
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    say(format!("a page with pictures: {}", page.display()));
    Ok(ExitCode::SUCCESS)
}

fn trained(run: &Config, opened: &Opened, split: &Split) -> Result<Option<Fitted>> {
    say(format!("training {}, {} bits", run.method().name, run.bits()));
    fit(run, opened, split, None)
}

/// A few queries of each modality across to the next one.
fn searches(kept: &[(Coded, [Ids; 2])]) -> Result<Vec<Found>> {
    let mut all = Vec::new();
    for (at, (from, ids)) in kept.iter().enumerate() {
        let (to, to_ids) = &kept[(at + kept.len() - 1) % kept.len()];
        let (Ids::Names(query_ids), Ids::Names(database_ids)) = (&ids[0], &to_ids[1])
        else {
            bail!("ids of the built-in data set are names");
        };
        let every = (from.queries.len() / SHOWN).max(1);
        for q in (0..from.queries.len()).step_by(every).take(SHOWN) {
            let distance = |d: usize| from.queries.distance(q, &to.database, d);
            let mut order: Vec<(u32, usize)> =
                (0..to.database.len()).map(|d| (distance(d), d)).collect();
            order.sort_unstable();
            let hit = |&(far, d): &(u32, usize)| {
                let right = from.query_labels.shared(q, &to.database_labels, d) > 0;
                (database_ids[d].clone(), far, right)
            };
            all.push(Found {
                from: from.name.clone(),
                to: to.name.clone(),
                query: query_ids[q].clone(),
                hits: order.iter().take(HITS).map(hit).collect(),
            });
        }
    }
    Ok(all)
}

/// MAP of every method in every direction.
fn table(judged: &[Judged]) -> String {
    let mut out = format!("{:<20}{:>9}", "MAP, tie-aware", "chance");
    judged.iter().for_each(|method| {
        let _ = write!(out, "{:>9}", method.name);
    });
    out.push('\n');
    for (at, first) in judged.first().map_or(&[][..], |j| &j.directions).iter().enumerate()
    {
        let direction = format!("{} -> {}", first.query, first.database);
        let _ = write!(out, "{direction:<20}{:>9.4}", first.report.chance);
        for method in judged {
            let _ = write!(out, "{:>9.4}", method.directions[at].report.map.tie_aware);
        }
        out.push('\n');
    }
    out
}

fn to_json(judged: &[Judged]) -> serde_json::Value {
    let rows = judged.iter().flat_map(|method| {
        method.directions.iter().map(|d| {
            json!({
                "method": method.name,
                "query": d.query,
                "database": d.database,
                "map": d.report.map.tie_aware,
                "chance": d.report.chance,
            })
        })
    });
    rows.collect()
}

/// The hits for a terminal; a star stands before what shares a label.
fn in_words(items: &[emoji::Item], found: &[Found]) -> String {
    let mut out = String::new();
    let name = |id: &str| page::item(items, id).map_or("?", |item| item.name).to_owned();
    for Found { from, to, query, hits } in found {
        let _ = writeln!(out, "{} ({from}) -> {to}:", name(query));
        let hits = hits.iter().take(5).map(|(id, far, right)| {
            format!("{}{} ({far})", if *right { "*" } else { "" }, name(id))
        });
        let _ = writeln!(out, "    {}", hits.collect::<Vec<_>>().join(", "));
    }
    out
}
