//! The metrics that a user notices, for a model and a split: recall of pairs, typed words, and the
//! quantisation gap between codes and real outputs.
//!
//! Pairs are searched among the query items, in folds of 1,000 (the customary protocol), which training
//! has not seen. Typed words search all items of a modality, and its query items alone.

use crosshash_codes::eval::{Known, Relevant, Scores, UserMetrics, known_item, words};
use crosshash_codes::{Bits, Codes};

use crate::data::{Dataset, Features, Split, View};
use crate::encode::Encoder as _;
use crate::evaluate::Direction;
use crate::model::Model;
use crate::prepare::Preparation;
use crate::typed_words::WordQueries;
use crate::{Error, Result};

/// Items of a fold.
const FOLD: usize = 1000;

/// One modality, encoded.
struct Encoded<'a> {
    name: String,
    queries: View<'a>,
    database: View<'a>,
    query_outputs: Vec<f32>,
    database_outputs: Vec<f32>,
}

/// Adds the user metrics to the reports of all directions. `progress` receives the number of directions
/// that are done.
pub fn add_user_metrics(
    model: &Model,
    dataset: &Dataset,
    split: &Split,
    directions: &mut [Direction],
    progress: &(dyn Fn(usize) + Sync),
) -> Result<()> {
    let mut all = Vec::new();
    for name in model.modalities() {
        let (queries, database) =
            (dataset.queries(split, name)?, dataset.database(split, name)?);
        let outputs = |view: &View<'_>| model.outputs(name, view.features(), &|_| {});
        all.push(Encoded {
            name: name.to_owned(),
            query_outputs: outputs(&queries)?,
            database_outputs: outputs(&database)?,
            queries,
            database,
        });
    }
    for (done, direction) in directions.iter_mut().enumerate() {
        let find = |name: &str| {
            let found = all.iter().find(|one| one.name == name);
            found.ok_or_else(|| Error::unknown("modality", name, model.modalities()))
        };
        let (from, to) = (find(&direction.query)?, find(&direction.database)?);
        direction.report.user = metrics(model, from, to)?;
        progress(done + 1);
    }
    Ok(())
}

fn metrics(model: &Model, from: &Encoded<'_>, to: &Encoded<'_>) -> Result<UserMetrics> {
    let bits = model.bits();
    let mut user = UserMetrics::default();
    let codes = |outputs: &[f32]| Codes::from_signs(bits, outputs);
    let (queries, database) = (codes(&from.query_outputs)?, codes(&to.database_outputs)?);
    let (query_labels, database_labels) = (from.queries.labels(), to.database.labels());
    let labelled = query_labels.classes() > 0 && !from.queries.is_empty();
    let known = Known {
        labels: labelled.then_some((&query_labels, &database_labels)),
        pairs: None,
    };
    if labelled {
        let width = bits.get();
        for scores in [
            Scores::hamming(&queries, &database)?,
            Scores::asymmetric(&from.query_outputs, &database)?,
            Scores::cosine(&from.query_outputs, &to.database_outputs, width)?,
        ] {
            user.add_ranking(&scores, &known)?;
        }
    } else {
        user.note("map: the data set has no labels");
    }
    if from.name == to.name {
        return Ok(user);
    }
    pairs(bits, from, to, &mut user)?;
    typed(model, from, to, &mut user)?;
    Ok(user)
}

