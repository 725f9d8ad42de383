//! `POST /v1/encode`: the code of anything that can be asked.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Request, State};
use serde::{Deserialize, Serialize};

use super::ask::{Ask, Centre, Times};
use super::body;
use super::brain::micros;
use super::fault::Answer;
use super::state::App;
use super::view::hex;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    model: Option<String>,
    query: Ask,
}

#[derive(Serialize)]
pub(crate) struct Encoded {
    modality: Option<String>,
    bits: usize,
    code: String,
    outputs: Option<Vec<f32>>,
    centres: Vec<Centre>,
    timings_us: Times,
}

pub(crate) async fn post(
    State(app): State<Arc<App>>,
    request: Request,
) -> Answer<Json<Encoded>> {
    let started = Instant::now();
    let wish: Wish = body::json(&app, request).await?;
    let decoded = micros(started);
    let model = app.model(wish.model.as_deref())?;
    let mut asked = wish.query.resolve(&app, &model).await?;
    asked.times.decode += decoded;
    asked.times.total = micros(started);
    Ok(Json(Encoded {
        modality: asked.modality,
        bits: model.bits.get(),
        code: hex(model.bits, &asked.code),
        outputs: asked.outputs,
        centres: asked.centres,
        timings_us: asked.times,
    }))
}
