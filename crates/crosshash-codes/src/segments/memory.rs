//! Rows in memory: the items of the log, and of a search without a folder.

use std::cmp::Ordering;
use std::sync::Arc;

use super::batch::ItemBatch;
use super::part::LabelRows;
use crate::format::{Id, Ids};
use crate::{Codes, Labels, Outputs};

/// The ids of rows.
#[derive(Clone, Debug)]
pub(crate) enum RowIds {
    /// As given.
    Given(Ids),
    /// This number and those after it.
    Counted(u64),
}

impl RowIds {
    pub(crate) fn get(&self, row: usize) -> Id {
        match self {
            RowIds::Given(ids) => ids.get(row),
            RowIds::Counted(first) => Id::Number(first + row as u64),
        }
    }

    /// Numbers that count up need no list.
    pub(crate) fn compressed(ids: Ids) -> RowIds {
        let Ids::Numbers(numbers) = &ids else { return RowIds::Given(ids) };
        let first = numbers.first().copied().unwrap_or(0);
        let counts = |(at, &id): (u64, &u64)| first.checked_add(at) == Some(id);
        if (0..).zip(numbers).all(counts)
            && first.checked_add(numbers.len() as u64).is_some()
        {
            RowIds::Counted(first)
        } else {
            RowIds::Given(ids)
        }
    }
}

/// Items in memory.
pub(crate) struct MemoryRows {
    pub(crate) codes: Codes,
    pub(crate) ids: RowIds,
    order: Option<Vec<u32>>,
    pub(crate) labels: Option<Labels>,
    /// Empty, or one per row.
    pub(crate) payloads: Vec<Arc<[u8]>>,
    /// Empty, or one per row.
    pub(crate) flags: Vec<u8>,
    /// If the index stores outputs.
    pub(crate) outputs: Option<Outputs>,
    pub(crate) superseded: Vec<Id>,
}

impl MemoryRows {
    /// Ids are unique; items without them are numbered from `first`.
    pub(crate) fn new(items: ItemBatch, first: u64, superseded: Vec<Id>) -> MemoryRows {
        let ids = items.ids.map_or(RowIds::Counted(first), RowIds::compressed);
        let order = match &ids {
            RowIds::Given(ids) => order(ids),
            RowIds::Counted(_) => None,
        };
        MemoryRows {
            codes: items.codes.shared(),
            ids,
            order,
            labels: items.labels,
            payloads: items.payloads.unwrap_or_default(),
            flags: items.flags.unwrap_or_default(),
            outputs: items.outputs,
            superseded,
        }
    }

    pub(crate) fn labels(&self) -> LabelRows<'_> {
        self.labels.as_ref().map_or(LabelRows::NONE, |labels| LabelRows {
            stride: labels.stride(),
            words: labels.words(),
        })
    }

    /// The row of an id.
    pub(crate) fn find(&self, id: &Id) -> Option<u32> {
        let rows = self.codes.len();
        if let (RowIds::Counted(first), Id::Number(number)) = (&self.ids, id) {
            let row = number.checked_sub(*first).filter(|&row| row < rows as u64)?;
            return u32::try_from(row).ok();
        }
        let row_at = |rank: usize| match &self.order {
            None => rank,
            Some(order) => order[rank] as usize,
        };
        let compare = |row: usize| match (&self.ids, id) {
            (RowIds::Given(Ids::Numbers(ids)), Id::Number(id)) => ids[row].cmp(id),
            (RowIds::Given(Ids::Names(ids)), Id::Name(id)) => ids[row].cmp(id),
            (ids, id) => ids.get(row).cmp(id),
        };
        let (mut low, mut high) = (0, rows);
        while low < high {
            let middle = low.midpoint(high);
            match compare(row_at(middle)) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return u32::try_from(row_at(middle)).ok(),
            }
        }
        None
    }
}

/// Rows by ascending id; `None` if that is their order already.
pub(crate) fn order(ids: &Ids) -> Option<Vec<u32>> {
    let sorted = match ids {
        Ids::Numbers(ids) => ids.is_sorted(),
        Ids::Names(ids) => ids.is_sorted(),
    };
    if sorted {
        return None;
    }
    let mut rows: Vec<u32> = (0..u32::try_from(ids.len()).unwrap_or(u32::MAX)).collect();
    match ids {
        Ids::Numbers(ids) => rows.sort_unstable_by_key(|&row| (ids[row as usize], row)),
        Ids::Names(ids) => {
            rows.sort_unstable_by(|&a, &b| {
                (&ids[a as usize], a).cmp(&(&ids[b as usize], b))
            });
        }
    }
    Some(rows)
}

/// An id that occurs more than once.
pub(crate) fn duplicate(ids: &Ids) -> Option<Id> {
    let order = order(ids);
    let row = |rank: usize| order.as_ref().map_or(rank, |rows| rows[rank] as usize);
    let same = |rank: &usize| match ids {
        Ids::Numbers(ids) => ids[row(*rank)] == ids[row(*rank - 1)],
        Ids::Names(ids) => ids[row(*rank)] == ids[row(*rank - 1)],
    };
    (1..ids.len()).find(same).map(|rank| ids.get(row(rank)))
}
