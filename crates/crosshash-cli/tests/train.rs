//! `crosshash train`, `encode`, `eval RUN` and `demo` end to end.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::path::Path;
use std::process::{Command, Output};

use crosshash_codes::format::CodeFile;
use serde_json::Value;

fn crosshash(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_crosshash")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn done(args: &[&str]) -> String {
    let out = crosshash(args);
    assert_eq!(out.status.code(), Some(0), "{args:?}: {}", text(&out.stderr));
    text(&out.stdout)
}

fn refused(args: &[&str]) -> String {
    let out = crosshash(args);
    assert_eq!(out.status.code(), Some(2), "{args:?}: {}", text(&out.stdout));
    text(&out.stderr)
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().unwrap().to_owned()
}

const SMALL: [&str; 10] = [
    "--set",
    "hidden=64",
    "--set",
    "hidden_sparse=64",
    "--set",
    "epochs=25",
    "--set",
    "rate=0.05",
    "--bits",
    "32",
];

/// A data set of features, tags and texts with a split.
fn made(folder: &Path) -> String {
    let data = path(folder, "data");
    let modalities = "photo:16,tags:50:sparse,words:40:text";
    done(&[
        "data",
        "synth",
        "--out",
        &data,
        "--items",
        "500",
        "--labels",
        "8",
        "--modalities",
        modalities,
        "--seed",
        "1",
    ]);
    data
}

#[test]
fn a_run_folder_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let data = made(dir.path());
    let run = path(dir.path(), "run");
    let mut args = vec!["train", &data, "--out", &run, "--json"];
    args.extend(SMALL);
    let report: Value = serde_json::from_str(&done(&args)).unwrap();
    let directions = report["directions"].as_array().unwrap();
    assert_eq!(directions.len(), 9, "three modalities, every direction");
    for direction in directions {
        let map = direction["report"]["map"]["tie_aware"].as_f64().unwrap();
        let chance = direction["report"]["chance"].as_f64().unwrap();
        assert!(map > chance + 0.02, "{direction}: {map} {chance}");
    }
    let folder = Path::new(&run);
    for name in ["config.toml", "model.safetensors", "model.json", "report.json"] {
        assert!(folder.join(name).exists(), "{name}");
    }
    assert!(!folder.join("checkpoint.safetensors").exists(), "a finished run needs none");
    let history = fs_err::read_to_string(folder.join("history.csv")).unwrap();
    assert!(history.starts_with("epoch,seconds,rate,loss,pair,validation_map,photo.class"));
    assert_eq!(history.lines().count(), 26);

    // A copy elsewhere is as good.
    let copy = path(dir.path(), "moved");
    fs_err::rename(&run, &copy).unwrap();
    let table = done(&["eval", &copy, "--at", "10"]);
    assert!(table.contains("photo -> words") && table.contains("P@10"), "{table}");
    assert!(!table.contains("NaN"), "{table}");
    let judged: Value = serde_json::from_str(&done(&["eval", &copy, "--json"])).unwrap();
    for direction in directions {
        let same = judged.as_array().unwrap().iter().find(|other| {
            other["query"] == direction["query"]
                && other["database"] == direction["database"]
        });
        assert_eq!(same.unwrap()["report"]["map"], direction["report"]["map"]);
    }

    // The texts of a file, and refusals.
    let texts = path(dir.path(), "texts.txt");
    fs_err::write(&texts, "one text\n\nanother\n").unwrap();
    let codes = path(dir.path(), "texts.codes");
    done(&["encode", &copy, "--modality", "words", "--input", &texts, "--out", &codes]);
    let file = CodeFile::read(Path::new(&codes)).unwrap();
    assert_eq!((file.codes.len(), file.codes.bits().get()), (3, 32));
    let err = refused(&[
        "encode",
        &copy,
        "--modality",
        "sound",
        "--input",
        &texts,
        "--out",
        &codes,
    ]);
    assert!(
        err.contains("no modality named \"sound\"; there are: photo, tags, words"),
        "{err}"
    );
    let err =
        refused(&["encode", &copy, "--modality", "words", "--input", &texts, "--out", "x"]);
    assert!(err.contains("name a file that ends in .npy or .codes"), "{err}");
    let err = refused(&["train", &data, "--out", &copy]);
    assert!(err.contains("holds a run already; give --resume"), "{err}");
}

#[test]
fn bad_settings_write_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let run = path(dir.path(), "run");
    let err = refused(&["train", "emoji", "--out", &run, "--set", "epoch=3"]);
    assert!(err.contains("unknown field `epoch`"), "{err}");
    let err = refused(&["train", "emoji", "--out", &run, "--method", "magic"]);
    assert!(
        err.contains("no method named \"magic\"; there are: jcch, jcch-b, scdh"),
        "{err}"
    );
    let err =
        refused(&["train", "emoji", "--out", &run, "--set", "modalities=[\"smell\"]"]);
    assert!(err.contains("there are: picture, drawing, words"), "{err}");
    assert!(!Path::new(&run).exists(), "nothing is left behind");
    let err = refused(&["eval", &path(dir.path(), "nowhere")]);
    assert!(err.contains("is not the folder of a finished run"), "{err}");
}

#[test]
fn the_demo_leaves_a_page_and_beats_the_baselines() {
    let dir = tempfile::tempdir().unwrap();
    let out = path(dir.path(), "demo");
    let json = done(&[
        "demo",
        "--no-serve",
        "--out",
        &out,
        "--json",
        "--set",
        "epochs=10",
        "--set",
        "hidden=256",
        "--set",
        "hidden_sparse=256",
    ]);
    let rows: Value = serde_json::from_str(&json).unwrap();
    let mean = |method: &str| {
        let across =
            |row: &&Value| row["method"] == method && row["query"] != row["database"];
        let maps: Vec<f64> = rows
            .as_array()
            .unwrap()
            .iter()
            .filter(across)
            .map(|row| row["map"].as_f64().unwrap())
            .collect();
        assert_eq!(maps.len(), 6);
        maps.iter().sum::<f64>() / 6.0
    };
    let (random, jcch) = (mean("random"), mean("jcch"));
    assert!(jcch > random + 0.05, "JCCH {jcch}, random {random}");
    let page = fs_err::read_to_string(Path::new(&out).join("report.html")).unwrap();
    let pictures = fs_err::read_dir(Path::new(&out).join("pictures")).unwrap().count();
    assert!(pictures > 20 && page.matches("<img").count() >= pictures, "{pictures}");
    for source in page.split("src=\"").skip(1) {
        let source = source.split('"').next().unwrap();
        assert!(Path::new(&out).join(source).exists(), "{source}");
    }
}
