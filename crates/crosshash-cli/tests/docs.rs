//! The documentation: the book is complete, the reference of commands is current, and the commands of the
//! tutorials run.
//!
//! In a tutorial, a block ```` ```sh ```` is run line by line in a folder of its own, and a block
//! ```` ```file NAME ```` is written there first. Blocks of other kinds (`console`, `toml`, ...) are not run.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod driver;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use driver::{done, ended};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// A fenced block of a page.
#[derive(Debug, PartialEq)]
struct Block<'a> {
    /// The words behind the fence.
    kind: &'a str,
    text: String,
}

/// The fenced blocks of a page, in order.
fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut found: Vec<Block<'_>> = Vec::new();
    let mut is_open = false;
    for line in page.lines() {
        match (line.strip_prefix("```"), is_open) {
            (Some(kind), false) => {
                found.push(Block { kind: kind.trim(), text: String::new() });
                is_open = true;
            }
            (Some(_), true) => is_open = false,
            (None, true) => {
                if let Some(block) = found.last_mut() {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
            }
            (None, false) => (),
        }
    }
    assert!(!is_open, "a block is not closed");
    found
}

#[test]
fn blocks_are_found() {
    let page = "a\n```sh\none\ntwo\n```\nb\n```file x.csv\n1\n```\n";
    let [sh, file] = &blocks(page)[..] else { panic!("two blocks") };
    assert_eq!((sh.kind, sh.text.as_str()), ("sh", "one\ntwo\n"));
    assert_eq!((file.kind, file.text.as_str()), ("file x.csv", "1\n"));
}

#[test]
fn the_book_has_every_page() {
    let summary = fs_err::read_to_string(docs().join("SUMMARY.md")).unwrap();
    let links = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let listed: BTreeSet<String> = links.map(str::to_owned).collect();
    let names = fs_err::read_dir(docs()).unwrap().map(|entry| entry.unwrap().file_name());
    let pages: BTreeSet<String> = names
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name.ends_with(".md") && name != "SUMMARY.md")
        .collect();
    assert_eq!(listed, pages, "docs/SUMMARY.md (left) and the pages in docs (right)");
}

#[test]
fn the_reference_of_commands_is_current() {
    let page = fs_err::read_to_string(docs().join("cli.md")).unwrap();
    let now = done(&["man", "--markdown"]);
    let differs = page.lines().zip(now.lines()).find(|(old, new)| old != new);
    assert!(page == now, "run: crosshash man --markdown > docs/cli.md; {differs:?}");
}

/// Runs the commands of a page.
#[cfg(unix)]
fn run_page(name: &str) {
    let page = fs_err::read_to_string(docs().join(name)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_crosshash")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", program.display());
    let mut commands = 0;
    for block in blocks(&page) {
        if let Some(file) = block.kind.strip_prefix("file ") {
            fs_err::write(folder.path().join(file), &block.text).unwrap();
        }
        for line in block.text.lines().filter(|_| block.kind == "sh") {
            let out = Command::new("sh")
                .args(["-c", line])
                .current_dir(folder.path())
                .env("PATH", &path)
                .output()
                .unwrap();
            ended(0, &out, &[name, line]);
            commands += 1;
        }
    }
    assert!(commands > 2, "{name} has {commands} commands");
}

#[cfg(unix)]
#[test]
fn the_commands_of_the_catalogue_tutorial_run() {
    run_page("tutorial-catalogue.md");
}

#[cfg(unix)]
#[test]
fn the_commands_of_the_research_tutorial_run() {
    run_page("tutorial-research.md");
}
