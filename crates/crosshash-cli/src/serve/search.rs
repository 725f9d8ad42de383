//! `POST /v1/search`: the items of a modality nearest to a query.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Request, State};
use crosshash_codes::index::{ItemSet, Query};
use crosshash_codes::live::SearchReply;
use crosshash_codes::segments::Snapshot;
use crosshash_codes::{Bits, Codes};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::body;
use super::error::{ApiError, ApiResult};
use super::item_view::{ItemView, to_hex};
use super::items::picture_path;
use super::modality_index::ModalityIndex;
use super::notice::{Notice, WordsView, notice};
use super::query::{Centre, QueryRequest, ResolvedQuery, index};
use super::run::ServedModel;
use super::state::App;
use super::timings::{Timings, micros};
use super::word_search::{WordMarks, SnippetView, known_words, word_query};
use crate::word_ranking::{By, Ranked, RankedPage};

/// Default number of results per response.
const DEFAULT_K: usize = 24;
/// The largest `skip`.
const MAX_SKIP: usize = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchRequest {
    model: Option<String>,
    #[serde(default)]
    query: QueryRequest,
    target: Option<String>,
    k: Option<usize>,
    #[serde(default)]
    skip: usize,
    radius: Option<u32>,
    filter: Option<String>,
    by: Option<By>,
    #[serde(default)]
    explain: Option<bool>,
}

#[derive(Serialize)]
pub(crate) struct SearchResponse {
    model: String,
    generation: u64,
    target: String,
    query: QueryInfo,
    by: By,
    hits: Vec<Hit>,
    searched: usize,
    /// Number of items with all words of the query, and with at least one of them.
    matching: Option<usize>,
    matching_some: Option<usize>,
    notice: Option<Notice>,
    timings_us: Timings,
}

/// The encoded query.
#[derive(Serialize)]
struct QueryInfo {
    modality: Option<String>,
    code: Option<String>,
    bits: usize,
    centres: Vec<Centre>,
    labels: Option<Vec<String>>,
    words: Option<WordsView>,
}

#[derive(Serialize)]
struct Hit {
    id: String,
    item: u32,
    distance: Option<u32>,
    code: String,
    labels: Vec<String>,
    shared: Vec<String>,
    text: Option<String>,
    picture: Option<String>,
    meta: Map<String, Value>,
    reason: Vec<&'static str>,
    highlights: Vec<[usize; 2]>,
    snippet: Option<SnippetView>,
    weak: bool,
}

