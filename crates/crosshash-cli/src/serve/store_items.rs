//! `StoreItems`: the items of a modality in a store. Candidates come from the store; scores, order and pages
//! are those of the index (`Ranking`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use crosshash::RunDir;
use crosshash_codes::Bits;
use crosshash_codes::format::{Id, Ids};
use crosshash_codes::index::{Filter, Hit, Query, Rank, Scorer};
use crosshash_codes::segments::{Found, Ranking};

use super::error::{ApiError, ApiResult};
use super::served_items::{ItemReader, StoreRows};
use super::store_pool::StorePool;
use crate::progress::say;
use crate::store::{
    Description, HitColumns, RowKeys, Store, StoreError, StoreQuery, StoreResult, StoreRow,
    StoreUrl, connect, entry, failed, parse_filter,
};

/// Items of the run whose codes are compared with those of the table.
const COMPARED: usize = 64;

/// Stores of a service.
#[derive(Clone, Default)]
pub(crate) struct StoreOptions {
    /// Their addresses, each after `MODALITY=` if the model has several modalities.
    pub(crate) places: Vec<String>,
    /// Connections to each of them.
    pub(crate) connections: usize,
    /// Time limit of a search.
    pub(crate) limit: Duration,
}

/// The items of a modality in a store.
pub(crate) struct StoreItems {
    pub(crate) modality: String,
    pub(crate) pool: StorePool,
}

/// A search of a store.
pub(crate) struct StoreSearch {
    pub(crate) code: Vec<u64>,
    /// The real outputs of the query.
    pub(crate) reals: Vec<f32>,
    pub(crate) ranking: Ranking,
    pub(crate) k: usize,
    pub(crate) skip: usize,
    pub(crate) radius: Option<u32>,
    pub(crate) filter: Option<String>,
}

/// What it finds: hits whose items are rows.
pub(crate) struct StoreReply {
    pub(crate) rows: StoreRows,
    pub(crate) hits: Vec<Found>,
    /// The distance of the nearest item.
    pub(crate) nearest: Option<u32>,
}

impl StoreOptions {
    /// Connects to the stores of a model with these modalities.
    pub(crate) fn open(&self, modalities: &[String]) -> Result<Vec<Arc<StoreItems>>> {
        let mut all: Vec<Arc<StoreItems>> = Vec::new();
        for place in &self.places {
            // A name before the address; a password may contain an =, too.
            let (name, address) = match place.split_once('=') {
                Some((name, address)) if !name.contains("://") => (Some(name), address),
                _ => (None, place.as_str()),
            };
            let known = modalities.join(", ");
            let name = match (name, modalities) {
                (Some(name), _) if modalities.iter().any(|known| known == name) => name,
                (Some(name), _) => {
                    bail!("--store: the run has no modality {name:?}; it has {known}")
                }
                (None, [one]) => one.as_str(),
                (None, _) => bail!(
                    "--store: name the modality whose items the table has: --store NAME=URL, with one \
                     of {known}"
                ),
            };
            if all.iter().any(|items| items.modality == name) {
                bail!("--store: {name} is given twice");
            }
            let url = StoreUrl::parse(address).context("--store")?;
            entry(&url).context("--store")?;
            let pool = StorePool::open(name, url, self.connections, self.limit)?;
            all.push(Arc::new(StoreItems { modality: name.to_owned(), pool }));
        }
        Ok(all)
    }
}

