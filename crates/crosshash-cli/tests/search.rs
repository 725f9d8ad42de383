//! `crosshash index` and `crosshash search` end to end.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod driver;

use std::path::Path;
use std::process::Command;

use crosshash_codes::format::{CodeFile, Ids};
use crosshash_codes::{BitOrder, Bits, Codes, Labels, npy};
use serde_json::Value;

use driver::{ends, path, text};

fn codes(words: &[u64]) -> Codes {
    Codes::from_words(Bits::new(16).unwrap(), words.to_vec()).unwrap()
}

/// Ids and distances of the first query.
fn hits(index: &str, query: &str, more: &[&str]) -> Vec<(String, u64)> {
    let mut args = vec!["search", index, "--codes", query, "--json"];
    args.extend(more);
    let found: Value = serde_json::from_str(&ends(0, &args).0).unwrap();
    let hit = |hit: &Value| {
        let id = hit["id"].to_string().trim_matches('"').to_owned();
        (id, hit["distance"].as_u64().unwrap())
    };
    found[0]["hits"].as_array().unwrap().iter().map(hit).collect()
}

fn pairs(wanted: &[(&str, u64)]) -> Vec<(String, u64)> {
    wanted.iter().map(|&(id, distance)| (id.to_owned(), distance)).collect()
}

#[test]
fn an_index_is_built_changed_searched_and_exported() {
    let dir = tempfile::tempdir().unwrap();
    let (index, query) = (path(dir.path(), "x.index"), path(dir.path(), "q.npy"));
    let (database, labels) = (path(dir.path(), "d.npy"), path(dir.path(), "y.txt"));
    npy::write_packed(query.as_ref(), &codes(&[0xFF00]), BitOrder::Lsb).unwrap();
    let words = [0xFF00, 0xFF01, 0xFF03, 0xFF10, 0x00FF];
    npy::write_packed(database.as_ref(), &codes(&words), BitOrder::Lsb).unwrap();
    fs_err::write(&labels, "0 1\n1\n2\n1\n0\n").unwrap();
    let names = path(dir.path(), "names.txt");
    fs_err::write(&names, "sea\nred car\nsky\n").unwrap();
    let build = |index: &str| {
        ends(
            0,
            &[
                "index",
                "build",
                index,
                "--codes",
                &database,
                "--labels",
                &labels,
                "--label-names",
                &names,
            ],
        );
    };
    build(&index);
    let all = pairs(&[("0", 0), ("1", 1), ("3", 1), ("2", 2), ("4", 16)]);
    for kind in [
        "auto",
        "scan",
        "mih",
        "mih-lean",
        "cluster-lists",
        "tree",
        "tree-compact",
        "mih-distinct",
        "mih-distinct-compact",
    ] {
        assert_eq!(hits(&index, &query, &["--index", kind]), all, "{kind}");
    }
    assert_eq!(hits(&index, &query, &["--memory", "1G"]), all);
    let few = ["search", &index, "--codes", &query, "--memory", "1G", "--index", "mih"];
    assert!(ends(2, &few).1.contains("only --index auto chooses by memory"));
    assert!(ends(0, &["index", "tree", &index]).1.contains("trees of 0 segments"));
    assert_eq!(hits(&index, &query, &["-k", "2", "--skip", "1"]), all[1..3]);
    assert_eq!(hits(&index, &query, &["--radius", "1"]), all[..3]);
    let filter = "label in ('red car', sky) and not id in (1)";
    assert_eq!(
        hits(&index, &query, &["--filter", filter]),
        pairs(&[("0", 0), ("3", 1), ("2", 2)])
    );
    let (table, _) = ends(0, &["search", &index, "--codes", &query, "-k", "1"]);
    assert_eq!(
        table,
        "query 0, ranked by hamming\nrank  id    distance  score  labels; text; file\n   1  0            \
         0  1.000  sea, red car\n"
    );

    // change it
    let new = path(dir.path(), "new.jsonl");
    fs_err::write(&new, "{\"id\":4,\"code\":\"00fe\"}\n{\"id\":9,\"code\":\"00ff\"}\n")
        .unwrap();
    let (_, err) = ends(2, &["index", "add", &index, "--codes", &new]);
    assert!(
        err.contains("row 0: id 4 is in the index already; upsert replaces it"),
        "{err}"
    );
    let kept = path(dir.path(), "kept.index");
    ends(0, &["index", "snapshot", &index, &kept]);
    let (_, said) = ends(0, &["index", "add", &index, "--codes", &new, "--upsert"]);
    assert_eq!(said, "1 items added, 1 replaced\n");
    let (_, said) = ends(0, &["index", "delete", &index, "--ids", "1,77"]);
    assert_eq!(said, "1 items deleted, 5 remain\n");
    let now = pairs(&[("0", 0), ("9", 0), ("3", 1), ("4", 1), ("2", 2)]);
    assert_eq!(hits(&index, &query, &[]), now);
    ends(0, &["index", "compact", &index]);
    assert_eq!(hits(&index, &query, &[]), now);
    assert_eq!(hits(&kept, &query, &[]), all);
    let (info, _) = ends(0, &["index", "info", &index, "--verify", "--json"]);
    let info: Value = serde_json::from_str(&info).unwrap();
    assert_eq!((&info["items"], &info["removed"]), (&5.into(), &0.into()));
    assert_eq!((&info["segments"], &info["verified"]), (&1.into(), &true.into()));
    ends(1, &["index", "delete", &index, "--filter", "label = sea and label = sky"]);

    // out and in again by every format that keeps ids
    for ending in ["jsonl", "codes"] {
        let out = path(dir.path(), &format!("out.{ending}"));
        let again = path(dir.path(), &format!("{ending}.index"));
        ends(0, &["index", "export", &index, "--out", &out]);
        ends(0, &["index", "build", &again, "--codes", &out]);
        assert_eq!(hits(&again, &query, &[]), now);
    }
    for ending in ["npy", "faiss"] {
        let out = path(dir.path(), &format!("out.{ending}"));
        let again = path(dir.path(), &format!("{ending}.index"));
        let (_, said) = ends(0, &["index", "export", &index, "--out", &out]);
        assert!(said.contains("does not store ids"), "{said}");
        ends(0, &["index", "build", &again, "--codes", &out]);
        assert_eq!(hits(&again, &query, &[])[4].1, 2);
    }
}

