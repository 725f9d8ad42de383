//! `ModalityIndex`: the live index of one modality of a model, for asynchronous handlers.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use crosshash_codes::live::{
    Applied, Change, LiveIndex, Options, Reply, SearchReply, SearchRequest,
};
use crosshash_codes::segments::Snapshot;
use tokio::sync::oneshot;

use super::error::{ApiError, ApiResult};
use crate::progress::Progress;

/// The items of one modality.
pub(crate) struct ModalityIndex {
    pub(crate) modality: String,
    index: LiveIndex,
}

impl ModalityIndex {
    /// Opens the index in a folder.
    pub(crate) fn open(modality: &str, folder: &Path) -> Result<ModalityIndex> {
        let items = Snapshot::open(folder)?.len();
        let progress = Progress::new(format!("preparing the search of {modality}"), items);
        let name = modality.to_owned();
        let index = LiveIndex::open(
            folder,
            Options {
                progress: &|done| progress.set(done),
                warn: Box::new(move |err| {
                    tracing::warn!(modality = name, error = %err, "background work on the index failed");
                }),
                ..Options::default()
            },
        )?;
        Ok(ModalityIndex { modality: modality.to_owned(), index })
    }

    /// The items of the last commit.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.index.snapshot()
    }

    /// The nearest items, and the snapshot they were found in. `reals` are the real outputs of the
    /// query.
    pub(crate) async fn search(
        &self,
        code: Vec<u64>,
        reals: Vec<f32>,
        request: SearchRequest,
    ) -> ApiResult<SearchReply> {
        let (reply, answer) = oneshot::channel();
        self.index.search(code, reals, request, |found| {
            let _ = reply.send(found); // the client may have gone away
        });
        let found = answer.await.map_err(ApiError::internal)?;
        found.map_err(ApiError::internal)
    }

    /// Changes items; when it returns, the change is on disk. `None` if the index is being
    /// replaced: try again with the new one.
    pub(crate) async fn change(&self, change: Change) -> ApiResult<Option<Applied>> {
        let (reply, answer) = oneshot::channel();
        self.index.submit(change, |outcome| {
            let _ = reply.send(outcome);
        });
        match answer.await.map_err(ApiError::internal)? {
            Reply::Applied(applied) => Ok(Some(applied)),
            Reply::Suspended => Ok(None),
            Reply::Failed(err) => Err(ApiError::internal(err)),
        }
    }

    /// Rejects changes, because the index is being replaced.
    pub(crate) fn suspend(&self) {
        self.index.suspend();
    }

    /// Accepts changes again, because the index is not replaced.
    pub(crate) fn resume(&self) {
        self.index.resume();
    }

    /// The folder of the index.
    pub(crate) fn folder(&self) -> &Path {
        self.index.folder()
    }
}
