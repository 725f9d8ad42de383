//! `/v1/items`: inserts, reads and deletes items. A change is on disk before it is acknowledged.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use crosshash::QueryInput;
use crosshash::payload::{DisplayFields, Payload, Source};
use crosshash_codes::Cancel;
use crosshash_codes::format::Id;
use crosshash_codes::live::{Applied, Change, NewItem};
use crosshash_codes::segments::Snapshot;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::body;
use super::error::{ApiError, ApiResult};
use super::fair::Size;
use super::item_view::from_hex;
use super::modality_index::ModalityIndex;
use super::query::{self, ItemId, accepted_kinds, encode, items_of};
use super::run::ServedModel;
use super::served_items::ServedItems;
use super::state::App;
use super::thumbnail;

/// Maximum length of an id in bytes.
const MAX_ID: usize = 512;
/// Maximum length of a text in characters.
const MAX_TEXT: usize = 100_000;
/// Maximum length of `meta` as JSON in bytes.
const MAX_META: usize = 65_536;
/// The same with white space. A longer one is not parsed: its values may take a hundred times the memory of the
/// text.
const MAX_META_TEXT: usize = 4 * MAX_META;
/// Inserts of more items take long, and those of pictures.
const FEW: usize = 32;
/// How long a change waits for a model that is being reloaded before it tries again.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Insert {
    #[serde(default, deserialize_with = "body::given")]
    model: Option<String>,
    modality: String,
    #[serde(deserialize_with = "body::list")]
    items: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    id: ItemId,
    #[serde(default, deserialize_with = "body::given")]
    text: Option<String>,
    #[serde(default, deserialize_with = "body::given")]
    picture: Option<String>,
    #[serde(default, deserialize_with = "body::given")]
    code: Option<String>,
    #[serde(default, deserialize_with = "body::given")]
    features: Option<Vec<f32>>,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default, deserialize_with = "body::given")]
    meta: Option<Box<RawValue>>,
}

#[derive(Serialize)]
pub(crate) struct Inserted {
    inserted: usize,
    replaced: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Delete {
    #[serde(default, deserialize_with = "body::given")]
    model: Option<String>,
    modality: String,
    #[serde(deserialize_with = "body::list")]
    ids: Vec<ItemId>,
}

#[derive(Serialize)]
pub(crate) struct Deleted {
    deleted: usize,
    missing: Vec<String>,
}

/// The query string of an item.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    model: Option<String>,
    modality: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct ItemResponse {
    id: String,
    modality: String,
    labels: Vec<String>,
    code: String,
    text: Option<String>,
    picture: Option<String>,
    meta: Map<String, Value>,
    also: Vec<String>,
}

/// Where the picture of an item is.
pub(crate) fn picture_path(model: &str, modality: &str, id: &str) -> String {
    format!(
        "/v1/items/{}/picture?model={}&modality={}",
        escaped(id),
        escaped(model),
        escaped(modality)
    )
}

/// A text as a part of an address.
fn escaped(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
    out
}

/// Inserts or replaces items.
pub(crate) async fn post(
    State(app): State<Arc<App>>,
    request: Request,
) -> ApiResult<(StatusCode, Json<Inserted>)> {
    let Insert { model, modality, items } = body::json(&app, request).await?;
    check_count(&app, items.len(), "items")?;
    let pictures = items.iter().any(|item| item.picture.is_some());
    let is_long = pictures || items.len() > FEW;
    let size = if is_long { Size::Long } else { Size::Short };
    // Encode again if the model was replaced in the meantime: the old codes do not fit.
    let mut wanted = items;
    loop {
        let generation = app.model(model.as_deref())?;
        let target = items_of(&generation, &modality, "modality")?.index_to_change()?;
        let (worker, own) = (Arc::clone(&generation), Arc::clone(target));
        let work = move |cancel: &Cancel| -> ApiResult<_> {
            let made: ApiResult<Vec<NewItem>> = wanted
                .iter()
                .enumerate()
                .map(|(k, item)| item.to_new(&worker, &own, k, cancel))
                .collect();
            Ok((made?, wanted))
        };
        let (made, items) = app.workers.run(size, work).await?;
        wanted = items;
        match target.change(Change::Put(made)).await? {
            Some(Applied { inserted, replaced, .. }) => {
                return Ok((StatusCode::CREATED, Json(Inserted { inserted, replaced })));
            }
            None => tokio::time::sleep(PAUSE).await,
        }
    }
}

impl Item {
    /// The id as the index stores it.
    fn id(&self, snapshot: &Snapshot, place: &dyn Fn(&str) -> String) -> ApiResult<Id> {
        let id = self.id.clone().text();
        if id.is_empty() || id.len() > MAX_ID || id.contains(char::is_control) {
            let message =
                format!("an id is 1 to {MAX_ID} bytes without control characters");
            return Err(ApiError::bad_request(message).at(place("id")));
        }
        snapshot.typed_id(&id).ok_or_else(|| {
            ApiError::bad_request(
                "ids of this index are whole numbers without leading zeros",
            )
            .at(place("id"))
        })
    }

