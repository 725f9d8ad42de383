//! The query of a request: parses it in any form and resolves it to a code.

use std::sync::Arc;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crosshash::{Drawing, EncodedQuery, QueryEncoder, QueryInput, QueryKind};
use crosshash_codes::{Cancel, Codes};
use serde::{Deserialize, Serialize};

use super::body;
use super::error::{ApiError, ApiResult};
use super::fair::Size;
use super::item_view::from_hex;
use super::run::ServedModel;
use super::served_items::ServedItems;
use super::state::App;
use super::timings::{Timings, micros};

/// Number of nearest centres in a response.
const CENTRES: usize = 5;
/// Maximum length of a text in characters.
const MAX_TEXT: usize = 100_000;

/// A query of a request: exactly one form, and its modality if several accept the form.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueryRequest {
    #[serde(default, deserialize_with = "body::given")]
    text: Option<String>,
    /// Base64.
    #[serde(default, deserialize_with = "body::given")]
    picture: Option<String>,
    #[serde(default, deserialize_with = "body::given")]
    drawing: Option<Drawing>,
    #[serde(default, deserialize_with = "body::given")]
    item: Option<ItemRef>,
    #[serde(default, deserialize_with = "body::given")]
    code: Option<String>,
    /// Real outputs of the model; also beside a code, whose search they rank.
    #[serde(default, deserialize_with = "body::given")]
    outputs: Option<Vec<f32>>,
    #[serde(default, deserialize_with = "body::given")]
    features: Option<Vec<f32>>,
    #[serde(default, deserialize_with = "body::given")]
    modality: Option<String>,
    /// The uploaded file of a multipart form.
    #[serde(skip)]
    pub(crate) upload: Option<Vec<u8>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemRef {
    id: ItemId,
    modality: String,
}

/// An id in JSON: a string or a number.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum ItemId {
    Number(u64),
    Name(String),
}

impl ItemId {
    pub(crate) fn text(self) -> String {
        match self {
            ItemId::Number(number) => number.to_string(),
            ItemId::Name(name) => name,
        }
    }
}

/// A query resolved to a code.
pub(crate) struct ResolvedQuery {
    pub(crate) modality: Option<String>,
    pub(crate) code: Vec<u64>,
    pub(crate) outputs: Option<Vec<f32>>,
    /// The stored outputs of the item, if the query is one.
    pub(crate) item_outputs: Option<Vec<f32>>,
    /// The labels of the query, if it is an item.
    pub(crate) labels: Option<Vec<String>>,
    /// The nearest centres.
    pub(crate) centres: Vec<Centre>,
    pub(crate) timings: Timings,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Centre {
    pub(crate) label: String,
    pub(crate) distance: u32,
}

impl ResolvedQuery {
    /// A query by words only: it is not encoded.
    pub(crate) fn of_words() -> ResolvedQuery {
        ResolvedQuery {
            modality: None,
            code: Vec::new(),
            outputs: None,
            item_outputs: None,
            labels: None,
            centres: Vec::new(),
            timings: Timings::default(),
        }
    }
}

impl QueryRequest {
    /// Checks that there is exactly one form.
    fn check(&self) -> ApiResult<()> {
        let forms = [
            ("text", self.text.is_some()),
            ("picture", self.picture.is_some() || self.upload.is_some()),
            ("drawing", self.drawing.is_some()),
            ("item", self.item.is_some()),
            ("code", self.code.is_some()),
            ("outputs", self.outputs.is_some() && self.code.is_none()),
            ("features", self.features.is_some()),
        ];
        let given: Vec<&str> = forms.iter().filter(|f| f.1).map(|f| f.0).collect();
        match given[..] {
            [_] => Ok(()),
            [] => Err(ApiError::bad_request(
                "empty query; specify one of text, picture, drawing, item, code, outputs or features",
            )
            .at("query")),
            _ => Err(ApiError::bad_request(format!(
                "the query has several forms ({}); specify one of them",
                given.join(", ")
            ))
            .at("query")),
        }
    }

    /// The text of a query that is a text; its length is checked.
    pub(crate) fn text(&self) -> ApiResult<Option<&str>> {
        self.check()?;
        self.text.as_deref().map(checked_text).transpose()
    }

