//! Sampling of batches.
//!
//! With pairs, an epoch is a shuffle of all ids; a batch contains the next ids with all their items in all
//! modalities, so that items without a pair are used, too. If no two modalities share an id, every
//! modality is sampled separately: a random label, then the next item of a shuffle of its items, so that
//! labels are balanced (paper, section on unpaired data). The order depends on seed and epoch only.

use std::collections::BTreeMap;
use std::sync::Arc;

use crosshash_codes::Labels;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::data::View;

/// Item numbers of one batch, by modality, and which of them are pairs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BatchIndices {
    /// By modality.
    pub(crate) items: Vec<Vec<usize>>,
    /// Pairs of two modalities a < b: positions in `items[a]` and in `items[b]`.
    pub(crate) pairs: Vec<(usize, usize, Vec<usize>, Vec<usize>)>,
}

/// The source of batches.
#[derive(Debug)]
pub(crate) enum Sampler {
    /// By id.
    Joint(Units),
    /// By label, for each modality: the items with the label.
    Apart(Vec<Vec<Vec<usize>>>, usize),
}

/// The item of every id in each modality, or [`NONE`]; four bytes per cell, because this is kept for
/// every item during training.
#[derive(Debug)]
pub(crate) struct Units {
    modalities: usize,
    items: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Sampler {
    /// For the training items of modalities; items without labels are excluded.
    pub(crate) fn new(views: &[View<'_>], labels: &[Labels]) -> Sampler {
        let mut found: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for (m, (view, labels)) in views.iter().zip(labels).enumerate() {
            for item in (0..view.len()).filter(|&item| labels.count(item) > 0) {
                let unit =
                    found.entry(view.id(item)).or_insert_with(|| vec![NONE; views.len()]);
                unit[m] = u32::try_from(item).expect("fewer items than u32 counts");
            }
        }
        let partners = |unit: &Vec<u32>| unit.iter().filter(|&&item| item != NONE).count();
        let paired = found.values().any(|unit| partners(unit) > 1);
        if paired || views.len() == 1 {
            let items = found.into_values().flatten().collect();
            return Sampler::Joint(Units { modalities: views.len(), items });
        }
        let by_label = |labels: &Labels| {
            let mut all = vec![Vec::new(); labels.classes()];
            for item in 0..labels.len() {
                labels.indices(item).for_each(|label| all[label].push(item));
            }
            all.retain(|items| !items.is_empty());
            all
        };
        let most = labels.iter().map(|labels| labels.len() - labels.unlabelled()).max();
        Sampler::Apart(labels.iter().map(by_label).collect(), most.unwrap_or(0))
    }

    /// Whether modalities have items in common.
    #[cfg(test)]
    fn is_joint(&self) -> bool {
        matches!(self, Sampler::Joint(_))
    }

    /// The batches of an epoch, one after the other.
    pub(crate) fn epoch(
        self: &Arc<Self>,
        seed: u64,
        epoch: usize,
        batch: usize,
    ) -> Batches {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(1 + epoch as u64);
        match &**self {
            Sampler::Joint(units) => {
                let n = units.items.len() / units.modalities;
                let mut order: Vec<usize> = (0..n).collect();
                order.shuffle(&mut rng);
                let steps = ((n + batch / 2) / batch).max(1);
                let size = n.div_ceil(steps).max(1);
                // The last batch contains the remainder.
                let steps = n.div_ceil(size);
                let sampler = Arc::clone(self);
                Batches { sampler, steps, next: 0, size, source: Source::Joint(order) }
            }
            Sampler::Apart(by_label, most) => {
                let steps = most.div_ceil(batch).max(1);
                let queues =
                    by_label.iter().map(|labels| Queue::new(labels.len())).collect();
                let source = Source::Apart(queues, Box::new(rng));
                let sampler = Arc::clone(self);
                Batches { sampler, steps, next: 0, size: batch, source }
            }
        }
    }
}

/// The batches of one epoch.
pub(crate) struct Batches {
    sampler: Arc<Sampler>,
    steps: usize,
    next: usize,
    size: usize,
    source: Source,
}

enum Source {
    Joint(Vec<usize>), // the order of ids
    Apart(Vec<Queue>, Box<ChaCha8Rng>),
}

impl Iterator for Batches {
    type Item = BatchIndices;

    fn next(&mut self) -> Option<BatchIndices> {
        if self.next == self.steps {
            return None;
        }
        let start = self.next * self.size;
        self.next += 1;
        Some(match (&*self.sampler, &mut self.source) {
            (Sampler::Joint(units), Source::Joint(order)) => {
                units.batch(&order[start..(start + self.size).min(order.len())])
            }
            (Sampler::Apart(by_label, _), Source::Apart(queues, rng)) => BatchIndices {
                items: queues
                    .iter_mut()
                    .zip(by_label)
                    .map(|(queue, labels)| queue.take(labels, self.size, rng))
                    .collect(),
                pairs: Vec::new(),
            },
            _ => unreachable!("a source is made by its sampler"),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.steps - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Batches {}

impl Units {
    /// The items of some ids, and their pairs.
    fn batch(&self, ids: &[usize]) -> BatchIndices {
        let modalities = self.modalities;
        let mut draw =
            BatchIndices { items: vec![Vec::new(); modalities], pairs: Vec::new() };
        for a in 0..modalities {
            for b in a + 1..modalities {
                draw.pairs.push((a, b, Vec::new(), Vec::new()));
            }
        }
        for &id in ids {
            let mut at = vec![None; modalities];
            let unit = &self.items[id * modalities..(id + 1) * modalities];
            for (m, &item) in unit.iter().enumerate().filter(|(_, item)| **item != NONE) {
                at[m] = Some(draw.items[m].len());
                draw.items[m].push(item as usize);
            }
            for (a, b, left, right) in &mut draw.pairs {
                if let (Some(x), Some(y)) = (at[*a], at[*b]) {
                    left.push(x);
                    right.push(y);
                }
            }
        }
        draw.pairs.retain(|pair| !pair.2.is_empty());
        draw
    }
}

/// Items by label, shuffled within each label.
struct Queue {
    rounds: Vec<Vec<usize>>,
}

impl Queue {
    fn new(labels: usize) -> Queue {
        Queue { rounds: vec![Vec::new(); labels] }
    }

    fn take(
        &mut self,
        labels: &[Vec<usize>],
        count: usize,
        rng: &mut ChaCha8Rng,
    ) -> Vec<usize> {
        if labels.is_empty() {
            return Vec::new();
        }
        let mut next = || {
            let label = rng.random_range(0..labels.len());
            let round = &mut self.rounds[label];
            if round.is_empty() {
                round.extend(&labels[label]);
                round.shuffle(rng);
            }
            round.pop()
        };
        (0..count).filter_map(|_| next()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Dense, Features, Modality};

    fn modality(ids: &[&str], labels: &[u32]) -> Modality {
        let features = Dense::from_floats(1, vec![0.0; ids.len()]).unwrap();
        let labels = Labels::from_indices(3, labels.iter().map(|&l| vec![l])).unwrap();
        let ids = ids.iter().map(|&id| id.to_owned()).collect();
        Modality::new("m", ids, Features::Dense(features), labels).unwrap()
    }

    fn sampler(modalities: &[&Modality]) -> Arc<Sampler> {
        let items: Vec<Vec<usize>> =
            modalities.iter().map(|m| (0..m.len()).collect()).collect();
        let views: Vec<View<'_>> =
            modalities.iter().zip(&items).map(|(m, items)| m.view(items)).collect();
        let labels: Vec<Labels> = modalities.iter().map(|m| m.labels().clone()).collect();
        Arc::new(Sampler::new(&views, &labels))
    }

    #[test]
    fn epoch_contains_every_item_once_and_every_pair() {
        let a = modality(&["x", "y", "z"], &[0, 1, 2]);
        let b = modality(&["z", "w", "x"], &[2, 0, 0]);
        let sampler = sampler(&[&a, &b]);
        assert!(sampler.is_joint());
        let draws = sampler.epoch(7, 0, 2).collect::<Vec<_>>();
        let mut seen: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
        let mut pairs = Vec::new();
        for draw in &draws {
            for m in 0..2 {
                seen[m].extend(&draw.items[m]);
            }
            for (a, b, left, right) in &draw.pairs {
                let items = left.iter().zip(right);
                pairs.extend(items.map(|(&x, &y)| (draw.items[*a][x], draw.items[*b][y])));
            }
        }
        seen.iter_mut().for_each(|items| items.sort_unstable());
        pairs.sort_unstable();
        assert_eq!(seen, [vec![0, 1, 2], vec![0, 1, 2]]);
        assert_eq!(pairs, [(0, 2), (2, 0)], "x with x, z with z");
        assert_eq!(
            draws,
            sampler.epoch(7, 0, 2).collect::<Vec<_>>(),
            "the same seed, the same batches"
        );
        assert_ne!(
            (0..9).map(|e| sampler.epoch(7, e, 2).collect::<Vec<_>>()).collect::<Vec<_>>(),
            (0..9).map(|e| sampler.epoch(8, e, 2).collect::<Vec<_>>()).collect::<Vec<_>>()
        );
    }

    #[test]
    fn unpaired_batches_balance_labels() {
        let ids: Vec<String> = (0..300).map(|k| format!("a{k}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let labels: Vec<u32> = (0..300).map(|k| u32::from(k >= 290)).collect();
        let (a, b) = (modality(&ids, &labels), modality(&["b0", "b1"], &[0, 1]));
        let sampler = sampler(&[&a, &b]);
        assert!(!sampler.is_joint());
        let draws = sampler.epoch(1, 0, 100).collect::<Vec<_>>();
        assert_eq!(draws.len(), 3);
        let rare: usize = draws
            .iter()
            .map(|draw| draw.items[0].iter().filter(|&&item| item >= 290).count())
            .sum();
        assert!((110..190).contains(&rare), "{rare} of 300 have the rare label");
        assert!(
            draws.iter().all(|draw| draw.items[1].len() == 100 && draw.pairs.is_empty())
        );
    }
}
