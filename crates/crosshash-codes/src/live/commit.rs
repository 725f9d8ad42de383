//! Group commit: changes that wait together become one record of the log.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use super::{Reply, Shared};
use crate::format::{Id, Ids};
use crate::segments::{ItemBatch, Snapshot, Writer};
use crate::{Bits, Codes, Error, Labels, Outputs, Result};

/// Items of one commit at most, unless one change has more.
const GROUP: usize = 4096;

/// A change of items, applied completely or not at all.
#[derive(Clone, Debug)]
pub enum Change {
    /// Items to add or replace.
    Put(Vec<NewItem>),
    /// Ids to delete.
    Delete(Vec<Id>),
}

/// An item to add.
#[derive(Clone, Debug)]
pub struct NewItem {
    /// The id.
    pub id: Id,
    /// The words of the code.
    pub code: Vec<u64>,
    /// The labels.
    pub labels: Vec<u32>,
    /// Opaque bytes.
    pub payload: Vec<u8>,
    /// The real outputs of the model, one per bit; `None` for the signs of the code. Ignored if
    /// the index stores no outputs.
    pub outputs: Option<Vec<f32>>,
}

/// The effect of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Items that were new.
    pub inserted: usize,
    /// Items that replaced another one.
    pub replaced: usize,
    /// Items that were deleted.
    pub deleted: usize,
    /// Ids to delete that did not exist.
    pub missing: Vec<Id>,
}

/// A change and the receiver of its result.
pub(super) struct Job {
    pub(super) change: Change,
    pub(super) reply: Box<dyn FnOnce(Reply) + Send>,
}

impl Change {
    fn len(&self) -> usize {
        match self {
            Change::Put(items) => items.len(),
            Change::Delete(ids) => ids.len(),
        }
    }

    /// The ids that it puts or deletes.
    fn ids(&self) -> Vec<Id> {
        match self {
            Change::Put(items) => items.iter().map(|item| item.id.clone()).collect(),
            Change::Delete(ids) => ids.clone(),
        }
    }

    /// Whether the index can take it.
    fn check(&self, snapshot: &Snapshot) -> Result<()> {
        let Change::Put(items) = self else { return Ok(()) };
        let info = snapshot.info();
        for (row, item) in items.iter().enumerate() {
            let is_number = matches!(item.id, Id::Number(_));
            let wanted = match info.ids {
                Some("numbers") => is_number,
                Some(_) => !is_number,
                None => is_number == matches!(items[0].id, Id::Number(_)),
            };
            if !wanted {
                return Err(Error::content(format!(
                    "row {row}: id {}: ids of this index are {}",
                    item.id,
                    if is_number { "names" } else { "numbers" }
                )));
            }
            let label = item.labels.iter().find(|&&label| label as usize >= info.labels);
            if let Some(&label) = label {
                return Err(Error::LabelRange {
                    row,
                    label: u64::from(label),
                    classes: info.labels,
                });
            }
            if item.code.len() != snapshot.bits().words() {
                return Err(Error::content(format!(
                    "row {row}: a code of {} words; {} are needed",
                    item.code.len(),
                    snapshot.bits().words()
                )));
            }
            Codes::from_words(snapshot.bits(), item.code.clone())?;
            if let Some(outputs) = &item.outputs {
                if outputs.len() != snapshot.bits().get() {
                    return Err(Error::content(format!(
                        "row {row}: {} outputs; {} are needed",
                        outputs.len(),
                        snapshot.bits()
                    )));
                }
                Outputs::from_reals(snapshot.bits(), outputs)?;
            }
        }
        Ok(())
    }
}

/// The thread that writes.
pub(super) struct Committer {
    pub(super) shared: Arc<Shared>,
    /// Notified when a part is so large that it needs a search structure.
    pub(super) grown: Sender<()>,
}

impl Committer {
    pub(super) fn run(&self, waiting: &Receiver<Job>) {
        while let Ok(first) = waiting.recv() {
            let mut items = first.change.len();
            let mut group = vec![first];
            while items < GROUP
                && let Ok(more) = waiting.try_recv()
            {
                items += more.change.len();
                group.push(more);
            }
            self.commit(group);
        }
    }

