//! `crosshash demo`: the whole way on the data set that needs no files, from pictures, drawings
//! and words of emoji to codes, a judgement against baselines, and a page to look at.

mod page;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use crosshash::config::{RawRun, Run};
use crosshash::data::{self, Opened, Split, emoji};
use crosshash::encode::Encoder;
use crosshash::evaluate::{Coded, Direction, every_direction};
use crosshash_codes::eval::Options;
use crosshash_codes::format::Ids;
use serde_json::json;

use super::train::{Data, complete};
use crate::directions::encode_all;
use crate::fit::{CONFIG, Fitted, fit, split};
use crate::progress::say;
use crate::{file, interrupt};

const EXAMPLES: &str = "\
Examples:
  Train, judge and show, in under two minutes:
    crosshash demo --no-serve

  The folder it leaves is a run like any other:
    crosshash eval crosshash-demo --at 10
    crosshash search crosshash-demo --text \"cat with heart eyes\" --target picture
    crosshash embed-plot crosshash-demo --out map.svg
    crosshash encode crosshash-demo --modality words --input texts.txt --out codes.npy";

/// What suits 1,800 small items; chosen, for each method, by the validation MAP of
/// `crosshash sweep emoji --grid --vary method=jcch,jcch-b --vary lambda=0.0002,0.002,0.02 \
///  --vary beta=0.1,0.3,1 --set rate=0.2 --set hidden=512 --set hidden_sparse=512 \
///  --set epochs=25 --validation-only --out DIR`.
const SETTINGS: &str =
    "hidden = 512\nhidden_sparse = 512\nepochs = 25\nrate = 0.2\nlambda = 0.02\n";
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
    /// Stop when the report is written. (Nothing is served yet; scripts that give this flag
    /// will keep working when something is.)
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
    fs_err::create_dir_all(&args.out)?;
    let opened = data::open(emoji::NAME.as_ref(), None)?;
    let configured = |method: &str| -> Result<Run> {
        let beta = BETA.iter().find(|(name, _)| *name == method).map_or(0.0, |b| b.1);
        let text = format!("{SETTINGS}beta = {beta}\n");
        let mut settings = args.set.clone();
        settings.extend(args.bits.iter().map(|bits| format!("bits={bits}")));
        settings.push(format!("method={method:?}"));
        Ok(RawRun::parse(&text, &settings)?.check()?)
    };
    let run = configured("jcch")?;
    let split = split(&opened, run.raw.validation)?;
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
    file::write(&args.out.join(CONFIG), &run.raw.to_toml()?)?;
    file::write(&args.out.join("history.csv"), &fitted.history.to_csv())?;
    let data = Data { path: emoji::NAME.as_ref(), root: None };
    complete(&args.out, data, &run.raw, &opened, &split, fitted)?;
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

fn trained(run: &Run, opened: &Opened, split: &Split) -> Result<Option<Fitted>> {
    say(format!("training {}, {} bits", run.method.name(), run.bits.get()));
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
