//! For every request: authorisation, time limit, metrics, log and response headers. Also the health
//! and metrics endpoints.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::context::{CancelOnDrop, RequestContext};
use super::error::{ApiError, ApiResult};
use super::listen::Client;
use super::state::App;
use super::store_health;

/// Paths without a token: the page, which asks for the token, and paths that reveal no items.
const OPEN: [&str; 4] = ["/", "/page/{file}", "/healthz", "/openapi.json"];
/// Paths that connections beyond the maximum may request.
const RESERVED: [&str; 2] = ["/healthz", "/metrics"];

pub(crate) async fn around(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let method = known(request.method());
    let matched =
        request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let route = matched.unwrap_or_else(|| "other".into());
    let origin = request.headers().get(header::ORIGIN).cloned();
    let preflight = request.method() == Method::OPTIONS && app.guard.cors.is_some();
    let client = request.extensions().get::<Client>().cloned();
    let admitted = app.guard.admit(
        request.headers(),
        request.uri().authority().map(Authority::as_str),
        preflight || OPEN.contains(&route.as_str()),
    );
    let admitted = admitted.and_then(|()| match &client {
        Some(client) if client.reserve && !RESERVED.contains(&route.as_str()) => {
            Err(ApiError::busy("too many connections; retry later"))
        }
        _ => Ok(()),
    });
    let mut response = match admitted {
        Err(fault) => fault.into_response(),
        Ok(()) if preflight => StatusCode::NO_CONTENT.into_response(),
        Ok(()) => {
            // In its own task: a panic ends only this request.
            let context = RequestContext::new(client.map(|c| c.flow).unwrap_or_default());
            let work = tokio::spawn(context.clone().scope(next.run(request)));
            // The work is cancelled if this future is dropped: the client has gone.
            let _cancel = CancelOnDrop { context, task: work.abort_handle() };
            // Receiving the body may take the same time again.
            match tokio::time::timeout(2 * app.limits.time, work).await {
                Ok(Ok(response)) => response,
                Ok(Err(err)) => ApiError::internal(err).into_response(),
                Err(_) => ApiError::busy(
                    "the request took too long; request less, or retry later",
                )
                .into_response(),
            }
        }
    };
    let headers = response.headers_mut();
    let fixed = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
    if let Some(allowed) = &app.guard.cors
        && origin.is_some_and(|origin| origin.as_bytes() == allowed.as_bytes())
        && let Ok(value) = HeaderValue::from_str(allowed)
    {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, value);
        headers.insert(header::VARY, HeaderValue::from_static("Origin"));
        headers.insert(
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static("authorization, content-type"),
        );
        headers.insert(
            header::ACCESS_CONTROL_ALLOW_METHODS,
            HeaderValue::from_static("GET, POST, DELETE"),
        );
    }
    let (status, took) = (response.status().as_u16(), started.elapsed());
    app.metrics.record(&route, method, status, took);
    let micros = super::timings::micros(started);
    tracing::debug!(method, route, status, micros, "request");
    response
}

/// Methods with their own counter; unknown ones share a counter, so that memory is bounded.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

pub(crate) async fn no_such_path() -> ApiError {
    ApiError::not_found("no such path; see /openapi.json").at("path")
}

pub(crate) async fn no_such_method() -> ApiError {
    ApiError::method_not_allowed()
}

/// Health check, with the names of the models; 503 while a store does not answer.
pub(crate) async fn health(State(app): State<Arc<App>>) -> (StatusCode, Json<Value>) {
    let models = app.models();
    let models: Vec<&String> = models.all.keys().collect();
    let mut health =
        json!({ "status": "ok", "models": models, "version": env!("CARGO_PKG_VERSION") });
    let Some((is_available, stores)) = store_health::of(&app.stores) else {
        return (StatusCode::OK, Json(health));
    };
    health["stores"] = stores;
    if is_available {
        return (StatusCode::OK, Json(health));
    }
    health["status"] = json!("unavailable");
    (StatusCode::SERVICE_UNAVAILABLE, Json(health))
}

/// Metrics for Prometheus.
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> ApiResult<Response> {
    let text = app.metrics.to_text(&app.gauges());
    Response::builder()
        .header(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")
        .body(Body::from(text))
        .map_err(ApiError::internal)
}
