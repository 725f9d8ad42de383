//! What an installation offers besides its work: version, completions, manual pages, `doctor`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod driver;

use driver::{done, ends, refused};

#[test]
fn the_version_has_the_commit() {
    let text = done(&["--version"]);
    assert!(
        text.starts_with(&format!("crosshash {}", env!("CARGO_PKG_VERSION"))),
        "{text}"
    );
}

#[test]
fn completions_and_manual_pages_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let text = done(&["completions", shell]);
        assert!(text.contains("backbones") && text.contains("start"), "{shell}");
    }
    assert!(refused(&["completions", "dos"]).contains("bash"));
    let page = done(&["man"]);
    assert!(page.contains(".TH crosshash"), "{page}");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("man1");
    done(&["man", "--out", out.to_str().unwrap()]);
    for name in ["crosshash.1", "crosshash-start.1", "crosshash-data-import.1"] {
        let page = fs_err::read_to_string(out.join(name)).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{name}: {page}");
    }
}

#[test]
fn the_doctor_reports_and_tests() {
    let (text, said) = ends(0, &["doctor", "--self-test"]);
    for part in ["crosshash ", "kernels: ", "threads: ", "weights of efficientnet-lite0: "]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(said.contains("self-test passed"), "{said}");
}
