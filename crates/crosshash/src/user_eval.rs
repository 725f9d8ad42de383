//! The metrics that a user notices, for a model and a split: recall of pairs, typed words, and the
//! quantisation gap between codes and real outputs.
//!
//! Pairs are searched among the query items, which training has not seen, in folds of 1,000 pair keys (the
//! customary protocol): a fold contains 1,000 pictures and all their captions. A query has found its pair at
//! the best rank of the items of its key. Typed words search all items of a modality, and its query items
//! alone; an item contains the words of all texts of its key.

use std::collections::HashMap;

use crosshash_codes::eval::{
    Known, KnownItem, Relevant, Scores, UserMetrics, known_item, words,
};
use crosshash_codes::{Bits, Codes};

use crate::data::{Dataset, Features, Split, View};
use crate::encode::{Encoder as _, database_outputs};
use crate::evaluate::Direction;
use crate::model::Model;
use crate::prepare::Preparation;
use crate::typed_words::WordQueries;
use crate::{Error, Result};

/// Pair keys of a fold.
const FOLD: usize = 1000;
/// Items by Hamming distance that real outputs re-rank.
const RERANKED: usize = 200;

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
            database_outputs: database_outputs(model, dataset, split, name, &|_| {})?,
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

/// Recall of pairs among the query items, by codes, asymmetric, real and re-ranked ranking.
fn pairs(
    bits: Bits,
    from: &Encoded<'_>,
    to: &Encoded<'_>,
    user: &mut UserMetrics,
) -> Result<()> {
    let (own, other) = (keys(&from.queries), keys(&to.queries));
    let paired = Relevant::by_key(&own, &other)?;
    if own.is_empty() || paired.without() == paired.len() {
        user.note("known_item: no query has a pair among the query items");
        return Ok(());
    }
    let width = bits.get();
    let rows = |outputs: &[f32], items: &[usize]| -> Vec<f32> {
        items.iter().flat_map(|&at| &outputs[at * width..][..width]).copied().collect()
    };
    let mut found: [Vec<(usize, KnownItem)>; 4] = Default::default();
    for Fold { asking, items } in folds(&own, &other) {
        let some = |keys: &[&str], at: &[usize]| -> Vec<String> {
            at.iter().map(|&at| keys[at].to_owned()).collect()
        };
        let relevant = Relevant::by_key(&some(&own, &asking), &some(&other, &items))?;
        let (q, d) = (rows(&from.query_outputs, &asking), rows(&to.query_outputs, &items));
        let (q_codes, d_codes) =
            (Codes::from_signs(bits, &q)?, Codes::from_signs(bits, &d)?);
        let rankings = [
            Scores::hamming(&q_codes, &d_codes)?,
            Scores::asymmetric(&q, &d_codes)?,
            Scores::cosine(&q, &d, width)?,
            Scores::reranked((&q_codes, &d_codes), (&q, &d), RERANKED)?,
        ];
        for (found, scores) in found.iter_mut().zip(&rankings) {
            found.push((asking.len(), known_item(scores, &relevant)?));
        }
    }
    for (found, name) in found.iter().zip(["hamming", "asymmetric", "cosine", "reranked"]) {
        let Some(merged) = KnownItem::mean(found) else { continue };
        if name == "hamming" {
            user.known_item = Some(merged.clone());
        }
        match user.rankings.iter_mut().find(|ranking| ranking.ranking == name) {
            Some(ranking) => ranking.known_item = Some(merged),
            None => user.add_known_ranking(name, merged),
        }
    }
    Ok(())
}

/// Queries, and the items among which they are searched.
struct Fold {
    asking: Vec<usize>,
    items: Vec<usize>,
}

/// Folds of the pair keys of the items, in the order of their first items; without folds that have no query.
fn folds(own: &[&str], other: &[&str]) -> Vec<Fold> {
    let mut number: HashMap<&str, usize> = HashMap::new();
    for &key in other {
        let next = number.len();
        number.entry(key).or_insert(next);
    }
    let count = number.len().div_ceil(FOLD).max(1);
    let size = number.len().div_ceil(count).max(1);
    let empty = || Fold { asking: Vec::new(), items: Vec::new() };
    let mut folds: Vec<Fold> = std::iter::repeat_with(empty).take(count).collect();
    for (at, key) in other.iter().enumerate() {
        folds[number[key] / size].items.push(at);
    }
    for (at, key) in own.iter().enumerate() {
        if let Some(number) = number.get(key) {
            folds[number / size].asking.push(at);
        }
    }
    folds.retain(|fold| !fold.asking.is_empty());
    folds
}

fn keys<'a>(view: &View<'a>) -> Vec<&'a str> {
    (0..view.len()).map(|at| view.pair_key(at)).collect()
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
    let mut texts = Vec::new();
    for view in [&from.database, &from.queries] {
        let one = |at| Some((view.pair_key(at), view.text(at)?));
        texts.extend((0..view.len()).filter_map(one));
    }
    let unseen = keys(&to.queries);
    let every = [keys(&to.database), unseen.clone()].concat();
    let outputs = [&to.database_outputs[..], &to.query_outputs].concat();
    for (keys, outputs, is_unseen) in
        [(&every, &outputs, false), (&unseen, &to.query_outputs, true)]
    {
        let pairs = texts.iter().copied();
        let queries = WordQueries::new(vocabulary.analysis(), pairs, keys, usize::MAX)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_are_over_pair_keys() {
        let keys: Vec<String> = (0..1500).map(|k| format!("k{k}")).collect();
        let pictures: Vec<&str> = keys.iter().map(String::as_str).collect();
        let captions: Vec<&str> =
            (0..1490).flat_map(|k| [pictures[k]; 5]).chain(["other"]).collect();
        let found = folds(&captions, &pictures);
        let sizes = |folds: &[Fold]| -> Vec<(usize, usize)> {
            folds.iter().map(|fold| (fold.asking.len(), fold.items.len())).collect()
        };
        assert_eq!(sizes(&found), [(3750, 750), (3700, 750)]);
        for fold in &found {
            let inside = |key: &str| fold.items.iter().any(|&at| pictures[at] == key);
            assert!(fold.asking.iter().all(|&at| inside(captions[at])));
        }
        // 1,491 keys of captions; the key without a picture is in the last fold.
        assert_eq!(sizes(&folds(&pictures, &captions)), [(746, 3730), (744, 3721)]);
        assert_eq!(sizes(&folds(&["a"], &["b"])), []);
    }
}
