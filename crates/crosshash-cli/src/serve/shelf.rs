//! `Shelf`: the living index of one modality of one model, with what its items show.
//!
//! Readers take the [`View`] of the last commit and are never blocked. Searches that wait
//! together are answered by one pass over the codes; changes that wait together become one
//! commit, synced before any of them is answered.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, anyhow};
use arc_swap::ArcSwap;
use crosshash_codes::format::{CodeFile, Id, Ids};
use crosshash_codes::index::Query;
use crosshash_codes::segments::{Found, Snapshot, Writer};
use crosshash_codes::{Codes, Labels};
use tokio::sync::oneshot;

use super::error::{ApiError, ApiResult};
use super::records::{Record, Records};
use super::view::View;

/// The kind of index over large segments.
const KIND: &str = "auto";
/// Searches answered by one pass, at most.
const TOGETHER: usize = 256;
/// Changes of one commit, at most, unless one alone has more.
const GROUP: usize = 4096;

/// Items of one modality.
pub(crate) struct Shelf {
    pub(crate) modality: String,
    folder: PathBuf,
    view: Arc<ArcSwap<View>>,
    pub(crate) records: Arc<Records>,
    writing: Arc<Mutex<Option<Open>>>,
    searches: Sender<Search>,
    changes: Sender<(Change, oneshot::Sender<ApiResult<Changed>>)>,
}

/// What a writer holds.
pub(crate) struct Open {
    writer: Writer,
    folder: PathBuf,
    /// What the log calls this index.
    name: String,
}

/// What is to be changed, whole or not at all.
pub(crate) enum Change {
    /// Items to add or replace.
    Put(Vec<New>),
    /// Ids to remove.
    Delete(Vec<String>),
}

/// One new item.
#[derive(Clone)]
pub(crate) struct New {
    pub(crate) code: Vec<u64>,
    pub(crate) labels: Vec<u32>,
    pub(crate) record: Record,
    pub(crate) picture: Option<Vec<u8>>,
}

/// What was changed.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// Items that were new, or removed.
    pub(crate) done: usize,
    /// Items that took the place of another.
    pub(crate) replaced: usize,
    /// Ids that were not there.
    pub(crate) missing: Vec<String>,
}

struct Search {
    code: Vec<u64>,
    ask: (usize, usize, Option<u32>), // k, skip, radius
    reply: oneshot::Sender<Result<Hits, String>>,
}

/// Hits and the view they were found in.
pub(crate) type Hits = (Arc<View>, Vec<Found>);

impl Shelf {
    /// Over an opened index; starts its two threads, which end with it.
    pub(crate) fn start(
        modality: &str,
        open: Open,
        records: Arc<Records>,
        before: Option<&View>,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Shelf> {
        let folder = open.folder.clone();
        let mut snapshot = Snapshot::open(&folder)?;
        if let Some(before) = before {
            snapshot.adopt(&before.snapshot);
        }
        snapshot.prepare(KIND, progress)?;
        let view = Arc::new(ArcSwap::from_pointee(View::new(snapshot)));
        let writing = Arc::new(Mutex::new(Some(open)));
        let (searches, waiting) = channel();
        let (changes, changing) = channel();
        let seen = Arc::clone(&view);
        spawn(format!("search {modality}"), move || search_together(&waiting, &seen))?;
        let thread = Committer {
            view: Arc::clone(&view),
            records: Arc::clone(&records),
            writing: Arc::clone(&writing),
        };
        spawn(format!("commit {modality}"), move || thread.run(&changing))?;
        let modality = modality.to_owned();
        Ok(Shelf { modality, folder, view, records, writing, searches, changes })
    }

    /// What can be found now.
    pub(crate) fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// The nearest items.
    pub(crate) async fn search(
        &self,
        code: Vec<u64>,
        k: usize,
        skip: usize,
        radius: Option<u32>,
    ) -> ApiResult<Hits> {
        let (reply, answer) = oneshot::channel();
        let search = Search { code, ask: (k, skip, radius), reply };
        self.searches
            .send(search)
            .map_err(|_| ApiError::internal("the searching thread is gone"))?;
        let answer =
            answer.await.map_err(|_| ApiError::internal("the searching thread is gone"))?;
        answer.map_err(ApiError::internal)
    }

    /// Changes items; when it returns, the change is on disk. None if this shelf has given its
    /// writer to its successor: ask again there.
    pub(crate) async fn change(&self, change: Change) -> ApiResult<Option<Changed>> {
        let (reply, answer) = oneshot::channel();
        let gone = || ApiError::internal("the writing thread is gone");
        self.changes.send((change, reply)).map_err(|_| gone())?;
        match answer.await {
            Ok(answer) => answer.map(Some),
            Err(_) => Ok(None), // dropped unanswered: there is no writer here any more
        }
    }

    /// Takes the writer away, for a successor; changes that come from now on are not made here.
    pub(crate) fn retire(&self) -> Option<Open> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Gives the writer back, if the successor was not to be.
    pub(crate) fn restore(&self, open: Open) {
        *self.writing.lock().unwrap_or_else(PoisonError::into_inner) = Some(open);
    }

    /// Where its index is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Open {
    pub(crate) fn new(writer: Writer, folder: &Path, name: &str) -> Open {
        Open { writer, folder: folder.to_owned(), name: name.to_owned() }
    }
}

fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new().name(name).spawn(work).context("starting a thread")?;
    Ok(())
}

