//! Every benchmark that runs without a peer, small, through the real program.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::process::Command;

use serde_json::{Value, json};

/// Standard output of a command that must succeed.
fn bench(args: &[&str]) -> String {
    let program = env!("CARGO_BIN_EXE_crosshash-bench");
    let output = Command::new(program).args(args).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stdout}{stderr}");
    stdout
}

#[test]
fn help_has_examples() {
    for name in [
        "attack",
        "coefficients",
        "eval",
        "search",
        "serve",
        "stores",
        "train",
        "features",
        "dcmh",
    ] {
        let text = bench(&[name, "--help"]);
        assert!(text.contains(&format!("crosshash-bench {name}")), "{name}: {text}");
    }
}

#[test]
fn coefficients_without_a_peer() {
    let text = bench(&["coefficients", "--items", "300,3000", "--no-peer", "--json"]);
    let rows: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 2);
    assert_eq!((&rows[1]["items"], &rows[1]["labels"]), (&3000.into(), &81.into()));
    let sets = rows[1]["distinct_sets"].as_u64().unwrap();
    assert!(sets > 500 && sets < 3000, "{sets}");
    assert_eq!(rows[1]["note"], "peer disabled");
}

#[test]
fn eval_without_a_peer() {
    let args = ["--queries", "20", "--items", "500", "--bits", "32", "--no-peer", "--json"];
    let text = bench(&[&["eval"], &args[..]].concat());
    let json: Value = serde_json::from_str(&text).unwrap();
    assert!(json["crosshash"]["seconds"].as_f64().is_some_and(|s| s > 0.0));
    assert_eq!(json["peer"]["missing"], "skipped (--no-peer)");
}

#[test]
fn search_without_a_peer() {
    let args = ["--items", "20000", "--bits", "64", "--batch", "1,10", "-k", "5"];
    let text = bench(&[&["search", "--no-peer", "--json"], &args[..]].concat());
    let rows: Vec<Value> =
        text.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    let of = |name: &str| rows.iter().filter(|row| row["index"] == name).count();
    assert_eq!((of("scan"), of("mih"), of("auto"), of("mih-lean")), (4, 4, 4, 4));
    assert!(rows[0]["memory_gb_per_s"].as_f64().unwrap() > 0.0);
}

/// Needs the engines that `.ci/engines` installs.
#[test]
#[expect(clippy::print_stderr, reason = "a test that is left out must say so")]
fn stores_answer_like_our_index() {
    let engines = std::env::var("CROSSHASH_ENGINES").unwrap_or_else(|_| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/engines").to_owned()
    });
    if !std::path::Path::new(&engines).join("bin/python").exists() {
        assert!(
            std::env::var_os("CI").is_none(),
            "no engines in {engines}: run .ci/engines"
        );
        eprintln!("WARNING: stores NOT measured: no engines in {engines}; run .ci/engines");
        return;
    }
    let small = ["--items", "70000", "--distinct", "300", "--queries", "5", "-k", "10,500"];
    let args = ["stores", "--json", "--engines", &engines];
    let text = bench(&[&args[..], &small[..]].concat());
    let rows: Vec<Value> =
        text.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    let stores: Vec<&Value> = rows.iter().filter(|row| row["store"].is_string()).collect();
    assert_eq!(stores.len(), 3, "{text}");
    for row in stores {
        for k in 0..2 {
            assert_eq!(row["searches"][k]["recall"], 1.0, "{text}");
            assert_eq!(row["searches"][k]["equal"], true, "{text}");
            assert!(row["searches"][k]["p50_ms"].as_f64().unwrap() > 0.0, "{text}");
        }
        for rate in ["push_rows_per_second", "bytes_per_item"] {
            assert!(row[rate].as_f64().unwrap() > 1.0, "{text}");
        }
    }
}