    /// The kind of a query that must be encoded.
    fn kind(&self) -> QueryKind {
        if self.drawing.is_some() {
            QueryKind::Drawing
        } else if self.text.is_some() {
            QueryKind::Text
        } else if self.features.is_some() {
            QueryKind::Features
        } else {
            QueryKind::Picture
        }
    }

    /// Resolves the query to a code.
    pub(crate) async fn resolve(
        mut self,
        app: &App,
        model: &Arc<ServedModel>,
    ) -> ApiResult<ResolvedQuery> {
        self.check()?;
        let started = Instant::now();
        let outputs =
            self.outputs.take().map(|values| checked_outputs(model, values)).transpose()?;
        if let Some(code) = &self.code {
            let code = from_hex(model.bits, code).map_err(|err| err.at("query.code"))?;
            return Ok(resolved(model, self.modality, code, outputs, None, started));
        }
        if let Some(outputs) = outputs {
            let code =
                Codes::from_signs(model.bits, &outputs).map_err(ApiError::internal)?;
            let code = code.words().to_vec();
            return Ok(resolved(model, self.modality, code, Some(outputs), None, started));
        }
        if let Some(ItemRef { id, modality }) = self.item {
            let id = id.text();
            let found =
                items_of(model, &modality, "query.item.modality")?.find(&id).await?;
            let (items, item) = found.ok_or_else(|| {
                ApiError::not_found(format!("{modality} has no item {id:?}"))
                    .at("query.item.id")
            })?;
            let code = items.code(item)?;
            let labels = Some(items.label_names(item)?);
            let stored = items.outputs(item)?;
            let query = resolved(model, Some(modality), code, None, labels, started);
            return Ok(ResolvedQuery { item_outputs: stored, ..query });
        }
        let Some(encoder) = &model.encoder else {
            return Err(ApiError::bad_request(format!(
                "{} is an index without a model; query it by code or by item",
                model.name
            ))
            .at("query"));
        };
        let place = if self.modality.is_some() { "query.modality" } else { "query" };
        let modality = encoder.select_modality(self.modality.as_deref(), self.kind());
        let modality = modality
            .map_err(|err| ApiError::bad_request(err.to_string()).at(place))?
            .to_owned();
        let size = match self.kind() {
            QueryKind::Text | QueryKind::Features => Size::Short,
            QueryKind::Picture | QueryKind::Drawing => Size::Long,
        };
        let (worker, name) = (Arc::clone(model), modality.clone());
        let work = move |cancel: &Cancel| -> ApiResult<(u64, Encoded)> {
            let started = Instant::now();
            let input = self.input()?;
            let decode = micros(started);
            let encoder = worker.encoder.as_ref();
            let encoder =
                encoder.ok_or_else(|| ApiError::internal("the model has no encoder"))?;
            Ok((decode, encode(encoder, &name, input, cancel)?))
        };
        let (decode, encoded) = app.workers.run(size, work).await?;
        let EncodedQuery { outputs, code, .. } = encoded.query;
        let code = code.words().to_vec();
        let mut query = resolved(model, Some(modality), code, Some(outputs), None, started);
        query.timings.decode = decode;
        query.timings.features = encoded.features_us;
        query.timings.encode = encoded.encode_us;
        Ok(query)
    }

