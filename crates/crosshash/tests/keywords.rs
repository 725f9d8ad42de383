//! The keyword index against a plain search, on random texts and random changes.

#![cfg(feature = "keywords")]

use std::collections::BTreeMap;

use crosshash::data::{Analyser, Analysis, Language};
use crosshash::keywords::{KeywordHits, KeywordIndex, KeywordItem, Reconciled, Tier};
use proptest::prelude::*;

#[path = "../src/proptests.rs"]
mod proptests;
use proptests::fixed;

const WORDS: [&str; 8] = ["cat", "Cats", "dog", "the", "Größe", "日", "7", "running"];

fn english() -> Analysis {
    Analysis {
        stem: Some(Language::English),
        stop_words: Some(Language::English),
        ..Analysis::default()
    }
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(0..WORDS.len(), 0..6)
        .prop_map(|words| words.iter().map(|&w| WORDS[w]).collect::<Vec<_>>().join(", "))
}

fn item(id: &str, text: &str) -> KeywordItem {
    KeywordItem { id: id.to_owned(), text: text.to_owned(), names: Vec::new() }
}

fn terms(text: &str) -> Vec<String> {
    let analysis = Analysis { min_length: 1, stop_words: None, ..english() };
    let mut terms = Vec::new();
    Analyser::new(&analysis).terms(text, |term| terms.push(term.to_owned()));
    terms
}

/// The distinct terms of a query: without stop words, unless there is nothing else.
fn query_terms(query: &str) -> Vec<String> {
    let all: Vec<String> = terms(query);
    let mut kept: Vec<String> = all.iter().filter(|term| *term != "the").cloned().collect();
    if kept.is_empty() {
        kept = all;
    }
    kept.sort();
    kept.dedup();
    kept
}

