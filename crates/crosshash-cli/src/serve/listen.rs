//! Connections: a maximum number, timeouts, signals and graceful shutdown.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::state::App;

/// Time for requests in progress when the server stops.
const GRACE: Duration = Duration::from_secs(30);
/// Maximum bytes of the header of a request.
const MAX_HEADER: usize = 64 << 10;

/// Serves until `stop` is ready, then completes the requests in progress.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    app: Arc<App>,
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(app.limits.connections));
    let mut stop = std::pin::pin!(stop);
    loop {
        let permit = tokio::select! {
            biased;
            () = &mut stop => break,
            permit = Arc::clone(&room).acquire_owned() => permit?,
        };
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(err) => {
                // No free file descriptor, or the client has left: continue with others.
                tracing::warn!(error = %err, "accepting a connection failed");
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(app.limits.time)
            .max_buf_size(MAX_HEADER)
            .serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(err) = connection.await {
                tracing::debug!(error = %err, "connection error");
            }
            drop(permit);
        });
    }
    drop(listener);
    tracing::info!("stopping: completing requests in progress");
    if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("stopped with incomplete requests after {GRACE:?}");
    }
    Ok(())
}

/// Ready when SIGTERM or SIGINT arrives.
#[cfg(unix)]
pub(crate) async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

#[cfg(not(unix))]
pub(crate) async fn stop_signal() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

/// Reloads all models on SIGHUP.
#[cfg(unix)]
pub(crate) async fn reload_on_hangup(app: Arc<App>) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut hang_up) = signal(SignalKind::hangup()) else { return };
    while hang_up.recv().await.is_some() {
        let app = Arc::clone(&app);
        let _ = tokio::task::spawn_blocking(move || app.reload_all()).await;
    }
}

#[cfg(not(unix))]
pub(crate) async fn reload_on_hangup(_: Arc<App>) {}
