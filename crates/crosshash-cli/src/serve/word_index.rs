//! The keyword index of a modality: texts and names of its items, beside their codes.
//!
//! It is derived from the live index, which is the only source of truth. A commit of the live index
//! notes the ids that it changed ([`Changed`]) before it is acknowledged. They are staged in the keyword
//! index before the next search by words, which then sees them, and written after a moment by a thread. When a service starts, the keyword index is compared with the items; so words
//! and codes agree whenever the process was stopped. A damaged keyword index is built again.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use anyhow::Result;
use crosshash::data::Analysis;
use crosshash::keywords::{KeywordIndex, KeywordItem};
use crosshash_codes::format::Id;
use crosshash_codes::segments::{SEED, Snapshot};

use super::content::DatasetContent;
use super::modality_index::ModalityIndex;
use crosshash::payload::DisplayFields;

/// The folder of the keyword index, in that of the live index.
const FOLDER: &str = "keywords";
/// How often changed items are written.
const PAUSE: Duration = Duration::from_millis(500);
/// Fields of `meta` that name an item.
const NAMES: [&str; 2] = ["name", "title"];

/// Ids that were changed since the keyword index was written, and the number of the last commit.
#[derive(Default)]
pub(super) struct Changed {
    ids: HashSet<Id>,
    commit: u64,
}

impl Changed {
    pub(super) fn note(&mut self, commit: u64, ids: Vec<Id>) {
        self.ids.extend(ids);
        self.commit = commit;
    }

    pub(super) fn is_any(&self) -> bool {
        !self.ids.is_empty()
    }
}

/// An open keyword index.
pub(crate) struct WordIndex {
    pub(crate) keywords: KeywordIndex,
    updating: Mutex<()>,
}

impl WordIndex {
    /// Opens the keyword index beside a live index and makes it agree with the items.
    pub(super) fn open(
        folder: &Path,
        modality: &str,
        snapshot: &Snapshot,
        analysis: &Analysis,
        shown: &DatasetContent,
    ) -> Result<WordIndex> {
        let folder = folder.join(FOLDER);
        let is_new = !folder.exists();
        let keywords = match KeywordIndex::open(&folder, analysis) {
            Ok(opened) => opened,
            Err(err) => {
                tracing::warn!(modality, error = %err, "the keyword index is damaged; it is built again");
                fs_err::remove_dir_all(&folder)?;
                KeywordIndex::open(&folder, analysis)?
            }
        };
        let texts = |item: u32| {
            let words = item_words(snapshot, item, modality, Some(shown));
            words.unwrap_or_else(|err| {
                tracing::warn!(modality, item, error = %format!("{err:#}"), "an item is not found by words");
                None
            })
        };
        let items = snapshot.items().filter_map(texts);
        let done = keywords.reconcile(items, snapshot.commit())?;
        let (written, removed) = (done.written, done.removed);
        let is_from_run = || snapshot.items().all(|item| snapshot.flags(item) & SEED != 0);
        if is_new && is_from_run() {
            tracing::info!(modality, written, "built the keyword index");
        } else if is_new {
            tracing::warn!(
                modality,
                written,
                "there was no keyword index; it was built again"
            );
        } else if written + removed > 0 {
            // Changes of the last half second before a stop.
            tracing::info!(
                modality,
                written,
                removed,
                "the keyword index differed from the items; it was brought up to date"
            );
        }
        Ok(WordIndex { keywords, updating: Mutex::new(()) })
    }

    /// Lets searches see the changed items. They stay noted if that fails.
    pub(super) fn update(
        &self,
        changed: &Mutex<Changed>,
        snapshot: &dyn Fn() -> Arc<Snapshot>,
        modality: &str,
    ) -> Result<()> {
        let _one_at_a_time = self.updating.lock().unwrap_or_else(PoisonError::into_inner);
        let (ids, commit) = {
            let mut changed = changed.lock().unwrap_or_else(PoisonError::into_inner);
            (std::mem::take(&mut changed.ids), changed.commit)
        };
        if ids.is_empty() {
            return Ok(());
        }
        // Taken after the ids, so that it contains their changes.
        let snapshot = snapshot();
        let changes = ids.iter().map(|id| {
            let words = match snapshot.find(id)? {
                Some(item) => item_words(&snapshot, item, modality, None)?,
                None => None,
            };
            Ok((id.to_string(), words))
        });
        match changes.collect::<Result<Vec<_>>>() {
            Ok(changes) => {
                self.keywords.stage(changes, commit);
                Ok(())
            }
            Err(err) => {
                let mut changed = changed.lock().unwrap_or_else(PoisonError::into_inner);
                changed.ids.extend(ids);
                Err(err)
            }
        }
    }
}

/// Updates the keyword index of a modality as long as it is in use.
pub(super) fn keep_updated(index: &Arc<ModalityIndex>) -> Result<()> {
    let index: Weak<ModalityIndex> = Arc::downgrade(index);
    let work = move || {
        loop {
            std::thread::sleep(PAUSE);
            let Some(index) = index.upgrade() else { return };
            index.write_words();
        }
    };
    std::thread::Builder::new().name("keywords".into()).spawn(work)?;
    Ok(())
}

/// The words of an item: its inserted text, or the text of the data set (its own, or that of the item
/// with the same id in a text modality); without a text, the names of its labels.
pub(crate) fn item_words(
    snapshot: &Snapshot,
    item: u32,
    modality: &str,
    shown: Option<&DatasetContent>,
) -> Result<Option<KeywordItem>> {
    let id = snapshot.id(item)?.to_string();
    let payload = snapshot.payload(item)?;
    let (mut text, mut names) = (None, Vec::new());
    if payload.is_empty() {
        if let Some(shown) = shown {
            text = shown.text(modality, &id);
            names.extend(shown.name(&id).map(str::to_owned));
        }
    } else {
        let (fields, _) = DisplayFields::decode(payload)?;
        text = fields.text;
        let named = NAMES.iter().filter_map(|name| fields.meta.get(*name)?.as_str());
        names.extend(named.map(str::to_owned));
    }
    let text = match text.filter(|text| !text.trim().is_empty()) {
        Some(text) => text,
        None => {
            let labels = snapshot.labels(item)?;
            let names = snapshot.label_names();
            let names: Vec<&str> = labels
                .iter()
                .filter_map(|&label| Some(names.get(label)?.as_str()))
                .collect();
            names.join(", ")
        }
    };
    let has_words = !text.is_empty() || !names.is_empty();
    Ok(has_words.then_some(KeywordItem { id, text, names }))
}
