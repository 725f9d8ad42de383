//! Shared by the tests of the server: a small run, servers on copies of it, a client.

#![allow(dead_code, reason = "each file of tests uses a part")]

#[path = "../../../crosshash-bench/src/serve/client.rs"]
pub(crate) mod client;
#[path = "../prepared/mod.rs"]
mod prepared;

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) use client::{Client, Reply};

fn crosshash() -> Command {
    Command::new(env!("CARGO_BIN_EXE_crosshash"))
}

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

/// A run on the built-in data set, trained as little as can be, once for all tests.
fn trained() -> &'static Path {
    static RUN: OnceLock<PathBuf> = OnceLock::new();
    RUN.get_or_init(|| prepared::emoji("small", &SETTINGS))
}

/// Trains with some seed into a folder.
pub(crate) fn train(run: &Path, seed: u64) {
    let output = crosshash()
        .args(["train", "emoji", "--out"])
        .arg(run)
        .args(SETTINGS)
        .args(["--set", &format!("seed={seed}")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A copy of the run, for a test of its own.
pub(crate) fn run() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("small");
    prepared::copy(trained(), &run);
    (dir, run)
}

/// Copies a run without the files of servers.
pub(crate) fn copy(from: &Path, to: &Path) {
    prepared::copy(from, to);
}

/// Removes the checksums of a run, so that its files can be changed by hand.
pub(crate) fn unsealed(run: &Path) {
    let seal = run.join("checksums.json");
    if seal.exists() {
        fs_err::remove_file(seal).unwrap();
    }
}

/// A server that is stopped with the test.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) addr: SocketAddr,
    pub(crate) said: Arc<Mutex<String>>,
}

impl Server {
    pub(crate) fn start(place: &Path, more: &[&str]) -> Server {
        Server::start_by(crosshash(), place, more)
    }

    /// A server whose files may be limited in size: too long a write fails and is no signal.
    pub(crate) fn start_limited(place: &Path) -> Server {
        let mut command = Command::new("env");
        command.args(["--ignore-signal=XFSZ", env!("CARGO_BIN_EXE_crosshash")]);
        Server::start_by(command, place, &[])
    }

    fn start_by(mut command: Command, place: &Path, more: &[&str]) -> Server {
        let mut child = command
            .arg("serve")
            .arg(place)
            .args(["--addr", "127.0.0.1:0", "--log", "json"])
            .args(more)
            .env_remove("CROSSHASH_TOKEN")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = Arc::new(Mutex::new(String::new()));
        let addr = lines.by_ref().map(Result::unwrap).find_map(|line| {
            said.lock().unwrap().push_str(&format!("{line}\n"));
            let rest = line.split_once(" at http://")?.1.split('/').next()?.to_owned();
            rest.parse().ok()
        });
        let log = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                log.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        let addr = addr.unwrap_or_else(|| panic!("not started: {}", said.lock().unwrap()));
        Server { child, addr, said }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.addr)
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The JSON of an answer that must have a status.
#[track_caller]
pub(crate) fn json(status: u16, reply: std::io::Result<Reply>) -> Value {
    let reply = reply.unwrap();
    assert_eq!(reply.status, status, "{}", reply.text());
    serde_json::from_slice(&reply.body).unwrap_or(Value::Null)
}

/// The message of an error response.
#[track_caller]
pub(crate) fn refused(status: u16, reply: std::io::Result<Reply>) -> String {
    let value = json(status, reply);
    format!(
        "{}: {}",
        value["error"]["where"].as_str().unwrap_or("-"),
        value["error"]["message"].as_str().unwrap_or("no message")
    )
}
