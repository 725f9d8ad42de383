//! Error responses: HTTP status, machine-readable code, and a message (what, where, what to do).

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// An error response.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    code: &'static str,
    message: String,
    place: Option<String>,
    /// When to try again.
    retry: Option<Duration>,
}

/// The result of a handler.
pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError { status, code, message: message.into(), place: None, retry: None }
    }

    /// The request is wrong.
    pub(crate) fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// The requested object does not exist.
    pub(crate) fn not_found(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn method_not_allowed() -> ApiError {
        let message = "this path does not support this method; see /openapi.json";
        ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
    }

    pub(crate) fn media_type(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    /// The client did not send in time.
    pub(crate) fn timeout(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout", message)
    }

    /// The server is overloaded or did not respond in time.
    pub(crate) fn busy(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
    }

    /// The store of a modality does not answer.
    pub(crate) fn store_away(modality: &str, retry: Duration) -> ApiError {
        let message = format!(
            "the store with the items of {modality} does not answer; retry in {} s",
            seconds(retry)
        );
        let code = "store_unavailable";
        let away = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, code, message);
        ApiError { retry: Some(retry), ..away }
    }

    /// The store of a modality refused a statement: logged in full.
    pub(crate) fn store_failed(modality: &str, why: impl std::fmt::Display) -> ApiError {
        tracing::error!(modality, error = %why, "the store refused a request");
        let message = format!(
            "the store with the items of {modality} refused the request; see the log of the server"
        );
        ApiError::new(StatusCode::BAD_GATEWAY, "store_failed", message)
    }

    /// Items in a store cannot do this.
    pub(crate) fn not_in_store(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_IMPLEMENTED, "not_in_store", message)
    }

    /// Nobody waits for the response any more.
    pub(crate) fn cancelled() -> ApiError {
        ApiError::busy("the request was cancelled")
    }

    /// The request conflicts with the current state.
    pub(crate) fn conflict(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::CONFLICT, "conflict", message)
    }

    pub(crate) fn unauthorised() -> ApiError {
        let message = "a token is required: send the header Authorization: Bearer TOKEN";
        ApiError::new(StatusCode::UNAUTHORIZED, "unauthorised", message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// An internal error: logged in full; the client gets a short message.
    pub(crate) fn internal(err: impl std::fmt::Display) -> ApiError {
        tracing::error!(error = %err, "internal error");
        let message = "internal server error; see the log of the server";
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", message)
    }

    /// Names the part of the request that is wrong.
    #[must_use]
    pub(crate) fn at(mut self, place: impl Into<String>) -> ApiError {
        self.place = Some(place.into());
        self
    }
}

impl ApiError {
    /// The error of one of several queries: `query.text` is `queries[3].text`.
    #[must_use]
    pub(crate) fn of_query(mut self, nth: usize) -> ApiError {
        if let Some(place) = &self.place
            && let Some(rest) = place.strip_prefix("query")
        {
            self.place = Some(format!("queries[{nth}]{rest}"));
        }
        self
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(place) = self.place {
            error["where"] = json!(place);
        }
        let mut response = (self.status, Json(json!({ "error": error }))).into_response();
        let headers = response.headers_mut();
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert("www-authenticate", "Bearer".parse().unwrap_or_else(never));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                let retry = seconds(self.retry.unwrap_or_default());
                headers.insert("retry-after", retry.into());
            }
            _ => {}
        }
        response
    }
}

/// Whole seconds, at least one.
fn seconds(duration: Duration) -> u64 {
    (duration.as_secs() + u64::from(duration.subsec_nanos() > 0)).max(1)
}

fn never<T>(_: axum::http::header::InvalidHeaderValue) -> T {
    unreachable!("plain ASCII")
}
