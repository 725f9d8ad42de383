//! What one request may take: bytes, hits, time, and a share of the processors.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use super::fault::{Answer, Fault};

/// A body that is too large is read on and thrown away up to so many times the limit, so that the
/// client hears why; what is larger still is cut off.
const PATIENCE: usize = 4;

/// The limits of every request.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Bytes of a body.
    pub(crate) body: usize,
    /// Hits of an answer.
    pub(crate) k: usize,
    /// Items of one insert or delete.
    pub(crate) items: usize,
    /// Time until the answer.
    pub(crate) time: Duration,
    /// Connections at once.
    pub(crate) connections: usize,
}

impl Limits {
    /// Reads a body; refuses what is too large or too slow.
    pub(crate) async fn body(&self, headers: &HeaderMap, body: Body) -> Answer<Bytes> {
        let refused = || {
            Fault::large(format!(
                "the body is larger than {} bytes; send less, or start the server with a larger \
                 --max-body",
                self.body
            ))
        };
        let told = headers.get(header::CONTENT_LENGTH);
        let told = told.and_then(|text| text.to_str().ok()?.parse::<usize>().ok());
        if told.is_some_and(|length| length > self.body.saturating_mul(PATIENCE)) {
            return Err(refused());
        }
        let read = read(body, self.body);
        match tokio::time::timeout(self.time, read).await {
            Err(_) => Err(Fault::slow("the body did not arrive in time; send it again")),
            Ok(Err(err)) => Err(Fault::bad(format!("the body broke off: {err}"))),
            Ok(Ok(None)) => Err(refused()),
            Ok(Ok(Some(bytes))) => Ok(bytes),
        }
    }
}

/// The whole body, or none if it is larger than `most`.
async fn read(body: Body, most: usize) -> Result<Option<Bytes>, axum::Error> {
    let mut stream = body.into_data_stream();
    let mut all: Vec<u8> = Vec::new();
    let mut length = 0_usize;
    while let Some(chunk) = next(&mut stream).await {
        let chunk = chunk?;
        length += chunk.len();
        if length <= most {
            all.extend_from_slice(&chunk);
        } else if length > most.saturating_mul(PATIENCE) {
            break;
        }
    }
    Ok((length <= most).then(|| all.into()))
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

/// JSON of a known form; says where it is wrong.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Answer<T> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let found = serde_path_to_error::deserialize(&mut json).map_err(|err| {
        let place = err.path().to_string();
        let fault = Fault::bad(format!("not the JSON that is wanted: {}", err.inner()));
        if place == "." { fault } else { fault.at(place) }
    })?;
    json.end()
        .map_err(|err| Fault::bad(format!("more than one JSON value: {err}")))
        .map(|()| found)
}

/// Work for processors, as many pieces at once as there are of them; the rest waits in line, so
/// that neither memory nor threads grow with the number of requests.
#[derive(Clone)]
pub(crate) struct Workers(Arc<Semaphore>);

impl Workers {
    pub(crate) fn new() -> Workers {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Workers(Arc::new(Semaphore::new(cores)))
    }

    /// Runs `work` on a thread where it may take its time.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Answer<T> {
        let permit = Arc::clone(&self.0).acquire_owned().await;
        let permit = permit.map_err(|_| Fault::busy("the server is stopping"))?;
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit; // held until the work is done, even if nobody waits any more
            work()
        });
        task.await.map_err(Fault::ours)
    }
}
