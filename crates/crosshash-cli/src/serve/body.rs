//! Reading requests: JSON bodies, forms with a file, parts of a path, what stands behind the `?`.

use axum::body::Body;
use axum::extract::{
    FromRequest as _, FromRequestParts as _, Multipart, Path, Query, Request,
};
use axum::http::{HeaderMap, header};
use serde::de::DeserializeOwned;

use super::fault::{Answer, Fault};
use super::limits::parse;
use super::state::App;

/// A JSON body.
pub(crate) async fn json<T: DeserializeOwned>(app: &App, request: Request) -> Answer<T> {
    let (parts, body) = request.into_parts();
    if !is(&parts.headers, "application/json") {
        return Err(Fault::media_type(
            "send JSON with the header Content-Type: application/json",
        )
        .at("header Content-Type"));
    }
    parse(&app.limits.body(&parts.headers, body).await?)
}

/// Whether the body is said to be of a type.
pub(crate) fn is(headers: &HeaderMap, wanted: &str) -> bool {
    let told = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let told = told.unwrap_or("").split(';').next().unwrap_or("").trim();
    told.eq_ignore_ascii_case(wanted)
}

/// A form: the JSON in its part `request`, if there is one, and the file in its part `picture`.
pub(crate) async fn form(
    app: &App,
    request: Request,
) -> Answer<(Option<Vec<u8>>, Vec<u8>)> {
    let (parts, body) = request.into_parts();
    let bytes = app.limits.body(&parts.headers, body).await?;
    let broken = |err: String| Fault::bad(format!("not a whole form: {err}"));
    let whole = Request::from_parts(parts, Body::from(bytes));
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
                return Err(Fault::bad(message));
            }
        }
    }
    let picture = picture.filter(|bytes| !bytes.is_empty());
    let picture =
        picture.ok_or_else(|| Fault::bad("no file in the part `picture`").at("picture"))?;
    Ok((json, picture))
}

/// The one part of a path that varies, and what stands behind the `?`.
pub(crate) async fn path_and_query<T: DeserializeOwned>(
    request: Request,
) -> Answer<(String, T)> {
    let (mut parts, _) = request.into_parts();
    let path = Path::<String>::from_request_parts(&mut parts, &()).await;
    let Path(path) = path
        .map_err(|err| Fault::bad(format!("the path: {}", err.body_text())).at("path"))?;
    let query = Query::<T>::from_request_parts(&mut parts, &()).await;
    let Query(query) =
        query.map_err(|err| Fault::bad(err.body_text()).at("what stands behind the ?"))?;
    Ok((path, query))
}
