//! `crosshash encode` from Parquet to Parquet: several files with several row groups, compressed by zstd,
//! shards, runs that are killed and repeated, and bad input.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod driver;
#[allow(dead_code, reason = "a file of tests takes what it needs")]
mod prepared;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crosshash::parquet_codes::{read_codes, read_info};
use crosshash_codes::format::{CodeFile, Ids};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use driver::{ends, path, refused};

/// Settings that train as little as can be.
const SETTINGS: [&str; 10] = [
    "--set",
    "epochs=1",
    "--set",
    "hidden=16",
    "--set",
    "hidden_sparse=16",
    "--set",
    "bits=32",
    "--set",
    "validation=0.0",
];

/// A run on the built-in data set, shared: do not change it.
fn run() -> String {
    let run = prepared::emoji("encode", &SETTINGS);
    run.to_str().unwrap().to_owned()
}

const WORDS: [&str; 9] =
    ["red", "heart", "cat", "face", "smiling", "flag", "ship", "tree", "moon"];

/// A caption of one to four words; every seventh one is missing.
fn caption(at: usize) -> Option<String> {
    let words = (0..=at % 4).map(|nth| WORDS[(at * (nth + 3) + at / 9) % WORDS.len()]);
    (at % 7 != 3).then(|| words.collect::<Vec<_>>().join(" "))
}