/// More rounds: `cargo run --release -p crosshash-bench -- serve --items 0 --kills 60`.
#[test]
fn kill_9_keeps_codes_outputs_words_and_content_together() {
    let report = bench(&["serve", "--items", "0", "--kills", "3", "--json"]);
    let kills = &serde_json::from_str::<Value>(&report).unwrap()["kills"];
    for count in ["acknowledged", "compared", "found_at_once"] {
        assert!(kills[count].as_u64().unwrap() > 20, "{report}");
    }
}

#[test]
fn inserts_are_found_at_once() {
    let report = bench(&["serve", "--items", "0", "--inserts", "1000", "--json"]);
    let inserts = &serde_json::from_str::<Value>(&report).unwrap()["inserts"];
    for value in ["items_per_second", "keyword_bytes_per_item", "after_insert_p50_ms"] {
        assert!(inserts[value].as_f64().unwrap() > 0.0, "{report}");
    }
}

/// A bounded part of the attack; `crosshash-bench attack` runs all of it.
#[test]
fn the_attack_finds_no_fault() {
    let args = ["attack", "--json", "--only", "pictures,schema,kill,flips"];
    let bounds = ["--rounds", "4", "--flips", "90", "--requests", "400"];
    let report: Value =
        serde_json::from_str(&bench(&[&args[..], &bounds[..]].concat())).unwrap();
    for part in ["pictures", "schema", "kill", "flips"] {
        assert_eq!(report[part]["faults"], json!([]), "{part}: {report}");
    }
    assert!(report["kill"]["figures"]["acknowledged"].as_u64().unwrap() > 0, "{report}");
}

/// A file system that is full for some time, which needs root.
#[test]
#[expect(clippy::print_stderr, reason = "a test that is left out must say so")]
fn a_full_disk_loses_and_invents_nothing() {
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if !root && std::env::var_os("CI").is_none() {
        eprintln!("skipped: mounting a file system needs root");
        return;
    }
    let args = ["attack", "--json", "--only", "full", "--rounds", "1"];
    let report: Value = serde_json::from_str(&bench(&args)).unwrap();
    assert_eq!(report["full"]["faults"], json!([]), "{report}");
    for count in ["acknowledged", "refused", "checks"] {
        assert!(report["full"]["figures"][count].as_u64().unwrap() > 0, "{report}");
    }
}

#[test]
fn malformed_requests_do_not_stop_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run").display().to_string();
    let settings =
        ["epochs=1", "hidden=16", "hidden_sparse=16", "bits=32", "validation=0.0"];
    let settings: Vec<&str> = settings.iter().flat_map(|s| ["--set", s]).collect();
    bench(&[&["program", "train", "emoji", "--out", &run], &settings[..]].concat());
    let count = std::env::var("CROSSHASH_FUZZ").unwrap_or("1000".into());
    let args = ["--items", "0", "--seconds", "0", "--json", "--fuzz", &count];
    let report = bench(&[&["serve"], &args[..], &["--run", &run]].concat());
    let fuzz = &serde_json::from_str::<Value>(&report).unwrap()["fuzz"];
    assert_eq!(fuzz["alive"], true, "{report}");
    assert_eq!(fuzz["server_errors"], json!([]), "{report}");
    assert_eq!(fuzz["sent"].to_string(), count);
    for kind in [
        "picture bomb",
        "bad UTF-8",
        "path traversal",
        "truncated upload",
        "giant body",
        "bad values",
    ] {
        let statuses = fuzz["by_kind"][kind].as_object().unwrap();
        let fine = |status: &String| status.starts_with('4') || status == "closed";
        // What is left of a cut form may be a valid request, and a thin picture is valid too.
        let lucky = ["truncated upload", "picture bomb"].contains(&kind);
        assert!(statuses.keys().all(|s| fine(s) || lucky), "{kind}: {statuses:?}");
    }
    let (warm, end) =
        (fuzz["warm_mib"].as_f64().unwrap(), fuzz["end_mib"].as_f64().unwrap());
    assert!(end < warm + 150.0, "memory grows: {warm} to {end} MiB");
}
