//! `POST /v1/search`: the items of a modality nearest to a query.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Request, State};
use crosshash_codes::index::{ItemSet, Query};
use crosshash_codes::segments::{Found, Ranking, Snapshot};
use crosshash_codes::{Codes, live};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::batch::{self, Results};
use super::counts::{self, CountsView};
use super::error::{ApiError, ApiResult};
use super::fields::ModalityFields;
use super::item_view::{ItemView, to_hex};
use super::items::picture_path;
use super::modality_index::ModalityIndex;
use super::query::{Centre, QueryRequest, ResolvedQuery, index};
use super::run::ServedModel;
use super::state::App;
use super::timings::{Timings, micros};
use super::{body, rank};

/// Default number of results per response.
const DEFAULT_K: usize = 24;
/// The largest `skip`.
const MAX_SKIP: usize = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchRequest {
    model: Option<String>,
    query: Option<QueryRequest>,
    /// Several queries, instead of one.
    queries: Option<Vec<QueryRequest>>,
    target: Option<String>,
    k: Option<usize>,
    #[serde(default)]
    skip: usize,
    radius: Option<u32>,
    filter: Option<String>,
    /// The score that orders the hits.
    rank: Option<String>,
    #[serde(default)]
    explain: Option<bool>,
    /// Whether labels and fields of the matching items are counted.
    #[serde(default)]
    counts: bool,
}

#[derive(Serialize)]
pub(crate) struct SearchResponse {
    model: String,
    generation: u64,
    target: String,
    query: QueryInfo,
    rank: &'static str,
    hits: Vec<Hit>,
    searched: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<CountsView>,
    timings_us: Timings,
}

/// The encoded query.
#[derive(Serialize)]
struct QueryInfo {
    modality: Option<String>,
    code: String,
    bits: usize,
    centres: Vec<Centre>,
    labels: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Hit {
    id: String,
    item: u32,
    distance: u32,
    score: f32,
    code: String,
    labels: Vec<String>,
    shared: Vec<String>,
    text: Option<String>,
    picture: Option<String>,
    meta: Map<String, Value>,
}

/// What all queries of a request have in common.
pub(super) struct Plan {
    started: Instant,
    /// Microseconds to read the request.
    decoded: u64,
    model: Arc<ServedModel>,
    target: Arc<ModalityIndex>,
    page: Page,
    filter: Option<String>,
    rank: Option<String>,
    explain: bool,
    counts: bool,
}

pub(crate) async fn post(
    State(app): State<Arc<App>>,
    request: Request,
) -> ApiResult<Json<Results>> {
    let started = Instant::now();
    let request = read(&app, request).await?;
    let decoded = micros(started);
    let model = app.model(request.model.as_deref())?;
    let page = request.page(&app, &model)?;
    let SearchRequest { query, queries, target, filter, rank, explain, counts, .. } =
        request;
    let queries = batch::queries(query, queries)?;
    let target = target_index(&model, target.as_deref())?;
    let plan = Plan {
        started,
        decoded,
        model,
        target,
        page,
        filter: filter.filter(|text| !text.trim().is_empty()),
        rank,
        explain: explain.unwrap_or(true),
        counts,
    };
    Ok(Json(batch::answer_all(app, Arc::new(plan), queries).await?))
}

/// Answers one query.
pub(super) async fn answer(
    app: Arc<App>,
    plan: Arc<Plan>,
    query: QueryRequest,
) -> ApiResult<SearchResponse> {
    let (model, target) = (&plan.model, &plan.target);
    let mut query = query.resolve(&app, model).await?;
    let searching = Instant::now();
    let ranking = rank::ranking(plan.rank.as_deref(), &target.snapshot(), &query)?;
    let reals = rank::reals(model.bits, &query);
    let code = query.code.clone();
    let found = if plan.filter.is_none() {
        let Page { k, skip, radius } = plan.page;
        let request = live::SearchRequest { k, skip, radius, ranking: Some(ranking) };
        let (snapshot, hits) = target.search(code.clone(), reals, request).await?;
        let counts = if plan.counts {
            let (plan, snapshot) = (Arc::clone(&plan), Arc::clone(&snapshot));
            let work = move || plan.count(&snapshot, None, &code);
            Some(app.workers.run(work).await??)
        } else {
            None
        };
        Outcome { snapshot, hits, counts }
    } else {
        let worker = Arc::clone(&plan);
        app.workers.run(move || worker.filtered(code, &reals, ranking)).await??
    };
    let Outcome { snapshot, hits, counts } = found;
    query.timings.search = micros(searching);
    query.timings.decode += plan.decoded;
    let explained = if plan.explain { query.explaining_labels() } else { Vec::new() };
    let searched = snapshot.len();
    let hit = |found: Found| -> ApiResult<Hit> {
        let (id, item) = (found.id.to_string(), found.hit.item);
        let view = ItemView::new(model, &target.modality, &snapshot, item, &id)?;
        let ItemView { code, labels, text, meta, has_picture } = view;
        let shared = labels.iter().filter(|l| explained.contains(l)).cloned().collect();
        let picture = has_picture.then(|| picture_path(&model.name, &target.modality, &id));
        let (distance, score) = (found.hit.distance, found.score.unwrap_or(0.0));
        Ok(Hit { id, item, distance, score, code, labels, shared, text, picture, meta })
    };
    let hits = hits.into_iter().map(hit).collect::<ApiResult<Vec<Hit>>>()?;
    let ResolvedQuery { modality, code, labels, centres, mut timings, .. } = query;
    timings.total = micros(plan.started);
    let code = to_hex(model.bits, &code);
    let query = QueryInfo { modality, code, bits: model.bits.get(), centres, labels };
    Ok(SearchResponse {
        model: model.name.clone(),
        generation: model.number,
        target: target.modality.clone(),
        query,
        rank: ranking.rank.name(),
        hits,
        searched,
        counts,
        timings_us: timings,
    })
}

/// What a search finds.
struct Outcome {
    snapshot: Arc<Snapshot>,
    hits: Vec<Found>,
    counts: Option<CountsView>,
}

impl Plan {
    /// Searches the items that match the filter.
    fn filtered(
        &self,
        code: Vec<u64>,
        reals: &[f32],
        ranking: Ranking,
    ) -> ApiResult<Outcome> {
        let snapshot = self.target.snapshot();
        let fields = ModalityFields { model: &self.model, modality: &self.target.modality };
        let allowed = snapshot.filter_with(self.filter.as_deref().unwrap_or(""), &fields);
        let allowed =
            allowed.map_err(|err| ApiError::bad_request(err.to_string()).at("filter"))?;
        let Page { k, skip, radius } = self.page;
        let query = Query { k, skip, radius, allowed: Some(&allowed) };
        let codes = Codes::from_words(self.model.bits, code).map_err(ApiError::internal)?;
        let found = snapshot.search_ranked(&codes, reals, ranking, &query, &|_| ());
        let hits =
            found.map_err(ApiError::internal)?.into_iter().next().unwrap_or_default();
        let counts = self
            .counts
            .then(|| self.count(&snapshot, Some(&allowed), codes.words()))
            .transpose()?;
        Ok(Outcome { snapshot, hits, counts })
    }

