//! Properties of the batches of pairs by key, many to many.

use std::collections::{BTreeMap, BTreeSet};

use crosshash_codes::Labels;
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

use super::sampler::BatchIndices;
use super::sampler::tests::sampler;
use crate::data::{Dense, Features, Modality};
use crate::proptests::fixed;

/// Items of one modality with these pair keys; without labels.
fn modality(name: &str, keys: &[String]) -> Modality {
    let features = Dense::from_floats(1, vec![0.0; keys.len()]).unwrap();
    let labels = Labels::from_indices(0, vec![Vec::<u32>::new(); keys.len()]).unwrap();
    let ids = (0..keys.len()).map(|k| format!("{name}{k}")).collect();
    let new = Modality::new(name, ids, Features::Dense(features), labels).unwrap();
    new.with_pairs(keys.to_vec()).unwrap()
}

/// Modalities whose items have random keys; the first two share at least one.
fn random(modalities: usize, keys: usize, items: usize, seed: u64) -> Vec<Modality> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let one = |m: usize| {
        let n = rng.random_range(1..=items);
        let mut own: Vec<String> =
            (0..n).map(|_| format!("k{}", rng.random_range(0..keys))).collect();
        own.push("k0".into());
        modality(&format!("m{m}"), &own)
    };
    (0..modalities).map(one).collect()
}

fn items_of(modality: &Modality) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    (0..modality.len())
        .for_each(|item| *counts.entry(modality.pair_key(item)).or_default() += 1);
    counts
}

proptest! {
    #![proptest_config(fixed(60))]

    #[test]
    fn an_epoch_visits_every_item_as_often_as_its_key_requires(
        modalities in 2_usize..4, keys in 1_usize..12, items in 1_usize..40,
        batch in 1_usize..9, epoch in 0_usize..3, seed in any::<u64>(),
    ) {
        let data = random(modalities, keys, items, seed);
        let sampler = sampler(&data);
        prop_assert!(sampler.is_joint());
        let draws: Vec<BatchIndices> = sampler.epoch(seed, epoch, batch).collect();
        prop_assert_eq!(&draws, &sampler.epoch(seed, epoch, batch).collect::<Vec<_>>());
        let counts: Vec<BTreeMap<&str, usize>> = data.iter().map(items_of).collect();
        let visits = |key: &str| counts.iter().filter_map(|c| c.get(key)).max().copied();
        for (m, one) in data.iter().enumerate() {
            let mut seen = vec![0; one.len()];
            for draw in &draws {
                draw.items[m].iter().for_each(|&item| seen[item] += 1);
                let distinct: BTreeSet<usize> = draw.items[m].iter().copied().collect();
                prop_assert_eq!(distinct.len(), draw.items[m].len(), "no item twice in a batch");
            }
            for (item, &seen) in seen.iter().enumerate() {
                let key = one.pair_key(item);
                let most = visits(key).unwrap().div_ceil(counts[m][key]);
                prop_assert!((1..=most).contains(&seen), "{} of {}", seen, most);
            }
        }
    }

    #[test]
    fn pairs_of_a_batch_are_all_items_of_one_key(
        modalities in 2_usize..4, keys in 1_usize..12, items in 1_usize..40,
        batch in 1_usize..30, seed in any::<u64>(),
    ) {
        let data = random(modalities, keys, items, seed);
        for draw in sampler(&data).epoch(seed, 0, batch) {
            for a in 0..modalities {
                for b in a + 1..modalities {
                    let mut wanted = BTreeSet::new();
                    for (x, &i) in draw.items[a].iter().enumerate() {
                        for (y, &j) in draw.items[b].iter().enumerate() {
                            if data[a].pair_key(i) == data[b].pair_key(j) {
                                wanted.insert((x, y));
                            }
                        }
                    }
                    let found = draw.pairs.iter().find(|pair| (pair.0, pair.1) == (a, b));
                    let found: Vec<(usize, usize)> = found.map_or(Vec::new(), |pair| {
                        pair.2.iter().copied().zip(pair.3.iter().copied()).collect()
                    });
                    prop_assert_eq!(found.len(), wanted.len(), "every pair once");
                    prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), wanted);
                }
            }
        }
    }

    #[test]
    fn one_to_one_batches_are_a_shuffle_of_the_ids(
        n in 1_usize..60, batch in 1_usize..20, epoch in 0_usize..3, seed in any::<u64>(),
    ) {
        // Modality b lacks every third key; its items are in another order.
        let keys: Vec<String> = (0..n).map(|k| format!("{k:03}")).collect();
        let some: Vec<String> =
            keys.iter().rev().filter(|k| *k == "000" || k.as_bytes()[2] % 3 > 0).cloned().collect();
        let data = [modality("a", &keys), modality("b", &some)];
        let draws: Vec<BatchIndices> = sampler(&data).epoch(seed, epoch, batch).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(1 + epoch as u64);
        let mut order: Vec<usize> = (0..n).collect();
        order.shuffle(&mut rng);
        let steps = ((n + batch / 2) / batch).max(1);
        let wanted: Vec<BatchIndices> = order.chunks(n.div_ceil(steps)).map(|ids| {
            let mut draw = BatchIndices { items: vec![Vec::new(); 2], pairs: Vec::new() };
            let (mut left, mut right) = (Vec::new(), Vec::new());
            for &id in ids {
                draw.items[0].push(id);
                if let Some(other) = some.iter().position(|key| *key == keys[id]) {
                    left.push(draw.items[0].len() - 1);
                    right.push(draw.items[1].len());
                    draw.items[1].push(other);
                }
            }
            if !left.is_empty() {
                draw.pairs.push((0, 1, left, right));
            }
            draw
        }).collect();
        prop_assert_eq!(draws, wanted);
    }
}

