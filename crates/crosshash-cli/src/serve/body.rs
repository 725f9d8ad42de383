//! Reads requests: JSON bodies, multipart forms, path and query parameters.

use axum::body::Body;
use axum::extract::{
    DefaultBodyLimit, FromRequest as _, FromRequestParts as _, Multipart, Path, Query,
    Request,
};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use super::error::{ApiError, ApiResult};
use super::state::App;

/// Bodies of more bytes are parsed by a worker.
const HEAVY: usize = 64 << 10;

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
    app.workers.run_heavy(bytes.len() > HEAVY, move |_| parse(&bytes)).await
}

/// An optional field of a body: it may be absent, but not null, unless the schema says so.
pub(crate) fn given<'de, D, T>(field: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(field).map(Some)
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
    let broken =
        |err: String| ApiError::bad_request(format!("invalid multipart form: {err}"));
    let mut whole = Request::from_parts(parts, Body::from(bytes));
    // The size was checked above; the default of the form is smaller.
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

/// A JSON response.
pub(crate) fn response(app: &App, value: &impl Serialize) -> ApiResult<Response> {
    let bytes = serde_json::to_vec(value).map_err(ApiError::internal)?;
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