pub(crate) async fn post(
    State(app): State<Arc<App>>,
    request: Request,
) -> ApiResult<Json<SearchResponse>> {
    let started = Instant::now();
    let request = read(&app, request).await?;
    let decoded = micros(started);
    let model = app.model(request.model.as_deref())?;
    let page = request.page(&app, &model)?;
    let SearchRequest { query, target, filter, explain, by, .. } = request;
    let target = target_index(&model, target.as_deref())?;
    let words = word_query(by, query.text()?, &target, (page.k, page.skip, page.radius))?;
    let by = words.by;
    let mut query = match by {
        By::Words => ResolvedQuery::of_words(),
        By::Meaning | By::Both => query.resolve(&app, &model).await?,
    };
    let known = known_words(&words, &model, query.modality.as_deref());
    let searching = Instant::now();
    let code = query.code.clone();
    let filter = filter.filter(|text| !text.trim().is_empty());
    let (k, skip) = words.by_meaning();
    let (snapshot, hits) = match &filter {
        _ if by == By::Words => (target.snapshot(), Vec::new()),
        None => target.search(code.clone(), k, skip, page.radius).await?,
        Some(filter) => {
            let (bits, snapshot) = (model.bits, target.snapshot());
            let (filter, code) = (filter.clone(), code.clone());
            let page = Page { k, skip, ..page };
            let work = move || filtered(snapshot, bits, code, &filter, page);
            app.workers.run(work).await??
        }
    };
    let nearest = hits.first().map(|found| found.hit.distance);
    let RankedPage { hits, matching, terms } = match by {
        By::Meaning => {
            words.rank(None, &snapshot, &code, None, hits).map_err(ApiError::internal)?
        }
        By::Words | By::Both => {
            let (target, snapshot) = (Arc::clone(&target), Arc::clone(&snapshot));
            let work = move || {
                let allowed =
                    filter.map(|filter| allowed(&snapshot, &filter)).transpose()?;
                let keywords = target.words().map(|words| &words.keywords);
                let page = words.rank(keywords, &snapshot, &code, allowed.as_ref(), hits);
                page.map_err(ApiError::internal)
            };
            app.workers.run(work).await??
        }
    };
    query.timings.search = micros(searching);
    query.timings.decode += decoded;
    let explained =
        if explain.unwrap_or(true) { query.explaining_labels() } else { Vec::new() };
    let searched = snapshot.len();
    let weak_from = model.weak_from(query.modality.as_deref(), &target.modality);
    let is_first = page.skip == 0 || by == By::Both;
    let is_weak = is_first && nearest.zip(weak_from).is_some_and(|(d, from)| d >= from);
    let hit = |ranked: Ranked| -> ApiResult<Hit> {
        let reason = ranked.reasons(weak_from);
        let weak = is_weak && ranked.tier.is_none() && !ranked.exact;
        let Ranked { found, distance, .. } = ranked;
        let (id, item) = (found.id.to_string(), found.hit.item);
        let view = ItemView::new(&model, &target.modality, &snapshot, item, &id)?;
        let ItemView { code, labels, text, meta, has_picture } = view;
        let shared = labels.iter().filter(|l| explained.contains(l)).cloned().collect();
        let picture = has_picture.then(|| picture_path(&model.name, &target.modality, &id));
        let WordMarks { highlights, snippet } = WordMarks::new(&target, &terms, text.as_deref());
        Ok(Hit {
            id,
            item,
            distance,
            code,
            labels,
            shared,
            text,
            picture,
            meta,
            reason,
            highlights,
            snippet,
            weak,
        })
    };
    let hits = hits.into_iter().map(hit).collect::<ApiResult<Vec<Hit>>>()?;
    let ResolvedQuery { modality, code, labels, centres, mut timings, .. } = query;
    timings.total = micros(started);
    let code = (!code.is_empty()).then(|| to_hex(model.bits, &code));
    let notice = notice(known.as_ref(), is_weak, by, matching);
    let (bits, words) = (model.bits.get(), known.map(WordsView::new));
    let query = QueryInfo { modality, code, bits, centres, labels, words };
    Ok(Json(SearchResponse {
        model: model.name.clone(),
        generation: model.number,
        target: target.modality.clone(),
        query,
        by,
        hits,
        searched,
        matching: matching.map(|matching| matching.0),
        matching_some: matching.map(|matching| matching.1),
        notice,
        timings_us: timings,
    }))
}

/// Reads a request: JSON, or a form with a picture.
async fn read(app: &App, request: Request) -> ApiResult<SearchRequest> {
    if !body::is(request.headers(), "multipart/form-data") {
        return body::json(app, request).await;
    }
    let (json, picture) = body::form(app, request).await?;
    let mut request: SearchRequest = body::parse(json.as_deref().unwrap_or(b"{}"))?;
    request.query.upload = Some(picture);
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

/// Searches the items that match a filter.
fn filtered(
    snapshot: Arc<Snapshot>,
    bits: Bits,
    code: Vec<u64>,
    filter: &str,
    page: Page,
) -> ApiResult<SearchReply> {
    let allowed = allowed(&snapshot, filter)?;
    let query =
        Query { k: page.k, skip: page.skip, radius: page.radius, allowed: Some(&allowed) };
    let codes = Codes::from_words(bits, code).map_err(ApiError::internal)?;
    let found = snapshot.search(&codes, &query, &|_| ()).map_err(ApiError::internal)?;
    Ok((snapshot, found.into_iter().next().unwrap_or_default()))
}

/// The items that match a filter.
fn allowed(snapshot: &Snapshot, filter: &str) -> ApiResult<ItemSet> {
    let allowed = snapshot.filter(filter);
    allowed.map_err(|err| ApiError::bad_request(err.to_string()).at("filter"))
}
