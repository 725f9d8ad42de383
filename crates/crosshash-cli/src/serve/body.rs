//! Reads requests: JSON bodies, multipart forms, path and query parameters.

use std::fmt;
use std::marker::PhantomData;

use axum::body::Body;
use axum::extract::{
    DefaultBodyLimit, FromRequest as _, FromRequestParts as _, Multipart, Path, Query,
    Request,
};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use crosshash_codes::Cancel;
use serde::de::{DeserializeOwned, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::context::RequestContext;
use super::error::{ApiError, ApiResult};
use super::fair::Size;
use super::limits::Memory;
use super::state::App;

/// Bodies of more bytes are parsed by a worker; those of more than the second number take long.
const HEAVY: [usize; 2] = [64 << 10, 1 << 20];

/// Bytes of a value in a list, and of a field of an object, with the room to which lists grow.
const BYTES_OF_VALUE: usize = 64;
const BYTES_OF_FIELD: usize = 192;
/// The most elements of a list whose limit is checked later; more are not even read.
pub(crate) const MAX_LIST: usize = 100_000;

/// How much work it is to parse or copy a body.
pub(crate) fn size(bytes: usize) -> Size {
    match bytes {
        bytes if bytes <= HEAVY[0] => Size::Light,
        bytes if bytes <= HEAVY[1] => Size::Short,
        _ => Size::Long,
    }
}

/// A JSON body.
pub(crate) async fn json<T: DeserializeOwned + Send + 'static>(
    app: &App,
    request: Request,
) -> ApiResult<T> {
    let (parts, body) = request.into_parts();
    if !is(&parts.headers, "application/json") {
        return Err(ApiError::media_type(
            "send JSON with the header Content-Type: application/json",
        )
        .at("header Content-Type"));
    }
    let bytes = app.limits.body(&parts.headers, body).await?;
    let length = bytes.len();
    let (request, memory) = (RequestContext::current(), app.limits.memory.clone());
    let work = move |_: &Cancel| {
        reserve_values(&memory, &request, &bytes)?;
        parse(&bytes)
    };
    app.workers.run(size(length), work).await
}

/// Reserves memory for the values of a body: parsed, small values take many times the space of their
/// text.
fn reserve_values(
    memory: &Memory,
    request: &RequestContext,
    bytes: &[u8],
) -> ApiResult<()> {
    let values = bytes.iter().filter(|byte| b",[{".contains(byte)).count();
    let fields = bytes.iter().filter(|&&byte| byte == b':').count();
    // The texts are copied.
    let needed = values * BYTES_OF_VALUE + fields * BYTES_OF_FIELD + bytes.len();
    if needed > memory.most() {
        return Err(ApiError::too_large(format!(
            "the body has about {} values, which take too much memory; send less at once",
            values + fields
        )));
    }
    memory.keep(request, needed)
}

/// An optional field of a body: it may be absent, but not null, unless the schema says so.
pub(crate) fn given<'de, D, T>(field: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(field).map(Some)
}

/// A list of at most [`MAX_LIST`] elements.
pub(crate) fn list<'de, D, T>(field: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct List<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
        type Value = Vec<T>;

        fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(text, "a list of at most {MAX_LIST} elements")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut all = Vec::new();
            while let Some(one) = list.next_element()? {
                if all.len() == MAX_LIST {
                    return Err(A::Error::invalid_length(MAX_LIST + 1, &self));
                }
                all.push(one);
            }
            Ok(all)
        }
    }

    field.deserialize_seq(List(PhantomData))
}

/// An optional list; see [`list`].
pub(crate) fn given_list<'de, D, T>(field: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    list(field).map(Some)
}

/// Whether the Content-Type of a body is `expected`.
pub(crate) fn is(headers: &HeaderMap, expected: &str) -> bool {
    let found = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let found = found.unwrap_or("").split(';').next().unwrap_or("").trim();
    found.eq_ignore_ascii_case(expected)
}