/// Answers searches until nobody can ask any more.
fn search_together(waiting: &Receiver<Search>, view: &ArcSwap<View>) {
    while let Ok(first) = waiting.recv() {
        let mut all = vec![first];
        all.extend(waiting.try_iter().take(TOGETHER - 1));
        let view = view.load_full();
        while let Some(last) = all.last() {
            let ask = last.ask;
            let (same, rest): (Vec<Search>, Vec<Search>) =
                all.into_iter().partition(|search| search.ask == ask);
            all = rest;
            let words =
                same.iter().flat_map(|search| search.code.iter().copied()).collect();
            let query = Query { k: ask.0, skip: ask.1, radius: ask.2, allowed: None };
            let found = Codes::from_words(view.snapshot.bits(), words)
                .and_then(|codes| view.snapshot.search(&codes, &query, &|_| ()));
            match found {
                Ok(found) => {
                    for (search, hits) in same.into_iter().zip(found) {
                        // Who asked may have gone away.
                        let _ = search.reply.send(Ok((Arc::clone(&view), hits)));
                    }
                }
                Err(err) => same.into_iter().for_each(|search| {
                    let _ = search.reply.send(Err(err.to_string()));
                }),
            }
        }
    }
}

/// The thread that writes.
struct Committer {
    view: Arc<ArcSwap<View>>,
    records: Arc<Records>,
    writing: Arc<Mutex<Option<Open>>>,
}

/// What an id will be after a commit.
enum Next {
    Put(Box<New>),
    Gone,
}

impl Committer {
    fn run(&self, changing: &Receiver<(Change, oneshot::Sender<ApiResult<Changed>>)>) {
        while let Ok(first) = changing.recv() {
            let mut group = vec![first];
            let size = |change: &Change| match change {
                Change::Put(items) => items.len(),
                Change::Delete(ids) => ids.len(),
            };
            let mut items = size(&group[0].0);
            while items < GROUP
                && let Ok(more) = changing.try_recv()
            {
                items += size(&more.0);
                group.push(more);
            }
            let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
            // Without a writer the askers are dropped unanswered, and ask our successor.
            let Some(open) = writing.as_mut() else { continue };
            let (changes, replies): (Vec<_>, Vec<_>) = group.into_iter().unzip();
            match self.commit(open, changes) {
                Ok(all) => {
                    drop(writing);
                    for (reply, changed) in replies.into_iter().zip(all) {
                        let _ = reply.send(Ok(changed));
                    }
                    self.prepare();
                }
                Err(err) => {
                    for reply in replies {
                        let _ = reply.send(Err(ApiError::internal(format!("{err:#}"))));
                    }
                }
            }
        }
    }

