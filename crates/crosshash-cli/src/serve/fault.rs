//! What a request is answered with when it cannot be answered: a status, a word for machines, a
//! sentence for people (what, where, what to do).

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// A refusal or a failure.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) status: StatusCode,
    code: &'static str,
    message: String,
    place: Option<String>,
}

/// What handlers give.
pub(crate) type Answer<T> = Result<T, Fault>;

impl Fault {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Fault {
        Fault { status, code, message: message.into(), place: None }
    }

    /// The request is wrong.
    pub(crate) fn bad(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    /// What is asked for is not there.
    pub(crate) fn missing(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn method() -> Fault {
        let message = "this path does not answer to this method; see /openapi.json";
        Fault::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
    }

    pub(crate) fn media_type(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    }

    pub(crate) fn large(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    /// The client did not send in time.
    pub(crate) fn slow(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::REQUEST_TIMEOUT, "timeout", message)
    }

    /// We did not answer in time, or have too much to do.
    pub(crate) fn busy(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
    }

    /// What is there stands against it.
    pub(crate) fn conflict(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::CONFLICT, "conflict", message)
    }

    pub(crate) fn unauthorised() -> Fault {
        let message = "a token is needed: send the header Authorization: Bearer TOKEN";
        Fault::new(StatusCode::UNAUTHORIZED, "unauthorised", message)
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Fault {
        Fault::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// Our own fault: said to the log in full, to the client in short.
    pub(crate) fn ours(err: impl std::fmt::Display) -> Fault {
        tracing::error!(error = %err, "a request failed");
        let message = "the server failed; its log says why";
        Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", message)
    }

    /// Says which part of the request is wrong.
    #[must_use]
    pub(crate) fn at(mut self, place: impl Into<String>) -> Fault {
        self.place = Some(place.into());
        self
    }
}

impl IntoResponse for Fault {
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
                headers.insert("retry-after", "1".parse().unwrap_or_else(never));
            }
            _ => {}
        }
        response
    }
}

fn never<T>(_: axum::http::header::InvalidHeaderValue) -> T {
    unreachable!("plain ASCII")
}
