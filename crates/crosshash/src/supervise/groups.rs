//! Distinct label sets, their frequencies, and the set of each item. Items with the same labels have
//! the same coefficients.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crosshash_codes::Labels;

/// Distinct label sets, in order of first occurrence.
#[derive(Clone, Debug)]
pub struct Groups {
    /// One row per distinct set.
    pub sets: Labels,
    /// Number of items with the set; 0 for the empty set, because an unlabelled item is neither a
    /// positive nor a negative.
    pub weights: Vec<u64>,
    /// The set of each item.
    pub of_item: Vec<u32>,
}

impl Groups {
    /// Groups items by their labels.
    pub fn new(labels: &Labels) -> Groups {
        Groups::split(labels, |_| false)
    }

    /// Groups items by their labels and a mark: marked and unmarked items of a set are in different
    /// groups.
    pub(crate) fn split(labels: &Labels, marked: impl Fn(usize) -> bool) -> Groups {
        let mut numbers: HashMap<(&[u64], bool), u32> = HashMap::new();
        let (mut firsts, mut weights) = (Vec::new(), Vec::new());
        let mut of_item = Vec::with_capacity(labels.len());
        for item_idx in 0..labels.len() {
            let row = labels.row(item_idx);
            let group = match numbers.entry((row, marked(item_idx))) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    let group = u32::try_from(firsts.len()).unwrap_or(u32::MAX);
                    firsts.push(item_idx);
                    weights.push(0);
                    *new.insert(group)
                }
            };
            weights[group as usize] += u64::from(row.iter().any(|&w| w != 0));
            of_item.push(group);
        }
        drop(numbers);
        Groups { sets: labels.select(&firsts), weights, of_item }
    }

    /// Number of labelled items.
    pub fn labelled(&self) -> u64 {
        self.weights.iter().sum()
    }

    /// Offsets of the labels of each set if all are concatenated; one more entry than sets.
    pub(crate) fn starts(&self) -> Vec<usize> {
        let counts = (0..self.sets.len()).map(|set| self.sets.count(set));
        let ends = counts.scan(0, |end, count| {
            *end += count;
            Some(*end)
        });
        std::iter::once(0).chain(ends).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlabelled_items_have_zero_weight() {
        let rows: [&[u32]; 5] = [&[1], &[], &[0, 2], &[1], &[]];
        let groups = Groups::new(&Labels::from_indices(3, rows).unwrap());
        assert_eq!(groups.of_item, [0, 1, 2, 0, 1]);
        assert_eq!(groups.weights, [2, 0, 1]);
        assert_eq!(groups.labelled(), 3);
        assert_eq!(groups.starts(), [0, 1, 1, 3]);
        assert_eq!(groups.sets.indices(2).collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn a_mark_splits_a_set() {
        let rows: [&[u32]; 3] = [&[1], &[1], &[1]];
        let groups = Groups::split(&Labels::from_indices(2, rows).unwrap(), |i| i == 1);
        assert_eq!(groups.of_item, [0, 1, 0]);
        assert_eq!(groups.weights, [2, 1]);
    }
}