    /// Counts labels and fields among the items that pass filter and radius.
    fn count(
        &self,
        snapshot: &Snapshot,
        allowed: Option<&ItemSet>,
        code: &[u64],
    ) -> ApiResult<CountsView> {
        let within = self.page.radius.map(|radius| (code, radius));
        counts::count(&self.model, &self.target.modality, snapshot, allowed, within)
    }
}

/// Reads a request: JSON, or a form with a picture.
async fn read(app: &App, request: Request) -> ApiResult<SearchRequest> {
    if !body::is(request.headers(), "multipart/form-data") {
        return body::json(app, request).await;
    }
    let (json, picture) = body::form(app, request).await?;
    let mut request: SearchRequest = body::parse(json.as_deref().unwrap_or(b"{}"))?;
    request.query.get_or_insert_default().upload = Some(picture);
    Ok(request)
}

impl SearchRequest {
    /// The checked page of the results.
    fn page(&self, app: &App, model: &ServedModel) -> ApiResult<Page> {
        let limit = app.limits.k;
        let k = self.k.unwrap_or(DEFAULT_K);
        if k > limit {
            return Err(ApiError::bad_request(format!(
                "{k} results requested; the limit is {limit}, use skip for the next page"
            ))
            .at("k"));
        }
        let bits = u32::try_from(model.bits.get()).unwrap_or(u32::MAX);
        if self.radius.is_some_and(|radius| radius > bits) {
            return Err(ApiError::bad_request(format!(
                "the radius can be at most {bits}, the number of bits"
            ))
            .at("radius"));
        }
        if self.skip > MAX_SKIP {
            return Err(ApiError::bad_request(
                "skip can be at most 1,000,000; use a smaller radius",
            )
            .at("skip"));
        }
        Ok(Page { k, skip: self.skip, radius: self.radius })
    }
}

impl ResolvedQuery {
    /// The labels that explain a result: those of the query, or else of its nearest centres.
    fn explaining_labels(&self) -> Vec<String> {
        match &self.labels {
            Some(labels) if !labels.is_empty() => labels.clone(),
            _ => self.centres.iter().map(|centre| centre.label.clone()).collect(),
        }
    }
}

/// The index to search; the target can be omitted if there is only one modality.
fn target_index(
    model: &ServedModel,
    target: Option<&str>,
) -> ApiResult<Arc<ModalityIndex>> {
    match (target, &model.indexes[..]) {
        (None, [one]) => Ok(Arc::clone(one)),
        (Some(target), _) => Ok(Arc::clone(index(model, target, "target")?)),
        (None, all) => {
            let known: Vec<&str> = all.iter().map(|s| s.modality.as_str()).collect();
            let known = known.join(", ");
            Err(ApiError::bad_request(format!("specify the modality to search: {known}"))
                .at("target"))
        }
    }
}

/// A page of the results.
#[derive(Clone, Copy)]
struct Page {
    k: usize,
    skip: usize,
    radius: Option<u32>,
}
