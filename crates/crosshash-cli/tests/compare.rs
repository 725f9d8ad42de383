//! `crosshash methods` and `crosshash compare`, as a user runs them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod driver;

use std::path::Path;
use std::process::Output;

use driver::{crosshash, text};

/// A small data set of features and tags with a split.
fn made(folder: &Path) -> String {
    let data = folder.join("data").display().to_string();
    let modalities = "photo:16,tags:40:sparse";
    let size = ["--items", "200", "--labels", "5", "--modalities", modalities];
    let out = crosshash(&[&["data", "synth", "--out", &data][..], &size[..]].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    data
}

fn compare(data: &str, out: &Path) -> Output {
    crosshash(&[
        "compare",
        data,
        "--out",
        &out.display().to_string(),
        "--methods",
        "lsh,cosine,cca",
        "--bits",
        "8,16",
        "--seeds",
        "2",
        "--set",
        "cca:cca.ridge=0.1",
    ])
}

#[test]
fn methods_are_listed_with_their_requirements() {
    let out = crosshash(&["methods"]);
    assert!(out.status.success());
    let listed = text(&out.stdout);
    for name in ["jcch", "dcmh", "jcch+dcmh", "cca-3v", "cvh", "seph-km", "itq", "cosine"] {
        assert!(listed.lines().any(|line| line.starts_with(name)), "{name}: {listed}");
    }
    let out = crosshash(&["methods", "--json"]);
    let all: Vec<serde_json::Value> = serde_json::from_slice(&out.stdout).unwrap();
    let dcmh = all.iter().find(|method| method["name"] == "dcmh").unwrap();
    assert_eq!((&dcmh["year"], &dcmh["needs_pairs"]), (&2017.into(), &true.into()));
}

#[test]
fn a_comparison_writes_tables_and_figures_and_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let data = made(folder.path());
    let out = compare(&data, folder.path());
    assert!(out.status.success(), "{}", text(&out.stderr));
    let table = text(&out.stdout);
    // cosine does not fit: the widths differ
    assert!(table.contains("skipped: cosine compares features of one space"), "{table}");
    assert!(table.contains("photo -> tags") && table.contains("chance"), "{table}");
    for file in [
        "comparison.md",
        "comparison.csv",
        "comparison.json",
        "comparison.html",
        "comparison.tex",
        "convergence.svg",
        "bits.svg",
        "recall.svg",
        "top.svg",
    ] {
        assert!(folder.path().join(file).exists(), "{file}");
    }
    let csv = fs_err::read_to_string(folder.path().join("comparison.csv")).unwrap();
    // lsh twice for two seeds, cca once for it draws nothing, each at two lengths
    assert_eq!(csv.lines().count(), 1 + 2 * (2 + 1), "{csv}");
    let page = fs_err::read_to_string(folder.path().join("comparison.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("<td>lsh</td>"));

    let trial = folder.path().join("trials/lsh_8_1.json");
    let written = || fs_err::metadata(&trial).unwrap().modified().unwrap();
    let before = written();
    fs_err::remove_file(folder.path().join("trials/cca_16_0.json")).unwrap();
    let again = compare(&data, folder.path());
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert_eq!(before, written(), "what is there is not trained again");
    assert!(folder.path().join("trials/cca_16_0.json").exists());
}

#[test]
fn errors_are_reported_before_any_training() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display().to_string();
    for (more, wanted) in [
        (["--methods", "jcch,magic"], "no method named \"magic\"; there are: jcch"),
        (
            ["--set", "magic:learning_rate=1"],
            "--set magic:learning_rate=1: no method named \"magic\"",
        ),
        (["--set", "epoch=1"], "unknown field `epoch`"),
        (["--bits", "0"], "bits"),
    ] {
        let mut arguments = vec!["compare", "emoji", "--out", &out];
        arguments.extend(more);
        let refused = crosshash(&arguments);
        let err = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{err}");
        assert!(err.contains(wanted), "{err}");
        assert!(!folder.path().join("trials").exists());
    }
    let run = folder.path().join("run").display().to_string();
    let refused = crosshash(&["train", "emoji", "--out", &run, "--method", "cosine"]);
    assert!(text(&refused.stderr).contains("reference without codes"));
}

/// A training that diverges is a row with the reason and the key to change; other methods are compared.
#[test]
fn a_failed_method_keeps_its_row() {
    let folder = tempfile::tempdir().unwrap();
    let data = made(folder.path());
    let out = crosshash(&[
        "compare",
        &data,
        "--out",
        &folder.path().display().to_string(),
        "--methods",
        "dcmh,cca,lsh",
        "--bits",
        "8",
        "--seeds",
        "1",
        "--set",
        "epochs=2",
        "--set",
        "hidden=8",
        "--set",
        "hidden_sparse=8",
        "--set",
        "dcmh:dcmh.learning_rate=1e30",
    ]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let table = text(&out.stdout);
    assert!(table.contains("dcmh (failed)"), "{table}");
    assert!(
        table.contains("failed: dcmh, 8 bits, run 1: the ")
            && table.contains("lower the learning rate (dcmh.learning_rate)"),
        "{table}"
    );
    // cca and lsh are compared: one is the best, the other has an interval.
    assert!(table.contains("best") && table.contains(" p "), "{table}");
    let tex = fs_err::read_to_string(folder.path().join("comparison.tex")).unwrap();
    assert!(tex.contains("\\textbf{") && tex.contains("\\toprule"), "{tex}");
}

/// The search records its trials; results of other data are not used again.
#[test]
fn a_budget_is_recorded_and_results_depend_on_the_data() {
    let folder = tempfile::tempdir().unwrap();
    let data = made(folder.path());
    let out = folder.path().display().to_string();
    let arguments = |data: &str| -> Vec<String> {
        let given = ["compare", data, "--out", &out, "--methods", "cca,lsh", "--bits", "8"];
        let more = ["--seeds", "1", "--splits", "2", "--budget", "3"];
        given.into_iter().chain(more).map(String::from).collect()
    };
    let run = |data: &str| {
        let arguments = arguments(data);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let out = crosshash(&arguments);
        assert!(out.status.success(), "{}", text(&out.stderr));
    };
    run(&data);
    let search = fs_err::read_to_string(folder.path().join("search.csv")).unwrap();
    // cca: the defaults and two random ridges; lsh has nothing to search.
    assert_eq!(search.lines().count(), 1 + 3 + 1, "{search}");
    assert!(search.lines().nth(2).unwrap().contains("cca.ridge="), "{search}");
    assert!(folder.path().join("trials/cca_8_0_split1.json").exists());
    let trial = folder.path().join("trials/cca_8_0.json");
    let written = || fs_err::metadata(&trial).unwrap().modified().unwrap();
    let before = written();
    run(&data);
    assert_eq!(before, written(), "the same data");
    let other = folder.path().join("other").display().to_string();
    let size =
        ["--items", "150", "--labels", "4", "--modalities", "photo:16,tags:40:sparse"];
    let made = crosshash(&[&["data", "synth", "--out", &other][..], &size[..]].concat());
    assert!(made.status.success(), "{}", text(&made.stderr));
    run(&other);
    assert_ne!(before, written(), "other data");
}
