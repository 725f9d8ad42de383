//! Runs that several files of tests use: trained once for a build of the program, and kept below
//! `target/tmp` until the program changes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use tempfile::TempDir;

/// The folder of a run of the built-in data set, trained with these arguments. It is shared: do not
/// change it.
pub(crate) fn emoji(name: &str, args: &[&str]) -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_crosshash"));
    let built = fs_err::metadata(program).unwrap();
    let time = built.modified().unwrap().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let stamp = format!("{time:x}-{:x}", built.len());
    let all = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let place = all.join(format!("{name}-{stamp}"));
    let (run, settings) = (place.join("emoji"), args.join(" "));
    let kept = fs_err::read_to_string(place.join("settings")).ok();
    if kept.as_deref() == Some(settings.as_str()) {
        return run;
    }
    let made = TempDir::new_in(all).unwrap();
    let output = Command::new(program)
        .args(["train", "emoji", "--out"])
        .arg(made.path().join("emoji"))
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs_err::write(made.path().join("settings"), settings).unwrap();
    remove_old(all, name);
    // Another process may have been faster.
    match fs_err::rename(made.path(), &place) {
        Ok(()) => drop(made.keep()),
        Err(err) => assert!(run.is_dir(), "{err}"),
    }
    run
}

/// Copies a run without the files of servers, because a server writes to its run.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs_err::create_dir_all(to).unwrap();
    for entry in fs_err::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_file() {
            fs_err::copy(&path, &target).unwrap();
        } else if !path.ends_with("serve") {
            copy(&path, &target);
        }
    }
}

/// Removes runs of earlier builds.
fn remove_old(all: &Path, name: &str) {
    for entry in fs_err::read_dir(all).unwrap().flatten() {
        let is_old = entry.file_name().to_string_lossy().starts_with(&format!("{name}-"));
        if is_old {
            let _ = fs_err::remove_dir_all(entry.path());
        }
    }
}
