//! `crosshash serve` by words: fusion, notices, durability of the keyword index.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod serving;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crosshash::data::{Analyser, Analysis, emoji};
use crosshash_codes::Bits;
use crosshash_codes::segments::Writer;
use serde_json::{Value, json};
use serving::{Client, Server, json, refused, run, unsealed};

fn search(client: &mut Client, body: &Value) -> Value {
    json(200, client.json("POST", "/v1/search", &body.to_string()))
}

fn ids(found: &Value) -> Vec<String> {
    let hits = found["hits"].as_array().unwrap().iter();
    hits.map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
}

/// Terms of all emoji, as the data set analyses them.
fn terms() -> BTreeMap<String, BTreeSet<String>> {
    let analyser = Analyser::new(&Analysis::default());
    let mut terms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for item in emoji::catalogue().0 {
        analyser.terms(&item.words(), |term| {
            terms.entry(term.to_owned()).or_default().insert(item.id.clone());
        });
    }
    terms
}

#[test]
fn names_and_typed_words_find_their_items() {
    let (_dir, run) = run();
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    // An exact name returns its item first.
    let items = emoji::catalogue().0;
    let sample: Vec<&emoji::Item> = items.iter().step_by(items.len() / 100).collect();
    let mut first = 0;
    for item in &sample {
        let body = json!({"query": {"text": item.name.to_uppercase()}, "target": "picture", "k": 3});
        let found = search(&mut client, &body);
        assert_eq!(found["by"], "both", "the default for texts");
        first += usize::from(ids(&found)[0] == item.id);
    }
    assert!(first * 100 >= sample.len() * 95, "{first} of {}", sample.len());
    // Of the first five items for a word, the share that contains it, of what is possible.
    let words: Vec<(String, BTreeSet<String>)> =
        terms().into_iter().filter(|(_, items)| (3..=60).contains(&items.len())).collect();
    let words: Vec<_> = words.iter().step_by(words.len() / 60).collect();
    let mut sum = 0.0;
    for (word, relevant) in &words {
        let body = json!({"query": {"text": word}, "target": "picture", "k": 5});
        let found = search(&mut client, &body);
        assert_eq!(found["matching"], relevant.len(), "{word}");
        let right = ids(&found).iter().filter(|id| relevant.contains(*id)).count();
        sum += right as f64 / relevant.len().min(5) as f64;
    }
    let precision = sum / words.len() as f64;
    assert!(precision >= 0.95, "{precision}");
}