    /// What the item shows, within its limits.
    fn shown(&self, place: &dyn Fn(&str) -> String) -> ApiResult<DisplayFields> {
        let characters = self.text.as_ref().map_or(0, |text| text.chars().count());
        if characters > MAX_TEXT {
            return Err(ApiError::bad_request(format!(
                "the text has {characters} characters; the limit is {MAX_TEXT}"
            ))
            .at(place("text")));
        }
        Ok(DisplayFields { text: self.text.clone(), meta: self.meta(place)? })
    }

    /// The fields of the item.
    fn meta(&self, place: &dyn Fn(&str) -> String) -> ApiResult<Map<String, Value>> {
        let Some(raw) = &self.meta else { return Ok(Map::new()) };
        let check = |bytes: usize, most: usize| {
            let error = || {
                let message = format!("meta has {bytes} bytes; the limit is {MAX_META}");
                ApiError::bad_request(message).at(place("meta"))
            };
            if bytes > most { Err(error()) } else { Ok(()) }
        };
        check(raw.get().len(), MAX_META_TEXT)?;
        let meta = serde_json::from_str(raw.get()).map_err(|err| {
            ApiError::bad_request(format!("invalid request: {err}")).at(place("meta"))
        })?;
        let json = serde_json::to_vec(&meta).map_err(ApiError::internal)?;
        check(json.len(), MAX_META)?;
        Ok(meta)
    }

    /// The item with its code and payload.
    fn to_new(
        &self,
        model: &ServedModel,
        index: &ModalityIndex,
        at: usize,
        cancel: &Cancel,
    ) -> ApiResult<NewItem> {
        if cancel.is_cancelled() {
            return Err(ApiError::cancelled());
        }
        let place = |field: &str| match field {
            "" => format!("items[{at}]"),
            field => format!("items[{at}].{field}"),
        };
        let (snapshot, modality) = (index.snapshot(), index.modality.as_str());
        let id = self.id(&snapshot, &place)?;
        let shown = self.shown(&place)?;
        let picture = self.picture.as_deref().map(query::picture).transpose();
        let picture = picture.map_err(|err| err.at(place("picture")))?;
        let number = |label: &String| {
            let found = model.labels.iter().position(|name| name == label);
            found.and_then(|at| u32::try_from(at).ok()).ok_or_else(|| {
                ApiError::bad_request(format!(
                    "no label is named {label:?}; GET /v1/models lists them"
                ))
                .at(place("labels"))
            })
        };
        let labels = self.labels.iter().map(number).collect::<ApiResult<Vec<u32>>>()?;
        let given = self.given(model, modality, picture.as_deref(), &place)?;
        // A picture that is only shown is checked as well: thumbnails are made of it later.
        if let Some(file) = &picture
            && !matches!(given, ItemInput::Input(QueryInput::Picture(_)))
        {
            thumbnail::check(file, cancel).map_err(|err| {
                ApiError::bad_request(format!("{err:#}")).at(place("picture"))
            })?;
        }
        let (code, outputs) = match given {
            ItemInput::Code(code) => (code, None),
            ItemInput::Input(input) => {
                let kind = input.kind().name();
                let encoder = model.encoder.as_ref();
                let encoder = encoder
                    .ok_or_else(|| ApiError::internal("the model has no encoder"))?;
                let encoded = encode(encoder, modality, input, cancel);
                let encoded = encoded.map_err(|err| err.at(place(kind)))?.query;
                (encoded.code.words().to_vec(), Some(encoded.outputs))
            }
        };
        let payload = Payload {
            shown,
            source: Source {
                features: self.features.clone(),
                code: self.code.clone(),
                labels: self.labels.clone(),
            },
            picture,
        };
        let payload = payload.encode().map_err(ApiError::internal)?;
        Ok(NewItem { id, code, labels, payload, outputs })
    }