/// A plain search: whether every matching item is exact, its tier and BM25.
fn plain(
    items: &BTreeMap<String, String>,
    query: &str,
) -> BTreeMap<String, (bool, Tier, f64)> {
    let wanted = query_terms(query);
    let documents: Vec<Vec<String>> = items.values().map(|text| terms(text)).collect();
    let n = documents.len() as f64;
    let mean = documents.iter().map(Vec::len).sum::<usize>() as f64 / n;
    let name = |text: &str| {
        let text = text.to_lowercase().replace(',', " ");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let mut found = BTreeMap::new();
    for (id, document) in items.keys().zip(&documents) {
        let (mut score, mut matched) = (0.0, 0);
        for term in &wanted {
            let with = documents.iter().filter(|d| d.contains(term)).count() as f64;
            let tf = document.iter().filter(|t| *t == term).count() as f64;
            let idf = (1.0 + (n - with + 0.5) / (with + 0.5)).ln();
            let length = 0.25 + 0.75 * document.len() as f64 / mean;
            score += idf * tf * 2.2 / (tf + 1.2 * length);
            matched += usize::from(tf > 0.0);
        }
        let exact = !query.trim().is_empty()
            && [id, &items[id]].iter().any(|t| name(t) == name(query));
        let tier = match matched {
            0 => Tier::None,
            n if n == wanted.len() => Tier::All,
            _ => Tier::Some,
        };
        if matched > 0 || exact {
            found.insert(id.clone(), (exact, tier, score));
        }
    }
    found
}

fn check_order(found: &KeywordHits) {
    for pair in found.hits.windows(2) {
        let by_score = pair[1].score.total_cmp(&pair[0].score);
        let order = pair[1].exact.cmp(&pair[0].exact);
        let order = order.then(pair[0].tier.cmp(&pair[1].tier)).then(by_score);
        assert!(order.then_with(|| pair[0].id.cmp(&pair[1].id)).is_lt(), "{pair:?}");
    }
}

proptest! {
    #![proptest_config(fixed(24))]

    #[test]
    fn rankings_are_those_of_a_plain_search(
        texts in prop::collection::vec(text(), 1..25),
        queries in prop::collection::vec(text(), 6),
    ) {
        let items: BTreeMap<String, String> =
            (0..).map(|n: u32| format!("id {n}")).zip(texts).collect();
        let index = KeywordIndex::in_memory(&english()).unwrap();
        index.reconcile(items.iter().map(|(id, text)| item(id, text)), 1).unwrap();
        for query in queries.iter().map(String::as_str).chain(["id 0", "dog", ""]) {
            let wanted = plain(&items, query);
            let found = index.search(query, usize::MAX).unwrap();
            prop_assert_eq!(found.hits.len(), wanted.len(), "{}", query);
            for hit in &found.hits {
                let (exact, tier, score) = wanted[&hit.id];
                let found = (hit.exact, hit.tier);
                prop_assert_eq!(found, (exact, tier), "{} for {}", &hit.id, query);
                let off = (f64::from(hit.score) - score).abs();
                prop_assert!(off < 1e-4, "{}: {} is not {}", query, hit.score, score);
            }
            check_order(&found);
            for limit in [0, 1, 3, 10] {
                let part = index.search(query, limit).unwrap();
                prop_assert_eq!(&part.hits[..], &found.hits[..limit.min(found.hits.len())]);
                prop_assert_eq!((part.all, part.some), (found.all, found.some));
            }
            let with_words = wanted.values().filter(|(_, _, score)| *score > 0.0).count();
            prop_assert_eq!(found.some, with_words);
        }
    }

    #[test]
    fn changes_and_reopening_keep_words_and_items_together(
        steps in prop::collection::vec((0..8_u32, prop::option::of(text()), any::<bool>()), 1..16),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut index = KeywordIndex::open(dir.path(), &english()).unwrap();
        let mut items: BTreeMap<String, String> = BTreeMap::new();
        for (position, (id, text, reopen)) in (1..).zip(steps) {
            let id = format!("id {id}");
            let change = text.as_ref().map(|text| item(&id, text));
            match text {
                Some(text) => items.insert(id.clone(), text),
                None => items.remove(&id),
            };
            index.stage([(id, change)], position);
            let queries = ["cat", "dog the", "Größe 7", "id 3"];
            let staged: Vec<_> =
                queries.iter().map(|query| index.search(query, usize::MAX).unwrap()).collect();
            // Several changes may wait for a commit; it changes neither items nor scores.
            if position % 3 == 0 || reopen {
                index.commit().unwrap();
                prop_assert_eq!(index.pending(), 0);
                prop_assert_eq!(index.len(), items.len());
                prop_assert_eq!(index.position().unwrap(), Some(position));
            }
            for (query, staged) in queries.iter().zip(staged) {
                let found = index.search(query, usize::MAX).unwrap();
                prop_assert_eq!((found.all, found.some), (staged.all, staged.some));
                prop_assert_eq!(found.hits.len(), staged.hits.len());
                // From eight segments on, merges remove deleted items from the statistics.
                let is_merged = position > 7;
                for (hit, staged) in found.hits.iter().zip(&staged.hits).filter(|_| !is_merged) {
                    prop_assert_eq!(&hit.id, &staged.id);
                    prop_assert!((hit.score - staged.score).abs() < 1e-4, "{}", query);
                }
            }
            if reopen {
                drop(index);
                index = KeywordIndex::open(dir.path(), &english()).unwrap();
            }
            for query in queries {
                let found = index.search(query, usize::MAX).unwrap();
                check_order(&found);
                let tiers: BTreeMap<String, (bool, Tier)> =
                    found.hits.into_iter().map(|hit| (hit.id, (hit.exact, hit.tier))).collect();
                let wanted: BTreeMap<String, (bool, Tier)> = plain(&items, query)
                    .into_iter()
                    .map(|(id, (exact, tier, _))| (id, (exact, tier)))
                    .collect();
                prop_assert_eq!(tiers, wanted, "{}", query);
            }
        }
    }
}

#[test]
fn reconciling_writes_only_what_differs() {
    let dir = tempfile::tempdir().unwrap();
    let index = KeywordIndex::open(dir.path(), &english()).unwrap();
    let all: Vec<KeywordItem> =
        (0..50).map(|n| item(&n.to_string(), &format!("thing number {n}"))).collect();
    let done = index.reconcile(all.clone(), 3).unwrap();
    assert_eq!(done, Reconciled { written: 50, removed: 0 });
    drop(index);
    let index = KeywordIndex::open(dir.path(), &english()).unwrap();
    assert_eq!(index.reconcile(all.clone(), 3).unwrap(), Reconciled::default());
    let mut next = all[5..].to_vec();
    next[0].text = "another text".into();
    next[1].names.push("Fritz".into());
    assert_eq!(index.reconcile(next, 4).unwrap(), Reconciled { written: 2, removed: 5 });
    assert_eq!((index.len(), index.position().unwrap()), (45, Some(4)));
    let ids = |query: &str| -> Vec<String> {
        index.search(query, 9).unwrap().hits.into_iter().map(|hit| hit.id).collect()
    };
    assert_eq!(ids("ANOTHER"), ["5"]);
    assert_eq!(ids("fritz!"), ["6"]);
    assert!(ids("number 4").iter().all(|id| id != "4"), "item 4 is gone");
    assert_eq!(ids("number 44")[0], "44");
    // Other stemming: nothing of the old index fits.
    drop(index);
    let plain = KeywordIndex::open(dir.path(), &Analysis::default()).unwrap();
    assert!(plain.is_empty());
    assert_eq!(plain.reconcile(all, 5).unwrap().written, 50);
    assert!(plain.search("things", 9).unwrap().hits.is_empty());
}

#[test]
fn damaged_folders_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let index = KeywordIndex::open(dir.path(), &english()).unwrap();
    index.reconcile([item("a", "a cat")], 1).unwrap();
    drop(index);
    fs_err::write(dir.path().join("meta.json"), "{").unwrap();
    let Err(err) = KeywordIndex::open(dir.path(), &english()) else { panic!("opened") };
    assert!(err.to_string().contains("keyword index"), "{err}");
}
