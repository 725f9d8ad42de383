//! Connections: a maximum number and a reserve, timeouts, signals and graceful shutdown.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::extract::Extension;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::fair::Flow;
use super::state::App;
use super::timed_io::TimedIo;

/// Time for requests in progress when the server stops.
const GRACE: Duration = Duration::from_secs(30);
/// Maximum bytes of the header of a request, and about what is read ahead of a connection.
const MAX_HEADER: usize = 64 << 10;
/// Connections beyond the maximum that are accepted for health and metrics; the oldest is closed
/// for a new one.
const RESERVE: usize = 32;
/// Time of a connection of the reserve.
const RESERVE_TIME: Duration = Duration::from_secs(5);
/// File descriptors for other purposes than connections.
const OTHER_FILES: u64 = 256;

/// Which connection a request came by.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) flow: Flow,
    /// Whether it is one of the reserve, for health and metrics only.
    pub(crate) reserve: bool,
}

/// Serves until `stop` is ready, then completes the requests in progress.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    app: Arc<App>,
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(most_connections(app.limits.connections)));
    let mut reserve = Reserve::default();
    let mut stop = std::pin::pin!(stop);
    loop {
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
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
            reserve.serve(stream, &router);
            continue;
        };
        let client = Client { flow: Flow::default(), reserve: false };
        let service = TowerToHyperService::new(router.clone().layer(Extension(client)));
        let time = app.limits.time;
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(time)
            .max_buf_size(MAX_HEADER)
            .serve_connection(TokioIo::new(TimedIo::new(stream, time)), service);
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

/// Connections beyond the maximum.
#[derive(Default)]
struct Reserve(VecDeque<AbortHandle>);

impl Reserve {
    /// Serves one request, if it is for health or metrics.
    fn serve(&mut self, stream: TcpStream, router: &Router) {
        self.0.retain(|task| !task.is_finished());
        if self.0.len() >= RESERVE
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.abort();
        }
        let client = Client { flow: Flow::default(), reserve: true };
        let service = TowerToHyperService::new(router.clone().layer(Extension(client)));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(RESERVE_TIME)
            .max_buf_size(MAX_HEADER)
            .keep_alive(false)
            .serve_connection(TokioIo::new(TimedIo::new(stream, RESERVE_TIME)), service);
        let task =
            tokio::spawn(
                async move { tokio::time::timeout(RESERVE_TIME, connection).await },
            );
        self.0.push_back(task.abort_handle());
    }
}

/// The maximum of connections that the file descriptors of the process allow.
#[cfg(unix)]
fn most_connections(wanted: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // Not more than needed: some programs visit every possible descriptor.
    let needed = wanted as u64 + RESERVE as u64 + OTHER_FILES;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < needed) {
        let raised = maximum.map_or(needed, |maximum| needed.min(maximum));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum });
    }
    let Some(files) = getrlimit(Resource::Nofile).current else { return wanted };
    let room = files.saturating_sub(RESERVE as u64 + OTHER_FILES).max(files / 4);
    let room = usize::try_from(room).unwrap_or(wanted);
    if room < wanted {
        tracing::warn!(
            files,
            connections = room,
            "fewer connections than --max-connections: the system allows too few open files (ulimit -n)"
        );
    }
    wanted.min(room)
}

#[cfg(not(unix))]
fn most_connections(wanted: usize) -> usize {
    wanted
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
