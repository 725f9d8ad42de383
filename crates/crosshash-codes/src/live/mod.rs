//! `LiveIndex`: an index in a folder that many threads search and change at the same time.
//!
//! Readers take the [`Snapshot`] of the last commit and are never blocked. Changes that wait
//! together become one commit, which is synced before any of them is acknowledged. Searches that
//! wait together are answered by one pass over the codes. Folding the log, merging segments and
//! building search structures for them happen after the acknowledgement.
//!
//! If a change fails, for example because the disk is full, the index is as it was before.

mod commit;
mod searches;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

pub use commit::{Applied, Change, NewItem};
use commit::{Committer, Job};
use searches::Search;
pub use searches::{SearchReply, SearchRequest};

use crate::format::Id;
use crate::segments::{Snapshot, Writer};
use crate::{Error, Result};

/// An open index.
pub struct LiveIndex {
    folder: PathBuf,
    shared: Arc<Shared>,
    jobs: Sender<Job>,
    searches: Sender<Search>,
    grown: Sender<()>,
}

/// State shared by the threads.
pub(crate) struct Shared {
    snapshot: RwLock<Arc<Snapshot>>,
    writing: Mutex<Writing>,
    /// The kind of search structure over large parts.
    kind: String,
    warn: Box<dyn Fn(&Error) + Send + Sync>,
    changed: Box<dyn Fn(u64, Vec<Id>) + Send + Sync>,
}

struct Writing {
    writer: Writer,
    /// Whether changes are rejected.
    suspended: bool,
}

/// What became of a change.
#[derive(Debug)]
pub enum Reply {
    /// It is committed and on disk.
    Applied(Applied),
    /// Nothing was changed: the index is suspended, see [`LiveIndex::suspend`].
    Suspended,
    /// Nothing was changed: the change is not valid or could not be written.
    Failed(Error),
}

/// How an index is opened.
pub struct Options<'a> {
    /// The kind of search structure over large parts, see [`INDEXES`](crate::index::INDEXES).
    pub kind: &'a str,
    /// Called with the number of items for which a search structure is built.
    pub progress: &'a (dyn Fn(usize) + Sync),
    /// Called with errors of background work; the index works on without it.
    pub warn: Box<dyn Fn(&Error) + Send + Sync>,
    /// Called for every commit, in their order, with its number and the ids that it put or deleted:
    /// when readers see the commit, before its changes are acknowledged. For data that are derived
    /// from the items.
    pub changed: Box<dyn Fn(u64, Vec<Id>) + Send + Sync>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            kind: "auto",
            progress: &|_| (),
            warn: Box::new(|_| ()),
            changed: Box::new(|_, _| ()),
        }
    }
}

impl LiveIndex {
    /// Opens the index in a folder; fails while another process has it open for writing.
    pub fn open(folder: &Path, options: Options<'_>) -> Result<LiveIndex> {
        let writer = Writer::open(folder)?;
        let snapshot = Arc::clone(writer.snapshot());
        snapshot.prepare(options.kind, options.progress)?;
        let shared = Arc::new(Shared {
            snapshot: RwLock::new(snapshot),
            writing: Mutex::new(Writing { writer, suspended: false }),
            kind: options.kind.to_owned(),
            warn: options.warn,
            changed: options.changed,
        });
        let (jobs, waiting_jobs) = channel();
        let (searches, waiting_searches) = channel();
        let (grown, rebuilds) = channel();
        let committer = Committer { shared: Arc::clone(&shared), grown: grown.clone() };
        spawn("index commit", move || committer.run(&waiting_jobs))?;
        let own = Arc::clone(&shared);
        spawn("index search", move || searches::run(&waiting_searches, &own))?;
        let own = Arc::clone(&shared);
        spawn("index build", move || {
            while rebuilds.recv().is_ok() {
                if let Err(err) = own.snapshot().prepare(&own.kind, &|_| ()) {
                    (own.warn)(&err);
                }
            }
        })?;
        Ok(LiveIndex { folder: folder.to_owned(), shared, jobs, searches, grown })
    }