    /// The input to encode; decodes base64.
    fn input(self) -> ApiResult<QueryInput> {
        if let Some(text) = self.text {
            checked_text(&text)?;
            return Ok(QueryInput::Text(text));
        }
        if let Some(values) = self.features {
            return Ok(QueryInput::Features(values));
        }
        if let Some(drawing) = self.drawing {
            return Ok(QueryInput::Drawing(drawing));
        }
        if let Some(upload) = self.upload {
            return Ok(QueryInput::Picture(upload));
        }
        let text = self.picture.unwrap_or_default();
        Ok(QueryInput::Picture(picture(&text).map_err(|err| err.at("query.picture"))?))
    }
}

/// Real outputs, one finite number per bit.
fn checked_outputs(model: &ServedModel, values: Vec<f32>) -> ApiResult<Vec<f32>> {
    let bits = model.bits.get();
    let invalid = |message: String| ApiError::bad_request(message).at("query.outputs");
    if values.len() != bits {
        let count = values.len();
        return Err(invalid(format!("{count} outputs; the model has {bits}, one per bit")));
    }
    match values.iter().position(|value| !value.is_finite()) {
        Some(at) => Err(invalid(format!("output {at} is not a finite number"))),
        None => Ok(values),
    }
}

/// A text within the limits.
fn checked_text(text: &str) -> ApiResult<&str> {
    match text.chars().count() {
        0 => Err(ApiError::bad_request("the text is empty").at("query.text")),
        n if n > MAX_TEXT => Err(ApiError::bad_request(format!(
            "the text has {n} characters; the limit is {MAX_TEXT}"
        ))
        .at("query.text")),
        _ => Ok(text),
    }
}

/// An encoded query with the time of each stage.
pub(crate) struct Encoded {
    pub(crate) query: EncodedQuery,
    /// Microseconds for the features.
    features_us: u64,
    /// Microseconds for the model.
    encode_us: u64,
}

/// Encodes a query.
pub(crate) fn encode(
    encoder: &QueryEncoder,
    modality: &str,
    input: QueryInput,
    cancel: &Cancel,
) -> ApiResult<Encoded> {
    let kind = input.kind();
    let invalid = |message: String| {
        ApiError::bad_request(message).at(format!("query.{}", kind.name()))
    };
    let started = Instant::now();
    let features = encoder.features(modality, input, cancel);
    let features = features.map_err(|err| invalid(err.to_string()))?;
    let features_us = micros(started);
    let started = Instant::now();
    let query = encoder.encode_features(modality, features);
    let query = query.map_err(|err| invalid(err.to_string()))?;
    Ok(Encoded { query, features_us, encode_us: micros(started) })
}

/// The kinds of queries that a modality accepts, by name.
pub(crate) fn accepted_kinds(model: &ServedModel, modality: &str) -> Vec<&'static str> {
    let encoder = model.encoder.as_ref();
    let kinds = encoder.map_or(&[][..], |encoder| encoder.kinds(modality));
    kinds.iter().map(|kind| kind.name()).collect()
}

/// Decodes a picture in base64.
pub(crate) fn picture(text: &str) -> ApiResult<Vec<u8>> {
    // Browsers send data: URLs.
    let text = match text.strip_prefix("data:") {
        Some(rest) => rest.split_once(";base64,").map_or("", |(_, data)| data),
        None => text,
    };
    let bytes = STANDARD.decode(text).map_err(|err| {
        ApiError::bad_request(format!(
            "invalid base64: {err}; send the picture file encoded in base64"
        ))
    })?;
    if bytes.is_empty() {
        return Err(ApiError::bad_request(
            "the picture is empty; send the picture file encoded in base64",
        ));
    }
    Ok(bytes)
}

/// The items of a modality, or an error.
pub(crate) fn items_of<'a>(
    model: &'a ServedModel,
    modality: &str,
    place: &str,
) -> ApiResult<&'a ServedItems> {
    model.items_of(modality).ok_or_else(|| {
        let known: Vec<&str> = model.items.iter().map(ServedItems::modality).collect();
        ApiError::bad_request(format!(
            "no modality named {modality:?}; there are {}",
            known.join(", ")
        ))
        .at(place)
    })
}

fn resolved(
    model: &ServedModel,
    modality: Option<String>,
    code: Vec<u64>,
    outputs: Option<Vec<f32>>,
    labels: Option<Vec<String>>,
    started: Instant,
) -> ResolvedQuery {
    let centres = model.encoder.as_ref().map_or(Vec::new(), |encoder| {
        let near = encoder.nearest_centres(&code, outputs.as_deref(), CENTRES);
        let named = near.into_iter().filter_map(|centre| {
            let label = model.labels.get(centre.label)?.clone();
            Some(Centre { label, distance: centre.distance })
        });
        named.collect()
    });
    let timings = Timings { decode: micros(started), ..Timings::default() };
    ResolvedQuery { modality, code, outputs, item_outputs: None, labels, centres, timings }
}
