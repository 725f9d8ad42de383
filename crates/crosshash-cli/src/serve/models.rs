//! `GET /v1/models`, and report, history, settings, map and reload of one model.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use crosshash::{HistoryTable, RunDir, RunReport};
use crosshash_codes::Cancel;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::body;
use super::error::{ApiError, ApiResult};
use super::fair::Size;
use super::map::Progress;
use super::query::accepted_kinds;
use super::run::ServedModel;
use super::served_items::ServedItems;
use super::state::App;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoParameters {}

/// All models.
pub(crate) async fn list(State(app): State<Arc<App>>) -> ApiResult<Json<Value>> {
    let models = app.models();
    let work = move |_: &Cancel| -> ApiResult<Value> {
        let all = models.all.values().map(|model| described(model));
        let all = all.collect::<ApiResult<Vec<Value>>>()?;
        Ok(json!({ "default": models.default, "models": all }))
    };
    Ok(Json(app.workers.run(Size::Short, work).await?))
}

/// One model with its training history and evaluation.
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    request: Request,
) -> ApiResult<Json<Value>> {
    let (name, NoParameters {}) = body::path_and_query(request).await?;
    let model = app.model(Some(&name))?;
    let work = move |_: &Cancel| -> ApiResult<Value> {
        let mut value = described(&model)?;
        let run = RunDir::open(&model.folder).ok();
        let report = run.as_ref().and_then(|run| run.report().ok());
        let history = run.as_ref().and_then(|run| run.history().ok());
        value["report"] = report.as_ref().map_or(Value::Null, shortened);
        value["history"] = history.as_ref().map_or(Value::Null, rows);
        value["settings"] = run.as_ref().and_then(settings).unwrap_or(Value::Null);
        Ok(value)
    };
    Ok(Json(app.workers.run(Size::Short, work).await?))
}

fn described(model: &ServedModel) -> ApiResult<Value> {
    let modalities = model.items.iter().map(|items| {
        json!({
            "name": items.modality(),
            "asks": accepted_kinds(model, items.modality()),
            "shows": model.shown.form(items.modality()),
            "items": items.len(),
            "store": items.index().is_none(),
        })
    });
    let mut counts = vec![0; model.labels.len()];
    for index in model.items.iter().filter_map(ServedItems::index) {
        let snapshot = index.snapshot();
        let own = snapshot.label_counts().map_err(ApiError::internal)?;
        for (count, own) in counts.iter_mut().zip(own) {
            *count = (*count).max(*own);
        }
    }
    let labels = model.labels.iter().zip(counts);
    // Items in stores are not counted.
    let is_known = model.items.iter().all(|items| items.index().is_some());
    let label = |(name, items): (&String, usize)| json!({ "name": name, "items": is_known.then_some(items) });
    let labels: Vec<Value> = labels.map(label).collect();
    Ok(json!({
        "name": model.name,
        "title": model.title,
        "method": model.method,
        "bits": model.bits.get(),
        "generation": model.number,
        "modalities": modalities.collect::<Vec<_>>(),
        "labels": labels,
        "suggestions": model.suggestions,
    }))
}

/// The part of a report that the page shows.
fn shortened(report: &RunReport) -> Value {
    let directions = report.directions.iter().map(|direction| {
        json!({
            "query": direction.query,
            "database": direction.database,
            "map": direction.map(),
            "chance": direction.chance(),
            "recall": direction.recall_of_pairs(),
            "metrics": metrics(direction.user_metrics()),
            "curve": direction.precision_recall(),
        })
    });
    json!({ "directions": directions.collect::<Vec<_>>() })
}

fn metrics(all: Vec<(&'static str, f64)>) -> Map<String, Value> {
    all.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect()
}

/// The epochs as objects, without empty cells.
fn rows(history: &HistoryTable) -> Value {
    let row = |cells: &Vec<Option<f64>>| -> Value {
        let cells = history.columns.iter().zip(cells);
        let object: Map<String, Value> = cells
            .filter_map(|(name, cell)| {
                let value = match (name.as_str(), (*cell)?) {
                    #[expect(clippy::cast_possible_truncation, reason = "a small count")]
                    #[expect(clippy::cast_sign_loss, reason = "a count")]
                    ("epoch", value) => json!(value as u64),
                    (_, value) => json!(value),
                };
                Some((name.clone(), value))
            })
            .collect();
        Value::Object(object)
    };
    history.rows.iter().map(row).collect()
}

fn settings(run: &RunDir) -> Option<Value> {
    run.config().ok()?.to_json().ok()
}

/// The map of outputs; computed at the first request.
pub(crate) async fn map(
    State(app): State<Arc<App>>,
    request: Request,
) -> ApiResult<(StatusCode, Json<Value>)> {
    let (name, NoParameters {}) = body::path_and_query(request).await?;
    let model = app.model(Some(&name))?;
    match app.maps.get(&model, &app.weights) {
        Progress::Done(map) => Ok((StatusCode::OK, Json((*map).clone()))),
        Progress::Computing => {
            Ok((StatusCode::ACCEPTED, Json(json!({ "status": "computing" }))))
        }
        Progress::None(why) => Err(ApiError::not_found(why).at("model")),
    }
}

/// Reloads a model.
pub(crate) async fn reload(
    State(app): State<Arc<App>>,
    request: Request,
) -> ApiResult<Json<Value>> {
    let (name, NoParameters {}) = body::path_and_query(request).await?;
    app.model(Some(&name))?;
    // One at a time: those that wait keep no thread, and leave with their clients.
    let turn = Arc::clone(&app.reload_turn).lock_owned().await;
    app.replaced.room().await;
    let (worker, again) = (Arc::clone(&app), name.clone());
    let work = move || {
        let reloaded = worker.reload(&again);
        drop(turn);
        reloaded
    };
    let done = tokio::task::spawn_blocking(work).await;
    match done.map_err(ApiError::internal)? {
        Ok(generation) => Ok(Json(json!({ "model": name, "generation": generation }))),
        Err(err) => {
            Err(ApiError::conflict(format!("{err:#}; the current model stays in use")))
        }
    }
}