    /// One commit of all changes, in their order.
    fn commit(&self, open: &mut Open, changes: Vec<Change>) -> Result<Vec<Changed>> {
        let snapshot = open.writer.snapshot();
        let present = |id: &str| -> Result<bool> {
            let Some(id) = snapshot.typed_id(id) else { return Ok(false) };
            Ok(snapshot.find(&id)?.is_some())
        };
        let mut next: HashMap<String, Next> = HashMap::new();
        let mut answers = Vec::with_capacity(changes.len());
        for change in changes {
            let mut changed = Changed::default();
            let there = |next: &HashMap<String, Next>, id: &str| match next.get(id) {
                Some(Next::Put(_)) => Ok(true),
                Some(Next::Gone) => Ok(false),
                None => present(id),
            };
            match change {
                Change::Put(items) => {
                    for item in items {
                        let id = item.record.id.clone();
                        match there(&next, &id)? {
                            true => changed.replaced += 1,
                            false => changed.done += 1,
                        }
                        next.insert(id, Next::Put(Box::new(item)));
                    }
                }
                Change::Delete(ids) => {
                    for id in ids {
                        if there(&next, &id)? {
                            changed.done += 1;
                            next.insert(id, Next::Gone);
                        } else {
                            changed.missing.push(id);
                        }
                    }
                }
            }
            answers.push(changed);
        }
        let (mut puts, mut gone) = (Vec::new(), Vec::new());
        for (id, next) in next {
            match next {
                Next::Put(item) => puts.push(*item),
                Next::Gone if present(&id)? => gone.push(id),
                Next::Gone => {} // came and went within this group
            }
        }
        puts.sort_unstable_by(|a, b| a.record.id.cmp(&b.record.id));
        if !puts.is_empty() || !gone.is_empty() {
            self.write(open, puts, gone)?;
        }
        Ok(answers)
    }

    fn write(&self, open: &mut Open, puts: Vec<New>, gone: Vec<String>) -> Result<()> {
        let snapshot = open.writer.snapshot();
        let commit = snapshot.info().commit + 1;
        let file = code_file(snapshot, &puts)?;
        let ids: Vec<Id> = gone.iter().filter_map(|id| snapshot.typed_id(id)).collect();
        let before = self.records.end();
        let with_picture = |new: New| (new.record, new.picture);
        let puts: Vec<_> = puts.into_iter().map(with_picture).collect();
        self.records.append(&open.name, commit, puts, gone)?;
        let committed = match file.codes.is_empty() {
            true => Ok(0),
            false => open.writer.upsert(&file),
        };
        let committed = committed.and_then(|_| match ids.is_empty() {
            true => Ok(0),
            false => open.writer.delete(&ids),
        });
        if let Err(err) = committed {
            // Nothing was acknowledged; the log must not tell of what is not in the index.
            if Snapshot::open(&open.folder).is_ok_and(|now| now.info().commit < commit) {
                self.records.take_back(before)?;
            }
            return Err(err.into());
        }
        self.look_again(&open.folder)
    }

    /// Lets readers see the last commit.
    fn look_again(&self, folder: &Path) -> Result<()> {
        let mut snapshot = Snapshot::open(folder)?;
        snapshot.adopt(&self.view.load().snapshot);
        self.view.store(Arc::new(View::new(snapshot)));
        Ok(())
    }

    /// Builds indexes for large segments that a merge has made; until then they are scanned.
    fn prepare(&self) {
        let view = self.view.load_full();
        if view.snapshot.is_prepared() {
            return;
        }
        let build = || -> Result<()> {
            let folder = {
                let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
                writing.as_ref().map(|open| open.folder.clone())
            };
            let Some(folder) = folder else { return Ok(()) };
            let mut snapshot = Snapshot::open(&folder)?;
            snapshot.adopt(&view.snapshot);
            snapshot.prepare(KIND, &|_| ())?;
            self.view.store(Arc::new(View::new(snapshot)));
            Ok(())
        };
        if let Err(err) = build() {
            tracing::warn!(error = %format!("{err:#}"), "an index was not built; codes are scanned");
        }
    }
}

/// New items as an index takes them.
pub(crate) fn code_file(snapshot: &Snapshot, puts: &[New]) -> Result<CodeFile> {
    let words = puts.iter().flat_map(|new| new.code.iter().copied()).collect();
    let names: Vec<String> = puts.iter().map(|new| new.record.id.clone()).collect();
    let ids = match snapshot.info().ids {
        Some("numbers") => {
            let number = |id: &String| {
                id.parse().map_err(|_| anyhow!("id {id:?}: ids of this index are numbers"))
            };
            Ids::Numbers(names.iter().map(number).collect::<Result<_>>()?)
        }
        _ => Ids::Names(names),
    };
    let classes = snapshot.info().labels;
    let labels = match classes {
        0 => None,
        _ => Some(Labels::from_indices(classes, puts.iter().map(|new| &new.labels))?),
    };
    Ok(CodeFile {
        codes: Codes::from_words(snapshot.bits(), words)?,
        ids: Some(ids),
        labels,
    })
}
