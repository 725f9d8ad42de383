//! `crosshash serve`: the HTTP service and its page.
//!
//! | file | contents |
//! |---|---|
//! | `state.rs`, `replaced.rs`, `run.rs` | models by name, replaced as a whole on reload; replaced versions in use; loading a model from a folder |
//! | `modality_index.rs`, `modality_files.rs`, `item_view.rs` | the live index of a modality; content of items |
//! | `served_items.rs`, `candidates.rs` | items of a modality, in an index or in a store; hits by meaning of both |
//! | `store_items.rs`, `store_pool.rs`, `breaker.rs`, `store_health.rs` | items in a store; its connections; whether it answers |
//! | `word_index.rs`, `word_search.rs`, `notice.rs` | the keyword index of a modality; searches by words, and by words and meaning; notices about unknown words |
//! | `query.rs` | resolves a query in any form to a code |
//! | `rank.rs`, `fields.rs`, `counts.rs`, `batch.rs` | parts of a search: score, filters and counts over fields, several queries |
//! | `search.rs`, `encode.rs`, `items.rs`, `pictures.rs`, `models.rs`, `map.rs` | the endpoints |
//! | `content.rs`, `thumbnail.rs` | texts and pictures of the data set |
//! | `body.rs`, `limits.rs`, `auth.rs`, `error.rs` | request bodies, limits, authorisation, errors |
//! | `context.rs`, `fair.rs` | the client of a request and its cancellation; a fair order of the work |
//! | `middleware.rs`, `metrics.rs`, `logs.rs`, `timings.rs` | for every request: time, counters, log |
//! | `listen.rs`, `timed_io.rs` | connections, their time limits, signals, shutdown |
//! | `page.rs`, `page/`, `openapi.rs` | the page; the OpenAPI document |
//!
//! The API is specified in `openapi.json`; a test requests every path, and every route is in it.

mod auth;
mod batch;
mod body;
mod breaker;
mod candidates;
pub(crate) mod content;
mod context;
mod counts;
mod encode;
mod error;
mod fair;
pub(crate) mod fields;
mod item_view;
mod items;
mod limits;
mod listen;
pub(crate) mod logs;
mod map;
pub(crate) mod metrics;
mod middleware;
mod modality_files;
mod modality_index;
mod models;
mod notice;
mod openapi;
mod page;
mod pictures;
mod query;
mod rank;
mod replaced;
mod run;
mod search;
mod served_items;
mod state;
mod store_health;
mod store_items;
mod store_pool;
mod thumbnail;
mod timed_io;
mod timings;
mod word_index;
mod word_search;

pub(crate) use content::DatasetContent;
pub(crate) use limits::{Limits, Memory};
pub(crate) use notice::unknown_words;
pub(crate) use run::{DataLocation, data_place};
pub(crate) use store_items::StoreOptions;
pub(crate) use word_index::item_words;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::routing::{MethodRouter, delete, get, post};

use self::auth::Guard;
use self::state::App;
use crate::interrupt;
use crate::progress::say;
use crate::weight_paths::WeightPaths;

/// Options of the service.
pub(crate) struct Options {
    /// A run, an index, or a folder of them.
    pub(crate) place: PathBuf,
    pub(crate) addr: SocketAddr,
    pub(crate) default: Option<String>,
    pub(crate) data: DataLocation,
    pub(crate) weights: WeightPaths,
    pub(crate) stores: StoreOptions,
    pub(crate) limits: Limits,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) cors: Option<String>,
    /// Opens the page in the browser.
    pub(crate) open: bool,
}

/// A path with its methods and handlers.
type Route = (&'static str, &'static [&'static str], MethodRouter<Arc<App>>);

/// Every path.
fn routes() -> Vec<Route> {
    vec![
        ("/", &["get"], get(page::index)),
        ("/page/{file}", &["get"], get(page::part)),
        ("/healthz", &["get"], get(middleware::health)),
        ("/metrics", &["get"], get(middleware::metrics)),
        ("/openapi.json", &["get"], get(openapi::get)),
        ("/v1/models", &["get"], get(models::list)),
        ("/v1/models/{model}", &["get"], get(models::get)),
        ("/v1/models/{model}/map", &["get"], get(models::map)),
        ("/v1/models/{model}/reload", &["post"], post(models::reload)),
        ("/v1/search", &["post"], post(search::post)),
        ("/v1/encode", &["post"], post(encode::post)),
        ("/v1/items", &["post", "delete"], post(items::post).merge(delete(items::delete))),
        (
            "/v1/items/{id}",
            &["get", "delete"],
            get(items::get).merge(delete(items::delete_one)),
        ),
        ("/v1/items/{id}/picture", &["get"], get(pictures::get)),
    ]
}

fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    for (path, _, methods) in routes() {
        router = router.route(path, methods);
    }
    router
        .fallback(middleware::no_such_path)
        .method_not_allowed_fallback(middleware::no_such_method)
        .layer(axum::middleware::from_fn_with_state(Arc::clone(app), middleware::around))
        .with_state(Arc::clone(app))
}

/// Serves until a signal stops the process.
pub(crate) fn serve(options: Options) -> Result<()> {
    let Options { place, addr, default, data, weights, stores, .. } = options;
    let Options { limits, token_file, cors, open, .. } = options;
    let guard = Guard::new(addr.ip().is_loopback(), token_file.as_deref(), cors)?;
    // Bind before the models are loaded, so that a port in use is reported immediately.
    let listener = std::net::TcpListener::bind(addr)
        .with_context(|| format!("--addr {addr}: cannot listen on this address"))?;
    listener.set_nonblocking(true)?;
    let app = App::open(&place, data, weights, &stores, default.as_deref(), limits, guard)?;
    let app = Arc::new(app);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("serve")
        .build()
        .context("starting the server threads")?;
    interrupt::hand_over();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let addr = listener.local_addr()?;
        tokio::spawn(Arc::clone(&app).poll());
        tokio::spawn(listen::reload_on_hangup(Arc::clone(&app)));
        let names: Vec<String> = app.models().all.keys().cloned().collect();
        tracing::info!(%addr, models = names.join(","), token = app.guard.requires_token(), "serving");
        let url = format!("http://{addr}/");
        say(format!("{} at {url} (press Ctrl-C to stop)", names.join(", ")));
        if open {
            browse(&url);
        }
        listen::serve(listener, router(&app), Arc::clone(&app), listen::stop_signal()).await
    })?;
    // Do not wait for threads whose result is not needed.
    runtime.shutdown_background();
    Ok(())
}

/// Opens a URL in the user's browser, if there is one.
fn browse(url: &str) {
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else if cfg!(windows) {
        "explorer"
    } else {
        "xdg-open"
    };
    let started = std::process::Command::new(opener)
        .arg(url)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn();
    if started.is_err() {
        say(format!("could not open a browser ({opener} not found); open {url} manually"));
    }
}
