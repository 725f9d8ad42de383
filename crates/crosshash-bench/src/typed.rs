//! `crosshash-bench typed`: the results of a search box, over HTTP.
//!
//! Starts a server on a run and types, as a user would,
//!
//! - every word that occurs in the texts of 3 to 60 items, alone: the share of the first five results
//!   whose text contains the word (of those possible: 3 of 5 for a word of three items);
//! - the name of every item (its text up to the first comma or line break): is the item the first
//!   result, or among the first five?
//!
//! Items of different modalities belong together if their ids are equal.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use crosshash::RunDir;
use crosshash::data::{self, Analyser, Features};
use crosshash_cli::progress::{Progress, say};
use crosshash_codes::eval::{ITEMS_PER_WORD, word_queries};
use serde::Serialize;
use serde_json::{Value, json};

use crate::serve::{Client, Server};

const EXAMPLES: &str = "\
Examples:
  The demo (crosshash demo --no-serve):
    crosshash-bench typed crosshash-demo --text words --target picture

  With options of the request:
    crosshash-bench typed crosshash-demo --text words --target picture --option rank=hamming";

/// Type every word and every name into the search box of a run, and evaluate the results.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run.
    run: PathBuf,

    /// The modality of texts.
    #[arg(long, value_name = "NAME")]
    text: String,

    /// The modality to search.
    #[arg(long, value_name = "NAME")]
    target: String,

    /// A field of the request, e.g. rank=hamming. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    option: Vec<String>,

    /// Type at most this many words and names, evenly spaced.
    #[arg(long, value_name = "N")]
    most: Option<usize>,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Measured {
    words: usize,
    p1: f64,
    p5: f64,
    names: usize,
    name_first: f64,
    name_in_five: f64,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let report = RunDir::open(&args.run)?.report()?;
    let opened = data::open(&report.data, report.root.as_deref())?;
    let modality = opened.dataset.modality(&args.text)?;
    let Features::Text(texts) = modality.features() else {
        bail!(
            "--text {}: this modality contains {}",
            args.text,
            modality.features().form()
        );
    };
    let target = opened.dataset.modality(&args.target)?;
    let by_id: HashMap<&str, usize> =
        modality.ids().iter().enumerate().map(|(at, id)| (id.as_str(), at)).collect();
    let found = target.ids().iter().filter_map(|id| by_id.get(id.as_str()).copied());
    let items: Vec<usize> = found.collect();
    if items.is_empty() {
        bail!("no item of {} has the id of a text in {}", args.target, args.text);
    }
    let analyser = Analyser::new(modality.analysis());
    let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
    let mut contained: Vec<Vec<u32>> = Vec::new();
    for &item in &items {
        let mut own = Vec::new();
        analyser.terms(texts.get(item), |word| {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            own.push(*numbers.entry(word.to_owned()).or_insert(next));
        });
        contained.push(own);
    }
    let spelled: HashMap<u32, &str> =
        numbers.iter().map(|(word, &number)| (number, word.as_str())).collect();
    let (words, relevant) = word_queries(&contained, ITEMS_PER_WORD)?;
    let server = Server::start(&args.run)?;
    let mut asking =
        Asking { client: Client::new(server.addr), options: options(args)?, args };
    let every = |count: usize| count.div_ceil(args.most.unwrap_or(count).max(1)).max(1);

    let chosen: Vec<usize> = (0..words.len()).step_by(every(words.len())).collect();
    let (mut first, mut five) = (0.0, 0.0);
    let progress = Progress::new("typing words", chosen.len());
    for (done, &at) in chosen.iter().enumerate() {
        let right: Vec<&str> = relevant
            .row(at)
            .iter()
            .map(|&item| modality.ids()[items[item as usize]].as_str())
            .collect();
        let hits = asking.hits(spelled[&words[at]])?;
        let hit = |id: &String| f64::from(u8::from(right.contains(&id.as_str())));
        first += hits.first().map_or(0.0, hit);
        five += hits.iter().map(hit).sum::<f64>() / right.len().min(5) as f64;
        progress.set(done + 1);
    }
    drop(progress);
    let named: Vec<usize> = items.iter().copied().step_by(every(items.len())).collect();
    let (mut leads, mut among) = (0_usize, 0_usize);
    let progress = Progress::new("typing names", named.len());
    for (done, &item) in named.iter().enumerate() {
        let name = texts.get(item).split([',', '\n']).next().unwrap_or("");
        let hits = asking.hits(name)?;
        let at = hits.iter().position(|id| *id == modality.ids()[item]);
        leads += usize::from(at == Some(0));
        among += usize::from(at.is_some());
        progress.set(done + 1);
    }
    drop(progress);
    let share = |sum: f64, count: usize| sum / count.max(1) as f64;
    let measured = Measured {
        words: chosen.len(),
        p1: share(first, chosen.len()),
        p5: share(five, chosen.len()),
        names: named.len(),
        name_first: share(leads as f64, named.len()),
        name_in_five: share(among as f64, named.len()),
    };
    if args.json {
        say_json(&measured)?;
    } else {
        say(format!(
            "{} words typed alone: P@1 {:.3}, P@5 {:.3} of the possible; {} names: first {:.3}, among \
             the first five {:.3}",
            measured.words,
            measured.p1,
            measured.p5,
            measured.names,
            measured.name_first,
            measured.name_in_five
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn say_json(measured: &Measured) -> Result<()> {
    use std::io::Write as _;
    let text = serde_json::to_string_pretty(measured)? + "\n";
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

/// The options of the request, as JSON values or texts.
fn options(args: &Args) -> Result<serde_json::Map<String, Value>> {
    let mut all = serde_json::Map::new();
    for option in &args.option {
        let (key, value) = option
            .split_once('=')
            .with_context(|| format!("--option {option}: write KEY=VALUE"))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
        all.insert(key.to_owned(), value);
    }
    Ok(all)
}

/// Sends queries.
struct Asking<'a> {
    client: Client,
    options: serde_json::Map<String, Value>,
    args: &'a Args,
}

impl Asking<'_> {
    /// The ids of the first five results of a text.
    fn hits(&mut self, text: &str) -> Result<Vec<String>> {
        let mut body = self.options.clone();
        let query = json!({ "text": text, "modality": self.args.text });
        body.insert("query".into(), query);
        body.insert("target".into(), json!(self.args.target));
        body.insert("k".into(), json!(5));
        let reply =
            self.client.json("POST", "/v1/search", &Value::Object(body).to_string())?;
        if reply.status != 200 {
            bail!("{text:?}: status {}: {}", reply.status, reply.text());
        }
        let answer: Value = serde_json::from_slice(&reply.body)?;
        let hits = answer["hits"].as_array().context("a response without hits")?;
        Ok(hits.iter().filter_map(|hit| hit["id"].as_str().map(str::to_owned)).collect())
    }
}
