//! Connections: accepted up to a number, cut off when they are too slow, and let finish when the
//! server stops.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
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

/// How long requests that are being answered have when the server stops.
const GRACE: Duration = Duration::from_secs(30);
/// Bytes of the head of a request.
const HEAD: usize = 64 << 10;

/// Serves until `stop` is ready, then lets what has begun end.
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
        let Some(permit) = race(stop.as_mut(), Arc::clone(&room).acquire_owned()).await
        else {
            break;
        };
        let permit = permit?;
        let stream = match race(stop.as_mut(), listener.accept()).await {
            None => break,
            Some(Ok((stream, _))) => stream,
            Some(Err(err)) => {
                // Out of file descriptors, or a client that went away: others may do better.
                tracing::warn!(error = %err, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(app.limits.time)
            .max_buf_size(HEAD)
            .serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(err) = connection.await {
                tracing::debug!(error = %err, "a connection ended early");
            }
            drop(permit);
        });
    }
    drop(listener);
    tracing::info!("stopping: requests that have begun are answered");
    if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("stopped with requests unanswered after {GRACE:?}");
    }
    Ok(())
}

/// What `work` gives, or nothing if the server is to stop before.
async fn race<T>(
    mut stop: Pin<&mut impl Future<Output = ()>>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|context| {
        if stop.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        work.as_mut().poll(context).map(Some)
    })
    .await
}

/// Ready when the user or the system asks to stop.
#[cfg(unix)]
pub(crate) async fn asked_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut polite), Ok(mut key)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    std::future::poll_fn(|context| {
        if polite.poll_recv(context).is_ready() || key.poll_recv(context).is_ready() {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
}

#[cfg(not(unix))]
pub(crate) async fn asked_to_stop() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

/// Reloads all models whenever the process is told to (SIGHUP).
#[cfg(unix)]
pub(crate) async fn reload_when_told(app: Arc<App>) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut hang_up) = signal(SignalKind::hangup()) else { return };
    while hang_up.recv().await.is_some() {
        let app = Arc::clone(&app);
        let _ = tokio::task::spawn_blocking(move || app.reload_all()).await;
    }
}

#[cfg(not(unix))]
pub(crate) async fn reload_when_told(_: Arc<App>) {}
