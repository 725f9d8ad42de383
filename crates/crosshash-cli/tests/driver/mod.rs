//! Runs the program as a user does: output and exit code.

#![allow(dead_code, reason = "a file of tests takes what it needs")]

use std::path::Path;
use std::process::{Command, Output};

pub(crate) fn crosshash(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_crosshash")).args(args).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Standard output and error of a program that must have ended with a code.
pub(crate) fn ended(code: i32, out: &Output, args: &[&str]) -> (String, String) {
    let (stdout, stderr) = (text(&out.stdout), text(&out.stderr));
    assert_eq!(out.status.code(), Some(code), "{args:?}: {stdout}{stderr}");
    (stdout, stderr)
}

/// Standard output and error of a command that must end with a code.
pub(crate) fn ends(code: i32, args: &[&str]) -> (String, String) {
    ended(code, &crosshash(args), args)
}

/// Standard output of a command that must succeed.
pub(crate) fn done(args: &[&str]) -> String {
    ends(0, args).0
}

/// Standard error of a command that must fail.
pub(crate) fn refused(args: &[&str]) -> String {
    ends(2, args).1
}

pub(crate) fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().unwrap().to_owned()
}
