//! Counts of labels and fields among the items that match a search.

use std::sync::Arc;

use crosshash_codes::Codes;
use crosshash_codes::index::{ItemSet, Query};
use crosshash_codes::segments::{FieldCounts, Snapshot};
use serde::Serialize;
use serde_json::Value;

use super::error::{ApiError, ApiResult};
use super::fields::{ModalityFields, to_json};
use super::run::ServedModel;

/// The most labels, fields and values of a field in a response.
const LABELS: usize = 100;
const FIELDS: usize = 32;
const VALUES: usize = 32;

/// How many of the matching items have each label and each value of a field.
#[derive(Serialize)]
pub(super) struct CountsView {
    items: usize,
    labels: Vec<LabelCount>,
    fields: Vec<FieldView>,
}

#[derive(Serialize)]
struct LabelCount {
    name: String,
    items: usize,
}

#[derive(Serialize)]
struct FieldView {
    name: String,
    distinct: usize,
    values: Vec<ValueCount>,
    min: Option<f64>,
    max: Option<f64>,
}

#[derive(Serialize)]
struct ValueCount {
    value: Value,
    items: usize,
}

/// Counts among the items that pass the filter and lie within the radius.
pub(super) fn count(
    model: &Arc<ServedModel>,
    modality: &str,
    snapshot: &Snapshot,
    allowed: Option<&ItemSet>,
    within: Option<(&[u64], u32)>,
) -> ApiResult<CountsView> {
    let near =
        within.map(|(code, radius)| near(snapshot, allowed, code, radius)).transpose()?;
    let fields = ModalityFields::of(model, modality);
    let counts = snapshot.counts(near.as_ref().or(allowed), &fields, VALUES);
    let counts = counts.map_err(ApiError::internal)?;
    let names = snapshot.label_names();
    let named = counts.labels.iter().enumerate().filter(|(_, items)| **items > 0);
    let mut labels: Vec<LabelCount> = named
        .map(|(label, &items)| LabelCount {
            name: names.get(label).cloned().unwrap_or(label.to_string()),
            items,
        })
        .collect();
    labels.sort_by_key(|label| std::cmp::Reverse(label.items));
    labels.truncate(LABELS);
    let fields = counts.fields.into_iter().take(FIELDS).map(field).collect();
    Ok(CountsView { items: counts.items, labels, fields })
}

fn field(counts: FieldCounts) -> FieldView {
    let value = |(value, items): (_, usize)| ValueCount { value: to_json(&value), items };
    FieldView {
        name: counts.name,
        distinct: counts.distinct,
        values: counts.values.into_iter().map(value).collect(),
        min: counts.range.map(|range| range.0),
        max: counts.range.map(|range| range.1),
    }
}

/// The items within a radius.
fn near(
    snapshot: &Snapshot,
    allowed: Option<&ItemSet>,
    code: &[u64],
    radius: u32,
) -> ApiResult<ItemSet> {
    let codes =
        Codes::from_words(snapshot.bits(), code.to_vec()).map_err(ApiError::internal)?;
    let query = Query { allowed, ..Query::within(radius) };
    let hits = snapshot.hits(&codes, &query, &|_| ()).map_err(ApiError::internal)?;
    let mut set = snapshot.no_items();
    hits.iter().flatten().for_each(|hit| {
        set.insert(hit.item);
    });
    Ok(set)
}
