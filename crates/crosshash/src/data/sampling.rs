//! Random subsets of a pool, optionally stratified by labels.
//!
//! Stratified: iterative stratification (Sechidis, Tsoumakas, Vlahavas, *On the
//! stratification of multi-label data*, ECML PKDD 2011, algorithm 1) into two subsets, the
//! drawn and the rest. The rarest label is processed first; each of its units goes to the subset that
//! needs most items of that label, then to the one that needs most units. Differences from the paper:
//! units may be groups, with the labels of all their items; a full subset receives no more units, so
//! that sizes are exact if units are single pair keys.

use std::collections::BTreeMap;

use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

use super::Dataset;
use super::groups::ItemGroups;

/// All items of the pool in one unit; they are drawn together.
struct Unit {
    items: Vec<(usize, usize)>, // modality, item
    keys: usize,                // distinct pair keys
    labels: Vec<usize>,         // ascending
}

/// Draws `count` pair keys of the pool, fewer if the sizes of groups do not add up to it.
pub(super) fn draw(
    dataset: &Dataset,
    together: &ItemGroups,
    pool: &[Vec<bool>],
    count: usize,
    stratify: bool,
    rng: &mut ChaCha8Rng,
) -> Vec<Vec<bool>> {
    let mut units = units(dataset, together, pool);
    units.shuffle(rng);
    let chosen = if stratify {
        stratified(&units, dataset.label_names().len(), count, rng)
    } else {
        first_that_fit(&units, count)
    };
    let mut flags: Vec<Vec<bool>> = pool.iter().map(|m| vec![false; m.len()]).collect();
    for (unit, _) in units.iter().zip(chosen).filter(|(_, chosen)| *chosen) {
        unit.items.iter().for_each(|&(modality, item)| flags[modality][item] = true);
    }
    flags
}

/// The units of a pool, sorted, so that the order of rows does not matter.
fn units(dataset: &Dataset, together: &ItemGroups, pool: &[Vec<bool>]) -> Vec<Unit> {
    let mut by_number: BTreeMap<usize, Unit> = BTreeMap::new();
    for (k, (modality, flags)) in dataset.modalities().iter().zip(pool).enumerate() {
        for item in (0..modality.len()).filter(|&item| flags[item]) {
            let empty = || Unit { items: Vec::new(), keys: 0, labels: Vec::new() };
            let unit = by_number.entry(together.get(k, item)).or_insert_with(empty);
            unit.items.push((k, item));
            unit.labels.extend(modality.labels().indices(item));
        }
    }
    let mut units: Vec<Unit> = by_number.into_values().collect();
    for unit in &mut units {
        unit.labels.sort_unstable();
        unit.labels.dedup();
        let key = |&(k, item): &(usize, usize)| dataset.modalities()[k].pair_key(item);
        let mut keys: Vec<&str> = unit.items.iter().map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        unit.keys = keys.len();
    }
    units
}

fn first_that_fit(units: &[Unit], count: usize) -> Vec<bool> {
    let mut left = count;
    let fits = units.iter().map(|unit| {
        let fits = unit.keys <= left;
        left -= if fits { unit.keys } else { 0 };
        fits
    });
    fits.collect()
}

/// What a subset still needs: pair keys in total, and those of each label.
struct Quota {
    keys: f64,
    labels: Vec<f64>,
}

fn stratified(
    units: &[Unit],
    n_labels: usize,
    count: usize,
    rng: &mut ChaCha8Rng,
) -> Vec<bool> {
    let total: usize = units.iter().map(|unit| unit.keys).sum();
    let mut holders: Vec<Vec<usize>> = vec![Vec::new(); n_labels];
    let mut weight = vec![0.0; n_labels];
    for (at, unit) in units.iter().enumerate() {
        for &label in &unit.labels {
            holders[label].push(at);
            weight[label] += unit.keys as f64;
        }
    }
    let share = count as f64 / (total.max(1)) as f64;
    let quota = |share: f64, keys: usize| Quota {
        keys: keys as f64,
        labels: weight.iter().map(|w| w * share).collect(),
    };
    let mut quotas = [quota(share, count), quota(1.0 - share, total - count)];
    let mut chosen: Vec<Option<bool>> = vec![None; units.len()];
    let mut open: Vec<usize> = holders.iter().map(Vec::len).collect();
    let mut place = |at: usize, label: Option<usize>, open: &mut Vec<usize>| {
        let unit = &units[at];
        let drawn = prefers_first(&quotas, unit, label, rng);
        let quota = &mut quotas[usize::from(!drawn)];
        quota.keys -= unit.keys as f64;
        for &label in &unit.labels {
            quota.labels[label] -= unit.keys as f64;
            open[label] -= 1;
        }
        drawn
    };
    // The rarest label among those with units left, repeatedly.
    while let Some(label) = (0..n_labels).filter(|&l| open[l] > 0).min_by_key(|&l| open[l])
    {
        for &at in &holders[label] {
            if chosen[at].is_none() {
                chosen[at] = Some(place(at, Some(label), &mut open));
            }
        }
    }
    for at in 0..units.len() {
        if chosen[at].is_none() {
            chosen[at] = Some(place(at, None, &mut open));
        }
    }
    chosen.into_iter().map(|drawn| drawn == Some(true)).collect()
}

fn prefers_first(
    [first, rest]: &[Quota; 2],
    unit: &Unit,
    label: Option<usize>,
    rng: &mut ChaCha8Rng,
) -> bool {
    let size = unit.keys as f64;
    if first.keys < size {
        return false;
    }
    if rest.keys < size {
        return true;
    }
    let by_label = label.map_or(0.0, |label| first.labels[label] - rest.labels[label]);
    let (a, b) = if by_label == 0.0 { (first.keys, rest.keys) } else { (by_label, 0.0) };
    if a == b { rng.random() } else { a > b }
}