#[test]
fn five_captions_of_a_picture_are_spread_over_the_epoch() {
    let pictures: Vec<String> = (0..200).map(|k| format!("p{k:03}")).collect();
    let captions: Vec<String> = (0..1000).map(|k| format!("p{:03}", k / 5)).collect();
    let data = [modality("image", &pictures), modality("text", &captions)];
    let sampler = sampler(&data);
    let draws: Vec<BatchIndices> = sampler.epoch(3, 0, 50).collect();
    assert_eq!(draws.len(), 20, "a visit per caption");
    let mut together = 0;
    for draw in &draws {
        assert_eq!(draw.items[1].len(), 50, "every caption is visited once");
        assert!(draw.items[0].len() <= 50);
        together += 50 - draw.items[0].len();
        for &caption in &draw.items[1] {
            assert!(draw.items[0].contains(&(caption / 5)), "each with its picture");
        }
    }
    // Visits of a picture are in different fifths of the epoch: few meet in a batch.
    assert!(together < 100, "{together} pictures are visited twice in a batch");
    let orders: BTreeSet<Vec<usize>> = (0..4)
        .map(|epoch| {
            let draws: Vec<BatchIndices> = sampler.epoch(3, epoch, 50).collect();
            let first = draws.iter().flat_map(|draw| &draw.items[1]);
            first.copied().filter(|caption| *caption < 5).collect()
        })
        .collect();
    assert!(orders.len() > 1, "captions change their order from epoch to epoch");
}

#[test]
fn items_of_equal_numbers_meet_different_partners() {
    let keys: Vec<String> = (0..40).map(|k| format!("k{}", k / 4)).collect();
    let data = [modality("photo", &keys), modality("sketch", &keys)];
    let sampler = sampler(&data);
    let mut met = BTreeSet::new();
    for epoch in 0..60 {
        for draw in sampler.epoch(1, epoch, 1) {
            met.insert((draw.items[0][0], draw.items[1][0]));
        }
    }
    assert_eq!(met.len(), 10 * 16, "all combinations of four photos and four sketches");
}

#[test]
fn items_without_labels_are_left_out_only_if_there_are_labels() {
    let keys = ["a".to_owned(), "b".to_owned()];
    let data = [modality("x", &keys), modality("y", &keys)];
    let count = |data: &[Modality]| -> usize {
        sampler(data).epoch(0, 0, 8).map(|draw| draw.items[0].len()).sum()
    };
    assert_eq!(count(&data), 2);
    let labels = Labels::from_indices(1, [&[0_u32][..], &[]]).unwrap();
    let labelled = data.map(|one| one.with_labels(labels.clone()).unwrap());
    assert_eq!(count(&labelled), 1);
}