#[test]
fn hits_say_why_and_show_the_words() {
    let (_dir, run) = run();
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    let long =
        format!("{} 👩‍🌾 Größe: a zebrafish, grün {}", "filler ".repeat(60), "x".repeat(300));
    let items = json!([
        {"id": "long", "text": long},
        {"id": "named", "text": "nothing of it", "meta": {"name": "Zebrafish Größe"}},
    ]);
    let body = json!({"modality": "words", "items": items});
    json(201, client.json("POST", "/v1/items", &body.to_string()));
    let body = |by: &str| json!({"query": {"text": "zebrafish größe"}, "target": "words", "by": by, "k": 5});
    let by_words = search(&mut client, &body("words"));
    assert_eq!(ids(&by_words), ["named", "long"]);
    assert_eq!((&by_words["matching"], &by_words["matching_some"]), (&json!(1), &json!(1)));
    assert_eq!(by_words["hits"][0]["reason"], json!(["exact match"]));
    assert_eq!(by_words["query"]["code"], Value::Null);
    let hit = &by_words["hits"][1];
    assert_eq!(
        (&hit["reason"], &hit["distance"]),
        (&json!(["contains the words"]), &Value::Null)
    );
    for (text, ranges) in [
        (&hit["text"], &hit["highlights"]),
        (&hit["snippet"]["text"], &hit["snippet"]["highlights"]),
    ] {
        let text: Vec<u16> = text.as_str().unwrap().encode_utf16().collect();
        let marked: Vec<String> = ranges
            .as_array()
            .unwrap()
            .iter()
            .map(|range| {
                let at = |k: usize| usize::try_from(range[k].as_u64().unwrap()).unwrap();
                String::from_utf16(&text[at(0)..at(1)]).unwrap()
            })
            .collect();
        assert_eq!(marked, ["Größe", "zebrafish"]);
    }
    assert!(hit["snippet"]["text"].as_str().unwrap().chars().count() < 210);
    let both = search(&mut client, &body("both"));
    assert_eq!(ids(&both)[..2], ["named", "long"], "{both}");
    assert!(
        both["hits"][4]["reason"]
            .as_array()
            .unwrap()
            .iter()
            .all(|r| r == "similar meaning")
    );
    assert!(both["hits"][1]["distance"].is_u64());
    let mut by_distance = body("meaning");
    by_distance["rank"] = json!("hamming");
    let meaning = search(&mut client, &by_distance);
    let distances: Vec<u64> = meaning["hits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| hit["distance"].as_u64().unwrap())
        .collect();
    assert!(distances.is_sorted(), "{distances:?}");
    assert_eq!(meaning["matching"], Value::Null);
    // Filters apply to words; what is deleted is not found.
    let filtered = json!({"query": {"text": "zebrafish"}, "target": "words", "by": "words", "filter": "id = named"});
    assert_eq!(search(&mut client, &filtered)["matching"], 0);
    let gone = json!({"modality": "words", "ids": ["long"]});
    json(200, client.json("DELETE", "/v1/items", &gone.to_string()));
    assert_eq!(ids(&search(&mut client, &body("words"))), ["named"]);
    // Bad requests.
    let bad = json!({"query": {"text": "cat"}, "target": "words", "by": "letters"});
    assert!(
        refused(400, client.json("POST", "/v1/search", &bad.to_string())).starts_with("by")
    );
    let bad =
        json!({"query": {"text": "cat"}, "target": "words", "by": "words", "radius": 3});
    assert!(
        refused(400, client.json("POST", "/v1/search", &bad.to_string()))
            .starts_with("radius: ")
    );
    let bad = json!({"query": {"item": {"id": "1f408", "modality": "words"}}, "target": "words", "by": "both"});
    let message = refused(400, client.json("POST", "/v1/search", &bad.to_string()));
    assert_eq!(message, "by: only texts can be searched by words; use \"meaning\"");
}

#[test]
fn pages_neither_overlap_nor_omit_items() {
    let (_dir, run) = run();
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    for by in ["both", "words"] {
        let page = |client: &mut Client, k: usize, skip: usize| {
            let body = json!({"query": {"text": "face with heart"}, "target": "picture", "by": by, "k": k, "skip": skip});
            search(client, &body)
        };
        let mut all = Vec::new();
        for skip in (0..).step_by(700) {
            let hits = ids(&page(&mut client, 700, skip));
            if hits.is_empty() {
                break;
            }
            all.extend(hits);
        }
        let distinct: BTreeSet<&String> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        let whole = page(&mut client, 1000, 0);
        assert_eq!(ids(&whole), all[..all.len().min(1000)]);
        let wanted =
            if by == "both" { &whole["searched"] } else { &whole["matching_some"] };
        assert_eq!(*wanted, all.len(), "{by}");
        assert_eq!(ids(&page(&mut client, 3, 950)), all.get(950..953).unwrap_or_default());
    }
}

#[test]
fn unknown_words_are_reported() {
    let (_dir, run) = run();
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    for (text, similar) in
        [("bycicle", Some("bicycle")), ("qwxzkj vbnmqq", None), ("hert", Some("heart"))]
    {
        let body = json!({"query": {"text": text}, "target": "picture"});
        let found = search(&mut client, &body);
        let notice = &found["notice"];
        assert_eq!(notice["code"], "unknown_words", "{found}");
        let message = notice["message"].as_str().unwrap();
        assert!(
            message.starts_with("None of the words is known to the model: "),
            "{message}"
        );
        if let Some(similar) = similar {
            assert!(message.contains(similar), "{message}");
            let listed =
                found["query"]["words"]["unknown"][0]["similar"].as_array().unwrap();
            assert!(listed.contains(&json!(similar)));
        }
        assert_eq!(found["query"]["words"]["known"], json!([]));
    }
    let body = json!({"query": {"text": "a cat qwxzkj"}, "target": "picture"});
    let found = search(&mut client, &body);
    assert_eq!(found["notice"], Value::Null);
    assert_eq!(found["query"]["words"]["known"], json!(["cat"]));
    // A word that only an inserted item has is found, and still unknown to the model.
    let body = json!({"modality": "words", "items": [{"id": "new", "text": "a qwxzkj"}]});
    json(201, client.json("POST", "/v1/items", &body.to_string()));
    let body = json!({"query": {"text": "qwxzkj"}, "target": "words"});
    let found = search(&mut client, &body);
    assert_eq!((ids(&found)[0].as_str(), &found["matching"]), ("new", &json!(1)));
    assert_eq!(found["notice"]["code"], "unknown_words");
    let body = json!({"query": {"text": "vbnmqq"}, "target": "words", "by": "words"});
    let found = search(&mut client, &body);
    assert!(ids(&found).is_empty());
    assert_eq!(found["notice"]["code"], "no_words");
}

/// Twenty everyday words that no item contains get the notice, with close spellings where there are any, and
/// no result is shown with confidence. "Germany" is the name of a flag.
#[test]
fn everyday_words_of_no_item_get_the_notice() {
    let words = [
        ("kitten", None),
        ("bycicle", Some("bicycle")),
        ("puddle", None),
        ("sofa", None),
        ("laptopp", Some("laptop")),
        ("umbrela", Some("umbrella")),
        ("elefant", Some("elephant")),
        ("choclate", Some("chocolate")),
        ("giraff", Some("giraffe")),
        // The only helicopter is a query, so that the model does not know the word: it comes from the item.
        ("helicoptor", Some("helicopter")),
        ("fridge", None),
        ("toddler", None),
        ("lawnmower", None),
        ("spagetti", Some("spaghetti")),
        ("armchair", None),
        ("sandwhich", Some("sandwich")),
        ("guittar", Some("guitar")),
        ("skyscrapper", None),
        ("unicron", Some("unicorn")),
        ("wallpaper", None),
    ];
    let (_dir, run) = run();
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    let known = terms();
    for (word, wanted) in words {
        assert!(!known.contains_key(word), "{word} occurs in an item");
        for target in ["picture", "words"] {
            let found =
                search(&mut client, &json!({"query": {"text": word}, "target": target}));
            assert_eq!(found["notice"]["code"], "unknown_words", "{word}: {found}");
            assert_eq!(found["matching_some"], 0, "{word}");
            for hit in found["hits"].as_array().unwrap() {
                assert_eq!(
                    (&hit["weak"], &hit["reason"]),
                    (&json!(true), &json!([])),
                    "{word}"
                );
            }
            let similar = &found["query"]["words"]["unknown"][0]["similar"];
            let similar: Vec<&str> = similar
                .as_array()
                .unwrap()
                .iter()
                .map(|word| word.as_str().unwrap())
                .collect();
            assert!(similar.iter().all(|word| known.contains_key(*word)), "{similar:?}");
            assert!(
                wanted.is_none_or(|wanted| similar.contains(&wanted)),
                "{word}: {similar:?}"
            );
        }
    }
}

/// Writes a calibration into the report of a run: texts are weak from a distance to pictures on.
fn calibrate(run: &Path, weak_from: u32) {
    let path = run.join("report.json");
    let mut report: Value = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
    report["nearest"] = json!([{
        "query": "words", "database": "picture", "queries": 20, "real": [0, 0, 0, 0, 0],
        "chance": [0, 0, 0, 0, 0], "weak_from": weak_from,
    }]);
    fs_err::write(&path, report.to_string()).unwrap();
    unsealed(run);
}

#[test]
fn results_that_are_not_closer_than_chance_are_weak() {
    let (_dir, run) = run();
    let server = Server::start(&run, &[]);
    let mut client = server.client();
    let body = |target: &str, by: &str| json!({"query": {"text": "cat"}, "target": target, "by": by, "rank": "hamming", "k": 40});
    let weak = |found: &Value| -> Vec<bool> {
        let hits = found["hits"].as_array().unwrap().iter();
        hits.map(|hit| hit["weak"].as_bool().unwrap()).collect()
    };
    let found = search(&mut client, &body("picture", "meaning"));
    assert!(weak(&found).iter().all(|weak| !weak), "not calibrated");
    let nearest = u32::try_from(found["hits"][0]["distance"].as_u64().unwrap()).unwrap();
    for (weak_from, is_weak) in [(nearest + 1, false), (nearest, true)] {
        calibrate(&run, weak_from);
        json(200, client.request("POST", "/v1/models/small/reload", "", &[]));
        let found = search(&mut client, &body("picture", "meaning"));
        assert_eq!(weak(&found), vec![is_weak; 40]);
        let code = if is_weak { json!("weak_matches") } else { Value::Null };
        assert_eq!(found["notice"]["code"], code);
        // Items with the words are no weak matches.
        let found = search(&mut client, &body("picture", "both"));
        for hit in found["hits"].as_array().unwrap() {
            let reasons = hit["reason"].as_array().unwrap();
            let has_words = reasons.contains(&json!("contains the words"));
            assert_eq!(hit["weak"], is_weak && !has_words, "{hit}");
            let distance = u32::try_from(hit["distance"].as_u64().unwrap()).unwrap();
            assert_eq!(reasons.contains(&json!("similar meaning")), distance < weak_from);
        }
        // Other directions have no threshold.
        assert!(
            weak(&search(&mut client, &body("words", "meaning"))).iter().all(|weak| !weak)
        );
    }
}

/// An empty index without a model.
fn index(folder: &Path) {
    Writer::create(folder, Bits::new(64).unwrap(), &[]).unwrap().flush().unwrap();
}

fn put(client: &mut Client, id: u64, text: &str) -> std::io::Result<serving::Reply> {
    let item = json!({"id": id, "code": code(text), "text": text});
    let body = json!({"modality": "items", "items": [item]});
    client.json("POST", "/v1/items", &body.to_string())
}

/// A code that belongs to a text.
fn code(text: &str) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
}

