//! `POST /v1/search`: the nearest items of a modality to a query of any form.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::{Request, State};
use crosshash_codes::index::Query;
use crosshash_codes::{Bits, Codes};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ask::{Ask, Asked, Centre, Times, shelf};
use super::body;
use super::brain::micros;
use super::fault::{Answer, Fault};
use super::items::{Look, picture_path};
use super::limits::parse;
use super::run::Generation;
use super::shelf::{Hits, Shelf};
use super::state::App;
use super::view::hex;

const HITS: usize = 24;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    model: Option<String>,
    #[serde(default)]
    query: Ask,
    target: Option<String>,
    k: Option<usize>,
    #[serde(default)]
    skip: usize,
    radius: Option<u32>,
    filter: Option<String>,
    #[serde(default)]
    explain: Option<bool>,
}

#[derive(Serialize)]
pub(crate) struct Found {
    model: String,
    generation: u64,
    target: String,
    query: About,
    hits: Vec<Hit>,
    searched: usize,
    timings_us: Times,
}

/// What became of the query.
#[derive(Serialize)]
struct About {
    modality: Option<String>,
    code: String,
    bits: usize,
    centres: Vec<Centre>,
    labels: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Hit {
    id: String,
    item: u32,
    distance: u32,
    code: String,
    labels: Vec<String>,
    shared: Vec<String>,
    text: Option<String>,
    picture: Option<String>,
    meta: Map<String, Value>,
}

pub(crate) async fn post(
    State(app): State<Arc<App>>,
    request: Request,
) -> Answer<Json<Found>> {
    let started = Instant::now();
    let wish: Wish = if body::is(request.headers(), "multipart/form-data") {
        let (json, picture) = body::form(&app, request).await?;
        let mut wish: Wish = parse(json.as_deref().unwrap_or(b"{}"))?;
        wish.query.upload = Some(picture);
        wish
    } else {
        body::json(&app, request).await?
    };
    let decoded = micros(started);
    let model = app.model(wish.model.as_deref())?;
    let most = app.limits.k;
    let k = wish.k.unwrap_or(HITS);
    if k > most {
        return Err(
            Fault::bad(format!("{k} hits; at most {most}, go on with skip")).at("k")
        );
    }
    let reach = u32::try_from(model.bits.get()).unwrap_or(u32::MAX);
    if wish.radius.is_some_and(|radius| radius > reach) {
        return Err(
            Fault::bad(format!("the radius is at most {reach}, the bits")).at("radius")
        );
    }
    if wish.skip > 1_000_000 {
        return Err(
            Fault::bad("skip is at most 1,000,000; ask by a smaller radius").at("skip")
        );
    }
    let Wish { query, target, skip, radius, filter, explain, .. } = wish;
    let target = target_shelf(&model, target.as_deref())?;
    let mut asked = query.resolve(&app, &model).await?;
    let searching = Instant::now();
    let code = asked.code.clone();
    let (view, hits) = match filter.filter(|text| !text.trim().is_empty()) {
        None => target.search(code, k, skip, radius).await?,
        Some(filter) => {
            let page = Page { k, skip, radius };
            let bits = model.bits;
            let shelf = Arc::clone(&target);
            app.workers.run(move || filtered(&shelf, bits, code, &filter, page)).await??
        }
    };
    asked.times.search = micros(searching);
    asked.times.decode += decoded;
    let explain = explain.unwrap_or(true);
    let wanted: Vec<String> = match (&asked.labels, explain) {
        (_, false) => Vec::new(),
        (Some(labels), _) if !labels.is_empty() => labels.clone(),
        _ => asked.centres.iter().map(|centre| centre.label.clone()).collect(),
    };
    let look = Look { model: &model, shelf: &target };
    let searched = view.snapshot.len();
    let hits = hits.into_iter().map(|found| {
        let id = found.id.to_string();
        let labels = view.label_names(found.hit.item);
        let shown = look.shown(&id);
        Hit {
            item: found.hit.item,
            distance: found.hit.distance,
            code: view.hex(found.hit.item),
            shared: labels.iter().filter(|label| wanted.contains(label)).cloned().collect(),
            labels,
            text: shown.text,
            picture: shown
                .has_picture
                .then(|| picture_path(&model.name, &target.modality, &id)),
            meta: shown.meta,
            id,
        }
    });
    let hits = hits.collect();
    let Asked { modality, code, labels, centres, mut times, .. } = asked;
    times.total = micros(started);
    let code = hex(model.bits, &code);
    let query = About { modality, code, bits: model.bits.get(), centres, labels };
    Ok(Json(Found {
        model: model.name.clone(),
        generation: model.number,
        target: target.modality.clone(),
        query,
        hits,
        searched,
        timings_us: times,
    }))
}

/// The modality that is searched; the only one need not be named.
fn target_shelf(model: &Generation, target: Option<&str>) -> Answer<Arc<Shelf>> {
    match (target, &model.shelves[..]) {
        (None, [one]) => Ok(Arc::clone(one)),
        (Some(target), _) => Ok(Arc::clone(shelf(model, target, "target")?)),
        (None, all) => {
            let known: Vec<&str> = all.iter().map(|s| s.modality.as_str()).collect();
            let known = known.join(", ");
            Err(Fault::bad(format!("name the modality to search: {known}")).at("target"))
        }
    }
}

struct Page {
    k: usize,
    skip: usize,
    radius: Option<u32>,
}

/// A search among some items only.
fn filtered(
    shelf: &Shelf,
    bits: Bits,
    code: Vec<u64>,
    filter: &str,
    page: Page,
) -> Answer<Hits> {
    let view = shelf.view();
    let allowed = view.snapshot.filter(filter);
    let allowed = allowed.map_err(|err| Fault::bad(err.to_string()).at("filter"))?;
    let query =
        Query { k: page.k, skip: page.skip, radius: page.radius, allowed: Some(&allowed) };
    let codes = Codes::from_words(bits, code).map_err(Fault::ours)?;
    let found = view.snapshot.search(&codes, &query, &|_| ()).map_err(Fault::ours)?;
    Ok((view, found.into_iter().next().unwrap_or_default()))
}
