//! `crosshash demo`: the complete workflow on the built-in data set: trains codes for pictures,
//! drawings and words of emoji, evaluates them against baselines, writes a report and serves a search
//! page. The same for any other data set.

mod page;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use crosshash::Config;
use crosshash::data::{self, LoadedDataset, Split, emoji};
use crosshash::encode::Encoder;
use crosshash::evaluate::{Coded, Direction, every_direction};
use crosshash::{CodedModality, RunDir};
use crosshash_codes::eval::Options;
use crosshash_codes::index::Query;
use crosshash_codes::segments::{self, ItemBatch, Snapshot};
use serde_json::json;

use super::serve::ServeArgs;
use super::train::{self, DataSource, complete};
use crate::data_args::DataArgs;
use crate::evaluation::encode_all;
use crate::fit::{Fitted, Lines, fit_with, split};
use crate::interrupt;
use crate::progress::say;
use crate::serve::{DataLocation, StoreOptions};

const EXAMPLES: &str = "\
Examples:
  Train, evaluate, index and serve, in about two minutes; then search at http://127.0.0.1:7878/:
    crosshash demo --open

  The same with photos and captions (an existing run is served without training):
    crosshash demo configs/data/iaprtc12.toml --root PATH/iaprtc12 \
      --config configs/train/iaprtc12-plus.toml --out iapr

  Only train, evaluate and write the report:
    crosshash demo --no-serve

  The output folder is a run like any other:
    crosshash eval crosshash-demo --at 10
    crosshash search crosshash-demo --text \"cat with heart eyes\" --target picture
    crosshash embed-plot crosshash-demo --out map.svg
    crosshash encode crosshash-demo --modality words --input texts.txt --out codes.npy";

/// Settings of JCCH+ for 1,800 small items.
const SETTINGS_PLUS: &str =
    "hidden = 512\nhidden_sparse = 512\nepochs = 90\nlearning_rate = 0.1\n";
/// Settings of the paper's JCCH, chosen by the validation MAP of
/// `crosshash sweep emoji --grid --vary method=jcch --vary jcch.lambda=0.0002,0.002,0.02 \
///  --vary jcch.beta=0.1,0.3,1 --set learning_rate=0.2 --set hidden=512 --set hidden_sparse=512 \
///  --set epochs=25 --set select=map --validation-only --out DIR`.
const SETTINGS: &str = "hidden = 512\nhidden_sparse = 512\nepochs = 25\nlearning_rate = 0.2\n\
     [jcch]\nlambda = 0.02\nbeta = 1.0\n";
/// Results shown per query.
const HITS: usize = 7;
/// Queries shown per direction.
const SHOWN: usize = 6;

/// Try the complete workflow on emoji: train, evaluate, and search across pictures, drawings and words.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Data set: a manifest, a folder with one, or `emoji`.
    #[arg(default_value = emoji::NAME)]
    data: PathBuf,

    /// Folder of the files that the manifest names [default: the manifest's folder].
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,

    /// Configuration file to start from (TOML); not for emoji.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Exit after the report is written.
    #[arg(long)]
    no_serve: bool,

    /// Folder of the run and the report; created if it does not exist, overwritten if it does.
    #[arg(long, value_name = "DIR", default_value = "crosshash-demo")]
    out: PathBuf,

    /// Code length in bits [default: 64].
    #[arg(long, value_name = "R")]
    bits: Option<usize>,

    /// Set one key of the configuration, e.g. epochs=5. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Print the table as JSON.
    #[arg(long)]
    json: bool,

    /// Print a line per epoch with all terms of the loss.
    #[arg(long, short)]
    verbose: bool,

    #[command(flatten)]
    serve_args: ServeArgs,

    #[command(flatten)]
    data_args: DataArgs,
}

/// The evaluation of one method.
struct Evaluated {
    name: &'static str,
    directions: Vec<Direction>,
}

/// The nearest items of one query.
pub(crate) struct Found {
    /// The modality of the query.
    pub(crate) from: String,
    /// The modality of the database.
    pub(crate) to: String,
    /// The id of the query.
    pub(crate) query: String,
    /// Ids of the results, with distance and whether they share a label.
    pub(crate) hits: Vec<(String, u32, bool)>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if !args.no_serve {
        // Report a port in use before the training, not after it.
        let addr = args.serve_args.address()?;
        std::net::TcpListener::bind(addr)
            .with_context(|| format!("--addr {addr}: cannot listen on this address"))?;
    }
    let is_emoji = args.data == Path::new(emoji::NAME) && !args.data.exists();
    let code = if is_emoji { emoji_run(args)? } else { other_run(args)? };
    if code != ExitCode::SUCCESS || args.no_serve {
        return Ok(code);
    }
    let data = DataLocation::default();
    let (weights, stores) = (args.data_args.weight_paths.clone(), StoreOptions::default());
    args.serve_args.serve(args.out.clone(), None, data, weights, stores)
}

