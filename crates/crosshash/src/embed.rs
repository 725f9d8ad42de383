//! Two-dimensional t-SNE embedding of real outputs (van der Maaten and Hinton, JMLR 2008; Barnes-Hut
//! variant, JMLR 2014).
//!
//! As in the figure of the JCCH paper: normalised outputs of all modalities for training items of
//! some labels, and the centres of these labels. Only items with exactly one of the labels are
//! included; without labels, all items. With [`Options::every_label`], items with several of the labels
//! belong to the rarest of them, and the sample has as many items of each label as possible, so that a label
//! that contains another one is shown, too. The seed determines the sample and the initial positions.

#[cfg(feature = "tsne")]
mod tsne;

/// Replacement without the cargo feature `tsne`.
#[cfg(not(feature = "tsne"))]
mod tsne {
    use super::Options;
    use crate::{Error, Result};

    pub(super) fn places(
        _: &[f32],
        _: usize,
        _: Vec<f32>,
        _: &Options,
        _: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<f32>> {
        Err(Error::disabled("t-SNE is not available", "tsne"))
    }
}

use std::collections::HashMap;

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

use crate::data::Training;
use crate::encode::Encoder as _;
use crate::tower::normal;
use crate::{Error, Model, Result};

/// Standard deviation of the initial positions.
const START: f64 = 1e-4;

/// Settings of an embedding.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Labels by name; if empty, the most frequent ones.
    pub labels: Vec<String>,
    /// Number of labels, if `labels` is empty.
    pub n_labels: usize,
    /// Maximum items per modality.
    pub items: usize,
    /// Whether items with several of the labels are included, and all labels are sampled alike.
    pub every_label: bool,
    /// Perplexity: the effective number of neighbours.
    pub perplexity: f32,
    /// Reduce the perplexity (to at least 2) if there are too few points; otherwise this is an
    /// error.
    pub fewer: bool,
    /// Iterations.
    pub iterations: usize,
    /// Seed of the sample and the initial positions.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            labels: Vec::new(),
            n_labels: 10,
            items: 1000,
            every_label: false,
            perplexity: 30.0,
            fewer: false,
            iterations: 1000,
            seed: 0,
        }
    }
}

/// A point of the embedding.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Spot {
    /// The modality of an item; none for a centre.
    pub modality: Option<String>,
    /// The item's id, or the label's name for a centre.
    pub id: String,
    /// Label; empty without labels.
    pub label: String,
    /// Position.
    pub at: [f32; 2],
}

/// Orders items so that the labels take turns.
fn alike(items: &mut [(usize, Option<usize>)]) {
    let mut seen: HashMap<Option<usize>, usize> = HashMap::new();
    let mut turn = HashMap::new();
    for &(item, label) in items.iter() {
        let count = seen.entry(label).or_default();
        turn.insert(item, *count);
        *count += 1;
    }
    items.sort_by_key(|(item, _)| turn[item]);
}

/// Embeds a model's training items and centres. `progress` is called with the number of iterations
/// done.
pub fn embed(
    model: &Model,
    training: &Training<'_>,
    options: &Options,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Spot>> {
    let labels = chosen(model, training, options)?;
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    let bits = model.bits().get();
    let (mut spots, mut rows) = (Vec::new(), Vec::new());
    for name in model.modalities() {
        let view = training.train(name)?;
        let known = view.labels();
        let mut items: Vec<(usize, Option<usize>)> = (0..view.len())
            .filter_map(|item| {
                if !training.has_labels() {
                    return Some((item, None));
                }
                let mut own = known.indices(item).filter(|l| labels.contains(l));
                if options.every_label {
                    // Labels are ordered by falling frequency.
                    let rank = |label: &usize| labels.iter().position(|l| l == label);
                    return own.max_by_key(rank).map(|label| (item, Some(label)));
                }
                let first = own.next().filter(|_| own.next().is_none());
                first.map(|label| (item, Some(label)))
            })
            .collect();
        items.shuffle(&mut rng);
        if options.every_label {
            alike(&mut items);
        }
        items.truncate(options.items);
        items.sort_unstable();
        let wanted: Vec<usize> = items.iter().map(|&(item, _)| item).collect();
        rows.extend(model.outputs(name, view.features().select(&wanted), &|_| {})?);
        spots.extend(items.iter().map(|&(item, label)| Spot {
            modality: Some(name.to_owned()),
            id: view.id(item).to_owned(),
            label: label.map_or(String::new(), |label| model.labels()[label].clone()),
            at: [0.0; 2],
        }));
    }
    for &label in labels.iter().filter(|_| !model.centres().is_empty()) {
        rows.extend_from_slice(&model.centres()[label * bits..(label + 1) * bits]);
        let name = model.labels()[label].clone();
        spots.push(Spot { modality: None, id: name.clone(), label: name, at: [0.0; 2] });
    }
    for row in rows.chunks_exact_mut(bits) {
        let length = row.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
        row.iter_mut().for_each(|x| *x /= length);
    }
    let start = normal(2 * spots.len(), START, &mut rng);
    let places = tsne::places(&rows, bits, start, options, progress)?;
    for (spot, at) in spots.iter_mut().zip(places.chunks_exact(2)) {
        spot.at = [at[0], at[1]];
    }
    Ok(spots)
}

/// Indices of the selected labels.
fn chosen(model: &Model, training: &Training<'_>, options: &Options) -> Result<Vec<usize>> {
    let names = model.labels();
    if !options.labels.is_empty() {
        let find = |wanted: &String| {
            names.iter().position(|name| name == wanted).ok_or_else(|| {
                Error::unknown("label", wanted, names.iter().map(String::as_str))
            })
        };
        return options.labels.iter().map(find).collect();
    }
    let mut counts = vec![0; names.len()];
    for name in model.modalities() {
        let histogram = training.train(name)?.labels().histogram();
        counts.iter_mut().zip(histogram).for_each(|(count, n)| *count += n);
    }
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|&label| std::cmp::Reverse(counts[label]));
    order.truncate(options.n_labels);
    Ok(order)
}
