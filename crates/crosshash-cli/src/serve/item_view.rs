//! What an item of an index shows, and codes as text.

use crosshash_codes::index::FieldValue;
use crosshash_codes::segments::Snapshot;
use crosshash_codes::{BitOrder, Bits, Codes, hex};
use serde_json::{Map, Value};

use super::error::{ApiError, ApiResult};
use super::fields::to_json;
use super::run::ServedModel;
use crate::store::StoreRow;
use crosshash::payload::{self, DisplayFields};

/// What an item shows.
pub(crate) struct ItemView {
    pub(crate) code: String,
    pub(crate) labels: Vec<String>,
    pub(crate) text: Option<String>,
    pub(crate) meta: Map<String, Value>,
    pub(crate) has_picture: bool,
    /// Bytes of text and fields, about.
    pub(crate) bytes: usize,
}

impl ItemView {
    /// The content of an inserted item, or that of the data set.
    pub(crate) fn new(
        model: &ServedModel,
        modality: &str,
        snapshot: &Snapshot,
        item: u32,
        id: &str,
    ) -> ApiResult<ItemView> {
        let payload = snapshot.payload(item).map_err(ApiError::internal)?;
        let code = snapshot.code(item).map_err(ApiError::internal)?;
        let code = to_hex(snapshot.bits(), code);
        let labels = label_names(snapshot, item)?;
        if payload.is_empty() {
            let fields = model.shown.fields(modality, id);
            return Ok(ItemView::of_dataset(model, modality, id, (code, labels, &fields)));
        }
        let (shown, has_picture) =
            DisplayFields::decode(payload).map_err(ApiError::internal)?;
        let bytes = payload::shown_bytes(payload).map_err(ApiError::internal)?;
        let DisplayFields { text, meta } = shown;
        Ok(ItemView { code, labels, text, meta, has_picture, bytes })
    }

    /// The fields of a row of a store, with text and picture of the data set if it has the item.
    pub(crate) fn of_row(
        model: &ServedModel,
        modality: &str,
        row: &StoreRow,
        labels: Vec<String>,
    ) -> ItemView {
        let code = to_hex(model.bits, &row.code);
        let mut view =
            ItemView::of_dataset(model, modality, &row.id, (code, labels, &row.fields));
        let values = view.meta.values().map(|value| value.to_string().len());
        view.bytes += values.sum::<usize>();
        view
    }

    fn of_dataset(
        model: &ServedModel,
        modality: &str,
        id: &str,
        (code, labels, fields): (String, Vec<String>, &[(String, FieldValue)]),
    ) -> ItemView {
        let meta = fields.iter().map(|(name, value)| (name.clone(), to_json(value)));
        let text = model.shown.text(modality, id);
        ItemView {
            code,
            labels,
            meta: meta.collect(),
            has_picture: model.shown.has_picture(modality, id),
            bytes: text.as_ref().map_or(0, String::len),
            text,
        }
    }
}

/// The item with this id.
pub(crate) fn find(snapshot: &Snapshot, id: &str) -> ApiResult<Option<u32>> {
    let Some(id) = snapshot.typed_id(id) else { return Ok(None) };
    snapshot.find(&id).map_err(ApiError::internal)
}

/// The names of an item's labels.
pub(crate) fn label_names(snapshot: &Snapshot, item: u32) -> ApiResult<Vec<String>> {
    let names = snapshot.label_names();
    let name = |label: usize| names.get(label).cloned().unwrap_or(label.to_string());
    let labels = snapshot.labels(item).map_err(ApiError::internal)?;
    Ok(labels.into_iter().map(name).collect())
}

/// A code in hexadecimal, as code files pack it: lowest bit first.
pub(crate) fn to_hex(bits: Bits, code: &[u64]) -> String {
    let bytes = code.iter().flat_map(|word| word.to_le_bytes());
    hex::encode(bytes.take(bits.bytes()))
}

/// The words of a code in hexadecimal.
pub(crate) fn from_hex(bits: Bits, text: &str) -> ApiResult<Vec<u64>> {
    let bytes = hex::decode(text).filter(|bytes| bytes.len() == bits.bytes());
    let codes =
        bytes.and_then(|bytes| Codes::from_packed(bits, &bytes, BitOrder::Lsb).ok());
    codes.map(|codes| codes.words().to_vec()).ok_or_else(|| {
        ApiError::bad_request(format!(
            "a code is {} hexadecimal digits ({bits} bits, lowest bit first), with zeros beyond \
             the last bit",
            2 * bits.bytes()
        ))
    })
}
