//! Sampling of batches.
//!
//! With pairs, a unit is a pair key with its items in all modalities, so that items without a pair are used,
//! too. A visit of a unit takes one item of each of its modalities. A unit is visited as often as the modality
//! with most of its items requires: a picture with five captions five times an epoch, each time with another
//! caption. An epoch is a shuffle of all visits; the visits of one unit are spread evenly over it. An item
//! occurs once in a batch; items of one unit that meet in a batch are all pairs. With one item per
//! modality and unit, an epoch is a shuffle of the units.
//!
//! If no two modalities share a key, every modality is sampled separately: a random label, then the next item
//! of a shuffle of its items, so that labels are balanced (paper, section on unpaired data). Where the
//! coefficients of the loss already weigh the labels, items are drawn without regard to them. The order
//! depends on seed and epoch only.

use std::collections::HashMap;
use std::sync::Arc;

use crosshash_codes::Labels;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use xxhash_rust::xxh3::xxh3_64;

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
    /// By pair key.
    Joint(Units),
    /// By label, for each modality: the items with the label.
    Apart(Vec<Vec<Vec<usize>>>, usize),
}

/// The items of every unit in each modality; four bytes per cell, because this is kept for every item during
/// training.
#[derive(Debug)]
pub(crate) struct Units {
    modalities: usize,
    items: Vec<u32>,
    /// Where the items of every cell (unit, modality) start in `items`, with the end of the last one. `None` if
    /// no cell has several items: then `items` has one value per cell, the item or [`NONE`].
    starts: Option<Vec<u32>>,
}

const NONE: u32 = u32::MAX;

