//! `/v1/items`: items come, are looked at, and go. What is answered is on disk.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use crosshash::QueryInput;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::body;
use super::error::{ApiError, ApiResult};
use super::query::{self, ItemId, accepted_kinds, encode, shelf};
use super::records::Record;
use super::run::ServedModel;
use super::shelf::{Change, Changed, New, Shelf};
use super::state::App;
use super::view::from_hex;

/// Bytes of an id, at most.
const LONGEST_ID: usize = 512;
/// How long a change waits for a model that is just being reloaded, before it looks again.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Insert {
    model: Option<String>,
    modality: String,
    items: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    id: ItemId,
    text: Option<String>,
    picture: Option<String>,
    code: Option<String>,
    features: Option<Vec<f32>>,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    meta: Map<String, Value>,
}

#[derive(Serialize)]
pub(crate) struct Inserted {
    inserted: usize,
    replaced: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Delete {
    model: Option<String>,
    modality: String,
    ids: Vec<ItemId>,
}

#[derive(Serialize)]
pub(crate) struct Deleted {
    deleted: usize,
    missing: Vec<String>,
}

/// What stands behind the `?` of an item.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    model: Option<String>,
    modality: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct Seen {
    id: String,
    modality: String,
    labels: Vec<String>,
    code: String,
    text: Option<String>,
    picture: Option<String>,
    meta: Map<String, Value>,
    also: Vec<String>,
}

/// What an item shows.
pub(crate) struct Showing {
    pub(crate) text: Option<String>,
    pub(crate) meta: Map<String, Value>,
    pub(crate) has_picture: bool,
}

/// Where to look for what items of a shelf show.
pub(crate) struct Look<'a> {
    pub(crate) model: &'a ServedModel,
    pub(crate) shelf: &'a Shelf,
}

impl Look<'_> {
    /// What was inserted last, or else what the data set has.
    pub(crate) fn shown(&self, id: &str) -> Showing {
        match self.shelf.records.get(id) {
            Some(record) => Showing {
                text: record.text.clone(),
                meta: record.meta.clone(),
                has_picture: record.picture.is_some(),
            },
            None => Showing {
                text: self.model.shown.text(&self.shelf.modality, id),
                meta: Map::new(),
                has_picture: self.model.shown.has_picture(&self.shelf.modality, id),
            },
        }
    }
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
    // Once more if the model was exchanged in between: its codes would not fit the new ones.
    let mut wanted = items;
    loop {
        let generation = app.model(model.as_deref())?;
        let target = Arc::clone(shelf(&generation, &modality, "modality")?);
        let (worker, name) = (Arc::clone(&generation), modality.clone());
        let work = move || -> ApiResult<_> {
            let made: ApiResult<Vec<New>> = wanted
                .iter()
                .enumerate()
                .map(|(k, item)| item.made(&worker, &name, k))
                .collect();
            Ok((made?, wanted))
        };
        let (made, items) = app.workers.run(work).await??;
        wanted = items;
        match target.change(Change::Put(made)).await? {
            Some(Changed { done, replaced, .. }) => {
                return Ok((
                    StatusCode::CREATED,
                    Json(Inserted { inserted: done, replaced }),
                ));
            }
            None => tokio::time::sleep(PAUSE).await,
        }
    }
}

impl Item {
    /// The item with its code.
    fn made(&self, model: &ServedModel, modality: &str, at: usize) -> ApiResult<New> {
        let place = |field: &str| format!("items[{at}].{field}");
        let id = self.id.clone().text();
        let view = shelf(model, modality, "modality")?.view();
        if id.is_empty() || id.len() > LONGEST_ID || id.contains(char::is_control) {
            let message =
                format!("an id is 1 to {LONGEST_ID} bytes without control characters");
            return Err(ApiError::bad_request(message).at(place("id")));
        }
        // As the index writes it: 007 is 7 where ids are numbers.
        let id = view.snapshot.typed_id(&id).ok_or_else(|| {
            ApiError::bad_request("ids of this index are whole numbers").at(place("id"))
        })?;
        let id = id.to_string();
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
        let code = self.encoded(model, modality, picture.as_deref(), &place)?;
        let record = Record {
            id,
            text: self.text.clone(),
            features: self.features.clone(),
            code: self.code.clone(),
            labels: self.labels.clone(),
            meta: self.meta.clone(),
            picture: None, // its place is known when it is written
        };
        Ok(New { code, labels, record, picture })
    }

