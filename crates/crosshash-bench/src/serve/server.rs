//! A crosshash server in its own process.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crosshash_cli::memory::{peak_bytes_of, resident_bytes_of};

/// A running server, stopped on drop.
pub(crate) struct Server {
    child: Child,
    pub(crate) addr: SocketAddr,
}

impl Server {
    /// Starts a server on a free local port and waits until it is ready.
    pub(crate) fn start(place: &Path) -> Result<Server> {
        Server::start_with(place, &["--max-seconds", "5"])
    }

    /// The same with other arguments.
    pub(crate) fn start_with(place: &Path, more: &[&str]) -> Result<Server> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["program", "serve"])
            .arg(place)
            .args(["--addr", "127.0.0.1:0", "--log-level", "error"])
            .args(more)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("starting the server")?;
        let stderr = child.stderr.take().context("the server's messages")?;
        let mut server = Server { child, addr: ([127, 0, 0, 1], 0).into() };
        let mut lines = BufReader::new(stderr).lines();
        let mut said = String::new();
        for line in lines.by_ref() {
            let line = line?;
            if let Some((_, rest)) = line.split_once("http://") {
                let addr = rest.split('/').next().unwrap_or("");
                server.addr = addr.parse().context("the server's address")?;
                // Its messages go on to ours; a full pipe would stop it.
                std::thread::spawn(move || {
                    lines.map_while(Result::ok).for_each(crosshash_cli::progress::say)
                });
                return Ok(server);
            }
            said += &line;
            said.push('\n');
        }
        let _ = server.child.wait();
        bail!("the server did not start: {said}");
    }

    /// Its resident memory.
    pub(super) fn resident_mib(&self) -> Option<f64> {
        let bytes = resident_bytes_of(&self.child.id().to_string())?;
        #[expect(clippy::cast_precision_loss, reason = "a size to be shown")]
        Some(bytes as f64 / f64::from(1 << 20))
    }

    /// The sum of the peaks of resident memory of the server and of the decoders that it has at present: an
    /// upper bound of their memory so far.
    pub(crate) fn family_peak_mib(&self) -> f64 {
        let own = self.child.id().to_string();
        let mut bytes = peak_bytes_of(&own).unwrap_or(0);
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        for name in processes.map(|entry| entry.file_name()) {
            let name = name.to_string_lossy();
            let status = fs_err::read_to_string(format!("/proc/{name}/status"));
            let is_child = status.is_ok_and(|text| {
                let parent = text.lines().find_map(|line| line.strip_prefix("PPid:"));
                parent.is_some_and(|parent| parent.trim() == own)
            });
            if is_child {
                bytes += peak_bytes_of(&name).unwrap_or(0);
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a size to be shown")]
        {
            bytes as f64 / f64::from(1 << 20)
        }
    }

    /// Kills it at once (SIGKILL) and waits for its end.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether it is still running.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