    fn commit(&self, group: Vec<Job>) {
        let mut writing = self.shared.writing();
        if writing.suspended {
            drop(writing);
            group.into_iter().for_each(|job| (job.reply)(Reply::Suspended));
            return;
        }
        let snapshot = Arc::clone(writing.writer.snapshot());
        let (mut changes, mut replies) = (Vec::new(), Vec::new());
        let kind = group.iter().find_map(|job| match &job.change {
            Change::Put(items) => items.first().map(|item| item.id.clone()),
            Change::Delete(_) => None,
        });
        for Job { change, reply } in group {
            // in an empty index the first change of a group decides what ids are
            let mixed = match (&change, &kind) {
                (Change::Put(items), Some(kind)) => items.first().is_some_and(|item| {
                    std::mem::discriminant(&item.id) != std::mem::discriminant(kind)
                }),
                _ => false,
            };
            let checked = change.check(&snapshot).and_then(|()| {
                if mixed && snapshot.info().ids.is_none() {
                    return Err(Error::content("an index has one kind of ids"));
                }
                Ok(())
            });
            match checked {
                Ok(()) => {
                    changes.push(change);
                    replies.push(reply);
                }
                Err(err) => reply(Reply::Failed(err)),
            }
        }
        let changed: Vec<Id> = changes.iter().flat_map(Change::ids).collect();
        match apply(&mut writing.writer, changes) {
            Ok(all) => {
                self.shared.publish(&writing.writer);
                (self.shared.changed)(writing.writer.snapshot().commit(), changed);
                for (reply, applied) in replies.into_iter().zip(all) {
                    reply(Reply::Applied(applied));
                }
                if let Err(err) = writing.writer.maintain() {
                    (self.shared.warn)(&err);
                }
                self.shared.publish(&writing.writer);
                if !writing.writer.snapshot().is_prepared() {
                    let _ = self.grown.send(());
                }
            }
            Err(err) => {
                let text = err.to_string();
                for reply in replies {
                    reply(Reply::Failed(Error::content(text.clone())));
                }
            }
        }
    }
}

/// What an id is after a commit: an item, by its position among the puts, or deleted.
type Next = Option<usize>;

/// Applies changes in their order as one commit.
fn apply(writer: &mut Writer, changes: Vec<Change>) -> Result<Vec<Applied>> {
    let snapshot = Arc::clone(writer.snapshot());
    let mut next: HashMap<Id, Next> = HashMap::new();
    let mut puts: Vec<Option<NewItem>> = Vec::new();
    let mut answers = Vec::with_capacity(changes.len());
    for change in changes {
        let mut applied = Applied::default();
        let exists = |next: &HashMap<Id, Next>, id: &Id| match next.get(id) {
            Some(now) => Ok(now.is_some()),
            None => Ok::<bool, Error>(snapshot.find(id)?.is_some()),
        };
        match change {
            Change::Put(items) => {
                for item in items {
                    if exists(&next, &item.id)? {
                        applied.replaced += 1;
                    } else {
                        applied.inserted += 1;
                    }
                    let before = next.insert(item.id.clone(), Some(puts.len()));
                    if let Some(Some(at)) = before {
                        puts[at] = None;
                    }
                    puts.push(Some(item));
                }
            }
            Change::Delete(ids) => {
                for id in ids {
                    if exists(&next, &id)? {
                        applied.deleted += 1;
                    } else {
                        applied.missing.push(id.clone());
                    }
                    if let Some(Some(at)) = next.insert(id, None) {
                        puts[at] = None;
                    }
                }
            }
        }
        answers.push(applied);
    }
    let deleted = next.into_iter().filter(|(_, now)| now.is_none()).map(|(id, _)| id);
    let mut deleted: Vec<Id> = deleted.collect();
    deleted.sort_unstable();
    let items = batch(&snapshot, puts.into_iter().flatten().collect())?;
    writer.apply(items, deleted)?;
    Ok(answers)
}

/// Items as columns.
fn batch(snapshot: &Snapshot, items: Vec<NewItem>) -> Result<ItemBatch> {
    let bits = snapshot.bits();
    if items.is_empty() {
        return Ok(ItemBatch::new(Codes::new(bits)));
    }
    let words = items.iter().flat_map(|item| item.code.iter().copied()).collect();
    let labels = match snapshot.info().labels {
        0 => None,
        classes => {
            Some(Labels::from_indices(classes, items.iter().map(|item| &item.labels))?)
        }
    };
    let outputs = snapshot.has_outputs().then(|| outputs(bits, &items)).transpose()?;
    let (mut numbers, mut names) = (Vec::new(), Vec::new());
    let mut payloads = Vec::with_capacity(items.len());
    for item in items {
        match item.id {
            Id::Number(number) => numbers.push(number),
            Id::Name(name) => names.push(name),
        }
        payloads.push(item.payload.into());
    }
    let ids = if names.is_empty() { Ids::Numbers(numbers) } else { Ids::Names(names) };
    let codes = Codes::from_words(bits, words)?;
    Ok(ItemBatch {
        codes,
        ids: Some(ids),
        labels,
        payloads: Some(payloads),
        flags: None,
        outputs,
    })
}

/// The outputs of items; the signs of the code where there are none.
fn outputs(bits: Bits, items: &[NewItem]) -> Result<Outputs> {
    let mut all = Outputs::new(bits);
    for item in items {
        all.append(&match &item.outputs {
            Some(reals) => Outputs::from_reals(bits, reals)?,
            None => Outputs::from_codes(&Codes::from_words(bits, item.code.clone())?),
        })?;
    }
    Ok(all)
}