    /// The code that was given, or that of the features, the text or the picture that was.
    fn encoded(
        &self,
        model: &ServedModel,
        modality: &str,
        picture: Option<&[u8]>,
        place: &dyn Fn(&str) -> String,
    ) -> ApiResult<Vec<u64>> {
        if let Some(code) = &self.code {
            return from_hex(model.bits, code).map_err(|err| err.at(place("code")));
        }
        let Some(encoder) = &model.encoder else {
            let message = "this is an index without a model: give the code";
            return Err(ApiError::bad_request(message).at(place("code")));
        };
        let kinds = accepted_kinds(model, modality);
        let given = match (&self.features, &self.text, picture) {
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
        };
        let kind = given.kind().name();
        let encoded =
            encode(encoder, modality, given).map_err(|err| err.at(place(kind)))?;
        Ok(encoded.query.code.words().to_vec())
    }
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
    let changed = remove(&app, model.as_deref(), &modality, ids).await?;
    Ok(Json(Deleted { deleted: changed.done, missing: changed.missing }))
}

/// Deletes one item.
pub(crate) async fn delete_one(
    State(app): State<Arc<App>>,
    request: Request,
) -> ApiResult<Json<Deleted>> {
    let (id, Which { model, modality }) = body::path_and_query(request).await?;
    let generation = app.model(model.as_deref())?;
    let modality = named(&generation, modality.as_deref())?.modality.clone();
    let changed = remove(&app, model.as_deref(), &modality, vec![id.clone()]).await?;
    match changed.done {
        0 => Err(ApiError::not_found(format!("{modality} has no item {id:?}")).at("id")),
        deleted => Ok(Json(Deleted { deleted, missing: changed.missing })),
    }
}

async fn remove(
    app: &App,
    model: Option<&str>,
    modality: &str,
    ids: Vec<String>,
) -> ApiResult<Changed> {
    loop {
        let generation = app.model(model)?;
        let target = shelf(&generation, modality, "modality")?;
        match target.change(Change::Delete(ids.clone())).await? {
            Some(changed) => return Ok(changed),
            None => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// The modality behind the `?`; the only one need not be named.
pub(crate) fn named<'a>(
    model: &'a ServedModel,
    modality: Option<&str>,
) -> ApiResult<&'a Arc<Shelf>> {
    match (modality, &model.shelves[..]) {
        (Some(modality), _) => shelf(model, modality, "modality"),
        (None, [one]) => Ok(one),
        (None, all) => {
            let known: Vec<&str> = all.iter().map(|s| s.modality.as_str()).collect();
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
) -> ApiResult<Json<Seen>> {
    let (id, Which { model, modality }) = body::path_and_query(request).await?;
    let model = app.model(model.as_deref())?;
    let shelf = named(&model, modality.as_deref())?;
    let view = shelf.view();
    let item = view.find(&id)?.ok_or_else(|| {
        ApiError::not_found(format!("{} has no item {id:?}", shelf.modality)).at("id")
    })?;
    let shown = Look { model: &model, shelf }.shown(&id);
    let mut also = Vec::new();
    for other in &model.shelves {
        if other.modality != shelf.modality && other.view().find(&id)?.is_some() {
            also.push(other.modality.clone());
        }
    }
    Ok(Json(Seen {
        modality: shelf.modality.clone(),
        labels: view.label_names(item),
        code: view.hex(item),
        text: shown.text,
        picture: shown.has_picture.then(|| picture_path(&model.name, &shelf.modality, &id)),
        meta: shown.meta,
        also,
        id,
    }))
}
