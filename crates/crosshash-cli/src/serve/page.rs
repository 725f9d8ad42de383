//! The page; its files are embedded in the program.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header;
use axum::response::Response;
use xxhash_rust::xxh3::xxh3_64;

use super::error::{ApiError, ApiResult};

/// Content security policy: the page may load resources only from this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' \
     blob: data:; connect-src 'self'; font-src 'self'; form-action 'none'; base-uri 'none'; \
     frame-ancestors 'none'";

/// Every file of the page by name.
const FILES: &[(&str, &[u8])] = &[
    ("api.js", include_bytes!("page/api.js")),
    ("app.js", include_bytes!("page/app.js")),
    ("bits.js", include_bytes!("page/bits.js")),
    ("charts.js", include_bytes!("page/charts.js")),
    ("dom.js", include_bytes!("page/dom.js")),
    ("draw.js", include_bytes!("page/draw.js")),
    ("explain.js", include_bytes!("page/explain.js")),
    ("icon.svg", include_bytes!("page/icon.svg")),
    ("index.html", include_bytes!("page/index.html")),
    ("intro.css", include_bytes!("page/intro.css")),
    ("intro.js", include_bytes!("page/intro.js")),
    ("labels.js", include_bytes!("page/labels.js")),
    ("map-layout.js", include_bytes!("page/map-layout.js")),
    ("map.js", include_bytes!("page/map.js")),
    ("model.css", include_bytes!("page/model.css")),
    ("model.js", include_bytes!("page/model.js")),
    ("narrow.css", include_bytes!("page/narrow.css")),
    ("query.css", include_bytes!("page/query.css")),
    ("query.js", include_bytes!("page/query.js")),
    ("results.css", include_bytes!("page/results.css")),
    ("results.js", include_bytes!("page/results.js")),
    ("state.js", include_bytes!("page/state.js")),
    ("style.css", include_bytes!("page/style.css")),
    ("theme.js", include_bytes!("page/theme.js")),
];

/// The page.
pub(crate) async fn index(request: Request) -> ApiResult<Response> {
    file("index.html", &request)
}

/// A file of the page.
pub(crate) async fn part(request: Request) -> ApiResult<Response> {
    let name = request.uri().path().strip_prefix("/page/").unwrap_or("").to_owned();
    file(&name, &request)
}

fn file(name: &str, request: &Request) -> ApiResult<Response> {
    let found = FILES.iter().find(|(known, _)| *known == name);
    let (name, bytes) =
        found.ok_or_else(|| ApiError::not_found("no such file").at("path"))?;
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let kind = match ending {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    };
    let tag = format!("\"{:016x}\"", xxh3_64(bytes));
    let known = request.headers().get(header::IF_NONE_MATCH);
    let fresh = known.is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let response = Response::builder()
        .status(if fresh { 304 } else { 200 })
        .header(header::CONTENT_TYPE, kind)
        .header(header::CONTENT_SECURITY_POLICY, POLICY)
        .header(header::CACHE_CONTROL, "no-cache")
        .header(header::ETAG, tag);
    response
        .body(if fresh { Body::empty() } else { Body::from(*bytes) })
        .map_err(ApiError::internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_is_embedded() {
        let folder =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/serve/page");
        for entry in fs_err::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(
                FILES.iter().any(|(known, _)| *known == name),
                "{name} is not in FILES"
            );
        }
    }
}
