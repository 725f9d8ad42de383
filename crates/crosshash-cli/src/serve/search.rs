//! `POST /v1/search`: the items of a modality nearest to a query.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::response::Response;
use crosshash_codes::Cancel;
use crosshash_codes::index::ItemSet;
use crosshash_codes::segments::{Ranking, Snapshot};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use super::batch;
use super::candidates::{self, Outcome, Wanted};
use super::counts::CountsView;
use super::error::{ApiError, ApiResult};
use super::fair::{MANY_RESULTS, Size};
use super::item_view::{ItemView, to_hex};
use super::items::picture_path;
use super::notice::{Notice, WordsView, notice};
use super::query::{Centre, QueryRequest, ResolvedQuery, items_of};
use super::run::ServedModel;
use super::served_items::ServedItems;
use super::state::App;
use super::timings::{Timings, micros};
use super::word_search::{SnippetView, WordMarks, known_words, word_query};
use super::{body, rank};
use crate::word_ranking::{By, Ranked, RankedPage, WordQuery};

/// Default number of results per response.
const DEFAULT_K: usize = 24;
/// Up to this many results are written at once, if they are not explained by words.
const LIGHT: usize = 100;
/// The most bytes of texts and fields of the results of a query.
const MAX_CONTENT: usize = 16 << 20;
/// The largest `skip`.
const MAX_SKIP: usize = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchRequest {
    #[serde(default, deserialize_with = "body::given")]
    model: Option<String>,
    #[serde(default, deserialize_with = "body::given")]
    query: Option<QueryRequest>,
    /// Several queries, instead of one.
    #[serde(default, deserialize_with = "body::given_list")]
    queries: Option<Vec<QueryRequest>>,
    #[serde(default, deserialize_with = "body::given")]
    target: Option<String>,
    #[serde(default, deserialize_with = "body::given")]
    k: Option<usize>,
    #[serde(default)]
    skip: usize,
    radius: Option<u32>,
    filter: Option<String>,
    /// What the hits are ranked by.
    #[serde(default, deserialize_with = "body::given")]
    by: Option<By>,
    /// The score that orders the hits by meaning.
    rank: Option<String>,
    #[serde(default)]
    explain: Option<bool>,
    /// Whether labels and fields of the matching items are counted.
    #[serde(default)]
    counts: bool,
}

#[derive(Serialize)]
struct SearchResponse {
    model: String,
    generation: u64,
    target: String,
    query: QueryInfo,
    by: By,
    /// The score that orders hits by meaning; none for a search by words alone.
    rank: Option<&'static str>,
    hits: Vec<Hit>,
    searched: usize,
    /// Number of items with all words of the query, and with at least one of them.
    matching: Option<usize>,
    matching_some: Option<usize>,
    notice: Option<Notice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<CountsView>,
    timings_us: Timings,
}

/// The encoded query.
#[derive(Serialize)]
struct QueryInfo {
    modality: Option<String>,
    code: Option<String>,
    bits: usize,
    /// Its real outputs, rounded; sent again with the code, they give the same results.
    outputs: Option<Vec<i8>>,
    centres: Vec<Centre>,
    labels: Option<Vec<String>>,
    words: Option<WordsView>,
}

