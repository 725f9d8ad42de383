//! `ServedItems`: the items of a modality, in a live index or in a store; `ItemReader`: what is shown of some of
//! them.

use std::sync::Arc;

use crosshash_codes::segments::Snapshot;

use super::error::{ApiError, ApiResult};
use super::item_view::{self, ItemView};
use super::modality_index::ModalityIndex;
use super::rank;
use super::run::ServedModel;
use super::store_items::StoreItems;
use crate::store::{Description, StoreRow};

/// The items of a modality.
#[derive(Clone)]
pub(crate) enum ServedItems {
    Index(Arc<ModalityIndex>),
    Store(Arc<StoreItems>),
}

impl ServedItems {
    /// The modality.
    pub(crate) fn modality(&self) -> &str {
        match self {
            ServedItems::Index(index) => &index.modality,
            ServedItems::Store(store) => &store.modality,
        }
    }

    /// Number of items.
    pub(crate) fn len(&self) -> usize {
        match self {
            ServedItems::Index(index) => index.snapshot().len(),
            ServedItems::Store(store) => store.len(),
        }
    }

    /// The index, if they are in one.
    pub(crate) fn index(&self) -> Option<&Arc<ModalityIndex>> {
        match self {
            ServedItems::Index(index) => Some(index),
            ServedItems::Store(_) => None,
        }
    }

    /// The index that a request changes.
    pub(crate) fn index_to_change(&self) -> ApiResult<&Arc<ModalityIndex>> {
        self.index().ok_or_else(|| {
            ApiError::not_in_store(format!(
                "the items of {} are in a store: add and replace them with `crosshash store push \
                 --upsert`, delete them with `crosshash store delete`",
                self.modality()
            ))
            .at("modality")
        })
    }

    /// Whether items can be found by words.
    pub(crate) fn has_words(&self) -> bool {
        self.index().is_some_and(|index| index.has_words())
    }

    /// Whether the outputs of the model are stored for every item.
    pub(crate) fn has_outputs(&self) -> bool {
        match self {
            ServedItems::Index(index) => index.snapshot().has_outputs(),
            ServedItems::Store(store) => store.pool.description().outputs,
        }
    }

    /// The item with this id.
    pub(crate) async fn find(&self, id: &str) -> ApiResult<Option<(ItemReader, u32)>> {
        match self {
            ServedItems::Store(store) => store.find(id).await,
            ServedItems::Index(index) => {
                let snapshot = index.snapshot();
                let item = item_view::find(&snapshot, id)?;
                Ok(item.map(|item| (ItemReader::Snapshot(snapshot), item)))
            }
        }
    }
}

/// Rows of a store; an item is the position of its row.
pub(crate) struct StoreRows {
    pub(crate) rows: Vec<StoreRow>,
    pub(crate) description: Arc<Description>,
}

/// Items that were found, by their numbers.
pub(crate) enum ItemReader {
    Snapshot(Arc<Snapshot>),
    Rows(StoreRows),
}

impl ItemReader {
    /// Number of items that were searched.
    pub(crate) fn searched(&self) -> usize {
        match self {
            ItemReader::Snapshot(snapshot) => snapshot.len(),
            ItemReader::Rows(StoreRows { description, .. }) => {
                usize::try_from(description.items).unwrap_or(usize::MAX)
            }
        }
    }

    /// The snapshot, if they are in an index.
    pub(crate) fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        match self {
            ItemReader::Snapshot(snapshot) => Some(snapshot),
            ItemReader::Rows(_) => None,
        }
    }

    /// The number that a response shows.
    pub(crate) fn number(&self, item: u32) -> ApiResult<u64> {
        match self {
            ItemReader::Snapshot(_) => Ok(item.into()),
            ItemReader::Rows(rows) => Ok(rows.row(item)?.item),
        }
    }

    /// The code of an item.
    pub(crate) fn code(&self, item: u32) -> ApiResult<Vec<u64>> {
        match self {
            ItemReader::Snapshot(snapshot) => {
                Ok(snapshot.code(item).map_err(ApiError::internal)?.to_vec())
            }
            ItemReader::Rows(rows) => Ok(rows.row(item)?.code.clone()),
        }
    }

    /// Its stored outputs, as a query.
    pub(crate) fn outputs(&self, item: u32) -> ApiResult<Option<Vec<f32>>> {
        match self {
            ItemReader::Snapshot(snapshot) => rank::item_outputs(snapshot, item),
            ItemReader::Rows(rows) => {
                let values = rows.row(item)?.outputs.as_deref();
                Ok(values.map(|values| values.iter().map(|&v| f32::from(v)).collect()))
            }
        }
    }

    /// The names of its labels.
    pub(crate) fn label_names(&self, item: u32) -> ApiResult<Vec<String>> {
        match self {
            ItemReader::Snapshot(snapshot) => item_view::label_names(snapshot, item),
            ItemReader::Rows(rows) => rows.label_names(item),
        }
    }

    /// What an item shows.
    pub(crate) fn view(
        &self,
        model: &ServedModel,
        modality: &str,
        item: u32,
        id: &str,
    ) -> ApiResult<ItemView> {
        match self {
            ItemReader::Snapshot(snapshot) => {
                ItemView::new(model, modality, snapshot, item, id)
            }
            ItemReader::Rows(rows) => {
                let labels = rows.label_names(item)?;
                Ok(ItemView::of_row(model, modality, rows.row(item)?, labels))
            }
        }
    }
}

impl StoreRows {
    fn row(&self, item: u32) -> ApiResult<&StoreRow> {
        let row = self.rows.get(item as usize);
        row.ok_or_else(|| ApiError::internal("a hit of a store has no row"))
    }

    fn label_names(&self, item: u32) -> ApiResult<Vec<String>> {
        let names = &self.description.label_names;
        let name = |label: &u32| {
            names.get(*label as usize).cloned().unwrap_or_else(|| label.to_string())
        };
        Ok(self.row(item)?.labels.iter().map(name).collect())
    }
}
