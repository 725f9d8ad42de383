//! `--by words` and `--by both`: results that contain the words of the texts.

use anyhow::{Context as _, Result};
use crosshash::keywords::KeywordIndex;
use crosshash::{QueryEncoder, RunDir};
use crosshash_codes::Codes;
use crosshash_codes::index::Query;
use crosshash_codes::segments::{Found, Ranking, Snapshot};

use super::Args;
use super::queries::{self, Queries};
use crate::progress::say;
use crate::serve::{DataLocation, DatasetContent, data_place, item_words, unknown_words};
use crate::word_ranking::{By, WordQuery};

/// Hits of every query, and the reasons of each.
pub(super) type Reasoned = (Vec<Vec<Found>>, Vec<Vec<String>>);

/// Searches a run by words, or by words and meaning.
pub(super) fn search(
    args: &Args,
    by: By,
    encoder: &QueryEncoder,
    snapshot: &Snapshot,
    queries: &Queries,
    ranking: Ranking,
    wanted: &Query<'_>,
) -> Result<Reasoned> {
    let run = RunDir::open(&args.place)?;
    let target = queries::target(args, encoder)?;
    let keywords = keywords(&run, encoder, &target, snapshot)?;
    let weak_from = weak_from(&run, &queries::query_modality(args, encoder)?, &target);
    let reals = queries.reals_or_signs();
    let (mut found, mut reasons) = (Vec::new(), Vec::new());
    for (nth, text) in args.text.iter().enumerate() {
        let query = WordQuery {
            by,
            text: text.clone(),
            k: wanted.k,
            skip: wanted.skip,
            radius: wanted.radius,
        };
        let (k, skip) = query.by_meaning();
        let near = Query { k, skip, ..*wanted };
        let code = queries.codes.code(nth).to_vec();
        let own = Codes::from_words(snapshot.bits(), code.clone())?;
        let bits = snapshot.bits().get();
        let reals = &reals[nth * bits..(nth + 1) * bits];
        let meaning = snapshot.search_ranked(&own, reals, ranking, &near, &|_| ())?;
        let meaning = meaning.into_iter().next().unwrap_or_default();
        let page = query.rank(Some(&keywords), snapshot, &code, wanted.allowed, meaning)?;
        let why = page.hits.iter().map(|hit| hit.reasons(weak_from).join(", "));
        reasons.push(why.collect());
        found.push(page.hits.into_iter().map(|hit| hit.found).collect());
    }
    Ok((found, reasons))
}

/// Says which texts have no word that the model knows.
pub(super) fn report_unknown(args: &Args, encoder: &QueryEncoder) -> Result<()> {
    if args.text.is_empty() {
        return Ok(());
    }
    let modality = queries::query_modality(args, encoder)?;
    for text in &args.text {
        let words = encoder.words(&modality, text);
        if let Some(words) = words.filter(|words| words.known.is_empty()) {
            say(format!("{text}: {}", unknown_words(&words)));
        }
    }
    Ok(())
}

/// The keyword index of the searched items.
fn keywords(
    run: &RunDir,
    encoder: &QueryEncoder,
    target: &str,
    snapshot: &Snapshot,
) -> Result<KeywordIndex> {
    let (data, root) = data_place(run, &DataLocation::default())
        .context("--by: the data set of the run, which has the texts, was not found")?;
    let shown = DatasetContent::open(&data, root.as_deref()).context("--by")?;
    let keywords = KeywordIndex::in_memory(&encoder.analysis(target))?;
    let mut items = Vec::new();
    for item in snapshot.items() {
        items.extend(item_words(snapshot, item, target, Some(&shown))?);
    }
    keywords.reconcile(items, 0)?;
    Ok(keywords)
}

fn weak_from(run: &RunDir, query: &str, target: &str) -> Option<u32> {
    let nearest = run.report().ok()?.nearest;
    let mut found =
        nearest.iter().filter(|one| one.query == query && one.database == target);
    found.next().map(|found| found.weak_from)
}