/// A multipart form: the JSON of its part `request`, if there is one, and the file of its part
/// `picture`.
pub(crate) async fn form(
    app: &App,
    request: Request,
) -> ApiResult<(Option<Vec<u8>>, Vec<u8>)> {
    let (parts, body) = request.into_parts();
    let bytes = app.limits.body(&parts.headers, body).await?;
    // The file is copied.
    app.limits.memory.keep(&RequestContext::current(), bytes.len())?;
    let size = size(bytes.len());
    let parse = parse_form(Request::from_parts(parts, Body::from(bytes)));
    if size == Size::Light {
        return parse.await;
    }
    // It never waits: the whole body is there.
    let runtime = tokio::runtime::Handle::current();
    app.workers.run(size, move |_| runtime.block_on(parse)).await
}

/// The parts of a form whose size was checked.
async fn parse_form(mut whole: Request) -> ApiResult<(Option<Vec<u8>>, Vec<u8>)> {
    let broken =
        |err: String| ApiError::bad_request(format!("invalid multipart form: {err}"));
    // The default limit of a form is smaller.
    DefaultBodyLimit::disable().apply(&mut whole);
    let form = Multipart::from_request(whole, &()).await;
    let mut form = form.map_err(|err| broken(err.body_text()))?;
    let (mut json, mut picture) = (None, None);
    while let Some(part) = form.next_field().await.map_err(|err| broken(err.body_text()))? {
        let name = part.name().unwrap_or("").to_owned();
        let bytes = part.bytes().await.map_err(|err| broken(err.body_text()))?.to_vec();
        match name.as_str() {
            "picture" if picture.is_none() => picture = Some(bytes),
            "request" if json.is_none() => json = Some(bytes),
            other => {
                let message = format!(
                    "part {other:?}: a form has one part `picture` and at most one `request`"
                );
                return Err(ApiError::bad_request(message));
            }
        }
    }
    let picture = picture.filter(|bytes| !bytes.is_empty());
    let picture = picture.ok_or_else(|| {
        ApiError::bad_request("the part `picture` has no file").at("picture")
    })?;
    Ok((json, picture))
}

/// The path parameter and the query parameters.
pub(crate) async fn path_and_query<T: DeserializeOwned>(
    request: Request,
) -> ApiResult<(String, T)> {
    let (mut parts, _) = request.into_parts();
    let path = Path::<String>::from_request_parts(&mut parts, &()).await;
    let Path(path) = path.map_err(|err| {
        ApiError::bad_request(format!("invalid path: {}", err.body_text())).at("path")
    })?;
    let query = Query::<T>::from_request_parts(&mut parts, &()).await;
    let Query(query) = query
        .map_err(|err| ApiError::bad_request(err.body_text()).at("query parameters"))?;
    Ok((path, query))
}

/// A value as JSON, without room to grow: what is reserved for large ones is what they take.
pub(crate) fn to_bytes(value: &impl Serialize) -> ApiResult<Vec<u8>> {
    let bytes = serde_json::to_vec(value).map_err(ApiError::internal)?;
    // A copy: allocators leave a block that is at least half full as it is.
    Ok(if bytes.len() > Memory::SMALL { bytes.as_slice().to_vec() } else { bytes })
}

/// A JSON response.
pub(crate) fn response(app: &App, bytes: Vec<u8>) -> ApiResult<Response> {
    Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(app.limits.memory.response(bytes)?))
        .map_err(ApiError::internal)
}

/// Parses JSON; errors name the field.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> ApiResult<T> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let found = serde_path_to_error::deserialize(&mut json).map_err(|err| {
        let place = err.path().to_string();
        let error = ApiError::bad_request(format!("invalid request: {}", err.inner()));
        let place = place.trim_matches('.');
        if place.is_empty() { error } else { error.at(place) }
    })?;
    json.end()
        .map_err(|err| {
            ApiError::bad_request(format!(
                "invalid request: more than one JSON value: {err}"
            ))
        })
        .map(|()| found)
}
