//! Several queries in one search request: they are answered together, each as if it were alone.

use std::sync::Arc;

use axum::response::Response;
use crosshash_codes::Cancel;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::body;
use super::context::RequestContext;
use super::error::{ApiError, ApiResult};
use super::query::QueryRequest;
use super::search::{Plan, answer};
use super::state::App;

/// The most queries of a request.
const MAX_QUERIES: usize = 100;
/// Queries of a request that are answered at the same time. More would only wait, with their hits in
/// memory.
const TOGETHER: usize = 8;

/// The queries of a request: `query` or `queries`.
pub(super) fn queries(
    one: Option<QueryRequest>,
    several: Option<Vec<QueryRequest>>,
) -> ApiResult<Queries> {
    match (one, several) {
        (Some(_), Some(_)) => Err(ApiError::bad_request(
            "the request has query and queries; specify one of them",
        )
        .at("queries")),
        (one, None) => Ok(Queries::One(Box::new(one.unwrap_or_default()))),
        (None, Some(all)) if all.is_empty() => {
            Err(ApiError::bad_request("no queries are given").at("queries"))
        }
        (None, Some(all)) if all.len() > MAX_QUERIES => {
            Err(ApiError::bad_request(format!(
                "{} queries at once; at most {MAX_QUERIES}, send several requests",
                all.len()
            ))
            .at("queries"))
        }
        (None, Some(all)) => Ok(Queries::Several(all)),
    }
}

/// One query, or several.
pub(super) enum Queries {
    One(Box<QueryRequest>),
    Several(Vec<QueryRequest>),
}

/// Answers all queries of a request: one result, or a list of them.
pub(super) async fn answer_all(
    app: Arc<App>,
    plan: Arc<Plan>,
    queries: Queries,
) -> ApiResult<Response> {
    let all = match queries {
        Queries::One(query) => {
            let result = answer(Arc::clone(&app), plan, *query).await?;
            return body::response(&app, result);
        }
        Queries::Several(all) => all,
    };
    let count = all.len();
    let room = Arc::new(Semaphore::new(TOGETHER));
    // Dropped with the request, it ends all of them.
    let mut tasks = JoinSet::new();
    for (nth, query) in all.into_iter().enumerate() {
        let context = RequestContext::current();
        let (app, plan, room) = (Arc::clone(&app), Arc::clone(&plan), Arc::clone(&room));
        let work = async move {
            let _turn = room.acquire_owned().await.map_err(ApiError::internal)?;
            let result = answer(Arc::clone(&app), plan, query).await?;
            app.limits.memory.keep_all(&RequestContext::current(), result.len())?;
            Ok::<_, ApiError>(result)
        };
        tasks.spawn(context.scope(async move { (nth, work.await) }));
    }
    let mut results: Vec<ApiResult<Vec<u8>>> = Vec::new();
    results.resize_with(count, || Err(ApiError::cancelled()));
    while let Some(done) = tasks.join_next().await {
        let (nth, result) = done.map_err(ApiError::internal)?;
        results[nth] = result;
    }
    let mut parts = Vec::with_capacity(count);
    for (nth, result) in results.into_iter().enumerate() {
        parts.push(result.map_err(|err| err.of_query(nth))?);
    }
    let bytes = parts.iter().map(Vec::len).sum();
    let size = body::size(bytes);
    let worker = Arc::clone(&app);
    let join = move |_: &Cancel| {
        let mut whole = Vec::with_capacity(bytes + parts.len() + 16);
        whole.extend_from_slice(b"{\"results\":[");
        for (nth, part) in parts.iter().enumerate() {
            if nth > 0 {
                whole.push(b',');
            }
            whole.extend_from_slice(part);
        }
        whole.extend_from_slice(b"]}");
        body::response(&worker, whole)
    };
    app.workers.run(size, join).await
}