    /// The given code, or what it is computed from: features, text or picture.
    fn given(
        &self,
        model: &ServedModel,
        modality: &str,
        picture: Option<&[u8]>,
        place: &dyn Fn(&str) -> String,
    ) -> ApiResult<ItemInput> {
        if let Some(code) = &self.code {
            let code = from_hex(model.bits, code).map_err(|err| err.at(place("code")))?;
            return Ok(ItemInput::Code(code));
        }
        if model.encoder.is_none() {
            let message = "this is an index without a model: give the code";
            return Err(ApiError::bad_request(message).at(place("code")));
        }
        let kinds = accepted_kinds(model, modality);
        Ok(ItemInput::Input(match (&self.features, &self.text, picture) {
            (Some(values), _, _) => QueryInput::Features(values.clone()),
            (_, Some(text), _) if kinds.contains(&"text") => QueryInput::Text(text.clone()),
            (_, _, Some(picture)) => QueryInput::Picture(picture.to_vec()),
            _ => {
                let message = format!(
                    "nothing to encode: {modality} takes {}, or a code",
                    kinds.join(" or ")
                );
                return Err(ApiError::bad_request(message).at(place("")));
            }
        }))
    }
}

/// Where the code of an item comes from.
enum ItemInput {
    Code(Vec<u64>),
    Input(QueryInput),
}

fn check_count(app: &App, count: usize, place: &str) -> ApiResult<()> {
    let most = app.limits.items;
    match count {
        0 => Err(ApiError::bad_request("none are given").at(place)),
        n if n > most => Err(ApiError::bad_request(format!(
            "{n} at once; at most {most}, send several requests"
        ))
        .at(place)),
        _ => Ok(()),
    }
}

/// Deletes items by their ids.
pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    request: Request,
) -> ApiResult<Json<Deleted>> {
    let Delete { model, modality, ids } = body::json(&app, request).await?;
    check_count(&app, ids.len(), "ids")?;
    let ids: Vec<String> = ids.into_iter().map(ItemId::text).collect();
    Ok(Json(remove(&app, model.as_deref(), &modality, ids).await?))
}

/// Deletes one item.
pub(crate) async fn delete_one(
    State(app): State<Arc<App>>,
    request: Request,
) -> ApiResult<Json<Deleted>> {
    let (id, Which { model, modality }) = body::path_and_query(request).await?;
    let generation = app.model(model.as_deref())?;
    let modality = named(&generation, modality.as_deref())?.modality().to_owned();
    let removed = remove(&app, model.as_deref(), &modality, vec![id.clone()]).await?;
    if removed.deleted == 0 {
        return Err(ApiError::not_found(format!("{modality} has no item {id:?}")).at("id"));
    }
    Ok(Json(removed))
}

async fn remove(
    app: &App,
    model: Option<&str>,
    modality: &str,
    texts: Vec<String>,
) -> ApiResult<Deleted> {
    loop {
        let generation = app.model(model)?;
        let target = items_of(&generation, modality, "modality")?.index_to_change()?;
        let snapshot = target.snapshot();
        let typed: Vec<Option<Id>> =
            texts.iter().map(|text| snapshot.typed_id(text)).collect();
        let ids = typed.iter().flatten().cloned().collect();
        let Some(applied) = target.change(Change::Delete(ids)).await? else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let is_missing =
            |id: &Option<Id>| id.as_ref().is_none_or(|id| applied.missing.contains(id));
        let missing = texts.into_iter().zip(&typed).filter(|(_, id)| is_missing(id));
        let missing = missing.map(|(text, _)| text).collect();
        return Ok(Deleted { deleted: applied.deleted, missing });
    }
}

/// The items of the modality in the query string; it can be omitted if there is only one.
pub(crate) fn named<'a>(
    model: &'a ServedModel,
    modality: Option<&str>,
) -> ApiResult<&'a ServedItems> {
    match (modality, &model.items[..]) {
        (Some(modality), _) => items_of(model, modality, "modality"),
        (None, [one]) => Ok(one),
        (None, all) => {
            let known: Vec<&str> = all.iter().map(ServedItems::modality).collect();
            let message =
                format!("name the modality: ?modality= one of {}", known.join(", "));
            Err(ApiError::bad_request(message).at("modality"))
        }
    }
}

/// One item.
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    request: Request,
) -> ApiResult<Json<ItemResponse>> {
    let (id, Which { model, modality }) = body::path_and_query(request).await?;
    let model = app.model(model.as_deref())?;
    let own = named(&model, modality.as_deref())?;
    let modality = own.modality();
    let (items, item) = own.find(&id).await?.ok_or_else(|| {
        ApiError::not_found(format!("{modality} has no item {id:?}")).at("id")
    })?;
    let view = items.view(&model, modality, item, &id)?;
    let mut also = Vec::new();
    for other in &model.items {
        if other.modality() != modality && other.find(&id).await?.is_some() {
            also.push(other.modality().to_owned());
        }
    }
    let picture = view.has_picture.then(|| picture_path(&model.name, modality, &id));
    Ok(Json(ItemResponse {
        modality: modality.to_owned(),
        id,
        labels: view.labels,
        code: view.code,
        text: view.text,
        picture,
        meta: view.meta,
        also,
    }))
}
