//! `crosshash serve`: search over HTTP, and the page.
//!
//! | file | what |
//! |---|---|
//! | `state.rs`, `run.rs` | models by name, swapped whole on reload; from a folder to a model |
//! | `shelf.rs`, `view.rs`, `records.rs` | the living index of a modality; what inserted items show |
//! | `brain.rs`, `ask.rs`, `drawing.rs` | from a query in any form to a code |
//! | `search.rs`, `encode.rs`, `items.rs`, `pictures.rs`, `models.rs`, `map.rs` | the answers |
//! | `shown.rs`, `thumbnail.rs` | texts and pictures of the data set |
//! | `body.rs`, `limits.rs`, `token.rs`, `fault.rs` | what is let in, and how it is refused |
//! | `watch.rs`, `metrics.rs`, `logs.rs` | around every request: time, counts, log |
//! | `listen.rs` | connections, signals, stopping |
//! | `page.rs`, `page/`, `openapi.rs` | the page; the description for machines |
//!
//! The contract is `openapi.json`; a test walks every path of it, and every route is in it.

mod ask;
mod body;
mod brain;
mod drawing;
mod encode;
mod fault;
mod items;
mod limits;
mod listen;
pub(crate) mod logs;
mod map;
pub(crate) mod metrics;
mod models;
mod openapi;
mod page;
mod pictures;
mod records;
mod run;
mod search;
mod shelf;
mod shown;
mod state;
mod thumbnail;
mod token;
mod view;
mod watch;

pub(crate) use limits::Limits;
pub(crate) use run::DataPlace;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::routing::{MethodRouter, delete, get, post};

use self::state::App;
use self::token::Guard;
use crate::interrupt;
use crate::places::Places;
use crate::progress::say;

/// How to serve.
pub(crate) struct Options {
    /// A run, an index, or a folder of such.
    pub(crate) place: PathBuf,
    pub(crate) addr: SocketAddr,
    pub(crate) default: Option<String>,
    pub(crate) data: DataPlace,
    pub(crate) weights: Places,
    pub(crate) limits: Limits,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) cors: Option<String>,
    /// Opens the page in the browser.
    pub(crate) open: bool,
}

/// One path: what it answers to, and by what.
type Route = (&'static str, &'static [&'static str], MethodRouter<Arc<App>>);

/// Every path.
fn routes() -> Vec<Route> {
    vec![
        ("/", &["get"], get(page::index)),
        ("/page/{file}", &["get"], get(page::part)),
        ("/healthz", &["get"], get(watch::health)),
        ("/metrics", &["get"], get(watch::metrics)),
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
        .fallback(watch::no_such_path)
        .method_not_allowed_fallback(watch::no_such_method)
        .layer(axum::middleware::from_fn_with_state(Arc::clone(app), watch::around))
        .with_state(Arc::clone(app))
}

/// Serves until asked to stop.
pub(crate) fn serve(options: Options) -> Result<()> {
    let Options { place, addr, default, data, weights, limits, token_file, cors, open } =
        options;
    let guard = Guard::new(addr.ip().is_loopback(), token_file.as_deref(), cors)?;
    // Taken before the models are opened, so that a taken port is told at once.
    let listener = std::net::TcpListener::bind(addr)
        .with_context(|| format!("--addr {addr}: cannot listen there"))?;
    listener.set_nonblocking(true)?;
    let app = App::open(&place, data, weights, default.as_deref(), limits, guard)?;
    let app = Arc::new(app);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("serve")
        .build()
        .context("starting the threads of the server")?;
    interrupt::hand_over();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let addr = listener.local_addr()?;
        tokio::spawn(Arc::clone(&app).poll());
        tokio::spawn(listen::reload_when_told(Arc::clone(&app)));
        let names: Vec<String> = app.models().all.keys().cloned().collect();
        tracing::info!(%addr, models = names.join(","), token = app.guard.is_closed(), "serving");
        let url = format!("http://{addr}/");
        say(format!("{} at {url} (Ctrl-C stops it)", names.join(", ")));
        if open {
            browse(&url);
        }
        listen::serve(listener, router(&app), Arc::clone(&app), listen::asked_to_stop()).await
    })?;
    // Threads that still compute what nobody waits for are not waited for.
    runtime.shutdown_background();
    Ok(())
}

/// Opens a page in the user's browser, if there is one.
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
        say(format!(
            "no browser could be opened ({opener} is not there): open {url} yourself"
        ));
    }
}
