//! `ItemGroups`: items that a split keeps together, over all modalities.
//!
//! Items with the same pair key (by default the id) are pairs; items of the same group belong together. A
//! unit is a connected component of the graph of keys and groups (union-find). The group of an item without
//! one is its key, unless another item has that key and a group.

use std::collections::{HashMap, HashSet};

use super::Dataset;

/// The unit of every item.
pub(super) struct ItemGroups {
    of: Vec<Vec<usize>>, // modality, item -> unit
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Name<'a> {
    Key(&'a str),
    Group(&'a str),
}

impl ItemGroups {
    /// Units are numbered by the name of their first group, so that the order of rows does not matter.
    pub(super) fn new(dataset: &Dataset) -> ItemGroups {
        let modalities = dataset.modalities();
        let grouped: HashSet<&str> = modalities
            .iter()
            .flat_map(|m| {
                (0..m.len()).filter(|&i| m.group(i).is_some()).map(|i| m.pair_key(i))
            })
            .collect();
        let mut sets = Sets::default();
        for modality in modalities {
            for item in 0..modality.len() {
                let key = modality.pair_key(item);
                let node = sets.node(Name::Key(key));
                if modality.group(item).is_some() || !grouped.contains(key) {
                    let group = sets.node(Name::Group(modality.unit(item)));
                    sets.join(node, group);
                }
            }
        }
        let roots: Vec<Vec<usize>> = modalities
            .iter()
            .map(|m| (0..m.len()).map(|i| sets.root_of(Name::Key(m.pair_key(i)))).collect())
            .collect();
        let number = sets.numbers();
        let of =
            roots.into_iter().map(|m| m.into_iter().map(|root| number[&root]).collect());
        ItemGroups { of: of.collect() }
    }

    /// The unit of one item.
    pub(super) fn get(&self, modality_idx: usize, item: usize) -> usize {
        self.of[modality_idx][item]
    }
}

#[derive(Default)]
struct Sets<'a> {
    nodes: HashMap<Name<'a>, usize>,
    parents: Vec<usize>,
}

impl<'a> Sets<'a> {
    fn node(&mut self, name: Name<'a>) -> usize {
        let next = self.parents.len();
        let node = *self.nodes.entry(name).or_insert(next);
        if node == next {
            self.parents.push(next);
        }
        node
    }

    fn root_of(&mut self, name: Name<'a>) -> usize {
        let node = self.node(name);
        self.root(node)
    }

    fn root(&mut self, mut node: usize) -> usize {
        while self.parents[node] != node {
            self.parents[node] = self.parents[self.parents[node]];
            node = self.parents[node];
        }
        node
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents[a] = b;
    }

    /// Numbers the roots by the name of their first group.
    fn numbers(&mut self) -> HashMap<usize, usize> {
        let mut groups: Vec<(&str, usize)> = self
            .nodes
            .iter()
            .filter_map(|(name, &node)| match name {
                Name::Group(group) => Some((*group, node)),
                Name::Key(_) => None,
            })
            .collect();
        groups.sort_unstable();
        let mut numbers = HashMap::new();
        for (_, node) in groups {
            let (root, next) = (self.root(node), numbers.len());
            numbers.entry(root).or_insert(next);
        }
        numbers
    }
}
