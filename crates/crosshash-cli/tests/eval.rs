//! `crosshash eval`, driven as a user drives it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crosshash_codes::format::CodeFile;
use crosshash_codes::{BitOrder, Bits, Codes, Labels, npy};
use serde_json::Value;

fn crosshash(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_crosshash"))
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A folder with a small problem: 3 queries, 4 items, 12 bits, 3 labels.
struct Problem {
    folder: tempfile::TempDir,
}

impl Problem {
    fn new() -> Problem {
        let problem = Problem { folder: tempfile::tempdir().expect("a temporary folder") };
        npy::write_signs(&problem.path("q.npy"), &Self::query()).expect("written");
        npy::write_signs(&problem.path("d.npy"), &Self::database()).expect("written");
        npy::write_labels(&problem.path("yq.npy"), &Self::query_labels()).expect("written");
        npy::write_labels(&problem.path("yd.npy"), &Self::database_labels())
            .expect("written");
        problem
    }

    fn codes(rows: &[&str]) -> Codes {
        let bools: Vec<bool> =
            rows.iter().flat_map(|row| row.bytes().map(|bit| bit == b'1')).collect();
        Codes::from_bools(Bits::new(12).expect("bits"), &bools).expect("rows")
    }

    fn query() -> Codes {
        Self::codes(&["110000000001", "000000000000", "111111111111"])
    }

    fn database() -> Codes {
        // distances to query 0: 0, 1, 1, 12
        Self::codes(&["110000000001", "010000000001", "111000000001", "001111111110"])
    }

    fn query_labels() -> Labels {
        Labels::from_indices(3, [vec![0_u32], vec![0, 1], vec![2]]).expect("labels")
    }

    fn database_labels() -> Labels {
        Labels::from_indices(3, [vec![1_u32], vec![0], vec![], vec![0, 1]]).expect("labels")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        fs_err::write(self.path(name), bytes).expect("written");
    }

    /// Runs eval with the four files, by name, and further flags.
    fn eval(&self, files: [&str; 4], flags: &[&str]) -> Output {
        let paths: Vec<String> =
            files.iter().map(|name| self.path(name).display().to_string()).collect();
        let mut arguments = vec!["eval"];
        for (flag, path) in ["--query", "--database", "--query-labels", "--database-labels"]
            .iter()
            .zip(&paths)
        {
            arguments.extend([*flag, path.as_str()]);
        }
        arguments.extend(flags);
        crosshash(&arguments)
    }

    fn json(&self, files: [&str; 4], flags: &[&str]) -> Value {
        let output = self.eval(files, &[flags, &["--json"]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).expect("JSON on stdout")
    }

    /// The error of a run that must fail with exit code 2, without the folder's name.
    fn refused(&self, files: [&str; 4], flags: &[&str]) -> String {
        let output = self.eval(files, flags);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(output.stdout.is_empty(), "nothing on stdout");
        stderr(&output).trim().replace(&self.folder.path().display().to_string(), "DIR")
    }
}

const FILES: [&str; 4] = ["q.npy", "d.npy", "yq.npy", "yd.npy"];

fn close(value: &Value, wanted: f64) -> bool {
    value.as_f64().is_some_and(|value| (value - wanted).abs() < 1e-12)
}

#[test]
fn json_carries_the_values_worked_out_by_hand() {
    let problem = Problem::new();
    let json = problem.json(FILES, &["--at", "2,3"]);
    // query 0 (label 0): ranks 1 | 2 3 | 4, relevant: item 1 (tied at 2-3) and item 3 (rank 4)
    let ap0 = (0.5 * (1.0 / 2.0 + 1.0 / 3.0) + 2.0 / 4.0) / 2.0;
    // query 1 (labels 0, 1), distances 3, 2, 4, 9: order 1, 0, 2, 3, relevant at 1, 2, 4
    let ap1 = (1.0 + 1.0 + 3.0 / 4.0) / 3.0;
    assert!(close(&json["map"]["tie_aware"], (ap0 + ap1) / 3.0), "{}", json["map"]);
    let best0 = (1.0 / 2.0 + 2.0 / 4.0) / 2.0;
    assert!(close(&json["map"]["optimistic"], (best0 + ap1) / 3.0));
    assert!(close(&json["map"]["stable"], (best0 + ap1) / 3.0));
    let worst0 = (1.0 / 3.0 + 2.0 / 4.0) / 2.0;
    assert!(close(&json["map"]["pessimistic"], (worst0 + ap1) / 3.0));
    // P@2: query 0 has half an item expected, query 1 two, query 2 none
    assert!(close(&json["precision_at"]["2"], (0.25 + 1.0) / 3.0));
    assert!(close(&json["bounds"]["precision_at"]["2"]["optimistic"], 1.5 / 3.0));
    assert!(json["ndcg_at"]["3"].is_f64() && json["acg_at"]["3"].is_f64());
    assert_eq!(json["queries"], 3);
    assert_eq!(json["queries_without_relevant"], 1);
    assert_eq!(json["health"]["unique_codes"], 4);
    assert_eq!(json["protocol"]["bits"], 12);
    assert_eq!(json["protocol"]["database"], 4);
    assert_eq!(json["protocol"]["ap_denominator"], "min(R,K)");
    let skipped = problem.json(FILES, &["--empty-queries", "skip"]);
    assert!(close(&skipped["map"]["tie_aware"], (ap0 + ap1) / 2.0));
    let found = problem.json(FILES, &["--at", "1", "--denominator", "found"]);
    assert!(close(&found["map_at"]["1"], 1.0 / 3.0), "{}", found["map_at"]);
    let total = problem.json(FILES, &["--at", "1", "--denominator", "R"]);
    assert!(close(&total["map_at"]["1"], 1.0 / 9.0), "{}", total["map_at"]);
}

#[test]
fn every_input_format_gives_the_same_result() {
    let problem = Problem::new();
    let wanted = problem.json(FILES, &[])["map"].clone();
    let packed = |name: &str, codes: &Codes, order| {
        npy::write_packed(&problem.path(name), codes, order).expect("written");
    };
    for order in [BitOrder::Lsb, BitOrder::Msb] {
        packed("qp.npy", &Problem::query(), order);
        packed("dp.npy", &Problem::database(), order);
        let json =
            problem.json(["qp.npy", "dp.npy", "yq.npy", "yd.npy"], &["--bits", "12"]);
        assert_eq!(json["map"], wanted, "{order:?}");
    }
    npy::write_bits(&problem.path("qb.npy"), &Problem::query()).expect("written");
    npy::write_bits(&problem.path("db.npy"), &Problem::database()).expect("written");
    assert_eq!(problem.json(["qb.npy", "db.npy", "yq.npy", "yd.npy"], &[])["map"], wanted);
    problem.put("yq.txt", b"0\n0 1\n2\n");
    problem.put("yd.txt", b"1\n0\n\n0 1\n");
    assert_eq!(problem.json(["q.npy", "d.npy", "yq.txt", "yd.txt"], &[])["map"], wanted);

    let file = |name: &str, codes, labels| {
        let file = CodeFile { codes, ids: None, labels: Some(labels) };
        file.write(&problem.path(name)).expect("written");
    };
    file("q.codes", Problem::query(), Problem::query_labels());
    file("d.codes", Problem::database(), Problem::database_labels());
    let (q, d) = (problem.path("q.codes"), problem.path("d.codes"));
    let output = crosshash(&[
        "eval",
        "--query",
        &q.display().to_string(),
        "--database",
        &d.display().to_string(),
        "--json",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["map"], wanted);
}

#[test]
fn the_table_is_for_people_and_the_plot_is_svg() {
    let problem = Problem::new();
    let plot = problem.path("curves.svg");
    let output = problem.eval(FILES, &["--at", "2", "--plot", &plot.display().to_string()]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.starts_with("3 queries against 4 items, 12 bits, 3 labels\n"), "{text}");
    assert!(
        text.contains("1 of the queries have no relevant item; they count as 0"),
        "{text}"
    );
    assert!(text.contains("MAP@2"), "{text}");
    let svg = fs_err::read_to_string(plot).expect("the plot");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("recall") && svg.contains("precision of the first N"));
}

#[test]
fn bad_input_is_rejected_with_a_message() {
    let problem = Problem::new();
    let npy = |descr: &str, shape: &str, data: &[u8]| {
        let text =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend(u16::try_from(text.len()).expect("short").to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(data);
        bytes
    };
    let with_query = |bytes: &[u8], flags: &[&str]| {
        problem.put("bad.npy", bytes);
        problem.refused(["bad.npy", "d.npy", "yq.npy", "yd.npy"], flags)
    };
    assert_eq!(
        with_query(&npy("<c16", "(3, 1)", &[0; 48]), &[]),
        "crosshash: DIR/bad.npy: dtype '<c16'; expected bool, int8 to int64, uint8 to uint64 \
         or float16 to float64 (in Python: array.astype(...))"
    );
    assert_eq!(
        with_query(&npy("|i1", "(3, 12)", &[1; 35]), &[]),
        "crosshash: DIR/bad.npy: truncated: the header promises 3 x 12 int8 (36 bytes), the \
         file holds 35 bytes of data"
    );
    assert_eq!(
        with_query(b"hello", &[]),
        "crosshash: DIR/bad.npy: not a .npy file: it ends before its header does"
    );
    let mut nan = [0_u8; 12 * 4 * 3];
    nan[4..8].copy_from_slice(&f32::NAN.to_le_bytes());
    assert_eq!(
        with_query(&npy("<f4", "(3, 12)", &nan), &["--layout", "real"]),
        "crosshash: DIR/bad.npy: row 0, column 1: NaN has no sign"
    );
    problem.put("bytes.npy", &npy("|u1", "(3, 2)", &[7; 6]));
    assert_eq!(
        problem.refused(["bytes.npy", "bytes.npy", "yq.npy", "yd.npy"], &["--bits", "17"]),
        "crosshash: DIR/bytes.npy: 17 bits do not fit rows of 2 bytes: packed they take 3 bytes, \
         one value a bit 17 columns"
    );
    assert_eq!(
        with_query(&npy("|i1", "(0, 12)", &[]), &[]),
        "crosshash: --query-labels has 3 rows, --query (DIR/bad.npy) has 0; one row of \
         labels per code is required"
    );
    problem.put("none.npy", &npy("|u1", "(0, 3)", &[]));
    problem.put("empty.npy", &npy("|i1", "(0, 12)", &[]));
    assert_eq!(
        problem.refused(["empty.npy", "d.npy", "none.npy", "yd.npy"], &[]),
        "crosshash: the query set is empty: there is nothing to evaluate"
    );
    assert_eq!(
        with_query(&npy("|i1", "(3, 8)", &[1; 24]), &[]),
        "crosshash: the query set has 8 bits a code, the database has 12; both need codes of \
         one length"
    );
    problem.put("zeros.npy", &npy("|u1", "(4, 3)", &[0; 12]));
    assert_eq!(
        problem.refused(["q.npy", "d.npy", "yq.npy", "zeros.npy"], &[]),
        "crosshash: no database item has any label: every value would be 0"
    );
    problem.put("rows.npy", &npy("|u1", "(5, 3)", &[1; 15]));
    assert_eq!(
        problem.refused(["q.npy", "d.npy", "yq.npy", "rows.npy"], &[]),
        "crosshash: --database-labels has 5 rows, --database (DIR/d.npy) has 4; one row of \
         labels per code is required"
    );
    problem.put("wide.npy", &npy("|b1", "(4, 5)", &[1; 20]));
    assert_eq!(
        problem.refused(["q.npy", "d.npy", "yq.npy", "wide.npy"], &[]),
        "crosshash: the query label matrix has 3 labels, the database label matrix has 5; both \
         need the same label columns"
    );
    assert!(
        problem
            .refused(["nowhere.npy", "d.npy", "yq.npy", "yd.npy"], &[])
            .starts_with("crosshash: failed to open file `DIR/nowhere.npy`")
    );
    let mut corrupt = CodeFile::new(Problem::query());
    corrupt.labels = Some(Problem::query_labels());
    corrupt.write(&problem.path("c.codes")).expect("written");
    let mut bytes = fs_err::read(problem.path("c.codes")).expect("read");
    let last = bytes.len() - 1;
    bytes[last] ^= 0x40;
    problem.put("c.codes", &bytes);
    assert_eq!(
        problem.refused(["c.codes", "d.npy", "yq.npy", "yd.npy"], &[]),
        "crosshash: DIR/c.codes: corrupt: the checksum of the labels section does not match"
    );
    for flags in [&["--at", "0"][..], &["--bits", "2000"], &["--nonsense"]] {
        problem.refused(FILES, flags);
    }
}

#[test]
fn a_plot_that_cannot_be_written_is_an_error_and_leaves_no_file() {
    let problem = Problem::new();
    let plot = problem.path("no/such/folder.svg");
    let text = problem.refused(FILES, &["--plot", &plot.display().to_string()]);
    assert!(text.contains("DIR/no/such/folder.svg"), "{text}");
}

#[test]
fn help_has_examples() {
    let output = crosshash(&["eval", "--help"]);
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("Examples:"), "{text}");
    assert_eq!(
        crosshash(&[]).status.code(),
        Some(2),
        "no command: help, and not a success"
    );
}

/// No other files remain in the folder.
#[test]
fn no_temporary_files_remain() {
    let problem = Problem::new();
    let list = |folder: &Path| {
        let mut names: Vec<_> = fs_err::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        names.sort();
        names
    };
    let before = list(problem.folder.path());
    problem.json(FILES, &["--at", "1"]);
    assert_eq!(list(problem.folder.path()), before);
}
