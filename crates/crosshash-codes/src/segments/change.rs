//! `Snapshot` checks a change before it is applied, and gives ids to the items of one.

use super::batch::ItemBatch;
use super::manifest::IdKind;
use super::memory::duplicate;
use super::record::Change;
use super::snapshot::{Snapshot, kind_of, too_many};
use crate::format::{Id, Ids};
use crate::{Error, Labels, Outputs, Result};

impl Snapshot {
    /// Whether the items fit the index.
    pub(super) fn check(&self, items: &ItemBatch) -> Result<()> {
        items.check_rows()?;
        let manifest = &self.manifest;
        if items.codes.bits().get() != manifest.bits {
            return Err(Error::Mismatch {
                left: "the index".into(),
                left_size: manifest.bits,
                right: "the new items".into(),
                right_size: items.codes.bits().get(),
                unit: "bits a code",
                remedy: "encode both by one model",
            });
        }
        let total = self.rows() + items.len();
        u32::try_from(total).map_err(|_| too_many(total))?;
        let kind = kind_of(items.ids.as_ref());
        if let Some(have) = manifest.ids
            && have != kind
            && !items.is_empty()
        {
            let word = |kind| if kind == IdKind::Names { "names" } else { "numbers" };
            return Err(Error::content(format!(
                "the index has {} as ids, the new items have {}; one index has one kind",
                word(have),
                word(kind)
            )));
        }
        if let Some(id) = items.ids.as_ref().and_then(duplicate) {
            return Err(Error::content(format!(
                "id {id} occurs twice; every item needs its own"
            )));
        }
        if items.outputs.is_some() && manifest.outputs.is_none() {
            return Err(Error::content(
                "the index stores no outputs; build it with outputs, or add items without them",
            ));
        }
        match &items.labels {
            Some(labels) if labels.classes() > manifest.max_labels() => {
                Err(Error::content(format!(
                    "{} labels; an index has at most {} without names",
                    labels.classes(),
                    manifest.max_labels()
                )))
            }
            Some(labels)
                if labels.classes() > manifest.classes
                    && !manifest.label_names.is_empty() =>
            {
                Err(Error::Mismatch {
                    left: "the index".into(),
                    left_size: manifest.classes,
                    right: "the new items".into(),
                    right_size: labels.classes(),
                    unit: "labels",
                    remedy: "label names must be given for all of them",
                })
            }
            _ => Ok(()),
        }
    }

    /// Whether none of the ids is in the index.
    pub(super) fn check_new(&self, items: &ItemBatch) -> Result<()> {
        let Some(ids) = &items.ids else { return Ok(()) };
        for row in 0..ids.len() {
            if self.contains(&ids.get(row))? {
                return Err(Error::content(format!(
                    "row {row}: id {} is in the index already; upsert replaces it",
                    ids.get(row)
                )));
            }
        }
        Ok(())
    }

    /// The items with ids, and with outputs if the index stores them.
    pub(super) fn numbered(
        &self,
        mut items: ItemBatch,
        deleted: Vec<Id>,
    ) -> Result<Change> {
        let manifest = &self.manifest;
        let count = items.len() as u64;
        let mut next_id = manifest.next_id;
        match &items.ids {
            _ if items.is_empty() => {}
            None => {
                let end = next_id.checked_add(count).ok_or_else(|| {
                    Error::content(
                        "the largest id is taken; give the new items ids of their own",
                    )
                })?;
                items.ids = Some(Ids::Numbers((next_id..end).collect()));
                next_id = end;
            }
            Some(Ids::Numbers(ids)) => {
                let largest = ids.iter().copied().max().unwrap_or(0);
                next_id = next_id.max(largest.saturating_add(1));
            }
            Some(Ids::Names(_)) => {}
        }
        if manifest.outputs.is_some() && items.outputs.is_none() {
            items.outputs = Some(Outputs::from_codes(&items.codes));
        }
        let classes = items.labels.as_ref().map_or(0, Labels::classes);
        let classes = manifest.classes.max(classes);
        Ok(Change { items, deleted, classes, next_id })
    }
}
