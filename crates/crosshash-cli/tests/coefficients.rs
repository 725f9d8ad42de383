//! `crosshash coefficients`, through the real program.
#![expect(clippy::unwrap_used, reason = "a test may")]

use std::path::Path;
use std::process::{Command, Output};

use crosshash_codes::npy::Npy;

fn crosshash(folder: &Path, args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_crosshash");
    Command::new(program).args(args).current_dir(folder).output().unwrap()
}

fn matrix(path: &Path) -> (Vec<u64>, Vec<f64>) {
    let npy = Npy::open(path).unwrap();
    let shape = npy.shape().iter().map(|&size| size as u64).collect();
    let mut values = Vec::new();
    npy.each(|_, _, value| {
        values.push(value);
        Ok(())
    })
    .unwrap();
    (shape, values)
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Four items over three labels, the last one unlabelled:
/// {0, 1}, {1}, {2}, {}.
///
/// By hand, unscaled: items 0 and 1 have 2 positives (each other and themselves) and 1
/// negative; item 2 has 1 positive and 2 negatives.
///
/// q_00 = 1 * (1/2), q_01 = 1 * (1/2 + 1), q_11 = 1 * (1 + 1), q_22 = 2 * 1.
/// u_js adds |n_i| over the overlaps and |p_i| / |Y_j| of the disjoint items:
/// u_00 = 1/2 + 1/2, u_01 = 1/2 + 1 + 1/2, u_11 = 1 + 1 + 1, u_22 = 2 + 2 + 2.
#[test]
fn numbers_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    fs_err::write(folder.path().join("labels.txt"), "0 1\n1\n2\n\n").unwrap();
    let args = ["coefficients", "--labels", "labels.txt", "--out", "new/c", "--raw"];
    let output = crosshash(folder.path(), &args);
    assert!(output.status.success(), "{output:?}");
    let text = stdout(&output);
    assert!(
        text.contains("kind           exact (4 distinct label sets need at most"),
        "{text}"
    );
    assert!(text.contains("unlabelled     1 (their coefficients are 0)"), "{text}");
    assert!(text.contains("distinct sets  3\n"), "{text}");
    let (shape, q) = matrix(&folder.path().join("new/c/q.npy"));
    assert_eq!(shape, [4, 3]);
    assert_eq!(q, [0.5, 1.5, 0., 0., 2., 0., 0., 0., 2., 0., 0., 0.]);
    let (_, u) = matrix(&folder.path().join("new/c/u.npy"));
    assert_eq!(u, [1., 2., 0., 0., 3., 0., 0., 0., 6., 0., 0., 0.]);

    let output = crosshash(folder.path(), &args[..5]);
    assert!(output.status.success());
    let (_, q) = matrix(&folder.path().join("new/c/q.npy"));
    assert!((q.iter().sum::<f64>() - 4.0).abs() < 1e-12, "mean q over 4 labels is 1");
}

#[test]
fn flags_without_effect_and_labels_without_negatives_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    fs_err::write(folder.path().join("labels.txt"), "0 1\n0\n0 1\n").unwrap();
    let run = |more: &[&str]| {
        let args = ["coefficients", "--labels", "labels.txt", "--out", "c"];
        crosshash(folder.path(), &[&args[..], more].concat())
    };
    let stderr = |output: &Output| String::from_utf8(output.stderr.clone()).unwrap();
    for (flags, says) in [
        (
            &["--kind", "exact", "--anchors", "9"][..],
            "--anchors has no effect with --kind exact",
        ),
        (&["--kind", "scul", "--raw"], "--raw has no effect with --kind scul"),
    ] {
        let output = run(flags);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains(says), "{output:?}");
    }
    fs_err::write(folder.path().join("none.txt"), "\n\n").unwrap();
    let args = ["coefficients", "--labels", "none.txt", "--out", "c"];
    assert_eq!(crosshash(folder.path(), &args).status.code(), Some(2));
    assert!(!folder.path().join("c").exists(), "a failed run leaves no folder");
    let output = run(&["--json"]);
    assert!(output.status.success(), "{output:?}");
    let says = "every q is 0: all items share a label, so no item has a negative";
    assert!(stderr(&output).contains(says), "{output:?}");
    assert!(stdout(&output).contains(says), "{output:?}");
}

#[test]
fn kinds_and_json() {
    let folder = tempfile::tempdir().unwrap();
    fs_err::write(folder.path().join("labels.txt"), "0 1\n1\n2\n0 2\n1 2\n").unwrap();
    let report = |more: &[&str]| -> serde_json::Value {
        let base = ["coefficients", "--labels", "labels.txt", "--out", "c", "--json"];
        let output = crosshash(folder.path(), &[&base, more].concat());
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let anchors = report(&["--kind", "anchors", "--anchors", "4", "--seed", "3"]);
    assert_eq!(anchors["kind"], "anchors");
    assert_eq!(anchors["anchors"], 4);
    let sampled = matrix(&folder.path().join("c/q.npy"));
    report(&["--kind", "anchors", "--anchors", "4", "--seed", "3", "--threads", "1"]);
    assert_eq!(matrix(&folder.path().join("c/q.npy")), sampled, "same seed, same numbers");

    let scul = report(&["--kind", "scul"]);
    assert_eq!((&scul["kind"], &scul["items"]), (&"scul".into(), &5.into()));
    let (_, q) = matrix(&folder.path().join("c/q.npy"));
    assert_eq!(q[..6], [0.5, 0.5, 0., 0., 1., 0.]);
    let (_, u) = matrix(&folder.path().join("c/u.npy"));
    assert_eq!(u[..6], [1., 1., 0., 0., 1., 0.]);

    fs_err::write(folder.path().join("labels.txt"), "0\n1\n0\n1\n").unwrap();
    let single = report(&[]);
    assert_eq!(single["kind"], "uniform");
    assert_eq!(single["reason"], "every item has one label: q = u = 1");
}

#[test]
fn bad_input_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |labels: &str, more: &[&str]| {
        fs_err::write(folder.path().join("labels.txt"), labels).unwrap();
        let base = ["coefficients", "--labels", "labels.txt", "--out", "c"];
        let output = crosshash(folder.path(), &[&base, more].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(!folder.path().join("c/q.npy").exists());
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(
        refusal("\n\n", &[]),
        "crosshash: labels.txt: none of 2 items has a label; coefficients need labels\n"
    );
    assert_eq!(
        refusal("0 1\n2\n3\n", &["--kind", "anchors", "--anchors", "2"]),
        "crosshash: labels.txt: 2 anchors do not cover every label; use at least 3\n"
    );
    let text = refusal("0 x\n", &[]);
    assert!(text.contains("labels.txt") && text.contains('x'), "{text}");
}
