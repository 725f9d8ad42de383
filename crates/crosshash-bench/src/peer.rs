//! Runs a Python peer: a script with arguments that prints one JSON object.

use std::ffi::OsStr;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use crosshash_cli::memory::peak_mib;

/// The module that only our package has.
pub(crate) const OWN: &str = "crosshash._crosshash";

/// The outcome of a peer.
pub(crate) enum Peer {
    /// Its measurements.
    Ran(Value),
    /// The reason why it could not run.
    Missing(String),
}

/// Runs `script` under python3 with `arguments`; `module` is the module that it imports. Its
/// libraries may use `threads` threads. Its stderr goes to the user, its stdout is JSON.
pub(crate) fn run<A: AsRef<OsStr>>(
    script: &str,
    arguments: &[A],
    module: &str,
    threads: usize,
) -> Result<Peer> {
    run_in(script, arguments, module, threads, &[])
}

/// The same, with variables in its environment.
pub(crate) fn run_in<A: AsRef<OsStr>>(
    script: &str,
    arguments: &[A],
    module: &str,
    threads: usize,
    environment: &[(&str, &str)],
) -> Result<Peer> {
    let check = Command::new("python3")
        .args(["-c", &format!("import {module}")])
        .stderr(Stdio::null())
        .status();
    match check {
        Err(_) => return Ok(Peer::Missing("python3 is not installed".into())),
        Ok(status) if !status.success() => {
            // The registry has an unrelated package of the name of ours.
            let text = match module {
                OWN => {
                    "python3 has not our package (in a checkout: pip install .)".to_owned()
                }
                module => {
                    let names = module.replace(", ", " ").replace("faiss", "faiss-cpu");
                    format!("python3 has no {module} (python3 -m pip install {names})")
                }
            };
            return Ok(Peer::Missing(text));
        }
        Ok(_) => {}
    }
    let threads = threads.to_string();
    let mut child = Command::new("python3")
        .arg("-")
        .args(arguments)
        .env("OMP_NUM_THREADS", &threads)
        .env("OPENBLAS_NUM_THREADS", &threads)
        .env("MKL_NUM_THREADS", &threads)
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting python3")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(script.as_bytes()).context("sending the script to python3")?;
    }
    let output = child.wait_with_output().context("waiting for python3")?;
    if !output.status.success() {
        bail!("the python3 peer failed ({}); see its message above", output.status);
    }
    Ok(Peer::Ran(serde_json::from_slice(&output.stdout).context("the output of the peer")?))
}

/// Runs this program again with `arguments`, so that its peak memory is measured separately; it
/// prints one JSON object on stdout.
pub(crate) fn this_program<T: DeserializeOwned>(arguments: &[String]) -> Result<T> {
    let output = Command::new(std::env::current_exe()?)
        .args(["--threads", &rayon::current_num_threads().to_string()])
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .context("starting crosshash-bench")?;
    if !output.status.success() {
        bail!("the measurement failed ({}); see its message above", output.status);
    }
    serde_json::from_slice(&output.stdout).context("the output of the measurement")
}

/// The processor time this process has used so far, in seconds, if the system provides it.
pub(crate) fn cpu_seconds() -> f64 {
    Usage::of("self").map_or(f64::NAN, |usage| usage.own)
}

/// The same with the processes that it started, those that have ended included.
pub(crate) fn family_cpu_seconds() -> f64 {
    let Some(own) = Usage::of("self") else { return f64::NAN };
    let parent = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = processes.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let children = names.filter_map(|name| Usage::of(&name));
    let alive = children.filter(|child| child.parent == parent).map(|child| child.own);
    own.own + own.ended + alive.sum::<f64>()
}

/// The processor time of a process in seconds.
struct Usage {
    parent: String,
    own: f64,
    /// Of its children that have ended.
    ended: f64,
}

impl Usage {
    /// By the number of the process, or `self`.
    fn of(process: &str) -> Option<Usage> {
        let stat = fs_err::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name of the program stands in brackets and may hold anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let seconds = |at: usize| Some(fields.get(at)?.parse::<f64>().ok()? / 100.0);
        Some(Usage {
            parent: (*fields.get(1)?).to_owned(),
            own: seconds(11)? + seconds(12)?,
            ended: seconds(13)? + seconds(14)?,
        })
    }
}