    /// The folder of the index.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The last commit.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.snapshot()
    }

    /// Changes items and waits until the change is on disk.
    pub fn apply(&self, change: Change) -> Reply {
        let (reply, answer) = channel();
        self.submit(change, move |outcome| {
            let _ = reply.send(outcome);
        });
        answer.recv().unwrap_or_else(|_| Reply::Failed(stopped()))
    }

    /// Changes items; `reply` is called when the change is on disk or has failed.
    pub fn submit(&self, change: Change, reply: impl FnOnce(Reply) + Send + 'static) {
        if let Err(unsent) = self.jobs.send(Job { change, reply: Box::new(reply) }) {
            (unsent.0.reply)(Reply::Failed(stopped()));
        }
    }

    /// Changes many items at once, by columns, and waits until the change is on disk: one commit of
    /// its own. `change` gets the writer and returns the ids that it put or deleted.
    pub fn write<T>(
        &self,
        change: impl FnOnce(&mut Writer) -> Result<(T, Vec<Id>)>,
    ) -> Result<T> {
        let mut writing = self.shared.writing();
        if writing.suspended {
            return Err(Error::content("the index accepts no changes at present"));
        }
        let before = writing.writer.snapshot().commit();
        let (done, ids) = change(&mut writing.writer)?;
        self.shared.publish(&writing.writer);
        let commit = writing.writer.snapshot().commit();
        if commit != before {
            (self.shared.changed)(commit, ids);
        }
        if let Err(err) = writing.writer.maintain() {
            (self.shared.warn)(&err);
        }
        self.shared.publish(&writing.writer);
        if !writing.writer.snapshot().is_prepared() {
            let _ = self.grown.send(());
        }
        Ok(done)
    }

    /// Finds the nearest items; `reply` is called with the hits and the snapshot they are from.
    /// `reals` are the real outputs of the query, which a ranking other than by Hamming distance
    /// needs.
    pub fn search(
        &self,
        code: Vec<u64>,
        reals: Vec<f32>,
        request: SearchRequest,
        reply: impl FnOnce(Result<SearchReply>) + Send + 'static,
    ) {
        let search = Search { code, reals, request, reply: Box::new(reply) };
        if let Err(unsent) = self.searches.send(search) {
            (unsent.0.reply)(Err(stopped()));
        }
    }

    /// Writes all remaining items into one segment; deleted ones leave the disk.
    pub fn compact(&self) -> Result<()> {
        let mut writing = self.shared.writing();
        let done = writing.writer.compact();
        self.shared.publish(&writing.writer);
        done
    }

    /// Rejects changes from now on and waits for those in progress: what the index contains now is
    /// final until [`LiveIndex::resume`].
    pub fn suspend(&self) {
        self.shared.writing().suspended = true;
    }

    /// Accepts changes again.
    pub fn resume(&self) {
        self.shared.writing().suspended = false;
    }
}

impl Shared {
    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn writing(&self) -> std::sync::MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets readers see the last commit.
    fn publish(&self, writer: &Writer) {
        let mut now = self.snapshot.write().unwrap_or_else(PoisonError::into_inner);
        *now = Arc::clone(writer.snapshot());
    }
}

fn stopped() -> Error {
    Error::content("the thread of the index has stopped")
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
    Ok(())
}

/// The ids of a deletion as an index knows them; those that it cannot contain are returned too.
pub fn typed_ids(snapshot: &Snapshot, texts: Vec<String>) -> (Vec<Id>, Vec<String>) {
    let mut ids = Vec::with_capacity(texts.len());
    let mut impossible = Vec::new();
    for text in texts {
        match snapshot.typed_id(&text) {
            Some(id) => ids.push(id),
            None => impossible.push(text),
        }
    }
    (ids, impossible)
}
