//! Limits of a request: bytes, results and time; and the memory of all bodies and responses.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::context::RequestContext;
use super::error::{ApiError, ApiResult};

/// A body that is too large is read and discarded up to this multiple of the limit, so that the
/// client receives the error; a larger one is cut off.
const DISCARD_FACTOR: usize = 4;

/// Bytes of a body that are read without a pause.
const TURN: usize = 128 << 10;

/// The limits of every request.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Bytes of a body.
    pub(crate) body: usize,
    /// Results per response.
    pub(crate) k: usize,
    /// Items per insert or delete.
    pub(crate) items: usize,
    /// Time per request.
    pub(crate) time: Duration,
    /// Concurrent connections.
    pub(crate) connections: usize,
    /// Memory of all bodies and responses.
    pub(crate) memory: Memory,
}

impl Limits {
    /// Reads a body; rejects one that is too large or too slow.
    pub(crate) async fn body(&self, headers: &HeaderMap, body: Body) -> ApiResult<Bytes> {
        let rejected = || {
            ApiError::too_large(format!(
                "the body is larger than {} bytes; send less, or start the server with a larger \
                 --max-body",
                self.body
            ))
        };
        let declared = headers.get(header::CONTENT_LENGTH);
        let declared = declared.and_then(|text| text.to_str().ok()?.parse::<usize>().ok());
        if declared.is_some_and(|length| length > self.body.saturating_mul(DISCARD_FACTOR))
        {
            return Err(rejected());
        }
        let read = self.read(body);
        match tokio::time::timeout(self.time, read).await {
            Err(_) => {
                Err(ApiError::timeout("timeout while reading the body; send it again"))
            }
            Ok(Err(err)) => Err(err),
            Ok(Ok(None)) => Err(rejected()),
            Ok(Ok(Some(bytes))) => Ok(bytes),
        }
    }

    /// The complete body, or none if it is larger than the limit. Its memory is reserved as it
    /// arrives, until the request ends.
    async fn read(&self, body: Body) -> ApiResult<Option<Bytes>> {
        let mut stream = body.into_data_stream();
        let mut all: Vec<u8> = Vec::new();
        let (mut length, mut reserved) = (0_usize, Memory::SMALL);
        let mut unbroken = 0;
        while let Some(chunk) = next(&mut stream).await {
            let chunk = chunk.map_err(|err| {
                ApiError::bad_request(format!("the body is incomplete: {err}"))
            })?;
            length += chunk.len();
            unbroken += chunk.len();
            if unbroken > TURN {
                // Other connections have their turn: a fast client could send for a long time.
                tokio::task::yield_now().await;
                unbroken = 0;
            }
            if length > self.body.saturating_mul(DISCARD_FACTOR) {
                break;
            }
            if length > self.body {
                all = Vec::new();
                continue;
            }
            if length > reserved {
                // Room to grow: a vector doubles its capacity.
                let more = length.min(self.body);
                RequestContext::current().keep(self.memory.reserve(more)?);
                reserved += more;
            }
            all.extend_from_slice(&chunk);
        }
        Ok((length <= self.body).then(|| all.into()))
    }
}

/// The memory of all bodies that are being read, of their values, and of all responses that are being
/// sent, in KiB.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    free: Arc<Semaphore>,
    most: usize,
}

impl Memory {
    /// Bytes of a body or response that need no reservation.
    pub(crate) const SMALL: usize = 64 << 10;

    /// At most this many bytes.
    pub(crate) fn new(bytes: usize) -> Memory {
        Memory { free: Arc::new(Semaphore::new(bytes >> 10)), most: bytes }
    }

    /// All bytes.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Reserves memory until the request ends.
    pub(crate) fn keep_all(&self, request: &RequestContext, bytes: usize) -> ApiResult<()> {
        request.keep(self.reserve(bytes)?);
        Ok(())
    }

    /// Reserves memory until the request ends, unless it is little.
    pub(crate) fn keep(&self, request: &RequestContext, bytes: usize) -> ApiResult<()> {
        if bytes > Memory::SMALL { self.keep_all(request, bytes) } else { Ok(()) }
    }

    fn reserve(&self, bytes: usize) -> ApiResult<OwnedSemaphorePermit> {
        let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        Arc::clone(&self.free).try_acquire_many_owned(kib).map_err(|_| {
            ApiError::busy("too many large requests at the same time; retry later")
        })
    }

    /// The bytes of a response; their memory is reserved until they are sent.
    pub(crate) fn response(&self, bytes: Vec<u8>) -> ApiResult<Bytes> {
        if bytes.len() <= Memory::SMALL {
            return Ok(bytes.into());
        }
        let permit = self.reserve(bytes.len())?;
        Ok(Bytes::from_owner(Sending { bytes, _permit: permit }))
    }
}

struct Sending {
    bytes: Vec<u8>,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Sending {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The next chunk of a body.
async fn next(
    stream: &mut axum::body::BodyDataStream,
) -> Option<Result<Bytes, axum::Error>> {
    use axum::body::HttpBody as _;
    let mut stream = std::pin::Pin::new(stream);
    loop {
        let frame =
            std::future::poll_fn(|context| stream.as_mut().poll_frame(context)).await?;
        match frame.map(hyper::body::Frame::into_data) {
            Ok(Ok(bytes)) => return Some(Ok(bytes)),
            Ok(Err(_trailers)) => {}
            Err(err) => return Some(Err(err)),
        }
    }
}
