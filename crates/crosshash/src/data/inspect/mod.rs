//! Inspection of a data set: statistics and warnings over all items.

mod content;
mod labels;

use std::collections::{HashMap, HashSet};

use serde::Serialize;

pub use content::{Content, Terms};
pub use labels::{LabelCount, LabelReport, Together};

use super::{Dataset, Dropped, LoadedDataset, Modality, Part, Split};
use crate::Result;

/// The report on a data set.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The name.
    pub name: String,
    /// Licence.
    pub licence: Option<String>,
    /// Source.
    pub source: Option<String>,
    /// Warnings, most important first.
    pub warnings: Vec<String>,
    /// The labels.
    pub labels: LabelReport,
    /// Each modality.
    pub modalities: Vec<ModalityReport>,
    /// Pairs between every two modalities.
    pub pairs: Vec<Pairs>,
    /// The split, if the manifest has one.
    pub split: Option<SplitReport>,
    /// Items that were read but are not used.
    pub dropped: Vec<Dropped>,
}

/// One modality.
#[derive(Debug, Clone, Serialize)]
pub struct ModalityReport {
    /// The name.
    pub name: String,
    /// dense, sparse, text or pictures.
    pub form: &'static str,
    /// Number of items.
    pub items: usize,
    /// Number of features.
    pub width: Option<usize>,
    /// Items without a label.
    pub unlabelled: usize,
    /// Mean number of labels per item.
    pub labels_per_item: f64,
    /// Number of groups, if there are any.
    pub groups: Option<usize>,
    /// Number of distinct pair keys, if they are not the ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair_keys: Option<usize>,
    /// Statistics of its items.
    #[serde(flatten)]
    pub content: Content,
}

/// Number of pair keys (by default ids) that two modalities share.
#[derive(Debug, Clone, Serialize)]
pub struct Pairs {
    /// First modality.
    pub left: String,
    /// Second modality.
    pub right: String,
    /// Keys in both.
    pub both: usize,
    /// Pairs of items: all combinations of the items of a key.
    pub item_pairs: usize,
    /// Keys in both whose labels differ.
    pub different_labels: usize,
    /// Keys in the first only.
    pub left_only: usize,
    /// Keys in the second only.
    pub right_only: usize,
}

/// The split.
#[derive(Debug, Clone, Serialize)]
pub struct SplitReport {
    /// The hash of the split, in hexadecimal digits.
    pub hash: String,
    /// The random seed.
    pub seed: u64,
    /// The sizes, by modality.
    pub parts: Vec<PartSizes>,
    /// Labels that occur in queries but not in training items.
    pub unseen_labels: Vec<String>,
}

/// The sizes of the parts of one modality, and their overlap.
#[derive(Debug, Clone, Serialize)]
pub struct PartSizes {
    /// The modality.
    pub modality: String,
    /// Training items.
    pub train: usize,
    /// Validation items.
    pub validation: usize,
    /// Query items.
    pub query: usize,
    /// Database items.
    pub database: usize,
    /// Queries with exactly the content of a training item.
    pub query_in_train: usize,
    /// Queries with exactly the content of a database item.
    pub query_in_database: usize,
}

