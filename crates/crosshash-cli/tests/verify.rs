//! `crosshash verify` and `crosshash index rescue` end to end, and what damaged runs do.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod driver;
mod serving;

use std::path::Path;

use driver::{done, ends, path, refused};
use serving::run;

fn flip(path: &Path) {
    let mut bytes = fs_err::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs_err::write(path, bytes).unwrap();
}

#[test]
fn a_damaged_run_is_named_and_not_used() {
    let (dir, run) = run();
    let place = path(dir.path(), "small");
    let report = done(&["verify", &place]);
    assert!(
        report.contains(" 0 damaged") && report.contains("model.safetensors"),
        "{report}"
    );
    for name in ["model.safetensors", "model.json", "codes/query.words.outputs.npy"] {
        flip(&run.join(name));
        let (report, _) = ends(2, &["verify", &place]);
        assert!(report.contains("1 damaged"), "{report}");
        let line = report.lines().find(|line| line.starts_with("DAMAGED")).unwrap();
        assert!(line.contains(name), "{line}");
        flip(&run.join(name));
    }
    // flipped weights are not loaded
    flip(&run.join("model.safetensors"));
    let texts = dir.path().join("texts.txt");
    fs_err::write(&texts, "a cat\n").unwrap();
    let texts = texts.to_str().unwrap().to_owned();
    let out = path(dir.path(), "out.npy");
    let encode =
        ["encode", &place, "--modality", "words", "--input", &texts, "--out", &out];
    let message = refused(&encode);
    assert!(message.contains("its checksum does not match"), "{message}");
    flip(&run.join("model.safetensors"));
    done(&encode);
    // a deleted code file is an error, not a direction less
    done(&["eval", &place]);
    for name in ["codes/query.words.codes", "codes/database.words.codes"] {
        let bytes = fs_err::read(run.join(name)).unwrap();
        fs_err::remove_file(run.join(name)).unwrap();
        let message = refused(&["eval", &place]);
        assert!(message.contains("words.codes"), "{message}");
        fs_err::write(run.join(name), bytes).unwrap();
    }
    let message = refused(&["verify", &path(dir.path(), "nothing")]);
    assert!(message.contains("neither a run nor an index"), "{message}");
}

#[test]
fn a_run_that_ended_before_its_configuration_is_not_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let run = path(dir.path(), "run");
    fs_err::create_dir_all(&run).unwrap();
    let layout = r#"{"version":2,"crosshash":"0.1.0"}"#;
    fs_err::write(dir.path().join("run/run.json"), layout).unwrap();
    let message = refused(&["train", "emoji", "--out", &run, "--resume"]);
    assert!(message.contains("before its configuration was written"), "{message}");
}

/// A layer that no memory holds is refused before anything is allocated.
#[test]
fn absurd_sizes_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = path(dir.path(), "run");
    for setting in ["hidden=1000000000", "bits=1000000000", "hidden_sparse=4000000000"] {
        let message = refused(&["train", "emoji", "--out", &run, "--set", setting]);
        let name = setting.split('=').next().unwrap();
        assert!(message.contains(name), "{message}");
    }
    assert!(!Path::new(&run).join("model.safetensors").exists());
}

#[test]
fn files_of_a_run_have_the_usual_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_dir, run) = run();
    for name in ["model.safetensors", "model.json", "checksums.json"] {
        let mode = fs_err::metadata(run.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "{name}");
    }
}

/// A damaged index is named; compaction and export refuse it; what is healthy is rescued.
#[test]
fn a_damaged_index_is_rescued() {
    let (dir, run) = run();
    let codes = path(&run, "codes/database.words.codes");
    let index = path(dir.path(), "words.index");
    done(&["index", "build", &index, "--codes", &codes]);
    assert!(done(&["verify", &index]).contains(" 0 damaged"));
    let segment = fs_err::read_dir(&index)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|ending| ending == "segment"))
        .unwrap();
    // the last section is that of the codes
    let mut bytes = fs_err::read(&segment).unwrap();
    let at = bytes.len() - 16;
    bytes[at] ^= 1;
    fs_err::write(&segment, &bytes).unwrap();
    let (report, _) = ends(2, &["verify", &index]);
    assert!(report.contains("DAMAGED") && report.contains(".segment"), "{report}");
    for args in [
        &["index", "info", &index, "--verify"][..],
        &["index", "compact", &index],
        &["index", "export", &index, "--out", &path(dir.path(), "out.jsonl")],
    ] {
        // one healthy segment need not be compacted
        if args[1] != "compact" {
            let message = refused(args);
            assert!(message.contains("corrupt"), "{args:?}: {message}");
        }
    }
    let rescued = path(dir.path(), "rescued.index");
    let (_, message) = ends(1, &["index", "rescue", &index, &rescued]);
    assert!(message.contains("codes section is damaged"), "{message}");
    assert!(done(&["verify", &rescued]).contains(" 0 damaged"));
}
