//! `crosshash train`, `encode`, `eval RUN` and `demo` end to end.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod driver;

use std::path::Path;
use std::process::Command;

use crosshash_codes::format::CodeFile;
use serde_json::Value;

use driver::{done, path, refused, text};

const SMALL: [&str; 10] = [
    "--set",
    "hidden=64",
    "--set",
    "hidden_sparse=64",
    "--set",
    "epochs=25",
    "--set",
    "learning_rate=0.05",
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
fn the_report_has_the_distances_of_nearest_items() {
    let dir = tempfile::tempdir().unwrap();
    let data = made(dir.path());
    let run = path(dir.path(), "run");
    let mut args = vec!["train", &data, "--out", &run, "--json", "--method", "jcch"];
    args.extend(SMALL);
    args.extend(["--set", "epochs=5"]);
    let report: Value = serde_json::from_str(&done(&args)).unwrap();
    let nearest = report["nearest"].as_array().unwrap();
    assert_eq!(nearest.len(), 9, "distances of nearest items, every direction");
    for one in nearest {
        let number = |field: &Value| field.as_u64().unwrap();
        assert!(number(&one["queries"]) >= 20, "{one}");
        // At most 5 % of the real queries are weak, and at least 5 % of chance is below the threshold.
        assert!(number(&one["weak_from"]) > number(&one["real"][4]), "{one}");
        assert!(number(&one["weak_from"]) >= number(&one["chance"][0]), "{one}");
        for kind in ["real", "chance"] {
            let quantiles: Vec<u64> =
                one[kind].as_array().unwrap().iter().map(number).collect();
            assert!(quantiles.is_sorted() && quantiles[4] <= 32, "{one}");
        }
    }
}

#[test]
fn a_run_folder_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let data = made(dir.path());
    let run = path(dir.path(), "run");
    let mut args = vec!["train", &data, "--out", &run, "--json", "--method", "jcch"];
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
    assert!(history.starts_with("epoch,seconds,learning_rate,loss,validation_map,"));
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

    // The texts of a file, and errors.
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
    assert!(err.contains("the file name must end in .npy or .codes"), "{err}");
    let err = refused(&["train", &data, "--out", &copy]);
    assert!(err.contains("already contains a run; use --resume"), "{err}");

    // Runs of an older layout have neither run.json nor checksums.
    for name in ["run.json", "checksums.json"] {
        fs_err::remove_file(Path::new(&copy).join(name)).unwrap();
    }
    for args in [&["eval", &copy][..], &["search", &copy, "--text", "w1"]] {
        let err = refused(args);
        assert!(err.contains("created by an older version of crosshash"), "{err}");
    }
}

/// A run that is interrupted within an epoch resumes to the same bytes.
#[cfg(unix)]
#[test]
fn an_interrupted_run_resumes_exactly() {
    use std::io::{BufRead as _, BufReader};
    let dir = tempfile::tempdir().unwrap();
    let data = made(dir.path());
    let (stopped, straight) = (path(dir.path(), "stopped"), path(dir.path(), "straight"));
    let arguments = |run: &str| -> Vec<String> {
        let args = ["train", &data, "--out", run, "--bits", "16", "--set", "epochs=40"];
        let more =
            ["--set", "hidden=32", "--set", "hidden_sparse=32", "--set", "batch_size=8"];
        args.iter().chain(&more).map(|&arg| arg.to_owned()).collect()
    };
    let mut child = Command::new(env!("CARGO_BIN_EXE_crosshash"))
        .args(arguments(&stopped))
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut lines =
        BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("epoch 2 of 40")), "it trains");
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    assert!(
        rest.iter().any(|line| line.contains("run the same command with --resume")),
        "{rest:?}"
    );
    assert!(Path::new(&stopped).join("checkpoint.safetensors").exists());
    assert!(!Path::new(&stopped).join("report.json").exists(), "it is not finished");

    // Other settings are rejected, and the saved configuration is unchanged.
    let config = fs_err::read(Path::new(&stopped).join("config.toml")).unwrap();
    let other = ["train", &data, "--out", &stopped, "--resume", "--bits", "8"];
    let err = refused(&other);
    assert!(err.contains("belongs to another configuration or data set"), "{err}");
    assert_eq!(fs_err::read(Path::new(&stopped).join("config.toml")).unwrap(), config);
    // A resumed run uses its saved configuration.
    done(&["train", &data, "--out", &stopped, "--resume"]);
    let err = refused(&["train", &data, "--out", &stopped, "--resume"]);
    assert!(err.contains("is complete; there is nothing to resume"), "{err}");
    let whole = arguments(&straight);
    done(&whole.iter().map(String::as_str).collect::<Vec<_>>());
    for file in ["model.safetensors", "model.json", "codes/database.words.codes"] {
        let bytes = |run: &str| fs_err::read(Path::new(run).join(file)).unwrap();
        assert!(bytes(&stopped) == bytes(&straight), "{file} is the same");
    }
    let rows = |run: &str| -> Vec<Vec<String>> {
        let text = fs_err::read_to_string(Path::new(run).join("history.csv")).unwrap();
        let row = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
        text.lines().map(row).collect()
    };
    let (a, b) = (rows(&stopped), rows(&straight));
    assert_eq!(a.len(), 41);
    for (a, b) in a.iter().zip(&b) {
        // All but the seconds.
        assert_eq!((&a[..1], &a[2..]), (&b[..1], &b[2..]));
    }
}