#[test]
fn errors_exit_with_2_and_suggest_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let (index, query) = (path(dir.path(), "x.index"), path(dir.path(), "q.npy"));
    npy::write_packed(query.as_ref(), &codes(&[5, 6]), BitOrder::Lsb).unwrap();
    let refused = |args: &[&str]| ends(2, args).1;
    let nowhere = path(dir.path(), "nowhere");
    let err = refused(&["search", &nowhere, "--codes", &query]);
    assert!(err.contains("neither the folder of an index"), "{err}");
    ends(0, &["index", "build", &index, "--codes", &query]);
    let err = refused(&["index", "build", &index, "--codes", &query]);
    assert!(err.contains("is already an index; use `crosshash index add`"), "{err}");
    let err = refused(&["search", &index, "--codes", &query, "--filter", "label = 3"]);
    assert!(
        err.contains("filter, character 9: label 3 is out of range, there are 0 labels"),
        "{err}"
    );
    let err = refused(&["search", &index, "--codes", &query, "--filter", "price < 3"]);
    assert!(err.contains("no item has the field \"price\""), "{err}");
    let err = refused(&["search", &index, "--codes", &query, "--rank", "outputs"]);
    assert!(err.contains("the index stores no outputs"), "{err}");
    let err = refused(&["search", &index, "--codes", &query, "--rank", "cosine"]);
    assert!(err.contains("use hamming, asymmetric or outputs"), "{err}");
    let err =
        refused(&["index", "build", &nowhere, "--codes", &query, "--outputs", "int8"]);
    assert!(err.contains("q.outputs.npy does not exist"), "{err}");
    let err = refused(&["search", &index, "--codes", &query, "--index", "hnsw"]);
    assert!(
        err.contains(
            "try one of: scan, mih-lean, mih, cluster-lists, tree, tree-compact, mih-distinct, mih-distinct-compact, auto"
        ),
        "{err}"
    );
    let err = refused(&["search", &index, "--text", "a dog"]);
    assert!(err.contains("--drawing and --input require a model"), "{err}");
    let err = refused(&["search", &index, "--codes", &query, "--out", "x.csv"]);
    assert!(err.contains("the file name must end in .npz"), "{err}");
    let err = refused(&["index", "export", &index, "--out", "x.csv"]);
    assert!(err.contains("name a file that ends in .codes, .npy, .faiss, .jsonl"), "{err}");
    let err = refused(&["index", "delete", &index]);
    assert!(err.contains("no items: specify --ids, --ids-file or --filter"), "{err}");
    // nothing half-made is left where an index could not be built
    let broken = path(dir.path(), "broken.index");
    let ids = path(dir.path(), "ids.txt");
    fs_err::write(&ids, "a\n").unwrap();
    let err = refused(&["index", "build", &broken, "--codes", &query, "--ids", &ids]);
    assert!(
        err.contains("the codes has 2 rows, the ids has 1; every code needs one"),
        "{err}"
    );
    assert!(!Path::new(&broken).exists());
    // a damaged segment is detected by everything that reads it, and never copied
    let segment = path(Path::new(&index), "00000002.segment");
    let sound = fs_err::read(&segment).unwrap();
    let mut damaged = sound.clone();
    *damaged.last_mut().unwrap() ^= 1;
    fs_err::write(&segment, damaged).unwrap();
    let err = refused(&["index", "info", &index, "--verify"]);
    assert!(
        err.contains("corrupt: the checksum of the codes section does not match"),
        "{err}"
    );
    let out = path(dir.path(), "out.jsonl");
    for args in [
        &["search", &index, "--codes", &query][..],
        &["index", "export", &index, "--out", &out],
    ] {
        let err = refused(args);
        assert!(err.contains("00000002.segment: corrupt: the codes section"), "{err}");
    }
    ends(0, &["index", "delete", &index, "--ids", "0"]);
    let err = refused(&["index", "compact", &index]);
    assert!(err.contains("corrupt: the codes section is damaged"), "{err}");
    fs_err::write(&segment, sound).unwrap();
    ends(0, &["index", "compact", &index]);
    // nothing found is 1
    let far = path(dir.path(), "far.npy");
    npy::write_packed(far.as_ref(), &codes(&[0xFFFF]), BitOrder::Lsb).unwrap();
    ends(1, &["search", &index, "--codes", &far, "--radius", "2"]);
}

