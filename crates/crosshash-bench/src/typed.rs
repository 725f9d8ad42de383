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
//!
//! With `--judge FILE`, the words are those of a file instead: one line per item, its id (a file ending is
//! ignored), a tab, and its words separated by commas. The file is only used to judge, so that hidden labels
//! can be typed on a catalogue that has none (`peers/catalogue.py` makes one).

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use crosshash::RunDir;
use crosshash::data::{self, Analyser, Features, Modality, Texts};
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
    crosshash-bench typed crosshash-demo --text words --target picture --option rank=hamming

  Hidden label words, by meaning alone and together with words:
    crosshash-bench typed photos-crosshash/run --text text --target image --judge labels.tsv --option by=meaning
    crosshash-bench typed photos-crosshash/run --text text --target image --judge labels.tsv --option by=both";

/// Fewest items of a judged word.
const FEWEST: usize = 3;

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

    /// Type the words of this file (ID, tab, words separated by commas) instead, and judge by it.
    #[arg(long, value_name = "FILE")]
    judge: Option<PathBuf>,

    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Measured {
    words: usize,
    p1: f64,
    p5: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    names: Option<Names>,
}

#[derive(Serialize)]
struct Names {
    count: usize,
    first: f64,
    in_five: f64,
}

/// A word to type, and the ids of the items that are right.
struct Word<'a> {
    text: String,
    right: Vec<&'a str>,
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
    let judged = args.judge.as_ref().map(fs_err::read_to_string).transpose()?;
    let words = match &judged {
        Some(judged) => judged_words(judged, target.ids())?,
        None => words_of_texts(modality, texts, &items)?,
    };
    let server = Server::start(&args.run)?;
    let mut asking =
        Asking { client: Client::new(server.addr), options: options(args)?, args };
    let every = |count: usize| count.div_ceil(args.most.unwrap_or(count).max(1)).max(1);

    let chosen: Vec<&Word<'_>> = words.iter().step_by(every(words.len())).collect();
    let (mut first, mut five) = (0.0, 0.0);
    let progress = Progress::new("typing words", chosen.len());
    for (done, word) in chosen.iter().enumerate() {
        let hits = asking.hits(&word.text)?;
        let hit = |id: &String| f64::from(u8::from(word.right.contains(&id.as_str())));
        first += hits.first().map_or(0.0, hit);
        five += hits.iter().map(hit).sum::<f64>() / word.right.len().min(5) as f64;
        progress.set(done + 1);
    }
    drop(progress);
    let share = |sum: f64, count: usize| sum / count.max(1) as f64;
    let mut measured = Measured {
        words: chosen.len(),
        p1: share(first, chosen.len()),
        p5: share(five, chosen.len()),
        names: None,
    };
    if args.judge.is_none() {
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
        let count = named.len();
        let (first, in_five) = (share(leads as f64, count), share(among as f64, count));
        measured.names = Some(Names { count, first, in_five });
    }
    if args.json {
        say_json(&measured)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!(
        "{} words typed alone: P@1 {:.3}, P@5 {:.3} of the possible",
        measured.words, measured.p1, measured.p5
    );
    if let Some(Names { count, first, in_five }) = &measured.names {
        let _ = write!(
            text,
            "; {count} names: first {first:.3}, among the first five {in_five:.3}"
        );
    }
    say(text);
    Ok(ExitCode::SUCCESS)
}

/// The words that occur in the texts of 3 to 60 items.
fn words_of_texts<'a>(
    modality: &'a Modality,
    texts: &Texts,
    items: &[usize],
) -> Result<Vec<Word<'a>>> {
    let analyser = Analyser::new(modality.analysis());
    let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
    let mut contained: Vec<Vec<u32>> = Vec::new();
    for &item in items {
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
    let one = |(at, word): (usize, &u32)| {
        let right = relevant.row(at).iter();
        Word {
            text: spelled[word].to_owned(),
            right: right
                .map(|&item| modality.ids()[items[item as usize]].as_str())
                .collect(),
        }
    };
    Ok(words.iter().enumerate().map(one).collect())
}

/// The words of a file that at least [`FEWEST`] items of the database have.
fn judged_words<'a>(judged: &str, ids: &'a [String]) -> Result<Vec<Word<'a>>> {
    let bare = |id: &str| Path::new(id).with_extension("").to_string_lossy().into_owned();
    let known: HashMap<String, &str> =
        ids.iter().map(|id| (bare(id), id.as_str())).collect();
    let mut right: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in judged.lines() {
        let mut cells = line.split('\t');
        let (id, words) = (cells.next().unwrap_or(""), cells.next().unwrap_or(""));
        let Some(&id) = known.get(&bare(id)) else { continue };
        for word in words.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            right.entry(word).or_default().push(id);
        }
    }
    let words: Vec<Word<'a>> = right
        .into_iter()
        .filter(|(_, right)| right.len() >= FEWEST)
        .map(|(word, right)| Word { text: word.to_owned(), right })
        .collect();
    if words.is_empty() {
        bail!(
            "--judge: no word belongs to {FEWEST} items of the run; are the ids those of the items?"
        );
    }
    Ok(words)
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