/// Recall of pairs among the query items, by codes, asymmetric and real ranking.
fn pairs(
    bits: Bits,
    from: &Encoded<'_>,
    to: &Encoded<'_>,
    user: &mut UserMetrics,
) -> Result<()> {
    let keys = |view: &View<'_>| -> Vec<String> {
        (0..view.len()).map(|at| view.id(at).to_owned()).collect()
    };
    let (own, other) = (keys(&from.queries), keys(&to.queries));
    let paired = Relevant::by_key(&own, &other)?;
    if own.is_empty() || paired.without() == paired.len() {
        user.note("known_item: no query has a pair among the query items");
        return Ok(());
    }
    let width = bits.get();
    let row = |outputs: &[f32], at: usize| outputs[at * width..(at + 1) * width].to_vec();
    let folds = other.len().div_ceil(FOLD).max(1);
    let size = other.len().div_ceil(folds);
    let mut sums: Vec<Vec<(usize, crosshash_codes::eval::KnownItem)>> = vec![Vec::new(); 3];
    for fold in 0..folds {
        let items: Vec<usize> =
            (fold * size..((fold + 1) * size).min(other.len())).collect();
        let fold_keys: Vec<&str> = items.iter().map(|&at| other[at].as_str()).collect();
        let asking: Vec<usize> = (0..own.len())
            .filter(|&q| paired.row(q).iter().any(|at| items.contains(&(*at as usize))))
            .collect();
        if asking.is_empty() {
            continue;
        }
        let asking_keys: Vec<&str> = asking.iter().map(|&q| own[q].as_str()).collect();
        let relevant = Relevant::by_key(&asking_keys, &fold_keys)?;
        let q: Vec<f32> =
            asking.iter().flat_map(|&at| row(&from.query_outputs, at)).collect();
        let d: Vec<f32> = items.iter().flat_map(|&at| row(&to.query_outputs, at)).collect();
        let (q_codes, d_codes) =
            (Codes::from_signs(bits, &q)?, Codes::from_signs(bits, &d)?);
        for (k, scores) in [
            Scores::hamming(&q_codes, &d_codes)?,
            Scores::asymmetric(&q, &d_codes)?,
            Scores::cosine(&q, &d, width)?,
        ]
        .iter()
        .enumerate()
        {
            sums[k].push((asking.len(), known_item(scores, &relevant)?));
        }
    }
    for (k, found) in sums.iter().enumerate() {
        let merged = crosshash_codes::eval::KnownItem::mean(found);
        if let Some(ranking) = user.rankings.get_mut(k) {
            ranking.known_item.clone_from(&merged);
        } else if let Some(merged) = &merged {
            let name = ["hamming", "asymmetric", "cosine"][k];
            user.add_known_ranking(name, merged.clone());
        }
        if k == 0 {
            user.known_item = merged;
        }
    }
    Ok(())
}

/// Typed words: single words of the texts of a text modality against another modality.
fn typed(
    model: &Model,
    from: &Encoded<'_>,
    to: &Encoded<'_>,
    user: &mut UserMetrics,
) -> Result<()> {
    let Preparation::Text(vocabulary) = model.preparation(&from.name)? else {
        return Ok(());
    };
    let texts = |view: &View<'_>| -> Vec<(String, String)> {
        let one = |at| Some((view.id(at).to_owned(), view.text(at)?.to_owned()));
        (0..view.len()).filter_map(one).collect()
    };
    let texts = [texts(&from.database), texts(&from.queries)].concat();
    let ids = |view: &View<'_>| -> Vec<String> {
        (0..view.len()).map(|at| view.id(at).to_owned()).collect()
    };
    let (seen, unseen) = (ids(&to.database), ids(&to.queries));
    let every = [seen.clone(), unseen.clone()].concat();
    let outputs = [&to.database_outputs[..], &to.query_outputs].concat();
    for (keys, outputs, is_unseen) in
        [(&every, &outputs, false), (&unseen, &to.query_outputs, true)]
    {
        let pairs = texts.iter().map(|(key, text)| (key.as_str(), text.as_str()));
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let queries = WordQueries::new(vocabulary.analysis(), pairs, &keys, usize::MAX)?;
        if queries.is_empty() {
            user.note("words: no word occurs in the texts of 3 to 60 items");
            continue;
        }
        let typed = Features::Text(queries.words.clone());
        let q =
            Codes::from_signs(model.bits(), &model.outputs(&from.name, typed, &|_| {})?)?;
        let d = Codes::from_signs(model.bits(), outputs)?;
        let found = words(&Scores::hamming(&q, &d)?, &queries.relevant)?;
        if is_unseen {
            user.words_unseen = Some(found);
        } else {
            user.words = Some(found);
        }
    }
    Ok(())
}