/// Inspects a data set. `progress` is called with the number of items done, over all modalities.
pub fn inspect(
    opened: &LoadedDataset,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Report> {
    let split = opened.split_spec.is_some().then(|| opened.split()).transpose()?;
    // Labels from texts are chosen by training texts, so that they need a split.
    let labelled = match &split {
        Some(split) if opened.takes_labels_from_text() => {
            let mut labelled = opened.clone();
            labelled.label_from_text(split)?;
            Some(labelled)
        }
        _ => None,
    };
    let opened = labelled.as_ref().unwrap_or(opened);
    let dataset = &opened.dataset;
    let mut modalities = Vec::new();
    let mut hashes = Vec::new();
    let mut done = 0;
    for modality in dataset.modalities() {
        let (mut content, hash) = content::look(modality, &|n| progress(done + n))?;
        done += modality.len();
        if let Some(split) = &split {
            let analysis = modality.analysis();
            content.terms = content::terms(dataset, split, modality, analysis)?;
        }
        modalities.push(describe(modality, content));
        hashes.push(hash);
    }
    let mut dropped = dataset.dropped().to_vec();
    dropped.extend(split.iter().flat_map(|split| split.dropped().to_vec()));
    let notes = split.as_ref().map_or(Vec::new(), |split| split.notes().to_vec());
    let split = split.map(|split| report_split(opened, &split, &hashes));
    let mut report = Report {
        name: dataset.name().to_owned(),
        licence: opened.manifest.licence.clone(),
        source: opened.manifest.source.clone(),
        warnings: opened.manifest.warning.iter().cloned().collect(),
        labels: labels::report(dataset),
        modalities,
        pairs: pairs(dataset),
        split,
        dropped,
    };
    let warnings = warnings(&report);
    report.warnings.extend(notes.into_iter().chain(warnings));
    Ok(report)
}

fn describe(modality: &Modality, content: Content) -> ModalityReport {
    let labels = modality.labels();
    let carried: usize = (0..labels.len()).map(|item| labels.count(item)).sum();
    let groups = modality.groups();
    ModalityReport {
        name: modality.name().to_owned(),
        form: modality.features().form(),
        items: modality.len(),
        width: modality.features().width(),
        unlabelled: labels.unlabelled(),
        labels_per_item: carried as f64 / (modality.len().max(1)) as f64,
        groups: groups.map(|groups| {
            groups.iter().filter(|group| !group.is_empty()).collect::<HashSet<_>>().len()
        }),
        pair_keys: modality.has_pair_keys().then(|| {
            (0..modality.len()).map(|i| modality.pair_key(i)).collect::<HashSet<_>>().len()
        }),
        content,
    }
}

fn pairs(dataset: &Dataset) -> Vec<Pairs> {
    let modalities = dataset.modalities();
    let keyed: Vec<HashMap<&str, Vec<usize>>> = modalities.iter().map(by_key).collect();
    let mut all = Vec::new();
    for (k, left) in modalities.iter().enumerate() {
        for (l, right) in modalities.iter().enumerate().skip(k + 1) {
            let (mut both, mut item_pairs, mut different_labels) = (0, 0, 0);
            for (key, items) in &keyed[l] {
                let Some(others) = keyed[k].get(key) else { continue };
                both += 1;
                item_pairs += items.len() * others.len();
                let first = right.labels().row(items[0]);
                let same = others.iter().all(|&item| left.labels().row(item) == first)
                    && items.iter().all(|&item| right.labels().row(item) == first);
                different_labels += usize::from(!same);
            }
            all.push(Pairs {
                left: left.name().to_owned(),
                right: right.name().to_owned(),
                both,
                item_pairs,
                different_labels,
                left_only: keyed[k].len() - both,
                right_only: keyed[l].len() - both,
            });
        }
    }
    all
}

/// The items of every pair key.
fn by_key(modality: &Modality) -> HashMap<&str, Vec<usize>> {
    let mut keyed: HashMap<&str, Vec<usize>> = HashMap::with_capacity(modality.len());
    for item in 0..modality.len() {
        keyed.entry(modality.pair_key(item)).or_default().push(item);
    }
    keyed
}

fn report_split(opened: &LoadedDataset, split: &Split, hashes: &[Vec<u64>]) -> SplitReport {
    let dataset = &opened.dataset;
    let mut parts = Vec::new();
    let (mut trained, mut queried) = (HashSet::new(), HashSet::new());
    for (k, modality) in dataset.modalities().iter().enumerate() {
        let content = |part| -> HashSet<u64> {
            split.items(k, part).iter().map(|&item| hashes[k][item]).collect()
        };
        let queries = split.items(k, Part::Query);
        let among = |part| {
            let known = content(part);
            queries.iter().filter(|&&item| known.contains(&hashes[k][item])).count()
        };
        let labels =
            |part| split.items(k, part).iter().flat_map(|&i| modality.labels().indices(i));
        trained.extend(labels(Part::Train));
        queried.extend(labels(Part::Query));
        let size = |part| split.items(k, part).len();
        parts.push(PartSizes {
            modality: modality.name().to_owned(),
            train: size(Part::Train),
            validation: size(Part::Validation),
            query: size(Part::Query),
            database: size(Part::Database),
            query_in_train: among(Part::Train),
            query_in_database: among(Part::Database),
        });
    }
    let mut unseen: Vec<usize> = queried.difference(&trained).copied().collect();
    unseen.sort_unstable();
    let names = dataset.label_names();
    SplitReport {
        hash: format!("{:016x}", split.hash()),
        seed: opened.split_spec.as_ref().map_or(0, |plan| plan.seed),
        parts,
        unseen_labels: unseen.into_iter().map(|label| names[label].clone()).collect(),
    }
}

fn warnings(report: &Report) -> Vec<String> {
    let mut all = Vec::new();
    for modality in &report.modalities {
        let (name, items) = (&modality.name, modality.items);
        let content = &modality.content;
        if content.non_finite > 0 {
            let (row, column) = content.first_non_finite.unwrap_or_default();
            all.push(format!(
                "{name}: {} numbers are not finite, the first in item {row}, column {column} \
                 ({}); training will reject them",
                content.non_finite,
                content.first_non_finite_place.as_deref().unwrap_or_default()
            ));
        }
        if modality.unlabelled > 0 && report.labels.count > 0 {
            all.push(format!(
                "{name}: {} of {items} items have no label; they are relevant to no query",
                modality.unlabelled
            ));
        }
        if content.empty > 0 {
            all.push(format!("{name}: {} of {items} items are empty", content.empty));
        }
        if content.constant > 0 {
            let width = modality.width.unwrap_or(0);
            all.push(format!(
                "{name}: {} of {width} features are constant",
                content.constant
            ));
        }
        if content.duplicates > 0 {
            all.push(format!(
                "{name}: {} of {items} items have the same content as another item",
                content.duplicates
            ));
        }
    }
    let unused = report.labels.histogram.iter().filter(|label| label.items == 0).count();
    if unused > 0 {
        all.push(format!("{unused} of {} labels do not occur", report.labels.count));
    }
    for pair in report.pairs.iter().filter(|pair| pair.both == 0) {
        let (left, right) = (&pair.left, &pair.right);
        let key = if report.modalities.iter().any(|m| m.pair_keys.is_some()) {
            "pair key"
        } else {
            "id"
        };
        all.push(format!("{left} and {right} share no {key}: no item of them is paired"));
    }
    for pair in report.pairs.iter().filter(|pair| pair.different_labels > 0) {
        all.push(format!(
            "{} and {}: {} of {} pairs have different labels",
            pair.left, pair.right, pair.different_labels, pair.both
        ));
    }
    for left in report.dropped.iter().filter(|left| left.items == 0) {
        all.push(format!("{}: {}, which never occurs", left.modality, left.reason));
    }
    if let Some(split) = &report.split {
        for part in &split.parts {
            if part.query_in_train > 0 {
                all.push(format!(
                    "{}: {} of {} queries have exactly the content of a training item",
                    part.modality, part.query_in_train, part.query
                ));
            }
        }
        if !split.unseen_labels.is_empty() {
            all.push(format!(
                "{} labels occur in queries but not in training: {}",
                split.unseen_labels.len(),
                abridged(&split.unseen_labels)
            ));
        }
    } else {
        all.push(
            "there is no split: write [split] before training or evaluation".to_owned(),
        );
    }
    all
}

fn abridged(names: &[String]) -> String {
    match names.len() {
        0..=5 => names.join(", "),
        n => format!("{} and {} more", names[..5].join(", "), n - 5),
    }
}

/// Number of items with the content of an earlier item.
fn repeated(hashes: &[u64]) -> usize {
    let mut seen: HashMap<u64, usize> = HashMap::with_capacity(hashes.len());
    hashes.iter().for_each(|&hash| *seen.entry(hash).or_default() += 1);
    hashes.len() - seen.len()
}
