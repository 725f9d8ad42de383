//! `ModalityIndex`: the live index of one modality of a model, for asynchronous handlers.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::Result;
use crosshash::data::Analysis;
use crosshash_codes::live::{
    Applied, Change, LiveIndex, Options, Reply, SearchReply, SearchRequest,
};
use crosshash_codes::segments::Snapshot;
use tokio::sync::oneshot;

use super::content::DatasetContent;
use super::error::{ApiError, ApiResult};
use super::word_index::{self, Changed, WordIndex};
use crate::progress::Progress;

/// The items of one modality.
pub(crate) struct ModalityIndex {
    pub(crate) modality: String,
    index: LiveIndex,
    changed: Arc<Mutex<Changed>>,
    words: OnceLock<WordIndex>,
}

impl ModalityIndex {
    /// Opens the index in a folder.
    pub(crate) fn open(modality: &str, folder: &Path) -> Result<ModalityIndex> {
        let items = Snapshot::open(folder)?.len();
        let progress = Progress::new(format!("preparing the search of {modality}"), items);
        let name = modality.to_owned();
        let changed: Arc<Mutex<Changed>> = Arc::default();
        let noted = Arc::clone(&changed);
        let index = LiveIndex::open(
            folder,
            Options {
                progress: &|done| progress.set(done),
                warn: Box::new(move |err| {
                    tracing::warn!(modality = name, error = %err, "background work on the index failed");
                }),
                changed: Box::new(move |commit, ids| {
                    noted.lock().unwrap_or_else(PoisonError::into_inner).note(commit, ids);
                }),
                ..Options::default()
            },
        )?;
        let words = OnceLock::new();
        Ok(ModalityIndex { modality: modality.to_owned(), index, changed, words })
    }

    /// Opens the keyword index of the items, if it is not open yet.
    pub(crate) fn open_words(
        self: &Arc<ModalityIndex>,
        analysis: &Analysis,
        shown: &DatasetContent,
    ) -> Result<()> {
        if self.words.get().is_none() {
            let (folder, snapshot) = (self.index.folder(), self.snapshot());
            let words =
                WordIndex::open(folder, &self.modality, &snapshot, analysis, shown)?;
            let _ = self.words.set(words);
            word_index::keep_updated(self)?;
        }
        Ok(())
    }

    /// The keyword index with all acknowledged changes; `None` if no item has words.
    pub(crate) fn words(&self) -> Option<&WordIndex> {
        self.update_words();
        self.words.get().filter(|words| !words.keywords.is_empty())
    }

    /// The keyword index, possibly without the last changes.
    pub(crate) fn open_word_index(&self) -> Option<&WordIndex> {
        self.words.get()
    }

    /// Whether items can be found by words.
    pub(crate) fn has_words(&self) -> bool {
        let changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        self.words.get().is_some_and(|words| !words.keywords.is_empty() || changed.is_any())
    }

    /// Lets searches by words see changed items.
    fn update_words(&self) {
        let Some(words) = self.words.get() else { return };
        let updated = words.update(&self.changed, &|| self.snapshot(), &self.modality);
        if let Err(err) = updated {
            tracing::warn!(modality = self.modality, error = %format!("{err:#}"), "changed items are not yet found by words");
        }
    }

    /// Writes changed items to the keyword index.
    pub(super) fn write_words(&self) {
        self.update_words();
        let Some(words) = self.words.get() else { return };
        if let Err(err) = words.keywords.commit() {
            tracing::warn!(modality = self.modality, error = %err, "the keyword index cannot be written; it is compared with the items at the next start");
        }
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