impl Sampler {
    /// For the training items of modalities; if there are labels, items without labels are excluded.
    /// `balanced`: unpaired batches balance the labels.
    pub(crate) fn new(views: &[View<'_>], labels: &[Labels], balanced: bool) -> Sampler {
        let mut found: Vec<(&str, usize, u32)> = Vec::new(); // key, modality, item
        for (m, (view, labels)) in views.iter().zip(labels).enumerate() {
            let used = |item: &usize| labels.classes() == 0 || labels.count(*item) > 0;
            for item in (0..view.len()).filter(used) {
                let number = u32::try_from(item).expect("fewer items than u32 counts");
                found.push((view.pair_key(item), m, number));
            }
        }
        found.sort_unstable();
        let is_paired = |unit: &[(&str, usize, u32)]| unit.iter().any(|x| x.1 != unit[0].1);
        let paired = found.chunk_by(|a, b| a.0 == b.0).any(is_paired);
        if paired || views.len() == 1 {
            return Sampler::Joint(Units::new(views.len(), &found));
        }
        let by_label = |labels: &Labels| {
            if !balanced {
                let used = (0..labels.len()).filter(|&item| labels.count(item) > 0);
                return vec![used.collect()];
            }
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
    pub(crate) fn is_joint(&self) -> bool {
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
                let visits = units.epoch(&mut rng);
                let n = visits.order.len();
                let steps = ((n + batch / 2) / batch).max(1);
                let size = n.div_ceil(steps).max(1);
                // The last batch contains the remainder.
                let steps = n.div_ceil(size);
                let sampler = Arc::clone(self);
                Batches { sampler, steps, next: 0, size, source: Source::Joint(visits) }
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
    Joint(Visits),
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
            (Sampler::Joint(units), Source::Joint(Visits { order, salt })) => {
                let end = (start + self.size).min(order.len());
                units.batch(&order[start..end], *salt)
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

/// The visits of an epoch, in order.
#[derive(Debug)]
struct Visits {
    order: Vec<Visit>,
    salt: u64, // changes which items of a unit meet
}

/// One of the visits of a unit.
#[derive(Debug, Clone, Copy)]
struct Visit {
    unit: u32,
    round: u32, // below the number of visits of the unit
}

impl Units {
    /// From items sorted by key, modality and number.
    fn new(modalities: usize, found: &[(&str, usize, u32)]) -> Units {
        let cells = |unit: &[(&str, usize, u32)]| {
            let mut counts = vec![0_u32; modalities];
            unit.iter().for_each(|&(_, m, _)| counts[m] += 1);
            counts
        };
        let units = || found.chunk_by(|a, b| a.0 == b.0);
        if units().all(|unit| unit.windows(2).all(|pair| pair[0].1 != pair[1].1)) {
            let mut items = Vec::with_capacity(units().count() * modalities);
            for unit in units() {
                let start = items.len();
                items.resize(start + modalities, NONE);
                unit.iter().for_each(|&(_, m, item)| items[start + m] = item);
            }
            return Units { modalities, items, starts: None };
        }
        let mut starts = vec![0];
        let mut next = 0;
        for count in units().flat_map(cells) {
            next += count;
            starts.push(next);
        }
        let items = found.iter().map(|&(.., item)| item).collect();
        Units { modalities, items, starts: Some(starts) }
    }

    fn len(&self) -> usize {
        let cells =
            self.starts.as_ref().map_or(self.items.len(), |starts| starts.len() - 1);
        cells / self.modalities
    }

    /// The items of a unit in a modality.
    fn items(&self, unit: usize, m: usize) -> &[u32] {
        let cell = unit * self.modalities + m;
        match &self.starts {
            Some(starts) => &self.items[starts[cell] as usize..starts[cell + 1] as usize],
            None if self.items[cell] == NONE => &[],
            None => &self.items[cell..=cell],
        }
    }

    /// How often a unit is visited in an epoch.
    fn visits(&self, unit: usize) -> u32 {
        let most = (0..self.modalities).map(|m| self.items(unit, m).len()).max();
        most.and_then(|most| u32::try_from(most).ok()).unwrap_or(0)
    }

    /// The visits of an epoch. Visit k of n of a unit is at a random place of the k-th n-th of the epoch.
    fn epoch(&self, rng: &mut ChaCha8Rng) -> Visits {
        let count = u32::try_from(self.len()).expect("fewer units than u32 counts");
        if self.starts.is_none() {
            let mut order: Vec<Visit> =
                (0..count).map(|unit| Visit { unit, round: 0 }).collect();
            order.shuffle(rng);
            return Visits { order, salt: 0 };
        }
        let mut placed: Vec<(f32, Visit)> = Vec::new();
        for unit in 0..count {
            let visits = self.visits(unit as usize);
            for round in 0..visits {
                let place = (round as f32 + rng.random::<f32>()) / visits as f32;
                placed.push((place, Visit { unit, round }));
            }
        }
        // Stable, so that equal places keep the order of the units.
        placed.sort_by(|a, b| a.0.total_cmp(&b.0));
        let order = placed.into_iter().map(|(_, visit)| visit).collect();
        Visits { order, salt: rng.random() }
    }

    /// The item of a modality in a visit. In the visits of an epoch, every item of the unit occurs.
    fn item(&self, visit: Visit, m: usize, salt: u64) -> Option<usize> {
        let items = self.items(visit.unit as usize, m);
        let shift = match items.len() {
            0 => return None,
            1 => 0,
            _ => xxh3_64(
                &[salt, u64::from(visit.unit), m as u64].map(u64::to_le_bytes).concat(),
            ),
        };
        let at = (u64::from(visit.round) + shift % items.len() as u64) % items.len() as u64;
        items.get(usize::try_from(at).ok()?).map(|&item| item as usize)
    }

    /// The items of some visits, and their pairs.
    fn batch(&self, visits: &[Visit], salt: u64) -> BatchIndices {
        let modalities = self.modalities;
        let mut draw =
            BatchIndices { items: vec![Vec::new(); modalities], pairs: Vec::new() };
        for a in 0..modalities {
            for b in a + 1..modalities {
                draw.pairs.push((a, b, Vec::new(), Vec::new()));
            }
        }
        // The positions of the items of every unit of the batch, by modality. Units with one item per
        // modality are visited once.
        let mut present: HashMap<u32, Vec<Vec<usize>>> = HashMap::new();
        let mut once = vec![Vec::new(); modalities];
        for &visit in visits {
            let own = if self.starts.is_some() {
                present.entry(visit.unit).or_insert_with(|| vec![Vec::new(); modalities])
            } else {
                once.iter_mut().for_each(Vec::clear);
                &mut once
            };
            let before: Vec<usize> = own.iter().map(Vec::len).collect();
            for (m, own) in own.iter_mut().enumerate() {
                let Some(item) = self.item(visit, m, salt) else { continue };
                if own.iter().all(|&at| draw.items[m][at] != item) {
                    own.push(draw.items[m].len());
                    draw.items[m].push(item);
                }
            }
            for (a, b, left, right) in &mut draw.pairs {
                for (x, &at_x) in own[*a].iter().enumerate() {
                    for (y, &at_y) in own[*b].iter().enumerate() {
                        if x >= before[*a] || y >= before[*b] {
                            left.push(at_x);
                            right.push(at_y);
                        }
                    }
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
pub(super) mod tests {
    use std::borrow::Borrow;

    use super::*;
    use crate::data::{Dense, Features, Modality};

    fn modality(ids: &[&str], labels: &[u32]) -> Modality {
        let features = Dense::from_floats(1, vec![0.0; ids.len()]).unwrap();
        let labels = Labels::from_indices(3, labels.iter().map(|&l| vec![l])).unwrap();
        let ids = ids.iter().map(|&id| id.to_owned()).collect();
        Modality::new("m", ids, Features::Dense(features), labels).unwrap()
    }

    /// A sampler of all items, with pairs.
    pub(in super::super) fn sampler<M: Borrow<Modality>>(modalities: &[M]) -> Arc<Sampler> {
        let modalities: Vec<&Modality> = modalities.iter().map(M::borrow).collect();
        let items: Vec<Vec<usize>> =
            modalities.iter().map(|m| (0..m.len()).collect()).collect();
        let views: Vec<View<'_>> =
            modalities.iter().zip(&items).map(|(m, items)| m.view(items)).collect();
        let labels: Vec<Labels> = modalities.iter().map(|m| m.labels().clone()).collect();
        Arc::new(Sampler::new(&views, &labels, true))
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
    fn unpaired_batches_without_balance_contain_every_item_equally_often() {
        let ids: Vec<String> = (0..90).map(|k| format!("a{k}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let labels: Vec<u32> = (0..90).map(|k| u32::from(k >= 80)).collect();
        let (a, b) = (modality(&ids, &labels), modality(&["b0", "b1"], &[0, 1]));
        let items: Vec<Vec<usize>> = [&a, &b].map(|m| (0..m.len()).collect()).to_vec();
        let views = [a.view(&items[0]), b.view(&items[1])];
        let all = [a.labels().clone(), b.labels().clone()];
        let sampler = Arc::new(Sampler::new(&views, &all, false));
        let mut times = [0; 90];
        for draw in sampler.epoch(1, 0, 30) {
            draw.items[0].iter().for_each(|&item| times[item] += 1);
        }
        assert_eq!(times, [1; 90]);
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