/// The ids of the items with a word.
fn with_word(client: &mut Client, word: &str) -> Vec<String> {
    let body =
        json!({"query": {"text": word}, "target": "items", "by": "words", "k": 1000});
    let found = search(client, &body);
    assert_eq!(found["matching"], found["hits"].as_array().unwrap().len());
    ids(&found)
}

/// The largest file of a keyword index.
fn largest(folder: &Path) -> PathBuf {
    let files = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let segments =
        files.filter(|path| path.extension().is_some_and(|e| e != "json" && e != "lock"));
    segments
        .max_by_key(|path| (fs_err::metadata(path).unwrap().len(), path.clone()))
        .unwrap()
}

#[test]
fn damaged_and_deleted_keyword_indexes_are_built_again() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("index");
    index(&place);
    let keywords = place.join("keywords");
    let server = Server::start(&place, &[]);
    let mut client = server.client();
    for id in 0..20 {
        json(201, put(&mut client, id, &format!("common number{id}")));
    }
    assert_eq!(with_word(&mut client, "common").len(), 20);
    let stop = |mut server: Server| {
        server.signal("-TERM");
        assert!(server.child.wait().unwrap().success());
    };
    stop(server);
    let damage: [(&str, &dyn Fn()); 4] = [
        ("meta.json cut", &|| fs_err::write(keywords.join("meta.json"), "{\"ind").unwrap()),
        ("a segment file removed", &|| fs_err::remove_file(largest(&keywords)).unwrap()),
        ("a byte changed", &|| {
            let file = largest(&keywords);
            let mut bytes = fs_err::read(&file).unwrap();
            bytes[3] ^= 0x55;
            fs_err::write(&file, bytes).unwrap();
        }),
        ("folder removed", &|| fs_err::remove_dir_all(&keywords).unwrap()),
    ];
    for (what, damage) in damage {
        damage();
        let server = Server::start(&place, &[]);
        let mut client = server.client();
        assert_eq!(with_word(&mut client, "common").len(), 20, "{what}");
        assert_eq!(with_word(&mut client, "number7"), ["7"], "{what}");
        let said = server.said.lock().unwrap().clone();
        assert!(said.contains("keyword index"), "{what}: a warning: {said}");
        stop(server);
    }
    // Nothing to report if nothing is wrong.
    let server = Server::start(&place, &[]);
    assert_eq!(with_word(&mut server.client(), "common").len(), 20);
    assert!(!server.said.lock().unwrap().contains("keyword index"));
}