/// A full disk (here: a limit on the size of files) is an error with the file's name, and what
/// was there stays.
#[cfg(unix)]
#[test]
fn a_full_disk_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = made(dir.path());
    let run = path(dir.path(), "run");
    let settings = "--bits 16 --set hidden=64 --set hidden_sparse=64";
    let limited = |blocks: usize, epochs: usize| {
        let program = env!("CARGO_BIN_EXE_crosshash");
        let line = format!(
            "trap '' XFSZ; ulimit -f {blocks}; exec '{program}' train '{data}' --out '{run}' \
             {settings} --set epochs={epochs}"
        );
        Command::new("sh").args(["-c", &line]).output().unwrap()
    };
    let out = limited(8, 3);
    let err = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{err}");
    assert!(
        err.contains("failed to write") && err.contains("checkpoint.safetensors"),
        "{err}"
    );
    let mut left: Vec<String> = fs_err::read_dir(&run)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    left.sort_unstable();
    assert_eq!(left, ["config.toml", "run.json"], "no half-written file");
    // With free space, it resumes.
    let mut again: Vec<&str> = vec!["train", &data, "--out", &run, "--set", "epochs=3"];
    again.extend(settings.split(' '));
    again.push("--resume");
    done(&again);
}

/// A loss that is no number stops the run; the checkpoint of the last good epoch is kept.
#[test]
fn divergence_keeps_the_last_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let data = made(dir.path());
    let run = path(dir.path(), "run");
    // One step an epoch: the first sees the first weights, the second what it did to them.
    let err = refused(&[
        "train",
        &data,
        "--out",
        &run,
        "--bits",
        "16",
        "--set",
        "hidden=16",
        "--set",
        "hidden_sparse=16",
        "--set",
        "batch_size=100000",
        "--set",
        "learning_rate=1e19",
    ]);
    assert!(err.contains("at epoch 2, step 1; lower the learning rate"), "{err}");
    assert!(err.contains("of modality photo") || err.contains("pair"), "{err}");
    assert!(Path::new(&run).join("checkpoint.safetensors").exists());
    let history = fs_err::read_to_string(Path::new(&run).join("history.csv")).unwrap();
    assert_eq!(history.lines().count(), 2, "{history}");
}

#[test]
fn a_sweep_varies_settings_resumes_and_plots() {
    let dir = tempfile::tempdir().unwrap();
    let data = made(dir.path());
    let out = path(dir.path(), "sweep");
    let sweep = |more: &[&str]| {
        let mut args = vec![
            "sweep",
            &data,
            "--out",
            &out,
            "--vary",
            "jcch.lambda=0,0.1",
            "--vary",
            "bits=8,16",
            "--seeds",
            "2",
            "--set",
            "hidden=16",
            "--set",
            "hidden_sparse=16",
            "--set",
            "epochs=2",
        ];
        args.extend(more);
        done(&args)
    };
    let table = sweep(&[]);
    assert!(table.contains("photo -> tags") && table.contains(" ± "), "{table}");
    assert_eq!(table.lines().count(), 5, "four settings\n{table}");
    let trials = Path::new(&out).join("trials");
    assert_eq!(fs_err::read_dir(&trials).unwrap().count(), 8);
    let svg = fs_err::read_to_string(Path::new(&out).join("sweep.svg")).unwrap();
    assert!(
        svg.contains("lambda") && svg.contains("bits") && svg.contains("words -&gt; photo")
    );
    // Finished runs are not trained again: the seconds are those of the first time.
    let json: Value = serde_json::from_str(&sweep(&["--json"])).unwrap();
    assert_eq!(json["rows"].as_array().unwrap().len(), 4);
    let first = fs_err::read_to_string(Path::new(&out).join("sweep.csv")).unwrap();
    sweep(&[]);
    let second = fs_err::read_to_string(Path::new(&out).join("sweep.csv")).unwrap();
    assert_eq!(first, second);
    // Other data under the same names are not taken for the same.
    let elsewhere = path(dir.path(), "elsewhere");
    done(&[
        "data",
        "synth",
        "--out",
        &elsewhere,
        "--items",
        "300",
        "--labels",
        "8",
        "--modalities",
        "photo:16,tags:50:sparse,words:40:text",
        "--seed",
        "2",
    ]);
    done(&[
        "sweep",
        &elsewhere,
        "--out",
        &out,
        "--vary",
        "jcch.lambda=0",
        "--set",
        "hidden=16",
        "--set",
        "hidden_sparse=16",
        "--set",
        "epochs=2",
    ]);
    let third = fs_err::read_to_string(Path::new(&out).join("sweep.csv")).unwrap();
    assert!(!third.contains(first.lines().nth(1).unwrap()), "{third}");
    // A setting that fails is reported; the others continue.
    let failed = path(dir.path(), "failed");
    let table = done(&[
        "sweep",
        &data,
        "--out",
        &failed,
        "--vary",
        "learning_rate=1e30,0.1",
        "--set",
        "hidden=16",
        "--set",
        "hidden_sparse=16",
        "--set",
        "epochs=2",
    ]);
    let line = |start: &str| table.lines().find(|l| l.trim().starts_with(start)).unwrap();
    assert!(line("1e30").contains(" - ") && line("0.1").contains("0."), "{table}");
    // Only held-out training items are evaluated.
    let blind = path(dir.path(), "blind");
    let table = done(&[
        "sweep",
        &data,
        "--out",
        &blind,
        "--grid",
        "--vary",
        "jcch.beta=0,1",
        "--set",
        "epochs=1",
        "--set",
        "hidden=16",
        "--set",
        "hidden_sparse=16",
        "--validation-only",
    ]);
    assert!(table.contains("validation") && !table.contains("->"), "{table}");
    let err = refused(&["sweep", &data, "--out", &blind, "--vary", "speed=1"]);
    assert!(err.contains("unknown field `speed`"), "{err}");
}