/// Trains on any data set, unless the run is complete already.
fn other_run(args: &Args) -> Result<ExitCode> {
    let out = args.out.display();
    let existing =
        RunDir::is_run(&args.out).then(|| RunDir::open(&args.out)).transpose()?;
    if let Some(run) = existing.as_ref().filter(|run| run.is_finished()) {
        let known = run.report()?.data;
        if fs_err::canonicalize(&known).ok() != fs_err::canonicalize(&args.data).ok() {
            let known = known.display();
            bail!(
                "the run in {out} was trained on other data ({known}); use another --out"
            );
        }
        say(format!("{out} is already trained; remove the folder to train again"));
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
        data_args: args.data_args.clone(),
        // An interrupted training is resumed.
        resume: existing.is_some_and(|run| run.is_started()),
        update: false,
        refit: false,
        json: args.json,
    })
}

fn emoji_run(args: &Args) -> Result<ExitCode> {
    let run_dir = RunDir::create(&args.out)?;
    let mut opened = data::open(emoji::NAME.as_ref(), None)?;
    let configured = |method: &str| -> Result<Config> {
        let text = if method == "jcch+" { SETTINGS_PLUS } else { SETTINGS };
        let mut settings = args.set.clone();
        settings.extend(args.bits.iter().map(|bits| format!("bits={bits}")));
        settings.push(format!("method={method:?}"));
        Ok(Config::parse(text, &settings)?)
    };
    let run = configured("jcch+")?;
    let split = split(&mut opened, run.validation())?;
    let mut all = Vec::new();
    for run in [&configured("lsh")?, &configured("jcch")?, &run] {
        let Some(fitted) = trained(args, run, &opened, &split)? else {
            return Ok(interrupt::exit_code());
        };
        all.push(fitted);
    }
    let [random, paper, fitted] = &all[..] else { bail!("expected three models") };
    let model = &fitted.model;

    let (mut evaluated, mut kept) = (Vec::new(), Vec::new());
    let encoders: [(&'static str, &dyn Encoder); 3] =
        [("random", &random.model), ("jcch", &paper.model), ("jcch+", model)];
    for (name, encoder) in encoders {
        kept = encode_all(encoder, &opened.dataset, &split)?;
        let coded: Vec<Coded> = kept.iter().map(|all| all.coded.clone()).collect();
        let directions = every_direction(&coded, &Options::default(), &|_| {})?;
        evaluated.push(Evaluated { name, directions });
    }
    let found = searches(&kept)?;
    run_dir.save_config(&run.to_toml()?)?;
    run_dir.save_history(&fitted.history.to_csv())?;
    let data = DataSource { path: emoji::NAME.as_ref(), root: None };
    let (_, directions) = complete(&run_dir, data, &run, &opened, &split, fitted)?;
    if !train::refit(&run_dir, &run, &opened, &split, fitted, args.lines())? {
        return Ok(interrupt::exit_code());
    }
    run_dir.seal()?;
    let items = emoji::catalogue().0;
    let table = table(&evaluated);
    let page = page::write(&args.out, &items, &table, &found)?;

    let text = if args.json {
        serde_json::to_string_pretty(&to_json(&evaluated))? + "\n"
    } else {
        format!(
            "{}\n{table}\n{}",
            summary(&opened, fitted, &directions),
            examples(&items, &found)
        )
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    say(format!("report with pictures: {}", page.display()));
    Ok(ExitCode::SUCCESS)
}

fn trained(
    args: &Args,
    run: &Config,
    opened: &LoadedDataset,
    split: &Split,
) -> Result<Option<Fitted>> {
    say(format!("training {}, {} bits", run.method().name, run.bits()));
    fit_with(run, opened, split, None, args.lines())
}

impl Args {
    fn lines(&self) -> Lines {
        if self.verbose { Lines::EveryEpoch } else { Lines::None }
    }
}

/// What was learned, and how well queries of each modality find items that training did not see.
fn summary(opened: &LoadedDataset, fitted: &Fitted, directions: &[Direction]) -> String {
    let modality = |m: &data::Modality| format!("{} {}", m.len(), m.name());
    let items: Vec<String> = opened.dataset.modalities().iter().map(modality).collect();
    let seconds = fitted.history.seconds.last().copied().unwrap_or(0.0);
    let bits = fitted.model.bits();
    let mut out = format!(
        "Learned {bits}-bit codes of {} items in {seconds:.0} s.\n",
        items.join(", ")
    );
    out += "How well held-out queries find items of another modality:\n";
    for direction in directions.iter().filter(|d| d.query != d.database) {
        let name = format!("{} -> {}", direction.query, direction.database);
        let user = &direction.report.user;
        let map = direction.report.mean_average_precision().unwrap_or(0.0);
        let _ = write!(out, "  {name:<20} MAP {map:.2}");
        if let Some(words) = &user.words {
            let _ = write!(
                out,
                "; typed words: {:.0} % of the first five possible results contain the word",
                100.0 * words.p5_possible
            );
        }
        out.push('\n');
    }
    out
}

/// A few queries of each modality against the next one.
fn searches(kept: &[CodedModality]) -> Result<Vec<Found>> {
    let mut all = Vec::new();
    for (at, source) in kept.iter().enumerate() {
        let target = &kept[(at + kept.len() - 1) % kept.len()];
        let (from, to) = (&source.coded, &target.coded);
        let database = ItemBatch {
            ids: Some(target.database_ids.clone()),
            ..ItemBatch::new(to.database.clone())
        };
        let database = Snapshot::in_memory(database, &[])?;
        let every = (from.queries.len() / SHOWN).max(1);
        let shown: Vec<usize> =
            (0..from.queries.len()).step_by(every).take(SHOWN).collect();
        let queries = from.queries.select(&shown);
        let found = database.search(&queries, &Query::nearest(HITS), &|_| ())?;
        for (&q, hits) in shown.iter().zip(found) {
            let hit = |found: segments::Found| {
                let item = found.hit.item as usize;
                let right = from.query_labels.shared(q, &to.database_labels, item) > 0;
                (found.id.to_string(), found.hit.distance, right)
            };
            all.push(Found {
                from: from.name.clone(),
                to: to.name.clone(),
                query: source.query_ids.get(q).to_string(),
                hits: hits.into_iter().map(hit).collect(),
            });
        }
    }
    Ok(all)
}

/// MAP of every method in every direction.
fn table(evaluated: &[Evaluated]) -> String {
    let mut out = format!("{:<20}{:>9}", "MAP, tie-aware", "chance");
    evaluated.iter().for_each(|method| {
        let _ = write!(out, "{:>9}", method.name);
    });
    out.push('\n');
    let directions = evaluated.first().map_or(&[][..], |first| &first.directions);
    for (at, first) in directions.iter().enumerate() {
        let direction = format!("{} -> {}", first.query, first.database);
        let mut cells = vec![first.report.chance];
        cells.extend(
            evaluated.iter().map(|m| m.directions[at].report.mean_average_precision()),
        );
        let _ = write!(out, "{direction:<20}");
        for cell in cells {
            let text = cell.map_or("-".into(), |value| format!("{value:.4}"));
            let _ = write!(out, "{text:>9}");
        }
        out.push('\n');
    }
    out
}

fn to_json(evaluated: &[Evaluated]) -> serde_json::Value {
    let rows = evaluated.iter().flat_map(|method| {
        method.directions.iter().map(|d| {
            json!({
                "method": method.name,
                "query": d.query,
                "database": d.database,
                "map": d.report.mean_average_precision(),
                "chance": d.report.chance,
            })
        })
    });
    rows.collect()
}

/// Three good examples and one miss; a star marks results that share a label with the query.
fn examples(items: &[emoji::Item], found: &[Found]) -> String {
    let name = |id: &str| page::item(items, id).map_or("?", |item| item.name).to_owned();
    let right =
        |found: &Found| found.hits.iter().take(5).filter(|(.., right)| *right).count();
    let mut ordered: Vec<&Found> = found.iter().collect();
    ordered.sort_by_key(|found| std::cmp::Reverse(right(found)));
    let mut out = String::from("Examples of held-out queries (*: shares a label):\n");
    let misses = ordered.split_off(ordered.len().saturating_sub(1));
    // One example per modality of the queries, if possible.
    let mut good: Vec<&Found> = Vec::new();
    for found in &ordered {
        if good.len() < 3 && good.iter().all(|other| other.from != found.from) {
            good.push(found);
        }
    }
    for (kind, found) in good
        .iter()
        .map(|found| ("good", found))
        .chain(misses.iter().map(|miss| ("miss", miss)))
    {
        let hits =
            found.hits.iter().take(5).map(|(id, _, right)| {
                format!("{}{}", if *right { "*" } else { "" }, name(id))
            });
        let hits = hits.collect::<Vec<_>>().join(", ");
        let Found { from, to, query, .. } = found;
        let _ = writeln!(out, "  {kind}: {} ({from}) -> {to}: {hits}", name(query));
    }
    out
}
