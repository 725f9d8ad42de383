//! `GET /v1/items/{id}/picture`: the picture of an item, or a thumbnail of it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use crosshash_codes::Cancel;
use crosshash_codes::segments::Snapshot;
use serde::Deserialize;
use xxhash_rust::xxh3::xxh3_64;

use super::body;
use super::error::{ApiError, ApiResult};
use super::fair::Size;
use super::item_view::find;
use super::items::named;
use super::run::ServedModel;
use super::state::App;
use super::thumbnail;
use crosshash::payload;

/// Maximum bytes of cached thumbnails.
const CACHE_BYTES: usize = 64 << 20;
/// Maximum bytes of one of them.
const MAX_CACHED: usize = CACHE_BYTES / 16;
/// Maximum side of a thumbnail in pixels.
const MAX_SIDE: u32 = 2048;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    model: Option<String>,
    modality: Option<String>,
    size: Option<u32>,
}

/// Model, generation, modality, id, checksum of the payload, size.
type Key = (String, u64, String, String, u64, u32);

/// A cache of thumbnails; the oldest are removed first.
#[derive(Default)]
pub(crate) struct Thumbnails(Mutex<Cache>);

#[derive(Default)]
struct Cache {
    by_key: HashMap<Key, Bytes>,
    order: VecDeque<Key>,
    bytes: usize,
}

impl Thumbnails {
    fn get(&self, key: &Key) -> Option<Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_key.get(key).cloned()
    }

    fn put(&self, key: Key, bytes: Bytes) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes.len() > MAX_CACHED || cache.by_key.contains_key(&key) {
            return;
        }
        cache.bytes += bytes.len();
        cache.by_key.insert(key.clone(), bytes);
        cache.order.push_back(key);
        while cache.bytes > CACHE_BYTES
            && let Some(oldest) = cache.order.pop_front()
        {
            let gone = cache.by_key.remove(&oldest).map_or(0, |bytes| bytes.len());
            cache.bytes -= gone;
        }
    }
}

pub(crate) async fn get(
    State(app): State<Arc<App>>,
    request: Request,
) -> ApiResult<Response> {
    let known = request.headers().get(header::IF_NONE_MATCH).cloned();
    let (id, Which { model, modality, size }) = body::path_and_query(request).await?;
    if size.is_some_and(|size| size == 0 || size > MAX_SIDE) {
        return Err(ApiError::bad_request(format!(
            "the size must be 1 to {MAX_SIDE} pixels"
        ))
        .at("size"));
    }
    let model = app.model(model.as_deref())?;
    let items = named(&model, modality.as_deref())?;
    let modality = items.modality().to_owned();
    let missing = || {
        ApiError::not_found(format!("{modality} has no item {id:?} with a picture"))
            .at("id")
    };
    // Stores have no pictures: those of the data set are shown, without a look into the store.
    let stored = match items.index().map(|index| index.snapshot()) {
        None => None,
        Some(snapshot) => {
            let item = find(&snapshot, &id)?.ok_or_else(missing)?;
            Some((snapshot, item))
        }
    };
    let checksum = stored.as_ref().map(|(snapshot, item)| snapshot.payload_checksum(*item));
    let checksum = checksum.transpose().map_err(ApiError::internal)?;
    let key = (
        model.name.clone(),
        model.number,
        modality.clone(),
        id.clone(),
        checksum.unwrap_or_default(),
        size.unwrap_or(0),
    );
    let bytes = match app.thumbnails.get(&key) {
        Some(bytes) => bytes,
        None => {
            let (name, worker, modality) =
                (id.clone(), Arc::clone(&model), modality.clone());
            let work = move |cancel: &Cancel| {
                let stored = stored.as_ref().map(|(snapshot, item)| (&**snapshot, *item));
                make(&worker, &modality, stored, &name, size, cancel)
            };
            let made = app.workers.run(Size::Long, work).await?;
            let made = made.ok_or_else(missing)?;
            if made.len() > MAX_CACHED {
                // Not shared with other requests: each has its own copy until it is sent.
                app.limits.memory.response(made)?
            } else {
                let bytes = Bytes::from(made);
                app.thumbnails.put(key, bytes.clone());
                bytes
            }
        }
    };
    let tag = format!("\"{:016x}\"", xxh3_64(&bytes));
    let fresh = known.is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let response = Response::builder()
        .header(header::ETAG, tag)
        .header(header::CACHE_CONTROL, "private, max-age=60");
    let response = if fresh {
        response.status(StatusCode::NOT_MODIFIED).body(Body::empty())
    } else {
        response
            .header(header::CONTENT_TYPE, thumbnail::media_type(&bytes))
            .body(bytes.into())
    };
    response.map_err(ApiError::internal)
}

/// The inserted picture, or that of the data set.
fn make(
    model: &ServedModel,
    modality: &str,
    stored: Option<(&Snapshot, u32)>,
    id: &str,
    size: Option<u32>,
    cancel: &Cancel,
) -> ApiResult<Option<Vec<u8>>> {
    let payload = stored.map(|(snapshot, item)| snapshot.payload(item)).transpose();
    let payload = payload.map_err(ApiError::internal)?.unwrap_or_default();
    let file = if payload.is_empty() {
        model.shown.picture(modality, id)
    } else {
        payload::picture(payload).map(|file| file.map(<[u8]>::to_vec)).map_err(Into::into)
    };
    let file = file.map_err(|err| ApiError::internal(format!("{err:#}")))?;
    let made = file.map(|file| match size {
        Some(size) => thumbnail::make(file, size, cancel),
        None => thumbnail::plain(file, cancel),
    });
    made.transpose().map_err(|err| {
        tracing::warn!(modality, id, error = %format!("{err:#}"), "unreadable picture");
        ApiError::not_found(format!("the picture of {id:?} is damaged: {err:#}")).at("id")
    })
}
