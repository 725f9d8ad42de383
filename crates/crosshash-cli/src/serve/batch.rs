//! Several queries in one search request: they are answered together, each as if it were alone.

use std::sync::Arc;

use serde::Serialize;

use super::context::RequestContext;
use super::error::{ApiError, ApiResult};
use super::query::QueryRequest;
use super::search::{Plan, SearchResponse, answer};
use super::state::App;

/// The most queries of a request.
const MAX_QUERIES: usize = 100;

/// The response: one result, or one per query.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Results {
    One(Box<SearchResponse>),
    Several { results: Vec<SearchResponse> },
}

impl Results {
    /// Number of hits of all queries.
    pub(super) fn hits(&self) -> usize {
        match self {
            Results::One(one) => one.hits(),
            Results::Several { results } => results.iter().map(SearchResponse::hits).sum(),
        }
    }
}

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

/// Answers all queries of a request at the same time.
pub(super) async fn answer_all(
    app: Arc<App>,
    plan: Arc<Plan>,
    queries: Queries,
) -> ApiResult<Results> {
    let all = match queries {
        Queries::One(query) => {
            return Ok(Results::One(Box::new(answer(app, plan, *query).await?)));
        }
        Queries::Several(all) => all,
    };
    let tasks: Vec<_> = all
        .into_iter()
        .map(|query| {
            let context = RequestContext::current();
            tokio::spawn(context.scope(answer(Arc::clone(&app), Arc::clone(&plan), query)))
        })
        .collect();
    let mut results = Vec::with_capacity(tasks.len());
    for (nth, task) in tasks.into_iter().enumerate() {
        let result = task.await.map_err(ApiError::internal)?;
        results.push(result.map_err(|err| err.of_query(nth))?);
    }
    Ok(Results::Several { results })
}
