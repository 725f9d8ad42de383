//! `GET /openapi.json`: the OpenAPI document of this server.

use axum::body::Body;
use axum::http::header;
use axum::response::Response;

use super::error::{ApiError, ApiResult};

/// The document, with the version of the program.
pub(crate) fn document() -> String {
    include_str!("openapi.json").replace("{{version}}", env!("CARGO_PKG_VERSION"))
}

pub(crate) async fn get() -> ApiResult<Response> {
    Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(document()))
        .map_err(ApiError::internal)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::super::routes;
    use super::*;

    #[test]
    fn every_route_is_described_and_every_description_has_its_route() {
        let document: Value = serde_json::from_str(&document()).unwrap();
        let mut described = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys() {
                described.insert((path.clone(), method.clone()));
            }
        }
        let mut routed = BTreeSet::new();
        for (path, methods, _) in routes() {
            routed.extend(
                methods.iter().map(|method| (path.to_owned(), (*method).to_owned())),
            );
        }
        assert_eq!(described, routed);
    }
}
