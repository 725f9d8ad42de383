//! House rules that a machine can check.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|ext| ext == ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    fs_err::read_to_string(path).expect("a text file")
}

#[test]
fn every_file_opens_with_what_it_is() {
    let sources = files(&root().join("crates"), "rs");
    assert!(sources.len() > 30, "the sources are there");
    for path in sources {
        assert!(read(&path).starts_with("//! "), "{} has no header", path.display());
    }
}

#[test]
fn every_path_the_map_names_exists() {
    let mut named = 0;
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"] {
        let text = read(&root().join(document));
        // the text between backticks, every second piece
        for quoted in text.split('`').skip(1).step_by(2) {
            let is_path = quoted.contains('/') || quoted.ends_with(".md");
            let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
            if !is_path || !quoted.chars().all(plain) || quoted.starts_with(['.', '/']) {
                continue;
            }
            named += 1;
            assert!(root().join(quoted).exists(), "{document} names {quoted}");
        }
    }
    assert!(named > 20, "the map names paths");
}

#[test]
fn every_picture_a_document_shows_is_there() {
    let mut shown = 0;
    for document in
        files(&root().join("docs"), "md").into_iter().chain([root().join("README.md")])
    {
        let text = read(&document);
        for link in text.split("![").skip(1).filter_map(|rest| rest.split("](").nth(1)) {
            let target = link.split(')').next().expect("a link ends");
            let path = document.parent().expect("a folder").join(target);
            shown += 1;
            assert!(path.exists(), "{} shows {target}", document.display());
        }
    }
    assert!(shown > 1, "documents show pictures");
}

/// A file in a folder of interchangeable parts is of no use until its table names it.
#[test]
fn every_part_stands_in_its_table() {
    let tables = [
        ("crates/crosshash-codes/src/eval", "crates/crosshash-codes/src/eval/mod.rs"),
        ("crates/crosshash-codes/src/kernel", "crates/crosshash-codes/src/kernel/mod.rs"),
        ("crates/crosshash-codes/src/index", "crates/crosshash-codes/src/index/mod.rs"),
        (
            "crates/crosshash-codes/src/exchange",
            "crates/crosshash-codes/src/exchange/mod.rs",
        ),
        (
            "crates/crosshash-codes/src/segments",
            "crates/crosshash-codes/src/segments/mod.rs",
        ),
        ("crates/crosshash/src/data/read", "crates/crosshash/src/data/read/mod.rs"),
        ("crates/crosshash/src/supervise", "crates/crosshash/src/supervise/mod.rs"),
        ("crates/crosshash/src/loss", "crates/crosshash/src/loss/mod.rs"),
        ("crates/crosshash/src/tower", "crates/crosshash/src/tower/mod.rs"),
        ("crates/crosshash/src/network", "crates/crosshash/src/network/mod.rs"),
        ("crates/crosshash/src/method", "crates/crosshash/src/method/mod.rs"),
        (
            "crates/crosshash-features/src/picture",
            "crates/crosshash-features/src/picture/mod.rs",
        ),
        ("crates/crosshash-cli/src/plot", "crates/crosshash-cli/src/plot/mod.rs"),
    ];
    for (folder, table) in tables {
        let table = read(&root().join(table));
        for entry in fs_err::read_dir(root().join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            if name != "mod" {
                assert!(
                    table.contains(&format!("mod {name};")),
                    "{folder}: {name} is not used"
                );
            }
        }
    }
}

#[test]
fn property_tests_have_a_fixed_seed() {
    let macro_name = ["proptest", "! {"].concat();
    let mut blocks = 0;
    for path in files(&root().join("crates"), "rs") {
        let text = read(&path);
        for block in text.split(&macro_name).skip(1) {
            blocks += 1;
            let config = block.trim_start().starts_with("#![proptest_config(fixed(");
            assert!(config, "{}: begin with proptest_config(fixed(CASES))", path.display());
        }
    }
    assert!(blocks > 10, "there are property tests");
}

#[test]
fn arrows_go_one_way() {
    let manifest = |name: &str| read(&root().join("crates").join(name).join("Cargo.toml"));
    let crates = [
        "crosshash-codes",
        "crosshash-features",
        "crosshash",
        "crosshash-cli",
        "crosshash-bench",
    ];
    for (at, name) in crates.iter().enumerate() {
        let text = manifest(name);
        let names = |other: &str| text.contains(&format!("\n{other}.workspace"));
        for above in &crates[at + 1..] {
            assert!(!names(above), "{name} must not depend on {above}");
        }
        if name != &"crosshash" {
            assert!(!names("burn-tensor"), "{name} must not name the tensor library");
        }
        if at < 3 {
            for heavy in ["clap", "anyhow", "axum", "indicatif", "plotters"] {
                assert!(!names(heavy), "{name} must not depend on {heavy}");
            }
        }
    }
}