/// Writes captions and ids from item `first` on, a row group per entry of `groups`; another column stands
/// before them.
fn table(path: &Path, first: usize, groups: &[usize]) {
    let schema = "message t { required int64 number; optional binary caption (UTF8); \
                  required binary sku (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_data_page_row_count_limit(500)
        .build();
    let file = fs_err::File::create(path).unwrap().into_file();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    let mut at = first;
    for &rows in groups {
        let items = at..at + rows;
        at += rows;
        let captions: Vec<Option<String>> = items.clone().map(caption).collect();
        let present: Vec<i16> =
            captions.iter().map(|text| i16::from(text.is_some())).collect();
        let captions: Vec<ByteArray> =
            captions.iter().flatten().map(|text| ByteArray::from(text.as_str())).collect();
        let skus: Vec<ByteArray> =
            items.clone().map(|at| ByteArray::from(sku(at).as_str())).collect();
        let numbers: Vec<i64> = items.map(|at| i64::try_from(at).unwrap()).collect();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&numbers, None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let typed = column.typed::<ByteArrayType>();
        typed.write_batch(&captions, Some(&present), None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&skus, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
}

fn sku(at: usize) -> String {
    format!("sku-{at:06}")
}

/// Files of captions in a folder: their paths, and the number of items. The group of 17,000 rows is larger
/// than the block that is encoded at a time.
fn tables(folder: &Path) -> (Vec<String>, usize) {
    fs_err::create_dir(folder).unwrap();
    let (mut paths, mut first) = (Vec::new(), 0);
    for (nth, groups) in
        [&[300, 1, 2000][..], &[17_000], &[700, 700], &[1]].into_iter().enumerate()
    {
        let path = folder.join(format!("part-{nth}.parquet"));
        table(&path, first, groups);
        first += groups.iter().sum::<usize>();
        paths.push(path.to_str().unwrap().to_owned());
    }
    (paths, first)
}

/// `crosshash encode` of files into a folder; its messages.
fn encode(run: &str, inputs: &[String], out: &str, more: &[&str]) -> String {
    let mut args = vec!["encode", run, "--modality", "words", "--column", "caption"];
    args.extend(["--out", out, "--input"]);
    args.extend(inputs.iter().map(String::as_str));
    args.extend(more);
    ends(0, &args).1
}

/// The Parquet files of a folder by name.
fn outputs(folder: &Path) -> Vec<PathBuf> {
    let entries = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_table = |path: &PathBuf| path.extension().is_some_and(|end| end == "parquet");
    let mut found: Vec<PathBuf> = entries.filter(is_table).collect();
    found.sort();
    found
}

/// Ids and codes of the files of a folder, one after the other.
fn all_codes(folder: &Path) -> (Vec<String>, Vec<u64>) {
    let (mut ids, mut words) = (Vec::new(), Vec::new());
    for path in outputs(folder) {
        let (file, _) = read_codes(&path).unwrap();
        let Some(Ids::Names(names)) = file.ids else { panic!("ids are texts") };
        ids.extend(names);
        words.extend(file.codes.words());
    }
    (ids, words)
}

/// The codes of all captions, by the path for text files.
fn wanted(run: &str, folder: &Path, items: usize) -> Vec<u64> {
    let (texts, codes) = (path(folder, "captions.txt"), path(folder, "captions.codes"));
    let lines: Vec<String> = (0..items).map(|at| caption(at).unwrap_or_default()).collect();
    fs_err::write(&texts, lines.join("\n") + "\n").unwrap();
    ends(0, &["encode", run, "--modality", "words", "--input", &texts, "--out", &codes]);
    CodeFile::read(codes.as_ref()).unwrap().codes.words().to_vec()
}

fn same_files(one: &Path, other: &Path) {
    let (one, other) = (outputs(one), outputs(other));
    assert_eq!(one.len(), other.len());
    for (one, other) in one.iter().zip(&other) {
        assert_eq!(one.file_name(), other.file_name());
        assert!(fs_err::read(one).unwrap() == fs_err::read(other).unwrap(), "{one:?}");
    }
}

#[test]
fn files_row_groups_and_shards_give_the_codes_of_one_batch() {
    let (dir, run) = (tempfile::tempdir().unwrap(), run());
    let (inputs, items) = tables(&dir.path().join("raw"));
    let whole = dir.path().join("whole");
    let said = encode(&run, &inputs, whole.to_str().unwrap(), &["--id", "sku"]);
    assert!(said.contains(&format!("{items} rows of 4 files")), "{said}");

    let (ids, words) = all_codes(&whole);
    assert_eq!(ids, (0..items).map(sku).collect::<Vec<_>>());
    let wanted = wanted(&run, dir.path(), items);
    assert!(wanted.iter().collect::<std::collections::HashSet<_>>().len() > 10);
    assert!(words == wanted, "the codes differ from those of a text file");

    for (from, to) in inputs.iter().zip(outputs(&whole)) {
        let open = |path: &Path| {
            let file = fs_err::File::open(path).unwrap().into_file();
            SerializedFileReader::new(file).unwrap()
        };
        let (source, made) = (open(from.as_ref()), open(&to));
        let rows = |file: &SerializedFileReader<_>| -> Vec<i64> {
            file.metadata().row_groups().iter().map(|group| group.num_rows()).collect()
        };
        assert_eq!(rows(&source), rows(&made), "{to:?}");
        for group in made.metadata().row_groups() {
            for column in group.columns() {
                assert!(matches!(column.compression(), Compression::ZSTD(_)));
            }
        }
        let info = read_info(&to).unwrap().unwrap();
        let about = (info.bits, info.modality.as_str(), info.outputs);
        assert_eq!(about, (32, "words", false));
    }

    // two workers: every file is encoded by one of them, and is the same file
    let shards = dir.path().join("shards");
    let out = shards.to_str().unwrap();
    let mut reversed = inputs.clone();
    reversed.reverse();
    encode(&run, &reversed, out, &["--id", "sku", "--shard", "1/2"]);
    let names: Vec<_> = outputs(&shards)
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["part-1.parquet", "part-3.parquet"]);
    let said = encode(&run, &inputs, out, &["--id", "sku", "--shard", "0/2"]);
    assert!(!said.contains("already"), "{said}");
    same_files(&whole, &shards);

    // ids by file and row, and outputs whose signs are the codes
    let named = dir.path().join("named");
    encode(&run, &inputs[..1], named.to_str().unwrap(), &["--outputs"]);
    let (file, outputs) = read_codes(&named.join("part-0.parquet")).unwrap();
    let Some(Ids::Names(names)) = &file.ids else { panic!("ids are texts") };
    assert_eq!((names[0].as_str(), names[2300].as_str()), ("part-0:0", "part-0:2300"));
    let outputs = outputs.unwrap();
    assert!(file.codes.words().iter().eq(&wanted[..2301]));
    for (at, row) in outputs.values().chunks_exact(32).enumerate() {
        for (bit, &value) in row.iter().enumerate() {
            // small outputs are rounded to 0
            assert!(
                value == 0 || (value > 0) == file.codes.bit(at, bit),
                "row {at}, {bit}"
            );
        }
    }
}

#[test]
fn a_killed_run_is_continued_and_other_models_are_noticed() {
    let (dir, run) = (tempfile::tempdir().unwrap(), run());
    let raw = dir.path().join("raw");
    fs_err::create_dir(&raw).unwrap();
    let inputs: Vec<String> = (0..8)
        .map(|nth| {
            let path = raw.join(format!("{nth}.parquet"));
            table(&path, nth * 20_000, &[10_000, 10_000]);
            path.to_str().unwrap().to_owned()
        })
        .collect();
    let (whole, killed) = (dir.path().join("whole"), dir.path().join("killed"));
    encode(&run, &inputs, whole.to_str().unwrap(), &["--id", "sku"]);

    fs_err::create_dir(&killed).unwrap();
    let out = killed.to_str().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_crosshash"))
        .args(["encode", &run, "--modality", "words", "--column", "caption", "--id", "sku"])
        .args(["--out", out, "--input"])
        .args(&inputs)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(120);
    while outputs(&killed).len() < 2 {
        assert!(Instant::now() < until, "nothing is encoded");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let complete = outputs(&killed);
    assert!(complete.len() < inputs.len(), "killed in the middle");
    for path in &complete {
        assert_eq!(read_info(path).unwrap().unwrap().rows, 20_000);
    }
    let times = |paths: &[PathBuf]| -> Vec<_> {
        paths
            .iter()
            .map(|path| fs_err::metadata(path).unwrap().modified().unwrap())
            .collect()
    };
    let before = times(&complete);
    let said = encode(&run, &inputs, out, &["--id", "sku"]);
    assert!(
        said.contains(&format!("{} files were encoded already", complete.len())),
        "{said}"
    );
    assert_eq!(times(&complete), before, "complete files are not written again");
    same_files(&whole, &killed);
    let said = encode(&run, &inputs, out, &["--id", "sku"]);
    assert!(said.contains("8 files were encoded already"), "{said}");

    // the files of another model are replaced
    let other = path(dir.path(), "other");
    let train = ["train", "emoji", "--out", &other, "--set", "seed=5"];
    ends(0, &[&train[..], &SETTINGS].concat());
    let said = encode(&other, &inputs[..1], out, &["--id", "sku"]);
    assert!(said.contains("20000 rows of 1 files"), "{said}");
    let (now, before) = (read_codes(&killed.join("0.parquet")).unwrap().0, &complete[0]);
    assert_eq!(before, &killed.join("0.parquet"));
    let old = read_codes(&whole.join("0.parquet")).unwrap().0;
    assert!(now.ids == old.ids && now.codes != old.codes);
}

#[test]
fn bad_input_is_refused_and_leaves_nothing() {
    let (dir, run) = (tempfile::tempdir().unwrap(), run());
    let raw = path(dir.path(), "raw.parquet");
    table(raw.as_ref(), 0, &[50]);
    let out = path(dir.path(), "codes.parquet");
    let encode = |modality: &str, column: &str, input: &str, out: &str, more: &[&str]| {
        let args = ["encode", &run, "--modality", modality, "--column", column];
        refused(&[&args[..], &["--input", input, "--out", out], more].concat())
    };
    let err = encode("words", "captoin", &raw, &out, &[]);
    assert!(err.contains("\"captoin\"") && err.contains("caption"), "{err}");
    let err = encode("words", "caption", &raw, &out, &["--id", "skus"]);
    assert!(err.contains("\"skus\""), "{err}");
    let err = encode("picture", "caption", &raw, &out, &[]);
    assert!(err.contains("column caption: contains texts, not lists of numbers"), "{err}");
    let err = encode("words", "caption", &raw, &raw, &[]);
    assert!(err.contains("the output would replace the input"), "{err}");
    // cut in the middle of a row group: the footer is missing
    let bytes = fs_err::read(&raw).unwrap();
    let cut = path(dir.path(), "cut.parquet");
    fs_err::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let err = encode("words", "caption", &cut, &out, &[]);
    assert!(err.contains("cut.parquet"), "{err}");
    assert!(!Path::new(&out).exists());
    // a table without rows has codes without rows
    let empty = path(dir.path(), "empty.parquet");
    table(empty.as_ref(), 0, &[]);
    ends(
        0,
        &[
            "encode",
            &run,
            "--modality",
            "words",
            "--column",
            "caption",
            "--input",
            &empty,
            "--out",
            &out,
        ],
    );
    assert_eq!(read_codes(out.as_ref()).unwrap().0.codes.len(), 0);
}