#[test]
fn the_map_of_a_run_shows_modalities_and_centres() {
    let dir = tempfile::tempdir().unwrap();
    let data = made(dir.path());
    let run = path(dir.path(), "run");
    let mut args = vec!["train", &data, "--out", &run, "--set", "epochs=2"];
    args.extend(["--set", "hidden=16", "--set", "hidden_sparse=16", "--bits", "16"]);
    done(&args);
    let map = |name: &str, more: &[&str]| {
        let out = path(dir.path(), name);
        let mut args = vec!["embed-plot", &run, "--out", &out, "--iterations", "60"];
        args.extend(["--items", "60", "--perplexity", "10"]);
        args.extend(more);
        done(&args);
        fs_err::read_to_string(&out).unwrap()
    };
    let table = map("map.csv", &["--classes", "4"]);
    assert!(table.starts_with("kind,id,label,x,y\n"));
    assert_eq!(table.lines().filter(|line| line.starts_with("\"centre\"")).count(), 4);
    for modality in ["photo", "tags", "words"] {
        assert!(
            table.lines().filter(|l| l.contains(&format!("\"{modality}\""))).count() > 20
        );
    }
    assert!(table == map("again.csv", &["--classes", "4"]), "the seed decides");
    assert!(map("map.svg", &[]).contains("outputs and centres"));
    let out = path(dir.path(), "map.svg");
    let err = refused(&["embed-plot", &run, "--out", &out, "--labels", "nothing"]);
    assert!(err.contains("no label named \"nothing\""), "{err}");
    let err = refused(&["embed-plot", &run, "--out", &out, "--items", "5"]);
    assert!(err.contains("perplexity 30 does not suit"), "{err}");
}

#[test]
fn bad_settings_write_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let run = path(dir.path(), "run");
    let err = refused(&["train", "emoji", "--out", &run, "--set", "epoch=3"]);
    assert!(err.contains("unknown field `epoch`"), "{err}");
    let err = refused(&["train", "emoji", "--out", &run, "--method", "magic"]);
    assert!(
        err.contains("no method named \"magic\"; there are: jcch+, jcch, jcch-b, scdh"),
        "{err}"
    );
    let err =
        refused(&["train", "emoji", "--out", &run, "--set", "modalities=[\"smell\"]"]);
    assert!(err.contains("there are: picture, drawing, words"), "{err}");
    assert!(!Path::new(&run).exists(), "nothing is left behind");
    let err = refused(&["eval", &path(dir.path(), "nowhere")]);
    assert!(err.contains("is not the folder of a run"), "{err}");
}

#[test]
fn the_demo_writes_a_page_and_beats_the_baselines() {
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
    let [random, jcch, plus] = ["random", "jcch", "jcch+"].map(mean);
    assert!(jcch > random + 0.05, "JCCH {jcch}, random {random}");
    assert!(plus > random + 0.05, "JCCH+ {plus}, random {random}");
    let page = fs_err::read_to_string(Path::new(&out).join("report.html")).unwrap();
    let pictures = fs_err::read_dir(Path::new(&out).join("pictures")).unwrap().count();
    assert!(pictures > 20 && page.matches("<img").count() >= pictures, "{pictures}");
    for source in page.split("src=\"").skip(1) {
        let source = source.split('"').next().unwrap();
        assert!(Path::new(&out).join(source).exists(), "{source}");
    }
}
