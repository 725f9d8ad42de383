//! Pair keys of the training items as numbers: which items of different modalities belong together.

use std::collections::HashMap;

use crate::data::View;

/// The keys of all items, and the items of all keys.
pub(crate) struct PairKeys {
    of_item: Vec<Vec<u32>>,    // modality, item -> key
    items: Vec<Vec<Vec<u32>>>, // modality, key -> items
}

impl PairKeys {
    pub(crate) fn new(views: &[View<'_>]) -> PairKeys {
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut of_item = Vec::new();
        for view in views {
            let key = |item: usize| {
                let next =
                    u32::try_from(numbers.len()).expect("fewer keys than u32 counts");
                *numbers.entry(view.pair_key(item)).or_insert(next)
            };
            of_item.push((0..view.len()).map(key).collect::<Vec<u32>>());
        }
        let by_key = |keys: &Vec<u32>| {
            let mut items = vec![Vec::new(); numbers.len()];
            for (&key, item) in keys.iter().zip(0..) {
                items[key as usize].push(item);
            }
            items
        };
        let items = of_item.iter().map(by_key).collect();
        PairKeys { of_item, items }
    }

    /// The key of an item.
    pub(crate) fn key(&self, modality: usize, item: usize) -> u32 {
        self.of_item[modality][item]
    }

    /// The items of a modality that belong to an item of another one.
    pub(crate) fn partners(&self, modality: usize, of: (usize, usize)) -> &[u32] {
        &self.items[modality][self.key(of.0, of.1) as usize]
    }
}

#[cfg(test)]
mod tests {
    use crosshash_codes::Labels;

    use super::*;
    use crate::data::{Dense, Features, Modality};

    #[test]
    fn items_of_one_key_are_partners() {
        let modality = |ids: &[&str], keys: &[&str]| {
            let rows = Dense::from_floats(1, vec![0.0; ids.len()]).unwrap();
            let labels = Labels::from_indices(1, vec![[0_u32]; ids.len()]).unwrap();
            let own =
                |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>();
            let new = Modality::new("m", own(ids), Features::Dense(rows), labels).unwrap();
            new.with_pairs(own(keys)).unwrap()
        };
        let pictures = modality(&["p", "q"], &["x", "y"]);
        let captions = modality(&["a", "b", "c"], &["y", "x", "y"]);
        let (all, more) = ([0, 1], [0, 1, 2]);
        let keys = PairKeys::new(&[pictures.view(&all), captions.view(&more)]);
        assert_eq!(keys.partners(1, (0, 1)), [0, 2]);
        assert_eq!(keys.partners(0, (1, 1)), [0]);
        assert_eq!(keys.key(0, 0), keys.key(1, 1));
    }
}