#[test]
fn arrays_for_numpy_and_real_valued_queries() {
    let dir = tempfile::tempdir().unwrap();
    let (index, items) = (path(dir.path(), "x.index"), path(dir.path(), "d.codes"));
    let file = CodeFile {
        codes: codes(&[1, 2, 3]),
        ids: Some(Ids::Names(["a", "b\u{e9}", "c"].map(str::to_owned).to_vec())),
        labels: Some(Labels::from_indices(2, [[0_u32], [1], [0]]).unwrap()),
    };
    file.write(items.as_ref()).unwrap();
    ends(0, &["index", "build", &index, "--codes", &items]);
    let (query, out) = (path(dir.path(), "q.npy"), path(dir.path(), "n.npz"));
    npy::write_packed(query.as_ref(), &codes(&[1, 2]), BitOrder::Lsb).unwrap();
    ends(0, &["search", &index, "--codes", &query, "-k", "2", "--out", &out]);
    let bytes = fs_err::read(&out).unwrap();
    assert!(bytes.starts_with(b"PK"));
    let script = "import sys, numpy as np\nz = np.load(sys.argv[1])\n\
                  print(z['ids'].tolist(), z['distances'].tolist(), z['items'].tolist())";
    let numpy = Command::new("python3").args(["-c", script, &out]).output();
    match numpy {
        Ok(ran) if ran.status.success() => assert_eq!(
            text(&ran.stdout),
            "[['a', 'c'], ['b\u{e9}', 'c']] [[0, 1], [0, 1]] [[0, 2], [1, 2]]\n"
        ),
        _ => say("NumPy is not here: the arrays were not opened"),
    }
    // a query that is sure of bit 1 only: codes with it come first, by descending score
    let mut row = vec![-0.01_f32; 16];
    row[0] = 0.5;
    row[1] = 3.0;
    let reals = path(dir.path(), "r.npy");
    npy::write_matrix(reals.as_ref(), 1, 16, row).unwrap();
    let (found, _) = ends(0, &["search", &index, "--rerank", &reals, "--json"]);
    let found: Value = serde_json::from_str(&found).unwrap();
    let hits = found[0]["hits"].as_array().unwrap();
    let ids: Vec<&str> = hits.iter().map(|hit| hit["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["c", "b\u{e9}", "a"]);
    // 3.64 over the lengths of the query and of the signs
    let wanted = 3.64 / ((9.25_f64 + 0.0014).sqrt() * 4.0);
    assert!((hits[0]["score"].as_f64().unwrap() - wanted).abs() < 1e-4);
    assert_eq!(
        (&found[0]["rank"], &found[0]["query"]),
        (&"asymmetric".into(), &"0".into())
    );

    // stored outputs decide between items of the same code
    let (full, outputs) = (path(dir.path(), "full.index"), path(dir.path(), "o.npy"));
    let mut rows = vec![-1.0_f32; 48];
    (rows[0], rows[17], rows[32], rows[33]) = (9.0, 9.0, 9.0, 0.5);
    npy::write_matrix(outputs.as_ref(), 3, 16, rows).unwrap();
    ends(0, &["index", "build", &full, "--codes", &items, "--outputs", &outputs]);
    let (info, _) = ends(0, &["index", "info", &full]);
    assert!(info.contains("outputs   int8, 16 bytes per item"), "{info}");
    let (found, _) = ends(0, &["search", &full, "--rerank", &reals, "--json"]);
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found[0]["rank"], "outputs");
    let hits = found[0]["hits"].as_array().unwrap();
    let ids: Vec<&str> = hits.iter().map(|hit| hit["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["b\u{e9}", "c", "a"]);
}

#[expect(clippy::print_stderr, reason = "a part that is left out must say so")]
fn say(line: &str) {
    eprintln!("skipped: {line}");
}

#[test]
fn words_find_the_items_of_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let (data, run) = (path(dir.path(), "data"), path(dir.path(), "run"));
    ends(
        0,
        &[
            "data",
            "synth",
            "--out",
            &data,
            "--items",
            "300",
            "--labels",
            "5",
            "--modalities",
            "photo:16,words:40:text",
            "--seed",
            "1",
        ],
    );
    ends(
        0,
        &[
            "train",
            &data,
            "--out",
            &run,
            "--bits",
            "32",
            "--set",
            "hidden=32",
            "--set",
            "hidden_sparse=32",
            "--set",
            "epochs=8",
            "--set",
            "learning_rate=0.05",
        ],
    );
    let (found, _) = ends(0, &["search", &run, "--text", "w1 w2", "-k", "5", "--json"]);
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found[0]["hits"].as_array().unwrap().len(), 5);
    let (again, _) = ends(
        0,
        &[
            "search",
            &run,
            "--text",
            "w1 w2",
            "--text",
            "w3",
            "-k",
            "5",
            "--json",
            "--rank",
            "asymmetric",
        ],
    );
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again.as_array().unwrap().len(), 2);
    assert!(again[0]["hits"][0]["score"].is_number());
    assert_eq!((&again[0]["query"], &again[1]["query"]), (&"w1 w2".into(), &"w3".into()));
    assert_eq!(
        (&found[0]["rank"], &again[0]["rank"]),
        (&"outputs".into(), &"asymmetric".into())
    );
    // items are shown with their texts, here those of the same id
    assert!(found[0]["hits"][0]["text"].as_str().unwrap().contains('w'), "{found}");
    let codes = path(Path::new(&run), "codes/database.photo.codes");
    let index = path(dir.path(), "photo.index");
    ends(0, &["index", "build", &index, "--codes", &codes, "--outputs", "int8"]);
    let (table, _) = ends(0, &["search", &index, "--codes", &codes, "-k", "1"]);
    assert!(table.starts_with("query ") && table.contains("ranked by outputs"), "{table}");
    ends(0, &["search", &run, "--text", "w1", "--target", "words", "-k", "1"]);
    // all items are searched, also those that were held out as queries
    let (all, _) = ends(0, &["search", &run, "--text", "w1", "-k", "1000", "--json"]);
    let all: Value = serde_json::from_str(&all).unwrap();
    assert_eq!(all[0]["hits"].as_array().unwrap().len(), 300);
    let (_, err) = ends(2, &["search", &run, "--text", "w1", "--target", "sound"]);
    assert!(
        err.contains("sound is not a modality of the run; there are photo, words"),
        "{err}"
    );
    let (_, err) = ends(2, &["search", &run]);
    assert!(
        err.contains("specify the modality of the queries")
            || err.contains("no queries: specify")
    );
}
