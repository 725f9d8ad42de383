//! The main function of a worker process: reads requests from standard input, writes replies to
//! standard output, until the input ends.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::AsFd as _;

use super::protocol::{self, MAX_TEXT, Order, REQUEST_HEAD, SandboxLimits};
use super::sandbox;
use crate::picture::{self, Picture};

/// Stack of the thread that decodes: renderers of nested formats are recursive.
const STACK: usize = 64 << 20;

/// Runs a worker of a [`WorkerPool`](super::WorkerPool): limits this process for good, and decodes
/// pictures until standard input ends. The program must not have started other threads that work.
pub fn run_worker() -> Result<()> {
    // The message of a panic would go to the log of the program that started this one.
    std::panic::set_hook(Box::new(|_| ()));
    // Not line by line, as standard output is written: pixels are no lines.
    let output = std::io::stdout().as_fd().try_clone_to_owned()?;
    let work = move || serve(std::io::stdin().lock(), std::fs::File::from(output));
    let thread = std::thread::Builder::new().name("decode".into()).stack_size(STACK);
    let thread = thread.spawn(work)?;
    thread.join().unwrap_or_else(|_| Err(Error::other("the worker panicked")))
}

fn serve(mut input: impl Read, mut output: impl Write) -> Result<()> {
    let Some((header, _)) = read(&mut input, 0)? else { return Ok(()) };
    let limits: SandboxLimits = serde_json::from_slice(&header)?;
    let entered = sandbox::enter(&limits)
        .map(|()| Picture::new(1, 1, vec![0; 3]))
        .map_err(|err| crate::Error::content(format!("sandbox: {err}")));
    send(&mut output, &entered)?;
    while let Some((header, file)) = read(&mut input, u64::MAX)? {
        sandbox::begin_job(&limits)?;
        let order: Order = serde_json::from_slice(&header)?;
        let decoded = picture::guarded(|| {
            order.job.finish(picture::decode_here(&file, &order.limits())?)
        });
        drop(file);
        send(&mut output, &decoded)?;
    }
    Ok(())
}

fn send(output: &mut impl Write, result: &crate::Result<Picture>) -> Result<()> {
    let (head, rest) = protocol::reply(result);
    output.write_all(&head)?;
    output.write_all(rest)?;
    output.flush()
}

/// Header and file of the next request; `None` if the input has ended.
fn read(input: &mut impl Read, most: u64) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut head = [0; REQUEST_HEAD];
    match input.read_exact(&mut head) {
        Err(err) if err.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    let invalid = || Error::new(ErrorKind::InvalidData, "invalid request");
    let (header, file) = protocol::request_lengths(head).ok_or_else(invalid)?;
    if header > MAX_TEXT || file as u64 > most {
        return Err(invalid());
    }
    let mut json = vec![0; header];
    input.read_exact(&mut json)?;
    let mut bytes = vec![0; file];
    input.read_exact(&mut bytes)?;
    Ok(Some((json, bytes)))
}
