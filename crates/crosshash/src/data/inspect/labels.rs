//! Frequencies and co-occurrence of labels. Every pair key (by default the id) counts once, even if it is in
//! several modalities.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use crate::data::Dataset;

/// Number of pairs of labels that are reported.
const TOGETHER: usize = 10;

/// The labels of a data set.
#[derive(Debug, Clone, Serialize)]
pub struct LabelReport {
    /// Number of labels.
    pub count: usize,
    /// Distinct pair keys (by default ids) over all modalities.
    pub ids: usize,
    /// How the labels were derived, if they are not given by the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub derived: Option<String>,
    /// Distinct sets of labels that occur.
    pub distinct_sets: usize,
    /// Ids per label, the most frequent first.
    pub histogram: Vec<LabelCount>,
    /// The pairs of labels that occur together most often.
    pub together: Vec<Together>,
}

/// One label.
#[derive(Debug, Clone, Serialize)]
pub struct LabelCount {
    /// The name.
    pub name: String,
    /// Ids with this label.
    pub items: usize,
}

/// Two labels that occur together.
#[derive(Debug, Clone, Serialize)]
pub struct Together {
    /// The first.
    pub left: String,
    /// The second.
    pub right: String,
    /// Ids with both labels.
    pub items: usize,
    /// Frequency relative to independent labels.
    pub lift: f64,
}

pub(super) fn report(dataset: &Dataset) -> LabelReport {
    let names = dataset.label_names();
    let mut counts = vec![0_usize; names.len()];
    let mut both: HashMap<(usize, usize), usize> = HashMap::new();
    let mut sets: HashSet<&[u64]> = HashSet::new();
    let mut ids: HashSet<&str> = HashSet::new();
    for modality in dataset.modalities() {
        for item in 0..modality.len() {
            if !ids.insert(modality.pair_key(item)) {
                continue;
            }
            sets.insert(modality.labels().row(item));
            let carried: Vec<usize> = modality.labels().indices(item).collect();
            for (at, &label) in carried.iter().enumerate() {
                counts[label] += 1;
                carried[..at]
                    .iter()
                    .for_each(|&l| *both.entry((l, label)).or_default() += 1);
            }
        }
    }
    let mut histogram: Vec<LabelCount> = names
        .iter()
        .zip(&counts)
        .map(|(name, &items)| LabelCount { name: name.clone(), items })
        .collect();
    histogram.sort_by_key(|label| std::cmp::Reverse(label.items));
    let mut both: Vec<((usize, usize), usize)> = both.into_iter().collect();
    both.sort_unstable_by_key(|&(pair, items)| (std::cmp::Reverse(items), pair));
    let together = both.into_iter().take(TOGETHER).map(|((a, b), items)| Together {
        left: names[a].clone(),
        right: names[b].clone(),
        items,
        lift: items as f64 * ids.len() as f64 / (counts[a] as f64 * counts[b] as f64),
    });
    LabelReport {
        count: names.len(),
        ids: ids.len(),
        derived: dataset.label_note().map(str::to_owned),
        distinct_sets: sets.len(),
        together: together.collect(),
        histogram,
    }
}
