//! A map of real outputs in the plane, by t-SNE (van der Maaten and Hinton, JMLR 2008; in its
//! Barnes-Hut form, JMLR 2014, from the crate `bhtsne`).
//!
//! As in the JCCH paper's figure: outputs of every modality divided by their lengths, for
//! training items of some labels, and the centres of these labels among them. An item is taken
//! if it has exactly one of the labels. The same seed gives the same items and the same start.

#[cfg(feature = "tsne")]
mod tsne;

/// Stands for t-SNE where this build leaves it out.
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
        Err(Error::disabled("maps of outputs are not made", "tsne"))
    }
}

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

use crate::data::Training;
use crate::encode::Encoder as _;
use crate::tower::normal;
use crate::{Error, Model, Result};

/// The deviation of the first places.
const START: f64 = 1e-4;

/// What is drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The labels by name; none for the most frequent ones.
    pub labels: Vec<String>,
    /// How many labels, if none are named.
    pub n_labels: usize,
    /// Items of each modality, at most.
    pub items: usize,
    /// How many neighbours count, about.
    pub perplexity: f32,
    /// Let fewer count, as few as two, where there are too few points for so many; they are
    /// refused otherwise.
    pub fewer: bool,
    /// Iterations.
    pub iterations: usize,
    /// Of the sample and the start.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            labels: Vec::new(),
            n_labels: 10,
            items: 1000,
            perplexity: 30.0,
            fewer: false,
            iterations: 1000,
            seed: 0,
        }
    }
}

/// One place on the map.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Spot {
    /// The modality of an item; none for a centre.
    pub modality: Option<String>,
    /// The item's id, or the label's name for a centre.
    pub id: String,
    /// Its label.
    pub label: String,
    /// Where it is.
    pub at: [f32; 2],
}

/// The map of a model's training items and centres. `progress` hears how many iterations are
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
        let mut items: Vec<(usize, usize)> = (0..view.len())
            .filter_map(|item| {
                let mut own = known.indices(item).filter(|l| labels.contains(l));
                own.next().filter(|_| own.next().is_none()).map(|label| (item, label))
            })
            .collect();
        items.shuffle(&mut rng);
        items.truncate(options.items);
        items.sort_unstable();
        let wanted: Vec<usize> = items.iter().map(|&(item, _)| item).collect();
        rows.extend(model.outputs(name, view.features().select(&wanted), &|_| {})?);
        spots.extend(items.iter().map(|&(item, label)| Spot {
            modality: Some(name.to_owned()),
            id: view.id(item).to_owned(),
            label: model.labels()[label].clone(),
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

/// The labels to draw, by number.
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
