//! `RequestContext`: what belongs to one request: its client, and whether somebody still waits for
//! its response. Handlers and the work that they start find it without passing it on.

use std::sync::{Arc, Mutex, PoisonError};

use crosshash_codes::Cancel;
use tokio::sync::OwnedSemaphorePermit;

use super::fair::Flow;

tokio::task_local! {
    static CURRENT: RequestContext;
}

/// The context of a request. Clones are the same context.
#[derive(Clone, Default)]
pub(crate) struct RequestContext {
    /// Set when the client has gone or the time is over.
    pub(crate) cancel: Cancel,
    /// The client, for a fair order.
    pub(crate) flow: Flow,
    /// The memory that the request has reserved.
    memory: Arc<Mutex<Vec<OwnedSemaphorePermit>>>,
}

impl RequestContext {
    pub(crate) fn new(flow: Flow) -> RequestContext {
        RequestContext { flow, ..RequestContext::default() }
    }

    /// The context of the current request; an own one outside of requests.
    pub(crate) fn current() -> RequestContext {
        CURRENT.try_with(Clone::clone).unwrap_or_default()
    }

    /// A future within this context.
    pub(crate) fn scope<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, future)
    }

    /// Keeps reserved memory until the request ends.
    pub(crate) fn keep(&self, permit: OwnedSemaphorePermit) {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).push(permit);
    }
}

/// Cancels the work of a request when it is dropped: with the response, or with the connection.
pub(crate) struct CancelOnDrop {
    pub(crate) context: RequestContext,
    pub(crate) task: tokio::task::AbortHandle,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.context.cancel.cancel();
        self.task.abort();
    }
}
