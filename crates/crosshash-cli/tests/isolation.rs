//! Untrusted pictures are decoded in worker processes: bad files end neither the program nor the
//! server, and limits hold.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod driver;
#[path = "../../crosshash-bench/src/attack/files.rs"]
mod files;
mod serving;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crosshash::data::Raster;
use crosshash::isolate::{Decoder, WorkerPool, WorkerSettings};
use crosshash::picture::{self, Limits, Preprocessing};
use crosshash_codes::Cancel;

fn settings() -> WorkerSettings {
    let settings = WorkerSettings::new(env!("CARGO_BIN_EXE_crosshash"), ["decode-worker"]);
    WorkerSettings { workers: 2, memory: 320 << 20, seconds: 5, ..settings }
}

fn pool(settings: WorkerSettings) -> Decoder {
    WorkerPool::new(settings).into()
}

fn png(size: usize) -> Vec<u8> {
    let pixels = (0..size * size * 3).map(|k| u8::try_from(k * 7 % 251).unwrap());
    Raster::new(size, 3, pixels.collect()).to_png().unwrap()
}

#[test]
fn workers_decode_as_the_process_does() {
    let (decoder, limits, cancel) =
        (pool(settings()), Limits::default(), Cancel::default());
    assert!(decoder.is_isolated());
    let here = Decoder::in_process();
    for size in [1, 20, 300] {
        let file = png(size);
        let expected = picture::decode(&file, &limits).unwrap();
        assert_eq!(decoder.decode(&file, &limits, &cancel).unwrap(), expected);
        let input = Preprocessing::imagenet();
        assert_eq!(
            decoder.decode_for(&file, &limits, &input, &cancel).unwrap(),
            here.decode_for(&file, &limits, &input, &cancel).unwrap()
        );
        let small = decoder.decode_within(&file, &limits, 16, &cancel).unwrap();
        assert!(small.width() <= 16);
    }
    let err = decoder.decode(b"hello", &limits, &cancel).unwrap_err().to_string();
    assert!(err.contains("of an unknown format"), "{err}");
    let limits = Limits { pixels: 100, ..limits };
    let err = decoder.decode(&png(20), &limits, &cancel).unwrap_err().to_string();
    assert!(err.starts_with("20 x 20 pixels exceed the limit"), "{err}");
}

/// Every bad file is refused or decoded within the limits, and the next picture is decoded.
#[test]
fn bad_files_do_not_end_the_process() {
    let (decoder, limits, cancel) =
        (pool(settings()), Limits::default(), Cancel::default());
    let good = png(20);
    for file in files::bad_files() {
        let started = Instant::now();
        let result = decoder.decode(&file.bytes, &limits, &cancel);
        let took = started.elapsed();
        assert!(result.is_err(), "{} was decoded", file.name);
        assert!(took < Duration::from_secs(40), "{}: {took:?}", file.name);
        assert!(decoder.decode(&good, &limits, &cancel).is_ok(), "after {}", file.name);
    }
    // A profile of 512 MiB does not fit into the memory of a worker: it is not decompressed.
    let profile = decoder.decode(&files::large_profile(), &limits, &cancel);
    let why = profile.err().map(|err| err.to_string()).unwrap_or_default();
    assert!(!why.contains("decoder failed"), "{why}");
}

#[test]
fn memory_time_and_cancellation_are_limited() {
    let (limits, cancel) = (Limits::default(), Cancel::default());
    // 294 MB of pixels in 256 MiB of memory
    // The allocator reserves addresses in large pieces: a worker does not start with much less.
    let poor = pool(WorkerSettings { memory: 256 << 20, ..settings() });
    let err = poor.decode(&png(9900), &limits, &cancel).unwrap_err().to_string();
    assert!(err.contains("needs more than 256 MiB"), "{err}");
    assert!(poor.decode(&png(20), &limits, &cancel).is_ok());
    assert!(pool(settings()).decode_within(&png(5000), &limits, 9, &cancel).is_ok());
    // a program that never answers
    let silent = WorkerSettings {
        program: "/bin/sleep".into(),
        arguments: vec!["100".into()],
        ..settings()
    };
    let cancelled = Cancel::default();
    let waiting = cancelled.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        waiting.cancel();
    });
    let started = Instant::now();
    assert!(pool(silent).decode(&png(20), &limits, &cancelled).is_err());
    assert!(started.elapsed() < Duration::from_secs(10));
    thread.join().unwrap();
    let missing = WorkerSettings { program: "/no/such/program".into(), ..settings() };
    let err = pool(missing).decode(&png(20), &limits, &cancel).unwrap_err().to_string();
    assert!(err.contains("cannot be started"), "{err}");
}

fn crosshash(folder: &Path, args: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_crosshash"))
        .args(args)
        .env("CROSSHASH_CACHE", folder.join("cache"))
        .env_remove("CROSSHASH_WEIGHTS")
        .current_dir(folder)
        .output()
        .unwrap();
    (output.status.code().unwrap_or(-1), driver::text(&output.stderr))
}

/// `features FOLDER --skip-bad` skips all of them, and a named pipe; the healthy pictures remain.
#[test]
fn a_folder_of_bad_files_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("photos");
    fs_err::create_dir_all(&folder).unwrap();
    let bad = files::bad_files();
    for file in &bad {
        fs_err::write(folder.join(file.name), &file.bytes).unwrap();
    }
    fs_err::write(folder.join("good.png"), png(20)).unwrap();
    let made = Command::new("mkfifo").arg(folder.join("pipe.png")).status().unwrap();
    assert!(made.success());
    let args = ["features", "photos", "--backbone", "descriptor", "--out", "f.npy"];
    let (code, message) = crosshash(dir.path(), &[&args[..], &["--skip-bad"]].concat());
    assert_eq!(code, 0, "{message}");
    assert!(message.contains("pipe.png: not a regular file"), "{message}");
    let skipped = format!("{} unreadable pictures skipped", bad.len() + 1);
    assert!(message.contains(&skipped), "{message}");
    let (code, message) = crosshash(dir.path(), &args);
    assert_eq!(code, 2, "{message}");
}

/// `encode RUN --input FOLDER --skip-bad` with nested patterns among the pictures.
#[test]
fn encoding_a_folder_survives_nested_patterns() {
    let (dir, run) = serving::run();
    let folder = dir.path().join("photos");
    fs_err::create_dir_all(&folder).unwrap();
    let chosen = ["nested-patterns.svg", "nested-masks.svg", "nested-images.svg"];
    for file in files::bad_files().iter().filter(|file| chosen.contains(&file.name)) {
        fs_err::write(folder.join(file.name), &file.bytes).unwrap();
    }
    fs_err::write(folder.join("good.png"), png(20)).unwrap();
    let run = run.to_str().unwrap();
    let args = ["encode", run, "--modality", "picture", "--input", "photos"];
    let args = [&args[..], &["--out", "codes.npy"]].concat();
    let (code, message) = crosshash(dir.path(), &[&args[..], &["--skip-bad"]].concat());
    assert_eq!(code, 0, "{message}");
    assert!(message.contains("3 unreadable pictures skipped"), "{message}");
    let (code, message) = crosshash(dir.path(), &args);
    assert_eq!(code, 2, "{message}");
    assert!(message.contains("nested-"), "{message}");
}
