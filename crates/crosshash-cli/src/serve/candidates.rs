//! The hits of a query by meaning: of the live index of a modality, or of its store. Both give the same hits;
//! what follows (words, texts, labels, pages of the response) does not depend on where they are from.

use std::sync::Arc;

use crosshash_codes::index::{ItemSet, Query};
use crosshash_codes::live::{SearchReply, SearchRequest};
use crosshash_codes::segments::{Found, RankedHits, Ranking, Snapshot};
use crosshash_codes::{Cancel, Codes};

use super::counts::{self, CountsView};
use super::error::{ApiError, ApiResult};
use super::fair::{MANY_RESULTS, Size};
use super::fields::ModalityFields;
use super::modality_index::ModalityIndex;
use super::search::{Page, Plan};
use super::served_items::{ItemReader, ServedItems};
use super::state::App;
use super::store_items::{StoreItems, StoreReply, StoreSearch};

/// What a search by meaning needs.
pub(super) struct Wanted {
    pub(super) code: Vec<u64>,
    /// The real outputs of the query, or its signs.
    pub(super) reals: Vec<f32>,
    /// None if there are no hits by meaning.
    pub(super) ranking: Option<Ranking>,
    pub(super) page: Page,
}

/// What it finds.
pub(super) struct Outcome {
    pub(super) items: ItemReader,
    pub(super) hits: Vec<Found>,
    /// The distance of the nearest item.
    pub(super) nearest: Option<u32>,
    /// The items that match the filter, if there is one.
    pub(super) allowed: Option<Arc<ItemSet>>,
    pub(super) counts: Option<CountsView>,
}

/// Finds the hits of a query.
pub(super) async fn find(
    app: &App,
    plan: &Arc<Plan>,
    wanted: Wanted,
) -> ApiResult<Outcome> {
    match &plan.target {
        ServedItems::Store(store) => in_store(store, plan, wanted).await,
        ServedItems::Index(index) => in_index(app, plan, index, wanted).await,
    }
}

async fn in_store(store: &StoreItems, plan: &Plan, wanted: Wanted) -> ApiResult<Outcome> {
    let Wanted { code, reals, ranking, page: Page { k, skip, radius } } = wanted;
    let ranking =
        ranking.ok_or_else(|| ApiError::internal("a store is searched by words"))?;
    let filter = plan.filter.clone();
    let search = StoreSearch { code, reals, ranking, k, skip, radius, filter };
    let StoreReply { rows, hits, nearest } = store.search(search).await?;
    let items = ItemReader::Rows(rows);
    Ok(Outcome { items, hits, nearest, allowed: None, counts: None })
}

async fn in_index(
    app: &App,
    plan: &Arc<Plan>,
    index: &Arc<ModalityIndex>,
    wanted: Wanted,
) -> ApiResult<Outcome> {
    let asked = plan.page.k.saturating_add(plan.page.skip);
    if let (Some(ranking), None) = (wanted.ranking, &plan.filter) {
        let Wanted { code, reals, page: Page { k, skip, radius }, .. } = wanted;
        let request = SearchRequest { k, skip, radius, ranking: Some(ranking) };
        let turn = app.workers.search_turn(asked).await?;
        let found = index.search(code.clone(), reals, request).await?;
        drop(turn);
        let SearchReply { snapshot, hits, nearest } = found;
        let mut counts = None;
        if plan.counts {
            let (worker, own) = (Arc::clone(plan), Arc::clone(&snapshot));
            let work = move |_: &Cancel| worker.count(&own, None, &code);
            counts = Some(app.workers.run(Size::Long, work).await?);
        }
        let items = ItemReader::Snapshot(snapshot);
        return Ok(Outcome { items, hits, nearest, allowed: None, counts });
    }
    let (snapshot, allowed) = plan.narrow(app, index).await?;
    let worker = Arc::clone(plan);
    let work = move |_: &Cancel| worker.narrowed(snapshot, allowed, wanted);
    let is_long = plan.counts || asked > MANY_RESULTS;
    let size = if is_long { Size::Long } else { Size::Short };
    app.workers.run(size, work).await
}

impl Plan {
    /// The snapshot to search, and the items that match the filter, if there is one.
    async fn narrow(
        self: &Arc<Plan>,
        app: &App,
        index: &Arc<ModalityIndex>,
    ) -> ApiResult<(Arc<Snapshot>, Option<Arc<ItemSet>>)> {
        let Some(filter) = self.filter.clone() else {
            return Ok((index.snapshot(), None));
        };
        let (plan, index) = (Arc::clone(self), Arc::clone(index));
        let work = move |cancel: &Cancel| {
            let snapshot = index.snapshot();
            let fields = ModalityFields::of(&plan.model, &index.modality);
            let set = snapshot.filter_with(&filter, &fields, cancel);
            let set = set.map_err(|err| match err {
                crosshash_codes::Error::Cancelled => ApiError::cancelled(),
                err => ApiError::bad_request(err.to_string()).at("filter"),
            })?;
            Ok((snapshot, Arc::new(set)))
        };
        let work = || app.workers.run(Size::Long, work);
        let evaluated = self.allowed.get_or_try_init(work).await;
        let (snapshot, allowed) = evaluated?;
        Ok((Arc::clone(snapshot), Some(Arc::clone(allowed))))
    }

    /// Searches the items that match the filter, if there is one, and counts labels and fields. Without a
    /// ranking, there are no hits by meaning.
    fn narrowed(
        &self,
        snapshot: Arc<Snapshot>,
        allowed: Option<Arc<ItemSet>>,
        wanted: Wanted,
    ) -> ApiResult<Outcome> {
        let Wanted { code, reals, ranking, page: Page { k, skip, radius } } = wanted;
        let mut found = RankedHits { hits: Vec::new(), nearest: None };
        if let Some(ranking) = ranking {
            let query =
                Query { skip, radius, allowed: allowed.as_deref(), ..Query::nearest(k) };
            let codes = Codes::from_words(self.model.bits, code.clone());
            let codes = codes.map_err(ApiError::internal)?;
            let all = snapshot.search_ranked_hits(&codes, &reals, ranking, &query, &|_| ());
            found = all.map_err(ApiError::internal)?.into_iter().next().unwrap_or(found);
        }
        let RankedHits { hits, nearest } = found;
        let counts = self
            .counts
            .then(|| self.count(&snapshot, allowed.as_deref(), &code))
            .transpose()?;
        let items = ItemReader::Snapshot(snapshot);
        Ok(Outcome { items, hits, nearest, allowed, counts })
    }

    /// Counts labels and fields among the items that pass filter and radius.
    fn count(
        &self,
        snapshot: &Snapshot,
        allowed: Option<&ItemSet>,
        code: &[u64],
    ) -> ApiResult<CountsView> {
        let within = self.page.radius.map(|radius| (code, radius));
        counts::count(&self.model, self.target.modality(), snapshot, allowed, within)
    }
}