#[test]
fn the_program_searches_by_words() {
    let (_dir, run) = run();
    let find = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crosshash"));
        let output = command.arg("search").arg(&run).args(more).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), text, String::from_utf8(output.stderr).unwrap())
    };
    let contains = |id: &str| terms()["cat"].contains(id);
    let (status, text, _) = find(&[
        "--text", "cat", "--target", "picture", "--by", "words", "--json", "-k", "4",
    ]);
    assert_eq!(status, Some(0));
    let found: Value = serde_json::from_str(&text).unwrap();
    let hits = found[0]["hits"].as_array().unwrap();
    assert_eq!(hits.len(), 4);
    assert!(hits.iter().all(|hit| contains(hit["id"].as_str().unwrap())), "{text}");
    assert!(hits[0]["reason"].as_str().unwrap().contains("contains the words"));
    let (status, text, errors) = find(&[
        "--text",
        "hert",
        "--text",
        "red heart",
        "--target",
        "picture",
        "--by",
        "both",
    ]);
    assert_eq!(status, Some(0));
    assert!(
        errors.contains("None of the words is known to the model: \"hert\""),
        "{errors}"
    );
    assert!(text.contains("2764") && text.contains("exact match"), "{text}");
    let (status, _, errors) = find(&["--by", "words", "--image", "x.png"]);
    assert_eq!(status, Some(2), "{errors}");
    let (status, text, _) =
        find(&["--text", "qwxzkj", "--target", "picture", "--by", "words"]);
    assert_eq!(status, Some(1), "{text}");
}
