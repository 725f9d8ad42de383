//! `GET /v1/models` and what belongs to one model: report, history, settings, map, reload.

use std::path::Path;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use crosshash::Config;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::body;
use super::fault::{Answer, Fault};
use super::map::Progress;
use super::run::Generation;
use super::state::App;
use crate::fit::CONFIG;
use crate::report;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// All models.
pub(crate) async fn list(State(app): State<Arc<App>>) -> Answer<Json<Value>> {
    let models = app.models();
    let work = move || {
        let all: Vec<Value> = models.all.values().map(|model| described(model)).collect();
        json!({ "default": models.default, "models": all })
    };
    Ok(Json(app.workers.run(work).await?))
}

/// One model with how it was trained and judged.
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    request: Request,
) -> Answer<Json<Value>> {
    let (name, Nothing {}) = body::path_and_query(request).await?;
    let model = app.model(Some(&name))?;
    let work = move || {
        let mut value = described(&model);
        value["report"] =
            report::read(&model.folder).map_or(Value::Null, |full| shortened(&full));
        value["history"] = history(&model.folder).unwrap_or(Value::Null);
        value["settings"] = settings(&model.folder).unwrap_or(Value::Null);
        value
    };
    Ok(Json(app.workers.run(work).await?))
}

fn described(model: &Generation) -> Value {
    let modalities = model.shelves.iter().map(|shelf| {
        let asks =
            model.brain.as_ref().map_or(Vec::new(), |brain| brain.asks(&shelf.modality));
        json!({
            "name": shelf.modality,
            "asks": asks,
            "shows": model.shown.form(&shelf.modality),
            "items": shelf.view().snapshot.len(),
        })
    });
    let mut counts = vec![0; model.labels.len()];
    for shelf in &model.shelves {
        for (count, own) in counts.iter_mut().zip(shelf.view().label_counts()) {
            *count = (*count).max(*own);
        }
    }
    let labels = model.labels.iter().zip(counts);
    let labels: Vec<Value> =
        labels.map(|(name, items)| json!({ "name": name, "items": items })).collect();
    json!({
        "name": model.name,
        "title": model.title,
        "method": model.method,
        "bits": model.bits.get(),
        "generation": model.number,
        "modalities": modalities.collect::<Vec<_>>(),
        "labels": labels,
    })
}

/// Of a run's report, what is drawn.
fn shortened(report: &Value) -> Value {
    let direction = |direction: &Value| {
        let judged = &direction["report"];
        let curves = &judged["curves"];
        let values = |key: &str| curves[key].as_array().cloned().unwrap_or_default();
        let curve: Vec<Value> = values("recall")
            .into_iter()
            .zip(values("precision"))
            .map(|(recall, precision)| json!([recall, precision]))
            .collect();
        json!({
            "query": direction["query"],
            "database": direction["database"],
            "map": judged["map"]["tie_aware"],
            "chance": judged["chance"],
            "curve": curve,
        })
    };
    let all = report["directions"].as_array().map_or(&[][..], Vec::as_slice);
    json!({ "directions": all.iter().map(direction).collect::<Vec<_>>() })
}

/// The epochs, as their table has them; empty cells are left out.
fn history(run: &Path) -> Option<Value> {
    let text = fs_err::read_to_string(run.join("history.csv")).ok()?;
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next()?.split(',').collect();
    let row = |line: &str| -> Value {
        let cells = names.iter().zip(line.split(','));
        let number = |(name, cell): (&&str, &str)| {
            let number: f64 = cell.parse().ok()?;
            let whole = *name == "epoch";
            let value =
                if whole { json!(cell.parse::<u64>().ok()?) } else { json!(number) };
            Some(((*name).to_owned(), value))
        };
        Value::Object(cells.filter_map(number).collect::<Map<String, Value>>())
    };
    Some(lines.map(row).collect())
}

fn settings(run: &Path) -> Option<Value> {
    let text = fs_err::read_to_string(run.join(CONFIG)).ok()?;
    Config::parse(&text, &[]).ok()?.to_json().ok()
}

/// The map of outputs; it is made when it is asked for first.
pub(crate) async fn map(
    State(app): State<Arc<App>>,
    request: Request,
) -> Answer<(StatusCode, Json<Value>)> {
    let (name, Nothing {}) = body::path_and_query(request).await?;
    let model = app.model(Some(&name))?;
    match app.maps.get(&model, &app.weights) {
        Progress::Done(map) => Ok((StatusCode::OK, Json((*map).clone()))),
        Progress::Computing => {
            Ok((StatusCode::ACCEPTED, Json(json!({ "status": "computing" }))))
        }
        Progress::None(why) => Err(Fault::missing(why).at("model")),
    }
}

/// Opens a model anew.
pub(crate) async fn reload(
    State(app): State<Arc<App>>,
    request: Request,
) -> Answer<Json<Value>> {
    let (name, Nothing {}) = body::path_and_query(request).await?;
    app.model(Some(&name))?;
    let (worker, again) = (Arc::clone(&app), name.clone());
    let done = tokio::task::spawn_blocking(move || worker.reload(&again)).await;
    match done.map_err(Fault::ours)? {
        Ok(generation) => Ok(Json(json!({ "model": name, "generation": generation }))),
        Err(err) => Err(Fault::conflict(format!("{err:#}; the model goes on as it was"))),
    }
}