impl StoreItems {
    /// Number of items, as of the last change.
    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.pool.description().items).unwrap_or(usize::MAX)
    }

    /// Refuses a table with codes of another model: compares code lengths, and the codes of items that both
    /// the run and the table have.
    pub(crate) fn check(&self, run: &RunDir, bits: Bits) -> Result<()> {
        let (description, place) = (self.pool.description(), self.pool.place());
        if description.bits != bits.get() {
            bail!(
                "{place}: the table has codes of {} bits, the model of the run {bits}",
                description.bits
            );
        }
        let (file, _) = run.items(&self.modality)?;
        let Some(Ids::Names(ids)) = file.ids else { return Ok(()) };
        let count = ids.len().min(COMPARED);
        let sample: HashMap<&str, &[u64]> = (0..count)
            .map(|nth| nth * ids.len() / count)
            .map(|at| (ids[at].as_str(), file.codes.code(at)))
            .collect();
        let wanted: Vec<String> = sample.keys().map(|&id| id.to_owned()).collect();
        let mut store = connect(self.pool.url()).context(place.to_owned())?;
        let rows = store.read(&description, RowKeys::Ids(&wanted));
        let rows = rows.context(place.to_owned())?;
        // Few others are items that were replaced since the run.
        let is_other = |row: &&StoreRow| sample.get(row.id.as_str()) != Some(&&*row.code);
        let others: Vec<&StoreRow> = rows.iter().filter(is_other).collect();
        if let Some(first) = others.first().filter(|_| others.len() * 2 > rows.len()) {
            bail!(
                "{place}: {} of {} compared items have another code than in the run (for example \
                 {:?}), so the table is of another model; push the items again with `crosshash store \
                 push {} --modality {} URL --replace`",
                others.len(),
                rows.len(),
                first.id,
                run.path().display(),
                self.modality
            );
        }
        if rows.is_empty() {
            say(format!(
                "{place}: none of {count} items of the run is in the table, so it is not known whether \
                 its codes are those of the model"
            ));
        }
        Ok(())
    }

    /// Finds the page of a search.
    pub(crate) async fn search(&self, search: StoreSearch) -> ApiResult<StoreReply> {
        let description = self.pool.description();
        if search.ranking.rank == Rank::Outputs && !description.outputs {
            return Err(ApiError::internal("a store without outputs is ranked by outputs"));
        }
        let filter =
            match search.filter.as_deref() {
                None => None,
                Some(text) => Some(parse_filter(&description, text).map_err(|err| {
                    ApiError::bad_request(format!("{err:#}")).at("filter")
                })?),
            };
        let about = Arc::clone(&description);
        let work =
            move |store: &mut dyn Store| find(store, &about, &search, filter.as_ref());
        let (rows, hits, nearest) = self.pool.run(work).await?;
        Ok(StoreReply { rows: StoreRows { rows, description }, hits, nearest })
    }

    /// The item with this id.
    pub(crate) async fn find(&self, id: &str) -> ApiResult<Option<(ItemReader, u32)>> {
        let (description, ids) = (self.pool.description(), [id.to_owned()]);
        let about = Arc::clone(&description);
        let work = move |store: &mut dyn Store| store.read(&about, RowKeys::Ids(&ids));
        let mut rows = self.pool.run(work).await?;
        // an upsert in ClickHouse shows the old and the new row for a moment
        rows.sort_by_key(|row| std::cmp::Reverse(row.item));
        let is_some = !rows.is_empty();
        let reader = ItemReader::Rows(StoreRows { rows, description });
        Ok(is_some.then_some((reader, 0)))
    }
}

type Page = (Vec<StoreRow>, Vec<Found>, Option<u32>);

/// The page of a search: candidates, scores, order, and the rows of the hits.
fn find(
    store: &mut dyn Store,
    description: &Description,
    search: &StoreSearch,
    filter: Option<&Filter>,
) -> StoreResult<Page> {
    let StoreSearch { code, reals, ranking, k, skip, radius, .. } = search;
    let bits = Bits::new(description.bits).map_err(failed)?;
    let scorer = Scorer::new(ranking.rank, bits, reals).map_err(failed)?;
    let query = Query { skip: *skip, radius: *radius, ..Query::nearest(*k) };
    let stage = |query: Query<'_>, columns: HitColumns| StoreQuery {
        code: code.clone(),
        k: query.k,
        skip: query.skip,
        radius: query.radius,
        filter: filter.cloned(),
        ties: query.ties,
        approximate: false,
        columns,
    };
    let columns = match ranking.rank {
        Rank::Hamming => HitColumns::Ids,
        Rank::Asymmetric => HitColumns::Codes,
        Rank::Outputs => HitColumns::Outputs,
    };
    let mut found =
        store.search(description, &stage(ranking.first_stage(&query), columns))?;
    let near = found.len();
    let nearest = match ranking.nearest(&query) {
        None => found.first().map(|hit| hit.distance),
        Some(one) => {
            let first = store.search(description, &stage(one, HitColumns::Ids))?;
            first.first().map(|hit| hit.distance)
        }
    };
    if let Some(rest) = ranking.behind(&query, near) {
        found.extend(store.search(description, &stage(rest, columns))?);
    }
    // Hits come by distance, then item number: their positions order ties as well.
    let mut scored = Vec::with_capacity(found.len());
    for (hit, at) in found.iter().zip(0_u32..) {
        let score = scorer.score(hit.distance, &hit.code, &hit.outputs);
        scored.push((score, Hit { distance: hit.distance, item: at }));
    }
    let rest = scored.split_off(near);
    let page: Vec<(f32, Hit)> = ranking.page(scored, &query).chain(rest).collect();
    let items: Vec<u64> =
        page.iter().map(|(_, hit)| found[hit.item as usize].item).collect();
    let stored = store.read(description, RowKeys::Items(&items))?.into_iter();
    let mut stored: HashMap<u64, StoreRow> = stored.map(|row| (row.item, row)).collect();
    let (mut rows, mut hits) = (Vec::new(), Vec::new());
    for ((score, hit), item) in page.into_iter().zip(&items) {
        // an item that was deleted in between is no hit
        let Some(row) = stored.remove(item) else { continue };
        let item = u32::try_from(rows.len()).map_err(failed)?;
        let id = typed_id(description, &row.id)?;
        hits.push(Found { id, hit: Hit { item, ..hit }, score: Some(score) });
        rows.push(row);
    }
    Ok((rows, hits, nearest))
}

fn typed_id(description: &Description, id: &str) -> StoreResult<Id> {
    if !description.numbers {
        return Ok(Id::Name(id.to_owned()));
    }
    id.parse().map(Id::Number).map_err(|_| {
        StoreError::Failed(format!("the table has numbers as ids, and the id {id:?}"))
    })
}
