//! `POST /v1/encode`: the code of a query.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Request, State};
use serde::{Deserialize, Serialize};

use super::body;
use super::error::ApiResult;
use super::item_view::to_hex;
use super::query::{Centre, QueryRequest};
use super::state::App;
use super::timings::{Timings, micros};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EncodeRequest {
    #[serde(default, deserialize_with = "body::given")]
    model: Option<String>,
    query: QueryRequest,
}

#[derive(Serialize)]
pub(crate) struct EncodeResponse {
    modality: Option<String>,
    bits: usize,
    code: String,
    outputs: Option<Vec<f32>>,
    centres: Vec<Centre>,
    timings_us: Timings,
}

pub(crate) async fn post(
    State(app): State<Arc<App>>,
    request: Request,
) -> ApiResult<Json<EncodeResponse>> {
    let started = Instant::now();
    let request: EncodeRequest = body::json(&app, request).await?;
    let decoded = micros(started);
    let model = app.model(request.model.as_deref())?;
    let mut query = request.query.resolve(&app, &model).await?;
    query.timings.decode += decoded;
    query.timings.total = micros(started);
    Ok(Json(EncodeResponse {
        modality: query.modality,
        bits: model.bits.get(),
        code: to_hex(model.bits, &query.code),
        outputs: query.outputs,
        centres: query.centres,
        timings_us: query.timings,
    }))
}
