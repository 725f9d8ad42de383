//! One worker process, as the pool sees it.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crosshash_codes::Cancel;
use rustix::event::{PollFd, PollFlags, poll};

use super::protocol::{Expected, REPLY_HEAD};

/// How often a waiting caller looks whether it was cancelled.
const SLICE: Duration = Duration::from_millis(20);
/// Bytes of a pipe: few switches between the processes for a picture.
const PIPE: usize = 1 << 20;

/// Why a worker did not answer.
pub(super) enum Failure {
    /// It ended, with this status if it is known.
    Died(String),
    /// The time is over.
    Late,
    Cancelled,
    /// It sent something that is not a reply.
    Garbled,
}

/// A running worker.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Process {
    /// Starts a worker.
    pub(super) fn start(command: &mut Command) -> std::io::Result<Process> {
        let mut child = command
            .env_clear()
            // Memory is limited: mimalloc must not reserve a gigabyte of addresses.
            .env("MIMALLOC_ARENA_RESERVE", "0")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = (input, output) else {
            return Err(std::io::Error::other("the worker has no pipes"));
        };
        for fd in [rustix::fd::AsFd::as_fd(&input), rustix::fd::AsFd::as_fd(&output)] {
            rustix::io::ioctl_fionbio(fd, true)?;
            #[cfg(target_os = "linux")]
            let _ = rustix::pipe::fcntl_setpipe_size(fd, PIPE); // less is slower, not wrong
        }
        Ok(Process { child, input, output })
    }

    /// Sends the pieces of a request and receives the reply. After a failure the process is of no
    /// use any more.
    pub(super) fn exchange(
        &mut self,
        pieces: &[&[u8]],
        most_pixels: u64,
        time: Duration,
        cancel: &Cancel,
    ) -> Result<(Expected, Vec<u8>), Failure> {
        let ends = Instant::now() + time;
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                match self.input.write(rest) {
                    Ok(0) => return Err(self.death()),
                    Ok(written) => rest = &rest[written..],
                    Err(err) if is_retry(&err) => {
                        self.wait(PollFlags::OUT, ends, cancel)?;
                    }
                    Err(_) => return Err(self.death()),
                }
            }
        }
        let mut head = [0; REPLY_HEAD];
        self.receive(&mut head, ends, cancel)?;
        let expected = Expected::parse(head, most_pixels).ok_or(Failure::Garbled)?;
        let mut body = vec![0; expected.length()];
        self.receive(&mut body, ends, cancel)?;
        Ok((expected, body))
    }

    fn receive(
        &mut self,
        mut rest: &mut [u8],
        ends: Instant,
        cancel: &Cancel,
    ) -> Result<(), Failure> {
        while !rest.is_empty() {
            match self.output.read(rest) {
                Ok(0) => return Err(self.death()),
                Ok(read) => rest = &mut rest[read..],
                Err(err) if is_retry(&err) => self.wait(PollFlags::IN, ends, cancel)?,
                Err(_) => return Err(self.death()),
            }
        }
        Ok(())
    }

    /// Waits until a pipe is ready.
    fn wait(
        &self,
        event: PollFlags,
        ends: Instant,
        cancel: &Cancel,
    ) -> Result<(), Failure> {
        loop {
            if cancel.is_cancelled() {
                return Err(Failure::Cancelled);
            }
            let now = Instant::now();
            if now >= ends {
                return Err(Failure::Late);
            }
            let pipe = if event == PollFlags::OUT {
                PollFd::new(&self.input, event)
            } else {
                PollFd::new(&self.output, event)
            };
            let slice = rustix::event::Timespec::try_from(SLICE.min(ends - now));
            match poll(&mut [pipe], slice.ok().as_ref()) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                _ => return Ok(()), // ready or closed: the next read or write tells which
            }
        }
    }

    /// The end of a worker that closed its pipes.
    fn death(&mut self) -> Failure {
        let _ = self.child.kill();
        let why = match self.child.wait() {
            Ok(status) => match status.signal() {
                Some(signal) => signal_name(signal),
                None => status.to_string(),
            },
            Err(err) => err.to_string(),
        };
        Failure::Died(why)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_retry(err: &std::io::Error) -> bool {
    matches!(err.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn signal_name(signal: i32) -> String {
    match signal {
        4 | 6 | 11 => "out of memory or stack".into(),
        9 => "killed".into(),
        24 => "its CPU time is over".into(),
        other => format!("signal {other}"),
    }
}
