//! Requests and replies between a pool and a worker, little-endian, through the pipes of the worker.
//!
//! ```text
//! request  length of the header u32, of the file u64; header: JSON of the job and its limits; file
//! reply    0 u8, width u32, height u32, RGB values   or   1 u8, length u32, message
//! ```
//!
//! The first request of a worker has an empty file and the limits of the sandbox as its header.

#![cfg(unix)]

use serde::{Deserialize, Serialize};

use super::Job;
use crate::picture::{Limits, Picture};
use crate::{Error, Result};

/// The longest header and the longest message in bytes.
pub(super) const MAX_TEXT: usize = 64 << 10;
/// Bytes before the header of a request.
pub(super) const REQUEST_HEAD: usize = 12;
/// Bytes of a reply that say how long it is.
pub(super) const REPLY_HEAD: usize = 9;

/// The limits of a worker process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct SandboxLimits {
    /// Bytes of memory, besides that of the program itself.
    pub(super) memory: u64,
    /// Seconds of CPU time for a picture.
    pub(super) seconds: u64,
}

/// The header of a request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) job: Job,
    bytes: u64,
    pixels: u64,
    side: u32,
}

impl Order {
    pub(super) fn new(job: &Job, limits: &Limits) -> Order {
        let Limits { bytes, pixels, side } = *limits;
        Order { job: job.clone(), bytes, pixels, side }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits { bytes: self.bytes, pixels: self.pixels, side: self.side }
    }
}

/// The beginning of a request, without the file.
pub(super) fn request(header: &impl Serialize, file: usize) -> Result<Vec<u8>> {
    let fault = |err: serde_json::Error| Error::content(err.to_string());
    let json = serde_json::to_vec(header).map_err(fault)?;
    let length = u32::try_from(json.len()).unwrap_or(u32::MAX);
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend((file as u64).to_le_bytes());
    bytes.extend(json);
    Ok(bytes)
}

/// The lengths of header and file at the beginning of a request.
pub(super) fn request_lengths(head: [u8; REQUEST_HEAD]) -> Option<(usize, usize)> {
    let (header, file) = head.split_at(4);
    let header = u32::from_le_bytes(header.try_into().ok()?) as usize;
    let file = usize::try_from(u64::from_le_bytes(file.try_into().ok()?)).ok()?;
    (header <= MAX_TEXT).then_some((header, file))
}

/// The reply of a worker, in pieces.
pub(super) fn reply(result: &Result<Picture>) -> (Vec<u8>, &[u8]) {
    match result {
        Ok(picture) => {
            let side = |side: usize| u32::try_from(side).unwrap_or(0).to_le_bytes();
            let mut head = vec![0];
            head.extend(side(picture.width()));
            head.extend(side(picture.height()));
            (head, picture.rgb())
        }
        Err(err) => {
            let mut message = err.to_string();
            message.truncate(message.floor_char_boundary(MAX_TEXT));
            let mut bytes = vec![1];
            bytes.extend(u32::try_from(message.len()).unwrap_or(0).to_le_bytes());
            bytes.extend([0; 4]);
            bytes.extend(message.into_bytes());
            (bytes, &[])
        }
    }
}

/// A reply as the pool reads it: its head says what follows.
pub(super) enum Expected {
    Picture { width: usize, height: usize },
    Message { length: usize },
}

impl Expected {
    /// Parses the head of a reply; `None` if it is not one within the limits. A worker that was
    /// taken over can send anything.
    pub(super) fn parse(head: [u8; REPLY_HEAD], most_pixels: u64) -> Option<Expected> {
        let [tag, rest @ ..] = head;
        let (first, second) = rest.split_at(4);
        let first = u32::from_le_bytes(first.try_into().ok()?);
        let second = u32::from_le_bytes(second.try_into().ok()?);
        let pixels = u64::from(first) * u64::from(second);
        match tag {
            0 if pixels > 0 && pixels <= most_pixels => {
                Some(Expected::Picture { width: first as usize, height: second as usize })
            }
            1 if first as usize <= MAX_TEXT => {
                Some(Expected::Message { length: first as usize })
            }
            _ => None,
        }
    }

    /// Bytes after the head.
    pub(super) fn length(&self) -> usize {
        match self {
            Expected::Picture { width, height } => width * height * 3,
            Expected::Message { length } => *length,
        }
    }

    pub(super) fn finish(self, bytes: Vec<u8>) -> Result<Picture> {
        match self {
            Expected::Picture { width, height } => Ok(Picture::new(width, height, bytes)),
            Expected::Message { .. } => {
                Err(Error::content(String::from_utf8_lossy(&bytes).into_owned()))
            }
        }
    }
}
