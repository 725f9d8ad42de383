//! Different codes and the items of each, found by sorting.

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use crate::Codes;

/// Different codes and their items.
pub(super) struct Distinct {
    /// Codes, row after row.
    pub(super) rows: Vec<u64>,
    /// Where the items of each code begin; one more for the end.
    pub(super) starts: Vec<u32>,
    /// Items by code, ascending.
    pub(super) items: Vec<u32>,
}

impl Distinct {
    /// Sorts items by code: by the code itself if it is one word, by a hash of it otherwise.
    pub(super) fn of(codes: &Codes) -> Distinct {
        let width = codes.bits().words();
        let hash = |item: u32| match codes.code(item as usize) {
            [word] => *word,
            words => xxh3_64(bytemuck::cast_slice(words)),
        };
        let mut order: Vec<(u64, u32)> = (0..number(codes.len()))
            .into_par_iter()
            .map(|item| (hash(item), item))
            .collect();
        order.par_sort_unstable();
        let (mut rows, mut starts) = (Vec::new(), Vec::new());
        let mut last: Option<(u64, u32)> = None;
        for (at, &(hash, item)) in (0_u32..).zip(&order) {
            // codes with the same hash and different bits, if there ever are any, are different
            // codes; the same code may then occur twice, which is harmless
            let same = last.is_some_and(|(other, first)| {
                other == hash
                    && (width == 1
                        || codes.code(first as usize) == codes.code(item as usize))
            });
            if !same {
                rows.extend_from_slice(codes.code(item as usize));
                starts.push(at);
                last = Some((hash, item));
            }
        }
        starts.push(number(order.len()));
        let items = order.into_par_iter().map(|(_, item)| item).collect();
        Distinct { rows, starts, items }
    }

    /// Number of different codes.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The items of a code, ascending.
    pub(super) fn items_of(&self, id: usize) -> &[u32] {
        &self.items[self.starts[id] as usize..self.starts[id + 1] as usize]
    }
}

/// A number that is known to be less than 2^32.
pub(super) fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