#[derive(Serialize)]
struct Hit {
    id: String,
    item: u64,
    distance: Option<u32>,
    score: Option<f32>,
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

/// What all queries of a request have in common.
pub(super) struct Plan {
    started: Instant,
    /// Microseconds to read the request.
    decoded: u64,
    pub(super) model: Arc<ServedModel>,
    pub(super) target: ServedItems,
    pub(super) page: Page,
    pub(super) filter: Option<String>,
    /// The items that match the filter; evaluated once.
    pub(super) allowed: OnceCell<(Arc<Snapshot>, Arc<ItemSet>)>,
    by: Option<By>,
    rank: Option<String>,
    explain: bool,
    pub(super) counts: bool,
}

pub(crate) async fn post(
    State(app): State<Arc<App>>,
    request: Request,
) -> ApiResult<Response> {
    let started = Instant::now();
    let request = read(&app, request).await?;
    let decoded = micros(started);
    let model = app.model(request.model.as_deref())?;
    let page = request.page(&app, &model)?;
    let SearchRequest { query, queries, target, filter, by, rank, explain, counts, .. } =
        request;
    let queries = batch::queries(query, queries)?;
    let target = target_items(&model, target.as_deref())?;
    if counts && target.index().is_none() {
        return Err(ApiError::not_in_store(format!(
            "labels and fields of the items of {} are not counted, because they are in a store: omit \
             counts, or count them in the database",
            target.modality()
        ))
        .at("counts"));
    }
    let plan = Plan {
        started,
        decoded,
        model,
        target,
        page,
        filter: filter.filter(|text| !text.trim().is_empty()),
        allowed: OnceCell::new(),
        by,
        rank,
        explain: explain.unwrap_or(true),
        counts,
    };
    batch::answer_all(app, Arc::new(plan), queries).await
}

/// Answers one query: the result as JSON. It is written at once, so that results do not wait as objects,
/// which take much more memory.
pub(super) async fn answer(
    app: Arc<App>,
    plan: Arc<Plan>,
    query: QueryRequest,
) -> ApiResult<Vec<u8>> {
    let (model, target) = (&plan.model, &plan.target);
    let Page { k, skip, radius } = plan.page;
    let words = word_query(plan.by, query.text()?, target, (k, skip, radius))?;
    let query = match words.by {
        By::Words => ResolvedQuery::of_words(),
        By::Meaning | By::Both => query.resolve(&app, model).await?,
    };
    let searching = Instant::now();
    let ranking = match words.by {
        By::Words => None,
        By::Meaning | By::Both => {
            Some(rank::ranking(plan.rank.as_deref(), target.has_outputs(), &query)?)
        }
    };
    let (k, skip) = words.by_meaning();
    let outputs = rank::query_outputs(model.bits, &query);
    let wanted = Wanted {
        code: query.code.clone(),
        reals: rank::reals(model.bits, &query.code, outputs.as_deref()),
        ranking,
        page: Page { k, skip, radius },
    };
    let found = candidates::find(&app, &plan, wanted).await?;
    let worker = Arc::clone(&plan);
    let size = match plan.page.k {
        k if k > MANY_RESULTS => Size::Long,
        k if k <= LIGHT && words.text.is_empty() => Size::Light,
        _ => Size::Short,
    };
    let work = move |cancel: &Cancel| {
        body::to_bytes(&worker.respond(
            (query, outputs),
            &words,
            ranking,
            found,
            searching,
            cancel,
        )?)
    };
    app.workers.run(size, work).await
}

impl Plan {
    /// The response: the page of the hits with their content.
    fn respond(
        &self,
        (mut query, outputs): (ResolvedQuery, Option<Vec<i8>>),
        words: &WordQuery,
        ranking: Option<Ranking>,
        found: Outcome,
        searching: Instant,
        cancel: &Cancel,
    ) -> ApiResult<SearchResponse> {
        let (model, target, by) = (&self.model, &self.target, words.by);
        let Outcome { items, hits, nearest, allowed, counts } = found;
        let index = target.index().map(|index| &**index);
        let live = index.zip(items.snapshot().map(|snapshot| &**snapshot));
        let known = known_words(words, model, query.modality.as_deref(), live);
        let page = match live {
            Some((index, snapshot)) if by != By::Meaning => {
                let keywords = index.words().map(|words| &words.keywords);
                words.rank(keywords, snapshot, &query.code, allowed.as_deref(), hits)
            }
            _ => Ok(words.by_meaning_alone(hits)),
        };
        let RankedPage { hits, matching, terms } = page.map_err(ApiError::internal)?;
        query.timings.search = micros(searching);
        query.timings.decode += self.decoded;
        let explained = if self.explain { query.explaining_labels() } else { Vec::new() };
        let searched = items.searched();
        // If the model knows no word, no item is close in meaning.
        let is_unknown = known.as_ref().is_some_and(|words| words.known.is_empty());
        let weak_from = if is_unknown {
            Some(0)
        } else {
            model.weak_from(query.modality.as_deref(), target.modality())
        };
        let is_weak = nearest.zip(weak_from).is_some_and(|(d, from)| d >= from);
        let mut bytes = 0;
        let mut hit = |ranked: Ranked| -> ApiResult<Hit> {
            if cancel.is_cancelled() {
                return Err(ApiError::cancelled());
            }
            let reason = ranked.reasons(weak_from);
            let weak = is_weak && ranked.tier.is_none() && !ranked.exact;
            let Ranked { found, distance, .. } = ranked;
            let (id, item) = (found.id.to_string(), found.hit.item);
            let view = items.view(model, target.modality(), item, &id)?;
            bytes += view.bytes;
            if bytes > MAX_CONTENT {
                return Err(ApiError::bad_request(format!(
                    "the texts and fields of the results have more than {MAX_CONTENT} bytes; \
                     request fewer"
                ))
                .at("k"));
            }
            let ItemView { code, labels, text, meta, has_picture, .. } = view;
            let shared = labels.iter().filter(|l| explained.contains(l)).cloned().collect();
            let picture =
                has_picture.then(|| picture_path(&model.name, target.modality(), &id));
            let score = found.score;
            let WordMarks { highlights, snippet } =
                WordMarks::new(index, &terms, text.as_deref());
            Ok(Hit {
                id,
                item: items.number(item)?,
                distance,
                score,
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
        let hits = hits.into_iter().map(&mut hit).collect::<ApiResult<Vec<Hit>>>()?;
        let ResolvedQuery { modality, code, labels, centres, mut timings, .. } = query;
        timings.total = micros(self.started);
        let code = (!code.is_empty()).then(|| to_hex(model.bits, &code));
        let notice = notice(known.as_ref(), is_weak, by, matching);
        let (bits, words) = (model.bits.get(), known.map(WordsView::new));
        let outputs = outputs.filter(|_| self.explain);
        let query = QueryInfo { modality, code, bits, outputs, centres, labels, words };
        Ok(SearchResponse {
            model: model.name.clone(),
            generation: model.number,
            target: target.modality().to_owned(),
            query,
            by,
            rank: ranking.map(|ranking| ranking.rank.name()),
            hits,
            searched,
            matching: matching.map(|matching| matching.0),
            matching_some: matching.map(|matching| matching.1),
            notice,
            counts,
            timings_us: timings,
        })
    }
}

/// Reads a request: JSON, or a form with a picture.
async fn read(app: &App, request: Request) -> ApiResult<SearchRequest> {
    if !body::is(request.headers(), "multipart/form-data") {
        return body::json(app, request).await;
    }
    let (json, picture) = body::form(app, request).await?;
    let size = body::size(json.as_ref().map_or(0, Vec::len));
    let parse = move |_: &Cancel| body::parse(json.as_deref().unwrap_or(b"{}"));
    let mut request: SearchRequest = app.workers.run(size, parse).await?;
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

/// The items to search; the target can be omitted if there is only one modality.
fn target_items(model: &ServedModel, target: Option<&str>) -> ApiResult<ServedItems> {
    match (target, &model.items[..]) {
        (None, [one]) => Ok(one.clone()),
        (Some(target), _) => Ok(items_of(model, target, "target")?.clone()),
        (None, all) => {
            let known: Vec<&str> = all.iter().map(ServedItems::modality).collect();
            let known = known.join(", ");
            Err(ApiError::bad_request(format!("specify the modality to search: {known}"))
                .at("target"))
        }
    }
}

/// A page of the results.
#[derive(Clone, Copy)]
pub(super) struct Page {
    pub(super) k: usize,
    pub(super) skip: usize,
    pub(super) radius: Option<u32>,
}
