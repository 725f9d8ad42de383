//! Limits of a request: bytes, results, time, and CPU workers.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use tokio::sync::Semaphore;

use super::error::{ApiError, ApiResult};

/// A body that is too large is read and discarded up to this multiple of the limit, so that the
/// client receives the error; a larger one is cut off.
const DISCARD_FACTOR: usize = 4;

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
        let read = read(body, self.body);
        match tokio::time::timeout(self.time, read).await {
            Err(_) => {
                Err(ApiError::timeout("timeout while reading the body; send it again"))
            }
            Ok(Err(err)) => {
                Err(ApiError::bad_request(format!("the body is incomplete: {err}")))
            }
            Ok(Ok(None)) => Err(rejected()),
            Ok(Ok(Some(bytes))) => Ok(bytes),
        }
    }
}

/// The complete body, or none if it is larger than `limit`.
async fn read(body: Body, limit: usize) -> Result<Option<Bytes>, axum::Error> {
    let mut stream = body.into_data_stream();
    let mut all: Vec<u8> = Vec::new();
    let mut length = 0_usize;
    while let Some(chunk) = next(&mut stream).await {
        let chunk = chunk?;
        length += chunk.len();
        if length <= limit {
            all.extend_from_slice(&chunk);
        } else if length > limit.saturating_mul(DISCARD_FACTOR) {
            break;
        }
    }
    Ok((length <= limit).then(|| all.into()))
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

/// Runs CPU-bound work, as many tasks at once as there are cores; the others wait, so that neither
/// memory nor threads grow with the number of requests.
#[derive(Clone)]
pub(crate) struct Workers(Arc<Semaphore>);

impl Workers {
    pub(crate) fn new() -> Workers {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Workers(Arc::new(Semaphore::new(cores)))
    }

    /// Runs `work` on a blocking thread.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> ApiResult<T> {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        let permit = permit.map_err(|_| ApiError::busy("the server is stopping"))?;
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit; // held until the work is done, even if the client has left
            work()
        });
        task.await.map_err(ApiError::internal)
    }
}
